"""The compiled parts of metrics. They are imported where they are used: metrics import no compiler.

*Least energy.* With given starts, a number of nodes at least must be on at any time. Level k is on while k
nodes are needed. However jobs are placed on nodes, at least as many nodes are on as levels, and come on and
go off as often; so the energy is at least the sum of what each level's gaps cost by themselves. A gap costs
the cheaper of idling through it and of a switch off and on again, which takes foresight: the node is on when
the gap ends. Before its first use a level is taken to be off, and after its last to stay off once it has
switched.

*Least backlog.* The least work left over time that any schedule can reach, by a relaxation: jobs may be
preempted, and each of a job's processors may run by itself, also at less than full speed. So job i is pᵢ
tasks of rᵢ seconds that need not run together. The work left is least at every instant if the tasks with
the longest remaining times run (LRPT): then the k longest remaining times sum to no more than under any other
schedule, for every k. For at rate min(k, m) this sum falls as fast as any schedule lets it, and arrivals keep
the order of two such sums.

Tasks with equal remaining times are a group, and stay one: they share processors evenly. Groups above a
*middle* one run at full speed, the middle one shares the processors that these leave, those below it wait. A
group joins the middle one when their remaining times meet. An arrival adds one group, and a group stops
running at full speed at most once: O(n log n) in all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.core.rows import pop_row, push_row
from gridtune.types import FloatArray, IntArray


@kernel()
def _first_not_before(submit: IntArray, job: int, instant: int) -> int:
    """Return the number of submissions before an instant, looked for from a job's own on."""
    if submit[job] >= instant:
        while job > 0 and submit[job - 1] >= instant:
            job -= 1
        return job
    step = 1
    while job + step < submit.size and submit[job + step] < instant:
        job += step
        step *= 2
    beyond = min(job + step, submit.size)
    while beyond - job > 1:
        middle = (job + beyond) >> 1
        if submit[middle] < instant:
            job = middle
        else:
            beyond = middle
    return beyond


@kernel()
def most_waiting(submit: IntArray, start: IntArray, area: IntArray, first: int, last: int) -> tuple[int, int]:
    """Return the most jobs and the most work that wait after a submission.

    Parameters
    ----------
    submit, start, area
        Shape (n,), int64: seconds, in order of submission, and processor-seconds.
    first, last
        The submissions looked at are those from `first` up to, not including, `last`.

    Returns
    -------
    length, work
        Jobs, and the processor-seconds they will use.
    """
    jobs = submit.size
    left, left_work = np.zeros(jobs + 1, np.int32), np.zeros(jobs + 1, np.int64)
    for job in range(jobs):
        place = _first_not_before(submit, job, start[job])
        left[place] += 1
        left_work[place] += area[job]
    waiting = waiting_work = most = most_work = 0
    for job in range(last):
        waiting += 1 - left[job]
        waiting_work += area[job] - left_work[job]
        # Those submitted together have all come before anything is counted.
        if job >= first and (job + 1 == jobs or submit[job + 1] > submit[job]):
            most, most_work = max(most, waiting), max(most_work, waiting_work)
    return most, most_work


#: A gap at the beginning, between two uses, at the end of time, and a level that is never used.
_FIRST, _BETWEEN, _LAST, _WHOLE = range(4)


@kernel()
def _cost(kind, length, power):
    """Return the least energy of a node over a gap; `power`: see `least_gap_energy`."""
    idle, off, switching_on, switching_off, boot, shutdown = power
    if kind == _WHOLE:
        return min(idle, off) * length
    down = 0.0 if kind == _FIRST else min(shutdown, length)
    up = 0.0 if kind == _LAST else boot
    if down + up > length:
        return idle * length
    return min(idle * length, switching_off * down + switching_on * up + off * (length - down - up))


@kernel()
def least_gap_energy(times, needed, nodes, opens, closes, power):
    """Return the least energy of the nodes that are not needed, in watt-seconds.

    Parameters
    ----------
    times, needed
        Shape (k,), int64: from second `times[i]` on, `needed[i]` nodes are; before the first, none.
    nodes
        The number of nodes.
    opens, closes
        The seconds from which and until which energy counts.
    power
        Watts of a node that is idle, off, switching on, switching off; seconds to switch on, and off.
    """
    since, count = np.empty(times.size + 1, np.int64), np.empty(times.size + 1, np.int64)
    since[0], count[0] = opens, nodes
    entries, used, energy = 1, 0, 0.0
    for place in range(times.size):
        now = min(max(times[place], opens), closes)
        if needed[place] < used:
            since[entries], count[entries] = now, used - needed[place]
            entries += 1
        while used < needed[place]:
            last = entries - 1
            taken = min(count[last], needed[place] - used)
            kind = _FIRST if last == 0 else _BETWEEN
            energy += taken * _cost(kind, float(now - since[last]), power)
            count[last] -= taken
            used += taken
            if count[last] == 0 and last > 0:
                entries = last
        used = needed[place]
    for entry in range(entries):
        energy += count[entry] * _cost(_WHOLE if entry == 0 else _LAST, float(closes - since[entry]), power)
    return energy


