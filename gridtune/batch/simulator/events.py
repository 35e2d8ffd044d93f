"""Plain queueing and EASY backfilling from event to event, compiled: the common part of all queue orders.

The running jobs are a heap by end, and a list by requested end, from which EASY's reservation follows: when
the head of the queue can start, and who may go before. The flags are the switches of a backfilling variant
(`gridtune.batch.policies.backfilling`). Conservative backfilling, where every job holds a reservation, has
its own profile (`profile`).

A kernel (`ranked`, `scored`) hands `advance` its queue's part: the arrival of a job, the begin of its wait,
a scheduling pass and the end of a job's use. The rules (EASY: Lifka 1995; Mu'alem and Feitelson 2001) are
stated in `docs/simulation.md`, and in plain Python in `tests/batch/simulator/reference.py`, which shares no
code with this file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.nodes import NEVER, PoweredNodes, claim, start_of, vacate
from gridtune.core.compiled import kernel
from gridtune.core.rows import insert_row, remove_row, sort_rows
from gridtune.types import Int32Array, IntArray

#: The jobs in the heap and in the list, and those that have left the list since it was read.
RUNNING = np.dtype([("count", np.int64), ("listed", np.int64), ("left", np.int64)])
_UNLISTED = -1
#: So many places of the list are looked through faster one by one.
_FEW = 16


class Running(NamedTuple):
    """The running jobs: `state.count` in a heap by (end, turn), `state.listed` in a list by requested end.

    `state.left` counts the jobs that have left the list since it was read.

    `end`, `turn` and `job` are the heap. `turn` numbers the starts, so that of jobs that end together the one
    started first comes first. `requested_end`, `listed_job` and `listed_width` are the list. Where
    `state.listed` is `_UNLISTED`, there is none, for as long as it is not needed: `read_requests` makes it.
    """

    state: Any
    end: IntArray
    turn: IntArray
    job: Int32Array
    requested_end: IntArray
    listed_job: Int32Array
    listed_width: Int32Array


@kernel(inline="always")
def _before(running, one, other):
    ends, turns = running.end, running.turn
    return ends[one] < ends[other] or (ends[one] == ends[other] and turns[one] < turns[other])


@kernel(inline="always")
def _move(running, source, target):
    running.end[target] = running.end[source]
    running.turn[target] = running.turn[source]
    running.job[target] = running.job[source]


@kernel()
def _add_running(running, end, turn, requested_end, job, width):
    """Add a job that has just started; `turn` must grow from call to call."""
    hole = running.state.count
    running.state.count = hole + 1
    while hole > 0:
        parent = (hole - 1) >> 1
        if running.end[parent] <= end:  # of equals the older, which has the lower turn, stays above
            break
        _move(running, parent, hole)
        hole = parent
    running.end[hole], running.turn[hole], running.job[hole] = end, turn, job

    count = running.state.listed
    if count != _UNLISTED:
        running.state.listed = count + 1
        ends, jobs, widths = running.requested_end, running.listed_job, running.listed_width
        insert_row(ends, jobs, widths, count, requested_end, job, width)


@kernel()
def _pop_ended(running):
    """Remove the job that ends first from the heap and return it."""
    first = running.job[0]
    last = running.state.count - 1
    running.state.count = last
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= last:
            break
        if child + 1 < last and _before(running, child + 1, child):
            child += 1
        if _before(running, last, child):
            break
        _move(running, child, hole)
        hole = child
    _move(running, last, hole)
    return np.int64(first)


@kernel()
def _release_request(running, requested_end, job, keep):
    """Remove a job from the list; or do away with a list that is not read, unless it is to be kept.

    To keep it up to date for nothing takes longer than to make it again.
    """
    count, low = running.state.listed, 0
    if count == _UNLISTED:
        return
    high = count
    while high - low > _FEW:
        middle = (low + high) >> 1
        if running.requested_end[middle] < requested_end:
            low = middle + 1
        else:
            high = middle
    while running.listed_job[low] != job:
        low += 1
    remove_row(running.requested_end, running.listed_job, running.listed_width, count, low)
    running.state.left += 1
    running.state.listed = count - 1
    if running.state.left > running.state.listed and not keep:
        running.state.listed = _UNLISTED


@kernel()
def _list_requests(running, log):
    """Make the list of the jobs in the heap."""
    count = running.state.count
    running.state.listed = count
    for place in range(count):
        job = running.job[place]
        running.requested_end[place], running.listed_job[place] = log.start[job] + log.walltime[job], job
    sort_rows(running.requested_end, running.listed_job, count)
    for place in range(count):
        running.listed_width[place] = log.processors[running.listed_job[place]]


@kernel(forceinline=True)
def read_requests(running, log):
    """Make the list if there is none; `log` has the walltimes, processors and starts of the jobs."""
    running.state.left = 0
    if running.state.listed == _UNLISTED:
        _list_requests(running, log)


#: Flags of a run, or-ed together.
BACKFILL, EXTRA, STRICT, FROZEN, PASS_PER_EVENT = 1, 2, 4, 8, 16


@kernel()
def _reservation(running, now, free, needed):
    """Return (shadow, extra): when a job of `needed` processors can start, and what is free beside it.

    A running job past its requested end is expected to end now.
    """
    shadow, available, place = now, free, 0
    while available < needed or (place < running.state.listed and running.requested_end[place] <= shadow):
        shadow = max(shadow, running.requested_end[place])
        available += running.listed_width[place]
        place += 1
    return shadow, available - needed


@kernel(forceinline=True)
def overstayed(running, log, now):
    """Tell whether some job runs past its requested end; `log` as for `read_requests`."""
    read_requests(running, log)
    return running.state.listed > 0 and running.requested_end[0] < now


@kernel(inline="always")
def window(replay, now):
    """Return the longest walltime that does not reach beyond the head's reservation."""
    return replay.state.shadow - now - (1 if replay.flags & STRICT else 0)


