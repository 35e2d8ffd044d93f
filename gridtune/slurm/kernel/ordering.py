"""A queue order of `gridtune.batch` in place of Slurm's priority: its inputs, and the order itself, compiled.

An order sees a job in each of its partitions, whose limit is the walltime. A job is submitted, as far as the
order sees, when nothing but the queue stands before it any more: the instant from which Slurm counts its age.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.rollout import Rollout, get_order
from gridtune.batch.simulator.scores import Facts, ScoreInputs, compile_score, score_inputs, score_jobs
from gridtune.core.compiled import kernel
from gridtune.errors import PolicyError
from gridtune.slurm.kernel.arrays import World
from gridtune.slurm.requests import Request
from gridtune.types import FloatArray, Int32Array, IntArray

__all__ = ["get_score", "new_ordering", "sort_waiting"]

#: The fields of a job that an order may read: its request and its wait.
_FIELDS = frozenset({"submit_time", "walltime", "processors", "wait", "now"})


def get_score(reference: str | QueueOrder | Callable[..., float]) -> QueueOrder:
    """Return an order as `get_queue_order` does, if it is a score of a job's request and wait.

    Raises
    ------
    PolicyError
        If there is no such order, it may read more of a job than that, or it is a rollout.
    """
    order = get_order(reference)
    if isinstance(order, Rollout):
        raise PolicyError(
            "order=rollout plays a pool of processors forward, and not nodes",
            hint="on nodes an order is a score of each job, such as saf or f1; system batch has rollouts",
        )
    if not order.reads_only(_FIELDS):
        raise PolicyError(
            f"order {order.label!r} may read more of a job than its request and its wait",
            hint=f"on nodes it has {', '.join(sorted(_FIELDS))}, which a function must read as `job.wait`",
        )
    return order


class Ordering(NamedTuple):
    """An order as `score_jobs` takes it, and the queue.

    `function`, `program` and `handles` are those of the score and its inputs, a row for each record. `submit`
    is when the job became eligible, in seconds from `origin[0]`. Jobs that have waited for more than
    `guard[0]` seconds go first. `record` and `value` are room to work in, `score` has the last scores. The
    others are columns of the world.
    """

    function: Any
    program: int
    handles: IntArray
    guard: IntArray
    origin: IntArray
    submit: IntArray
    record: Int32Array
    value: FloatArray
    score: FloatArray
    order: IntArray
    job: IntArray
    tier: IntArray
    eligible: IntArray


def new_ordering(
    order: QueueOrder, guard: int | None, requests: Sequence[Request], world: World
) -> tuple[Ordering, ScoreInputs]:
    """Return an order of a world's queue, and the inputs of its scores, which must be kept beside it."""
    records, count = world.records, len(world.records.job)
    submit, origin = world.jobs.submit[records.job], world.jobs.submit[:1].copy()
    width = np.array([request.cpus for request in requests], np.int64)[records.job]
    unknown: IntArray = np.zeros(count, np.int64)
    facts = Facts(unknown, unknown, unknown, unknown, np.zeros(count))
    inputs = score_inputs(submit - origin, records.limit, width, facts, 0.0, guard)
    score = compile_score(order)
    ordering = Ordering(
        *score,
        inputs.handles,
        inputs.guard,
        origin,
        inputs.submit,
        np.empty(count, np.int32),
        np.empty(count),
        np.empty(count),
        world.order,
        records.job,
        records.tier,
        world.eligible,
    )
    return ordering, inputs


@kernel()
def _before(ordering, record, other):
    """Tell whether a record stands before another in the queue."""
    tier, score = ordering.tier, ordering.score
    if tier[record] != tier[other]:
        return tier[record] > tier[other]
    if score[record] != score[other]:
        return score[record] < score[other]
    return record < other


@kernel(apart=True)
def sort_waiting(ordering, count, now):
    """Compute the scores of the first `count` records of the queue, all that wait, and sort them."""
    order, origin = ordering.order, ordering.origin[0]
    for position in range(count):
        record = order[position]
        ordering.record[position] = record
        ordering.submit[record] = ordering.eligible[ordering.job[record]] - origin
    score_jobs(ordering, ordering, ordering.record, count, now - origin, ordering.value)
    for position in range(count):
        ordering.score[ordering.record[position]] = ordering.value[position]
    for position in range(1, count):
        record, place = order[position], position
        while place > 0 and _before(ordering, record, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = record
