"""The files in a sweep's folder that are derived from its cells, listed so that outdated ones can go.

A sweep whose space has changed writes other tables and figures than before. Those of before would stand
beside them as if they were of the same study. Only what is on the list is ever removed: the journal, the
facts and whatever a person has put into the folder are not on it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

__all__ = ["DERIVED_FILE", "add_derived", "replace_derived"]

#: The list in a sweep's folder.
DERIVED_FILE = "derived.json"


def add_derived(folder: Path, written: Iterable[Path]) -> None:
    """Add files that were written to the list; whatever else is on it stays."""
    _write(folder, _listed(folder) | _names(folder, written))


def replace_derived(folder: Path, written: Iterable[Path]) -> list[Path]:
    """Remove the files on the list that were not written again, and list those that were.

    Returns
    -------
    list of Path
        What was removed; folders left empty by it go too.
    """
    names = _names(folder, written)
    removed = [path for name in sorted(_listed(folder) - names) if (path := _inside(folder, name))]
    for path in removed:
        path.unlink()
        for parent in path.parents:
            if parent == folder:
                break
            # A folder that still holds something refuses.
            with contextlib.suppress(OSError):
                parent.rmdir()
    _write(folder, names)
    return removed


def _names(folder: Path, written: Iterable[Path]) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in written}


def _listed(folder: Path) -> set[str]:
    try:
        content = json.loads((folder / DERIVED_FILE).read_text(encoding="utf-8"))
        return {str(name) for name in content["files"]}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # Without a list nothing is known to be derived, and so nothing is removed.
        return set()


def _inside(folder: Path, name: str) -> Path | None:
    """Return a listed file that is there; None for one that is not, or lies outside the folder."""
    path = folder / name
    return path if path.is_file() and path.resolve().is_relative_to(folder.resolve()) else None


def _write(folder: Path, names: set[str]) -> None:
    draft = folder / f"{DERIVED_FILE}.draft"
    draft.write_text(json.dumps({"files": sorted(names)}, indent=1) + "\n", encoding="utf-8")
    draft.replace(folder / DERIVED_FILE)
