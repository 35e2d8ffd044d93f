"""The text formats of the archives: the Standard Workload Format 2.2 and the Grid Workloads Archive's GWF.

**SWF** has eighteen whole numbers a line (average CPU time may have a fraction) and header comments
after `;`. Some logs have further fields at the ends of lines: they are passed over and named in the header.

**GWF** has twenty-nine fields a line and comments after `#`. The first sixteen are SWF's; users, groups,
executables, queues and partitions may be names, which get numbers in order of their first appearance and
are in the header as SWF's `Partition: 12 rl.ac.uk` is. The other thirteen (sites, job structure, network,
disk, platform, virtual organisation, project) have no place in a `Workload`.

Sources: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html;
http://gwa.ewi.tudelft.nl/grid-workload-format/
"""

from __future__ import annotations

from dataclasses import replace
from typing import BinaryIO

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.workload.fields import FIELDS, MORE_FIELDS, SWF_FIELDS, UNKNOWN
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format, RawLog
from gridtune.workload.formats.table import TableLayout, parse_table, write_table
from gridtune.workload.workload import Workload

#: Bytes in which the first job is looked for.
_HEAD = 1 << 18
#: What starts a comment.
_COMMENT = b";"
#: The status of lines that are a segment of a job.
_PARTS = (2, 3, 4)


def _read_swf(stream: LogStream) -> RawLog:
    surplus = _surplus(stream)
    table = parse_table(stream, TableLayout(fields=(*SWF_FIELDS, *[None] * surplus), comment=_COMMENT))
    notes = []
    if surplus:
        last = len(SWF_FIELDS) + surplus
        notes.append(f"fields 19 to {last} of each line are no part of the format and were not read")
    # Parts of a job (status 2, 3, 4) that another line (0, 1, 5) sums up.
    status, job = table.columns["status"], table.columns["job_id"]
    segment = np.isin(status, _PARTS)
    if segment.any():
        segment &= np.isin(job, job[np.isin(status, (0, 1, 5))])
    if segment.any():
        table = replace(
            table,
            columns={name: column[~segment] for name, column in table.columns.items()},
            lines=table.lines[~segment],
        )
        notes.append(
            f"{int(segment.sum())} segments of preempted jobs left out, which a line of the job sums up"
        )
    if lone := int(np.isin(table.columns["status"], _PARTS).sum()):
        notes.append(f"{lone} segments of preempted jobs that no line sums up: each counts as a job")
    return table.log(stream.path, {"Import": tuple(notes)} if notes else {})


def _surplus(stream: LogStream) -> int:
    """Return how many more fields than the format's eighteen the first job has."""
    for line in stream.peek(_HEAD).split(b"\n"):
        fields = line.partition(_COMMENT)[0].split()
        if fields:
            return max(0, len(fields) - len(SWF_FIELDS))
    return 0


SWF = Format(
    "swf",
    ".swf",
    _read_swf,
    lambda log, file: write_table(file, log, [log.column(name) for name in SWF_FIELDS], ";"),
    "its eighteen fields and the header",
    lambda log: [name for name in MORE_FIELDS if name in log.columns],
)


_SHARED, _WIDTH = 16, 29
_LABELS = frozenset({"user", "group", "executable", "queue", "partition"})
#: Columns that can become the partition or the group, by the format's own names, with their positions.
_PARTITIONS = {"PartitionID": 15, "OrigSiteID": 16, "LastRunSiteID": 17}
_GROUPS = {"GroupID": 12, "VOID": 27, "ProjectID": 28}


def _read_gwf(stream: LogStream, partition_from: str = "PartitionID", group_from: str = "GroupID") -> RawLog:
    """Read GWF; `partition_from` and `group_from` say which column becomes partition and group."""
    fields: list[str | None] = [*SWF_FIELDS[:_SHARED], *[None] * (_WIDTH - _SHARED)]
    for field, source, positions in (
        ("partition", partition_from, _PARTITIONS),
        ("group", group_from, _GROUPS),
    ):
        if source not in positions:
            raise WorkloadError(f"{field}_from must be one of {tuple(positions)}, but got {source!r}")
        fields[fields.index(field)] = None
        fields[positions[source]] = field
    table = parse_table(stream, TableLayout(fields=tuple(fields), comment=b"#;", labels=_LABELS))
    names = {
        name.capitalize(): tuple(f"{number} {label}" for number, label in enumerate(labels, start=1))
        for name, labels in sorted(table.labels.items())
    }
    return table.log(stream.path, names)


def _write_gwf(workload: Workload, file: BinaryIO) -> None:
    columns = [workload.column(name) for name in SWF_FIELDS[:_SHARED]]
    nothing = np.broadcast_to(np.int64(UNKNOWN), len(workload))
    columns += [nothing] * (_WIDTH - _SHARED)
    write_table(file, workload, columns, "#")


GWF = Format(
    "gwf",
    ".gwf",
    _read_gwf,
    _write_gwf,
    "every field but preceding_job and think_time; the header",
    lambda log: [name for name in FIELDS[_SHARED:] if (log.column(name) != UNKNOWN).any()],
)
