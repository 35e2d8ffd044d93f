"""A queue order of `gridtune.batch` in place of Slurm's priority: its inputs, and the order itself, compiled.

An order sees a job in each of its partitions, whose limit is the walltime. A job is submitted, as far as the
order sees, when nothing but the queue stands before it any more: the instant from which Slurm counts its age.

A rollout plays the cluster forward as one pool of the processors of all nodes in service. A running job frees
its part at the end of its limit. A waiting one is played once, with the limit of the first of its partitions,
and needs the processors that it asks for; where it takes nodes whole, all of theirs.

A policy that decides sees the same pool, and a row for a job in each of its partitions. The jobs that it
names come first in the queue, the others behind them by submission. Slurm's passes start them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import Decision, Policy, QueueOrder
from gridtune.batch.policies.policy import JobTable, State, named_rows
from gridtune.batch.policies.rollout import Rollout, get_order
from gridtune.batch.predictors.replayed import JobError, Told
from gridtune.batch.simulator.portfolio import Waiting, choose_sequence, new_waiting
from gridtune.batch.simulator.scores import SCORE, Facts, ScoreInputs, compile_score, score_inputs, score_jobs
from gridtune.core.compiled import bare, kernel
from gridtune.core.rows import sort_rows
from gridtune.errors import GridtuneError, PolicyError
from gridtune.slurm.kernel.arrays import World
from gridtune.slurm.kernel.placing import has, ones
from gridtune.slurm.requests import Request
from gridtune.types import FloatArray, Int32Array, IntArray

#: The fields of a job that an order may read: its request and its wait.
_FIELDS = frozenset({"submit_time", "walltime", "processors", "wait", "now"})


def order_for_nodes(reference: str | QueueOrder | Rollout | Callable[..., float]) -> QueueOrder | Rollout:
    """Return an order as `get_order` does: a policy that decides, or one by a job's request and wait alone.

    Raises
    ------
    PolicyError
        If there is no such order, or it may read more of a job than that.
    """
    order = get_order(reference)
    if order.decides:
        return order
    if isinstance(order, Rollout) and order.durations == "predicted":
        raise PolicyError(
            "a rollout on nodes cannot have durations=predicted: nothing there predicts run times",
            hint="durations=walltime plays each job for as long as its limit",
        )
    for score in order.portfolio if isinstance(order, Rollout) else [order]:
        if not score.reads_only(_FIELDS):
            raise PolicyError(
                f"order {score.label!r} may read more of a job than its request and its wait",
                hint=f"on nodes there are {', '.join(sorted(_FIELDS))}, read by functions as `job.wait`",
            )
    return order


class _Lookahead(NamedTuple):
    """The waiting jobs with the portfolio, the processors that each job needs, and the world played."""

    waiting: Waiting
    width: IntArray
    world: World


class DecidedOrder:
    """A policy that decides, as kernels call an order."""

    def __init__(self, order: QueueOrder, inputs: ScoreInputs, world: World) -> None:
        self._policy: Policy = order.score(**order.parameters)
        self._label, self._inputs, self._world = order.label, inputs, world
        self._failure: tuple[BaseException, int, int] | None = None
        self.function = Told(self._rank, SCORE)
        self.ordering: Ordering | None = None

    def check(self) -> None:
        """Raise the error by which the policy has failed; nothing without one."""
        if self._failure is None:
            return
        fault, record, now = self._failure
        if isinstance(fault, GridtuneError) or not isinstance(fault, Exception):
            raise fault
        hint = "decide(state) returns rows of state.waiting; here it has no users, predictions or ended jobs"
        raise JobError.of(fault, f"policy {self._label!r}", record, now, hint) from fault

    def _rank(self, _: int, __: int, count: int, now: int, ___: int, ____: int) -> None:
        """Write the places of the first `count` records of the queue as their scores."""
        assert self.ordering is not None
        records, submit = self.ordering.record[:count], self.ordering.submit
        by_submission = np.lexsort((records, submit[records]))
        places = np.arange(count)
        self.ordering.value[by_submission] = count + places
        try:
            if self._failure is None:
                rows = self._chosen(records[by_submission], now)
                self.ordering.value[by_submission[rows]] = places[: len(rows)]
        except BaseException as fault:  # it cannot pass through the kernel
            self._failure = fault, int(records[by_submission[0]]), now

    def _chosen(self, waiting: Int32Array, now: int) -> IntArray:
        """Return the rows of waiting records, by submission, that the policy names."""
        world, submit, origin = self._world, self._inputs.submit, int(self._world.jobs.submit[0])
        job, start, limit_end = world.records.job, world.running.start, world.running.limit_end
        pool = np.unpackbits(world.pool.view(np.uint8), bitorder="little")[: len(world.nodes.cpus)] == 1
        running = world.running.by_limit[: int(world.state["running"])]
        columns = {name: getattr(self._inputs, name).take for name in ("walltime", "processors")}
        columns |= {"submit_time": submit.take}
        guarded = int(np.count_nonzero(now - submit[waiting] > self._inputs.guard[0]))
        state = State(
            now,
            int(world.nodes.cpus[pool].sum()),
            int(world.free.cpus[pool].sum()),
            JobTable(waiting, {**columns, "wait": lambda rows: now - submit[rows]}),
            JobTable(
                np.sort(world.running.record[running]).astype(np.int32),
                {
                    **columns,
                    "start_time": lambda rows: start[job[rows]] - origin,
                    "requested_end": lambda rows: limit_end[job[rows]] - origin,
                },
            ),
            JobTable(np.empty(0, np.int32), {}),
            guarded,
        )
        chosen = self._policy.decide(state)
        if isinstance(chosen, Decision):
            reason = f"policy {self._label!r} makes reservations; on nodes, Slurm's passes do"
            raise PolicyError(reason, hint="let it return rows alone")
        return named_rows(self._label, chosen, len(waiting), now)


class Ordering(NamedTuple):
    """An order as `score_jobs` takes it or, with `ahead`, a rollout, and the queue.

    `function`, `program` and `handles` are those of the score and its inputs, a row for each record. `submit`
    is when the job became eligible, in seconds from `origin[0]`. Jobs that have waited for more than
    `guard[0]` seconds go first. `record` and `value` are room to work in, `score` has the last scores. The
    others are columns of the world.
    """

    ahead: _Lookahead | None
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
    order: QueueOrder | Rollout, guard: int | None, requests: Sequence[Request], world: World
) -> tuple[Ordering, ScoreInputs, Sequence[QueueOrder] | DecidedOrder]:
    """Return an order of a world's queue, and what is kept beside it: inputs, and scores or the policy."""
    records, count = world.records, len(world.records.job)
    # A rollout scores each job once, as in the first of its partitions.
    scored: IntArray = world.jobs.records[:-1] if isinstance(order, Rollout) else np.arange(count)
    job = records.job[scored]
    submit, origin = world.jobs.submit[job], world.jobs.submit[:1].copy()
    width = np.array([request.cpus for request in requests], np.int64)[job]
    unknown: IntArray = np.zeros(len(job), np.int64)
    facts = Facts(unknown, unknown, unknown, unknown, np.zeros(len(job)))
    inputs = score_inputs(submit - origin, records.full[scored], width, facts, 0.0, guard)
    ahead: _Lookahead | None = None
    orders: Sequence[QueueOrder] = ()
    deciding: DecidedOrder | None = None
    if isinstance(order, Rollout):
        ahead, orders = _new_lookahead(order, inputs, world)
    elif order.decides:
        deciding = DecidedOrder(order, inputs, world)
    else:
        orders = [order]
    function, program = (deciding.function, 0) if deciding is not None else compile_score(orders[0])
    ordering = Ordering(
        ahead,
        function,
        program,
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
    if deciding is not None:
        deciding.ordering = ordering
    return ordering, inputs, deciding or orders


def _new_lookahead(
    policy: Rollout, inputs: ScoreInputs, world: World
) -> tuple[_Lookahead, Sequence[QueueOrder]]:
    """Return a rollout's view of a world, by the inputs of its jobs, and the orders to keep beside it."""
    records, jobs, first = world.records, world.jobs, world.jobs.records[:-1]
    whole = records.whole[first] * jobs.least_nodes * records.smallest[first]
    waiting, orders = new_waiting(policy, inputs, len(first), len(first))
    return _Lookahead(waiting, np.maximum(inputs.processors, whole), world), orders


@kernel()
def _own_cpus(world, job, part):
    """Return the processors of a job's part without those of a job of a higher tier or an earlier job."""
    running, shared, words = world.running, world.suspension, world.rules.core_words
    if world.rules.suspending == 0:
        return running.cpus[part]
    count, tiers, mine = 0, world.records.tier, world.records.tier[running.record[job]]
    for w in range(words):
        own = shared.part[part * words + w]
        for i in range(world.state.running):
            other = running.by_limit[i]
            tier = tiers[running.record[other]]
            if tier > mine or (tier == mine and other < job):
                for k in range(running.begin[other], running.begin[other] + running.parts[other]):
                    if running.node[k] == running.node[part]:
                        own &= ~shared.part[k * words + w]
        count += ones(own)
    return count


@kernel()
def _note_running(ahead, now):
    """Take over what is free and what running jobs free at their limits; return the size of the pool."""
    world, window = ahead.world, ahead.waiting.window
    running, pool, free = world.running, world.pool, 0
    for node in range(world.rules.nodes):
        if has(pool, 0, node):
            free += world.free.cpus[node]
    total = free
    for place in range(world.state.running):
        job, width = running.by_limit[place], 0
        for part in range(running.begin[job], running.begin[job] + running.parts[job]):
            if has(pool, 0, running.node[part]):
                # What it shares with a job above it is freed by that one.
                width += _own_cpus(world, job, part)
        window.end[place] = max(running.limit_end[job] - now, 1)
        window.released[place] = width
        total += width
    window.state.ends, window.state.free = world.state.running, free
    return total


@kernel()
def _rank_jobs(ahead, ranks, count, now, origin):
    """Write, for each of the first `count` records of the queue, the place of its job in the best order."""
    world, waiting = ahead.world, ahead.waiting
    records, limit, total, length = world.jobs.records, world.records.full, _note_running(ahead, now), 0
    for position in range(count):
        job = world.records.job[world.order[position]]
        if records[job] == world.order[position]:
            waiting.job[length] = job
            length += 1
    waiting.state.length = length
    sort_rows(waiting.job, waiting.row, length)
    for row in range(length):
        job = waiting.job[row]
        waiting.inputs.submit[job] = world.eligible[job] - origin
        waiting.processors[row] = min(ahead.width[job], total)  # nodes may be out of service
        waiting.walltime[row] = limit[records[job]]
    choose_sequence(waiting, now - origin)
    for rank in range(length):
        job = waiting.sequence[rank]
        for record in range(records[job], records[job + 1]):
            ranks[record] = rank


@kernel()
def _before(ordering, record, other):
    """Tell whether a record stands before another in the queue."""
    tier, score = ordering.tier, ordering.score
    if tier[record] != tier[other]:
        return tier[record] > tier[other]
    if score[record] != score[other]:
        return score[record] < score[other]
    return record < other


@kernel()
def _score_waiting(ordering, ahead, count, now):
    """Compute the scores of the first `count` records of the queue."""
    order, origin = ordering.order, ordering.origin[0]
    if ahead is not None:
        _rank_jobs(ahead, ordering.score, count, now, origin)
        return
    for position in range(count):
        record = order[position]
        ordering.record[position] = record
        ordering.submit[record] = ordering.eligible[ordering.job[record]] - origin
    score_jobs(ordering, ordering, ordering.record, count, now - origin, ordering.value)
    for position in range(count):
        ordering.score[ordering.record[position]] = ordering.value[position]


@kernel(apart=True)
def sort_waiting(ordering, count, now):
    """Compute the scores of the first `count` records of the queue, all that wait, and sort them."""
    order = ordering.order
    _score_waiting(ordering, ordering.ahead, count, now)
    for position in range(1, count):
        record, place = order[position], position
        while place > 0 and _before(ordering, record, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = record


@kernel()
def sort_now(ordering, count, now):
    """Sort the first `count` records of the queue, outside of a replay."""
    sort_waiting(bare(ordering), count, now)
