"""The waiting jobs under a static order, compiled: an index over their ranks.

A job is identified by its *rank*, its place in a static order of the whole log. A bitmap of three levels (a
word stands for 64, 64² or 64³ ranks) marks the ranks that wait. Beside it, for every block of each level and
every class of job sizes, the index keeps the shortest walltime that waits there. The first waiting job that
fits is found by a descent through that index, not by a scan of the queue.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.batch.simulator.marks import Marks, lowest, mark, new_marks, next_marked, unmark
from gridtune.batch.simulator.nodes import NEVER
from gridtune.core.compiled import kernel
from gridtune.types import Int8Array, Int32Array, IntArray

__all__ = [
    "RankedQueue",
    "any_fits",
    "enter",
    "foremost",
    "leave",
    "new_queue",
    "next_candidate",
    "size_classes",
]


class RankedQueue(NamedTuple):
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
MOST_CLASSES = 32


def size_classes(processors: IntArray) -> tuple[IntArray, Int8Array]:
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
    own[np.argsort(-present, kind="stable")[: MOST_CLASSES // 2]] = True
    if len(sizes) <= MOST_CLASSES:
        own[:] = True
    opens = own | np.concatenate([[True], own[:-1]])
    class_of = np.zeros(len(counts), np.int8)
    class_of[counts > 0] = np.cumsum(opens) - 1
    return sizes[opens].astype(np.int64), class_of[places]


def new_queue(rank: Int32Array, narrowest: IntArray, sizes: Int8Array, guarded: bool) -> RankedQueue:
    """Return an empty queue for jobs of these ranks, in the size classes of `size_classes`.

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
    return RankedQueue(classes, marks, narrowest, jobs, sizes, least0, least1, least2, tally)


@kernel()
def enter(index, rank, walltimes):
    """Let the job of a rank wait."""
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
def leave(index, rank, walltimes):
    """Let the job of a rank wait no more."""
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
def any_fits(index, free):
    """Tell whether a job may wait that needs no more than `free` processors; False is sure."""
    for size in range(index.classes):
        if index.narrowest[size] > free:
            return False
        if index.tally[size] > 0:
            return True
    return False


@kernel()
def next_candidate(index, start, free, extra, window, longest, processors, walltimes):
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


@kernel(inline="always")
def foremost(index):
    """Return the lowest waiting rank; something must wait."""
    return np.int32(next_marked(index.marks, 0))
