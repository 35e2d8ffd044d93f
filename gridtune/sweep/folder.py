"""Folders of sweeps: which there are, and a check that one can be written into."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from gridtune.errors import SweepError

__all__ = ["check_writable", "sweep_folders"]

#: Where sweeps are by default, a folder each.
RESULTS = Path("results")


def check_writable(folder: Path, hint: str = "give another with --out") -> None:
    """Make the folder and a file in it, and take both away again.

    Permissions are not enough to know: the superuser has all of them and still cannot write everywhere.

    Raises
    ------
    SweepError
        If nothing can be written there; with the hint.
    """
    created: list[Path] = []
    try:
        created = [directory for directory in (folder, *folder.parents) if not directory.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as fault:
        reason = (fault.strerror or type(fault).__name__).lower()
        raise SweepError(
            f"nothing can be written into this folder: {reason}",
            path=folder if folder.parts else Path.cwd(),
            hint=hint,
        ) from None
    finally:
        for directory in created:
            # What somebody else has put something into meanwhile stays.
            with contextlib.suppress(OSError):
                directory.rmdir()


def sweep_folders(root: Path = RESULTS) -> list[Path]:
    """Return the folders in `root` that hold a sweep's journal, sorted by name."""
    return sorted(path.parent for path in root.glob("*/journal.jsonl"))
