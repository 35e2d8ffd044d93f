"""The waiting jobs under a static order, compiled: a sorted list while they are few, an index when many.

On real logs few wait most of the time: a short list is then scanned faster than an index is kept. Between
the two lengths at which the jobs move to the index and back, so many come or go that moving costs little.

The index finds the first job, and the first that may be backfilled. A job is identified by its *rank*, its
place in a static order of the whole log. A bitmap of three levels (a word stands for 64, 64² or 64³ ranks)
marks the ranks that wait. Beside it, for every block of each level and every class of job sizes, the index
keeps the shortest walltime that waits there. The first waiting job that fits is found by a descent through
that index, not by a scan of the queue.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.marks import Marks, lowest, mark, new_marks, next_marked, unmark
from gridtune.batch.simulator.nodes import NEVER
from gridtune.batch.simulator.running import insert_row, remove_row, some_within
from gridtune.core.compiled import kernel
from gridtune.types import Int8Array, Int32Array, IntArray

__all__ = [
    "Queue",
    "any_fits",
    "enter",
    "foremost",
    "leave",
    "new_queue",
    "next_candidate",
    "size_classes",
]


class _Index(NamedTuple):
    """The waiting jobs, over ranks.

    `marks` has the ranks that wait. `least0[b * classes + c]` is the shortest walltime of
    the jobs of size class c that wait in block b, `NEVER` if none does; `least1` and `least2` are the same
    for larger blocks. `narrowest[c]` is the least size of class c, `tally[c]` how many of it wait;
    `jobs[r]` is the job of rank r, of `ranks`; `sizes[j]` is the size class of job j, of `size`.
    """

    ranks: int
    size: int
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
MOST_CLASSES = 32


def size_classes(processors: IntArray) -> IntArray:
    """Return the narrowest size of each class of sizes, rising.

    The most frequent sizes have a class of their own, where an index entry is exact; the sizes between two
    of them share one, where it is a bound. (The choice weighs the whole log: it decides how fast the index
    answers, never what.)
    """
    if processors.max(initial=0) <= len(processors):
        counts = np.bincount(processors)
        sizes = np.flatnonzero(counts)
        counts = counts[sizes]
    else:
        sizes, counts = np.unique(processors, return_counts=True)
    own = np.zeros(len(sizes), bool)
    own[np.argsort(-counts, kind="stable")[: MOST_CLASSES // 2]] = True
    if len(sizes) <= MOST_CLASSES:
        own[:] = True
    opens = own | np.concatenate([[True], own[:-1]])
    return sizes[opens].astype(np.int64)


@kernel()
def _index_words(jobs):
    """Return the number of words of the three levels of an index."""
    words0 = (jobs + 63) // 64
    words1 = (words0 + 63) // 64
    return words0, words1, (words1 + 63) // 64


@kernel()
def _fill_index(index, processors):
    """Let no walltime be the least anywhere, and set each job's size class.

    Where few jobs ever wait this is not called, and the memory is not used.
    """
    for job in range(index.size):
        index.sizes[job] = _class_of(index, processors[job])
    words0, words1, words2 = _index_words(index.ranks)
    for cell in range(words0 * index.classes):
        index.least0[cell] = NEVER
    for cell in range(words1 * index.classes):
        index.least1[cell] = NEVER
    for cell in range(words2 * index.classes):
        index.least2[cell] = NEVER


@kernel()
def _class_of(index, processors):
    low, high = 0, index.classes
    while high - low > 1:
        middle = (low + high) >> 1
        if index.narrowest[middle] <= processors:
            low = middle
        else:
            high = middle
    return low


@kernel()
def _insert(index, rank, walltimes):
    """Add the job of a rank."""
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
def _remove(index, rank, walltimes):
    """Remove the job of a rank."""
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
def _something_fits(index, free):
    """Tell whether a job of a size class whose narrowest member fits is waiting."""
    for size in range(index.classes):
        if index.narrowest[size] > free:
            return False
        if index.tally[size] > 0:
            return True
    return False


@kernel()
def _next_fit(index, start, free, extra, window, longest, processors, walltimes):
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


#: The list has room for `MOST` jobs; of that many in the index, `FEW` are moved back.
MOST, FEW = 48, 16
_IN_INDEX = -1
_LENGTH = np.dtype([("length", np.int64), ("indexed", np.int64)])


class Queue(NamedTuple):
    """The waiting jobs: the first `state.length` of the list's columns, or, if that is -1, the index.

    `state.indexed` tells whether the index has ever been in use.
    `rank` is a job's place in the order, ascending in the list; `many` is the index.
    """

    state: Any
    rank: Int32Array
    processors: IntArray
    walltime: IntArray
    many: _Index


def new_queue(rank: Int32Array, narrowest: IntArray, guarded: bool) -> Queue:
    """Return an empty queue for jobs of these ranks, in size classes with these narrowest sizes.

    Where jobs are guarded, ranks begin behind the number of jobs, and job j may take rank j instead.
    """
    rows, classes = np.arange(len(rank), dtype=np.int32), len(narrowest)
    jobs = np.concatenate([rows, rows]) if guarded else np.empty_like(rows)
    jobs[rank] = rows
    words = _index_words(len(jobs))
    least = [np.empty(count * classes, np.int64) for count in words]
    index = _Index(
        ranks=len(jobs),
        size=len(rank),
        classes=classes,
        marks=new_marks(len(jobs)),
        narrowest=narrowest,
        jobs=jobs,
        sizes=np.empty(len(rank), np.int8),
        least0=least[0],
        least1=least[1],
        least2=least[2],
        tally=np.zeros(classes, np.int64),
    )
    columns = np.empty(MOST, np.int32), np.empty(MOST, np.int64), np.empty(MOST, np.int64)
    return Queue(np.zeros((), _LENGTH), *columns, index)


@kernel()
def _list(queue, rank, processors, walltime):
    count = queue.state.length
    queue.state.length = count + 1
    insert_row(queue.rank, queue.processors, queue.walltime, count, rank, processors, walltime)


@kernel()
def _move_to_index(queue, log):
    if queue.state.indexed == 0:
        queue.state.indexed = 1
        _fill_index(queue.many, log.processors)
    for place in range(queue.state.length):
        _insert(queue.many, np.int64(queue.rank[place]), log.walltime)
    queue.state.length = _IN_INDEX


@kernel()
def _move_to_list(queue, log, waiting):
    index = queue.many
    queue.state.length = 0
    for _ in range(waiting):
        rank = next_marked(index.marks, 0)
        job = np.int64(index.jobs[rank])
        _remove(index, rank, log.walltime)
        _list(queue, rank, log.processors[job], log.walltime[job])


@kernel(forceinline=True)
def enter(queue, rank, job, log):
    """Let a job wait."""
    if queue.state.length == MOST:
        _move_to_index(queue, log)
    if queue.state.length == _IN_INDEX:
        _insert(queue.many, rank, log.walltime)
    else:
        _list(queue, rank, log.processors[job], log.walltime[job])


@kernel(forceinline=True)
def leave(queue, rank, log, waiting):
    """Let a job wait no more; `waiting` jobs are left."""
    if queue.state.length == _IN_INDEX:
        _remove(queue.many, rank, log.walltime)
        if waiting == FEW:
            _move_to_list(queue, log, waiting)
        return
    place = 0
    while queue.rank[place] != rank:
        place += 1
    remove_row(queue.rank, queue.processors, queue.walltime, queue.state.length, place)
    queue.state.length -= 1


@kernel(forceinline=True)
def foremost(queue):
    """Return the lowest waiting rank; something must wait."""
    return queue.rank[0] if queue.state.length != _IN_INDEX else np.int32(next_marked(queue.many.marks, 0))


@kernel(forceinline=True)
def any_fits(queue, free):
    """Tell whether a job may wait that needs no more than `free` processors; False is sure."""
    if queue.state.length == _IN_INDEX:
        return _something_fits(queue.many, free)
    return some_within(queue.processors, queue.state.length, free)


@kernel(forceinline=True)
def next_candidate(queue, start, free, extra, window, longest, log):
    """Return the first waiting rank >= start that may be backfilled, or -1: see `_next_fit`."""
    if queue.state.length == _IN_INDEX:
        return _next_fit(queue.many, start, free, extra, window, longest, log.processors, log.walltime)
    for place in range(queue.state.length):
        width = queue.processors[place]
        if (
            width <= free
            and (width <= extra or queue.walltime[place] <= window)
            and queue.rank[place] >= start
        ):
            return np.int64(queue.rank[place])
    return -1
