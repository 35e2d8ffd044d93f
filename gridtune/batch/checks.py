"""The checks of `simulate`: policies that go together, and workloads that a machine can run."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import get_args

import numpy as np

from gridtune.arguments import require_number
from gridtune.batch.partitions import Partitions, partition_sizes
from gridtune.batch.policies import Backfilling, QueueOrder, get_backfilling
from gridtune.batch.policies.rollout import Rollout
from gridtune.batch.power import PowerPolicy
from gridtune.batch.simulator.scores import compile_score
from gridtune.errors import SimulationError
from gridtune.registry import is_ours
from gridtune.types import BoolArray
from gridtune.workload.fields import UNKNOWN
from gridtune.workload.workload import Workload


def check_order(
    queue: QueueOrder | Rollout,
    fill: QueueOrder | None,
    rule: Backfilling,
    walltime: str = "log",
    **idle: object,
) -> None:
    """Raise a `SimulationError` if these do not go together; `idle` are options of orders that score."""
    if queue.decides:
        idle |= {"fill_order": fill, "backfill": None if rule == get_backfilling("easy") else rule.kind}
        for name, value in idle.items():
            if value is not None:
                reason = f"{name}={value} has no effect with order={queue.label}, which decides itself"
                raise SimulationError(
                    reason, hint=f"leave {name} out; such a policy can call state.easy(order)"
                )
    if walltime == "predicted" and rule.kind == "conservative":
        raise SimulationError("walltime='predicted' goes with EASY or no backfilling, not with conservative")
    if fill is not None and rule.kind != "easy":
        raise SimulationError(f"fill_order goes with EASY backfilling, not with {rule.kind!r}")
    if isinstance(queue, Rollout) and rule.kind != "easy":
        raise SimulationError(f"order={queue.name} goes with EASY backfilling, not with {rule.kind!r}")
    if isinstance(queue, Rollout) and fill is not None:
        raise SimulationError(f"order={queue.name} has no fill_order: it orders candidates too")


def check_policy(order: QueueOrder | Rollout, workload: Workload) -> None:
    """Compile an order of a user's, and refuse one that reads what no job of the log has.

    Raises
    ------
    PolicyError
        If it does not compile; the message names the line.
    SimulationError
        If the log has no users, or no groups.
    """
    if isinstance(order, Rollout):
        return
    for owner in ("user", "group"):
        if order.fields & {owner, f"{owner}_usage"} and (workload.column(owner) == UNKNOWN).all():
            raise SimulationError(
                f"order {order.label!r} goes by the {owner} of jobs, and {workload.name} names none",
                hint="use another order, or a log with that column",
            )
    if isinstance(order.score, FunctionType) and not is_ours(order.score.__module__):
        compile_score(order)


def check_runnable(
    workload: Workload,
    processors: int | None = None,
    partitions: Partitions = "pooled",
    partition_processors: Mapping[str, int] | None = None,
    power: PowerPolicy | None = None,
) -> None:
    """Raise an error if `simulate` would refuse the workload on this machine; nothing is simulated.

    Parameters
    ----------
    workload
        The jobs, cleaned and selected.
    processors
        The machine's size; by default the workload's own.
    partitions, partition_processors
        As for `simulate`.
    power
        The power states of its nodes, if any.

    Raises
    ------
    SimulationError
        If the machine's size is unknown or does not make whole nodes, or a job cannot be run on it.
    """
    sizes = machines_of(workload, processors, partitions, partition_processors)
    if power is not None:
        power.machine_nodes(sizes, None, 0)


def machines_of(
    workload: Workload, processors: int | None, partitions: Partitions, given: Mapping[str, int] | None
) -> int | dict[int, int]:
    """Return the machine's size, or that of each partition; refuse jobs that cannot be run on it."""
    if partitions not in get_args(Partitions):
        raise SimulationError(f"partitions must be 'pooled' or 'separate', got {partitions!r}")
    if partitions == "pooled":
        if given is not None:
            raise SimulationError("partition_processors has no effect with partitions='pooled'")
        size = workload.machine_processors if processors is None else processors
        if size is None:
            raise SimulationError(
                f"{workload.name} does not say how large its machine is",
                field="processors",
                hint="pass processors= (--processors N), or write it into a log: gridtune traces import LOG "
                "NEW.parquet --processors N",
            )
        require_number(size, "processors", whole=True, least=1, error=SimulationError)
        if size >= 2**31:
            raise SimulationError(f"processors must be less than 2³¹, but got {size}")
        _check_jobs(workload, int(size))
        return int(size)
    if processors is not None:
        hint = "partition_processors= gives the sizes"
        raise SimulationError("processors has no effect with partitions='separate'", hint=hint)
    sizes = partition_sizes(workload, given, selection=True)
    for number, size in sizes.items():
        _check_jobs(workload.take(workload.partition == number), size)
    return sizes


def _check_jobs(workload: Workload, machine: int) -> None:
    """Raise an error for a workload that the kernels cannot run; it names the first such job."""
    width = workload.processors

    def refuse(bad: BoolArray, what: str, hint: str, field: str | None = None) -> None:
        row = int(np.argmax(bad))
        shown = {"processors": int(width[row]), "run time": int(workload.run_time[row])}
        raise SimulationError(
            f"{int(bad.sum())} of {len(workload)} jobs {what}; the first is job "
            f"{int(workload.job_id[row])} (row {row}): {shown}",
            path=workload.source,
            field=field,
            hint=hint,
        )

    submit = workload.submit_time
    if (submit[1:] < submit[:-1]).any():
        earlier = np.diff(submit, prepend=submit[:1]) < 0
        refuse(earlier, "are not in submit order", "clean with the rule sort_submits")
    if workload.run_time.min(initial=0) < 0:
        refuse(workload.run_time < 0, "have no run time", "clean with the rule drop_never_started")
    if width.max(initial=0) > machine:
        hint = "give the machine's size, or clean with drop_wider or clamp_wider"
        refuse(width > machine, f"are wider than the machine's {machine} processors", hint, "processors")
    latest = int(submit.max(initial=0))
    work = float(workload.run_time.sum(dtype=np.float64)) + float(workload.requested_time.max(initial=0))
    if latest + work > 2.0**61:
        raise SimulationError(f"times up to {latest} s with {work:.3g} s of work overflow the clock")