#: The state: now; processors of the groups at full speed; the middle group's remaining time and processors
#: (0: there is none); work left now, and its integral until now.
_BACKLOG = np.dtype([(name, np.float64) for name in ("now", "full", "level", "width", "left", "backlog")])


_COUNT = np.dtype([("count", np.int64)])


class _Groups(NamedTuple):
    """A heap of groups of tasks, the smallest key first; `state.count` is their number."""

    keys: FloatArray
    widths: FloatArray
    state: Any


@kernel()
def _push(groups, key, width):
    push_row(groups.keys, groups.widths, groups.state.count, key, width)
    groups.state.count += 1


@kernel()
def _pop(groups):
    """Remove the group with the smallest key; return its processors."""
    first = groups.widths[0]
    pop_row(groups.keys, groups.widths, groups.state.count)
    groups.state.count -= 1
    return first


@kernel()
def _arrive(running, waiting, state, length, width, machine):
    """Add a job's tasks; groups for which no processors are left stop running at full speed."""
    state.left += length * width
    if state.width > 0.0 and length < state.level:
        _push(waiting, -length, width)
        return
    _push(running, state.now + length, width)
    state.full += width
    while state.full > machine:
        if state.width > 0.0:
            _push(waiting, -state.level, state.width)
        state.level = running.keys[0] - state.now
        state.width = _pop(running)
        state.full -= state.width


@kernel()
def _next_event(running, waiting, state, rate):
    """Return the seconds until the lowest running group meets the middle one, and until this one drains.

    It drains to the remaining time of the groups that wait, or to nothing. Without a middle group it is the
    lowest running group that drains.
    """
    if state.width == 0.0:
        return np.inf, (running.keys[0] - state.now if running.state.count > 0 else np.inf)
    meets = drains = np.inf
    if running.state.count > 0 and rate < 1.0:
        meets = (running.keys[0] - state.now - state.level) / (1.0 - rate)
    if rate > 0.0:
        drains = (state.level + (waiting.keys[0] if waiting.state.count > 0 else 0.0)) / rate
    return meets, drains


@kernel()
def _regroup(running, waiting, state, met):
    """Join groups whose remaining times are equal, or end a group that has none left."""
    if met:
        width = _pop(running)
        state.width += width
        state.full -= width
    elif state.width == 0.0:
        state.full -= _pop(running)
    elif waiting.state.count > 0:
        state.level = -waiting.keys[0]
        state.width += _pop(waiting)
    else:
        state.width = 0.0
    if running.state.count == 0 and state.width == 0.0:
        state.left = state.full = 0.0  # no rounding errors add up


@kernel()
def _integrate(submit, run, processors, machine, running, waiting, state):
    jobs, arrived, origin = submit.size, 0, submit[0]
    running, waiting, state = bare(running), bare(waiting), bare(state)
    while arrived < jobs or running.state.count > 0 or state.width > 0.0:
        rate = (machine - state.full) / state.width if state.width > 0.0 else 0.0
        meets, drains = _next_event(running, waiting, state, rate)
        arrives = submit[arrived] - origin - state.now if arrived < jobs else np.inf
        step = max(0.0, min(arrives, meets, drains))
        done = (state.full + rate * state.width) * step
        state.backlog += (state.left - done / 2.0) * step
        state.left -= done
        state.level -= rate * step
        state.now += step
        if arrives <= min(meets, drains):
            state.now = submit[arrived] - origin
            if run[arrived] > 0:
                _arrive(running, waiting, state, run[arrived], processors[arrived], machine)
            arrived += 1
        else:
            _regroup(running, waiting, state, meets <= drains)
    return state.backlog


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
        _Groups(np.empty(len(submit)), np.empty(len(submit)), np.zeros((), _COUNT)) for _ in range(2)
    )
    return float(_integrate(submit, run, processors, machine, running, waiting, np.zeros((), _BACKLOG)))
