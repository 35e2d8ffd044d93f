"""SWF, the Standard Workload Format 2.2 of the Parallel Workloads Archive.

Eighteen whole numbers a line (average CPU time may have a fraction), header comments after `;`. Some logs
have further fields at the ends of lines: they are passed over, and the header says so.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

from typing import BinaryIO

from gridtune.workload.fields import MORE_FIELDS, SWF_FIELDS
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format, RawLog
from gridtune.workload.formats.table import TableLayout, parse_table, write_table
from gridtune.workload.workload import Workload

__all__ = ["SWF"]

#: Bytes in which the first job is looked for.
_HEAD = 1 << 18
#: What starts a comment.
_COMMENT = b";"


def _read(stream: LogStream) -> RawLog:
    surplus = _surplus(stream)
    layout = TableLayout(fields=(*SWF_FIELDS, *[None] * surplus), comment=_COMMENT)
    last = len(SWF_FIELDS) + surplus
    more = f"fields 19 to {last} of each line are no part of the format and were not read"
    return parse_table(stream, layout).log(stream.path, {"Import": (more,)} if surplus else {})


def _surplus(stream: LogStream) -> int:
    """Return how many more fields than the format's eighteen the first job has."""
    for line in stream.peek(_HEAD).split(b"\n"):
        fields = line.split()
        if fields and not fields[0].startswith(_COMMENT):
            return max(0, len(fields) - len(SWF_FIELDS))
    return 0


def _write(workload: Workload, file: BinaryIO) -> None:
    write_table(file, workload, [workload.column(name) for name in SWF_FIELDS], ";")


def _cannot_hold(workload: Workload) -> list[str]:
    return [name for name in MORE_FIELDS if name in workload.columns]


SWF = Format("swf", ".swf", _read, _write, "its eighteen fields and the header", _cannot_hold)
