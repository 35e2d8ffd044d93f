"""The least work left over time that any schedule can reach: the kernel behind the bounds of schedules.

A relaxation: jobs may be preempted, and each of a job's processors may run by itself, also at less than full
speed. So job i is pᵢ tasks of rᵢ seconds that need not run together. What is left to do is least at every
instant if the tasks with the longest remaining times run (LRPT): then the k longest remaining times sum to no
more than under any other schedule, for every k. For at rate min(k, m) this sum falls as fast as any schedule
lets it, and arrivals keep the order of two such sums.

Tasks with equal remaining times are a group, and stay one: they share processors evenly. Groups above a
*middle* one run at full speed, the middle one shares the processors that these leave, those below it wait. A
group joins the middle one when their remaining times meet. An arrival adds one group, and a group stops
running at full speed at most once: O(n log n) in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.types import FloatArray, IntArray

__all__ = ["least_backlog"]


#: The state: now; processors of the groups at full speed; the middle group's remaining time and processors
#: (0: there is none); work left now, and its integral until now.
NOW, FULL, LEVEL, WIDTH, LEFT, BACKLOG, STATE = range(7)


class Groups(NamedTuple):
    """A heap of groups of tasks, the smallest key first; `n[0]` is their number."""

    keys: FloatArray
    widths: FloatArray
    n: IntArray


@kernel()
def _bare_groups(groups):
    return Groups(bare(groups.keys), bare(groups.widths), bare(groups.n))


@kernel()
def _push(groups, key, width):
    keys, widths, place = groups.keys, groups.widths, groups.n[0]
    groups.n[0] += 1
    while place > 0 and keys[(place - 1) // 2] > key:
        keys[place], widths[place] = keys[(place - 1) // 2], widths[(place - 1) // 2]
        place = (place - 1) // 2
    keys[place], widths[place] = key, width


@kernel()
def _pop(groups):
    """Remove the group with the smallest key; return its processors."""
    keys, widths = groups.keys, groups.widths
    groups.n[0] -= 1
    size, first = groups.n[0], widths[0]
    key, width = keys[size], widths[size]
    place, child = 0, 1
    while child < size:
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[place], widths[place] = keys[child], widths[child]
        place, child = child, 2 * child + 1
    keys[place], widths[place] = key, width
    return first


@kernel()
def _arrive(running, waiting, state, length, width, machine):
    """Add a job's tasks; groups for which no processors are left stop running at full speed."""
    state[LEFT] += length * width
    if state[WIDTH] > 0.0 and length < state[LEVEL]:
        _push(waiting, -length, width)
        return
    _push(running, state[NOW] + length, width)
    state[FULL] += width
    while state[FULL] > machine:
        if state[WIDTH] > 0.0:
            _push(waiting, -state[LEVEL], state[WIDTH])
        state[LEVEL] = running.keys[0] - state[NOW]
        state[WIDTH] = _pop(running)
        state[FULL] -= state[WIDTH]


@kernel()
def _next_event(running, waiting, state, rate):
    """Return the seconds until the lowest running group meets the middle one, and until this one drains.

    It drains to the remaining time of the groups that wait, or to nothing. Without a middle group it is the
    lowest running group that drains.
    """
    if state[WIDTH] == 0.0:
        return np.inf, (running.keys[0] - state[NOW] if running.n[0] > 0 else np.inf)
    meets = drains = np.inf
    if running.n[0] > 0 and rate < 1.0:
        meets = (running.keys[0] - state[NOW] - state[LEVEL]) / (1.0 - rate)
    if rate > 0.0:
        drains = (state[LEVEL] + (waiting.keys[0] if waiting.n[0] > 0 else 0.0)) / rate
    return meets, drains


@kernel()
def _regroup(running, waiting, state, met):
    """Let groups whose remaining times are equal become one, or a group that has none left end."""
    if met:
        width = _pop(running)
        state[WIDTH] += width
        state[FULL] -= width
    elif state[WIDTH] == 0.0:
        state[FULL] -= _pop(running)
    elif waiting.n[0] > 0:
        state[LEVEL] = -waiting.keys[0]
        state[WIDTH] += _pop(waiting)
    else:
        state[WIDTH] = 0.0
    if running.n[0] == 0 and state[WIDTH] == 0.0:
        state[LEFT] = state[FULL] = 0.0  # no rounding errors add up


@kernel()
def _integrate(submit, run, processors, machine, running, waiting, state):
    jobs, arrived, origin = submit.size, 0, submit[0]
    running, waiting, state = _bare_groups(running), _bare_groups(waiting), bare(state)
    while arrived < jobs or running.n[0] > 0 or state[WIDTH] > 0.0:
        rate = (machine - state[FULL]) / state[WIDTH] if state[WIDTH] > 0.0 else 0.0
        meets, drains = _next_event(running, waiting, state, rate)
        arrives = submit[arrived] - origin - state[NOW] if arrived < jobs else np.inf
        step = max(0.0, min(arrives, meets, drains))
        done = (state[FULL] + rate * state[WIDTH]) * step
        state[BACKLOG] += (state[LEFT] - done / 2.0) * step
        state[LEFT] -= done
        state[LEVEL] -= rate * step
        state[NOW] += step
        if arrives <= min(meets, drains):
            state[NOW] = submit[arrived] - origin
            if run[arrived] > 0:
                _arrive(running, waiting, state, run[arrived], processors[arrived], machine)
            arrived += 1
        else:
            _regroup(running, waiting, state, meets <= drains)
    return state[BACKLOG]


def least_backlog(submit: IntArray, run: IntArray, processors: IntArray, machine: int) -> float:
    """Return the least work left, integrated over time, in processor-seconds × seconds.

    Parameters
    ----------
    submit, run, processors
        Shape (n,), n > 0, int64, in order of submission; times in seconds.
    machine
        The number of processors.
    """
    # Running groups by the second at which they would end; waiting groups by their remaining time, negated.
    running, waiting = (
        Groups(np.empty(len(submit)), np.empty(len(submit)), np.zeros(1, np.int64)) for _ in range(2)
    )
    return float(_integrate(submit, run, processors, machine, running, waiting, np.zeros(STATE)))
