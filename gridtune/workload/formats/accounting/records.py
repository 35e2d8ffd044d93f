"""`Records`: the rows of a job table as text, with the line of each; how CSV and Parquet become them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gridtune.errors import WorkloadError

__all__ = ["Records", "decoded", "delimiter_of", "records_of_arrow", "records_of_text"]

_DELIMITERS = ",;\t|"
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Records:
    """The rows of a table.

    Attributes
    ----------
    path
        The file.
    columns
        Name to the texts of all rows.
    lines
        The line on which each row begins, from 1; None where the format has no lines.
    notes
        What was left out in reading, with how often.
    """

    path: Path
    columns: Mapping[str, Sequence[str]]
    lines: Sequence[int] | None
    notes: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def fault(self, row: int, column: str, message: str, hint: str | None = None) -> WorkloadError:
        """Return the error that names file, line and column."""
        line = None if self.lines is None else self.lines[row]
        where = "" if line is not None else f"row {row + 1}: "
        return WorkloadError(where + message, path=self.path, line=line, field=column, hint=hint)


def decoded(content: bytes) -> str:
    """Decode a file: UTF-8 where it is, else Latin-1; without a byte order mark."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.removeprefix(_BYTE_ORDER_MARK)


def delimiter_of(header: str) -> str:
    """Return what separates the names in a header: the most frequent of comma, semicolon, tab and bar."""
    return max(_DELIMITERS, key=header.count)


def records_of_text(text: str, path: Path) -> Records:
    """Read a table with a row of names first, its values quoted where they need it.

    Raises
    ------
    WorkloadError
        If there is no header, or a row has more or fewer values than it names.
    """
    header = text.split("\n", 1)[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(header), strict=True)
    try:
        names = [name.strip() for name in next(rows, [])]
        _check_names(names, path)
        kept, lines = _rows(rows, names, path)
    except csv.Error as error:
        raise WorkloadError(f"is no table: {error}", path=path, line=rows.line_num) from error
    columns = list(zip(*kept, strict=True)) or [() for _ in names]
    return Records(path, dict(zip(names, columns, strict=True)), lines)


def _rows(rows: Any, names: list[str], path: Path) -> tuple[list[list[str]], list[int]]:
    kept, lines, line = [], [], rows.line_num
    for row in rows:
        begins, line = line + 1, rows.line_num
        if not row:
            continue
        if len(row) != len(names):
            message = f"expected {len(names)} values, but found {len(row)}"
            raise WorkloadError(message, path=path, line=begins)
        kept.append(row)
        lines.append(begins)
    return kept, lines


def _check_names(names: list[str], path: Path) -> None:
    if not any(names):
        raise WorkloadError("line 1 should name the columns, but is empty", path=path, line=1)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise WorkloadError("the header names it twice", path=path, line=1, field=twice)


def records_of_arrow(table: Any, path: Path) -> Records:
    """Return the rows of an Arrow table; durations become seconds."""
    _check_names(table.column_names, path)
    columns = {name: list(_texts(table.column(name))) for name in table.column_names}
    return Records(path, columns, None)


def _texts(column: Any) -> Iterator[str]:
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_duration(column.type):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        for value in column.cast(pa.int64()).to_pylist():
            yield "" if value is None else repr(value / per_second)
        return
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s", column.type.tz), safe=False).cast(pa.string())
    for value in column.to_pylist():
        yield "" if value is None else str(value)
