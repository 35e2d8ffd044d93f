"""A site under conservative backfilling whose jobs end when they said: what is free, and what it promises.

Where every job ends at its requested end, reservations never move, neither later nor earlier. A site's whole
state is then its profile (`gridtune.batch.simulator.profile`), kept up to date job by job, and it can be
asked at any instant which *windows* are free. At an instant all ends come first, then the log's submissions
in their order, then those of a workflow in the order of its tasks, then advance reservations.

*Windows.* Processors are alike, so who holds which of them is decided such that free windows are as long as
they can be: of the free processors, the one that came free last is taken first. Windows are then nested, and
as many as possible reach to the horizon. Those of equal start and end are one, with their number.

*No length.* A job of 0 s is planned as one second, as in `gridtune.batch.simulator.conservative`, and over
at its start.

References: G. Singh, C. Kesselman, E. Deelman, HPDC 2007, sections 4 and 5.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.profile import (
    NEVER,
    Profile,
    earliest_fit,
    lowest_free,
    new_profile,
    reserve,
    with_room,
)
from gridtune.core.compiled import kernel

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

IntArray = npt.NDArray[np.int64]


class Arrivals(NamedTuple):
    """Jobs that come to a site, in columns of shape (n,), int64.

    Attributes
    ----------
    submit
        Seconds, ascending.
    length
        Seconds, ≥ 0: what each asks for, and takes.
    processors
        From 1 to the site's number.
    """

    submit: IntArray
    length: IntArray
    processors: IntArray


class Tasks(NamedTuple):
    """A workflow as a site's queue sees it, in int64 columns.

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
    """Reserve for a job as early as can be; return its start."""
    length = max(length, 1)
    begin = earliest_fit(profile, width, length, now, NEVER)
    profile = with_room(profile, now)
    reserve(profile, begin, begin + length, width)
    return profile, begin


@kernel()
def feed(profile: Profile, jobs: Arrivals, first: int, until: int, start: IntArray) -> tuple[Profile, int]:
    """Take in the jobs from `first` on that come no later than `until`; fill in their `start`.

    Returns
    -------
    profile
        To go on with.
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
    """Return the profile of a site on which these intervals are held, as far as they are not past."""
    profile = new_profile(machine, now)
    for i in range(len(begin)):
        if end[i] > now:
            profile = with_room(profile, now)
            reserve(profile, max(begin[i], now), end[i], width[i])
    return profile


@kernel()
def hold(profile: Profile, now: int, begin: IntArray, end: IntArray, width: IntArray) -> tuple[Profile, int]:
    """Make advance reservations, one after the other, until one finds no room.

    Returns
    -------
    profile
        To go on with.
    refused
        The first that does not fit or begins before now; -1 if there is none. Those before it are held.
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
    """Return when the last reservation ends; `now` where nothing is held any more."""
    last, before = now, machine
    for k in range(profile.blocks[0]):
        row = profile.row[k]
        for i in range(profile.size[k]):
            if before != machine:
                last = max(last, profile.time[row, i])
            before = profile.free[row, i]
    return last


@kernel()
def free_windows(profile: Profile, now: int, horizon: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the free windows from now to the horizon, as defined above.

    Returns
    -------
    begin, end, processors
        Shape (windows,), int64 each; by begin, then end, of which no two are alike in both.
    """
    most = 2 + 2 * profile.size[: profile.blocks[0]].sum()
    begin, end, count = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    opened, many = np.empty(most, np.int64), np.empty(most, np.int64)  # a stack: the last opened on top
    found = depth = free = 0
    for k in range(profile.blocks[0]):
        row = profile.row[k]
        for i in range(profile.size[k]):
            t = max(profile.time[row, i], now)
            if t >= horizon:
                break
            change = profile.free[row, i] - free
            free += change
            if depth > 0 and opened[depth - 1] == t and change > 0:  # breakpoints of the past come as now
                many[depth - 1] += change
            elif change > 0:
                opened[depth], many[depth] = t, change
                depth += 1
            while change < 0:
                closed = min(-change, many[depth - 1])
                if opened[depth - 1] < t:
                    begin[found], end[found], count[found] = opened[depth - 1], t, closed
                    found += 1
                many[depth - 1] -= closed
                depth -= many[depth - 1] == 0
                change += closed
    for d in range(depth):
        begin[found], end[found], count[found] = opened[d], horizon, many[d]
        found += 1
    order = np.argsort(end[:found], kind="mergesort")
    order = order[np.argsort(begin[:found][order], kind="mergesort")]
    return begin[:found][order], end[:found][order], count[:found][order]


@kernel()
def run_best_effort(
    profile: Profile, now: int, jobs: Arrivals, first: int, tasks: Tasks
) -> tuple[IntArray, IntArray]:
    """Let a workflow run task by task: each is submitted to the queue once all its parents have ended.

    Parameters
    ----------
    profile
        The site when the workflow comes, after what the log submits at that instant. It is changed.
    now
        That instant.
    jobs, first
        The log, of which the jobs from `first` on are to come.
    tasks
        The workflow, without a cycle.

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
