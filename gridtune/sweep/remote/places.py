"""Sweeps where they lie, looked at: in a folder here, or at a URL.

What lies at a URL is copied into the user's cache, each time only what is new. Looking needs no more than the
right to read, disturbs no driver, and changes nothing at the URL.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gridtune.errors import GridtuneError, SweepError
from gridtune.storage import FileFacts, Storage, as_local, is_url
from gridtune.sweep.execution.status import STATUS_FILE, LockOwner, lock_owner
from gridtune.sweep.journal.journal import sweep_folders
from gridtune.sweep.remote.lock import read_lock
from gridtune.sweep.remote.results import RemoteFiles, checksum_of, replace_file
from gridtune.workload.catalogue import cache_folder

__all__ = [
    "Place",
    "SweepView",
    "has_sweep",
    "place_name",
    "sweeps_in",
    "view_sweep",
]

#: A folder here, or a URL.
Place = str | Path
_JOURNAL = "journal.jsonl"
#: Which segments the copy of a journal is made of.
_COPIED = "segments.json"


@dataclass(frozen=True)
class SweepView:
    """A sweep, looked at.

    Attributes
    ----------
    place
        Where it is.
    folder
        Where its files can be read: that place, or a copy of it.
    owner
        Who writes it or was the last to; None if that is not known.
    """

    place: Place
    folder: Path
    owner: LockOwner | None

    @property
    def is_copy(self) -> bool:
        """Whether the folder is a copy of what lies at a URL."""
        return self.place != self.folder


def place_name(place: Place) -> str:
    """Return the last part of a place."""
    return str(place).rstrip("/").rpartition("/")[2]


@contextlib.contextmanager
def view_sweep(place: Place, *wanted: str) -> Iterator[SweepView]:
    """Give the files of a sweep; errors about them name its place, not the copy.

    Parameters
    ----------
    place
        A sweep's folder, or its URL.
    wanted
        Names of files beside the journal, and of folders with a slash at the end; no others are copied.

    Raises
    ------
    StorageError
        If the storage cannot be reached.
    SweepError
        If no sweep is at the URL, or a segment of its journal is not what was written. A folder is not
        looked into.
    """
    folder = _here(place)
    if folder is not None:
        yield SweepView(folder, folder, lock_owner(folder))
        return
    view = _copy(Storage(str(place)), wanted)
    try:
        yield view
    except GridtuneError as fault:
        if isinstance(fault.path, Path) and fault.path.is_relative_to(view.folder):
            name = fault.path.relative_to(view.folder).as_posix()
            fault.path = str(view.place) if name == "." else f"{view.place}/{name}"
        raise


def has_sweep(place: Place) -> bool:
    """Return whether a sweep is at a place, finished or not."""
    folder = _here(place)
    if folder is not None:
        return (folder / _JOURNAL).exists()
    return bool(RemoteFiles(Storage(str(place))).segments())


def sweeps_in(place: Place) -> list[Place]:
    """Return the sweeps directly in a folder or at a URL, sorted by name."""
    folder = _here(place)
    if folder is not None:
        return [*sweep_folders(folder)]
    storage = Storage(str(place))
    return [one for name in storage.folders() if has_sweep(one := f"{storage}/{name}")]


def _here(place: Place) -> Path | None:
    """Return the folder that a place is; None of one at a URL."""
    return as_local(str(place)) if is_url(place) else Path(place)


def _copy(storage: Storage, wanted: tuple[str, ...]) -> SweepView:
    files = RemoteFiles(storage)
    segments = files.segments()
    if not segments:
        raise SweepError(
            "no sweep is there",
            path=str(storage),
            hint="give the URL that its --out was; `gridtune status` lists the sweeps in a URL",
        )
    folder = cache_folder() / "views" / checksum_of(str(storage).encode())[:16]
    folder.mkdir(parents=True, exist_ok=True)
    _copy_journal(files, segments, folder)
    files.fetch(files.manifest(), folder, wanted)
    return SweepView(str(storage), folder, _copy_status(storage, folder))


def _copy_journal(files: RemoteFiles, segments: dict[str, FileFacts], folder: Path) -> None:
    """Bring the copy of a journal up to date; its time is that of the last segment."""
    names, path, note = list(segments), folder / _JOURNAL, folder / _COPIED
    content = b""
    try:
        copied, before = json.loads(note.read_text(encoding="utf-8")), path.read_bytes()
        count = len(copied["names"])
        if copied["names"] == names[:count] and copied["sum"] == checksum_of(before):
            content, names = before, names[count:]
    except (OSError, ValueError, KeyError, TypeError):
        # There is no copy yet, or not a sound one.
        pass
    content += files.journal(names)
    replace_file(path, content)
    replace_file(note, json.dumps({"names": list(segments), "sum": checksum_of(content)}).encode())
    written = max(facts.written for facts in segments.values())
    os.utime(path, ns=(written, written))


def _copy_status(storage: Storage, folder: Path) -> LockOwner | None:
    """Copy what the driver says of itself, with the time of its last sign; return who it is."""
    path = folder / STATUS_FILE
    lock = read_lock(storage)
    if lock is None:
        facts = storage.facts(STATUS_FILE)
        if facts is None:
            path.unlink(missing_ok=True)
            return None
        replace_file(path, storage.read(STATUS_FILE))
        os.utime(path, ns=(facts.written, facts.written))
        return _ended(path)
    if lock.status:
        replace_file(path, lock.status.encode())
        os.utime(path, (lock.written, lock.written))
    else:
        path.unlink(missing_ok=True)
    return lock.owner


def _ended(status: Path) -> LockOwner | None:
    """Return the driver that an ended sweep had."""
    try:
        content = json.loads(status.read_bytes())
        return LockOwner(int(content["process"]), str(content["host"]), alive=False)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
