"""Where a script's results go."""

import os
import sys
from pathlib import Path

__all__ = ["results_home"]

#: The folder in which Ray unpacks what a job was sent with.
_UNPACKED = "working_dir_files"


def results_home() -> Path:
    """Return the folder that GRIDTUNE_HOME names, else this one.

    Raises
    ------
    SystemExit
        If this one is a cluster job's own folder, which goes away with the cluster.
    """
    if "GRIDTUNE_HOME" not in os.environ and _UNPACKED in Path.cwd().parts:
        sys.exit(
            "results would go away with this job's folder: name one on the head node that stays\n"
            "  ray job submit --working-dir . -- env GRIDTUNE_HOME=/FOLDER python scripts/…"
        )
    return Path(os.environ.get("GRIDTUNE_HOME", "."))
