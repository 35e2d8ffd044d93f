"""One machine, stepped decision by decision and observed, compiled.

The rules are those of `gridtune.batch.simulator.scored`: at an instant all completions, then all submissions,
then one scheduling pass, in which decisions are asked for. Where every answer has the same effect, none is.

An observation has numbers of the machine's state, and a row of numbers for each candidate, all between 0 and
1. No run time is among them: of a job, only its request is known. `docs/batch_environment.md` has the
formulas.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.running import (
    RUNNING,
    Running,
    add_running,
    drop_request,
    pop_ended,
    reservation,
)
from gridtune.core.compiled import bare, kernel, record_at, section
from gridtune.types import AnyArray, Float32Array, FloatArray, IntArray

__all__ = [
    "ROW",
    "STATE",
    "Arena",
    "Costs",
    "Jobs",
    "Settings",
    "advance",
    "choose",
    "cost_so_far",
    "machine_at",
    "observe",
    "reset",
    "run_first_choices",
    "whole_length",
]


#: The state of a machine: the window's first job; free processors; jobs that wait, that were started and that
#: were submitted; the clock; whether a scheduling pass is under way; the head's job (-1: no job is reserved
#: for) with its shadow time and the extra processors; candidates shown, and rows of the observation that are
#: filled; processor-seconds requested by waiting jobs. Then cost of the started jobs; cost that rewards have
#: been given for; factors on costs (one over the number of jobs, or over their area) and on rewards; the cost
#: of the rule compared with.
_WHOLE = (
    "first", "free", "waiting", "turn", "arrived", "now", "open", "head", "shadow", "spare", "shown",
    "filled", "queued",
)  # fmt: skip
_REAL = ("settled", "paid", "share", "scale", "base")
STATES = np.dtype([(name, np.int64) for name in _WHOLE] + [(name, np.float64) for name in _REAL])

#: Flags: jobs are chosen to be backfilled, not to be the head; backfilling behind a chosen head; a backfilled
#: job may not delay the head; the environment's own order is that of submission.
BACKFILL_MODE, EASY, PROTECT, BY_SUBMISSION = 1, 2, 4, 8


class Settings(NamedTuple):
    """What all machines share: processors, flags, jobs of a window, candidates, room for running jobs."""

    processors: int
    flags: int
    jobs: int
    candidates: int
    room: int


class Jobs(NamedTuple):
    """The jobs that windows are taken from, in submit order; times in seconds from the first submission.

    `run` is the time a job really takes, already cut where it is killed. `long` and `large` are the features
    of walltime and of area.
    """

    submit: IntArray
    run: IntArray
    walltime: IntArray
    processors: IntArray
    long: Float32Array
    large: Float32Array


class Costs(NamedTuple):
    """The cost of a job that waits w seconds: `weight` · max(`floor`, w + `offset`), over Σ `part`."""

    weight: FloatArray
    offset: FloatArray
    floor: FloatArray
    part: FloatArray


class Arena(NamedTuple):
    """A batch of machines: the state and the running jobs' state of each, and `whole_length` integers."""

    states: AnyArray
    running: AnyArray
    whole: IntArray


class _Machine(NamedTuple):
    """One machine, as bare columns.

    `start[j]` is the start of the window's job j, `rank[j]` its place in the order that the environment uses
    itself, `queue[: state.waiting]` are the waiting jobs by submission, `shown[: state.shown]` the places in
    the queue of the candidates. `available[i]` is scratch: processors that are free once i + 1 running jobs
    have ended.
    """

    settings: Settings
    state: Any
    start: IntArray
    rank: IntArray
    queue: IntArray
    shown: IntArray
    available: IntArray
    running: Running


def new_arena(settings: Settings, count: int) -> Arena:
    """Return the arrays of some machines."""
    whole = np.zeros(count * int(whole_length(settings)), np.int64)
    return Arena(np.zeros(count, STATES), np.zeros(count, RUNNING), whole)


@kernel()
def whole_length(settings):
    """Return the number of integers of a machine, beside its state."""
    return 3 * settings.jobs + settings.candidates + 7 * settings.room


