"""Schedules written down by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gridtune.core.schedules.schedule import JobState, Schedule
from gridtune.workload.workload import Workload

#: Submit, start, end, processors, requested walltime, user, killed: on four processors.
#: The third job overtakes the second, the fourth ran for no time and asked for no walltime, the last was
#: killed.
FIVE_JOBS = [
    (0, 0, 100, 2, 200, 1, False),
    (10, 100, 150, 4, 100, 2, False),
    (20, 20, 80, 2, 60, 1, False),
    (30, 150, 150, 1, -1, 2, False),
    (40, 150, 154, 1, 4, 3, True),
]


def schedule_of(
    jobs: Sequence[tuple[int, int, int, int, int, int, bool]], *, processors: int = 4, seconds: int = 0
) -> Schedule:
    """Build a schedule from rows like those of `FIVE_JOBS`, the clock moved on by some seconds."""
    columns = np.array(jobs, dtype=np.int64).reshape(-1, 7).T
    submit, start, end = columns[:3] + seconds
    size, requested, user, killed = columns[3:]
    run = end - start
    workload = Workload(
        {
            "submit_time": submit,
            "wait_time": np.full_like(submit, 20),
            "run_time": np.where(killed, run + 10, run),
            "requested_processors": size,
            "requested_time": requested,
            "user": user,
        }
    )
    state = np.where(killed, JobState.KILLED, JobState.COMPLETED).astype(np.int8)
    walltime = np.where(requested > 0, requested, run)
    return Schedule(workload, processors, start, end, walltime, state)


def permuted(schedule: Schedule, rows: Sequence[int]) -> Schedule:
    """Return the same schedule with its jobs in another order of rows."""
    index = np.asarray(rows)
    return Schedule(
        schedule.workload.take(index),
        schedule.processors,
        schedule.start_time[index],
        schedule.end_time[index],
        schedule.walltime[index],
        schedule.state[index],
    )
