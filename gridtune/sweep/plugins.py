"""A user's policies and systems: Python files a search space names, run in driver and workers."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gridtune.core.plugins import load_plugin
from gridtune.errors import SweepError

__all__ = ["Plugin", "load_plugins", "read_plugin"]


@dataclass(frozen=True)
class Plugin:
    """A plug-in's file name and source: all a worker on another machine needs.

    Attributes
    ----------
    name
        The file's name without suffix.
    source
        Its text.
    """

    name: str
    source: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the source."""
        return hashlib.sha256(self.source.encode()).hexdigest()


def read_plugin(path: Path) -> Plugin:
    """Return the plug-in in a file."""
    try:
        return Plugin(path.stem, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as fault:
        raise SweepError(f"the plug-in cannot be read: {fault}", path=path) from None


def load_plugins(plugins: Iterable[Plugin]) -> None:
    """Run each plug-in once in this process, so that what it registers is there.

    The source is run from a file whose path is made of its content: the driver and all workers of a
    machine compile the same file, so that compiled policies are cached once, and an edited plug-in is
    another file.
    """
    for plugin in plugins:
        load_plugin(_kept(plugin))


def _kept(plugin: Plugin) -> Path:
    """Return the file in the user's cache that holds the plug-in's source, writing it if need be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    path = cache / "gridtune" / "plugins" / plugin.checksum[:16] / f"{plugin.name}.py"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            file.write(plugin.source)
        Path(file.name).replace(path)
    return path
