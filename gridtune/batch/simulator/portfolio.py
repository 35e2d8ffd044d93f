"""The choice of an order of the waiting jobs, compiled: the one of a portfolio that is best played forward.

The orders are tried on a window of the waiting jobs (`forward`), and the best may be improved by local
search. The caller keeps the list of the jobs that wait, and notes the running ones.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.queue_order import formula_of
from gridtune.batch.policies.rollout import MOST_ORDERS, OBJECTIVES, Rollout
from gridtune.batch.simulator.forward import Window, empty_window, improve_order, set_costs, try_order
from gridtune.batch.simulator.running import sort_rows
from gridtune.batch.simulator.scores import ScoreInputs, compile_score, score_jobs
from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, Int8Array, Int32Array, IntArray

__all__ = ["Waiting", "choose_sequence", "new_waiting"]

#: Jobs that wait, orders, the window's size, the objective, moves, whether jobs run as long as predicted.
_STATE = np.dtype(
    [(name, np.int64) for name in ("length", "orders", "window", "objective", "moves", "predicted")]
)


class Waiting(NamedTuple):
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


def new_waiting(
    policy: Rollout, inputs: ScoreInputs, jobs: int, running: int
) -> tuple[Waiting, list[QueueOrder]]:
    """Return room for the waiting ones of so many jobs, of which so many run at a time; none waits.

    The orders that come with it must be kept beside it.
    """
    orders = [_interpreted(order) for order in policy.portfolio]
    scores = [compile_score(order) for order in orders]
    objective, predicted = OBJECTIVES.index(policy.objective), policy.durations == "predicted"
    state = (0, len(orders), policy.window, objective, policy.moves, predicted)
    waiting = Waiting(
        np.array(state, _STATE),
        tuple(scores + scores[:1] * (MOST_ORDERS - len(scores))),  # of one length: kernels are compiled once
        inputs,
        np.empty(jobs, np.int32),
        np.empty(jobs, np.int64),
        np.empty(jobs, np.int64),
        np.empty(jobs, np.int32),
        np.empty(jobs),
        np.empty(jobs, np.int32),
        np.empty(jobs, np.int8),
        empty_window(min(policy.window, jobs), running),
    )
    return waiting, orders


def _interpreted(order: QueueOrder) -> QueueOrder:
    """Return an order that needs no compiler, where it is a formula."""
    formula = formula_of(order)
    return order if formula is None else QueueOrder(order.name, formula, order.description)


@kernel()
def _sort_rows(waiting, order, jobs, count, now):
    """Leave the rows of so many jobs in `row`, in an order of the portfolio."""
    score_jobs(waiting.scores[order], waiting.inputs, jobs, count, now, waiting.score)
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
        _sort_rows(waiting, 0, waiting.job, count, now)
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
        _sort_rows(waiting, order, window.job, count, now)
        different = order == 0
        for rank in range(count):
            window.trial[rank] = waiting.row[rank]
            different |= window.trial[rank] != window.best[rank]
        if different and try_order(window, window.trial):
            best = order
    improve_order(window, waiting.state.moves)
    return best


@kernel()
def choose_sequence(waiting, now):
    """Put the waiting jobs in order: those of the window first. The window must have what runs."""
    window, count = waiting.window, waiting.state.length
    _open_window(waiting, now)
    set_costs(window, waiting.state.objective, waiting.inputs.submit, now)
    order = _choose_order(waiting, now)
    place = window.state.count
    for rank in range(place):
        waiting.sequence[rank] = window.job[window.best[rank]]
    if place < count:
        _sort_rows(waiting, order, waiting.job, count, now)
        for rank in range(count):
            if not waiting.chosen[waiting.row[rank]]:
                waiting.sequence[place] = waiting.job[waiting.row[rank]]
                place += 1