@kernel(inline="always")
def machine_at(settings, arena, index):
    """Return the machine with that index in the batch; its columns are bare."""
    jobs, room = settings.jobs, settings.room
    start = index * whole_length(settings)
    shown = start + 3 * jobs
    first = shown + settings.candidates
    return _Machine(
        settings,
        record_at(bare(arena.states), index),
        section(arena.whole, start, jobs),
        section(arena.whole, start + jobs, jobs),
        section(arena.whole, start + 2 * jobs, jobs),
        section(arena.whole, shown, settings.candidates),
        section(arena.whole, first + 6 * room, room),
        Running(
            record_at(bare(arena.running), index),
            section(arena.whole, first, room),
            section(arena.whole, first + room, room),
            section(arena.whole, first + 2 * room, room),
            section(arena.whole, first + 3 * room, room),
            section(arena.whole, first + 4 * room, room),
            section(arena.whole, first + 5 * room, room),
        ),
    )


NEVER = 2**62


@kernel()
def reset(machine, jobs, costs, first):
    """Empty the machine, and begin the window whose first job has that number."""
    state = machine.state
    state.first, state.free, state.now = first, machine.settings.processors, jobs.submit[first]
    state.waiting = state.turn = state.arrived = state.open = state.shown = state.queued = 0
    state.head, state.shadow, state.spare = -1, 0, 0
    machine.running.state.count = machine.running.state.listed = machine.running.state.left = 0
    total = 0.0
    for row in range(first, first + machine.settings.jobs):
        total += costs.part[row]
    state.settled = state.paid = state.base = 0.0
    state.share = 1.0 / total if total > 0.0 else 0.0
    state.scale = 1.0


@kernel()
def _cost(machine, jobs, costs, job, now):
    """Return the cost of a job that starts now."""
    row = machine.state.first + job
    waited = now - jobs.submit[row] + costs.offset[row]
    return machine.state.share * costs.weight[row] * max(costs.floor[row], waited)


@kernel()
def cost_so_far(machine, jobs, costs):
    """Return the cost of the jobs submitted so far, if those that wait started now."""
    cost = machine.state.settled
    for place in range(machine.state.waiting):
        cost += _cost(machine, jobs, costs, machine.queue[place], machine.state.now)
    return cost


@kernel()
def _launch(machine, jobs, costs, place):
    """Start the job at a place of the queue."""
    state, queue = machine.state, machine.queue
    job, now = queue[place], state.now
    state.waiting -= 1
    for later in range(place, state.waiting):
        queue[later] = queue[later + 1]
    row = state.first + job
    width, walltime = jobs.processors[row], jobs.walltime[row]
    machine.start[job] = now
    state.free -= width
    state.turn += 1
    state.queued -= width * walltime
    add_running(machine.running, now + jobs.run[row], state.turn, now + walltime, job, width)
    machine.state.settled += _cost(machine, jobs, costs, job, now)


@kernel()
def _next_instant(machine, jobs):
    """Go to the next instant, with its completions and submissions; return whether there is one."""
    state, running, first = machine.state, machine.running, machine.state.first
    arrival, count = NEVER, machine.settings.jobs
    if state.arrived < count:
        arrival = jobs.submit[first + state.arrived]
    if running.state.count == 0 and arrival == NEVER:
        return False
    now = arrival
    if running.state.count > 0 and running.end[0] < arrival:
        now = running.end[0]
    while running.state.count > 0 and running.end[0] == now:
        job = pop_ended(running)
        row = first + job
        drop_request(running, machine.start[job] + jobs.walltime[row], job)
        state.free += jobs.processors[row]
    while state.arrived < count and jobs.submit[first + state.arrived] == now:
        row = first + state.arrived
        machine.queue[state.waiting] = state.arrived
        state.queued += jobs.processors[row] * jobs.walltime[row]
        state.waiting += 1
        state.arrived += 1
    state.now, state.open, state.head = now, 1, -1
    return True


@kernel()
def _reserve(machine, jobs, job):
    """Make a reservation for a job that does not fit now."""
    state = machine.state
    width = jobs.processors[state.first + job]
    state.head = job
    state.shadow, state.spare = reservation(machine.running, state.now, state.free, width)


@kernel()
def _spares_head(machine, jobs, row):
    """Tell whether a job that starts now leaves the head's reservation alone."""
    state = machine.state
    ends = state.now + jobs.walltime[row]
    return ends <= state.shadow or jobs.processors[row] <= state.spare


@kernel()
def _start_beside_head(machine, jobs, costs, place):
    state = machine.state
    row = state.first + machine.queue[place]
    if state.now + jobs.walltime[row] > state.shadow:
        state.spare -= jobs.processors[row]
    _launch(machine, jobs, costs, place)


