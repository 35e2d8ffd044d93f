"""Search spaces that come with a system: found by `SYSTEM/NAME`, wherever its package is installed."""

from __future__ import annotations

from pathlib import Path

from gridtune.core.system import SYSTEMS, System

__all__ = ["bundled_spaces", "find_space"]


def bundled_spaces(system: System) -> list[Path]:
    """Return the files of the search spaces that come with a system."""
    folder = system.search_spaces
    return [] if folder is None else sorted(folder.glob("*.yaml"))


def find_space(path: str | Path) -> Path:
    """Return the file of a search space.

    Parameters
    ----------
    path
        A file; or `SYSTEM/NAME`, where there is no such file and the system has a search space of that name.
    """
    file = Path(path)
    if file.exists() or len(file.parts) != 2 or file.parts[0] not in SYSTEMS:
        return file
    spaces = {space.stem: space for space in bundled_spaces(SYSTEMS.find(file.parts[0]))}
    return spaces.get(file.stem, file)
