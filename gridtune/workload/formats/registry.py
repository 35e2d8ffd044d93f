"""The registry of trace formats: each is a name, a suffix, a reader and a writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gridtune.errors import WorkloadError
from gridtune.registry import Registry
from gridtune.workload.formats.compression import split_compression
from gridtune.workload.formats.log import RawLog
from gridtune.workload.workload import Workload

__all__ = ["Format", "find_format", "format_names", "get_format", "register_format"]


def _loses_nothing(workload: Workload) -> list[str]:
    return []


def _says_nothing(start: bytes) -> bool:
    return False


@dataclass(frozen=True)
class Format:
    """A trace format.

    Attributes
    ----------
    name
        What users call it.
    suffix
        The end of its files' names, before `.gz` or `.xz`.
    read
        Takes a `LogStream` and the format's own options (keywords), returns a `RawLog`.
    write
        Takes a workload and an open binary file; None for a format that is only read.
    summary
        What it holds, in a line.
    cannot_hold
        Names the fields of a workload that the format has no place for.
    recognises
        Whether a file's first bytes are this format's: for files with a suffix of no format.
    """

    name: str
    suffix: str
    read: Callable[..., RawLog]
    write: Callable[[Workload, BinaryIO], None] | None
    summary: str
    cannot_hold: Callable[[Workload], list[str]] = _loses_nothing
    recognises: Callable[[bytes], bool] = _says_nothing


def _checked(added: Format) -> Format:
    if not isinstance(added, Format):
        raise WorkloadError(f"a format is a gridtune.workload.formats.Format, not {added!r}")
    if not added.suffix.startswith(".") or added.suffix != added.suffix.lower():
        raise WorkloadError(f"a suffix is lower-case and starts with a dot, but got {added.suffix!r}")
    others = (other for other in FORMATS.imported.values() if other.name != added.name)
    if any(added.suffix == other.suffix for other in others):
        raise WorkloadError(f"a format for {added.suffix!r} is registered already")
    return added


#: All formats by name, those that come with gridtune first.
FORMATS: Registry[Format] = Registry(
    "format", "gridtune.formats", WorkloadError, convert=_checked, code=lambda added: added.read
)


def register_format(added: Format) -> None:
    """Add a format; neither name nor suffix is ever overwritten."""
    FORMATS.register(_checked(added).name, added)


def format_names() -> list[str]:
    """Return the names of all registered formats, sorted."""
    return FORMATS.names()


def get_format(name: str) -> Format:
    """Return the format of that name."""
    return FORMATS.find(name)


def find_format(path: Path | str) -> tuple[Format, str] | None:
    """Return the format that a file's suffix stands for and the name without suffixes, or None."""
    name, _ = split_compression(Path(path).name)
    # Other packages are imported only for a suffix that is not gridtune's own.
    for formats in (FORMATS.imported, FORMATS):
        for format in formats.values():
            if name.lower().endswith(format.suffix) and len(name) > len(format.suffix):
                return format, name[: -len(format.suffix)]
    return None
