"""The batch kernel that looks ahead: EASY backfilling in the order that is best when played forward.

In each pass in which some but not all waiting jobs fit, the orders of a portfolio are tried on a window of
the waiting jobs (`forward`), and the best may be improved by local search. Nothing is known of the jobs but
what they request and for how long they have waited or run.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.queue_order import formula_of
from gridtune.batch.policies.rollout import MOST_ORDERS, OBJECTIVES, Rollout
from gridtune.batch.predictors.replayed import PredictedReplay
from gridtune.batch.simulator.events import (
    FROZEN,
    Log,
    advance,
    in_time,
    launch,
    new_replay,
    reserve_for_head,
)
from gridtune.batch.simulator.forward import (
    Window,
    empty_window,
    improve_order,
    note_predicted,
    note_running,
    set_costs,
    try_order,
)
from gridtune.batch.simulator.nodes import Nodes
from gridtune.batch.simulator.running import insert_row, read_requests, remove_row, some_within, sort_rows
from gridtune.batch.simulator.scores import (
    Facts,
    ScoreInputs,
    charge,
    check_scores,
    compile_score,
    note_run_time,
    note_submission,
    score_inputs,
    score_jobs,
)
from gridtune.core.compiled import bare, kernel
from gridtune.types import FloatArray, Int8Array, Int32Array, IntArray

__all__ = ["rollout_schedule"]

#: Jobs that wait, orders, the window's size, the objective, moves, whether jobs run as long as predicted, and
#: decisions so far.
_STATE = np.dtype(
    [
        (name, np.int64)
        for name in ("length", "orders", "window", "objective", "moves", "predicted", "decisions")
    ]
)


class _Waiting(NamedTuple):
    """The waiting jobs by submission, and what orders them.

    The first `state.length` rows of `job`, `processors` and `walltime` are those that wait; of the same
    number are `sequence`, the jobs in the order of a pass, and `score` with `row`, scratch. `chosen` marks
    the rows of the window. The first `state.orders` of `scores` are the portfolio.
    """

    state: Any
    scores: Any
    inputs: ScoreInputs
    job: Int32Array
    processors: IntArray
    walltime: IntArray
    sequence: Int32Array
    score: FloatArray
    row: Int32Array
    chosen: Int8Array
    window: Window


@kernel(forceinline=True)
def _enqueue(replay, job, now):
    waiting, log = replay.queue, replay.log
    note_submission(waiting.inputs, job, now)
    count = waiting.state.length
    waiting.state.length = count + 1
    replay.state.waiting += 1
    insert_row(
        waiting.job, waiting.processors, waiting.walltime, count, job, log.processors[job], log.walltime[job]
    )


@kernel(forceinline=True)
def _arrive(replay, job, now):
    _enqueue(replay, job, now)
    return True


@kernel(forceinline=True)
def _start(replay, job, now):
    """Start a job that waits."""
    waiting = replay.queue
    count = waiting.state.length
    place, beyond = 0, count
    while waiting.job[place] != job:
        middle = (place + beyond) >> 1
        if waiting.job[middle] <= job:
            place = middle
        else:
            beyond = middle
    remove_row(waiting.job, waiting.processors, waiting.walltime, count, place)
    waiting.state.length = count - 1
    replay.state.waiting -= 1
    launch(replay, job, now)
    charge(waiting.inputs, job, replay.log.processors[job], now)


@kernel(forceinline=True)
def _note_end(replay, job, now):
    log, inputs = replay.log, replay.queue.inputs
    charge(inputs, job, -log.processors[job], now)
    note_run_time(inputs, job, log.run[job], now)


@kernel(inline="always")
def _is_overfull(replay):
    """Return False: the list has room for all jobs."""
    return False


@kernel()
def _sort_all(waiting, order, now):
    """Leave the rows of all waiting jobs in `row`, in an order of the portfolio."""
    count = waiting.state.length
    score_jobs(waiting.scores[order], waiting.inputs, waiting.job, count, now, waiting.score)
    for row in range(count):
        waiting.row[row] = row
    sort_rows(waiting.score, waiting.row, count)


@kernel()
def _open_window(waiting, now):
    """Take jobs into the window: all, or half of it by the first order and the oldest of the others."""
    window, count, size = waiting.window, waiting.state.length, waiting.state.window
    whole = count <= size
    for row in range(count):
        waiting.chosen[row] = whole
    if not whole:
        _sort_all(waiting, 0, now)
        for rank in range(size // 2):
            waiting.chosen[waiting.row[rank]] = 1
        row, left = 0, size - size // 2
        while left > 0:
            left -= 0 if waiting.chosen[row] else 1
            waiting.chosen[row] = 1
            row += 1
    guard, submit = waiting.inputs.guard[0], waiting.inputs.submit
    place = guarded = 0
    for row in range(count):
        if not waiting.chosen[row]:
            continue
        window.job[place], window.width[place] = waiting.job[row], waiting.processors[row]
        window.length[place] = max(waiting.walltime[row], 1)
        if waiting.state.predicted:
            predicted = math.ceil(waiting.inputs.predicted[waiting.job[row]])
            window.length[place] = max(min(window.length[place], predicted), 1)
        guarded += 1 if now - submit[waiting.job[row]] > guard else 0
        place += 1
    window.state.count, window.state.guarded = place, guarded


@kernel()
def _choose_order(waiting, now):
    """Find the best order of the window; return the order of the portfolio that it comes from."""
    window, best = waiting.window, 0
    count = window.state.count
    for order in range(waiting.state.orders):
        score_jobs(waiting.scores[order], waiting.inputs, window.job, count, now, waiting.score)
        for place in range(count):
            waiting.row[place] = place
        sort_rows(waiting.score, waiting.row, count)
        different = order == 0
        for rank in range(count):
            window.trial[rank] = waiting.row[rank]
            different |= window.trial[rank] != window.best[rank]
        if different and try_order(window, window.trial):
            best = order
    improve_order(window, waiting.state.moves)
    return best


@kernel()
def _decide(replay, now):
    """Put the waiting jobs in order: those of the window first."""
    waiting, state = replay.queue, replay.state
    count, needed = waiting.state.length, 0
    for row in range(count):
        waiting.sequence[row] = waiting.job[row]
        needed += waiting.processors[row]
    if count == 1 or needed <= state.free:
        return
    waiting.state.decisions += 1
    read_requests(replay.running, replay.log)
    _open_window(waiting, now)
    window = waiting.window
    if waiting.state.predicted:
        expected = waiting.inputs.predicted
        note_predicted(window, replay.running, state.free, replay.log.start, expected, now)
    else:
        note_running(window, replay.running, state.free, now)
    set_costs(window, waiting.state.objective, waiting.inputs.submit, now)
    order = _choose_order(waiting, now)
    place = window.state.count
    for rank in range(place):
        waiting.sequence[rank] = window.job[window.best[rank]]
    if place < count:
        _sort_all(waiting, order, now)
        for rank in range(count):
            if not waiting.chosen[waiting.row[rank]]:
                waiting.sequence[place] = waiting.job[waiting.row[rank]]
                place += 1


@kernel(forceinline=True)
def _pass(replay, newest, now):
    """One scheduling pass: choose an order, start its head while it fits, then backfill behind it."""
    waiting, state, width = replay.queue, replay.state, replay.log.processors
    frozen, count = replay.flags & FROZEN != 0, waiting.state.length
    if count == 0 or (not frozen and not some_within(waiting.processors, count, state.free)):
        return
    _decide(replay, now)
    rank = 0
    while rank < count and width[waiting.sequence[rank]] <= state.free:
        _start(replay, np.int64(waiting.sequence[rank]), now)
        rank += 1
        if not frozen:  # the job just started may use processors that the reservation counts on
            state.head = -1
    if rank == count:
        return
    head = np.int64(waiting.sequence[rank])
    reserve_for_head(replay, head, head, now)
    for place in range(rank + 1, count):
        job = np.int64(waiting.sequence[place])
        if width[job] > state.free:
            continue
        ends_in_time = in_time(replay, job, now)
        if ends_in_time or width[job] <= state.spare:
            state.spare -= 0 if ends_in_time else width[job]
            _start(replay, job, now)


@kernel()
def _run(replay):
    """Replay the log, by the bare columns of the caller's arrays."""
    return advance(bare(replay), _arrive, _enqueue, _pass, _note_end, _is_overfull)


