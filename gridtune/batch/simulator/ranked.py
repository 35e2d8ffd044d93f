"""The batch kernel for static queue orders: plain queueing and EASY backfilling, compiled.

A static order never changes while jobs wait. So the waiting jobs are kept in an index over their places in
the order (`ranked_queue`), and the cost of a scheduling pass hardly grows with their number.

The rules (EASY: Lifka 1995; Mu'alem and Feitelson 2001) are stated in `docs/simulation.md`, and in
plain Python in `tests/batch/simulator/reference.py`, which shares no code with this file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.nodes import NEVER, Nodes, claim, start_of, vacate
from gridtune.batch.simulator.ranked_queue import (
    Queue,
    any_fits,
    enter,
    foremost,
    leave,
    new_queue,
    next_candidate,
    size_classes,
)
from gridtune.batch.simulator.running import (
    Running,
    add_running,
    empty_running,
    overstayed,
    pop_ended,
    read_requests,
    release_request,
    reservation,
)
from gridtune.core.compiled import bare, kernel
from gridtune.types import Int32Array, IntArray

__all__ = ["BACKFILL", "EXTRA", "FROZEN", "PASS_PER_EVENT", "RANKED_STATE", "STRICT", "ranked_schedule"]

#: Flags of a run, or-ed together.
BACKFILL, EXTRA, STRICT, FROZEN, PASS_PER_EVENT = 1, 2, 4, 8, 16

#: The state of a run: free processors; waiting jobs; the head's rank (-1: none valid) with its reservation's
#: shadow time and extra; the instant whose expected ends have been released (see `_complete`); starts so far;
#: submissions so far.
RANKED_STATE = np.dtype(
    [
        (name, np.int64)
        for name in ("free", "waiting", "head", "shadow", "spare", "released", "turn", "arrived")
    ]
)


class Log(NamedTuple):
    """The jobs in submit order, with both ranks of each. A run fills in `start`."""

    submit: IntArray
    run: IntArray
    walltime: IntArray
    processors: IntArray
    rank: Int32Array
    fill_rank: Int32Array
    start: IntArray


class Replay(NamedTuple):
    """The data of a run. `fill` is the queue in backfilling order, the same as `queue` where `shared`.

    `longest[c]` is scratch: with which walltime a job of size class c might just be backfilled.
    """

    jobs: int
    flags: int
    shared: bool
    log: Log
    queue: Queue
    fill: Queue
    running: Running
    state: Any
    longest: IntArray
    nodes: Nodes | None


@kernel(forceinline=True)
def _launch(replay, job, now):
    log, state = replay.log, replay.state
    start = claim(replay.nodes, job, log.processors[job], now)
    log.start[job] = start
    state.free -= log.processors[job]
    state.turn += 1
    requested_end = start + log.walltime[job]
    end = start + log.run[job]
    add_running(replay.running, end, state.turn, requested_end, job, log.processors[job])


@kernel(forceinline=True)
def _enqueue(replay, job):
    log = replay.log
    replay.state.waiting += 1
    enter(replay.queue, log.rank[job], job, log)
    if not replay.shared:
        enter(replay.fill, log.fill_rank[job], job, log)


@kernel(forceinline=True)
def _dequeue(replay, job):
    log, waiting = replay.log, replay.state.waiting - 1
    replay.state.waiting = waiting
    leave(replay.queue, log.rank[job], log, waiting)
    if not replay.shared:
        leave(replay.fill, log.fill_rank[job], log, waiting)


@kernel(forceinline=True)
def _pass(replay, now):
    """One scheduling pass: start the queue's head while it fits, then backfill behind it."""
    queue, log, state, flags = replay.queue, replay.log, replay.state, replay.flags
    frozen = flags & FROZEN != 0
    head = -1
    while state.waiting > 0:
        head = foremost(queue)
        job = queue.many.jobs[head]
        if log.processors[job] > state.free:
            break
        _dequeue(replay, job)
        _launch(replay, job, now)
        if not frozen:  # the job just started may use processors that the reservation counts on
            state.head = -1
    if state.waiting == 0 or not flags & BACKFILL:
        return
    if not frozen and not any_fits(replay.fill, state.free):
        if head != state.head:
            state.head = -1
        return
    if head != state.head or (not frozen and overstayed(replay.running, log, log.start, now)):
        needed = log.processors[queue.many.jobs[head]]
        read_requests(replay.running, log, log.start)
        shadow, spare = reservation(replay.running, now, state.free, needed)
        state.head = head
        state.shadow = shadow
        state.spare = spare if flags & EXTRA else 0
    _backfill(replay, now)


@kernel(inline="always")
def _window(replay, now):
    """Return the longest walltime that does not reach beyond the head's reservation."""
    return replay.state.shadow - now - (1 if replay.flags & STRICT else 0)


@kernel(inline="always")
def _in_time(replay, job, now):
    """Tell whether a job that fits would end by the head's reservation, were it started now."""
    start = start_of(replay.nodes, replay.log.processors[job], now)
    return replay.log.walltime[job] <= _window(replay, start)


@kernel(inline="always")
def _next_fill(replay, start, window):
    state, log = replay.state, replay.log
    free, extra = state.free, state.spare
    return next_candidate(replay.fill, start, free, extra, window, replay.longest, log)


@kernel(forceinline=True)
def _backfill(replay, now):
    log, state = replay.log, replay.state
    window = _window(replay, now)
    rank = _next_fill(replay, 0, window)
    while rank >= 0:
        job = replay.fill.many.jobs[rank]
        in_time = _in_time(replay, job, now)
        if in_time or log.processors[job] <= state.spare:
            _dequeue(replay, job)
            _launch(replay, job, now)
            if not in_time:
                state.spare -= log.processors[job]
            if not any_fits(replay.fill, state.free):
                return
        rank = _next_fill(replay, rank + 1, window)


