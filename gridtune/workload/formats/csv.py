"""CSV: a header row of SWF field names, in any order, then a job a line.

Holds the columns alone: no header, machine size or partition names.
"""

from __future__ import annotations

from typing import BinaryIO

from gridtune.errors import WorkloadError
from gridtune.registry import nearest_name
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import RawLog
from gridtune.workload.formats.numbers import rows_of_text
from gridtune.workload.formats.registry import Format
from gridtune.workload.formats.table import BYTE_ORDER_MARK, TableLayout, parse_table
from gridtune.workload.workload import SWF_FIELDS, Workload

__all__ = ["CSV"]


def _read(stream: LogStream) -> RawLog:
    first = stream.read_line().removeprefix(BYTE_ORDER_MARK)
    if not first.strip():
        raise WorkloadError("line 1 should name the fields, but is empty", path=stream.path, line=1)
    fields = tuple(_field(name, stream) for name in first.decode("utf-8", "replace").split(","))
    twice = sorted({name for name in fields if fields.count(name) > 1})
    if twice:
        raise WorkloadError("the header names it twice", path=stream.path, line=1, field=twice[0])
    for name in ("submit_time", "run_time"):
        if name not in fields:
            raise WorkloadError("the header does not name it", path=stream.path, line=1, field=name)
    table = parse_table(stream, TableLayout(fields=fields, separator=b",", first_line=2))
    return RawLog(columns=table.columns, line_of=table.line_of)


def _field(text: str, stream: LogStream) -> str:
    name = text.strip().strip('"').strip()
    if name not in SWF_FIELDS:
        near = nearest_name(name, SWF_FIELDS)
        hint = f"did you mean {near!r}?" if near else f"the fields are {', '.join(SWF_FIELDS)}"
        raise WorkloadError(f"unknown field {name[:40]!r}", path=stream.path, line=1, hint=hint)
    return name


def _write(workload: Workload, file: BinaryIO) -> None:
    names = [name for name in SWF_FIELDS if name in workload.columns]
    file.write((",".join(names) + "\n").encode())
    for rows in rows_of_text([workload.columns[name] for name in names], ","):
        file.write(rows)


CSV = Format("csv", ".csv", _read, _write, "the columns alone")