@kernel(inline="always")
def in_time(replay, job, now):
    """Tell whether a job that fits would end by the head's reservation, were it started now."""
    start = start_of(replay.nodes, replay.log.processors[job], now)
    return replay.log.walltime[job] <= window(replay, start)


@kernel(forceinline=True)
def reserve_for_head(replay, head, job, now):
    """Reserve for the job at the queue's head, unless its reservation still holds; return whether it does."""
    log, state = replay.log, replay.state
    frozen = replay.flags & FROZEN != 0
    if head == state.head and (frozen or not overstayed(replay.running, log, now)):
        return True
    read_requests(replay.running, log)
    shadow, spare = _reservation(replay.running, now, state.free, log.processors[job])
    state.head, state.shadow = head, shadow
    state.spare = spare if replay.flags & EXTRA else 0
    return False


#: The state of a run: free processors; waiting jobs; the head, a rank or a job (-1: none valid), with its
#: reservation's shadow time and extra; the instant whose expected ends have been released (see `_complete`);
#: starts so far; submissions so far; whether a score has been out of its bounds.
STATE_FIELDS = ("free", "waiting", "head", "shadow", "spare", "released", "turn", "arrived", "astray")
_STATE = np.dtype([(name, np.int64) for name in STATE_FIELDS])


class JobLog(NamedTuple):
    """The jobs in submit order, shape (n,) each. A run fills in `start`.

    `run` is the time a job really takes, already cut where it is killed, `walltime` the scheduler's estimate.
    """

    submit: IntArray
    run: IntArray
    walltime: IntArray
    processors: IntArray
    start: IntArray


class _Simulation(NamedTuple):
    """The data of a run. The jobs wait in `queue`, which is the kernel's own."""

    jobs: int
    flags: int
    log: JobLog
    running: Running
    state: Any
    nodes: PoweredNodes | None
    queue: Any


def new_replay(log: JobLog, machine: int, flags: int, nodes: PoweredNodes | None, queue: Any) -> _Simulation:
    """Return a run of which nothing has happened yet."""
    jobs = len(log.submit)
    room = min(machine, jobs) + 1
    running = Running(
        state=np.zeros((), RUNNING),
        end=np.empty(room, np.int64),
        turn=np.empty(room, np.int64),
        job=np.empty(room, np.int32),
        requested_end=np.empty(room, np.int64),
        listed_job=np.empty(room, np.int32),
        listed_width=np.empty(room, np.int32),
    )
    state = np.array((machine, 0, -1, 0, 0, -1, 0, 0, 0), _STATE)
    return _Simulation(jobs, flags, log, running, state, nodes, queue)


