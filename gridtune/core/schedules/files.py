"""Write a schedule as a file, a row per job (`Schedule.to_table`): Parquet or CSV.

`allocate_processors` assigns processors to jobs, for Gantt charts; schedules do not depend on it.
"""

from __future__ import annotations

import heapq
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from gridtune.errors import ScheduleError
from gridtune.workload.formats.compression import open_for_writing

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


#: The suffixes of the formats.
_SUFFIXES = (".parquet", ".csv")


def write_schedule(jobs: pa.Table, path: Path) -> None:
    """Write the table of a schedule in the format that the file's suffix names; completely or not at all.

    Raises
    ------
    ScheduleError
        If nothing is written under such a suffix.
    """
    suffix = check_suffix(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_for_writing(path) as file:
        if suffix == ".parquet":
            import pyarrow.parquet as pq  # noqa: PLC0415 (slow to import)

            pq.write_table(jobs, file, compression="zstd")
        else:
            pa_csv.write_csv(jobs, file)


def check_suffix(path: Path) -> str:
    """Return the suffix that decides the format.

    Raises
    ------
    ScheduleError
        If nothing is written under it.
    """
    for suffix in _SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise ScheduleError(
        f"{path}: a schedule is not written as {path.suffix or 'a file without suffix'}",
        hint=f"one of {', '.join(_SUFFIXES)}",
    )
