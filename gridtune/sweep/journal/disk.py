"""Waiting for room on a full disk: a sweep of hours should not end for it."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

__all__ = ["AppendOnlyFile", "OnFull", "is_full", "when_there_is_room"]

T = TypeVar("T")

#: Is called with a sentence when the disk is full.
OnFull = Callable[[str], None]

#: What the operating system says of a full disk, and of a quota that is used up.
_FULL = {errno.ENOSPC, errno.EDQUOT}
#: Seconds between two tries.
_RETRY_SECONDS = 1.0


def is_full(fault: BaseException) -> bool:
    """Whether a fault is that of a full disk, or of a quota that is used up."""
    return isinstance(fault, OSError) and fault.errno in _FULL


def when_there_is_room(action: Callable[[], T], path: Path, on_full: OnFull | None = None) -> T:
    """Return what an action returns; as long as it finds the disk full, try again every second.

    Parameters
    ----------
    action
        Writes something. It may be called again after it has failed.
    path
        What it writes to, for the message.
    on_full
        Is called once, when the disk is found to be full.
    """
    warned = False
    while True:
        try:
            return action()
        except OSError as fault:
            if not is_full(fault):
                raise
        if on_full is not None and not warned:
            on_full(f"the disk of {path} is full: waiting; make room and the sweep goes on, nothing is lost")
        warned = True
        time.sleep(_RETRY_SECONDS)


class AppendOnlyFile:
    """A file that is only ever appended to, and waits where the disk is full.

    Parameters
    ----------
    path
        The file; made if it is missing.
    on_full
        Is called with a sentence when the disk is full.
    """

    def __init__(self, path: Path, on_full: OnFull | None = None) -> None:
        self._path, self._on_full = path, on_full
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._descriptor

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        """Cut off everything after the first `size` bytes."""
        os.ftruncate(self._descriptor, size)

    def append(self, content: bytes) -> None:
        """Write all of `content`, whole lines; what the operating system has taken survives this process.

        Where it cannot, the lines that were written whole stay: half a one must not be followed by another.
        """
        start, rest = self.size, memoryview(content)
        try:
            while rest:
                # A full disk may take a part: the next try goes on after it.
                write = partial(os.write, self._descriptor, rest)
                rest = rest[when_there_is_room(write, self._path, self._on_full) :]
        except BaseException:
            with contextlib.suppress(OSError):
                self.truncate(start + content.rfind(b"\n", 0, self.size - start) + 1)
            raise

    def sync(self) -> None:
        """Force everything onto the disk."""
        when_there_is_room(partial(os.fsync, self._descriptor), self._path, self._on_full)

    def close(self) -> None:
        """Force everything onto the disk, as far as it has room, and close the file, if that is not done."""
        if not self.closed:
            try:
                os.fsync(self._descriptor)
            except OSError as fault:
                if not is_full(fault):
                    raise
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._descriptor < 0
