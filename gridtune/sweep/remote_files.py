"""How the results of a sweep lie at a URL, for the driver that writes them and for those who look.

Storage such as S3 has no append. So what is appended to the journal goes to the URL as a file of its own, a
segment: numbered, named after its checksum and never changed. The other files are listed with checksums.

```
URL/journal/00000001-<checksum>.jsonl   segments of the journal
URL/drivers/<id>.json                   the lock of the driver that writes, with what it is doing
URL/status.json                         how the last driver ended
URL/files.json                          the other files, with their checksums
URL/results.parquet, report.md, …
```
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gridtune.errors import SweepError
from gridtune.storage import FileFacts, Storage

__all__ = ["RemoteFiles", "checksum_of"]

_SEGMENTS, _MANIFEST = "journal", "files.json"
#: Digits of a segment's checksum in its name.
_DIGITS = 16
#: Files that are read at once: each waits for the network.
_AT_ONCE = 16


class RemoteFiles:
    """The files of a sweep at a URL.

    Parameters
    ----------
    storage
        The place.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def segments(self) -> dict[str, FileFacts]:
        """Return the segments of the journal by name, in their order; {} where no sweep is."""
        return self._storage.files(_SEGMENTS)

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
        if checksum_of(content)[:_DIGITS] != name.partition("-")[2].partition(".")[0]:
            raise SweepError(
                "has been altered: its checksum is not that in its name",
                path=f"{self._storage}/{_SEGMENTS}/{name}",
                hint="put it back from a copy, or delete it: the sweep then runs its cells again",
            )
        return content

    @staticmethod
    def segment_name(number: int, content: bytes) -> str:
        """Return where a segment is written."""
        return f"{_SEGMENTS}/{number:08d}-{checksum_of(content)[:_DIGITS]}.jsonl"

    @staticmethod
    def last_number(names: Iterable[str]) -> int:
        """Return the number of the last segment; 0 without any."""
        numbers = (name.partition("-")[0] for name in names)
        return max((int(number) for number in numbers if number.isdigit()), default=0)

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

    @staticmethod
    def manifest_file(manifest: Mapping[str, str]) -> tuple[str, bytes]:
        """Return where the manifest is written, and its content."""
        return _MANIFEST, json.dumps(manifest, indent=1).encode()

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
            if not path.is_file() or checksum_of(path.read_bytes()) != manifest[name]:
                _replace(path, self._storage.read(name))

        names = [name for name in manifest if _is_wanted(name, wanted) and _is_inside(name, folder)]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(bring, names))
        for name in wanted:
            if not name.endswith("/") and name not in manifest:
                (folder / name).unlink(missing_ok=True)


def _is_wanted(name: str, wanted: Sequence[str]) -> bool:
    return any(name.startswith(one) if one.endswith("/") else name == one for one in wanted)


def _is_inside(name: str, folder: Path) -> bool:
    """Return whether a name from a storage stays within a folder here."""
    return (folder / name).resolve().is_relative_to(folder.resolve())


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    draft.write_bytes(content)
    draft.replace(path)


def checksum_of(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()
