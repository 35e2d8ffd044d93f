"""Where results lie that are not in a folder here: at a URL, with a working copy in the user's cache.

Storage such as S3 has no append. So the journal that is appended to is the working copy's, and what is
appended goes to the URL as a file of its own, numbered, named after its checksum and never changed: a result
counts as stored when that is written. Any machine makes the journal of these segments. Tables, figures and
the page follow at the end.

```
URL/journal/00000001-<checksum>.jsonl   segments of the journal
URL/drivers/<id>.json                   the claim of the driver that writes
URL/files.json                          the other files, with their checksums
URL/results.parquet, report.md, …
```
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Self

from gridtune.core.cells import CellResult
from gridtune.errors import StorageError, SweepError
from gridtune.storage import Storage
from gridtune.sweep.claim import Claim
from gridtune.sweep.observing import SweepPlan, SweepResult
from gridtune.workload.catalogue import cache_folder

__all__ = ["RemoteResults"]

_SEGMENTS, _MANIFEST = "journal", "files.json"
_JOURNAL, _FACTS = "journal.jsonl", "sweep.json"
#: Files that are stored otherwise, or say something of this machine alone.
_LOCAL = re.compile(r"\..*|.*\.draft|journal\..*|status\.json|finished\.json")
#: Digits of a segment's checksum in its name.
_DIGITS = 16
#: Seconds between two tries to write to a storage that is away.
_RETRY_SECONDS = 2.0


class RemoteResults:
    """The results of a sweep at a URL, claimed for this driver, and the folder here that it works in.

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
        name = hashlib.sha256(self._storage.url.encode()).hexdigest()[:16]
        self.folder = cache_folder() / "results" / name
        self._claim = Claim(self._storage, say)
        try:
            self._manifest = self._read_manifest()
            self._fetch()
        except BaseException:
            self._claim.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self._claim.close()

    def __str__(self) -> str:
        return self._storage.url

    def append(self, content: bytes) -> None:
        """Write whole lines that the journal got; returns when they are stored, however long that takes."""
        self._next += 1
        name = f"{self._next:08d}-{_checksum(content)[:_DIGITS]}.jsonl"
        self._stored(f"{_SEGMENTS}/{name}", content)

    def started(self, plan: SweepPlan) -> None:
        """Store what the sweep is about, by which another machine goes on with the same runs."""
        self.publish(_FACTS)

    def finished(self, results: Sequence[CellResult]) -> None:
        """Do nothing: the journal has stored them."""

    def ended(self, result: SweepResult) -> None:
        """Do nothing: `publish` is called when the report is written, too."""

    def publish(self, pattern: str = "**/*") -> None:
        """Store the files of the working copy that have changed; take away those that it no longer has."""
        there = {
            path.relative_to(self.folder).as_posix(): path
            for path in self.folder.glob(pattern)
            if path.is_file() and not _LOCAL.fullmatch(path.name)
        }
        for name, path in there.items():
            content = path.read_bytes()
            checksum = _checksum(content)
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
            if self._claim.lost:
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

    def _read_manifest(self) -> dict[str, str]:
        if self._storage.facts(_MANIFEST) is None:
            return {}
        content = json.loads(self._storage.read(_MANIFEST))
        return {str(name): str(checksum) for name, checksum in content.items()}

    def _fetch(self) -> None:
        """Make the working copy's journal of the segments, and of lines that were not stored yet."""
        names = list(self._storage.files(_SEGMENTS))
        stored = b"".join(self._segment(name) for name in names)
        self._next = max((int(name.partition("-")[0]) for name in names), default=0)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / _JOURNAL
        here = path.read_bytes() if path.exists() else b""
        here = here[: here.rfind(b"\n") + 1]
        if here.startswith(stored):
            missing = here[len(stored) :]
        else:
            lines = set(stored.splitlines())
            missing = b"".join(line for line in here.splitlines(keepends=True) if line[:-1] not in lines)
        draft = path.with_suffix(".draft")
        draft.write_bytes(stored + missing)
        draft.replace(path)
        if missing:
            self.append(missing)
        if _FACTS in self._manifest:
            (self.folder / _FACTS).write_bytes(self._storage.read(_FACTS))

    def _segment(self, name: str) -> bytes:
        content = self._storage.read(f"{_SEGMENTS}/{name}")
        if _checksum(content)[:_DIGITS] != name.partition("-")[2].partition(".")[0]:
            raise SweepError(
                f"{self._storage}/{_SEGMENTS}/{name} has been altered: its checksum is not that in its name",
                hint="put it back from a copy, or delete it: the sweep then runs its cells again",
            )
        return content


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
