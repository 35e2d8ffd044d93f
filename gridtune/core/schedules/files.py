"""Write a schedule in the formats that other programs open.

| suffix | format | opened by |
| --- | --- | --- |
| `.parquet` | a row per job, as `Schedule.to_table` | pandas, polars, DuckDB |
| `.csv` | Batsim's `_jobs.csv` | Batsim's tools, evalys |

`allocate_processors` assigns processors to jobs, for Gantt charts; schedules do not depend on it.
"""

from __future__ import annotations

import csv
import heapq
import io
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
#: Names of Batsim's final states.
_FINAL_STATES = {"completed": "COMPLETED_SUCCESSFULLY", "killed": "COMPLETED_WALLTIME_REACHED"}


def write_schedule(jobs: pa.Table, processors: int, path: Path, *, name: str) -> None:
    """Write a schedule in the format that the file's suffix names; completely or not at all.

    Batsim's table says which processors each job had: the lowest that were free when it started, since a
    schedule says only how many. Times are seconds on the workload's clock.

    Parameters
    ----------
    jobs, processors
        As of `allocate_processors`; jobs also have their other columns.
    path
        The file.
    name
        The workload's.

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
            _write_batsim(jobs, processors, name, file)


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


def _write_batsim(jobs: pa.Table, processors: int, name: str, file: IO[bytes]) -> None:
    allocation = [
        " ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)
        for ranges in allocate_processors(jobs, processors)
    ]
    values = {column: jobs[column].to_pylist() for column in jobs.column_names}
    run = pc.subtract(jobs["end_time"], jobs["start_time"]).to_pylist()
    turnaround = pc.subtract(jobs["end_time"], jobs["submit_time"]).to_pylist()
    empty = [""] * len(run)
    columns = {
        "job_id": values["job_id"],
        "workload_name": [name] * len(run),
        "profile": values["job_id"],
        "submission_time": values["submit_time"],
        "requested_number_of_resources": values["processors"],
        "requested_time": values["walltime"],
        "success": [int(state == "completed") for state in values["state"]],
        "final_state": [_FINAL_STATES[state] for state in values["state"]],
        "starting_time": values["start_time"],
        "execution_time": run,
        "finish_time": values["end_time"],
        "waiting_time": values["wait_time"],
        "turnaround_time": turnaround,
        "stretch": [whole / part if part else "" for whole, part in zip(turnaround, run, strict=True)],
        "allocated_resources": allocation,
        "consumed_energy": empty,
        "metadata": empty,
    }
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))
    text.flush()
    text.detach()
