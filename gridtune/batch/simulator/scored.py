"""The batch kernel for orders that change while jobs wait: WFP3, fair share, most users' own.

Such an order cannot be indexed: whenever a pass may start a job, all waiting jobs are scored again, in
compiled code. The rules are those of `ranked`, and on static orders both kernels agree to the second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.accounts import (
    Facts,
    ScoreInputs,
    bare_inputs,
    charge,
    note_end,
    score_inputs,
    score_job,
)
from gridtune.batch.simulator.ranked import BACKFILL, EXTRA, FROZEN, PASS_PER_EVENT, STRICT
from gridtune.batch.simulator.running import (
    Running,
    add_running,
    bare_running,
    drop_request,
    empty_running,
    pop_ended,
    reservation,
)
from gridtune.core.compiled import bare, kernel

__all__ = ["scored_schedule"]

#: As in `ranked`, but `HEAD` is a job, not a rank.
FREE, WAITING, HEAD, SHADOW, SPARE, RELEASED, TURN, ARRIVED, MEMORY = range(9)

NEVER = np.int64(2**62)

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Float64s = npt.NDArray[np.float64]


class Replay(NamedTuple):
    """The data of a run, as bare columns.

    `queue[:memory[WAITING]]` are the waiting jobs in no particular order, `key` and `fill_key` their
    scores in the queue's and in the backfilling's order, valid within one pass.
    """

    jobs: int
    flags: int
    shared: bool
    submit: Int64s
    run: Int64s
    walltime: Int64s
    processors: Int64s
    inputs: ScoreInputs
    start: Int64s
    queue: Int32s
    key: Float64s
    fill_key: Float64s
    running: Running
    memory: Int64s


@kernel()
def _launch(replay, place, now):
    """Start the waiting job at a place of the queue; the last one takes its place."""
    memory, job = replay.memory, replay.queue[place]
    memory[WAITING] -= 1
    last = memory[WAITING]
    replay.queue[place] = replay.queue[last]
    replay.key[place] = replay.key[last]
    replay.fill_key[place] = replay.fill_key[last]
    width = replay.processors[job]
    replay.start[job] = now
    memory[FREE] -= width
    memory[TURN] += 1
    requested_end = now + replay.walltime[job]
    add_running(replay.running, now + replay.run[job], memory[TURN], requested_end, job, width)
    charge(replay.inputs, job, width, now)


@kernel()
def _foremost(replay):
    """Return the place of the queue's head: the smallest key, ties by submission."""
    best = 0
    for place in range(1, replay.memory[WAITING]):
        key, least = replay.key[place], replay.key[best]
        if key < least or (key == least and replay.queue[place] < replay.queue[best]):
            best = place
    return best


@kernel()
def _fitting(replay, window):
    """Return the place of the first job, in backfilling order, that may be backfilled, or -1."""
    memory, best = replay.memory, -1
    for place in range(memory[WAITING]):
        job = replay.queue[place]
        width = replay.processors[job]
        if width > memory[FREE] or (width > memory[SPARE] and replay.walltime[job] > window):
            continue
        key = replay.fill_key[place]
        if (
            best < 0
            or key < replay.fill_key[best]
            or (key == replay.fill_key[best] and job < replay.queue[best])
        ):
            best = place
    return best


@kernel()
def _rank_waiting(replay, score, fill_score, now):
    for place in range(replay.memory[WAITING]):
        job = replay.queue[place]
        key = score_job(score, replay.inputs, job, now)
        replay.key[place] = key
        replay.fill_key[place] = key if replay.shared else score_job(fill_score, replay.inputs, job, now)


@kernel()
def _something_fits(replay):
    for place in range(replay.memory[WAITING]):
        if replay.processors[replay.queue[place]] <= replay.memory[FREE]:
            return True
    return False


@kernel()
def _pass(replay, score, fill_score, now):
    """One scheduling pass: start the queue's head while it fits, then backfill behind it."""
    memory, flags = replay.memory, replay.flags
    frozen = flags & FROZEN != 0
    if memory[WAITING] == 0 or (not frozen and not _something_fits(replay)):
        return
    _rank_waiting(replay, score, fill_score, now)
    head = -1
    while memory[WAITING] > 0:
        place = _foremost(replay)
        head = replay.queue[place]
        if replay.processors[head] > memory[FREE]:
            break
        _launch(replay, place, now)
    if memory[WAITING] == 0 or not flags & BACKFILL:
        return
    if not frozen or head != memory[HEAD]:
        shadow, spare = reservation(replay.running, now, memory[FREE], replay.processors[head])
        memory[HEAD], memory[SHADOW] = head, shadow
        memory[SPARE] = spare if flags & EXTRA else 0
    window = memory[SHADOW] - now - (1 if flags & STRICT else 0)
    place = _fitting(replay, window)
    while place >= 0:
        job = replay.queue[place]
        if replay.walltime[job] > window:
            memory[SPARE] -= replay.processors[job]
        _launch(replay, place, now)
        place = _fitting(replay, window)


