"""Assigns processors to jobs, for Gantt charts; schedules do not depend on it."""

from __future__ import annotations

import heapq

import numpy as np

from gridtune.core.schedule import Schedule
from gridtune.errors import ScheduleError

__all__ = ["Allocation", "allocate_processors"]

#: For each job the ranges [first, last] of its processor numbers, ascending.
Allocation = list[list[tuple[int, int]]]


def allocate_processors(schedule: Schedule) -> Allocation:
    """Return the processors of each job of a schedule: always the lowest free numbers.

    Completions come before starts at an instant, as in the simulation.

    Raises
    ------
    ScheduleError
        If the schedule needs more processors than the machine has.
    """
    width = schedule.workload.processors.tolist()
    allocation: Allocation = [[] for _ in width]
    free = [(0, schedule.processors - 1)]  # disjoint ranges, ascending
    running: list[tuple[int, int]] = []
    ends = schedule.end_time.tolist()
    for job in np.lexsort((np.arange(len(width)), schedule.start_time)).tolist():
        now = int(schedule.start_time[job])
        while running and running[0][0] <= now:
            free = _merge(free, allocation[heapq.heappop(running)[1]])
        needed = width[job]
        while needed > 0:
            if not free:
                raise ScheduleError(f"no {width[job]} free processors for row {job} at second {now}")
            first, last = free.pop(0)
            taken = min(needed, last - first + 1)
            allocation[job].append((first, first + taken - 1))
            needed -= taken
            if first + taken <= last:
                free.insert(0, (first + taken, last))
        heapq.heappush(running, (ends[job], job))
    return allocation


def _merge(free: list[tuple[int, int]], returned: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(free + returned):
        if merged and merged[-1][1] + 1 == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged
