"""The batch kernel for static queue orders: plain queueing and EASY backfilling, compiled.

A static order never changes while jobs wait. So the waiting jobs are kept in an index over their places in
the order (`ranked_queue`), and the cost of a scheduling pass hardly grows with their number.

The rules (EASY: Lifka 1995; Mu'alem and Feitelson 2001) are stated in `docs/simulation.md`, and in
plain Python in `tests/batch/simulator/reference.py`, which shares no code with this file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.batch.simulator.nodes import NEVER, Nodes, bare_nodes, claim, start_of, vacate
from gridtune.batch.simulator.ranked_queue import (
    Queue,
    QueueArrays,
    any_fits,
    enter,
    foremost,
    leave,
    make_queue,
    next_candidate,
    queue_arrays,
    size_classes,
)
from gridtune.batch.simulator.running import (
    Running,
    add_running,
    bare_running,
    empty_running,
    overstayed,
    pop_ended,
    read_requests,
    release_request,
    reservation,
)
from gridtune.core.compiled import bare, kernel
from gridtune.types import Int32Array, IntArray

__all__ = ["BACKFILL", "EXTRA", "FROZEN", "PASS_PER_EVENT", "STRICT", "ranked_schedule"]

#: Flags of a run, or-ed together.
BACKFILL, EXTRA, STRICT, FROZEN, PASS_PER_EVENT = 1, 2, 4, 8, 16

#: The state of a run, in one column so that helpers can change it: free processors; waiting jobs; the head's
#: rank (-1: none valid) with its reservation's shadow time and extra; the instant whose expected ends have
#: been released (see `_complete`); starts so far; submissions so far.
FREE, WAITING, HEAD, SHADOW, SPARE, RELEASED, TURN, ARRIVED, MEMORY = range(9)


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
    memory: IntArray
    longest: IntArray
    nodes: Nodes | None


@kernel(forceinline=True)
def _launch(replay, job, now):
    log, memory = replay.log, replay.memory
    start = claim(replay.nodes, job, log.processors[job], now)
    log.start[job] = start
    memory[FREE] -= log.processors[job]
    memory[TURN] += 1
    requested_end = start + log.walltime[job]
    end = start + log.run[job]
    add_running(replay.running, end, memory[TURN], requested_end, job, log.processors[job])


@kernel(forceinline=True)
def _enqueue(replay, job):
    log = replay.log
    replay.memory[WAITING] += 1
    enter(replay.queue, log.rank[job], job, log)
    if not replay.shared:
        enter(replay.fill, log.fill_rank[job], job, log)


@kernel(forceinline=True)
def _dequeue(replay, job):
    log, waiting = replay.log, replay.memory[WAITING] - 1
    replay.memory[WAITING] = waiting
    leave(replay.queue, log.rank[job], log, waiting)
    if not replay.shared:
        leave(replay.fill, log.fill_rank[job], log, waiting)


@kernel(forceinline=True)
def _pass(replay, now):
    """One scheduling pass: start the queue's head while it fits, then backfill behind it."""
    queue, log, memory, flags = replay.queue, replay.log, replay.memory, replay.flags
    frozen = flags & FROZEN != 0
    head = -1
    while memory[WAITING] > 0:
        head = foremost(queue)
        job = queue.many.jobs[head]
        if log.processors[job] > memory[FREE]:
            break
        _dequeue(replay, job)
        _launch(replay, job, now)
        if not frozen:  # the job just started may use processors that the reservation counts on
            memory[HEAD] = -1
    if memory[WAITING] == 0 or not flags & BACKFILL:
        return
    if not frozen and not any_fits(replay.fill, memory[FREE]):
        if head != memory[HEAD]:
            memory[HEAD] = -1
        return
    if head != memory[HEAD] or (not frozen and overstayed(replay.running, log, log.start, now)):
        needed = log.processors[queue.many.jobs[head]]
        read_requests(replay.running, log, log.start)
        shadow, spare = reservation(replay.running, now, memory[FREE], needed)
        memory[HEAD] = head
        memory[SHADOW] = shadow
        memory[SPARE] = spare if flags & EXTRA else 0
    _backfill(replay, now)


@kernel(inline="always")
def _window(replay, now):
    """Return the longest walltime that does not reach beyond the head's reservation."""
    return replay.memory[SHADOW] - now - (1 if replay.flags & STRICT else 0)


@kernel(inline="always")
def _in_time(replay, job, now):
    """Tell whether a job that fits would end by the head's reservation, were it started now."""
    start = start_of(replay.nodes, replay.log.processors[job], now)
    return replay.log.walltime[job] <= _window(replay, start)


@kernel(inline="always")
def _next_fill(replay, start, window):
    memory, log = replay.memory, replay.log
    free, extra = memory[FREE], memory[SPARE]
    return next_candidate(replay.fill, start, free, extra, window, replay.longest, log)