def rollout_schedule(
    submit: IntArray,
    run: IntArray,
    walltime: IntArray,
    processors: IntArray,
    facts: Facts,
    policy: Rollout,
    machine: int,
    flags: int,
    half_life: float,
    nodes: Nodes | None = None,
    guard: int | None = None,
    predictions: PredictedReplay | None = None,
) -> tuple[IntArray, int]:
    """Replay a log under rollouts; return the start times, shape (n,), int64, and the number of decisions.

    Parameters
    ----------
    submit, run, walltime, processors, facts, machine, flags, half_life, nodes, guard
        As for `scored_schedule`; backfilling is EASY.
    policy
        The portfolio and how it is used.
    predictions
        Those of a predictor, if the policy reads any.
    """
    jobs, size = len(submit), min(policy.window, len(submit))
    orders = [_interpreted(order) for order in policy.portfolio]
    scores = [compile_score(order) for order in orders]
    objective = OBJECTIVES.index(policy.objective)
    predictions = PredictedReplay(jobs) if predictions is None else predictions
    inputs = score_inputs(submit, walltime, processors, facts, half_life, guard, predictions)
    predicted = policy.durations == "predicted"
    state = np.array((0, len(orders), policy.window, objective, policy.moves, predicted, 0), _STATE)
    waiting = _Waiting(
        state,
        tuple(scores + scores[:1] * (MOST_ORDERS - len(scores))),  # of one length: kernels are compiled once
        inputs,
        np.empty(jobs, np.int32),
        np.empty(jobs, np.int64),
        np.empty(jobs, np.int64),
        np.empty(jobs, np.int32),
        np.empty(jobs),
        np.empty(jobs, np.int32),
        np.empty(jobs, np.int8),
        empty_window(size, min(machine, jobs) + 1),
    )
    log = Log(submit, run, walltime, processors, np.empty(jobs, np.int64))
    _run(new_replay(log, machine, flags, nodes, waiting))
    predictions.check()
    check_scores(orders, inputs, "last")
    return log.start, int(state["decisions"])


def _interpreted(order: QueueOrder) -> QueueOrder:
    """Return an order that needs no compiler, where it is a formula."""
    formula = formula_of(order)
    return order if formula is None else QueueOrder(order.name, formula, order.description)
