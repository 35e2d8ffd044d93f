"""A site under conservative backfilling whose jobs end at their requested ends: its reservations and windows.

Where every job ends at its requested end, reservations never move, neither later nor earlier. A site's whole
state is then its profile (`profile`), updated job by job, and its free *windows* are known at any instant. At
an instant all ends come first, then the log's submissions in their order, then those of a workflow in the
order of its tasks, then advance reservations.

*Windows.* Processors are identical, so jobs are assigned to them such that free windows are as long as
possible: of the free processors, the one that became free last is taken first. Windows are then nested, and
as many as possible reach the horizon. Windows of equal start and end are merged.

*Zero length.* A job of 0 s is planned as one second, as in `gridtune.batch.simulator.conservative`, and ends
at its start.

References: G. Singh, C. Kesselman, E. Deelman, HPDC 2007, sections 4 and 5.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.provisioning.simulator.profile import (
    NEVER,
    Profile,
    earliest_fit,
    lowest_free,
    new_profile,
    reserve,
    with_room,
)
from gridtune.types import IntArray

__all__ = [
    "Arrivals",
    "Tasks",
    "claimed_profile",
    "feed",
    "free_windows",
    "hold",
    "last_reserved",
    "run_best_effort",
]


class Arrivals(NamedTuple):
    """Jobs submitted to a site, in columns of shape (n,), int64.

    Attributes
    ----------
    submit
        Seconds, ascending.
    length
        Seconds, ≥ 0: requested time and run time.
    processors
        From 1 to those of the site.
    """

    submit: IntArray
    length: IntArray
    processors: IntArray


class Tasks(NamedTuple):
    """A workflow for a site's queue, in int64 columns.

    Attributes
    ----------
    length, processors
        Shape (n,): whole seconds, ≥ 0, and processors.
    parents
        Shape (n,): the number of parents of each task.
    offsets, children
        Shapes (n + 1,) and (m,): task i's children are `children[offsets[i] : offsets[i + 1]]`.
    """

    length: IntArray
    processors: IntArray
    parents: IntArray
    offsets: IntArray
    children: IntArray


@kernel()
def _place(profile: Profile, now: int, length: int, width: int) -> tuple[Profile, int]:
    """Reserve for a job as early as possible; return its start."""
    length = max(length, 1)
    begin = earliest_fit(profile, width, length, now, NEVER)
    profile = with_room(profile, now)
    reserve(profile, begin, begin + length, width)
    return profile, begin


@kernel()
def feed(profile: Profile, jobs: Arrivals, first: int, until: int, start: IntArray) -> tuple[Profile, int]:
    """Submit the jobs from `first` on that come no later than `until`; fill in their `start`.

    Returns
    -------
    profile
        The profile afterwards.
    next
        The first job that comes later.
    """
    job = first
    while job < len(jobs.submit) and jobs.submit[job] <= until:
        profile, start[job] = _place(profile, jobs.submit[job], jobs.length[job], jobs.processors[job])
        job += 1
    return profile, job


@kernel()
def claimed_profile(machine: int, now: int, begin: IntArray, end: IntArray, width: IntArray) -> Profile:
    """Return the profile of a site with these reservations, as far as they are not past."""
    profile = new_profile(machine, now)
    for i in range(len(begin)):
        if end[i] > now:
            profile = with_room(profile, now)
            reserve(profile, max(begin[i], now), end[i], width[i])
    return profile


@kernel()
def hold(profile: Profile, now: int, begin: IntArray, end: IntArray, width: IntArray) -> tuple[Profile, int]:
    """Make advance reservations, one after the other, until one does not fit.

    Returns
    -------
    profile
        The profile afterwards.
    refused
        The first that does not fit or begins before now; -1 if there is none. Those before it are made.
    """
    for i in range(len(begin)):
        if begin[i] >= end[i]:
            continue
        if begin[i] < now or lowest_free(profile, begin[i], end[i]) < width[i]:
            return profile, i
        profile = with_room(profile, now)
        reserve(profile, begin[i], end[i], width[i])
    return profile, -1


@kernel()
def last_reserved(profile: Profile, machine: int, now: int) -> int:
    """Return when the last reservation ends; `now` if there is none."""
    last, before = now, machine
    for k in range(profile.blocks[0]):
        base = profile.base[k]
        for j in range(base, base + profile.size[k]):
            if before != machine:
                last = max(last, profile.time[j])
            before = profile.free[j]
    return last


@kernel()
def free_windows(profile: Profile, now: int, horizon: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the free windows from now to the horizon, as defined above.

    Returns
    -------
    begin, end, processors
        Shape (windows,), int64 each; by begin, then end; no two have both in common.
    """
    most = 2 + 2 * profile.size[: profile.blocks[0]].sum()
    begin, end, count = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    opened, many = np.empty(most, np.int64), np.empty(most, np.int64)  # a stack: the last opened on top
    windows = depth = free = 0
    for k in range(profile.blocks[0]):
        base = profile.base[k]
        for j in range(base, base + profile.size[k]):
            t = max(profile.time[j], now)
            if t >= horizon:
                break
            change = profile.free[j] - free
            free += change
            if depth > 0 and opened[depth - 1] == t and change > 0:  # breakpoints of the past count as now
                many[depth - 1] += change
            elif change > 0:
                opened[depth], many[depth] = t, change
                depth += 1
            while change < 0:
                closed = min(-change, many[depth - 1])
                if opened[depth - 1] < t:
                    begin[windows], end[windows], count[windows] = opened[depth - 1], t, closed
                    windows += 1
                many[depth - 1] -= closed
                depth -= many[depth - 1] == 0
                change += closed
    for d in range(depth):
        begin[windows], end[windows], count[windows] = opened[d], horizon, many[d]
        windows += 1
    order = np.argsort(end[:windows], kind="mergesort")
    order = order[np.argsort(begin[:windows][order], kind="mergesort")]
    return begin[:windows][order], end[:windows][order], count[:windows][order]


@kernel()
def run_best_effort(
    profile: Profile, now: int, jobs: Arrivals, first: int, tasks: Tasks
) -> tuple[IntArray, IntArray]:
    """Run a workflow through the queue: each task is submitted once all its parents have ended.

    Parameters
    ----------
    profile
        The site when the workflow is submitted, after what the log submits at that instant. It is
        changed.
    now
        That instant.
    jobs, first
        The log; the jobs from `first` on are still to come.
    tasks
        The workflow, without cycles.

    Returns
    -------
    submit, start
        Shape (n,), int64 seconds.
    """
    n = len(tasks.length)
    submit, start = np.full(n, NEVER), np.full(n, NEVER)
    left, ready = tasks.parents.copy(), np.empty(n, np.int64)
    ending, job = [(NEVER, -1)], first
    waiting = 0
    for task in range(n):
        if left[task] == 0:
            ready[waiting] = task
            waiting += 1
    while True:
        while job < len(jobs.submit) and jobs.submit[job] <= now:
            profile, _ = _place(profile, jobs.submit[job], jobs.length[job], jobs.processors[job])
            job += 1
        ready[:waiting].sort()
        for task in ready[:waiting]:
            submit[task] = now
            profile, start[task] = _place(profile, now, tasks.length[task], tasks.processors[task])
            heappush(ending, (start[task] + tasks.length[task], task))
        waiting = 0
        if ending[0][1] < 0:
            return submit, start
        now = ending[0][0]
        while ending[0][0] == now and ending[0][1] >= 0:
            task = heappop(ending)[1]
            for e in range(tasks.offsets[task], tasks.offsets[task + 1]):
                child = tasks.children[e]
                left[child] -= 1
                if left[child] == 0:
                    ready[waiting] = child
                    waiting += 1
