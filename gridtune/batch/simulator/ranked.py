"""The batch kernel for static queue orders: plain queueing and EASY backfilling, compiled.

A static order never changes while jobs wait. So the waiting jobs are kept in an index over their ranks, their
places in a static order of the whole log, and the cost of a scheduling pass hardly grows with their number.

A bitmap of three levels (a word stands for 64, 64² or 64³ ranks) marks the ranks that wait. Beside it, for
every block of each level and every class of job sizes, the index keeps the shortest walltime that waits
there. The first waiting job that fits is found by a descent through that index, not by a scan of the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.simulator.events import (
    BACKFILL,
    FROZEN,
    JobLog,
    advance,
    in_time,
    launch,
    new_replay,
    overstayed,
    reserve_for_head,
    window,
)
from gridtune.batch.simulator.nodes import NEVER, PoweredNodes
from gridtune.batch.simulator.scores import (
    Facts,
    ScoreInputs,
    Undefined,
    check_scores,
    compile_score,
    score_inputs,
)
from gridtune.core.compiled import bare, kernel
from gridtune.core.marks import Marks, lowest, mark, new_marks, next_marked, unmark
from gridtune.errors import PolicyError
from gridtune.types import FloatArray, Int8Array, Int32Array, IntArray


class _RankedQueue(NamedTuple):
    """The waiting jobs, over ranks.

    `marks` has the ranks that wait. `least0[b * classes + c]` is the shortest walltime of
    the jobs of size class c that wait in block b, `NEVER` if none does; `least1` and `least2` are the same
    for larger blocks. `narrowest[c]` is the least size of class c, `tally[c]` the number of its jobs that
    wait; `jobs[r]` is the job of rank r; `sizes[j]` is the size class of job j.
    """

    classes: int
    marks: Marks
    narrowest: IntArray
    jobs: Int32Array
    sizes: Int8Array
    least0: IntArray
    least1: IntArray
    least2: IntArray
    tally: IntArray


#: At most about this many classes of job sizes; with no more distinct sizes, each has its own.
_MOST_CLASSES = 32


def _size_classes(processors: IntArray) -> tuple[IntArray, Int8Array]:
    """Return the narrowest size of each class of sizes, rising, and the class of each job.

    The most frequent sizes have a class of their own, where an index entry is exact; the sizes between two
    of them share one, where it is a bound. (The choice weighs the whole log: it decides the speed of the
    index, never a schedule.)
    """
    if processors.max(initial=0) <= len(processors):
        counts, places = np.bincount(processors), processors
        sizes = np.flatnonzero(counts)
    else:
        sizes, places, counts = np.unique(processors, return_inverse=True, return_counts=True)
    present = counts[counts > 0]
    own = np.zeros(len(sizes), bool)
    own[np.argsort(-present, kind="stable")[: _MOST_CLASSES // 2]] = True
    if len(sizes) <= _MOST_CLASSES:
        own[:] = True
    opens = own | np.concatenate([[True], own[:-1]])
    class_of = np.zeros(len(counts), np.int8)
    class_of[counts > 0] = np.cumsum(opens) - 1
    return sizes[opens].astype(np.int64), class_of[places]


def _new_queue(rank: Int32Array, narrowest: IntArray, sizes: Int8Array, guarded: bool) -> _RankedQueue:
    """Return an empty queue for jobs of these ranks, in the size classes of `_size_classes`.

    Where jobs are guarded, ranks begin behind the number of jobs, and job j may take rank j instead.
    """
    rows, classes = np.arange(len(rank), dtype=np.int32), len(narrowest)
    jobs = np.concatenate([rows, rows]) if guarded else np.empty_like(rows)
    jobs[rank] = rows
    marks = new_marks(len(jobs))
    least0, least1, least2 = (
        np.full(len(bits) * classes, NEVER) for bits in (marks.bits0, marks.bits1, marks.bits2)
    )
    tally = np.zeros(classes, np.int64)
    return _RankedQueue(classes, marks, narrowest, jobs, sizes, least0, least1, least2, tally)


@kernel()
def _enter(index, rank, walltimes):
    """Add the job of a rank to the waiting jobs."""
    job = index.jobs[rank]
    size, walltime = index.sizes[job], walltimes[job]
    block0, block1, block2 = rank >> 6, rank >> 12, rank >> 18
    mark(index.marks, rank)
    index.tally[size] += 1
    cell = block0 * index.classes + size
    if index.least0[cell] <= walltime:
        return
    index.least0[cell] = walltime
    cell = block1 * index.classes + size
    if index.least1[cell] <= walltime:
        return
    index.least1[cell] = walltime
    cell = block2 * index.classes + size
    index.least2[cell] = min(index.least2[cell], walltime)


@kernel()
def _leave(index, rank, walltimes):
    """Remove the job of a rank from the waiting jobs."""
    job = index.jobs[rank]
    size, walltime = index.sizes[job], walltimes[job]
    block0, block1, block2 = rank >> 6, rank >> 12, rank >> 18
    index.tally[size] -= 1
    unmark(index.marks, rank)
    word = index.marks.bits0[block0]
    cell = block0 * index.classes + size
    if index.least0[cell] < walltime:
        return
    least = NEVER
    while word != 0:
        job = index.jobs[(block0 << 6) + lowest(word)]
        word &= word - np.uint64(1)
        if index.sizes[job] == size:
            least = min(least, walltimes[job])
            if least == walltime:
                return
    index.least0[cell] = least
    cell = block1 * index.classes + size
    if index.least1[cell] < walltime:
        return
    least = _least_of(index.least0, index.marks.bits1[block1], block1, index.classes, size, walltime)
    index.least1[cell] = least
    cell = block2 * index.classes + size
    if least > walltime and index.least2[cell] >= walltime:
        below, word = index.least1, index.marks.bits2[block2]
        index.least2[cell] = _least_of(below, word, block2, index.classes, size, walltime)


@kernel()
def _least_of(below, word, block, classes, size, floor):
    """Return the least of a block's children in one class; `floor` is the least it can be."""
    least = NEVER
    while word != 0:
        least = min(least, below[((block << 6) + lowest(word)) * classes + size])
        if least == floor:
            break
        word &= word - np.uint64(1)
    return least


