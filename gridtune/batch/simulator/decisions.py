"""One machine, stepped decision by decision and observed, compiled.

The machine runs on the clock of all queue orders (`gridtune.batch.simulator.events.advance`): at an instant
all completions, then all submissions, then one scheduling pass. A pass stops where a decision is asked for,
and continues with it. Where every answer has the same effect, none is asked for.

An observation has numbers of the machine's state, and a row of numbers for each candidate, all between 0 and
1. No run time of a job that has not ended is among them: of a job, only its request and the run times of its
user's last two jobs that have ended are known. `docs/batch_environment.md` has the formulas.
"""

from __future__ import annotations

import numpy as np

from gridtune.batch.predictors.predictor import EARLY
from gridtune.batch.simulator.events import advance, in_time, launch, read_requests, reserve_for_head
from gridtune.batch.simulator.machines import (
    BACKFILL_MODE,
    BY_SUBMISSION,
    EASY,
    PREDICT,
    PREDICTED,
    PROTECT,
    ROW,
    STATE,
    machine_at,
)
from gridtune.core.compiled import kernel


@kernel()
def _reset(machine):
    """Empty the machine, begin its window, and play it until the agent decides."""
    state, running, part = machine.state, machine.running.state, machine.queue.columns.part
    state.free = machine.queue.settings.processors
    state.waiting = state.turn = state.arrived = state.open = state.shown = state.queued = 0
    state.head, state.shadow, state.spare = -1, 0, 0
    running.count = running.listed = running.left = 0
    for place in range(2 * machine.queue.settings.users):
        machine.queue.past[place] = -1
    for job in range(machine.jobs):
        machine.log.start[job] = -1
    if machine.queue.settings.warm > 0:
        _warm_up(machine)
    total = 0.0
    for job in range(machine.jobs):
        if machine.log.start[job] < 0:
            total += part[job]
    state.share = 1.0 / total if total > 0.0 else 0.0
    state.settled = state.base = 0.0
    state.scale = 1.0
    state.paid = _cost_so_far(machine)


@kernel()
def _cost(machine, job, now):
    """Return the cost of a job that starts now."""
    columns = machine.queue.columns
    waited = now - columns.submit[job] + columns.offset[job]
    return machine.state.share * columns.weight[job] * max(columns.floor[job], waited)


@kernel()
def _cost_so_far(machine):
    """Return the cost of the jobs submitted so far, if those that wait started now."""
    cost = machine.state.settled
    for place in range(machine.state.waiting):
        cost += _cost(machine, machine.queue.waiting[place], machine.state.now)
    return cost


@kernel()
def _start(machine, place):
    """Start the waiting job at a place."""
    log, state, waiting = machine.log, machine.state, machine.queue.waiting
    job, now = waiting[place], state.now
    state.waiting -= 1
    for later in range(place, state.waiting):
        waiting[later] = waiting[later + 1]
    state.queued -= log.processors[job] * log.walltime[job]
    launch(machine, job, now)
    state.settled += _cost(machine, job, now)


@kernel()
def _enqueue(machine, job, now):
    log, state = machine.log, machine.state
    machine.queue.waiting[state.waiting] = job
    state.queued += log.processors[job] * log.walltime[job]
    state.waiting += 1


@kernel()
def _arrive(machine, job, now):
    _enqueue(machine, job, now)
    return True


@kernel(inline="always")
def _note_end(machine, job, now):
    """Remember the run time, where candidates show predictions."""
    if machine.queue.settings.users > 0:
        place, past = 2 * machine.queue.columns.user[job], machine.queue.past
        past[place + 1] = past[place]
        past[place] = machine.log.run[job]


@kernel(inline="always")
def _is_asked(machine):
    return machine.state.open != 0


@kernel()
def _begin_pass(machine, newest, now):
    """Begin a scheduling pass, in which no job is reserved for yet."""
    machine.state.now, machine.state.head = now, -1
    _ask(machine)


@kernel()
def _reserve(machine, job):
    """Make a reservation for a job that does not fit now."""
    machine.state.head = -1
    reserve_for_head(machine, job, job, machine.state.now)


@kernel()
def _spares_head(machine, job):
    """Tell whether a job that starts now leaves the head's reservation alone."""
    return in_time(machine, job, machine.state.now) or machine.log.processors[job] <= machine.state.spare


@kernel()
def _start_beside_head(machine, place):
    job = machine.queue.waiting[place]
    if not in_time(machine, job, machine.state.now):
        machine.state.spare -= machine.log.processors[job]
    _start(machine, place)