@kernel(inline="always")
def with_queue(replay, queue):
    """Return a run with another queue."""
    log, running, state = replay.log, replay.running, replay.state
    return _Simulation(replay.jobs, replay.flags, log, running, state, replay.nodes, queue)


@kernel(forceinline=True)
def launch(replay, job, now):
    """Start a job, which waits no more."""
    log, state, width = replay.log, replay.state, replay.log.processors[job]
    start = claim(replay.nodes, job, width, now)
    log.start[job] = start
    state.free -= width
    state.turn += 1
    _add_running(replay.running, start + log.run[job], state.turn, start + log.walltime[job], job, width)


@kernel(forceinline=True)
def _release(replay, job, now, note_end):
    log, width = replay.log, replay.log.processors[job]
    keep = replay.flags & PASS_PER_EVENT != 0  # jobs that are expected to end now are not in it
    _release_request(replay.running, log.start[job] + log.walltime[job], job, keep)
    replay.state.free += width
    note_end(replay, job, now)
    vacate(replay.nodes, job, now)


@kernel(forceinline=True)
def _release_expected(replay, now, note_end):
    """Release the processors of jobs that end now, exactly when requested.

    With a pass per event, unless the shadow is frozen, this comes before the first pass of the instant;
    `state.released` is the last instant so treated.
    """
    running, state = replay.running, replay.state
    if state.released == now or running.state.count == 0 or running.end[0] != now:
        return
    state.released = now
    state.head = -1
    for place in range(running.state.count):
        job = np.int64(running.job[place])
        if running.end[place] == now and replay.log.run[job] == replay.log.walltime[job]:
            _release(replay, job, now, note_end)


@kernel(forceinline=True)
def _complete(replay, now, note_end):
    """Take the completions of an instant; with a pass per event, the first one only."""
    log, running = replay.log, replay.running
    if not replay.flags & FROZEN:
        replay.state.head = -1
    if not replay.flags & PASS_PER_EVENT:
        while running.state.count > 0 and running.end[0] == now:
            _release(replay, _pop_ended(running), now, note_end)
        return
    if replay.flags & FROZEN:
        _release(replay, _pop_ended(running), now, note_end)
        return
    _release_expected(replay, now, note_end)
    job = _pop_ended(running)
    if log.run[job] != log.walltime[job] or log.start[job] == now:
        _release(replay, job, now, note_end)


@kernel(inline="always")
def advance(replay, arrive, enqueue, run_pass, note_end, is_overfull):
    """Run the log: at an instant all completions, then all submissions, then one pass.

    With a pass per event, unless the shadow is frozen, submissions come before completions.

    Parameters
    ----------
    replay
        The data of the run.
    arrive, enqueue
        Called with the run, a job and the time: let a job arrive at an instant of its own, and return whether
        it takes a pass; let a job wait.
    run_pass
        Called with the run, the job that has just arrived by itself (-1: none), and the time.
    note_end
        Called with the run, a job that has released its processors, and the time.
    is_overfull
        Called with the run: tell whether the queue must be prepared for so many waiting jobs.

    Returns
    -------
    Whether the log has come to its end. It has not where the queue is overfull.
    """
    submit, running, state = replay.log.submit, replay.running, replay.state
    per_event = replay.flags & PASS_PER_EVENT != 0
    submits_first = per_event and replay.flags & FROZEN == 0
    while (state.arrived < replay.jobs or running.state.count > 0) and not is_overfull(replay):
        following = state.arrived
        arrival = submit[following] if following < replay.jobs else NEVER
        newest = -1
        if running.state.count > 0 and running.end[0] <= arrival - submits_first:
            now = running.end[0]
            _complete(replay, now, note_end)
            alone = per_event or arrival != now
            full = not alone or state.waiting > 0
        else:
            now = arrival
            if submits_first:
                _release_expected(replay, now, note_end)
            alone = per_event or following + 1 == replay.jobs or submit[following + 1] != now
            full = True
            if alone:
                state.arrived += 1
                newest = following
                full = arrive(replay, newest, now)
        while not alone and state.arrived < replay.jobs and submit[state.arrived] == now:
            enqueue(replay, state.arrived, now)
            state.arrived += 1
        if full:
            run_pass(replay, newest, now)
    return state.arrived == replay.jobs and running.state.count == 0
