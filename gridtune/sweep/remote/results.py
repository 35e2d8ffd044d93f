"""Where results are written that are not in a folder here: at a URL, with a working copy in the user's cache.

The journal that is appended to is the working copy's. Storage such as S3 has no append, so each addition goes
to the URL as a file of its own, a segment: numbered, named after its checksum and never changed. A result
counts as stored when its segment is written; any machine makes the journal of these. The other files (tables,
figures and the page) follow at the end, listed with checksums.

```
URL/journal/00000001-<checksum>.jsonl   segments of the journal
URL/drivers/<id>.json                   the lock of the driver that writes, with its status
URL/status.json                         how the last driver ended
URL/files.json                          the other files, with their checksums
URL/results.parquet, report.md, …
```

One driver at a time writes them (`gridtune.sweep.remote.lock`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gridtune.core.cells import CellResult
from gridtune.errors import GridtuneError, StorageError, SweepError
from gridtune.storage import FileFacts, Storage, as_local, draft_of, is_url
from gridtune.sweep.execution.observing import SweepObserver, SweepPlan
from gridtune.sweep.execution.status import STATUS_FILE, DriverStatus, LockOwner
from gridtune.sweep.journal.journal import JOURNAL_NAME, parse_line, read_journal, sweep_folders
from gridtune.sweep.remote.lock import LockSign, StorageLock
from gridtune.workload.catalogue import cache_folder

#: What a sweep, or a shard of one, says of itself before it begins.
_FACTS = ("sweep.json", "shard.json")
#: Files that are stored otherwise, or say something of this machine alone.
_LOCAL = re.compile(r"\..*|.*\.draft|journal\..*|status\.json|finished\.json")
_SEGMENTS, _MANIFEST = "journal", "files.json"
#: Digits of a segment's checksum in its name.
_DIGITS = 16
#: Seconds between two tries to write to a storage that is away.
_RETRY_SECONDS = 2.0


class RemoteResults(SweepObserver):
    """The results of a sweep at a URL, locked by this driver, and the folder here that it works in.

    Parameters
    ----------
    url
        Where the results lie.
    say
        Is called with a sentence when the storage, or another driver, is waited for.

    Raises
    ------
    StorageError
        If the storage cannot be reached.
    SweepError
        If another driver writes there, or a segment of the journal is not what was written.

    Attributes
    ----------
    folder
        The working copy.
    """

    def __init__(self, url: str, say: Callable[[str], None]) -> None:
        self._storage, self._say = Storage(url), say
        self._files = _RemoteFiles(self._storage)
        self.folder = cache_folder() / "results" / _checksum_of(self._storage.url.encode())[:16]
        self._status = self.folder / STATUS_FILE
        self._status.unlink(missing_ok=True)
        self._lock = StorageLock(self._storage, say, doing=self._doing)
        try:
            self._manifest = self._files.manifest()
            self._fetch()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        try:
            status = self._doing()
            if status and not self._lock.is_lost():
                # The storage may be away: how a sweep ended is not worth waiting for it.
                with contextlib.suppress(StorageError):
                    self._storage.write(STATUS_FILE, status)
        finally:
            self._lock.close()

    def __str__(self) -> str:
        return self._storage.url

    def append(self, content: bytes) -> None:
        """Write whole lines that the journal got; returns when they are stored, however long that takes."""
        self._next += 1
        name = f"{_SEGMENTS}/{self._next:08d}-{_checksum_of(content)[:_DIGITS]}.jsonl"
        self._stored(name, content)

    def started(self, plan: SweepPlan) -> None:
        """Store what the sweep is about, by which another machine goes on with the same runs."""
        for name in _FACTS:
            self.publish(name)

    def publish(self, pattern: str = "**/*") -> None:
        """Store the files of the working copy that have changed; take away those that it no longer has."""
        there = {
            path.relative_to(self.folder).as_posix(): path
            for path in self.folder.glob(pattern)
            if path.is_file() and not _LOCAL.fullmatch(path.name)
        }
        for name, path in there.items():
            content = path.read_bytes()
            checksum = _checksum_of(content)
            if self._manifest.get(name) != checksum:
                self._stored(name, content)
                self._manifest[name] = checksum
        if pattern == "**/*":
            for name in self._manifest.keys() - there.keys():
                self._storage.delete(name)
                del self._manifest[name]
        self._stored(_MANIFEST, json.dumps(self._manifest, indent=1).encode())

    def _stored(self, name: str, content: bytes) -> None:
        """Write a file; while the storage is away, try again and again."""
        warned = False
        while True:
            if self._lock.is_lost():
                message = f"another driver has taken over {self._storage}, as this one was silent for long"
                raise SweepError(
                    message, hint="nothing is lost; the same command goes on when that has ended"
                )
            try:
                return self._storage.write(name, content)
            except StorageError as fault:
                if not warned:
                    self._say(f"{fault.message}: waiting; the sweep goes on when it answers, nothing is lost")
                warned = True
            time.sleep(_RETRY_SECONDS)

    def _doing(self) -> bytes:
        """Return what the driver says of itself; nothing before it has begun."""
        try:
            return self._status.read_bytes()
        except OSError:
            return b""

    def _fetch(self) -> None:
        """Make the working copy's journal of the segments, and of lines that were not stored yet."""
        names = list(self._storage.files(_SEGMENTS))
        stored = self._files.journal(names)
        numbers = (name.partition("-")[0] for name in names)
        self._next = max((int(number) for number in numbers if number.isdigit()), default=0)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / JOURNAL_NAME
        draft = path.with_suffix(".draft")
        here = path.read_bytes() if path.exists() else b""
        here = here[: here.rfind(b"\n") + 1]
        if here.startswith(stored):
            missing = here[len(stored) :]
        else:
            # Another machine has gone on, and may have run the same cells.
            draft.write_bytes(stored)
            lines, results = set(stored.splitlines()), read_journal(draft)
            late = (line for line in here.splitlines(keepends=True) if line[:-1] not in lines)
            missing = b"".join(line for line in late if _is_news(line, results))
        draft.write_bytes(stored + missing)
        draft.replace(path)
        if missing:
            self.append(missing)
        self._files.fetch(self._manifest, self.folder, _FACTS)


