"""Where the logs and search spaces lie that come with gridtune."""

from __future__ import annotations

import sysconfig
from pathlib import Path

__all__ = ["shipped_folder"]


def shipped_folder(name: str) -> Path:
    """Return the folder `traces` or `search_spaces`: the repository's, or an installed package's copy.

    A working copy has them beside the package. An installation has them in `share/gridtune/` of its
    environment, or of the user's home after `pip install --user`, where a wheel puts data that belongs to no
    module.
    """
    repository = Path(__file__).resolve().parents[2]
    if (repository / "pyproject.toml").is_file():
        return repository / name
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    places = [Path(sysconfig.get_path("data", scheme)) / "share" / "gridtune" / name for scheme in schemes]
    return next((place for place in places if place.is_dir()), places[0])
