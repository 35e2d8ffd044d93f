"""The batch kernel for static queue orders: plain queueing and EASY backfilling, compiled.

A static order never changes while jobs wait. So the waiting jobs are kept in an index over their places in
the order (`ranked_queue`), and the cost of a scheduling pass hardly grows with their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.simulator.events import (
    JobLog,
    advance,
    launch,
    new_replay,
)
from gridtune.batch.simulator.nodes import PoweredNodes
from gridtune.batch.simulator.queues.ranked_queue import (
    RankedQueue,
    any_fits,
    enter,
    foremost,
    leave,
    new_queue,
    next_candidate,
    size_classes,
)
from gridtune.batch.simulator.reservations import (
    BACKFILL,
    FROZEN,
    in_time,
    overstayed,
    reserve_for_head,
    window,
)
from gridtune.batch.simulator.scores import (
    Facts,
    ScoreInputs,
    Undefined,
    check_scores,
    compile_score,
    score_inputs,
)
from gridtune.core.compiled import bare, kernel
from gridtune.errors import PolicyError
from gridtune.types import FloatArray, Int32Array, IntArray

__all__ = ["ranked_schedule", "static_ranks"]


#: The start of a job that has not started.
_WAITS = -1


class _Ranked(NamedTuple):
    """The waiting jobs by both ranks.

    `fill` is the queue in backfilling order; `other` too, unless that is the same order, and is None then.
    `longest[c]` is scratch: with which walltime a job of size class c might just be backfilled. With a guard,
    jobs that have waited for more than `guard.seconds` go first; the first `guard.passed` were looked at.
    """

    guard: Any
    rank: Int32Array
    fill_rank: Int32Array
    queue: RankedQueue
    other: RankedQueue | None
    fill: RankedQueue
    longest: IntArray


_GUARD = np.dtype([("seconds", np.int64), ("passed", np.int64)])


@kernel(forceinline=True)
def _enter_other(other, rank, job, log):
    if other is None:
        return
    enter(other, np.int64(rank[job]), log.walltime)


@kernel(forceinline=True)
def _leave_other(other, rank, job, log):
    if other is None:
        return
    leave(other, np.int64(rank[job]), log.walltime)


@kernel()
def _promote(replay, job):
    """Let a waiting job go before all that are not guarded, and behind the guarded that were there before.

    Returns whether it goes before the job that has the reservation now.
    """
    log, ranked, state = replay.log, replay.queue, replay.state
    ahead = False
    leave(ranked.queue, np.int64(ranked.rank[job]), log.walltime)
    _leave_other(ranked.other, ranked.fill_rank, job, log)
    if state.head == ranked.rank[job]:
        state.head = job
    elif state.head > job:
        ahead = True
        if replay.flags & FROZEN == 0:
            state.head = -1
    ranked.rank[job] = ranked.fill_rank[job] = job
    enter(ranked.queue, job, log.walltime)
    _enter_other(ranked.other, ranked.fill_rank, job, log)
    return ahead


@kernel(forceinline=True)
def _keep_guard(guard, replay, now):
    """Let jobs that have waited for longer than the guard go first; tell whether the head may change."""
    if guard is None:
        return False
    log, ahead = replay.log, False
    while guard.passed < replay.jobs and now - log.submit[guard.passed] > guard.seconds:
        if log.start[guard.passed] == _WAITS:
            ahead |= _promote(replay, guard.passed)
        guard.passed += 1
    return ahead


@kernel(forceinline=True)
def _enqueue(replay, job, now):
    log, ranked = replay.log, replay.queue
    replay.state.waiting += 1
    enter(ranked.queue, np.int64(ranked.rank[job]), log.walltime)
    _enter_other(ranked.other, ranked.fill_rank, job, log)


@kernel(forceinline=True)
def _start(replay, job, now):
    """Start a job that waits."""
    log, ranked = replay.log, replay.queue
    replay.state.waiting -= 1
    leave(ranked.queue, np.int64(ranked.rank[job]), log.walltime)
    _leave_other(ranked.other, ranked.fill_rank, job, log)
    launch(replay, job, now)


@kernel(forceinline=True)
def _pass(replay, newest, now):
    """One scheduling pass: start the queue's head while it fits, then backfill behind it."""
    ranked, log, state, flags = replay.queue, replay.log, replay.state, replay.flags
    frozen = flags & FROZEN != 0
    head = -1
    _keep_guard(replay.queue.guard, replay, now)
    while state.waiting > 0:
        head = foremost(ranked.queue)
        job = np.int64(ranked.queue.jobs[head])
        if log.processors[job] > state.free:
            break
        _start(replay, job, now)
        if not frozen:  # the job just started may use processors that the reservation counts on
            state.head = -1
    if state.waiting == 0 or not flags & BACKFILL:
        return
    if not frozen and not any_fits(ranked.fill, state.free):
        if head != state.head:
            state.head = -1
        return
    reserve_for_head(replay, head, ranked.queue.jobs[head], now)
    _backfill(replay, now)


