"""GWF, the text form of the Grid Workloads Archive's Grid Workload Format.

Twenty-nine fields a line, comments after `#`. The first sixteen are SWF's; users, groups, executables,
queues and partitions may be names, which get numbers in order of their first appearance and stand in the
header as SWF's `Partition: 12 rl.ac.uk` does. The other thirteen (sites, job structure, network, disk,
platform, virtual organisation, project) have no place in a `Workload`.

Source: http://gwa.ewi.tudelft.nl/grid-workload-format/
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.workload.fields import FIELDS, SWF_FIELDS, UNKNOWN
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format, RawLog
from gridtune.workload.formats.table import TableLayout, parse_table, write_table
from gridtune.workload.workload import Workload

__all__ = ["GWF"]

_SHARED, _WIDTH = 16, 29
_LABELS = frozenset({"user", "group", "executable", "queue", "partition"})
#: Columns that can become the partition or the group, by the format's own names, with their positions.
_PARTITIONS = {"PartitionID": 15, "OrigSiteID": 16, "LastRunSiteID": 17}
_GROUPS = {"GroupID": 12, "VOID": 27, "ProjectID": 28}


def _read(stream: LogStream, partition_from: str = "PartitionID", group_from: str = "GroupID") -> RawLog:
    """Read GWF; `partition_from` and `group_from` say which column becomes partition and group."""
    fields = _fields(partition_from, group_from)
    table = parse_table(stream, TableLayout(fields=fields, comment=b"#;", labels=_LABELS))
    names = {
        name.capitalize(): tuple(f"{number} {label}" for number, label in enumerate(labels, start=1))
        for name, labels in sorted(table.labels.items())
    }
    return table.log(stream.path, names)


def _fields(partition_from: str, group_from: str) -> tuple[str | None, ...]:
    fields: list[str | None] = [*SWF_FIELDS[:_SHARED], *[None] * (_WIDTH - _SHARED)]
    for field, source, positions in (
        ("partition", partition_from, _PARTITIONS),
        ("group", group_from, _GROUPS),
    ):
        if source not in positions:
            raise WorkloadError(f"{field}_from must be one of {tuple(positions)}, but got {source!r}")
        fields[fields.index(field)] = None
        fields[positions[source]] = field
    return tuple(fields)


def _write(workload: Workload, file: BinaryIO) -> None:
    columns = [workload.column(name) for name in SWF_FIELDS[:_SHARED]]
    nothing = np.broadcast_to(np.int64(UNKNOWN), len(workload))
    columns += [nothing] * (_WIDTH - _SHARED)
    write_table(file, workload, columns, "#")


def _cannot_hold(workload: Workload) -> list[str]:
    return [name for name in FIELDS[_SHARED:] if (workload.column(name) != UNKNOWN).any()]


GWF = Format(
    "gwf", ".gwf", _read, _write, "every field but preceding_job and think_time; the header", _cannot_hold
)
