"""A site under conservative backfilling whose jobs end at their requested ends: its reservations and windows.

Where every job ends at its requested end, reservations never move, neither later nor earlier. A site's whole
state is then its profile (`profile`), updated job by job, and its free *windows* are known at any instant. At
an instant all ends come first, then the log's submissions in their order, then those of a workflow in the
order of its tasks, then advance reservations.

*Windows.* Processors are identical, so jobs are assigned to them such that free windows are as long as
possible: of the free processors, the one that became free last is taken first. Windows are then nested, and
as many as possible reach the horizon. Windows of equal start and end are merged.

*Profile.* A step function of time, the free processors from now on: a sorted list of breakpoints in blocks
of at most 32, each with its smallest and largest value, so that a search skips blocks that are full or free
throughout. When the blocks run out, the profile is packed again without past breakpoints and those at which
nothing changes: its size depends on what is reserved, not on how long the machine has run.

*Zero length.* A job of 0 s is planned as one second, as in `gridtune.batch.simulator.conservative`, and ends
at its start.

References: G. Singh, C. Kesselman, E. Deelman, HPDC 2007, sections 4 and 5.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.types import Int32Array, IntArray

__all__ = [
    "NEVER",
    "Arrivals",
    "Profile",
    "Tasks",
    "earliest_fit",
    "feed",
    "free_windows",
    "hold",
    "last_reserved",
    "lowest_free",
    "new_profile",
    "reserve",
    "reserved_profile",
    "run_best_effort",
]

#: A time after all others.
NEVER = int(np.iinfo(np.int64).max)
BLOCK = 32
HALF = BLOCK // 2


class Profile(NamedTuple):
    """Processors free from now on: blocks of breakpoints, and their directory in time order.

    Attributes
    ----------
    time, free
        Shape (32 rows,): `free[j]` processors are free from second `time[j]` to the next breakpoint, and
        after the last one for ever.
    base, first, size, lowest, highest
        Shape (rows,): for the k-th block where it begins in `time` and `free`, its first breakpoint, number
        of breakpoints, and its smallest and largest value.
    blocks
        Shape (1,): the number of blocks.
    """

    time: IntArray
    free: Int32Array
    base: IntArray
    first: IntArray
    size: Int32Array
    lowest: Int32Array
    highest: Int32Array
    blocks: IntArray


@kernel()
def _empty_profile(rows: int) -> Profile:
    """Return a profile without a breakpoint, with room for so many blocks."""
    times, free = np.empty(rows * BLOCK, np.int64), np.empty(rows * BLOCK, np.int32)
    base, first = np.empty(rows, np.int64), np.empty(rows, np.int64)
    size, lowest, highest = np.empty(rows, np.int32), np.empty(rows, np.int32), np.empty(rows, np.int32)
    return Profile(times, free, base, first, size, lowest, highest, np.zeros(1, np.int64))


@kernel()
def _append(profile: Profile, t: int, free: int) -> None:
    """Add a breakpoint after all others, leaving room in each block for those to come."""
    k = profile.blocks[0] - 1
    if k < 0 or profile.size[k] == HALF:
        k += 1
        profile.blocks[0] = k + 1
        profile.base[k], profile.first[k], profile.size[k] = k * BLOCK, t, 0
        profile.lowest[k] = profile.highest[k] = free
    j = profile.base[k] + profile.size[k]
    profile.time[j], profile.free[j] = t, free
    profile.size[k] += 1
    profile.lowest[k] = min(profile.lowest[k], free)
    profile.highest[k] = max(profile.highest[k], free)


@kernel()
def new_profile(machine: int, now: int) -> Profile:
    """Return the profile of a machine with every processor free from `now` on."""
    profile = _empty_profile(16)
    _append(profile, now, machine)
    return profile


@kernel()
def _locate(profile: Profile, t: int) -> tuple[int, int]:
    """Return block and entry of the last breakpoint not after t."""
    first, times = profile.first, profile.time
    k, beyond = 0, profile.blocks[0]
    while beyond - k > 1:
        middle = (k + beyond) >> 1
        if first[middle] <= t:
            k = middle
        else:
            beyond = middle
    base = profile.base[k]
    i, beyond = 0, profile.size[k]
    while beyond - i > 1:
        middle = (i + beyond) >> 1
        if times[base + middle] <= t:
            i = middle
        else:
            beyond = middle
    return k, i


@kernel()
def _with_room(profile: Profile, now: int) -> Profile:
    """Return a profile with room for another interval, the same from `now` on.

    Where blocks have run out, that is a new one without the past and breakpoints at which nothing changes.
    """
    if profile.blocks[0] + 4 <= len(profile.size):  # each end of an interval may split a block
        return profile
    head, i = _locate(profile, now)
    most = profile.size[: profile.blocks[0]].sum()
    times, free = np.empty(most, np.int64), np.empty(most, np.int32)
    count = 0
    for k in range(head, profile.blocks[0]):
        base = profile.base[k]
        for j in range(base + (i if k == head else 0), base + profile.size[k]):
            if count == 0 or profile.free[j] != free[count - 1]:
                times[count], free[count] = profile.time[j], profile.free[j]
                count += 1
    packed = _empty_profile(max(16, 2 * (count // HALF + 1) + 4))
    for j in range(count):
        _append(packed, times[j], free[j])
    return packed


@kernel()
def _summarise(profile: Profile, k: int) -> None:
    free, base = profile.free, profile.base[k]
    low = high = free[base]
    for j in range(base + 1, base + profile.size[k]):
        low = min(low, free[j])
        high = max(high, free[j])
    profile.lowest[k], profile.highest[k] = low, high


@kernel()
def _split(profile: Profile, k: int) -> None:
    """Move the upper half of a full block to a new one after it."""
    blocks = profile.blocks[0]
    for b in range(blocks - 1, k, -1):
        profile.base[b + 1], profile.first[b + 1] = profile.base[b], profile.first[b]
        profile.size[b + 1] = profile.size[b]
        profile.lowest[b + 1], profile.highest[b + 1] = profile.lowest[b], profile.highest[b]
    old, new = profile.base[k] + HALF, blocks * BLOCK
    for j in range(HALF):
        profile.time[new + j], profile.free[new + j] = profile.time[old + j], profile.free[old + j]
    profile.base[k + 1], profile.first[k + 1] = new, profile.time[new]
    profile.size[k] = profile.size[k + 1] = HALF
    profile.blocks[0] = blocks + 1
    _summarise(profile, k)
    _summarise(profile, k + 1)


@kernel()
def _cut(profile: Profile, t: int) -> tuple[int, int]:
    """Make t a breakpoint; return its block and entry."""
    k, i = _locate(profile, t)
    times, free = profile.time, profile.free
    if times[profile.base[k] + i] == t:
        return k, i
    if profile.size[k] == BLOCK:
        _split(profile, k)
        if i >= HALF:
            k, i = k + 1, i - HALF
    base = profile.base[k]
    for j in range(base + profile.size[k], base + i + 1, -1):
        times[j], free[j] = times[j - 1], free[j - 1]
    times[base + i + 1], free[base + i + 1] = t, free[base + i]
    profile.size[k] += 1
    return k, i + 1


@kernel()
def reserve(profile: Profile, now: int, begin: int, end: int, width: int) -> Profile:
    """Take `width` processors over [begin, end), without a check that they are free.

    A negative width gives them back. Use the profile returned: it may be a new one, without what was before
    `now`.
    """
    if begin >= end:
        return profile
    profile = _with_room(profile, now)
    k, i = _cut(profile, begin)
    blocks = profile.blocks[0]
    last, stop = _cut(profile, end)
    if profile.blocks[0] != blocks:
        k, i = _locate(profile, begin)
    free = profile.free
    for b in range(k, last + 1):
        base, size = profile.base[b], profile.size[b]
        if k < b < last:
            profile.lowest[b] -= width
            profile.highest[b] -= width
        for j in range(base + (i if b == k else 0), base + (stop if b == last else size)):
            free[j] -= width
    _summarise(profile, k)
    if last > k:
        _summarise(profile, last)
    return profile


@kernel()
def lowest_free(profile: Profile, begin: int, end: int) -> int:
    """Return the least number of processors free at any time in [begin, end); end > begin."""
    k, i = _locate(profile, begin)
    times, free = profile.time, profile.free
    low = free[profile.base[k] + i]
    for b in range(k, profile.blocks[0]):
        base = profile.base[b]
        for j in range(base + (i if b == k else 0), base + profile.size[b]):
            if times[j] >= end:
                return low
            low = min(low, free[j])
    return low


@kernel()
def earliest_fit(profile: Profile, width: int, length: int, since: int) -> int:
    """Return the earliest time from `since` on at which `width` processors are free for `length` seconds."""
    k, i = _locate(profile, since)
    times, first, lowest, highest = profile.time, profile.first, profile.lowest, profile.highest
    free, bases, sizes, blocks = profile.free, profile.base, profile.size, profile.blocks[0]
    while True:
        while True:  # to the next breakpoint with room
            if highest[k] >= width:
                base, size = bases[k], sizes[k]
                while i < size and free[base + i] < width:
                    i += 1
                if i < size:
                    break
            k, i = k + 1, 0
            if k == blocks:
                return NEVER
        begin = max(since, times[bases[k] + i])
        until = begin + length
        while True:  # to the next one without
            if lowest[k] < width:
                base, size = bases[k], sizes[k]
                while i < size and free[base + i] >= width:
                    i += 1
                if i < size:
                    break
            k, i = k + 1, 0
            if k == blocks or first[k] >= until:
                return begin
        if times[bases[k] + i] >= until:
            return begin


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
    begin = earliest_fit(profile, width, length, now)
    return reserve(profile, now, begin, begin + length, width), begin


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
def reserved_profile(machine: int, now: int, begin: IntArray, end: IntArray, width: IntArray) -> Profile:
    """Return the profile of a site with these reservations, as far as they are not past."""
    profile = new_profile(machine, now)
    for i in range(len(begin)):
        if end[i] > now:
            profile = reserve(profile, now, max(begin[i], now), end[i], width[i])
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
        profile = reserve(profile, now, begin[i], end[i], width[i])
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