@kernel(inline="always")
def _next_fill(replay, start, seconds):
    state, ranked, log = replay.state, replay.queue, replay.log
    free, extra, longest = state.free, state.spare, ranked.longest
    return next_candidate(ranked.fill, start, free, extra, seconds, longest, log.processors, log.walltime)


@kernel(forceinline=True)
def _backfill(replay, now):
    log, state, fill = replay.log, replay.state, replay.queue.fill
    seconds = window(replay, now)
    rank = _next_fill(replay, np.int64(0), seconds)
    while rank >= 0:
        job = np.int64(fill.jobs[rank])
        ends_in_time = in_time(replay, job, now)
        if ends_in_time or log.processors[job] <= state.spare:
            _start(replay, job, now)
            if not ends_in_time:
                state.spare -= log.processors[job]
            if not any_fits(fill, state.free):
                return
        rank = _next_fill(replay, rank + 1, seconds)


@kernel(forceinline=True)
def _arrive(replay, job, now):
    """Let one job arrive at an instant of its own; return whether it takes a full pass.

    If nothing waits, it starts if it fits. Behind a head whose reservation still holds (nothing has ended
    since, so no job that waits can start), only the new job can be backfilled.
    """
    log, state, flags = replay.log, replay.state, replay.flags
    width = log.processors[job]
    changes = _keep_guard(replay.queue.guard, replay, now)
    starts = fits = width <= state.free
    stands = not changes and state.waiting > 0 and state.head >= 0 and replay.queue.rank[job] > state.head
    stands = stands and (flags & FROZEN != 0 or not overstayed(replay.running, log, now))
    if stands and fits:
        ends_in_time = in_time(replay, job, now)
        starts = ends_in_time or width <= state.spare
        if starts and not ends_in_time:
            state.spare -= width
    elif state.waiting > 0:
        starts = False
    if starts:
        launch(replay, job, now)
    else:
        _enqueue(replay, job, now)
    return not (starts or stands)


@kernel(inline="always")
def _note_end(replay, job, now):
    """Do nothing: ranks do not depend on the ends of jobs."""


@kernel(inline="always")
def _is_overfull(replay):
    """Return False: the queue has room for all jobs."""
    return False


@kernel()
def _run(replay):
    """Replay the log, by the bare columns of the caller's arrays."""
    return advance(bare(replay), _arrive, _enqueue, _pass, _note_end, _is_overfull)


def ranked_schedule(
    log: JobLog,
    machine: int,
    flags: int,
    nodes: PoweredNodes | None,
    rank: Int32Array,
    fill_rank: Int32Array | None,
    guard: int | None = None,
) -> None:
    """Replay a log under a static order, and fill in the start times.

    Parameters
    ----------
    log
        The jobs, with 1 <= processors <= machine.
    machine
        Processors of the machine.
    flags
        `BACKFILL`, `EXTRA`, `STRICT`, `FROZEN`, `PASS_PER_EVENT`, or-ed; 0 is plain queueing.
    nodes
        The nodes and their power states; None: every processor is on.
    rank, fill_rank
        Shape (n,), int32 permutations: places in the queue's and in the backfilling's order (None: the
        same).
    guard
        Seconds; jobs that have waited for longer go first, the oldest first.
    """
    guarded = guard is not None
    ranks = [rank] if fill_rank is None else [rank, fill_rank]
    ranks = [places + np.int32(len(rank)) for places in ranks] if guarded else ranks
    narrowest, sizes = size_classes(log.processors)
    log.start[:] = _WAITS
    queues = [new_queue(places, narrowest, sizes, guarded) for places in ranks]
    watch = None if guard is None else np.array((guard, 0), _GUARD)
    other = None if fill_rank is None else queues[1]
    scratch = np.empty(len(narrowest), np.int64)
    ranked = _Ranked(watch, ranks[0], ranks[-1], queues[0], other, queues[-1], scratch)
    _run(new_replay(log, machine, flags, nodes, ranked))


