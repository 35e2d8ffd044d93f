"""Arrays by name, with a description, in one file that anyone may have written; nothing in it is executed."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gridtune.errors import GridtuneError
from gridtune.storage import draft_of

_FORMAT = 1
_ABOUT = "about"
#: Bytes that a file may hold once decompressed.
_MOST_BYTES = 1 << 30
#: What a damaged file raises, beside Python's own errors.
_DAMAGED = (zipfile.BadZipFile, zlib.error)


def write_arrays(path: str | Path, arrays: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write arrays by name and a description, which are values of JSON, to one file, atomically."""
    with draft_of(Path(path)) as draft, draft.open("wb") as file:
        np.savez(file, **{**arrays, _ABOUT: np.array(json.dumps({"format": _FORMAT, **about}))})


def read_arrays(
    path: str | Path, what: str, *, error: type[GridtuneError], described: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays in a file, and their description.

    Parameters
    ----------
    path
        The file.
    what
        The expected content, for messages.
    error
        What is raised if it does not.
    described
        False for arrays of another program, which have no description.
    """
    file = Path(path)
    try:
        check_unpacked_size(file, error=error)
        with np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        about = json.loads(str(arrays.pop(_ABOUT))) if described else {"format": _FORMAT}
    except OSError as fault:
        raise error(f"cannot be read: {fault.strerror or fault}", path=file) from fault
    except (*_DAMAGED, ValueError, KeyError, EOFError, MemoryError, AttributeError, RuntimeError) as fault:
        raise error(f"holds no {what}", path=file) from fault
    form = about.get("format") if isinstance(about, dict) else None
    if form != _FORMAT:
        raise error(f"must be of format {_FORMAT}, but got {form!r}", path=file)
    return arrays, about


def check_unpacked_size(path: Path, *, error: type[GridtuneError]) -> None:
    """Refuse a zip file that holds more than a policy or a search can need; others pass.

    Raises
    ------
    GridtuneError
        Of the class given.
    OSError, zipfile.BadZipFile
        If it cannot be read, or is a damaged zip file.
    """
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            return
        with zipfile.ZipFile(file) as archive:
            size = sum(member.file_size for member in archive.infolist())
    if size > _MOST_BYTES:
        raise error(f"holds {size:,} bytes once decompressed, more than {_MOST_BYTES:,}", path=path)