def _is_news(line: bytes, stored: Mapping[str, CellResult]) -> bool:
    """Return whether a line that was not stored adds to the results that were."""
    try:
        result = parse_line(line.rstrip(b"\n"), checked=False)
        return not isinstance(result, CellResult) or result.adds_to(stored.get(result.cell_id))
    except (ValueError, TypeError, AttributeError, KeyError):
        # No cell's: what it is, and whether it is sound, is seen when the journal is opened.
        return True


@contextlib.contextmanager
def results_at(
    place: str | Path | None, say: Callable[[str], None]
) -> Iterator[tuple[Path | None, RemoteResults | None]]:
    """Give the folder that a sweep works in, and its results at a URL; None where the place is no URL.

    Parameters
    ----------
    place
        A folder, a URL, or None for the sweep's default.
    say
        As of `RemoteResults`.
    """
    if not isinstance(place, str) or not is_url(place):
        yield None if place is None else Path(place), None
    elif (folder := as_local(place)) is not None:
        yield folder, None
    else:
        with RemoteResults(place, say) as remote:
            yield remote.folder, remote


#: Files that are read at once: each waits for the network.
_AT_ONCE = 16


class _RemoteFiles:
    """The files of a sweep at a URL.

    Parameters
    ----------
    storage
        The place.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def journal(self, names: Iterable[str]) -> bytes:
        """Return the content of some segments, one after another.

        Raises
        ------
        SweepError
            If one is not what was written.
        """
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return b"".join(threads.map(self._segment, names))

    def _segment(self, name: str) -> bytes:
        content = self._storage.read(f"{_SEGMENTS}/{name}")
        if _checksum_of(content)[:_DIGITS] != name.partition("-")[2].partition(".")[0]:
            raise SweepError(
                "has been altered: its checksum is not that in its name",
                path=f"{self._storage}/{_SEGMENTS}/{name}",
                hint="put it back from a copy, or delete it: the sweep then runs its cells again",
            )
        return content

    def manifest(self) -> dict[str, str]:
        """Return the checksums of the other files by name; {} where nothing has been stored."""
        if self._storage.facts(_MANIFEST) is None:
            return {}
        try:
            content = json.loads(self._storage.read(_MANIFEST))
            return {str(name): str(checksum) for name, checksum in content.items()}
        except (ValueError, AttributeError, RecursionError) as fault:
            raise SweepError(
                f"is not what a sweep writes: {fault}",
                path=f"{self._storage}/{_MANIFEST}",
                hint="delete it, and run the sweep again: it stores its files again",
            ) from None

    def fetch(self, manifest: Mapping[str, str], folder: Path, wanted: Sequence[str]) -> None:
        """Bring files into a folder, but those that it has already; one that is gone is removed there.

        Parameters
        ----------
        manifest
            What there is.
        folder
            The folder here.
        wanted
            Names of files, and of folders with a slash at the end.
        """

        def bring(name: str) -> None:
            path = folder / name
            if not path.is_file() or _checksum_of(path.read_bytes()) != manifest[name]:
                _replace_file(path, self._storage.read(name))

        folders = tuple(name for name in wanted if name.endswith("/"))
        # A name from a storage must not lead out of the folder here.
        inside = [name for name in manifest if (folder / name).resolve().is_relative_to(folder.resolve())]
        names = [name for name in inside if name in wanted or name.startswith(folders)]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(bring, names))
        for name in wanted:
            if not name.endswith("/") and name not in manifest:
                (folder / name).unlink(missing_ok=True)

    def copy_journal(self, segments: dict[str, FileFacts], folder: Path) -> None:
        """Bring the copy of a journal up to date; its time is that of the last segment."""
        names, path, note = list(segments), folder / JOURNAL_NAME, folder / _COPIED
        content = b""
        try:
            copied, before = json.loads(note.read_text(encoding="utf-8")), path.read_bytes()
            count = len(copied["names"])
            if copied["names"] == names[:count] and copied["sum"] == _checksum_of(before):
                content, names = before, names[count:]
        except (OSError, ValueError, KeyError, TypeError):
            # There is no copy yet, or not a sound one.
            pass
        content += self.journal(names)
        _replace_file(path, content)
        _replace_file(note, json.dumps({"names": list(segments), "sum": _checksum_of(content)}).encode())
        written = max(facts.written for facts in segments.values())
        os.utime(path, ns=(written, written))


def _replace_file(path: Path, content: bytes) -> None:
    """Write a file in one step, so that nobody reads half of it."""
    with draft_of(path) as draft:
        draft.write_bytes(content)


def _checksum_of(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


#: A folder here, or a URL.
Place = str | Path
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
        """True if the folder is a copy of results at a URL."""
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
        yield SweepView(folder, folder, LockOwner.of(folder))
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
        return (folder / JOURNAL_NAME).exists()
    return bool(Storage(str(place)).files(_SEGMENTS))


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
    files = _RemoteFiles(storage)
    segments = storage.files(_SEGMENTS)
    if not segments:
        raise SweepError(
            "no sweep is there",
            path=str(storage),
            hint="give the URL that its --out was; `gridtune status` lists the sweeps in a URL",
        )
    folder = cache_folder() / "views" / _checksum_of(str(storage).encode())[:16]
    folder.mkdir(parents=True, exist_ok=True)
    files.copy_journal(segments, folder)
    files.fetch(files.manifest(), folder, wanted)
    return SweepView(str(storage), folder, _copy_status(storage, folder))


def _copy_status(storage: Storage, folder: Path) -> LockOwner | None:
    """Copy the driver's status, with the time of its last sign of life; return who the driver is."""
    path, lock, facts = folder / STATUS_FILE, LockSign.latest(storage), storage.facts(STATUS_FILE)
    if lock is not None and lock[0].status:
        _replace_file(path, lock[0].status.encode())
        os.utime(path, (lock[1], lock[1]))
    elif lock is None and facts is not None:
        _replace_file(path, storage.read(STATUS_FILE))
        os.utime(path, ns=(facts.written, facts.written))
    else:
        path.unlink(missing_ok=True)
    if lock is not None:
        return LockOwner(lock[0].process, lock[0].host, lock[0].alive)
    ended = DriverStatus.read(folder)
    return None if ended is None else LockOwner(ended.process, ended.host, alive=False)
