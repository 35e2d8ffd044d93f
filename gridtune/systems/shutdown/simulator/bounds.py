"""Lower bounds of a day's waste, for any reservations and any placement of jobs on nodes.

Each job has a window: it starts no earlier than `earliest` and no later than `latest`. With n(t) nodes on in
minute t (idle or computing) and x(t) of them computing, waste is the energy of n(t) − x(t) idle nodes and of
switching. Any schedule that respects the windows satisfies:

- n(t) ≥ need(t): the nodes of jobs that must be running in minute t, those with latest ≤ t < earliest + run;
  and at some minute of each window as many nodes as its job's cores fill.
- x(t) ≤ can(t): the cores of all jobs whose window is open at t, one node each, since cores may be scattered;
  but whole nodes while every job requests whole nodes, because then no node is partly allocated.

Take level k = 1 … N to be "on" in the minutes with n(t) ≥ k. Idle nodes in minute t are at least the levels
with can(t) < k ≤ n(t); nodes that come on at t are at least the levels that do, and likewise for those that
begin to switch off. So waste is at least the sum over levels of the cost of each, and the minimum of that is
found level by level: off at first, on where needed, and in between the cheaper of idling where can(t) < k and
of being switched off and on again. No schedule's levels cost less than these.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import DayResults
from gridtune.types import FloatArray, IntArray


def waste_bounds(
    days: Days, results: DayResults, platform: Platform, tau: float = 0.5
) -> dict[str, FloatArray]:
    """Return the least waste of each day by the name of its measure: shape (days,), W·min.

    `waste_bound_starts`: with the starts of the results. `waste_bound_within_tau`: with all starts before
    `tau` of the walltime; a job that starts later in the results, or never, has to start no later than it
    does there. `energy_waste_per_day_bound`: the same for schedules that reservations can bring about. While
    no job holds cores, the oldest waiting one is allocated its own at once, whatever is reserved. So none
    waits longer than others can run without a gap, and the windows end there.
    """
    fits = days.cores <= platform.cores
    earliest = np.where(fits, days.submit, -1)
    punctual = days.submit + np.maximum(np.ceil(tau * days.walltime).astype(np.int64) - 1, 0)
    started = np.where(results.start >= 0, results.start, results.minutes[days.day_of_job])
    latest = np.maximum(punctual, started)
    run, power = np.minimum(days.run, days.walltime), platform.power
    # Allocated nodes may have to finish switching off; the jobs of minute 0 are considered in minute 1.
    slack = power.switch_off_time + power.switch_on_time + 1
    closed = latest.copy()
    for first, end in pairwise(days.first.tolist()):
        jobs = np.flatnonzero(fits[first:end]) + first
        _close_windows(earliest[jobs], closed, jobs, run[jobs], slack)
    windows = {
        "waste_bound_starts": (results.start, results.start),
        "waste_bound_within_tau": (earliest, latest),
        "energy_waste_per_day_bound": (earliest, closed),
    }
    return {name: _least_waste(days, *window, results.minutes, platform) for name, window in windows.items()}


def _least_waste(
    days: Days, earliest: IntArray, latest: IntArray, minutes: IntArray, platform: Platform
) -> FloatArray:
    """Return a lower bound of the waste of each day under any policy that respects the windows.

    Parameters
    ----------
    days
        The jobs.
    earliest, latest
        Shape (jobs,): first and last minute in which each job may start; below 0 if it does not start.
    minutes
        Shape (days,): length of each day.
    platform
        The cluster.

    Returns
    -------
    ndarray
        Shape (days,), W·min.
    """
    power = platform.power
    run = np.minimum(days.run, days.walltime)
    least = np.zeros(len(days))
    shape = np.array([platform.nodes, platform.cores_per_node, power.switch_on_time, power.switch_off_time])
    watts = np.array([power.idle, power.switching_on, power.switching_off], np.float64)
    columns = (days.first, minutes, earliest, latest, run, days.cores)
    _bound_days(*(np.ascontiguousarray(column, np.int64) for column in columns), shape, watts, least)
    return least


@kernel()
def _close_windows(earliest, latest, jobs, run, slack):
    """Lower the `latest` starts of a day's jobs to the first minute in which no other job can hold cores.

    A job can hold cores from its submission until the end of its latest run. Closing a window can open gaps
    for others, so this is repeated until nothing changes.
    """
    number, changed = jobs.size, True
    while changed:
        changed = False
        # Of the jobs so far: the latest end, whose it is, and the latest end of the others.
        first, owner, second, seen = np.int64(-1), -1, np.int64(-1), 0
        for place in range(number):
            while seen < number and earliest[seen] <= earliest[place]:
                end = latest[jobs[seen]] + run[seen]
                if end > first:
                    first, owner, second = end, seen, first
                elif end > second:
                    second = end
                seen += 1
            closes, following = latest[jobs[place]], seen
            covered = max(earliest[place], second if owner == place else first)
            while covered < closes and following < number and earliest[following] <= covered:
                covered = max(covered, latest[jobs[following]] + run[following])
                following += 1
            if covered + slack < closes:
                latest[jobs[place]] = covered + slack
                changed = True


@kernel()
def _bound_days(first, minutes, earliest, latest, run, cores, shape, watts, least):
    """Fill in `least`.

    `shape`: nodes, cores of each, minutes to switch on and off. `watts`: idle, switching on and off.
    """
    for day in range(minutes.size):
        jobs = slice(first[day], first[day + 1])
        starts = (earliest[jobs] >= 0) & (earliest[jobs] < minutes[day])
        taking_part = np.flatnonzero(starts) + first[day]
        if taking_part.size > 0:
            window = (earliest[taking_part], latest[taking_part], run[taking_part], cores[taking_part])
            others_broken = (cores[jobs][~starts] % shape[1] != 0).any()
            times, need, can = _needs(window, others_broken, minutes[day], shape)
            for level in range(1, shape[0] + 1):
                least[day] += _cheapest(times, need, can, level, minutes[day], shape, watts)


@kernel()
def _needs(window, others_broken, horizon, shape):
    """Return the times of changes, and between them the nodes that must be on and those that can compute."""
    earliest, latest, run, cores = window
    nodes, size = shape[0], shape[1]
    closes, ends = np.minimum(latest + run, horizon), np.minimum(earliest + run, horizon)
    # A job may hold cores before it starts, while nodes finish switching off and boot.
    holds = np.maximum(earliest - shape[2] - shape[3], 0)
    last = max(horizon - shape[2] - shape[3], 0)
    marks = (np.array([0, last, horizon]), holds, earliest, closes, np.minimum(latest, horizon), ends)
    times = np.unique(np.concatenate(marks))
    parts = times.size - 1
    must, requested, whole, allocated, broken, need = np.zeros((6, parts + 1), np.int64)
    if others_broken:
        # A job that never starts can hold parts of nodes at the end of the day.
        place = np.searchsorted(times, last)
        allocated[place] += 1
        broken[place] += 1
    for job in range(run.size):
        opens = np.searchsorted(times, earliest[job])
        closed = np.searchsorted(times, closes[job])
        filled = (cores[job] + size - 1) // size
        requested[opens] += cores[job]
        requested[closed] -= cores[job]
        whole[opens] += filled
        whole[closed] -= filled
        holding = np.searchsorted(times, holds[job])
        allocated[holding] += 1
        allocated[closed] -= 1
        if cores[job] % size:
            broken[holding] += 1
            broken[closed] -= 1
        if latest[job] < ends[job]:
            must[np.searchsorted(times, latest[job])] += cores[job]
            must[np.searchsorted(times, ends[job])] -= cores[job]
        if latest[job] < horizon:
            # Somewhere in its window; while that is open, levels that are on cost nothing.
            need[opens] = max(need[opens], filled)
    requested, whole = requested.cumsum(), whole.cumsum()
    allocated, broken = allocated.cumsum(), broken.cumsum()
    need = np.maximum(need, (must.cumsum() + size - 1) // size)
    can = np.minimum(requested, nodes)
    start = 0
    while start < parts:
        end, mixed = start, False
        while end < parts and (allocated[end] > 0) == (allocated[start] > 0):
            mixed = mixed or broken[end] > 0
            end += 1
        if not mixed:
            can[start:end] = np.minimum(whole[start:end], nodes)
        start = end
    return times, np.minimum(need, nodes), can


@kernel()
def _cheapest(times, need, can, level, horizon, shape, watts):
    """Return the least cost of a level: its cheapest path through the day, off or on in each part."""
    off, on = 0.0, np.inf
    parts, start = times.size - 1, 0
    while start < parts:
        able, needed, end = can[start] >= level, False, start
        while end < parts and (can[end] >= level) == able:
            needed = needed or need[end] >= level
            end += 1
        began = times[start]
        stays = min(on, off + watts[1] * shape[2])
        sleeps = min(off, on + watts[2] * min(shape[3], horizon - began))
        if not able:
            stays += watts[0] * (times[end] - began)
        off, on = np.inf if needed else sleeps, stays
        start = end
    return min(off, on)
