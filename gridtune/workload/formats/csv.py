"""CSV: a row of names, then a job a line.

gridtune's own has the names of fields, in any order, and numbers alone: no header, machine size or names. Any
other table is read by what its columns are called (`gridtune.workload.formats.accounting.records`).
"""

from __future__ import annotations

import csv
import io
from typing import BinaryIO

from gridtune.errors import WorkloadError
from gridtune.workload.fields import FIELDS
from gridtune.workload.formats.accounting.jobs import log_of_records
from gridtune.workload.formats.accounting.records import Records, Texts, check_names, quantities_of
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format, RawLog
from gridtune.workload.formats.table import BYTE_ORDER_MARK, TableLayout, decoded, parse_table, rows_of_text
from gridtune.workload.workload import Workload

__all__ = ["CSV"]

#: The most frequent of these in the header separates values.
_DELIMITERS = ",;\t|"


def _read(
    stream: LogStream, columns: str | None = None, timezone: str | None = None, requested: bool = False
) -> RawLog:
    """Read a table.

    Parameters
    ----------
    stream
        The file.
    columns
        The columns of quantities in a table of other names: `submit=Submitted,processors=Cores`.
    timezone
        The zone of its times, UTC by default.
    requested
        Whether jobs of another table have the processors that they asked for, not those they got.
    """
    if columns is not None or timezone is not None or requested or _is_foreign(stream.peek()):
        return log_of_records(_records(stream), columns=columns, timezone=timezone, requested=requested)
    return _read_own(stream)


def _is_foreign(start: bytes) -> bool:
    """Return whether a table is another than gridtune's own: it has other names, or not numbers alone."""
    header, _, rest = decoded(start).partition("\n")
    delimiter = max(_DELIMITERS, key=header.count)
    names = [name.strip().strip('"') for name in header.split(delimiter)]
    if "submit" not in quantities_of(names):
        return False
    first = [value.strip().strip('"') for value in rest.partition("\n")[0].split(delimiter)]
    try:
        return not ("submit_time" in names and [float(value) for value in first])
    except ValueError:
        return True


def _records(stream: LogStream) -> Records:
    """Read a table with a row of names first, its values quoted where they need it."""
    text, path = decoded(stream.read()), stream.path
    delimiter = max(_DELIMITERS, key=text.split("\n", 1)[0].count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    kept, lines = [], []
    try:
        names = [name.strip() for name in next(rows, [])]
        if not any(names):
            raise WorkloadError("line 1 should name the columns, but is empty", path=path, line=1)
        check_names(names, path, 1)
        line = rows.line_num
        for row in rows:
            begins, line = line + 1, rows.line_num
            if row and len(row) != len(names):
                message = f"expected {len(names)} values, but found {len(row)}"
                raise WorkloadError(message, path=path, line=begins)
            if row:
                kept.append(row)
                lines.append(begins)
    except csv.Error as error:
        raise WorkloadError(f"is no table: {error}", path=path, line=rows.line_num) from error
    columns = [Texts.of(column) for column in zip(*kept, strict=True)] or [Texts.of([]) for _ in names]
    return Records(path, dict(zip(names, columns, strict=True)), lines)


def _read_own(stream: LogStream) -> RawLog:
    first = stream.read_line().removeprefix(BYTE_ORDER_MARK)
    if not first.strip():
        raise WorkloadError("line 1 should name the fields, but is empty", path=stream.path, line=1)
    header = first.decode("utf-8", "replace")
    delimiter = max(_DELIMITERS, key=header.count)
    names = header.split(delimiter)
    fields = tuple(name.strip().strip('"').strip() for name in names)
    check_names(fields, stream.path, 1, own=True)
    table = parse_table(stream, TableLayout(fields=fields, separator=delimiter.encode(), first_line=2))
    return RawLog(columns=table.columns, line_of=table.line_of)


def _write(workload: Workload, file: BinaryIO) -> None:
    names = [name for name in FIELDS if name in workload.columns]
    file.write((",".join(names) + "\n").encode())
    for rows in rows_of_text([workload.columns[name] for name in names], ","):
        file.write(rows)


CSV = Format(
    "csv",
    ".csv",
    _read,
    _write,
    "the columns alone; other tables are read by their names",
    records=_records,
)