@kernel()
def _backfill(machine, jobs, costs):
    """Start all jobs that leave the head's reservation alone, in the environment's own order."""
    state, queue, first = machine.state, machine.queue, machine.state.first
    by_submission, begin = machine.settings.flags & BY_SUBMISSION != 0, 0
    while state.free > 0:
        best = -1
        for place in range(begin, state.waiting):
            row = first + queue[place]
            if queue[place] == state.head or jobs.processors[row] > state.free:
                continue
            better = best < 0 or machine.rank[queue[place]] < machine.rank[queue[best]]
            if better and _spares_head(machine, jobs, row):
                best = place
                if by_submission:
                    break
        if best < 0:
            return
        _start_beside_head(machine, jobs, costs, best)
        # Who could not be backfilled before cannot be now.
        begin = best if by_submission else 0


@kernel()
def _asks_for_head(machine, jobs, costs):
    """Tell whether it matters which of the candidates comes first. If it does not, go on."""
    state, queue, first = machine.state, machine.queue, machine.state.first
    settings = machine.settings
    shown = min(state.waiting, settings.candidates)
    seen = state.waiting if settings.flags & EASY else shown
    fits, total = False, 0
    for place in range(seen):
        width = jobs.processors[first + queue[place]]
        fits |= width <= state.free
        total += width
    state.open = 1 if fits else 0
    if not fits:
        return False
    if seen == state.waiting and total <= state.free:
        while state.waiting > 0:
            _launch(machine, jobs, costs, 0)
        state.open = 0
        return False
    for place in range(shown):
        machine.shown[place] = place
    state.shown = shown
    return True


@kernel()
def _asks_for_backfill(machine, jobs, costs):
    """Start heads while they fit; then tell whether a job could be backfilled."""
    state, queue, first = machine.state, machine.queue, machine.state.first
    settings = machine.settings
    while state.head < 0 and state.waiting > 0:
        best = 0
        for place in range(1, 0 if settings.flags & BY_SUBMISSION else state.waiting):
            if machine.rank[queue[place]] < machine.rank[queue[best]]:
                best = place
        if jobs.processors[first + queue[best]] > state.free:
            _reserve(machine, jobs, queue[best])
        else:
            _launch(machine, jobs, costs, best)
    shown = 0
    if state.free > 0:
        for place in range(state.waiting):
            row = first + queue[place]
            if shown == settings.candidates:
                break
            if queue[place] == state.head or jobs.processors[row] > state.free:
                continue
            if not settings.flags & PROTECT or _spares_head(machine, jobs, row):
                machine.shown[shown] = place
                shown += 1
    state.shown = shown
    state.open = 1 if shown > 0 else 0
    return shown > 0


@kernel()
def advance(machine, jobs, costs):
    """Go on to the next decision; return whether there is one. If not, every job has started."""
    state = machine.state
    while True:
        if state.open:
            if machine.settings.flags & BACKFILL_MODE:
                if _asks_for_backfill(machine, jobs, costs):
                    return True
            elif _asks_for_head(machine, jobs, costs):
                return True
        elif not _next_instant(machine, jobs):
            return False


@kernel()
def choose(machine, jobs, costs, action):
    """Carry out a decision: a candidate by its number; one that is not there stands for the first.

    To choose the head: start it, or reserve for it and end the pass, with backfilling behind it where that is
    set. To backfill: start it; the action after the last slot starts none and ends the pass.
    """
    state, settings = machine.state, machine.settings
    if settings.flags & BACKFILL_MODE and action == settings.candidates:
        state.open = 0
        return
    slot = action if 0 <= action < state.shown else 0
    place = machine.shown[slot]
    if settings.flags & BACKFILL_MODE:
        head = state.head
        _start_beside_head(machine, jobs, costs, place)
        if not settings.flags & PROTECT:
            _reserve(machine, jobs, head)
        return
    job = machine.queue[place]
    if jobs.processors[state.first + job] <= state.free:
        _launch(machine, jobs, costs, place)
        return
    if settings.flags & EASY:
        _reserve(machine, jobs, job)
        _backfill(machine, jobs, costs)
    state.open = 0


@kernel()
def run_first_choices(machine, jobs, costs):
    """Choose the first candidate at every decision, until all jobs have started."""
    while advance(machine, jobs, costs):
        choose(machine, jobs, costs, 0)


