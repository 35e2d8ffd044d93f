"""The plan of conservative backfilling: every waiting job's reservation, and what events do to it.

The rules are stated in `gridtune.batch.simulator.conservative`, whose kernel calls these.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.accounts import ScoreInputs, charge, note_end, score_job
from gridtune.batch.simulator.gains import Gains, note_gain
from gridtune.batch.simulator.nodes import Nodes, boot_wait, claim, vacate
from gridtune.batch.simulator.profile import (
    NEVER,
    Profile,
    Spare,
    earliest_fit,
    earliest_fit_after,
    lowest_free,
    pack,
    refill,
    release,
    reserve,
)
from gridtune.core.compiled import kernel

__all__ = [
    "Agenda",
    "Jobs",
    "admit",
    "arrivals",
    "complete",
    "compress_plan",
    "drop_moved",
    "replan",
    "sort_queue",
    "start_due",
    "waiting_in_order",
]

IntArray = npt.NDArray[np.int64]
#: Events to come: (time, job).
Agenda = list[tuple[int, int]]


class Jobs(NamedTuple):
    """The jobs in columns of shape (n,).

    Attributes
    ----------
    run, walltime, processors, rank
        The arguments of `conservative_schedule`.
    start
        The reserved start while a job waits; then its start.
    end
        `NEVER` while it waits; then its requested end.
    nodes
        The nodes and their power states, if any. Then a job has its processors from `start` on, and begins
        when its nodes are on.
    """

    run: IntArray
    walltime: IntArray
    processors: IntArray
    rank: IntArray
    start: IntArray
    end: IntArray
    nodes: Nodes | None


@kernel()
def _enqueue(queue: IntArray, queued: int, rank: IntArray, job: int) -> None:
    """Insert a job into the queue, which is kept in the order of ranks."""
    i = queued
    while i > 0 and rank[queue[i - 1]] > rank[job]:
        queue[i] = queue[i - 1]
        i -= 1
    queue[i] = job


@kernel()
def waiting_in_order(queue: IntArray, queued: int, end: IntArray) -> int:
    """Drop the jobs that have started from the queue; return how many of it are left, in their order."""
    left = 0
    for i in range(queued):
        if end[queue[i]] == NEVER:
            queue[left] = queue[i]
            left += 1
    return left


@kernel()
def sort_queue(queue: IntArray, score: Any, inputs: ScoreInputs, now: int) -> None:
    """Put jobs in the order of their scores now, ties by submission."""
    queue.sort()
    keys = np.empty(queue.size)
    for i in range(queue.size):
        keys[i] = score_job(score, inputs, queue[i], now)
    queue[:] = queue[np.argsort(keys, kind="mergesort")]


@kernel()
def arrivals(first: int, ranks: IntArray, score: Any, inputs: ScoreInputs | None, now: int) -> IntArray:
    """Return the jobs that arrive together, `first` and those after it, in queue order."""
    new = first + np.argsort(ranks)
    if inputs is not None:
        sort_queue(new, score, inputs, now)
    return new


@kernel()
def _renew(waiting: Agenda, queue: IntArray, queued: int, start: IntArray) -> None:
    waiting.clear()
    waiting.append((NEVER, -1))
    for i in range(queued):
        waiting.append((start[queue[i]], queue[i]))
    heapify(waiting)


@kernel()
def _book(profile: Profile, spare: Spare, jobs: Jobs, job: int, now: int) -> None:
    """Reserve for a job at the earliest time."""
    length, width = max(jobs.walltime[job], 1), jobs.processors[job]
    begin = earliest_fit(profile, width, length, now, NEVER)
    pack(profile, spare, now)
    reserve(profile, begin, begin + length, width)
    jobs.start[job] = begin


@kernel()
def complete(
    profile: Profile,
    spare: Spare,
    jobs: Jobs,
    running: Agenda,
    gains: Gains,
    noting: bool,
    inputs: ScoreInputs | None,
    now: int,
) -> tuple[bool, bool]:
    """End the jobs that end now, and extend those that reach their requested end.

    Returns
    -------
    early, conflict
        Whether a job ended before its requested end; whether reservations are in the way of an extension (the
        profile is below zero somewhere).
    """
    early, overrun = False, now
    while running[0][0] == now:
        job = heappop(running)[1]
        pack(profile, spare, now)
        requested, width = jobs.end[job], jobs.processors[job]
        ends = jobs.start[job] + boot_wait(jobs.nodes, job) + jobs.run[job]
        if ends > now:
            extended = jobs.start[job] + 2 * (now - jobs.start[job])
            jobs.end[job] = extended
            overrun = max(overrun, extended)
            reserve(profile, now, extended, width)
            heappush(running, (min(extended, ends), job))
            continue
        if inputs is not None:
            charge(inputs, job, -width, now)
            note_end(inputs, job, jobs.run[job])
        vacate(jobs.nodes, job, now)
        if requested > now:
            early = True
            if noting:
                note_gain(profile, gains, now, requested, width)
            release(profile, now, requested, width)
    return early, overrun > now and lowest_free(profile, now, overrun) < 0


@kernel()
def compress_plan(
    profile: Profile,
    spare: Spare,
    jobs: Jobs,
    queue: IntArray,
    queued: int,
    waiting: Agenda,
    gains: Gains,
    now: int,
) -> None:
    """Move each job of the queue, in its order, to the earliest time."""
    for i in range(queued):
        job = queue[i]
        width, reserved = jobs.processors[job], jobs.start[job]
        bucket = width >> gains.shift
        gained = min(gains.soonest[bucket], gains.before[bucket])
        if gained >= reserved:
            continue
        length = max(jobs.walltime[job], 1)
        begin = earliest_fit_after(profile, width, length, now, gained, reserved)
        if begin == reserved:
            continue
        pack(profile, spare, now)
        reserve(profile, begin, min(begin + length, reserved), width)
        freed, end = max(begin + length, reserved), reserved + length
        note_gain(profile, gains, freed, end, width)
        release(profile, freed, end, width)
        jobs.start[job] = begin
        heappush(waiting, (begin, job))
    for bucket in range(gains.widths):
        gains.before[bucket], gains.soonest[bucket] = gains.soonest[bucket], NEVER
    if len(waiting) > 2 * queued + 8:
        _renew(waiting, queue, queued, jobs.start)


@kernel()
def replan(
    profile: Profile,
    spare: Spare,
    machine: int,
    jobs: Jobs,
    queue: IntArray,
    queued: int,
    waiting: Agenda,
    running: Agenda,
    now: int,
) -> None:
    """Plan the jobs of the queue again, in its order, around the running ones."""
    refill(profile, machine, now)
    for _, job in running:
        if job >= 0:
            pack(profile, spare, now)
            reserve(profile, now, jobs.end[job], jobs.processors[job])
    for i in range(queued):
        _book(profile, spare, jobs, queue[i], now)
    _renew(waiting, queue, queued, jobs.start)


@kernel()
def drop_moved(waiting: Agenda, start: IntArray) -> None:
    """Drop entries from the front whose job has been reserved for another time since."""
    while waiting[0][1] >= 0 and start[waiting[0][1]] != waiting[0][0]:
        heappop(waiting)


@kernel()
def start_due(jobs: Jobs, waiting: Agenda, running: Agenda, inputs: ScoreInputs | None, now: int) -> None:
    """Start the jobs whose reserved time has come."""
    while waiting[0][0] == now:
        job = heappop(waiting)[1]
        if jobs.start[job] != now:
            continue
        jobs.end[job] = now + max(jobs.walltime[job], 1)
        if inputs is not None:
            charge(inputs, job, jobs.processors[job], now)
        start = claim(jobs.nodes, job, jobs.processors[job], now)
        heappush(running, (min(jobs.end[job], start + jobs.run[job]), job))


@kernel()
def admit(
    profile: Profile,
    spare: Spare,
    jobs: Jobs,
    queue: IntArray,
    queued: int,
    waiting: Agenda,
    promise: IntArray,
    job: int,
    now: int,
) -> int:
    """Reserve for a job that arrives and put it into the queue; return the length of the queue."""
    _book(profile, spare, jobs, job, now)
    promise[job] = jobs.start[job]
    heappush(waiting, (jobs.start[job], job))
    _enqueue(queue, queued, jobs.rank, job)
    return queued + 1