@kernel(inline="always")
def _possible(least, block, classes, longest):
    possible = False
    for size in range(classes):
        possible |= least[block * classes + size] <= longest[size]
    return possible


@kernel()
def _set_longest(index, longest, free, extra, window):
    """Set, for each size class, the longest walltime with which some job of it might be backfilled."""
    for size in range(index.classes):
        narrowest = index.narrowest[size]
        if narrowest > free:
            longest[size] = -1
        elif narrowest <= extra:
            longest[size] = NEVER - 1
        else:
            longest[size] = window


@kernel()
def _any_fits(index, free):
    """Tell whether a job may wait that needs no more than `free` processors; False is sure."""
    for size in range(index.classes):
        if index.narrowest[size] > free:
            return False
        if index.tally[size] > 0:
            return True
    return False


@kernel()
def _next_candidate(index, start, free, extra, window, longest, processors, walltimes):
    """Return the first waiting rank >= start, in backfilling order, that may be backfilled, or -1.

    A job may if it fits into `free` processors and either leaves the head's reservation alone (it is no
    wider than the `extra` beside it) or ends before it (it takes no longer than `window` seconds).
    `longest` is scratch, one cell a size class.
    """
    classes = index.classes
    _set_longest(index, longest, free, extra, window)
    everything = ~np.uint64(0)
    for block2 in range(start >> 18, index.marks.words2):
        word2 = index.marks.bits2[block2]
        if block2 == start >> 18:
            word2 &= everything << np.uint64((start >> 12) & 63)
        if word2 == 0 or not _possible(index.least2, block2, classes, longest):
            continue
        while word2 != 0:
            block1 = (block2 << 6) + lowest(word2)
            word2 &= word2 - np.uint64(1)
            word1 = index.marks.bits1[block1]
            if block1 == start >> 12:
                word1 &= everything << np.uint64((start >> 6) & 63)
            if word1 == 0 or not _possible(index.least1, block1, classes, longest):
                continue
            while word1 != 0:
                block0 = (block1 << 6) + lowest(word1)
                word1 &= word1 - np.uint64(1)
                word0 = index.marks.bits0[block0]
                if block0 == start >> 6:
                    word0 &= everything << np.uint64(start & 63)
                if word0 == 0 or not _possible(index.least0, block0, classes, longest):
                    continue
                while word0 != 0:
                    rank = (block0 << 6) + lowest(word0)
                    word0 &= word0 - np.uint64(1)
                    job = index.jobs[rank]
                    width = processors[job]
                    if width <= free and (width <= extra or walltimes[job] <= window):
                        return rank
    return -1


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
    queue: _RankedQueue
    other: _RankedQueue | None
    fill: _RankedQueue
    longest: IntArray


