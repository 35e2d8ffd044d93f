"""The running jobs, compiled: who ends next, and when enough processors will be free."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import bare, kernel

__all__ = [
    "UNLISTED",
    "Running",
    "add_running",
    "bare_running",
    "drop_request",
    "empty_running",
    "list_requests",
    "overstayed",
    "pop_ended",
    "reservation",
]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

UNLISTED = -1
#: So many places of the list are looked through faster one by one.
_FEW = 16


class Running(NamedTuple):
    """The running jobs: a heap of `n[0]` by (end, turn), and a sorted list of `n[1]` by requested end.

    `end`, `turn` and `job` are the heap. `turn` numbers the starts, so that of jobs that end together the one
    started first comes first. `requested_end`, `listed_job` and `listed_width` are the list. Where `n[1]` is
    `UNLISTED`, there is none, for as long as it is not needed: `list_requests` makes it.
    """

    n: Int64s
    end: Int64s
    turn: Int64s
    job: Int32s
    requested_end: Int64s
    listed_job: Int32s
    listed_width: Int32s


def empty_running(room: int) -> Running:
    """Return arrays for at most `room` running jobs, none of them running."""
    return Running(
        n=np.zeros(2, np.int64),
        end=np.empty(room, np.int64),
        turn=np.empty(room, np.int64),
        job=np.empty(room, np.int32),
        requested_end=np.empty(room, np.int64),
        listed_job=np.empty(room, np.int32),
        listed_width=np.empty(room, np.int32),
    )


@kernel()
def bare_running(running):
    """Return the arrays as bare columns."""
    return Running(
        bare(running.n),
        bare(running.end),
        bare(running.turn),
        bare(running.job),
        bare(running.requested_end),
        bare(running.listed_job),
        bare(running.listed_width),
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
    hole = running.n[0]
    running.n[0] = hole + 1
    while hole > 0:
        parent = (hole - 1) >> 1
        if running.end[parent] <= end:  # of equals the older, which has the lower turn, stays above
            break
        _move(running, parent, hole)
        hole = parent
    running.end[hole], running.turn[hole], running.job[hole] = end, turn, job

    if running.n[1] != UNLISTED:
        _list_request(running, requested_end, job, width)


@kernel(inline="always")
def _list_request(running, requested_end, job, width):
    place = running.n[1]
    running.n[1] = place + 1
    while place > 0 and running.requested_end[place - 1] > requested_end:
        running.requested_end[place] = running.requested_end[place - 1]
        running.listed_job[place] = running.listed_job[place - 1]
        running.listed_width[place] = running.listed_width[place - 1]
        place -= 1
    running.requested_end[place], running.listed_job[place], running.listed_width[place] = (
        requested_end,
        job,
        width,
    )


@kernel()
def list_requests(running, start, walltime, processors):
    """Make the list of the jobs in the heap from their starts, walltimes and processors (by job)."""
    count = running.n[0]
    running.n[1] = count
    gap = count
    for place in range(count):
        job = running.job[place]
        running.requested_end[place] = start[job] + walltime[job]
        running.listed_job[place], running.listed_width[place] = job, processors[job]
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
    last = running.n[0] - 1
    running.n[0] = last
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
    return first


@kernel()
def drop_request(running, requested_end, job):
    """Remove a job from the list by requested end, if there is one."""
    if running.n[1] == UNLISTED:
        return
    count = running.n[1] - 1
    running.n[1] = count
    low, high = 0, count + 1
    while high - low > _FEW:
        middle = (low + high) >> 1
        if running.requested_end[middle] < requested_end:
            low = middle + 1
        else:
            high = middle
    while running.listed_job[low] != job:
        low += 1
    for place in range(low, count):
        running.requested_end[place] = running.requested_end[place + 1]
        running.listed_job[place] = running.listed_job[place + 1]
        running.listed_width[place] = running.listed_width[place + 1]


@kernel()
def reservation(running, now, free, needed):
    """Return (shadow, extra): when a job of `needed` processors can start, and what is free beside it.

    A running job past its requested end is expected to end now.
    """
    shadow, available, place = now, free, 0
    while available < needed or (place < running.n[1] and running.requested_end[place] <= shadow):
        shadow = max(shadow, running.requested_end[place])
        available += running.listed_width[place]
        place += 1
    return shadow, available - needed


@kernel()
def overstayed(running, now):
    """Tell whether some job runs past its requested end."""
    return running.n[1] > 0 and running.requested_end[0] < now
