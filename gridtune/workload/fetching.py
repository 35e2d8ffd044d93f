"""Getting public logs into the cache: checked, all or nothing, going on where a break left off."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from gridtune.errors import TraceError
from gridtune.workload.catalogue import CatalogueEntry, cache_folder, file_checksum, find_log

__all__ = ["fetch"]

#: Called with the bytes had so far and, where known, the bytes to come in all.
Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 16
_TIMEOUT = 60.0


def fetch(
    name: str,
    *,
    mirror: str | Path | None = None,
    sha256: str | None = None,
    unverified: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Get a catalogued log into the cache and return its path.

    The file appears under its name only when it is complete and its checksum is right. A download that
    broke off stays beside it as `.part`, and the next call goes on from there where the server can.

    Parameters
    ----------
    name
        Of a log in the catalogue.
    mirror
        A folder (searched with its subfolders), or an http(s) or file address: of the file, or of a
        folder that holds it. By default the address in the catalogue.
    sha256
        The checksum to ask for, where the catalogue has none.
    unverified
        Take a log without a known checksum as it comes.
    progress
        Called as the bytes arrive.

    Raises
    ------
    TraceError
        If the log is not catalogued or not to be had, another process is fetching it, or the content is
        not what was published.
    """
    entry = find_log(name)
    expected = _expected_checksum(entry, sha256, unverified=unverified)
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / entry.file_name
    if target.is_file() and (expected is None or file_checksum(target) == expected):
        return target
    part = target.with_name(target.name + ".part")
    with _alone(folder / f".{target.name}.lock", target):
        source = _source(entry, mirror)
        resumed = _receive(source, part, progress)
        problem = _problem(part, expected)
        if problem and resumed:
            # What an earlier call left behind may be the fault: once more, from the first byte.
            part.unlink()
            _receive(source, part, progress)
            problem = _problem(part, expected)
        if problem:
            part.unlink()
            raise TraceError(problem, path=str(source), hint="nothing was kept; try another --mirror")
        part.replace(target)
    return target


def _expected_checksum(entry: CatalogueEntry, given: str | None, *, unverified: bool) -> str | None:
    if given is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", given):
        raise TraceError(f"{given!r} is no SHA-256: it has 64 hexadecimal digits", field="sha256")
    known = entry.sha256
    if known and given and given.lower() != known:
        raise TraceError(f"the catalogue says that {entry.name} has the SHA-256 {known}", field="sha256")
    expected = known or (given.lower() if given else None)
    if expected is None and not unverified:
        raise TraceError(
            f"gridtune knows no checksum of {entry.name}, so it cannot tell a good copy from a bad one",
            hint="--sha256 SUM if you know it, or --unverified to take what comes (the sum is printed)",
        )
    return expected


def _source(entry: CatalogueEntry, mirror: str | Path | None) -> Path | str:
    """Return the local file or the address to read."""
    if mirror is None:
        if entry.url is None:
            raise TraceError(
                f"{entry.name} has no public address", hint="--mirror FOLDER, a folder that holds the file"
            )
        return entry.url
    address = urllib.parse.urlsplit(str(mirror))
    if address.scheme in {"http", "https"}:
        text = str(mirror)
        return text if text.endswith(entry.file_name) else f"{text.rstrip('/')}/{entry.file_name}"
    if address.scheme == "file":
        folder = Path(urllib.request.url2pathname(address.path))
    elif "://" in str(mirror):
        raise TraceError(f"a mirror is a folder or an http(s) or file address, not {mirror}")
    else:
        folder = Path(mirror).expanduser()
    if folder.is_file():
        return folder
    found = sorted(folder.rglob(entry.file_name))
    if not found:
        raise TraceError(f"no {entry.file_name} in this folder", path=folder)
    return found[0]


def _receive(source: Path | str, part: Path, progress: Progress | None) -> bool:
    """Write the source to `part`; return whether it went on from what was there."""
    if isinstance(source, Path):
        with source.open("rb") as incoming, part.open("wb") as outgoing:
            _copy(incoming, outgoing, 0, source.stat().st_size, progress)
        return False
    try:
        return _download(source, part, progress)
    except urllib.error.HTTPError as error:
        raise TraceError(
            f"the server answers {error.code} {error.reason}",
            path=source,
            hint="if the log has moved, give --mirror ADDRESS or a --mirror FOLDER",
        ) from None
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise TraceError(
            f"the download broke off: {reason}",
            path=source,
            hint="the same command goes on from here; without a network give --mirror FOLDER",
        ) from None


def _download(address: str, part: Path, progress: Progress | None) -> bool:
    had = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"User-Agent": "gridtune"})
    if had:
        request.add_header("Range", f"bytes={had}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not had:
            raise
        # Nothing lies beyond what we have: complete, or of another file. The checksum will say.
        error.close()
        return True
    with response:
        resumed = had > 0 and response.status == 206
        start = had if resumed else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        with part.open("ab" if resumed else "wb") as outgoing:
            _copy(response, outgoing, start, total, progress)
    if total is not None and part.stat().st_size < total:
        raise OSError(f"{part.stat().st_size} of {total} bytes came")
    return resumed


def _copy(
    incoming: BinaryIO, outgoing: BinaryIO, start: int, total: int | None, progress: Progress | None
) -> None:
    done = start
    while block := incoming.read(_CHUNK):
        outgoing.write(block)
        done += len(block)
        if progress is not None:
            progress(done, total)
    outgoing.flush()
    os.fsync(outgoing.fileno())


def _problem(part: Path, expected: str | None) -> str | None:
    """Say what is wrong with the received file, if anything."""
    checksum = file_checksum(part)
    if expected is not None:
        return None if checksum == expected else f"SHA-256 {checksum} came, not {expected}"
    try:
        with gzip.open(part) as file, Path(os.devnull).open("wb") as nowhere:
            shutil.copyfileobj(file, nowhere)
    except (OSError, EOFError, zlib.error) as error:
        return f"what came is not a whole gzip file: {error}"
    return None


@contextlib.contextmanager
def _alone(lock: Path, target: Path) -> Iterator[None]:
    """Keep other processes of this machine from writing the same file."""
    import fcntl  # noqa: PLC0415 - not there on Windows, where only this function needs it

    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TraceError("another process is fetching this log", path=target) from None
        yield
