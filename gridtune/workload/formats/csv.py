"""CSV: a row of names, then a job a line.

gridtune's own has the names of fields, in any order, and numbers alone: no header, machine size or names. Any
other table is read by what its columns are called (`gridtune.workload.formats.records`).
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import BinaryIO

from gridtune.errors import WorkloadError
from gridtune.workload.fields import FIELDS
from gridtune.workload.formats.accounting import log_of_records
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format, RawLog
from gridtune.workload.formats.records import Records, check_names, quantities_of
from gridtune.workload.formats.table import BYTE_ORDER_MARK, TableLayout, decoded, parse_table, rows_of_text
from gridtune.workload.workload import Workload

__all__ = ["CSV"]

#: The most frequent of these in the header separates values.
_DELIMITERS = ",;\t|"


def _read(stream: LogStream, columns: str | None = None, timezone: str | None = None) -> RawLog:
    """Read a table.

    Parameters
    ----------
    stream
        The file.
    columns
        The columns of quantities in a table of other names: `submit=Submitted,processors=Cores`.
    timezone
        The zone of its times, UTC by default.
    """
    if columns is not None or timezone is not None or _is_foreign(stream.peek()):
        records = _records(decoded(stream.read()), stream.path)
        return log_of_records(records, columns=columns, timezone=timezone)
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


def _records(text: str, path: Path) -> Records:
    """Read a table with a row of names first, its values quoted where they need it."""
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
    columns = list(zip(*kept, strict=True)) or [() for _ in names]
    return Records(path, dict(zip(names, columns, strict=True)), lines)


def _read_own(stream: LogStream) -> RawLog:
    first = stream.read_line().removeprefix(BYTE_ORDER_MARK)
    if not first.strip():
        raise WorkloadError("line 1 should name the fields, but is empty", path=stream.path, line=1)
    names = first.decode("utf-8", "replace").split(",")
    fields = tuple(name.strip().strip('"').strip() for name in names)
    check_names(fields, stream.path, 1, own=True)
    table = parse_table(stream, TableLayout(fields=fields, separator=b",", first_line=2))
    return RawLog(columns=table.columns, line_of=table.line_of)


def _write(workload: Workload, file: BinaryIO) -> None:
    names = [name for name in FIELDS if name in workload.columns]
    file.write((",".join(names) + "\n").encode())
    for rows in rows_of_text([workload.columns[name] for name in names], ","):
        file.write(rows)


CSV = Format("csv", ".csv", _read, _write, "the columns alone; other tables are read by their names")
