"""Many logs as one workload, so that a folder of days is passed around and has a checksum like a single log.

The jobs follow one another log by log, each log's times on its own clock, and the partition says which log a
job belongs to. A log's partition number is derived from its name, so that the checksum covers the names.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import FloatArray, IntArray
from gridtune.workload.fields import FIELDS, FLOAT_FIELDS, UNKNOWN
from gridtune.workload.files import read_workload, read_workloads
from gridtune.workload.formats import find_format
from gridtune.workload.formats.archive import is_archive
from gridtune.workload.workload import Workload

__all__ = ["is_joined", "join_workloads", "joined_parts", "read_days"]

#: The header's mark of a joined workload: the number of its logs.
_MARK = "JoinedLogs"


def join_workloads(workloads: Sequence[Workload], *, name: str = "logs") -> Workload:
    """Return one workload that holds many, in their order; `joined_parts` takes them apart again.

    Their partitions and headers are lost. The machine's size is kept where all logs agree on it.

    Raises
    ------
    WorkloadError
        If there are none, or two have the same name.
    """
    if not workloads:
        raise WorkloadError("there are no logs to join")
    name_most_often, times = Counter(log.name for log in workloads).most_common(1)[0]
    if times > 1:
        raise WorkloadError(f"two logs are named {name_most_often!r}", hint="rename one of them")
    numbers = [_number(log.name) for log in workloads]
    sizes = [len(log) for log in workloads]
    fields = [field for field in FIELDS if any(field in log.columns for log in workloads)]
    columns = {field: _joined(field, workloads) for field in fields if field != "partition"}
    columns["partition"] = np.repeat(np.array(numbers, np.int64), sizes)
    machines = {log.machine_processors for log in workloads}
    cleaning: Counter[str] = Counter()
    for log in workloads:
        cleaning.update(log.cleaning)
    return Workload(
        columns,
        name=name,
        machine_processors=machines.pop() if len(machines) == 1 else None,
        header={_MARK: (str(len(workloads)),)},
        names={"partition": {number: log.name for number, log in zip(numbers, workloads, strict=True)}},
        cleaning=dict(cleaning),
    )


def read_days(
    path: Path, *, clean: Iterable[str] = (), time_unit: float = 60, speed: float = 1e6
) -> Workload:
    """Read days: a folder or archive of logs, each a day, or one log, to be cut into days.

    A single Batsim file is one day.

    Parameters
    ----------
    path
        Folder, archive or log.
    clean
        Cleaning rules, applied to each log by itself.
    time_unit, speed
        Of Batsim files: seconds in their unit of time, and flops of a processor in one such unit.

    Returns
    -------
    Workload
        Joined (`is_joined`) unless it is one log of another format than Batsim's.
    """
    if path.is_dir() or is_archive(path):
        units = {"time_unit": time_unit, "speed": speed}
        logs = read_workloads(path, clean=clean, by_format={"batsim": units})
        return join_workloads(logs, name=path.name.partition(".")[0])
    match = find_format(path)
    if match is not None and match[0].name == "batsim":
        day = read_workload(path, clean=clean, time_unit=time_unit, speed=speed)
        return join_workloads([day], name=day.name)
    return read_workload(path, clean=clean)


def is_joined(workload: Workload) -> bool:
    """Return whether a workload holds several logs one after the other."""
    return _MARK in workload.header


def joined_parts(workload: Workload) -> tuple[tuple[str, ...], IntArray]:
    """Return the names of a joined workload's logs, and the first job of each: shape (logs + 1,)."""
    changes = np.flatnonzero(np.diff(workload.partition)) + 1
    first = np.concatenate([[0], changes, [len(workload)]]).astype(np.int64)
    numbers = workload.partition[first[:-1]].tolist()
    return tuple(workload.partition_names[number] for number in numbers), first


def _joined(field: str, workloads: Sequence[Workload]) -> IntArray | FloatArray:
    dtype = np.float64 if field in FLOAT_FIELDS else np.int64
    sizes = [0, *np.cumsum([len(log) for log in workloads]).tolist()]
    column = np.full(sizes[-1], UNKNOWN, dtype)
    for log, (start, end) in zip(workloads, pairwise(sizes), strict=True):
        if field in log.columns:
            column[start:end] = log.columns[field]
    return column


def _number(name: str) -> int:
    """Return 48 bits that stand for a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
