"""The waiting jobs under a static order, compiled: a sorted list while they are few, an index when many.

On real logs few wait most of the time: a short list is then scanned faster than an index is kept. Between
the two lengths at which the jobs move to the index and back, so many come or go that moving costs little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.batch.simulator.sorted_list import insert_row, remove_row, some_within
from gridtune.batch.simulator.waiting import (
    Index,
    fill_index,
    first,
    index_words,
    insert,
    make_index,
    next_fit,
    remove,
    something_fits,
)
from gridtune.core.compiled import bare, kernel
from gridtune.types import Int8Array, Int32Array, IntArray, UInt64Array

__all__ = [
    "Queue",
    "QueueArrays",
    "any_fits",
    "enter",
    "foremost",
    "leave",
    "make_queue",
    "next_candidate",
    "queue_arrays",
]

#: The list has room for `MOST` jobs; of that many in the index, `FEW` are moved back.
MOST, FEW = 48, 16
_IN_INDEX = -1


class QueueArrays(NamedTuple):
    """The arrays of a queue: those of the list, and those that `make_index` takes."""

    length: IntArray
    rank: Int32Array
    processors: IntArray
    walltime: IntArray
    jobs: Int32Array
    sizes: Int8Array
    bits: UInt64Array
    least: IntArray
    tally: IntArray


class Queue(NamedTuple):
    """The waiting jobs: the first `length[0]` of the list's columns, or, if that is -1, the index.

    `length[1]` tells whether the index has ever been in use.
    `rank` is a job's place in the order, ascending in the list; `many` is the index.
    """

    length: IntArray
    rank: Int32Array
    processors: IntArray
    walltime: IntArray
    many: Index


def queue_arrays(rank: Int32Array, classes: int) -> QueueArrays:
    """Return the arrays of an empty queue for jobs of these ranks, in a number of size classes."""
    words = sum(index_words(len(rank)))
    jobs = np.empty(len(rank), np.int32)
    jobs[rank] = np.arange(len(rank), dtype=np.int32)
    return QueueArrays(
        length=np.zeros(2, np.int64),
        rank=np.empty(MOST, np.int32),
        processors=np.empty(MOST, np.int64),
        walltime=np.empty(MOST, np.int64),
        jobs=jobs,
        sizes=np.empty(len(rank), np.int8),
        bits=np.zeros(words, np.uint64),
        least=np.empty(words * classes, np.int64),
        tally=np.zeros(classes, np.int64),
    )


@kernel()
def make_queue(arrays, narrowest):
    """Return the queue over the caller's arrays."""
    return Queue(
        bare(arrays.length),
        bare(arrays.rank),
        bare(arrays.processors),
        bare(arrays.walltime),
        make_index(narrowest, arrays.jobs, arrays.sizes, arrays.bits, arrays.least, arrays.tally),
    )


@kernel()
def _list(queue, rank, processors, walltime):
    count = queue.length[0]
    queue.length[0] = count + 1
    insert_row(queue.rank, queue.processors, queue.walltime, count, rank, processors, walltime)


@kernel()
def _move_to_index(queue, log):
    if queue.length[1] == 0:
        queue.length[1] = 1
        fill_index(queue.many, log.processors)
    for place in range(queue.length[0]):
        insert(queue.many, queue.rank[place], log.walltime)
    queue.length[0] = _IN_INDEX


@kernel()
def _move_to_list(queue, log, waiting):
    index = queue.many
    queue.length[0] = 0
    for _ in range(waiting):
        rank = first(index)
        job = index.jobs[rank]
        remove(index, rank, log.walltime)
        _list(queue, rank, log.processors[job], log.walltime[job])


@kernel(forceinline=True)
def enter(queue, rank, job, log):
    """Let a job wait."""
    if queue.length[0] == MOST:
        _move_to_index(queue, log)
    if queue.length[0] == _IN_INDEX:
        insert(queue.many, rank, log.walltime)
    else:
        _list(queue, rank, log.processors[job], log.walltime[job])


@kernel(forceinline=True)
def leave(queue, rank, log, waiting):
    """Let a job wait no more; `waiting` jobs are left."""
    if queue.length[0] == _IN_INDEX:
        remove(queue.many, rank, log.walltime)
        if waiting == FEW:
            _move_to_list(queue, log, waiting)
        return
    place = 0
    while queue.rank[place] != rank:
        place += 1
    remove_row(queue.rank, queue.processors, queue.walltime, queue.length[0], place)
    queue.length[0] -= 1


@kernel(forceinline=True)
def foremost(queue):
    """Return the lowest waiting rank; something must wait."""
    return queue.rank[0] if queue.length[0] != _IN_INDEX else np.int32(first(queue.many))


@kernel(forceinline=True)
def any_fits(queue, free):
    """Tell whether a job may wait that needs no more than `free` processors; False is sure."""
    if queue.length[0] == _IN_INDEX:
        return something_fits(queue.many, free)
    return some_within(queue.processors, queue.length[0], free)


@kernel(forceinline=True)
def next_candidate(queue, start, free, extra, window, longest, log):
    """Return the first waiting rank >= start that may be backfilled, or -1: see `next_fit`."""
    if queue.length[0] == _IN_INDEX:
        return next_fit(queue.many, start, free, extra, window, longest, log.processors, log.walltime)
    for place in range(queue.length[0]):
        width = queue.processors[place]
        if (
            width <= free
            and (width <= extra or queue.walltime[place] <= window)
            and queue.rank[place] >= start
        ):
            return np.int64(queue.rank[place])
    return -1
