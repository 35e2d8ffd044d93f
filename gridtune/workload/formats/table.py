"""Text tables of numbers, a job a line: fast where all is well, exact about line and field where it is not.

Each block of lines is first taken by NumPy whole. Only blocks made of nothing but well-formed lines pass;
any other block is read again, line by line, by code that accepts or names what it finds.

The header's comments are those of the Standard Workload Format: `Key: value` lines before the jobs.
"""

from __future__ import annotations

import codecs
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError, printable
from gridtune.types import IntArray
from gridtune.workload.fields import FLOAT_FIELDS, NAMED_FIELDS
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import RawLog
from gridtune.workload.workload import Workload

#: What some editors put before UTF-8 text.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_BLOCK = 1 << 22
_LONGEST_LINE = 1 << 16
_INT64 = np.iinfo(np.int64)
_DECIMAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)")
_EXPONENT = re.compile(rb"[eE][+-]?\d{1,3}$")
_INTEGER = re.compile(rb"[+-]?\d+")
#: A key is followed by a blank after its colon, but for those that hold numbers: else 08:00 had one.
_KEY = re.compile(
    r"\s{0,3}((?:Max|Unix)[A-Z][A-Za-z]*(?=:)|[A-Za-z][\w ./()#-]{0,39}?(?=\s*:(?:\s|$)))\s*:\s*(.*)",
    re.ASCII | re.DOTALL,
)
_CONTINUED = re.compile(r"\s{4,}\S")
_NUMBERED = re.compile(r"(\d{1,18})\s+(\S.*)")
_ROWS = 50_000
_HEADER = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class TableLayout:
    """The layout of the lines of a table.

    Attributes
    ----------
    fields
        For each column of the file the SWF field it becomes, or None to pass over it.
    comment
        Bytes any of which starts a comment line.
    separator
        Bytes between values; None for any blanks.
    labels
        Fields whose values may be names instead of numbers.
    first_line
        The number of the first line.
    """

    fields: tuple[str | None, ...]
    comment: bytes = b""
    separator: bytes | None = None
    labels: frozenset[str] = frozenset()
    first_line: int = 1

    def parse_numbers(self, block: bytes, first_line: int) -> _Block | None:
        """Return the block's columns if every line is exactly well-formed, else None.

        Sound because every token yields at least one number or fails: with the right count of tokens on every
        line, the right count of numbers in all proves that each token was one number.
        """
        text = block.replace(b"\r\n", b"\n") if b"\r" in block else block
        kinds = _kinds(self.separator)[np.frombuffer(text, dtype=np.uint8)]
        if not kinds.all():
            return None
        width = len(self.fields)
        solid = kinds >= _SOLID
        begins = solid.copy()
        begins[1:] &= ~solid[:-1]
        starts = np.flatnonzero(begins)
        newlines = np.flatnonzero(kinds == _NEWLINE)
        counts = np.diff(np.searchsorted(starts, newlines), prepend=0)
        full = counts == width
        if not (full | (counts == 0)).all():
            return None
        jobs = int(full.sum())
        if self.separator is not None:
            if text.count(self.separator) != jobs * (width - 1):
                return None
            text = text.replace(self.separator, b" ")
        split = self._without_fractions(text, starts, np.flatnonzero(kinds == _DOT))
        if split is None:
            return None
        values = _integers(split[0])
        if values is None or values.size != jobs * width:
            return None
        table = values.reshape(jobs, width)
        columns: dict[str, npt.NDArray[Any]] = {
            name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(self.fields) if name is not None
        }
        for name in FLOAT_FIELDS & columns.keys():
            columns[name] = columns[name].astype(np.float64)
        for token, value in split[1]:
            columns[self.fields[token % width] or ""][token // width] = value
        return _Block(columns, np.flatnonzero(full) + first_line)

    def _without_fractions(
        self, text: bytes, starts: npt.NDArray[np.intp], dots: npt.NDArray[np.intp]
    ) -> tuple[bytes, list[tuple[int, float]]] | None:
        """Return the text with fractions blanked, and the decimal numbers by the position of their token.

        None if a decimal point stands where only whole numbers may, or not within one plain number.
        """
        if len(dots) == 0:
            return text, []
        tokens = np.searchsorted(starts, dots, side="right") - 1
        fields = [self.fields[i] for i in np.unique(tokens % len(self.fields))]
        if any(name not in FLOAT_FIELDS for name in fields):
            return None
        numbers = _PLAIN_DECIMAL.findall(text)
        if len(numbers) != len(dots):
            return None
        return _FRACTION.sub(b"", text), list(zip(tokens.tolist(), map(float, numbers), strict=True))


@dataclass
class Table:
    """The content of a table.

    Attributes
    ----------
    columns
        Field to int64 column; float64 where fractions were found. Labels are codes from 1.
    lines
        The line of each job, from 1.
    comments
        Line and text of each comment, without its mark, in order.
    labels
        For each field that held names: its names in order of their codes.
    """

    columns: dict[str, npt.NDArray[Any]]
    lines: IntArray
    comments: list[tuple[int, str]] = field(default_factory=list)
    labels: dict[str, list[str]] = field(default_factory=dict)

    def line_of(self, row: int, name: str) -> int:
        """Return the line of a job."""
        return int(self.lines[row])

    @cached_property
    def header(self) -> dict[str, tuple[str, ...]]:
        r"""The comments' values by key, in order.

        A key given several times has several values. A line indented by four blanks or more goes on with the
        value before it, after a "\n". A line without a key is a value of "Comment"; empty lines are skipped.
        """
        values: dict[str, list[str]] = {}
        last: str | None = None
        for _, comment in self.comments:
            text = comment.rstrip()
            if not text:
                continue
            if last is not None and _CONTINUED.match(text):
                values[last][-1] += "\n" + text.strip()
                continue
            match = _KEY.fullmatch(text)
            last, value = (match[1], match[2]) if match else ("Comment", text)
            values.setdefault(last, []).append(value.strip())
        return {key: tuple(texts) for key, texts in values.items()}

    def log(self, path: Path, more_header: Mapping[str, tuple[str, ...]]) -> RawLog:
        """Return the log of a table in the Standard Workload Format or one that shares its header."""
        header = {**self.header, **more_header}
        size = _machine_size(header, self.comments, path)
        return RawLog(self.columns, self.line_of, header, size, _names_in_header(header))


class _Block(NamedTuple):
    columns: dict[str, npt.NDArray[Any]]
    lines: IntArray


def parse_table(stream: LogStream, layout: TableLayout) -> Table:
    """Read every line of a stream.

    Raises
    ------
    WorkloadError
        Naming file, line and field, at the first line that is not as the layout says.
    """
    parser = _Parser(layout, stream)
    blocks = []
    line = layout.first_line
    for block in _blocks_of_lines(stream, layout.first_line):
        blocks.append(parser.parse(block, line))
        line += block.count(b"\n")
    return parser.joined(blocks)


def _blocks_of_lines(stream: LogStream, first_line: int) -> Iterator[bytes]:
    rest = b""
    line = first_line
    while block := stream.read(_BLOCK):
        if line == 1 and not rest:
            block = block.removeprefix(BYTE_ORDER_MARK)
        head, newline, tail = block.rpartition(b"\n")
        if newline:
            whole = rest + head + newline
            line += whole.count(b"\n")
            yield whole
            rest = tail
        else:
            rest += block
        if len(rest) > _LONGEST_LINE:
            message = f"a line of more than {_LONGEST_LINE:,} bytes: not a text log"
            raise WorkloadError(message, path=stream.path, line=line)
    if rest:
        yield rest + b"\n"


class _Parser:
    def __init__(self, layout: TableLayout, stream: LogStream) -> None:
        self.layout = layout
        self.path = stream.path
        self.comments: list[tuple[int, str]] = []
        self.codes: dict[str, dict[bytes, int]] = {name: {} for name in layout.labels}

    def parse(self, block: bytes, first_line: int) -> _Block:
        if any(mark in block for mark in self.layout.comment):
            block = self._without_comments(block, first_line)
        fast = None if self.layout.labels else self.layout.parse_numbers(block, first_line)
        return fast if fast is not None else self._parse_lines(block, first_line)

    def _without_comments(self, block: bytes, first_line: int) -> bytes:
        """Take comments out; lines of them stay as empty ones, so that lines keep their numbers."""
        lines = block.split(b"\n")
        marks = self.layout.comment
        for i, line in enumerate(lines):
            text = line.lstrip()
            if text and text[0] in marks:
                self.comments.append((first_line + i, decoded(text[1:].rstrip())))
                lines[i] = b""
            elif len(marks) == 1:
                # A comment after a job.
                lines[i] = line.partition(marks)[0]
        return b"\n".join(lines)

    def _parse_lines(self, block: bytes, first_line: int) -> _Block:
        layout = self.layout
        width = len(layout.fields)
        values: list[list[int | float]] = [[] for _ in range(width)]
        lines: list[int] = []
        for line, text in enumerate(block.split(b"\n"), start=first_line):
            stripped = text.strip()
            if not stripped:
                continue
            tokens = stripped.split(layout.separator)
            if len(tokens) != width:
                message = f"expected {width} fields, but found {len(tokens)}: {decoded(stripped[:40])!r}…"
                raise WorkloadError(message, path=self.path, line=line)
            lines.append(line)
            for name, token, column in zip(layout.fields, tokens, values, strict=True):
                if name is not None:
                    column.append(self._value(name, token, line))
        columns = {
            name: number_column(name, column)
            for name, column in zip(layout.fields, values, strict=True)
            if name
        }
        return _Block(columns, np.asarray(lines, dtype=np.int64))

    def _value(self, name: str, token: bytes, line: int) -> int | float:
        if self.layout.separator is not None:
            token = token.strip()
            if len(token) > 1 and token[:1] == token[-1:] == b'"':
                token = token[1:-1]
        if name in self.codes:
            codes = self.codes[name]
            return codes.setdefault(token, len(codes) + 1)
        if _is_int64(token):
            return int(token)
        if _INTEGER.fullmatch(token) and name not in FLOAT_FIELDS:
            raise self._value_error("is beyond int64", token, name, line)
        # A letter in a whole number is a fault, though Python would read 3e2.
        mantissa = _EXPONENT.sub(b"", token) if name in FLOAT_FIELDS else token
        if not _DECIMAL.fullmatch(mantissa):
            message = "there is no value here" if not token else "is not a number"
            raise self._value_error(message, token, name, line)
        value = float(token)
        if name in FLOAT_FIELDS:
            if math.isinf(value):
                raise self._value_error("is beyond float64", token, name, line)
            return value
        if abs(value) > 2**53:
            message = "is beyond 2**53, the largest whole number with a decimal point"
            raise self._value_error(message, token, name, line)
        # "3477.0" is the whole number it says; a fraction stays one, for the checks or a rule to find.
        return int(value) if value.is_integer() else value

    def _value_error(self, message: str, token: bytes, name: str, line: int) -> WorkloadError:
        shown = f"{decoded(token[:40])!r} " if token else ""
        return WorkloadError(shown + message, path=self.path, line=line, field=name)

    def joined(self, blocks: list[_Block]) -> Table:
        names = [name for name in self.layout.fields if name is not None]
        columns = {name: _joined([block.columns[name] for block in blocks], name) for name in names}
        lines = _joined([block.lines for block in blocks], "")
        labels = {}
        for name, codes in self.codes.items():
            columns[name], names_of_codes = _resolved(columns[name], codes)
            if names_of_codes is not None:
                labels[name] = names_of_codes
        return Table(columns, lines, self.comments, labels)


_NEWLINE, _BLANK, _SOLID, _DOT = 1, 2, 3, 4


@cache
def _kinds(separator: bytes | None) -> npt.NDArray[np.uint8]:
    """Return for each byte what it is; 0 for what the fast path leaves to the slow one."""
    kinds = np.zeros(256, dtype=np.uint8)
    kinds[list(b"0123456789-")] = _SOLID
    kinds[ord(".")] = _DOT
    kinds[ord("\n")] = _NEWLINE
    kinds[list(b" \t" if separator is None else separator)] = _BLANK
    return kinds


_PLAIN_DECIMAL = re.compile(rb"(?<![\d.])-?\d+\.\d*(?=\s)")
_FRACTION = re.compile(rb"\.\d*")


def _integers(text: bytes) -> IntArray | None:
    if text.isspace():
        return np.zeros(0, dtype=np.int64)
    with warnings.catch_warnings():
        # Older releases of NumPy only warn of text that is no number.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            values = np.fromstring(text, dtype=np.int64, sep=" ")
        except (ValueError, DeprecationWarning):
            return None
    # Numbers beyond int64 come back as its ends: let the exact path decide.
    if values.size and (values.max() == _INT64.max or values.min() == _INT64.min):
        return None
    return values


def number_column(name: str, values: list[int | float]) -> npt.NDArray[Any]:
    """Return a field's values, float64 where they have fractions."""
    fractions = name in FLOAT_FIELDS or any(isinstance(value, float) for value in values)
    return np.asarray(values, dtype=np.float64 if fractions else np.int64)


def _joined(parts: list[npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    if not parts:
        return np.zeros(0, dtype=np.float64 if name in FLOAT_FIELDS else np.int64)
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _resolved(column: IntArray, codes: dict[bytes, int]) -> tuple[IntArray, list[str] | None]:
    """Turn codes back into numbers if all were numbers; else number the names, -1 staying unknown."""
    if all(_is_int64(token) for token in codes):
        numbers = np.asarray([0, *(int(token) for token in codes)], dtype=np.int64)
        return numbers[column], None
    names = [token for token in codes if token != b"-1"]
    number_of = {token: i for i, token in enumerate(names, start=1)}
    numbers = np.asarray([0, *(number_of.get(token, -1) for token in codes)], dtype=np.int64)
    return numbers[column], [decoded(name) for name in names]


def _is_int64(token: bytes) -> bool:
    if not _INTEGER.fullmatch(token):
        return False
    return len(token) <= 18 or (len(token) <= 40 and _INT64.min <= int(token) <= _INT64.max)


def _machine_size(header: _HEADER, comments: Iterable[tuple[int, str]], path: Path) -> int | None:
    """Return the machine's processors: `MaxProcs` or, without it, `MaxNodes`; None if neither says."""
    for key in ("MaxProcs", "MaxNodes"):
        words = header.get(key, ("",))[0].replace(",", "").split()
        if not words or not words[0][0].isdigit():
            continue
        if not re.fullmatch(r"\d{1,18}", words[0]):
            line = next((line for line, text in comments if text.strip().startswith(key)), None)
            raise WorkloadError(f"{words[0]!r} is not a number", path=path, line=line, field=key)
        if int(words[0]) > 0:
            return int(words[0])
    return None


def _names_in_header(header: _HEADER) -> dict[str, dict[int, str]]:
    """Return the names of each field's numbers, from values such as `Partition: 12 rl.ac.uk`."""
    names: dict[str, dict[int, str]] = {}
    for name in NAMED_FIELDS:
        matches = (_NUMBERED.match(value.split("\n")[0]) for value in header.get(_key(name), ()))
        found = {int(match[1]): printable(match[2].strip()) for match in matches if match}
        if found:
            names[name] = found
    return names


def _key(field: str) -> str:
    """Return the header's key for the names of a field."""
    return field.replace("_", " ").capitalize()


def write_table(file: BinaryIO, workload: Workload, columns: Sequence[npt.NDArray[Any]], mark: str) -> None:
    """Write the header as comments that begin with a mark, and the rows of some columns.

    The header is written as it is, but for the machine's size and the names, which are the workload's own
    where they differ from the header's.
    """
    header = dict(workload.header)
    if _machine_size(header, (), Path(workload.name)) != workload.machine_processors:
        header.pop("MaxNodes", None)
        header.pop("MaxProcs", None)
        if workload.machine_processors is not None:
            header["MaxProcs"] = (str(workload.machine_processors),)
    there = _names_in_header(header)
    for named, names in workload.names.items():
        if there.get(named, {}) != dict(names):
            header[_key(named)] = tuple(f"{number} {name}" for number, name in names.items())
    for key, values in header.items():
        if not re.fullmatch(r"[A-Za-z][\w ./()#-]{0,39}", key, re.ASCII) or key != key.strip():
            raise WorkloadError(f"a header key that cannot be written: {key!r}", path=workload.source)
        for value in values:
            first, *others = value.split("\n")
            lines = [f"{mark} {key}: {first}".rstrip(), *(f"{mark}       {other}" for other in others)]
            file.write("".join(f"{line}\n" for line in lines).encode())
    for rows in rows_of_text(columns, " "):
        file.write(rows)


def rows_of_text(columns: Sequence[npt.NDArray[Any]], separator: str) -> Iterator[bytes]:
    """Yield the table's lines, some thousands at a time.

    Each value is the shortest text that reads back as the same value.
    """

    def shortest(value: float) -> str:
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)

    for start in range(0, len(columns[0]) if columns else 0, _ROWS):
        texts = [
            map(shortest if column.dtype.kind == "f" else str, column[start : start + _ROWS].tolist())
            for column in columns
        ]
        lines = [separator.join(row) for row in zip(*texts, strict=True)]
        yield ("\n".join(lines) + "\n").encode()


def decoded(text: bytes) -> str:
    """Decode UTF-8, UTF-16 with a byte order mark, else Latin-1; without the mark."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return text.decode("utf-16", "replace")
    try:
        return text.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return text.decode("latin-1")
