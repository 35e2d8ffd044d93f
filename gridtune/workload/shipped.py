"""Where the logs and search spaces lie that come with gridtune."""

from __future__ import annotations

import sysconfig
from pathlib import Path

__all__ = ["shipped_folder"]


def shipped_folder(name: str) -> Path:
    """Return the folder `traces` or `search_spaces`: the repository's, or an installed package's copy.

    A working copy has them beside the package. An installation has them in `share/gridtune/` of its
    environment, where the wheel puts data that belongs to no module.
    """
    repository = Path(__file__).resolve().parents[2]
    if (repository / "pyproject.toml").is_file():
        return repository / name
    return Path(sysconfig.get_path("data")) / "share" / "gridtune" / name