#: Bits of a key that a step of the sort goes by.
_DIGIT = 11
_SIGN, _ONE = np.uint64(1) << np.uint64(63), np.uint64(1)


@kernel()
def _sort(keys, order, sorted_keys, ranks, places):
    """Set `ranks` to each score's place among all, ascending, equal ones in their order, by their bits.

    A radix sort: a score's bits are changed so that keys compare as scores do; only bits that differ are
    sorted. The other columns are lost: the bits, the numbers of the scores, room, and a cell for each digit.
    """
    differing = np.uint64(0)
    for job in range(keys.size):
        keys[job] ^= ~np.uint64(0) if keys[job] & _SIGN else _SIGN
        differing |= keys[job] ^ keys[0]
    shift, mask = np.uint64(0), np.uint64((1 << _DIGIT) - 1)
    while shift < np.uint64(64) and differing >> shift != 0:
        while (differing >> shift) & _ONE == 0:
            shift += _ONE
        for digit in range(places.size):
            places[digit] = 0
        for job in range(keys.size):
            places[np.int64((keys[job] >> shift) & mask)] += 1
        before = 0
        for digit in range(places.size):
            count = places[digit]
            places[digit] = before
            before += count
        for job in range(keys.size):
            bucket = np.int64((keys[job] >> shift) & mask)
            sorted_keys[places[bucket]], ranks[places[bucket]] = keys[job], order[job]
            places[bucket] += 1
        for job in range(keys.size):
            keys[job], order[job] = sorted_keys[job], ranks[job]
        shift += np.uint64(_DIGIT)
    for place in range(keys.size):
        ranks[order[place]] = place


def _score_at_once(order: QueueOrder, inputs: ScoreInputs, jobs: Int32Array) -> FloatArray:
    """Return the scores of jobs, shape (n,), under an order that never changes, outside any kernel."""
    score, scores = compile_score(order), np.empty(len(jobs))
    kinds = score.function.ctypes.argtypes
    handles, rows, values = (
        column.ctypes.data_as(kind)
        for column, kind in ((inputs.handles, kinds[0]), (jobs, kinds[1]), (scores, kinds[4]))
    )
    score.function.ctypes(handles, rows, len(jobs), 0, values, score.program)
    return scores


def static_ranks(
    order: QueueOrder,
    submit: IntArray,
    walltime: IntArray,
    processors: IntArray,
    facts: Callable[[], Facts],
    *,
    undefined: Undefined = "fail",
) -> Int32Array:
    """Return each job's place in a static order, shape (n,), int32; `facts` is called if it is needed.

    Raises
    ------
    PolicyError
        If a score is not a number or, unless such jobs go last, if one of a user's order is infinite.
    """
    jobs = np.arange(len(submit), dtype=np.int32)
    if order.name == "fcfs":
        return jobs
    inputs = score_inputs(submit, walltime, processors, facts(), 0.0)
    scores, ranks = _score_at_once(order, inputs, jobs), np.empty_like(jobs)
    check_scores([order], inputs, undefined)
    if np.isnan(scores).any():
        row = int(np.argmax(np.isnan(scores)))
        raise PolicyError(f"queue order {order.name!r} gives no number for the job in row {row}")
    keys = (scores + 0.0).view(np.uint64)  # −0 becomes 0
    _sort(keys, jobs, np.empty_like(keys), ranks, np.empty(1 << _DIGIT, np.int64))
    return ranks
