"""The remarks of a schedule: what its log says and the simulation ignores, assumes or cuts off."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from gridtune.batch.estimates import Kill, kills_jobs
from gridtune.batch.policies.queue_order import QueueOrder, fields_read
from gridtune.core.remarks import WALLTIMES, kill_remarks, log_remarks, lost_work
from gridtune.types import IntArray
from gridtune.workload.workload import Workload

__all__ = ["models_of", "schedule_notes"]


def models_of(partitions: str = "pooled", dependencies: str = "ignore") -> Collection[str]:
    """Return what a replay models of what a log may say."""
    parts = ("partitions",) if partitions == "separate" else ()
    after = ("dependencies", "think_times") if dependencies == "log" else ()
    return (WALLTIMES, *parts, *after)


def schedule_notes(
    workload: Workload,
    run: IntArray,
    *,
    kill: Kill,
    orders: Iterable[QueueOrder] = (),
    walltime: str = "log",
    models: Collection[str] = (WALLTIMES,),
) -> dict[str, Any]:
    """Return the notes of a schedule.

    Parameters
    ----------
    workload
        The jobs.
    run
        Shape (n,), seconds that each runs in the schedule.
    kill
        As it was asked for.
    orders
        Queue orders that were used.
    walltime
        The kind of walltimes that the scheduler got.
    models
        What was modelled of what the log says.
    """
    contents = workload.contents
    notes: dict[str, Any] = dict(log_remarks(contents, models))
    if walltime == "log" and contents.equal_requests and contents.jobs:
        blind = [order.label for order in orders if "walltime" in fields_read(order)]
        notes |= {"orders": blind} if blind else {}
    notes |= kill_remarks(contents, killing=kills_jobs(workload, kill))
    return notes | lost_work(workload.run_time, run, workload.processors)
