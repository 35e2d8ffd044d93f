"""Files that code of users reads: recorded while it is loaded, or declared."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from gridtune.errors import GridtuneError

__all__ = ["content_of", "declare_files", "declared_files", "is_declared", "recording_opens", "watch_opens"]

#: Called with each file that is opened for reading, and the frame that opens it; None while nothing records.
_RECORD: ContextVar[Callable[[str, Any], None] | None] = ContextVar("_RECORD", default=None)
#: Called where nothing else records, in every thread; None until something is watched.
_WATCH: list[Callable[[str, Any], None]] = []
#: The attribute of a function that holds its declared files.
_DECLARED = "__gridtune_files__"
#: All files that functions of this process declare.
_ALL_DECLARED: set[Path] = set()


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open":
        return
    file, _, flags = arguments
    reads = flags & (os.O_WRONLY | os.O_RDWR) == 0
    if reads and isinstance(file, str | bytes | os.PathLike):
        one = _RECORD.get()
        for record in _WATCH if one is None else (one,):
            record(os.fsdecode(file), sys._getframe(1))


@cache
def _install_hook() -> None:
    # Once: a hook cannot be removed.
    sys.addaudithook(_hook)


@contextmanager
def recording_opens(counts: Callable[[Path, Any], bool]) -> Iterator[set[Path]]:
    """Record the files that this context opens for reading or declares, and those that it does not find.

    Parameters
    ----------
    counts
        Tells of a file and the frame that opens it whether it is recorded. Of a compiled module the file is
        its source.
    """
    _install_hook()
    files: set[Path] = set()
    token = _RECORD.set(_recorder(files, counts))
    try:
        yield files
    finally:
        _RECORD.reset(token)


def watch_opens(counts: Callable[[Path, Any], bool]) -> set[Path]:
    """Record from now on, wherever `recording_opens` does not; return the set that files are put into."""
    _install_hook()
    files: set[Path] = set()
    _WATCH.append(_recorder(files, counts))
    return files


def _recorder(files: set[Path], counts: Callable[[Path, Any], bool]) -> Callable[[str, Any], None]:
    def record(name: str, frame: Any) -> None:
        if name.endswith(".pyc"):
            with suppress(ValueError):  # a name that Python itself does not use
                name = importlib.util.source_from_cache(name)
        file = Path(name).resolve()
        if frame is None or counts(file, frame):
            files.add(file)

    return record


def content_of(file: Path) -> str:
    """Return the SHA-256 of a file's content; "" if it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def declare_files(
    function: Any, files: Iterable[str | Path], decorator: str, error: type[GridtuneError]
) -> None:
    """Let the content of files count as part of a function's code.

    Parameters
    ----------
    function
        The function.
    files
        The files; relative paths are relative to the function's file, in a notebook to the current folder.
    decorator
        The name of what declares them, for messages.
    error
        The exception to raise.

    Raises
    ------
    GridtuneError
        If they are not a list of paths, or a file is missing.
    """
    paths = () if isinstance(files, str | Path) else tuple(files)
    if isinstance(files, str | Path) or not all(isinstance(path, str | Path) for path in paths):
        raise error(f"{decorator}: files must be a list of paths, but got {files!r}", hint='files=["a.json"]')
    if not paths:
        return
    source = Path(getattr(function, "py_func", function).__code__.co_filename)
    folder = source.parent if source.is_absolute() else Path.cwd()
    declared = {os.fspath(path): folder / path for path in paths}
    for file in declared.values():
        if not file.is_file():
            raise error(f"{decorator}: files names {file}, and there is no such file")
        if (record := _RECORD.get()) is not None:
            record(str(file), None)
    setattr(function, _DECLARED, (decorator, error, declared))
    _ALL_DECLARED.update(file.resolve() for file in declared.values())


def is_declared(file: Path) -> bool:
    """Return whether a function of this process declares a file, so that ids count it."""
    return file in _ALL_DECLARED


def declared_files(function: Any) -> dict[str, str]:
    """Return the SHA-256 of each declared file of a function, by its name there.

    Raises
    ------
    GridtuneError
        If one has gone.
    """
    decorator, error, declared = getattr(function, _DECLARED, ("", GridtuneError, {}))
    checksums = {name: content_of(file) for name, file in declared.items()}
    for name, checksum in checksums.items():
        if not checksum:
            raise error(f"{decorator}: the file {declared[name]} cannot be read")
    return checksums
