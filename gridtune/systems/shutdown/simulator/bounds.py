"""The least waste a day can have come to, whatever was reserved and whichever nodes jobs were given.

Think of a day as a window for each job: it starts no earlier than `earliest`, no later than `latest`. With
n(t) nodes on in minute t (idle or computing) and x(t) of them computing, waste is what n(t) − x(t) idle nodes
draw, and what switching does. Two things are known of any schedule that keeps the windows:

- n(t) ≥ need(t): nodes that the jobs hold which must be running in minute t, those with latest ≤ t < earliest
  + run; and at some minute of each window as many as its job's cores fill.
- x(t) ≤ can(t): all cores that windows open at t ask for, a node each, for cores may be scattered; but whole
  nodes where every job for some time asks for whole nodes, because then none is ever partly held.

Take level k = 1 … N to be "on" in the minutes with n(t) ≥ k. Idle nodes in minute t are at least the levels
with can(t) < k ≤ n(t); nodes that come on at t are at least the levels that do, and likewise for those that
begin to switch off. So waste is at least the sum over levels of what each costs by itself, and that has a
cheapest course, found level by level: off at first, on where needed, and in between the cheaper of idling
where can(t) < k and of being switched off and on again. `docs/shutdown.md` spells the argument out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.outcome import Outcome
from gridtune.systems.shutdown.simulator.platform import Platform

__all__ = ["least_waste", "least_waste_of_starts", "least_waste_within"]

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


def least_waste_of_starts(days: Days, outcome: Outcome, platform: Platform) -> Float64s:
    """Return the least waste of each day with the very starts of an outcome: shape (days,), W·min."""
    return least_waste(days, outcome.start, outcome.start, outcome.minutes, platform)


def least_waste_within(days: Days, outcome: Outcome, platform: Platform, tau: float) -> Float64s:
    """Return the least waste of each day with all starts before `tau` of the walltime: shape (days,), W·min.

    A job that starts later in the outcome, or never, is only asked to start no later than it does there.
    """
    patient = days.submit + np.maximum(np.ceil(tau * days.walltime).astype(np.int64) - 1, 0)
    horizon = outcome.minutes[days.day_of_job]
    latest = np.maximum(patient, np.where(outcome.start >= 0, outcome.start, horizon))
    fits = days.cores <= platform.cores
    return least_waste(days, np.where(fits, days.submit, -1), latest, outcome.minutes, platform)


def least_waste(
    days: Days, earliest: Int64s, latest: Int64s, minutes: Int64s, platform: Platform
) -> Float64s:
    """Return a lower bound of the waste of each day under any policy that keeps the windows.

    Parameters
    ----------
    days
        The jobs.
    earliest, latest
        Shape (jobs,): minutes between which each job starts, both included. Below 0: it does not.
    minutes
        Shape (days,): how long each day lasts.
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
    _bound_days(*(np.ascontiguousarray(each, np.int64) for each in columns), shape, watts, least)
    return least


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
    """Return where anything changes, and for each part: nodes that must be on, and that can compute."""
    earliest, latest, run, cores = window
    nodes, size = shape[0], shape[1]
    closes, ends = np.minimum(latest + run, horizon), np.minimum(earliest + run, horizon)
    # Before a job starts it may hold cores while nodes finish switching off and boot.
    holds = np.maximum(earliest - shape[2] - shape[3], 0)
    last = max(horizon - shape[2] - shape[3], 0)
    marks = (np.array([0, last, horizon]), holds, earliest, closes, np.minimum(latest, horizon), ends)
    times = np.unique(np.concatenate(marks))
    parts = times.size - 1
    must, asked, whole, held, broken, need = np.zeros((6, parts + 1), np.int64)
    if others_broken:
        # One that never starts can hold parts of nodes at the day's end.
        place = np.searchsorted(times, last)
        held[place] += 1
        broken[place] += 1
    for job in range(run.size):
        opens = np.searchsorted(times, earliest[job])
        closed = np.searchsorted(times, closes[job])
        filled = (cores[job] + size - 1) // size
        asked[opens] += cores[job]
        asked[closed] -= cores[job]
        whole[opens] += filled
        whole[closed] -= filled
        holding = np.searchsorted(times, holds[job])
        held[holding] += 1
        held[closed] -= 1
        if cores[job] % size:
            broken[holding] += 1
            broken[closed] -= 1
        if latest[job] < ends[job]:
            must[np.searchsorted(times, latest[job])] += cores[job]
            must[np.searchsorted(times, ends[job])] -= cores[job]
        if latest[job] < horizon:
            # Somewhere in its window; while that is open the levels can stay on for nothing, so say at once.
            need[opens] = max(need[opens], filled)
    asked, whole, held, broken = asked.cumsum(), whole.cumsum(), held.cumsum(), broken.cumsum()
    need = np.maximum(need, (must.cumsum() + size - 1) // size)
    can = np.minimum(asked, nodes)
    start = 0
    while start < parts:
        end, mixed = start, False
        while end < parts and (held[end] > 0) == (held[start] > 0):
            mixed = mixed or broken[end] > 0
            end += 1
        if not mixed:
            can[start:end] = np.minimum(whole[start:end], nodes)
        start = end
    return times, np.minimum(need, nodes), can


@kernel()
def _cheapest(times, need, can, level, horizon, shape, watts):
    """Return the least that a level can cost: the cheapest way through the day, off or on in each part."""
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