@kernel()
def _backfill(machine):
    """Start all jobs that leave the head's reservation alone, in the environment's own order."""
    state, width, rank, waiting = (
        machine.state,
        machine.log.processors,
        machine.queue.rank,
        machine.queue.waiting,
    )
    by_submission, begin = machine.queue.settings.flags & BY_SUBMISSION != 0, 0
    while state.free > 0:
        best = -1
        for place in range(begin, state.waiting):
            job = waiting[place]
            if job == state.head or width[job] > state.free:
                continue
            if (best < 0 or rank[job] < rank[waiting[best]]) and _spares_head(machine, job):
                best = place
                if by_submission:
                    break
        if best < 0:
            return
        _start_beside_head(machine, best)
        # Who could not be backfilled before cannot be now.
        begin = best if by_submission else 0


@kernel()
def _ask_for_head(machine):
    """Ask for the job that comes first, if it matters; start them all if they fit together."""
    state, width, window = machine.state, machine.log.processors, machine.queue
    shown = min(state.waiting, window.settings.candidates)
    seen = state.waiting if window.settings.flags & EASY else shown
    fits, total = False, 0
    for place in range(seen):
        needed = width[window.waiting[place]]
        fits |= needed <= state.free
        total += needed
    if fits and seen == state.waiting and total <= state.free:
        while state.waiting > 0:
            _start(machine, 0)
        fits = False
    state.open = 1 if fits else 0
    if fits:
        for place in range(shown):
            window.shown[place] = place
        state.shown = shown


@kernel()
def _ask_for_backfill(machine):
    """Start heads while they fit; then ask for a job to be backfilled, if one could be."""
    state, width, window = machine.state, machine.log.processors, machine.queue
    flags, waiting, rank = window.settings.flags, window.waiting, window.rank
    while state.head < 0 and state.waiting > 0:
        best = 0
        for place in range(1, 0 if flags & BY_SUBMISSION else state.waiting):
            if rank[waiting[place]] < rank[waiting[best]]:
                best = place
        if width[waiting[best]] > state.free:
            _reserve(machine, waiting[best])
        else:
            _start(machine, best)
    shown = 0
    if state.free > 0:
        for place in range(state.waiting):
            job = waiting[place]
            if shown == window.settings.candidates:
                break
            if job == state.head or width[job] > state.free:
                continue
            if not flags & PROTECT or _spares_head(machine, job):
                window.shown[shown] = place
                shown += 1
    state.shown = shown
    state.open = 1 if shown > 0 else 0


@kernel()
def _ask(machine):
    """Continue a pass until a decision is asked for or it ends."""
    if machine.queue.settings.flags & BACKFILL_MODE:
        _ask_for_backfill(machine)
    else:
        _ask_for_head(machine)


@kernel()
def _next_decision(machine):
    """Advance to the next decision; return whether there is one. If not, every job has started."""
    if machine.state.open:
        _ask(machine)
    if not machine.state.open:
        advance(machine, _arrive, _enqueue, _begin_pass, _note_end, _is_asked)
    return machine.state.open != 0


@kernel()
def _choose(machine, action):
    """Carry out a decision: a candidate by its number; one that is not there stands for the first.

    To choose the head: start it, or reserve for it and end the pass, with backfilling behind it where that is
    set. To backfill: start it; the action after the last slot starts none and ends the pass.
    """
    state, window, flags = machine.state, machine.queue, machine.queue.settings.flags
    if flags & BACKFILL_MODE and action == window.settings.candidates:
        state.open = 0
        return
    slot = action if 0 <= action < state.shown else 0
    place = window.shown[slot]
    if flags & BACKFILL_MODE:
        head = state.head
        _start_beside_head(machine, place)
        if not flags & PROTECT:
            _reserve(machine, head)
        return
    job = window.waiting[place]
    if machine.log.processors[job] <= state.free:
        _start(machine, place)
        return
    if flags & EASY:
        _reserve(machine, job)
        _backfill(machine)
    state.open = 0


@kernel()
def _warm_up(machine):
    """Play in the environment's own order up to the first decision with all `warm` jobs submitted."""
    state, window = machine.state, machine.queue
    while _next_decision(machine) and state.arrived < window.settings.warm:
        best = 0
        for slot in range(1, 0 if window.settings.flags & BY_SUBMISSION else state.shown):
            job, other = window.waiting[window.shown[slot]], window.waiting[window.shown[best]]
            best = slot if window.rank[job] < window.rank[other] else best
        _choose(machine, best)


@kernel()
def _run_first_choices(machine):
    """Choose the first candidate at every decision, until all jobs have started."""
    while _next_decision(machine):
        _choose(machine, 0)


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
    read_requests(running, machine.log)
    for place in range(running.state.listed):
        width = running.listed_width[place]
        free += width
        machine.queue.available[place] = free
        work += width * max(running.requested_end[place] - state.now, 0)
    return work