#: Numbers of the state, and of a candidate's row. The first of a row is 1 where the slot is filled.
STATE, ROW = 11, 10
#: Seconds in an hour and a day.
HOUR, DAY = 3600.0, 86400.0
#: The walltime whose feature is 1: thirty days.
LONGEST = 30 * DAY


@kernel(inline="always", error_model="numpy")
def _bent(value, half):
    """Return value / (value + half): 0 for 0, a half for `half`, and near 1 for much more."""
    return value / (value + half)


@kernel()
def _release_times(machine):
    """Fill in how many processors are free after each requested end; return the work left, by request."""
    state, running = machine.state, machine.running
    free, work = state.free, 0
    for place in range(running.state.listed):
        width = running.listed_width[place]
        free += width
        machine.available[place] = free
        work += width * max(running.requested_end[place] - state.now, 0)
    return work


@kernel()
def _delay(machine, width):
    """Return the seconds until a job of that width could start, by the running jobs' requests."""
    state, running = machine.state, machine.running
    low, high = 0, running.state.listed - 1
    while low < high:
        middle = (low + high) >> 1
        if machine.available[middle] < width:
            low = middle + 1
        else:
            high = middle
    return max(running.requested_end[low] - state.now, 0)


@kernel(error_model="numpy")
def _show_state(machine, jobs, work, target):
    state, running, size = machine.state, machine.running, machine.settings.processors
    waiting, shown = state.waiting, state.shown
    target[0] = state.free / size
    target[1] = _bent(waiting, 16.0)
    target[2] = 1.0 - shown / waiting
    target[3] = _bent(state.queued / size, DAY)
    target[4] = _bent(work / size, DAY)
    target[5] = _bent(max(running.requested_end[0] - state.now, 0), HOUR) if running.state.listed > 0 else 0.0
    if state.head < 0:
        target[6:STATE] = 0.0
        return
    head = state.first + state.head
    target[6] = jobs.processors[head] / size
    target[7] = jobs.long[head]
    target[8] = _bent(state.now - jobs.submit[head], HOUR)
    target[9] = _bent(state.shadow - state.now, HOUR)
    target[10] = max(state.spare, 0) / size


@kernel(error_model="numpy")
def _show_job(machine, jobs, place, share, target):
    state = machine.state
    row = state.first + machine.queue[place]
    width, walltime = jobs.processors[row], jobs.walltime[row]
    wait, free = state.now - jobs.submit[row], state.free
    target[0] = 1.0
    target[1] = width * share
    target[2] = jobs.long[row]
    target[3] = jobs.large[row]
    target[4] = _bent(wait, HOUR)
    target[5] = _bent(wait, DAY)
    target[6] = _bent(wait, max(walltime, 1))
    target[7] = 1.0 if width <= free else 0.0
    if state.head < 0:
        target[8] = 0.0 if width <= free else _bent(_delay(machine, width), HOUR)
        target[9] = max(free - width, 0) * share
        return
    window = state.shadow - state.now
    target[8] = walltime / max(walltime, window, 1)
    target[9] = 0.0 if walltime <= window else min(width / max(state.spare, 1), 1.0)


@kernel()
def observe(machine, jobs, target, mask):
    """Write an observation: the state, then the rows; slots without a candidate are zeros.

    Parameters
    ----------
    machine, jobs
        At a decision, or at the end, which is zeros throughout.
    target
        Shape (STATE + slots · ROW,), float32, as the last call for this machine left it.
    mask
        Shape (slots,), int8: 1 where a slot holds a choice. With decisions about backfilling the last one is
        the choice of no job.
    """
    state = machine.state
    shown = state.shown if state.open else 0
    if shown == 0:
        target[:] = 0.0
        mask[:] = 0
        state.filled = 0
        return
    _show_state(machine, jobs, _release_times(machine), target)
    share = 1.0 / machine.settings.processors
    for slot in range(shown):
        begin = STATE + slot * ROW
        _show_job(machine, jobs, machine.shown[slot], share, target[begin : begin + ROW])
        mask[slot] = 1
    for slot in range(shown, state.filled):
        target[STATE + slot * ROW : STATE + (slot + 1) * ROW] = 0.0
        mask[slot] = 0
    state.filled = shown
    if machine.settings.flags & BACKFILL_MODE:
        target[STATE + machine.settings.candidates * ROW] = 1.0
        mask[machine.settings.candidates] = 1
