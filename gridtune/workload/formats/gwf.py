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

__all__ = ["GWF", "GWF_FIELDS"]

#: The format's own names of its columns, in order.
GWF_FIELDS = (
    "JobID",
    "SubmitTime",
    "WaitTime",
    "RunTime",
    "NProcs",
    "AverageCPUTimeUsed",
    "UsedMemory",
    "ReqNProcs",
    "ReqTime",
    "ReqMemory",
    "Status",
    "UserID",
    "GroupID",
    "ExecutableID",
    "QueueID",
    "PartitionID",
    "OrigSiteID",
    "LastRunSiteID",
    "JobStructure",
    "JobStructureParams",
    "UsedNetwork",
    "UsedLocalDiskSpace",
    "UsedResources",
    "ReqPlatform",
    "ReqNetwork",
    "ReqLocalDiskSpace",
    "ReqResources",
    "VOID",
    "ProjectID",
)

_SHARED = 16
_LABELS = frozenset({"user", "group", "executable", "queue", "partition"})
_PARTITIONS = ("PartitionID", "OrigSiteID", "LastRunSiteID")
_GROUPS = ("GroupID", "VOID", "ProjectID")


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
    if partition_from not in _PARTITIONS:
        raise WorkloadError(f"partition_from must be one of {_PARTITIONS}, but got {partition_from!r}")
    if group_from not in _GROUPS:
        raise WorkloadError(f"group_from must be one of {_GROUPS}, but got {group_from!r}")
    taken = dict(zip(GWF_FIELDS, SWF_FIELDS[:_SHARED], strict=False))
    del taken["PartitionID"], taken["GroupID"]
    taken |= {partition_from: "partition", group_from: "group"}
    return tuple(taken.get(name) for name in GWF_FIELDS)


def _write(workload: Workload, file: BinaryIO) -> None:
    columns = [workload.column(name) for name in SWF_FIELDS[:_SHARED]]
    nothing = np.broadcast_to(np.int64(UNKNOWN), len(workload))
    columns += [nothing] * (len(GWF_FIELDS) - _SHARED)
    write_table(file, workload, columns, "#")


def _cannot_hold(workload: Workload) -> list[str]:
    return [name for name in FIELDS[_SHARED:] if (workload.column(name) != UNKNOWN).any()]


GWF = Format(
    "gwf", ".gwf", _read, _write, "every field but preceding_job and think_time; the header", _cannot_hold
)
