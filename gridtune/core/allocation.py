"""Assigns processors to jobs, for Gantt charts; schedules do not depend on it."""

from __future__ import annotations

import heapq

import numpy as np
import pyarrow as pa

from gridtune.errors import ScheduleError

__all__ = ["Allocation", "allocate_processors"]

#: For each job the ranges [first, last] of its processor numbers, ascending.
Allocation = list[list[tuple[int, int]]]


def allocate_processors(jobs: pa.Table, processors: int) -> Allocation:
    """Return the processors of each job of a schedule: always the lowest free numbers.

    Completions come before starts at an instant, as in the simulation.

    Parameters
    ----------
    jobs
        A row per job: `processors`, `start_time` and `end_time` (see `Schedule.to_table`).
    processors
        The machine's size.

    Raises
    ------
    ScheduleError
        If the schedule needs more processors than the machine has.
    """
    width = jobs["processors"].to_pylist()
    start, end = jobs["start_time"].to_numpy(), jobs["end_time"].to_pylist()
    allocation: Allocation = [[] for _ in width]
    free = [(0, processors - 1)]  # disjoint ranges, ascending
    running: list[tuple[int, int]] = []
    for job in np.lexsort((np.arange(len(width)), start)).tolist():
        now = int(start[job])
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
        heapq.heappush(running, (end[job], job))
    return allocation


def _merge(free: list[tuple[int, int]], returned: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(free + returned):
        if merged and merged[-1][1] + 1 == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged
