"""Conservative backfilling: every job holds a reservation from the moment it arrives.

At an instant all completions come first, then all submissions, then one pass:

1. The requested ends of running jobs that reach them without ending are extended (*overrun*).
2. With compression, if a job ended before its requested end: each waiting job, in queue order, is removed
   from the profile and put back at the earliest time.
3. The jobs submitted now are reserved, in queue order: each gets [start, start + walltime) at the earliest
   time at which its processors are free throughout, given the requested ends of the running jobs and every
   reservation made before. That first reservation is its promise.
4. Every job whose reserved start is now starts.

Without compression a reservation never moves, and only later arrivals can use the processors that early
completions free. As walltimes are often several times the run times, the queue of a moderately loaded machine
can then grow without bound. With compression a reservation moves earlier or not at all.

*No length.* A walltime of 0 is planned as one second: another job could be planned over a reservation without
length. A job that runs for 0 s ends at the instant it starts, after the pass that started it, and its
completion opens another round (completions, pass) of the same instant.

*Overrun.* Where jobs may run longer than their walltime, a job that reaches its requested end has it moved to
start + 2 × (now - start). If the reservations leave no room for that, all waiting jobs are planned again, in
queue order, around the running ones: a *replan*, the only case in which a reservation may move later.

*Advance reservations.* Processors may be reserved over an interval for something that is no job of the log.
Such a reservation is made at a given instant, after the submissions of that instant, and never moves. Jobs
are planned around it; none may run longer than its walltime then.

References: D. A. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; A. W. Mu'alem and D. G. Feitelson,
IEEE TPDS 12(6), 2001, doi:10.1109/71.932708.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.accounts import ScoreInputs, charge, note_end, score_job
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
        Seconds, ascending: when each is made.
    begin, end
        Seconds: it covers [begin, end), with made ≤ begin < end.
    processors
        How many it reserves.
    """

    made: IntArray
    begin: IntArray
    end: IntArray
    processors: IntArray


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
def _sort(queue: IntArray, score: Any, inputs: ScoreInputs, now: int) -> None:
    """Put jobs in the order of their scores now, ties by submission."""
    queue.sort()
    keys = np.empty(queue.size)
    for i in range(queue.size):
        keys[i] = score_job(score, inputs, queue[i], now)
    queue[:] = queue[np.argsort(keys, kind="mergesort")]


@kernel()
def _arrivals(first: int, ranks: IntArray, score: Any, inputs: ScoreInputs | None, now: int) -> IntArray:
    """Return the jobs that arrive together, `first` and those after it, in queue order."""
    new = first + np.argsort(ranks)
    if inputs is not None and new.size > 1:
        _sort(new, score, inputs, now)
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
    profile: Profile,
    jobs: Jobs,
    running: Agenda,
    gains: Gains,
    noting: bool,
    inputs: ScoreInputs | None,
    now: int,
) -> tuple[Profile, bool, bool]:
    """End the jobs that end now, and extend those that reach their requested end.

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
        if inputs is not None:
            charge(inputs, job, -width, now)
            note_end(inputs, job, jobs.run[job])
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
    """Move each job of the queue, in its order, to the earliest time."""
    soonest, before = gains.soonest, gains.before
    for job in queue:
        width, reserved = jobs.processors[job], jobs.start[job]
        bucket = width >> gains.shift
        if min(soonest[bucket], before[bucket]) >= reserved:
            continue
        length = max(jobs.walltime[job], 1)
        begin = earliest_fit(profile, width, length, now, reserved)
        if begin == reserved:
            continue
        profile = with_room(profile, now)
        reserve(profile, begin, min(begin + length, reserved), width)
        freed, end = max(begin + length, reserved), reserved + length
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
    """Plan the jobs of the queue again, in its order, around the running ones."""
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
    """Drop entries from the front whose job has been reserved for another time since."""
    while waiting[0][1] >= 0 and start[waiting[0][1]] != waiting[0][0]:
        heappop(waiting)


@kernel()
def _start_due(jobs: Jobs, waiting: Agenda, running: Agenda, inputs: ScoreInputs | None, now: int) -> None:
    """Start the jobs whose reserved time has come."""
    while waiting[0][0] == now:
        job = heappop(waiting)[1]
        if jobs.start[job] != now:
            continue
        jobs.end[job] = now + max(jobs.walltime[job], 1)
        if inputs is not None:
            charge(inputs, job, jobs.processors[job], now)
        heappush(running, (min(jobs.end[job], now + jobs.run[job]), job))


@kernel()
def _profile_for(advance: Advance, jobs: Jobs, machine: int, submit: IntArray) -> Profile:
    """Return the first profile where there are advance reservations."""
    if (jobs.run > np.maximum(jobs.walltime, 1)).any():
        raise ValueError("beside advance reservations no job may run longer than its walltime")
    origin = submit[0] if len(submit) > 0 else 0
    return new_profile(machine, min(origin, advance.made[0]) if len(advance.made) > 0 else origin)


@kernel()
def _hold(profile: Profile, advance: Advance, first: int, now: int) -> tuple[Profile, int]:
    """Make the advance reservations of this instant; return the profile and the number made so far."""
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
    inputs: ScoreInputs | None = None,
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
    score, inputs
        For an order that changes while jobs wait, instead of `rank`: its compiled score and the inputs of it.
        Scores are computed when jobs arrive together, and before a compression or a replan.
    machine
        The number of processors.
    compress
        Whether early completions move reservations up.
    advance
        Advance reservations, if any.

    Returns
    -------
    start
        Shape (n,), int64 seconds.
    promise
        Shape (n,), int64 seconds: the start each job was promised on arrival; never before `start` unless
        there were replans.
    replans
        How often an overrun led to a replan.

    Raises
    ------
    ValueError
        If a job is wider than the machine, there is no room for an advance reservation, or there are advance
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
        profile = _profile_for(advance, jobs, machine, submit)
    arrived = replans = agreements = 0
    while True:
        _drop_moved(waiting, start)
        agreement = NEVER
        if advance is not None and agreements < len(advance.made):
            agreement = advance.made[agreements]
        if waiting[0][1] < 0 and arrived == n and agreement == NEVER:
            return start, promise, replans
        now = min(waiting[0][0], running[0][0], submit[arrived] if arrived < n else NEVER, agreement)
        noting = compress and len(waiting) > 1
        profile, early, conflict = _complete(profile, jobs, running, gains, noting, inputs, now)
        if conflict or (early and compress) or queued > 2 * len(waiting) + 8:
            queued = _waiting_in_order(queue, queued, jobs.end)
            if inputs is not None and (conflict or compress):
                _sort(queue[:queued], score, inputs, now)
        if conflict:
            replans += 1
            profile = _replan(machine, jobs, queue[:queued], waiting, running, now)
            gains.soonest[:] = gains.before[:] = NEVER  # jobs planned again in order cannot move up
        elif early and compress:
            profile = _compress(profile, jobs, queue[:queued], waiting, gains, now)

        first = arrived
        while arrived < n and submit[arrived] == now:
            arrived += 1
        for job in _arrivals(first, rank[first:arrived], score, inputs, now):
            length = max(walltime[job], 1)
            promise[job] = start[job] = earliest_fit(profile, processors[job], length, now, NEVER)
            profile = with_room(profile, now)
            reserve(profile, start[job], start[job] + length, processors[job])
            heappush(waiting, (start[job], job))
            _enqueue(queue, queued, rank, job)
            queued += 1
        if advance is not None:
            profile, agreements = _hold(profile, advance, agreements, now)

        _start_due(jobs, waiting, running, inputs, now)
