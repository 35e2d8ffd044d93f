"""Opening log files: plain, gzip or xz, up to a given size; writing them completely or not at all.

Faults of JSON documents name a line, which is looked up only when there is a fault to report.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from gridtune.errors import WorkloadError
from gridtune.storage import draft_of

#: A log may hold this much once decompressed, unless the caller says otherwise.
DEFAULT_MAX_BYTES = 1 << 30

_COMPRESSIONS = {".gz": "gzip", ".xz": "xz", ".tgz": "gzip", ".txz": "xz"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz"}
_PIECE = 1 << 20
_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
#: What opens compressed data, and what it raises if they are damaged.
_UNPACKED: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "gzip": (gzip.open, zlib.error),
    "xz": (lzma.open, lzma.LZMAError),
}


def split_compression(name: str) -> tuple[str, str | None]:
    """Return a file name without its compression suffix, and the compression ("gzip", "xz" or None)."""
    stem, dot, suffix = name.rpartition(".")
    kind = _COMPRESSIONS.get("." + suffix.lower()) if dot and stem else None
    return (stem, kind) if kind else (name, None)


class LogStream:
    """The decompressed bytes of one log, read forwards; faults of the file become `WorkloadError`.

    Parameters
    ----------
    source
        Gives decompressed bytes.
    path
        Its name in errors.
    compression
        "gzip", "xz" or None.
    max_bytes
        The most decompressed bytes it may hold; one more is an error, before they are stored.
    damage
        Exceptions that `source` raises for damaged data.
    """

    def __init__(
        self,
        source: IO[bytes],
        path: Path,
        compression: str | None,
        max_bytes: int,
        damage: tuple[type[Exception], ...] = (),
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._source = source
        self._compression = compression
        self._damage = damage
        self._rest = b""
        #: Decompressed bytes that have been read so far.
        self.taken = 0

    def read_line(self, longest: int = 1 << 16) -> bytes:
        """Return the next line without its end; the search for the end stops after `longest` bytes."""
        block = self.read(longest)
        line, _, self._rest = block.partition(b"\n")
        return line

    def peek(self, size: int = 1 << 16) -> bytes:
        """Return the next bytes, `size` at most, and leave them to be read."""
        start = self.read(size)
        self._rest = start + self._rest
        return start

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, or all that is left; b"" at the end."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_PIECE), b""))
        if self._rest:
            block, self._rest = self._rest[:size], self._rest[size:]
            return block
        room = self.max_bytes - self.taken
        block = self._translated_read(min(size, room + 1))
        if self.taken == 0:
            self._check_start(block)
        self.taken += len(block)
        if self.taken > self.max_bytes:
            raise self.too_large(f"holds more than {self.max_bytes:,} bytes once decompressed")
        return block

    def too_large(self, message: str) -> WorkloadError:
        """Return the error for content that is larger than it may be."""
        hint = "if you trust the file, pass a larger max_bytes"
        return WorkloadError(message, path=self.path, hint=hint)

    def _translated_read(self, size: int) -> bytes:
        try:
            return self._source.read(size)
        except EOFError as error:
            message = f"the file is cut off: its {self._compression} data ends early"
            raise WorkloadError(message, path=self.path, hint="fetch or copy it again") from error
        except self._damage as error:
            raise self._damaged(error) from error
        except OSError as error:
            # gzip reports bad data as an OSError of its own without a number.
            if error.errno is None:
                raise self._damaged(error) from error
            raise WorkloadError(f"cannot be read: {error.strerror}", path=self.path) from error

    def _damaged(self, error: Exception) -> WorkloadError:
        kind = self._compression or "tar"
        message = f"is not {'an' if kind == 'xz' else 'a'} {kind} file, or it is damaged ({error})"
        return WorkloadError(message, path=self.path)

    def _check_start(self, block: bytes) -> None:
        for magic, kind in _MAGIC.items():
            if self._compression is None and block.startswith(magic):
                raise WorkloadError(
                    f"is {kind} data, but its name does not say so",
                    path=self.path,
                    hint=f"add {'.gz' if kind == 'gzip' else '.xz'} to its name",
                )


def unpack(
    source: IO[bytes], path: Path, max_bytes: int, damage: tuple[type[Exception], ...] = ()
) -> LogStream:
    """Return the stream of an open file, decompressed as its name's suffix says."""
    _, compression = split_compression(path.name)
    if compression is not None:
        opened, fault = _UNPACKED[compression]
        source, damage = opened(source), (*damage, fault)
    return LogStream(source, path, compression, max_bytes, damage)


