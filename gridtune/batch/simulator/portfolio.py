"""The choice of an order of the waiting jobs, compiled: the one of a portfolio that is best played forward.

The orders are tried on a *window* of the waiting jobs, and the best may be improved by local search. The
caller keeps the list of the jobs that wait, and notes the running ones.

A window is played from a decision on under EASY backfilling: jobs run as long as they request, running jobs
end when they have requested, and no job arrives. Then the reservation of the blocked head never moves, so it
is computed once for each head. A job that starts t seconds after the decision costs c0 + c1 t + c2 t². The
sums of these over the jobs that still wait bound the cost from below, and a simulation is broken off where
the bound is above the least cost so far.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.rollout import MOST_ORDERS, OBJECTIVES, WINDOWS, Rollout
from gridtune.batch.simulator.nodes import NEVER
from gridtune.batch.simulator.scores import ScoreInputs, compile_score, score_jobs
from gridtune.core.compiled import kernel
from gridtune.core.rows import sort_rows
from gridtune.types import FloatArray, Int8Array, Int32Array, IntArray

_WAIT, _AREA, _BALANCED, _SAFE, _INDEX = range(len(OBJECTIVES))
#: Orders whose costs differ by less than this fraction are equally good: sums differ by rounding.
_EQUAL = 1e-9
#: Local search moves jobs within the first so many places, and others to the first place.
_HEAD = 8

#: Jobs in the window; how many of them, at its front, a guard keeps where they are; expected ends; free
#: processors; the best order's cost, and the cost of a second until the last job starts.
_WINDOW_STATE = np.dtype(
    [(name, np.int64) for name in ("count", "guarded", "ends", "free")]
    + [(name, np.float64) for name in ("cost", "delay")]
)


class _Window(NamedTuple):
    """The jobs that a decision is about.

    Times are in seconds from the decision. `end` are the ends that running jobs have requested, ascending,
    and `released` the processors that come free at each. The jobs of the window are by submission: `job`,
    `width`, `length` (walltime), and c0, c1, c2 of their costs. `best` is the best order so far, as places in
    the window; `trial` is one to try. `queue`, `started_end` and `started_width` are scratch of a simulation.
    """

    state: Any
    end: IntArray
    released: IntArray
    job: Int32Array
    width: IntArray
    length: IntArray
    c0: FloatArray
    c1: FloatArray
    c2: FloatArray
    best: IntArray
    trial: IntArray
    queue: IntArray
    started_end: IntArray
    started_width: IntArray


def _empty_window(jobs: int, running: int) -> _Window:
    """Return room for so many jobs of a window, and for so many that run."""
    rooms = {"end": running, "released": running}
    kinds = {"job": np.int32, "c0": np.float64, "c1": np.float64, "c2": np.float64}
    columns = {
        name: np.empty(rooms.get(name, jobs), kinds.get(name, np.int64)) for name in _Window._fields[1:]
    }
    return _Window(state=np.zeros((), _WINDOW_STATE), **columns)


@kernel()
def note_running(window, running, free, now):
    """Take over the expected ends of the running jobs; those past theirs are expected a second from now."""
    state, count = window.state, 0
    for place in range(running.state.listed):
        end = max(running.requested_end[place] - now, 1)
        if count > 0 and window.end[count - 1] == end:
            window.released[count - 1] += running.listed_width[place]
        else:
            window.end[count], window.released[count] = end, running.listed_width[place]
            count += 1
    state.ends, state.free = count, free


@kernel()
def note_predicted(window, running, free, start, predicted, now):
    """Take over the running jobs as `note_running` does, each expected to end as predicted."""
    state, count = window.state, running.state.listed
    for place in range(count):
        job, width, hole = running.listed_job[place], running.listed_width[place], place
        end = max(start[job] + math.ceil(predicted[job]) - now, 1)
        while hole > 0 and window.end[hole - 1] > end:
            window.end[hole], window.released[hole] = window.end[hole - 1], window.released[hole - 1]
            hole -= 1
        window.end[hole], window.released[hole] = end, width
    state.ends, state.free = count, free


@kernel()
def _set_costs(window, objective, arrivals, submit, now):
    """Set what each job of the window costs, and begin without a best order."""
    window.state.delay = slowdowns = areas = responses = 0.0
    for place in range(window.state.count if objective == _INDEX else 0):
        width, length = float(window.width[place]), float(window.length[place])
        age = float(now - submit[window.job[place]]) + length
        slowdowns += age / max(length, 60.0)
        areas += width * length * age
        responses += age
    for place in range(window.state.count):
        width, length = float(window.width[place]), float(window.length[place])
        age = float(now - submit[window.job[place]]) + length
        weight = 1.0
        if objective == _AREA:
            weight = width * length
        elif objective == _BALANCED:
            weight = math.sqrt(width / max(length, 60.0))
        elif objective == _SAFE:
            weight = width
        elif objective == _INDEX:
            weight = 1.0 / max(length, 60.0) / slowdowns + width * length / areas + 1.0 / responses
        if objective in (_WAIT, _AREA):
            window.c0[place], window.c1[place], window.c2[place] = weight * age, weight, 0.0
        else:
            window.c0[place], window.c1[place] = weight * age * age, 2.0 * weight * age
            window.c2[place] = weight
        window.state.delay += arrivals * window.c1[place] / window.state.count
    window.state.cost = math.inf


@kernel()
def _reservation(window, needed, free, now, base, first, last):
    """Return the time at which `needed` processors are free, and how many more are."""
    state, ends, started = window.state, window.end, window.started_end
    shadow, available = now, free
    while available < needed:
        if first == last or (base < state.ends and ends[base] <= started[first]):
            shadow = ends[base]
            available += window.released[base]
            base += 1
        else:
            shadow = started[first]
            available += window.started_width[first]
            first += 1
    while base < state.ends and ends[base] == shadow:
        available += window.released[base]
        base += 1
    while first < last and started[first] == shadow:
        available += window.started_width[first]
        first += 1
    return shadow, available - needed


@kernel(forceinline=True)
def _begin(window, place, now, first, last):
    """Start a job; return its cost."""
    ends, widths, hole = window.started_end, window.started_width, last
    end = now + window.length[place]
    while hole > first and ends[hole - 1] > end:
        ends[hole], widths[hole] = ends[hole - 1], widths[hole - 1]
        hole -= 1
    ends[hole], widths[hole] = end, window.width[place]
    return (window.c2[place] * now + window.c1[place]) * now + window.c0[place]


@kernel(forceinline=True)
def _complete(window, base, first, last):
    """Return the time of the next completion, the processors it frees, and what is to complete then."""
    ends, started, freed = window.end, window.started_end, np.int64(0)
    now = NEVER
    if base < window.state.ends:
        now = ends[base]
    if first < last:
        now = min(now, started[first])
    while base < window.state.ends and ends[base] == now:
        freed += window.released[base]
        base += 1
    while first < last and started[first] == now:
        freed += window.started_width[first]
        first += 1
    return now, freed, base, first


@kernel()
def _cost_of(window, order, limit):
    """Return the cost of an order of the window, or infinity once it is sure to be above the limit."""
    queue, width, length = window.queue, window.width, window.length
    c0, c1, c2, rest0, rest1, rest2 = window.c0, window.c1, window.c2, 0.0, 0.0, 0.0
    count, free, now, cost = window.state.count, window.state.free, np.int64(0), 0.0
    head, base, first, last = 0, 0, 0, 0
    for rank in range(count):
        place = order[rank]
        queue[rank] = place
        rest0, rest1, rest2 = rest0 + c0[place], rest1 + c1[place], rest2 + c2[place]
    while True:
        while head < count and width[queue[head]] <= free:
            place = queue[head]
            free -= width[place]
            cost += _begin(window, place, now, first, last)
            rest0, rest1, rest2 = rest0 - c0[place], rest1 - c1[place], rest2 - c2[place]
            last, head = last + 1, head + 1
        if head == count:
            return cost + window.state.delay * now
        shadow, spare = _reservation(window, width[queue[head]], free, now, base, first, last)
        while now < shadow:
            kept, narrowest = head + 1, NEVER
            for rank in range(head + 1, count):
                place = queue[rank]
                late = now + length[place] > shadow
                if width[place] > free or (late and width[place] > spare):
                    queue[kept], kept = place, kept + 1
                    narrowest = min(narrowest, width[place])
                    continue
                free -= width[place]
                spare -= width[place] if late else 0
                cost += _begin(window, place, now, first, last)
                rest0, rest1, rest2 = rest0 - c0[place], rest1 - c1[place], rest2 - c2[place]
                last += 1
            count = kept
            freed = np.int64(0)
            while now < shadow and (freed == 0 or narrowest > free):  # else no other job fits
                now, freed, base, first = _complete(window, base, first, last)
                free += freed
            if cost + (rest2 * now + rest1) * now + rest0 > limit:
                return math.inf


@kernel()
def _try_order(window, order):
    """Take an order as the best if it costs less; return whether it does."""
    state = window.state
    limit = state.cost * (1.0 - _EQUAL)
    cost = _cost_of(window, order, limit)
    if cost >= limit:
        return False
    state.cost = cost
    for rank in range(state.count):
        window.best[rank] = order[rank]
    return True


@kernel()
def _move(window, source, target):
    """Try the best order with the job of a place moved forward to another one."""
    best, trial = window.best, window.trial
    for rank in range(window.state.count):
        trial[rank] = best[rank]
    for rank in range(source, target, -1):
        trial[rank] = best[rank - 1]
    trial[target] = best[source]
    _try_order(window, trial)


@kernel()
def _improve_order(window, moves):
    """Improve the best order by at most so many moves, each kept if it costs less.

    A move takes a job forward: from each of the places after the first to the first, then to the second, and
    so on within the head of the queue; at last from beyond the head to the first place. Then it begins again,
    unless nothing has been gained. Guarded jobs stay where they are.
    """
    first = window.state.guarded
    beyond = min(window.state.count, first + _HEAD)
    before = math.inf
    while window.state.cost < before:
        before = window.state.cost
        for target in range(first, beyond - 1):
            for source in range(target + 1, beyond):
                if moves == 0:
                    return
                moves -= 1
                _move(window, source, target)
        for source in range(beyond, window.state.count):
            if moves == 0:
                return
            moves -= 1
            _move(window, source, first)


#: Jobs that wait; orders; the policy's parameters, `predicted` and `by_orders` as flags; the guard given.
_COUNTS = ("length", "orders", "window", "objective", "moves", "predicted")
_STATE = np.dtype([(name, np.int64) for name in (*_COUNTS, "by_orders", "backlog", "arrivals", "guard")])


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
    window: _Window


def new_waiting(
    policy: Rollout, inputs: ScoreInputs, jobs: int, running: int
) -> tuple[Waiting, list[QueueOrder]]:
    """Return room for the waiting ones of so many jobs, of which so many run at a time; none waits.

    The orders that come with it must be kept beside it.
    """
    orders = []
    for order in policy.portfolio:
        formula = order.formula()  # which needs no compiler
        orders.append(order if formula is None else QueueOrder(order.name, formula, order.description))
    scores = [compile_score(order) for order in orders]
    objective, predicted = OBJECTIVES.index(policy.objective), policy.durations == "predicted"
    by_orders = policy.window_by == WINDOWS[1]
    counts = (0, len(orders), policy.window, objective, policy.moves, predicted)
    extras = (by_orders, policy.backlog, policy.arrivals, int(inputs.guard[0]))
    waiting = Waiting(
        np.array(counts + extras, _STATE),
        tuple(scores + scores[:1] * (MOST_ORDERS - len(scores))),  # of one length: kernels are compiled once
        inputs,
        np.empty(jobs, np.int32),
        np.empty(jobs, np.int64),
        np.empty(jobs, np.int64),
        np.empty(jobs, np.int32),
        np.empty(jobs),
        np.empty(jobs, np.int32),
        np.empty(jobs, np.int8),
        _empty_window(min(policy.window, jobs), running),
    )
    return waiting, orders


@kernel()
def _sort_rows(waiting, order, jobs, count, now):
    """Leave the rows of so many jobs in `row`, in an order of the portfolio."""
    score_jobs(waiting.scores[order], waiting.inputs, jobs, count, now, waiting.score)
    for row in range(count):
        waiting.row[row] = row
    sort_rows(waiting.score, waiting.row, count)


@kernel()
def _extend_guard(waiting):
    """Extend the guard to the time that the backlog takes: else a long one leaves all jobs guarded."""
    window, state, count = waiting.window, waiting.state, waiting.state.length
    machine, work = window.state.free, 0.0
    for row in range(count):
        work += float(waiting.processors[row]) * float(waiting.walltime[row])
    for place in range(window.state.ends):
        machine += window.released[place]
        work += float(window.released[place]) * float(window.end[place])
    waiting.inputs.guard[0] = max(state.guard, np.int64(0.01 * state.backlog * work / max(machine, 1)))


@kernel()
def _open_window(waiting, now):
    """Take jobs into the window: all, or some by each order, or half by the first and the oldest others."""
    window, count, size = waiting.window, waiting.state.length, waiting.state.window
    orders = waiting.state.orders if waiting.state.by_orders else 2  # the second are the oldest
    for row in range(count):
        waiting.chosen[row] = count <= size
    taken = 0
    for order in range(orders if count > size else 0):
        rank = 0
        if order == 0 or waiting.state.by_orders:
            _sort_rows(waiting, order, waiting.job, count, now)
        else:
            for row in range(count):
                waiting.row[row] = row
        while taken < (order + 1) * size // orders:
            taken += 0 if waiting.chosen[waiting.row[rank]] else 1
            waiting.chosen[waiting.row[rank]] = 1
            rank += 1
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
        if different and _try_order(window, window.trial):
            best = order
    _improve_order(window, waiting.state.moves)
    return best


@kernel()
def choose_sequence(waiting, now):
    """Sort the waiting jobs, those of the window first. The window must have the running jobs."""
    window, count = waiting.window, waiting.state.length
    if waiting.state.backlog > 0 and waiting.state.guard < NEVER:
        _extend_guard(waiting)
    _open_window(waiting, now)
    _set_costs(window, waiting.state.objective, waiting.state.arrivals, waiting.inputs.submit, now)
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
