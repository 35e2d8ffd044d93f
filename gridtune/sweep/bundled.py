"""Search spaces that come with gridtune or with a system, wherever these are installed."""

from __future__ import annotations

from pathlib import Path

from gridtune.core.system import SYSTEMS, System
from gridtune.workload.shipped import shipped_folder

__all__ = ["SPACES", "bundled_spaces", "find_space", "spaces_here"]

#: The folder that search spaces lie in, here and in what is installed.
SPACES = "search_spaces"


def bundled_spaces(system: System) -> list[Path]:
    """Return the files of the search spaces that come with a system."""
    folder = system.search_spaces
    return [] if folder is None else sorted(folder.glob("*.yaml"))


def spaces_here() -> list[Path]:
    """Return the search spaces in `search_spaces/` here; where there is no such folder, gridtune's own."""
    here = Path(SPACES)
    folder = here if here.is_dir() else shipped_folder(SPACES)
    return [here / space.name for space in sorted(folder.glob("*.yaml"))]


def find_space(path: str | Path) -> Path:
    """Return the file of a search space.

    Parameters
    ----------
    path
        A file. Where there is none: `search_spaces/NAME.yaml`, one that comes with gridtune; or
        `SYSTEM/NAME`, one that comes with a system.
    """
    file = Path(path)
    if file.exists() or len(file.parts) != 2:
        return file
    if file.parts[0] == SPACES:
        shipped = shipped_folder(SPACES) / file.name
        return shipped if shipped.is_file() else file
    if file.parts[0] not in SYSTEMS:
        return file
    spaces = {space.stem: space for space in bundled_spaces(SYSTEMS.find(file.parts[0]))}
    return spaces.get(file.stem, file)