@kernel()
def _release(replay, job, now):
    drop_request(replay.running, replay.start[job] + replay.walltime[job], job)
    width = replay.processors[job]
    replay.memory[FREE] += width
    charge(replay.inputs, job, -width, now)
    note_end(replay.inputs, job, replay.run[job])


@kernel()
def _release_expected(replay, now):
    """Let the jobs that end now, exactly when requested, release their processors, as there."""
    running, memory = replay.running, replay.memory
    if memory[RELEASED] == now or running.n[0] == 0 or running.end[0] != now:
        return
    memory[RELEASED] = now
    for place in range(running.n[0]):
        job = running.job[place]
        if running.end[place] == now and replay.run[job] == replay.walltime[job]:
            _release(replay, job, now)


@kernel()
def _complete(replay, now):
    """Take the completions of an instant, as `ranked._complete` does."""
    running = replay.running
    if not replay.flags & PASS_PER_EVENT:
        while running.n[0] > 0 and running.end[0] == now:
            _release(replay, pop_ended(running), now)
        return
    if replay.flags & FROZEN:
        _release(replay, pop_ended(running), now)
        return
    _release_expected(replay, now)
    job = pop_ended(running)
    if replay.run[job] != replay.walltime[job] or replay.start[job] == now:
        _release(replay, job, now)


@kernel()
def _advance(replay, score, fill_score):
    """Run the whole log: the events of an instant as in `ranked`."""
    submit, running, memory = replay.submit, replay.running, replay.memory
    per_event = replay.flags & PASS_PER_EVENT != 0
    submits_first = per_event and replay.flags & FROZEN == 0
    while memory[ARRIVED] < replay.jobs or running.n[0] > 0:
        arrival = submit[memory[ARRIVED]] if memory[ARRIVED] < replay.jobs else NEVER
        now = arrival
        completes = running.n[0] > 0 and running.end[0] <= arrival - submits_first
        if completes:
            now = running.end[0]
            _complete(replay, now)
        elif submits_first:
            _release_expected(replay, now)
        if not (completes and per_event):
            while memory[ARRIVED] < replay.jobs and submit[memory[ARRIVED]] == now:
                replay.queue[memory[WAITING]] = memory[ARRIVED]
                memory[WAITING] += 1
                memory[ARRIVED] += 1
                if per_event:
                    break
        _pass(replay, score, fill_score, now)


@kernel()
def _run(score, fill_score, run, start, inputs, slots, scratch, memory, flags, shared):
    """Wrap the caller's arrays into bare columns and replay the log."""
    queue, key, fill_key = scratch
    jobs, read = inputs.submit.size, bare_inputs(inputs)
    replay = Replay(
        jobs, flags, shared, read.submit, bare(run), read.walltime, read.processors, read,
        bare(start), bare(queue), bare(key), bare(fill_key),
        bare_running(slots),
        bare(memory),
    )  # fmt: skip
    _advance(replay, score, fill_score)


def scored_schedule(
    submit: Int64s,
    run: Int64s,
    walltime: Int64s,
    processors: Int64s,
    facts: Facts,
    score: Any,
    fill_score: Any,
    machine: int,
    flags: int,
    half_life: float,
) -> Int64s:
    """Replay a log under orders that may change, and return the start times, shape (n,), int64.

    Parameters
    ----------
    submit, run, walltime, processors, machine, flags
        As for `ranked_schedule`; submit times count from the log's first.
    facts
        The other columns that orders may read.
    score, fill_score
        Compiled scores of the queue's and of the backfilling's order (None: the same).
    half_life
        Seconds in which past use counts half for fair share; 0: use never fades.
    """
    n = len(submit)
    start = np.empty(n, np.int64)
    memory = np.zeros(MEMORY, np.int64)
    memory[[FREE, HEAD, RELEASED]] = machine, -1, -1
    scratch = (np.empty(n, np.int32), np.empty(n), np.empty(n))
    inputs = score_inputs(submit, walltime, processors, facts, half_life)
    slots = empty_running(min(machine, n) + 1)
    shared = fill_score is None
    _run(score, score if shared else fill_score, run, start, inputs, slots, scratch, memory, flags, shared)
    return start
