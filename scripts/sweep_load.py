"""Find up to which load a policy holds.

    python scripts/sweep_load.py
    ray job submit --working-dir . -- python scripts/sweep_load.py

The study is written down in search_spaces/load.yaml. Started again, it runs only what is missing.
"""

import argparse
import os
import sys
from pathlib import Path

import gridtune as gt

SPACE = Path(__file__).resolve().parent.parent / "search_spaces" / "load.yaml"

if __name__ == "__main__":
    raw = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=raw).parse_args()
    # A cluster job's own folder goes away with it; results go where GRIDTUNE_HOME says, else here.
    os.chdir(os.environ.get("GRIDTUNE_HOME", "."))
    study = gt.run_sweep(SPACE)
    sys.exit(0 if study.complete else 1)