_GUARD = np.dtype([("seconds", np.int64), ("passed", np.int64)])


@kernel(forceinline=True)
def _enter_other(other, rank, job, log):
    if other is None:
        return
    _enter(other, np.int64(rank[job]), log.walltime)


@kernel(forceinline=True)
def _leave_other(other, rank, job, log):
    if other is None:
        return
    _leave(other, np.int64(rank[job]), log.walltime)


@kernel()
def _promote(replay, job):
    """Move a waiting job before all that are not guarded, and behind those that were guarded before.

    Returns whether it goes before the job that has the reservation now.
    """
    log, ranked, state = replay.log, replay.queue, replay.state
    ahead = False
    _leave(ranked.queue, np.int64(ranked.rank[job]), log.walltime)
    _leave_other(ranked.other, ranked.fill_rank, job, log)
    if state.head == ranked.rank[job]:
        state.head = job
    elif state.head > job:
        ahead = True
        if replay.flags & FROZEN == 0:
            state.head = -1
    ranked.rank[job] = ranked.fill_rank[job] = job
    _enter(ranked.queue, job, log.walltime)
    _enter_other(ranked.other, ranked.fill_rank, job, log)
    return ahead


@kernel(forceinline=True)
def _keep_guard(guard, replay, now):
    """Move jobs that have waited for longer than the guard first; tell whether the head may change."""
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
    _enter(ranked.queue, np.int64(ranked.rank[job]), log.walltime)
    _enter_other(ranked.other, ranked.fill_rank, job, log)


@kernel(forceinline=True)
def _start(replay, job, now):
    """Start a job that waits."""
    log, ranked = replay.log, replay.queue
    replay.state.waiting -= 1
    _leave(ranked.queue, np.int64(ranked.rank[job]), log.walltime)
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
        head = next_marked(ranked.queue.marks, 0)
        job = np.int64(ranked.queue.jobs[head])
        if log.processors[job] > state.free:
            break
        _start(replay, job, now)
        if not frozen:  # the job just started may use processors that the reservation counts on
            state.head = -1
    if state.waiting == 0 or not flags & BACKFILL:
        return
    if not frozen and not _any_fits(ranked.fill, state.free):
        if head != state.head:
            state.head = -1
        return
    reserve_for_head(replay, head, ranked.queue.jobs[head], now)
    _backfill(replay, now)


@kernel(inline="always")
def _next_fill(replay, start, seconds):
    state, ranked, log = replay.state, replay.queue, replay.log
    free, extra, longest = state.free, state.spare, ranked.longest
    return _next_candidate(ranked.fill, start, free, extra, seconds, longest, log.processors, log.walltime)


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
            if not _any_fits(fill, state.free):
                return
        rank = _next_fill(replay, rank + 1, seconds)


@kernel(forceinline=True)
def _arrive(replay, job, now):
    """Handle a job that arrives alone at an instant; return whether it takes a full pass.

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
    narrowest, sizes = _size_classes(log.processors)
    log.start[:] = _WAITS
    queues = [_new_queue(places, narrowest, sizes, guarded) for places in ranks]
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
