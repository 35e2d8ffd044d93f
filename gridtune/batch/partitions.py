"""Partitions as machines of their own: their sizes, and the jobs of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np

from gridtune.batch.policies.queue_order import QueueOrder
from gridtune.batch.policies.rollout import Rollout
from gridtune.core.usage import step_function
from gridtune.errors import SimulationError
from gridtune.types import IntArray
from gridtune.workload.fields import UNKNOWN
from gridtune.workload.workload import Workload

#: Whether all partitions are one machine, or each is one of its own.
Partitions = Literal["pooled", "separate"]


#: Fields of a job that depend on what ran in all partitions.
_SHARED = frozenset({"user_usage", "group_usage", "prediction", "early_end"})


def read_sizes(text: str) -> dict[str, int]:
    """Return the sizes in a text such as `batch=512,gpu=64`, by name or number of the partition.

    Raises
    ------
    ValueError
        For anything else.
    """
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = (piece.strip() for piece in part.rpartition("="))
        if not name or not size.isdecimal() or int(size) < 1 or name in sizes:
            raise ValueError(f"sizes are written NAME=PROCESSORS,…, such as batch=512,gpu=64; got {text!r}")
        sizes[name] = int(size)
    return sizes


def partition_sizes(
    workload: Workload, given: Mapping[str, int] | None = None, *, selection: bool = False
) -> dict[int, int]:
    """Return the processors of each partition of a log, by its number.

    As given; else as an import from `slurm.conf` noted them in the header; else the most that were in use at
    once by the recorded waits, which is the least that the partition can have had. With `selection`, sizes
    may be given of partitions that have no job here.

    Raises
    ------
    SimulationError
        If jobs are in no partition, a given name is none of the log's, or a size cannot be had.
    """
    workload = workload.take(workload.run_time >= 0)
    numbers = np.unique(workload.partition).tolist()
    if not len(workload) or UNKNOWN in numbers:
        count = int((workload.partition == UNKNOWN).sum())
        raise SimulationError(
            f"{count:,} of {len(workload):,} jobs of {workload.name} are in no partition",
            field="partitions",
            hint="partitions=pooled takes all as one machine",
        )
    names = {str(number): number for number in numbers}
    names |= {name: number for number, name in workload.partition_names.items() if number in numbers}
    given = {} if given is None else given
    elsewhere = {str(value) for pair in workload.partition_names.items() for value in pair}
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None and not (selection and (unknown in elsewhere or unknown.isdecimal())):
        shown = ", ".join(workload.partition_names.get(number, str(number)) for number in numbers[:10])
        raise SimulationError(
            f"no job is in a partition {unknown!r}", field="partition_processors", hint=f"there are {shown}"
        )
    stated = dict(size.split() for size in workload.header.get("PartitionProcs", ()))
    sizes = {number: int(stated[str(number)]) for number in numbers if str(number) in stated}
    sizes |= {names[name]: size for name, size in given.items() if name in names}
    for number in numbers:
        if number not in sizes:
            sizes[number] = _most_in_use(workload, number)
    return sizes


def _most_in_use(workload: Workload, number: int) -> int:
    rows = workload.partition == number
    wait, run = workload.wait_time[rows], workload.run_time[rows]
    if (wait < 0).any():
        name = workload.partition_names.get(number, str(number))
        raise SimulationError(
            f"how large is partition {name!r}? {workload.name} neither says it nor when its jobs started",
            field="partition_processors",
            hint=f"give it: partition_processors={name}=N,…, or import the log with --slurm-conf",
        )
    start = workload.submit_time[rows] + wait
    use = step_function(start, start + run, workload.processors[rows])
    return max(int(use.values.max(initial=0)), int(workload.processors[rows].max()))


def separate_starts(
    workload: Workload,
    sizes: Mapping[int, int],
    orders: Iterable[QueueOrder | Rollout],
    starts: Callable[[IntArray, int], IntArray],
) -> IntArray:
    """Return when jobs start if each partition is a machine of its own: shape (n,), int64 seconds.

    Parameters
    ----------
    workload, sizes
        The jobs, and the processors of each partition by number.
    orders
        The queue orders that are used.
    starts
        Returns the starts of some rows' jobs, as if there were no others, on a machine of a size.

    Raises
    ------
    SimulationError
        For an order that counts what ran in all partitions.
    """
    for order in orders:
        shared = sorted(order.fields & _SHARED)
        if shared:
            raise SimulationError(
                f"order {order.label!r} goes by {shared[0]}, which counts over all partitions, but "
                "partitions=separate replays each by itself",
                field="partitions",
                hint="partitions=pooled",
            )
    start = np.empty(len(workload), np.int64)
    for number in np.unique(workload.partition).tolist():
        rows = np.flatnonzero(workload.partition == number)
        start[rows] = starts(rows, sizes[number])
    return start
