"""A study in Python: which backfilling is best, and what protecting more reservations costs.

    python scripts/sweep_backfilling.py
    ray job submit --working-dir . -- env GRIDTUNE_HOME=/FOLDER python scripts/sweep_backfilling.py

The search space is search_spaces/backfilling.yaml; copy this script to run another. Started again, it runs
only what is missing. `gridtune sweep search_spaces/backfilling.yaml` does the same from the command line. A
job writes its results to GRIDTUNE_HOME, a folder on the head node.
"""

import argparse
import os
import sys
from pathlib import Path

from home import results_home

import gridtune as gt

SPACE = Path(__file__).resolve().parent.parent / "search_spaces" / "backfilling.yaml"

if __name__ == "__main__":
    raw = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=raw).parse_args()
    home = results_home()
    home.mkdir(parents=True, exist_ok=True)
    os.chdir(home)
    study = gt.run_sweep(SPACE)
    sys.exit(0 if study.complete else 1)
