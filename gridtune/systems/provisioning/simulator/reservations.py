"""A site under conservative backfilling whose jobs end at their requested ends: its reservations and windows.

Where every job ends at its requested end, reservations never move, neither later nor earlier. A site's whole
state is then its profile, the processors free from now on, updated job by job, and its free *windows* are
known at any instant. The profile is the list of slots of `gridtune.batch.simulator.profile`. At an
instant all ends come first, then the log's submissions in their order, then those of a workflow in the order
of its tasks, then advance reservations.

*Windows.* Processors are identical, so jobs are assigned to them such that free windows are as long as
possible: of the free processors, the one that became free last is taken first. Windows are then nested, and
as many as possible reach the horizon. Windows of equal start and end are merged.

*Zero length.* A job of 0 s is planned as one second, as in `gridtune.batch.simulator.conservative`, and ends
at its start.

References: G. Singh, C. Kesselman, E. Deelman, HPDC 2007, sections 4 and 5.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.profile import (
    Profile,
    change,
    cut,
    earliest_slot,
    last_slot,
    move_to,
    new_profile,
)
from gridtune.core.compiled import bare, kernel
from gridtune.types import IntArray

__all__ = [
    "NEVER",
    "Arrivals",
    "Tasks",
    "earliest_fit",
    "feed",
    "free_windows",
    "hold",
    "last_reserved",
    "reserved_profile",
    "run_best_effort",
    "with_room",
]

#: A time after all others.
NEVER = int(np.iinfo(np.int64).max)


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


def with_room(profile: Profile, reservations: int) -> Profile:
    """Return a profile with room for so many more reservations; the one given is not to be used any more."""
    used, before = int(profile.state["slots"]), list[Any](profile[:-1])
    columns = [np.empty(used + 2 * reservations + 4, column.dtype) for column in before]
    for column, old in zip(columns, before, strict=True):
        column[:used] = old[:used]
    return Profile._make([*columns, profile.state])


def reserved_profile(machine: int, now: int, begin: IntArray, end: IntArray, width: IntArray) -> Profile:
    """Return the profile of a site with these reservations, as far as they are not past."""
    profile = new_profile(len(begin), machine, now)
    _reserve_all(profile, now, begin, end, width)
    return profile


@kernel()
def _reserve_all(profile, now, begin, end, width):
    slots = bare(profile)
    for i in range(len(begin)):
        if end[i] > max(begin[i], now):
            t = max(begin[i], now)
            _reserve(slots, cut(slots, last_slot(slots, t), t), end[i], width[i])


@kernel()
def _reserve(slots, begin, end, width):
    """Take processors from the slot `begin` to the second `end`."""
    last = cut(slots, begin, end)
    slots.uses[begin] += 1
    slots.uses[last] += 1
    change(slots, begin, last, -width)


@kernel()
def _place(slots, now, length, width):
    """Reserve for a job as early as possible; return its start."""
    move_to(slots, now)
    begin = earliest_slot(slots, slots.state.head, width, max(length, 1), -1)
    start = slots.time[begin]
    _reserve(slots, begin, start + max(length, 1), width)
    return start


@kernel()
def earliest_fit(profile, now, width, length):
    """Return the earliest time at which `width` processors are free for `length` seconds."""
    slots = bare(profile)
    move_to(slots, now)
    begin = earliest_slot(slots, slots.state.head, width, length, -1)
    return slots.time[begin] if begin >= 0 else NEVER


@kernel()
def feed(profile, jobs, first, until, start):
    """Submit the jobs from `first` on that come no later than `until`; fill in their `start`.

    Returns the first job that comes later.
    """
    slots, job = bare(profile), first
    while job < len(jobs.submit) and jobs.submit[job] <= until:
        start[job] = _place(slots, jobs.submit[job], jobs.length[job], jobs.processors[job])
        job += 1
    return job


@kernel()
def hold(profile, now, begin, end, width):
    """Make advance reservations, one after the other, until one does not fit.

    Returns the first that does not fit or begins before now; -1 if there is none. Those before it are made.
    """
    slots = bare(profile)
    move_to(slots, now)
    for i in range(len(begin)):
        if begin[i] >= end[i]:
            continue
        if begin[i] < now:
            return i
        first = last_slot(slots, begin[i])
        slot = np.int64(first)
        while slot >= 0 and slots.time[slot] < end[i]:
            if slots.free[slot] < width[i]:
                return i
            slot = np.int64(slots.after[slot])
        _reserve(slots, cut(slots, first, begin[i]), end[i], width[i])
    return -1


@kernel()
def last_reserved(profile, machine, now):
    """Return when the last reservation ends; `now` if there is none."""
    last, before = now, machine
    slots = bare(profile)
    slot = slots.state.head
    while slot >= 0:
        if before != machine:
            last = max(last, slots.time[slot])
        before = slots.free[slot]
        slot = np.int64(slots.after[slot])
    return last


@kernel()
def free_windows(profile, now, horizon):
    """Return the free windows from now to the horizon, as defined above.

    Returns
    -------
    begin, end, processors
        Shape (windows,), int64 each; by begin, then end; no two have both in common.
    """
    slots = bare(profile)
    move_to(slots, now)
    most = 2 + 2 * slots.state.slots
    begin, end, count = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    opened, many = np.empty(most, np.int64), np.empty(most, np.int64)  # a stack: the last opened on top
    windows = depth = free = 0
    slot = slots.state.head
    while slot >= 0 and slots.time[slot] < horizon:
        t, after = slots.time[slot], slots.free[slot]
        slot = np.int64(slots.after[slot])
        grown = after - free
        free = after
        if grown > 0:
            opened[depth], many[depth] = t, grown
            depth += 1
        while grown < 0:
            closed = min(-grown, many[depth - 1])
            begin[windows], end[windows], count[windows] = opened[depth - 1], t, closed
            windows += 1
            many[depth - 1] -= closed
            depth -= many[depth - 1] == 0
            grown += closed
    for d in range(depth):
        begin[windows], end[windows], count[windows] = opened[d], horizon, many[d]
        windows += 1
    order = np.argsort(end[:windows], kind="mergesort")
    order = order[np.argsort(begin[:windows][order], kind="mergesort")]
    return begin[:windows][order], end[:windows][order], count[:windows][order]


@kernel()
def run_best_effort(profile, now, jobs, first, tasks):
    """Run a workflow through the queue: each task is submitted once all its parents have ended.

    Parameters
    ----------
    profile
        The site when the workflow is submitted, after what the log submits at that instant, with room for
        the tasks and the jobs to come. It is changed.
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
    slots, n = bare(profile), len(tasks.length)
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
            _place(slots, jobs.submit[job], jobs.length[job], jobs.processors[job])
            job += 1
        ready[:waiting].sort()
        for task in ready[:waiting]:
            submit[task] = now
            start[task] = _place(slots, now, tasks.length[task], tasks.processors[task])
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