@kernel()
def _delay(machine, width):
    """Return the seconds until a job of that width could start, by the running jobs' requests."""
    state, running = machine.state, machine.running
    low, high = 0, running.state.listed - 1
    while low < high:
        middle = (low + high) >> 1
        if machine.queue.available[middle] < width:
            low = middle + 1
        else:
            high = middle
    return max(running.requested_end[low] - state.now, 0)


@kernel(error_model="numpy")
def _show_state(machine, work, target):
    state, running, columns = machine.state, machine.running, machine.queue.columns
    size = machine.queue.settings.processors
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
    head = state.head
    target[6] = columns.processors[head] / size
    target[7] = columns.long[head]
    target[8] = _bent(state.now - columns.submit[head], HOUR)
    target[9] = _bent(state.shadow - state.now, HOUR)
    target[10] = max(state.spare, 0) / size


@kernel(error_model="numpy")
def _show_job(machine, place, share, target):
    state, columns = machine.state, machine.queue.columns
    job = machine.queue.waiting[place]
    width, walltime = columns.processors[job], columns.walltime[job]
    wait, free = state.now - columns.submit[job], state.free
    target[0] = 1.0
    target[1] = width * share
    target[2] = columns.long[job]
    target[3] = columns.large[job]
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


@kernel(error_model="numpy")
def _show_prediction(machine, place, target):
    """Write the prediction by the user's last two jobs, as `gridtune.batch.predictors.histories.LastTwo`."""
    columns, past = machine.queue.columns, machine.queue.past
    job = machine.queue.waiting[place]
    user, walltime = columns.user[job], columns.walltime[job]
    count, total, early = 0, 0.0, 0
    for run in (past[2 * user], past[2 * user + 1]):
        count += run >= 0
        total += max(run, 0)
        early += run >= 0 and min(run, walltime) < EARLY * walltime
    mean = min(float(walltime), total / count) if count > 0 else float(walltime)
    target[0] = min(np.log1p(mean) / np.log1p(LONGEST), 1.0)
    target[1] = (mean + 1.0) / (walltime + 1.0)
    target[2] = early / max(count, 1)


@kernel()
def _observe(machine, target, mask):
    """Write an observation: the state, then the rows; slots without a candidate are zeros.

    Parameters
    ----------
    machine
        At a decision, or at the end, which is zeros throughout.
    target
        Shape (STATE + slots · width of a row,), float32, as the last call for this machine left it.
    mask
        Shape (slots,), int8: 1 where a slot holds a choice. With decisions about backfilling the last one is
        the choice of no job.
    """
    state, window = machine.state, machine.queue
    shown = state.shown if state.open else 0
    if shown == 0:
        target[:] = 0.0
        mask[:] = 0
        state.filled = 0
        return
    _show_state(machine, _release_times(machine), target)
    share, predicted = 1.0 / window.settings.processors, window.settings.flags & PREDICT != 0
    width = ROW + PREDICTED if predicted else ROW
    for slot in range(shown):
        begin = STATE + slot * width
        _show_job(machine, window.shown[slot], share, target[begin : begin + ROW])
        if predicted:
            _show_prediction(machine, window.shown[slot], target[begin + ROW : begin + width])
        mask[slot] = 1
    for slot in range(shown, state.filled):
        target[STATE + slot * width : STATE + (slot + 1) * width] = 0.0
        mask[slot] = 0
    state.filled = shown
    if window.settings.flags & BACKFILL_MODE:
        target[STATE + window.settings.candidates * width] = 1.0
        mask[window.settings.candidates] = 1


@kernel()
def begin_windows(machines, which, over, relative):
    """Begin the window that its state names on each machine in `which`."""
    for index in range(which.size):
        if not which[index]:
            continue
        machine = machine_at(machines, index)
        base = 0.0
        if relative:
            _reset(machine)
            _run_first_choices(machine)
            base = machine.state.settled - machine.state.paid
        _reset(machine)
        if base > 0.0:
            machine.state.base, machine.state.scale = base, 1.0 / base
        over[index] = not _next_decision(machine)
        machines.rewards[index] = 0.0
        _observe(machine, machines.observed[index], machines.mask[index])


@kernel()
def step_machines(machines, actions, which, over):
    """Carry out `actions[i]` on each machine i that is in `which`, and advance to its next decision."""
    for index in range(which.size):
        if not which[index]:
            continue
        machine = machine_at(machines, index)
        _choose(machine, actions[index])
        over[index] = not _next_decision(machine)
        state = machine.state
        cost = _cost_so_far(machine)
        machines.rewards[index] = (state.paid - cost) * state.scale
        state.paid = cost
        if over[index]:
            machines.rewards[index] += state.base * state.scale
        _observe(machine, machines.observed[index], machines.mask[index])


@kernel()
def run_window(machines, index):
    """Run a machine's window with the first candidate at every decision."""
    machine = machine_at(machines, index)
    _reset(machine)
    _run_first_choices(machine)
