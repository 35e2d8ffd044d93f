"""SWF, the Standard Workload Format 2.2 of the Parallel Workloads Archive.

Eighteen whole numbers a line (average CPU time may have a fraction), header comments after `;`.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

from typing import BinaryIO

from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.header import header_lines, machine_size, parse_header, partition_names
from gridtune.workload.formats.log import RawLog
from gridtune.workload.formats.numbers import rows_of_text
from gridtune.workload.formats.registry import Format
from gridtune.workload.formats.table import TableLayout, parse_table
from gridtune.workload.workload import SWF_FIELDS, Workload

__all__ = ["SWF"]

_LAYOUT = TableLayout(fields=SWF_FIELDS, comment=b";")


def _read(stream: LogStream) -> RawLog:
    table = parse_table(stream, _LAYOUT)
    header = parse_header(table.comments)
    return RawLog(
        columns=table.columns,
        line_of=table.line_of,
        header=header,
        machine_processors=machine_size(header, table.comments, stream.path),
        partition_names=partition_names(header),
    )


def _write(workload: Workload, file: BinaryIO) -> None:
    for line in header_lines(workload, ";"):
        file.write(f"{line}\n".encode())
    for rows in rows_of_text([workload.column(name) for name in SWF_FIELDS], " "):
        file.write(rows)


SWF = Format("swf", ".swf", _read, _write, "every field and the header")
