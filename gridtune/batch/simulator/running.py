"""The running jobs, compiled: a heap by end, and a list by requested end; and rows of lists and heaps.

`insert_row` and `remove_row` keep a list in three columns, sorted by the first: rows are shifted, which is
fast where few are. `sort_rows` sorts numbered rows by a key; `push_row` and `pop_row` keep a heap of them.
numpy's sorts and Python's heaps take seconds to compile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.types import Int32Array, IntArray

__all__ = [
    "RUNNING",
    "Running",
    "add_running",
    "drop_request",
    "empty_running",
    "insert_row",
    "pop_ended",
    "pop_row",
    "push_row",
    "read_requests",
    "release_request",
    "remove_row",
    "some_within",
    "sort_rows",
]


@kernel(forceinline=True)
def insert_row(keys, firsts, seconds, count, key, first, second):
    """Add a row to `count` rows that are sorted by key, behind those of the same key."""
    place = count
    while place > 0 and keys[place - 1] > key:
        keys[place] = keys[place - 1]
        firsts[place] = firsts[place - 1]
        seconds[place] = seconds[place - 1]
        place -= 1
    keys[place], firsts[place], seconds[place] = key, first, second


@kernel(forceinline=True)
def remove_row(keys, firsts, seconds, count, place):
    """Remove the row at a place from `count` rows."""
    for later in range(place, count - 1):
        keys[later] = keys[later + 1]
        firsts[later] = firsts[later + 1]
        seconds[later] = seconds[later + 1]


@kernel(forceinline=True)
def some_within(values, count, limit):
    """Tell whether one of the first `count` values is at most the limit."""
    within = False
    for place in range(count):  # to the end: a loop that may stop early is not made of vector instructions
        within |= values[place] <= limit
    return within


@kernel()
def sort_rows(keys, rows, count):
    """Sort `count` rows by key, equal ones by number: Shell's sort."""
    gap = count
    while gap > 1:
        gap = 1 if gap < 5 else gap * 5 // 11
        for moved in range(gap, count):
            key, row, place = keys[moved], rows[moved], moved
            while place >= gap:
                other = place - gap
                if keys[other] < key or (keys[other] == key and rows[other] < row):
                    break
                keys[place], rows[place] = keys[other], rows[other]
                place = other
            keys[place], rows[place] = key, row


@kernel()
def push_row(keys, rows, count, key, row):
    """Add a row to a heap of `count`, the least key first, equal ones by number."""
    hole = count
    while hole > 0:
        parent = (hole - 1) >> 1
        if keys[parent] < key or (keys[parent] == key and rows[parent] < row):
            break
        keys[hole], rows[hole] = keys[parent], rows[parent]
        hole = parent
    keys[hole], rows[hole] = key, row


@kernel()
def pop_row(keys, rows, count):
    """Remove the first row of a heap of `count`."""
    last = count - 1
    key, row, hole, child = keys[last], rows[last], 0, 1
    while child < last:
        other = child + 1
        if other < last and (
            keys[other] < keys[child] or (keys[other] == keys[child] and rows[other] < rows[child])
        ):
            child = other
        if key < keys[child] or (key == keys[child] and row < rows[child]):
            break
        keys[hole], rows[hole] = keys[child], rows[child]
        hole, child = child, 2 * child + 1
    keys[hole], rows[hole] = key, row


#: The jobs in the heap and in the list, and those that have left the list since it was read.
RUNNING = np.dtype([("count", np.int64), ("listed", np.int64), ("left", np.int64)])
UNLISTED = -1
#: So many places of the list are looked through faster one by one.
_FEW = 16


class Running(NamedTuple):
    """The running jobs: `state.count` in a heap by (end, turn), `state.listed` in a list by requested end.

    `state.left` counts the jobs that have left the list since it was read.

    `end`, `turn` and `job` are the heap. `turn` numbers the starts, so that of jobs that end together the one
    started first comes first. `requested_end`, `listed_job` and `listed_width` are the list. Where
    `state.listed` is `UNLISTED`, there is none, for as long as it is not needed: `read_requests` makes it.
    """

    state: Any
    end: IntArray
    turn: IntArray
    job: Int32Array
    requested_end: IntArray
    listed_job: Int32Array
    listed_width: Int32Array


def empty_running(room: int) -> Running:
    """Return arrays for at most `room` running jobs, none of them running."""
    return Running(
        state=np.zeros((), RUNNING),
        end=np.empty(room, np.int64),
        turn=np.empty(room, np.int64),
        job=np.empty(room, np.int32),
        requested_end=np.empty(room, np.int64),
        listed_job=np.empty(room, np.int32),
        listed_width=np.empty(room, np.int32),
    )


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
def add_running(running, end, turn, requested_end, job, width):
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
    if count != UNLISTED:
        running.state.listed = count + 1
        ends, jobs, widths = running.requested_end, running.listed_job, running.listed_width
        insert_row(ends, jobs, widths, count, requested_end, job, width)


@kernel()
def _list_requests(running, log):
    """Make the list of the jobs in the heap."""
    count = running.state.count
    running.state.listed = count
    gap = count
    for place in range(count):
        job = running.job[place]
        running.requested_end[place] = log.start[job] + log.walltime[job]
        running.listed_job[place], running.listed_width[place] = job, log.processors[job]
    while gap > 1:  # Shell's sort
        gap = 1 if gap < 5 else gap * 5 // 11
        for moved in range(gap, count):
            requested_end = running.requested_end[moved]
            job, width, place = running.listed_job[moved], running.listed_width[moved], moved
            while place >= gap and running.requested_end[place - gap] > requested_end:
                running.requested_end[place] = running.requested_end[place - gap]
                running.listed_job[place] = running.listed_job[place - gap]
                running.listed_width[place] = running.listed_width[place - gap]
                place -= gap
            running.requested_end[place] = requested_end
            running.listed_job[place], running.listed_width[place] = job, width


@kernel()
def pop_ended(running):
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
def drop_request(running, requested_end, job):
    """Remove a job from the list by requested end, if there is one."""
    if running.state.listed == UNLISTED:
        return
    count = running.state.listed - 1
    running.state.listed = count
    low, high = 0, count + 1
    while high - low > _FEW:
        middle = (low + high) >> 1
        if running.requested_end[middle] < requested_end:
            low = middle + 1
        else:
            high = middle
    while running.listed_job[low] != job:
        low += 1
    remove_row(running.requested_end, running.listed_job, running.listed_width, count + 1, low)


@kernel(forceinline=True)
def release_request(running, requested_end, job, keep):
    """Remove a job from the list; or do away with a list that is not read, unless it is to be kept.

    To keep it up to date for nothing takes longer than to make it again.
    """
    drop_request(running, requested_end, job)
    running.state.left += 1
    if running.state.left > running.state.listed and not keep:
        running.state.listed = UNLISTED


@kernel(forceinline=True)
def read_requests(running, log):
    """Make the list if there is none; `log` has the walltimes, processors and starts of the jobs."""
    running.state.left = 0
    if running.state.listed == UNLISTED:
        _list_requests(running, log)