@kernel(forceinline=True)
def _arrive(replay, job, now):
    """Let one job arrive at an instant of its own; return whether it takes a full pass.

    If nothing waits, it starts if it fits. Behind a head whose reservation still holds (nothing has ended
    since, so no job that waits can start), only the new job can be backfilled.
    """
    log, state, flags = replay.log, replay.state, replay.flags
    width = log.processors[job]
    starts = fits = width <= state.free
    stands = state.waiting > 0 and state.head >= 0 and log.rank[job] > state.head
    stands = stands and (flags & FROZEN != 0 or not overstayed(replay.running, log, log.start, now))
    if stands and fits:
        in_time = _in_time(replay, job, now)
        starts = in_time or width <= state.spare
        if starts and not in_time:
            state.spare -= width
    elif state.waiting > 0:
        starts = False
    if starts:
        _launch(replay, job, now)
    else:
        _enqueue(replay, job)
    return not (starts or stands)


@kernel(forceinline=True)
def _release(replay, job):
    log = replay.log
    keep = replay.flags & PASS_PER_EVENT != 0  # jobs that are expected to end now are not in it
    release_request(replay.running, log.start[job] + log.walltime[job], job, keep)
    replay.state.free += log.processors[job]
    vacate(replay.nodes, job, log.start[job] + log.run[job])


@kernel(forceinline=True)
def _release_expected(replay, now):
    """Let the jobs that end now, exactly when requested, release their processors.

    With a pass per event, unless the shadow is frozen, this comes before the first pass of the instant;
    `state.released` is the last instant so treated.
    """
    running, state = replay.running, replay.state
    if state.released == now or running.state.count == 0 or running.end[0] != now:
        return
    state.released = now
    state.head = -1
    for place in range(running.state.count):
        job = running.job[place]
        if running.end[place] == now and replay.log.run[job] == replay.log.walltime[job]:
            _release(replay, job)


@kernel(forceinline=True)
def _complete(replay, now):
    """Take the completions of an instant; with a pass per event, the first one only."""
    log, running = replay.log, replay.running
    if not replay.flags & FROZEN:
        replay.state.head = -1
    if not replay.flags & PASS_PER_EVENT:
        while running.state.count > 0 and running.end[0] == now:
            _release(replay, pop_ended(running))
        return
    if replay.flags & FROZEN:
        _release(replay, pop_ended(running))
        return
    _release_expected(replay, now)
    job = pop_ended(running)
    if log.run[job] != log.walltime[job] or log.start[job] == now:
        _release(replay, job)


@kernel(forceinline=True)
def _advance(replay):
    """Run the whole log: at an instant all completions, then all submissions, then one pass.

    With a pass per event, unless the shadow is frozen, submissions come before completions.
    """
    submit, running, state = replay.log.submit, replay.running, replay.state
    per_event = replay.flags & PASS_PER_EVENT != 0
    submits_first = per_event and replay.flags & FROZEN == 0
    while state.arrived < replay.jobs or running.state.count > 0:
        following = state.arrived
        arrival = submit[following] if following < replay.jobs else NEVER
        if running.state.count > 0 and running.end[0] <= arrival - submits_first:
            now = running.end[0]
            _complete(replay, now)
            alone = per_event or arrival != now
            full = not alone or state.waiting > 0
        else:
            now = arrival
            if submits_first:
                _release_expected(replay, now)
            alone = per_event or following + 1 == replay.jobs or submit[following + 1] != now
            full = True
            if alone:
                state.arrived += 1
                full = _arrive(replay, following, now)
        while not alone and state.arrived < replay.jobs and submit[state.arrived] == now:
            _enqueue(replay, state.arrived)
            state.arrived += 1
        if full:
            _pass(replay, now)


@kernel()
def _run(replay):
    """Replay the log, by the bare columns of the caller's arrays."""
    _advance(bare(replay))


def ranked_schedule(
    submit: IntArray,
    run: IntArray,
    walltime: IntArray,
    processors: IntArray,
    rank: Int32Array,
    fill_rank: Int32Array | None,
    machine: int,
    flags: int,
    nodes: Nodes | None = None,
) -> IntArray:
    """Replay a log under a static order and return the start times, shape (n,), int64.

    Parameters
    ----------
    submit, run, walltime, processors
        Shape (n,), int64, sorted by submit; `run` is the time the job really takes (already cut where it is
        killed), `walltime` the scheduler's estimate; 1 <= processors <= machine.
    rank, fill_rank
        Shape (n,), int32 permutations: places in the queue's and in the backfilling's order (None: the
        same).
    machine
        Processors of the machine.
    flags
        `BACKFILL`, `EXTRA`, `STRICT`, `FROZEN`, `PASS_PER_EVENT`, or-ed; 0 is plain queueing.
    nodes
        The nodes and their power states; None: every processor is on.
    """
    ranks = [rank] if fill_rank is None else [rank, fill_rank]
    narrowest = size_classes(processors)
    log = Log(submit, run, walltime, processors, ranks[0], ranks[-1], np.empty(len(submit), np.int64))
    queues = [new_queue(places, narrowest) for places in ranks]
    replay = Replay(
        jobs=len(submit),
        flags=flags,
        shared=len(ranks) == 1,
        log=log,
        queue=queues[0],
        fill=queues[-1],
        running=empty_running(min(machine, len(submit)) + 1),
        state=np.array((machine, 0, -1, 0, 0, -1, 0, 0), RANKED_STATE),
        longest=np.empty(len(narrowest), np.int64),
        nodes=nodes,
    )
    _run(replay)
    return log.start
