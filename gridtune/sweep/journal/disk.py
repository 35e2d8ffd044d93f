"""Disks that may be full, or that nothing can be written to."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from gridtune.errors import SweepError

T = TypeVar("T")

#: Is called with a sentence when the disk is full.
OnFull = Callable[[str], None]

#: What the operating system says of a full disk, and of a quota that is used up.
_FULL = {errno.ENOSPC, errno.EDQUOT}
#: Seconds between two tries.
_RETRY_SECONDS = 1.0


def check_writable(folder: Path, hint: str = "give another with --out", free: int = 0) -> None:
    """Make a file in the folder and take it away again; in the nearest one above where it is not there yet.

    Permissions are not enough to know: the superuser has all of them and still cannot write everywhere.
    The folder itself is not made: an array job's tasks, which share those above, would take them from under
    each other when they took them away again.

    Raises
    ------
    SweepError
        If nothing can be written there, or fewer bytes are free on the disk; with the hint.
    """
    there = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), Path())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as fault:
        reason = (fault.strerror or type(fault).__name__).lower()
        raise SweepError(
            f"nothing can be written into this folder: {reason}",
            path=folder if folder.parts else Path.cwd(),
            hint=hint,
        ) from None
    left = shutil.disk_usage(there).free if free else 0
    if left < free:
        raise SweepError(
            f"only {left / 2**20:.0f} MB are free on this disk, a sweep needs {free / 2**20:.0f}",
            path=folder,
            hint="make room, or give a folder on another disk with --out",
        )


def is_full(fault: BaseException) -> bool:
    """Return True for the fault of a full disk, or of a quota that is used up."""
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


class AppendOnlyFile(io.FileIO):
    """A file that is only ever appended to, and waits where the disk is full.

    Parameters
    ----------
    path
        The file; made if it is missing.
    on_full
        Is called with a sentence when the disk is full.
    """

    def __init__(self, path: Path, on_full: OnFull | None = None) -> None:
        super().__init__(path, "ab")
        self._path, self._on_full = path, on_full

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self.fileno()).st_size

    def append(self, content: bytes) -> None:
        """Write all of `content`, whole lines; it survives this process once the operating system has it.

        Where it cannot, the lines that were written whole stay: half a one must not be followed by another.
        """
        start, rest = self.size, memoryview(content)
        try:
            while rest:
                # A full disk may take a part: the next try goes on after it.
                write = partial(os.write, self.fileno(), rest)
                rest = rest[when_there_is_room(write, self._path, self._on_full) :]
        except BaseException:
            with contextlib.suppress(OSError):
                self.truncate(start + content.rfind(b"\n", 0, self.size - start) + 1)
            raise

    def sync(self) -> None:
        """Force everything onto the disk."""
        when_there_is_room(partial(os.fsync, self.fileno()), self._path, self._on_full)

    def close(self) -> None:
        """Force everything onto the disk, as far as it has room, and close the file, if that is not done."""
        if not self.closed:
            try:
                os.fsync(self.fileno())
            except OSError as fault:
                if not is_full(fault):
                    raise
            super().close()
