"""Folders of sweeps: which there are, and a check that one can be written into."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gridtune.errors import SweepError

__all__ = ["check_writable", "sweep_folders"]

#: Where sweeps are by default, a folder each.
RESULTS = Path("results")


def check_writable(folder: Path, hint: str = "give another with --out") -> None:
    """Make a file in the folder and take it away again; in the nearest one above where it is not there yet.

    Permissions are not enough to know: the superuser has all of them and still cannot write everywhere.
    The folder itself is not made: an array job's tasks, which share those above, would take them from under
    each other when they took them away again.

    Raises
    ------
    SweepError
        If nothing can be written there; with the hint.
    """
    there = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), Path())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as fault:
        reason = (fault.strerror or type(fault).__name__).lower()
        raise SweepError(
            f"nothing can be written into this folder: {reason}",
            path=folder if folder.parts else Path.cwd(),
            hint=hint,
        ) from None


def sweep_folders(root: Path = RESULTS) -> list[Path]:
    """Return the folders in `root` that hold a sweep's journal, sorted by name."""
    return sorted(path.parent for path in root.glob("*/journal.jsonl"))