@kernel(forceinline=True)
def _backfill(replay, now):
    log, memory = replay.log, replay.memory
    window = _window(replay, now)
    rank = _next_fill(replay, 0, window)
    while rank >= 0:
        job = replay.fill.many.jobs[rank]
        in_time = _in_time(replay, job, now)
        if in_time or log.processors[job] <= memory[SPARE]:
            _dequeue(replay, job)
            _launch(replay, job, now)
            if not in_time:
                memory[SPARE] -= log.processors[job]
            if not any_fits(replay.fill, memory[FREE]):
                return
        rank = _next_fill(replay, rank + 1, window)


@kernel(forceinline=True)
def _arrive(replay, job, now):
    """Let one job arrive at an instant of its own; return whether it takes a full pass.

    If nothing waits, it starts if it fits. Behind a head whose reservation still holds (nothing has ended
    since, so no job that waits can start), only the new job can be backfilled.
    """
    log, memory, flags = replay.log, replay.memory, replay.flags
    width = log.processors[job]
    starts = fits = width <= memory[FREE]
    stands = memory[WAITING] > 0 and memory[HEAD] >= 0 and log.rank[job] > memory[HEAD]
    stands = stands and (flags & FROZEN != 0 or not overstayed(replay.running, log, log.start, now))
    if stands and fits:
        in_time = _in_time(replay, job, now)
        starts = in_time or width <= memory[SPARE]
        if starts and not in_time:
            memory[SPARE] -= width
    elif memory[WAITING] > 0:
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
    replay.memory[FREE] += log.processors[job]
    vacate(replay.nodes, job, log.start[job] + log.run[job])


@kernel(forceinline=True)
def _release_expected(replay, now):
    """Let the jobs that end now, exactly when requested, release their processors.

    With a pass per event, unless the shadow is frozen, this comes before the first pass of the instant;
    `memory[RELEASED]` is the last instant so treated.
    """
    running, memory = replay.running, replay.memory
    if memory[RELEASED] == now or running.n[0] == 0 or running.end[0] != now:
        return
    memory[RELEASED] = now
    memory[HEAD] = -1
    for place in range(running.n[0]):
        job = running.job[place]
        if running.end[place] == now and replay.log.run[job] == replay.log.walltime[job]:
            _release(replay, job)


@kernel(forceinline=True)
def _complete(replay, now):
    """Take the completions of an instant; with a pass per event, the first one only."""
    log, running = replay.log, replay.running
    if not replay.flags & FROZEN:
        replay.memory[HEAD] = -1
    if not replay.flags & PASS_PER_EVENT:
        while running.n[0] > 0 and running.end[0] == now:
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
    submit, running, memory = replay.log.submit, replay.running, replay.memory
    per_event = replay.flags & PASS_PER_EVENT != 0
    submits_first = per_event and replay.flags & FROZEN == 0
    while memory[ARRIVED] < replay.jobs or running.n[0] > 0:
        following = memory[ARRIVED]
        arrival = submit[following] if following < replay.jobs else NEVER
        if running.n[0] > 0 and running.end[0] <= arrival - submits_first:
            now = running.end[0]
            _complete(replay, now)
            alone = per_event or arrival != now
            full = not alone or memory[WAITING] > 0
        else:
            now = arrival
            if submits_first:
                _release_expected(replay, now)
            alone = per_event or following + 1 == replay.jobs or submit[following + 1] != now
            full = True
            if alone:
                memory[ARRIVED] += 1
                full = _arrive(replay, following, now)
        while not alone and memory[ARRIVED] < replay.jobs and submit[memory[ARRIVED]] == now:
            _enqueue(replay, memory[ARRIVED])
            memory[ARRIVED] += 1
        if full:
            _pass(replay, now)


@kernel()
def _run(log, flags, shared, narrowest, queue, fill, slots, memory, longest, nodes):
    """Wrap the caller's arrays into bare columns and replay the log."""
    columns = Log(
        bare(log.submit),
        bare(log.run),
        bare(log.walltime),
        bare(log.processors),
        bare(log.rank),
        bare(log.fill_rank),
        bare(log.start),
    )
    _advance(
        Replay(
            log.submit.size,
            flags,
            shared,
            columns,
            make_queue(queue, narrowest),
            make_queue(fill, narrowest),
            bare_running(slots),
            bare(memory),
            bare(longest),
            bare_nodes(nodes),
        )
    )


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
    start = np.empty(len(submit), np.int64)
    log = Log(submit, run, walltime, processors, ranks[0], ranks[-1], start)
    queues: list[QueueArrays] = [queue_arrays(places, len(narrowest)) for places in ranks]
    slots = empty_running(min(machine, len(submit)) + 1)
    memory = np.zeros(MEMORY, np.int64)
    memory[[FREE, HEAD, RELEASED]] = machine, -1, -1
    longest = np.empty(len(narrowest), np.int64)
    _run(log, flags, len(ranks) == 1, narrowest, queues[0], queues[-1], slots, memory, longest, nodes)
    return start