@contextmanager
def open_log(path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> Iterator[LogStream]:
    """Open a log, decompressing as its suffix says."""
    if max_bytes < 1:
        raise WorkloadError(f"max_bytes must be at least 1, but got {max_bytes}")
    try:
        source = path.open("rb")
    except FileNotFoundError as error:
        raise WorkloadError("no such file", path=path) from error
    except IsADirectoryError as error:
        hint = "name one of its files (from Python, read_workloads reads all of them)"
        raise WorkloadError("is a folder, not a log", path=path, hint=hint) from error
    except OSError as error:
        raise WorkloadError(f"cannot be opened: {error.strerror}", path=path) from error
    with source:
        yield unpack(source, path, max_bytes)


@contextmanager
def open_for_writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only once it is complete.

    Compressed as its suffix says, with no time stamp or name inside: equal content gives equal bytes.
    """
    _, compression = split_compression(path.name)
    if not path.parent.is_dir():
        raise WorkloadError("cannot be written: there is no such folder", path=path)
    try:
        with draft_of(path) as draft, draft.open("xb") as raw:
            packer = _packer(raw, compression)
            yield cast("BinaryIO", packer)
            if packer is not raw:
                packer.close()
            raw.flush()
            os.fsync(raw.fileno())
    except OSError as error:
        raise WorkloadError(f"cannot be written: {error.strerror or error}", path=path) from error


def _packer(raw: BinaryIO, compression: str | None) -> Any:
    if compression == "gzip":
        return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0)
    if compression == "xz":
        return lzma.LZMAFile(raw, mode="wb", preset=6)
    return raw


class JsonText:
    """A JSON document, read from a file.

    Parameters
    ----------
    stream
        The file.
    parse_constant
        Called with `NaN`, `Infinity` or `-Infinity`, which are no JSON; by default they are numbers.

    Raises
    ------
    WorkloadError
        If it is empty or no JSON.

    Attributes
    ----------
    document
        Its content.
    path
        The file.
    """

    def __init__(self, stream: LogStream, parse_constant: Callable[[str], Any] | None = None) -> None:
        self.path = stream.path
        content = stream.read()
        if not content.strip():
            raise WorkloadError("is empty", path=self.path)
        try:
            self._text = content.decode("utf-8-sig")
            self.document: Any = json.loads(self._text, parse_constant=parse_constant)
        except UnicodeDecodeError as error:
            raise WorkloadError(f"is not text in UTF-8 (byte {error.start})", path=self.path) from error
        except json.JSONDecodeError as error:
            raise WorkloadError(f"is not JSON: {error.msg}", path=self.path, line=error.lineno) from error
        except (ValueError, RecursionError) as error:
            raise WorkloadError(f"is not JSON that can be read: {error}", path=self.path) from error

    def fault(self, message: str, *place: str | int, hint: str | None = None) -> WorkloadError:
        """Return the error that names the value at a place: keys and positions from the outside in."""
        field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).strip(".")
        return WorkloadError(message, path=self.path, line=self.line_of(*place), field=field, hint=hint)

    def line_of(self, *place: str | int) -> int:
        """Return the line (1-based) of the value at a place.

        Where the place does not exist, the line of the last value on the way there that does.
        """
        at = _skip(self._text, 0)
        for step in place:
            inside = None
            for key, start in _members(self._text, at):
                if key == step:
                    # Of keys given twice, the last one counts.
                    inside = start
                    if isinstance(step, int):
                        break
            if inside is None:
                break
            at = inside
        return self._text.count("\n", 0, at) + 1


def _skip(text: str, at: int) -> int:
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Yield the key or position, and the start, of each value in the object or list that starts at `at`."""
    opening, position = text[at], 0
    if opening not in "{[":
        return
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        key: str | int = position
        if opening == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        yield key, at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
        position += 1
