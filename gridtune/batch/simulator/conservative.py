"""Conservative backfilling: every job holds a reservation from the moment it arrives.

At an instant all completions come first, then all submissions, then one pass:

1. Running jobs that reach their requested end without ending get it extended (*overrun*).
2. With compression, if a job ended before its requested end: the waiting jobs, once through in queue order,
   are each taken out of the profile and put back at the earliest time.
3. The jobs submitted now are reserved, in queue order: each gets [start, start + walltime) at the earliest
   time at which its processors are free throughout, given the requested ends of the running jobs and every
   reservation made before. That first reservation is its promise.
4. Every job whose reserved start is now starts.

Without compression a reservation never moves, and what early completions free serves later arrivals only: as
walltimes are often several times the run times, a moderately loaded machine can then fall behind for ever.
With compression a reservation moves earlier or not at all.

*No length.* A walltime of 0 is planned as one second: a promise of no length could be planned over and would
then be broken. A job that runs for 0 s ends at the instant it starts, after the pass that started it, and its
completion opens another round (completions, pass) of the same instant.

*Overrun.* Where jobs may run longer than their walltime, a job that reaches its requested end has it moved to
start + 2 × (now - start). If the reservations leave no room for that, all waiting jobs are planned anew, in
queue order, against the running ones: a *replan*, the only case in which a reservation may move later.

*Advance reservations.* Processors may be held from a time to a time for something that is no job of the log,
from the instant on at which that was agreed, after the submissions of that instant. They never move, and jobs
fit in around them; so no job may run longer than its walltime then.

References: D. A. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; A. W. Mu'alem and D. G. Feitelson,
IEEE TPDS 12(6), 2001, doi:10.1109/71.932708.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.accounts import Known, charge, score_job
from gridtune.batch.simulator.profile import (
    NEVER,
    Gains,
    Profile,
    earliest_fit,
    lowest_free,
    new_profile,
    no_gains,
    note_gain,
    release,
    reserve,
    with_room,
)
from gridtune.core.compiled import kernel

__all__ = ["Advance", "conservative_schedule"]

IntArray = npt.NDArray[np.int64]
#: Events to come: (time, job).
Agenda = list[tuple[int, int]]


class Advance(NamedTuple):
    """Advance reservations, in columns of shape (n,), int64.

    Attributes
    ----------
    made
        Seconds, ascending: when each is agreed.
    begin, end
        Seconds: it holds [begin, end), with made ≤ begin < end.
    processors
        How many it holds.
    """

    made: IntArray
    begin: IntArray
    end: IntArray
    processors: IntArray


class Jobs(NamedTuple):
    """What the kernel knows about each job, in columns of shape (n,).

    Attributes
    ----------
    run, walltime, processors, rank
        As given to `conservative_schedule`.
    start
        The reserved start while a job waits; then its start.
    end
        `NEVER` while it waits; then its requested end.
    """

    run: IntArray
    walltime: IntArray
    processors: IntArray
    rank: IntArray
    start: IntArray
    end: IntArray


@kernel()
def _enqueue(queue: IntArray, queued: int, rank: IntArray, job: int) -> None:
    """Insert a job into the queue, which is kept in the order of ranks."""
    i = queued
    while i > 0 and rank[queue[i - 1]] > rank[job]:
        queue[i] = queue[i - 1]
        i -= 1
    queue[i] = job


@kernel()
def _waiting_in_order(queue: IntArray, queued: int, end: IntArray) -> int:
    """Drop the jobs that have started from the queue; return how many of it are left, in their order."""
    left = 0
    for i in range(queued):
        if end[queue[i]] == NEVER:
            queue[left] = queue[i]
            left += 1
    return left


@kernel()
def _sort(queue: IntArray, score: Any, known: Known, now: int) -> None:
    """Put jobs in the order of their scores now, ties by submission."""
    queue.sort()
    keys = np.empty(queue.size)
    for i in range(queue.size):
        keys[i] = score_job(score, known, queue[i], now)
    queue[:] = queue[np.argsort(keys, kind="mergesort")]


@kernel()
def _arrivals(first: int, ranks: IntArray, score: Any, known: Known | None, now: int) -> IntArray:
    """Return the jobs that arrive together, `first` and those after it, in queue order."""
    new = first + np.argsort(ranks)
    if known is not None and new.size > 1:
        _sort(new, score, known, now)
    return new


@kernel()
def _renew(waiting: Agenda, queue: IntArray, start: IntArray) -> None:
    waiting.clear()
    waiting.append((NEVER, -1))
    for job in queue:
        waiting.append((start[job], job))
    heapify(waiting)


@kernel()
def _complete(
    profile: Profile, jobs: Jobs, running: Agenda, gains: Gains, noting: bool, known: Known | None, now: int
) -> tuple[Profile, bool, bool]:
    """End the jobs that end now and extend those that should have.

    Returns
    -------
    profile, early, conflict
        The profile; whether a job ended before its requested end; whether reservations are in the way of an
        extension (the profile is below zero somewhere).
    """
    early, overrun = False, now
    while running[0][0] == now:
        job = heappop(running)[1]
        profile = with_room(profile, now)
        requested, width, ends = jobs.end[job], jobs.processors[job], jobs.start[job] + jobs.run[job]
        if ends > now:
            extended = jobs.start[job] + 2 * (now - jobs.start[job])
            jobs.end[job] = extended
            overrun = max(overrun, extended)
            reserve(profile, now, extended, width)
            heappush(running, (min(extended, ends), job))
            continue
        if known is not None:
            charge(known, job, -width, now)
        if requested > now:
            early = True
            if noting:
                note_gain(profile, gains, now, requested, width)
            release(profile, now, requested, width)
    return profile, early, overrun > now and lowest_free(profile, now, overrun) < 0


@kernel()
def _compress(
    profile: Profile, jobs: Jobs, queue: IntArray, waiting: Agenda, gains: Gains, now: int
) -> Profile:
    """Put each job of the queue, in its order, at the earliest time."""
    soonest, before = gains.soonest, gains.before
    for job in queue:
        width, held = jobs.processors[job], jobs.start[job]
        bucket = width >> gains.shift
        if min(soonest[bucket], before[bucket]) >= held:
            continue
        length = max(jobs.walltime[job], 1)
        begin = earliest_fit(profile, width, length, now, held)
        if begin == held:
            continue
        profile = with_room(profile, now)
        reserve(profile, begin, min(begin + length, held), width)
        freed, end = max(begin + length, held), held + length
        note_gain(profile, gains, freed, end, width)
        release(profile, freed, end, width)
        jobs.start[job] = begin
        heappush(waiting, (begin, job))
    before[:] = soonest
    soonest[:] = NEVER
    if len(waiting) > 2 * len(queue) + 8:
        _renew(waiting, queue, jobs.start)
    return profile


@kernel()
def _replan(machine: int, jobs: Jobs, queue: IntArray, waiting: Agenda, running: Agenda, now: int) -> Profile:
    """Reserve the jobs of the queue anew, in its order, beside the running ones."""
    profile = new_profile(machine, now)
    for _, job in running:
        if job >= 0:
            profile = with_room(profile, now)
            reserve(profile, now, jobs.end[job], jobs.processors[job])
    for job in queue:
        length, width = max(jobs.walltime[job], 1), jobs.processors[job]
        begin = earliest_fit(profile, width, length, now, NEVER)
        profile = with_room(profile, now)
        reserve(profile, begin, begin + length, width)
        jobs.start[job] = begin
    _renew(waiting, queue, jobs.start)
    return profile


@kernel()
def _drop_moved(waiting: Agenda, start: IntArray) -> None:
    """Drop the foremost entries that name a reserved time that is no longer held."""
    while waiting[0][1] >= 0 and start[waiting[0][1]] != waiting[0][0]:
        heappop(waiting)


@kernel()
def _start_due(jobs: Jobs, waiting: Agenda, running: Agenda, known: Known | None, now: int) -> None:
    """Start the jobs whose reserved time has come."""
    while waiting[0][0] == now:
        job = heappop(waiting)[1]
        if jobs.start[job] != now:
            continue
        jobs.end[job] = now + max(jobs.walltime[job], 1)
        if known is not None:
            charge(known, job, jobs.processors[job], now)
        heappush(running, (min(jobs.end[job], now + jobs.run[job]), job))


@kernel()
def _beside(advance: Advance, jobs: Jobs, machine: int, submit: IntArray) -> Profile:
    """Return the profile to begin with where there are advance reservations."""
    if (jobs.run > np.maximum(jobs.walltime, 1)).any():
        raise ValueError("beside advance reservations no job may run longer than its walltime")
    origin = submit[0] if len(submit) > 0 else 0
    return new_profile(machine, min(origin, advance.made[0]) if len(advance.made) > 0 else origin)


@kernel()
def _hold(profile: Profile, advance: Advance, first: int, now: int) -> tuple[Profile, int]:
    """Make the advance reservations that are agreed now; return which comes next."""
    while first < len(advance.made) and advance.made[first] == now:
        begin, end, width = advance.begin[first], advance.end[first], advance.processors[first]
        if begin < now or end <= begin or lowest_free(profile, begin, end) < width:
            raise ValueError("an advance reservation finds no room")
        profile = with_room(profile, now)
        reserve(profile, begin, end, width)
        first += 1
    return profile, first


@kernel()
def conservative_schedule(
    submit: IntArray,
    run: IntArray,
    walltime: IntArray,
    processors: IntArray,
    rank: IntArray,
    machine: int,
    compress: bool,
    score: Any = None,
    known: Known | None = None,
    advance: Advance | None = None,
) -> tuple[IntArray, IntArray, int]:
    """Schedule rigid jobs by conservative backfilling, as defined above.

    Parameters
    ----------
    submit
        Shape (n,), int64 seconds, ascending.
    run
        Shape (n,), int64 seconds, ≥ 0: how long each job runs (its walltime at most, where it is killed).
    walltime
        Shape (n,), int64 seconds, ≥ 0: how long it asks for.
    processors
        Shape (n,), int64, from 1 to `machine`.
    rank
        Shape (n,), int64, distinct: the queue's order, smallest first.
    score, known
        For an order that changes while jobs wait, instead of `rank`: its compiled score and what it reads. It
        is asked whenever jobs are put in order: on arrival together, before a compression or a replan.
    machine
        The number of processors.
    compress
        Whether early completions move reservations up.
    advance
        Advance reservations to keep.

    Returns
    -------
    start
        Shape (n,), int64 seconds.
    promise
        Shape (n,), int64 seconds: the start each job was promised on arrival; never before `start` unless
        there were replans.
    replans
        How often an overrun made the waiting jobs be planned anew.

    Raises
    ------
    ValueError
        If a job is wider than the machine, or an advance reservation finds no room; or if there are such
        reservations and a job runs longer than its walltime.
    """
    n = len(submit)
    if n > 0 and processors.max() > machine:
        raise ValueError("a job is wider than the machine")
    jobs = Jobs(run, walltime, processors, rank, np.full(n, NEVER), np.full(n, NEVER))
    start, promise = jobs.start, np.full(n, NEVER)
    queue, queued = np.empty(n, np.int64), 0
    # Moved reservations leave entries behind in `waiting`; one counts while it names the reserved start.
    waiting, running = [(NEVER, -1)], [(NEVER, -1)]
    gains = no_gains(machine)
    profile = new_profile(machine, submit[0] if n > 0 else 0)
    if advance is not None:
        profile = _beside(advance, jobs, machine, submit)
    arrived = replans = held = 0
    while True:
        _drop_moved(waiting, start)
        agreed = NEVER
        if advance is not None and held < len(advance.made):
            agreed = advance.made[held]
        if waiting[0][1] < 0 and arrived == n and agreed == NEVER:
            return start, promise, replans
        now = min(waiting[0][0], running[0][0], submit[arrived] if arrived < n else NEVER, agreed)
        noting = compress and len(waiting) > 1
        profile, early, conflict = _complete(profile, jobs, running, gains, noting, known, now)
        if conflict or (early and compress) or queued > 2 * len(waiting) + 8:
            queued = _waiting_in_order(queue, queued, jobs.end)
            if known is not None and (conflict or compress):
                _sort(queue[:queued], score, known, now)
        if conflict:
            replans += 1
            profile = _replan(machine, jobs, queue[:queued], waiting, running, now)
            gains.soonest[:] = gains.before[:] = NEVER  # what is planned anew in order cannot move up
        elif early and compress:
            profile = _compress(profile, jobs, queue[:queued], waiting, gains, now)

        first = arrived
        while arrived < n and submit[arrived] == now:
            arrived += 1
        for job in _arrivals(first, rank[first:arrived], score, known, now):
            length = max(walltime[job], 1)
            promise[job] = start[job] = earliest_fit(profile, processors[job], length, now, NEVER)
            profile = with_room(profile, now)
            reserve(profile, start[job], start[job] + length, processors[job])
            heappush(waiting, (start[job], job))
            _enqueue(queue, queued, rank, job)
            queued += 1
        if advance is not None:
            profile, held = _hold(profile, advance, held, now)

        _start_due(jobs, waiting, running, known, now)
