"""`Days`: the jobs of many days in columns, in the minutes that the simulator counts in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.workload.workload import Workload

__all__ = ["GROUP_EDGES", "MINUTES_A_DAY", "SEQUENTIAL_GAP", "Days", "build_days", "cut_into_days"]

Int64s = npt.NDArray[np.int64]

MINUTE = 60
MINUTES_A_DAY = 1440
#: Submissions closer than this many minutes to the one before are sequential (the paper's section 2.2).
SEQUENTIAL_GAP = 5
#: Shares of sequential submissions at which the second to fifth group of days begin (the paper's Table 2).
GROUP_EDGES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Days:
    """Days of jobs, one after the other. A day is an episode; it need not be 24 hours long.

    Attributes
    ----------
    names
        One for each day, such as `group-1/test/1_test_0`.
    first
        Shape (days + 1,): where each day's jobs begin.
    minutes
        Shape (days,): how long each day lasts.
    job_id, submit, run, walltime, cores, user
        Shape (jobs,), in order of submission within a day; times in minutes of the day. `run` is what
        the job would take if it were not killed; users are numbered from 0 within a day.
    """

    names: tuple[str, ...]
    first: Int64s
    minutes: Int64s
    job_id: Int64s
    submit: Int64s
    run: Int64s
    walltime: Int64s
    cores: Int64s
    user: Int64s

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Days({len(self):,} days, {len(self.submit):,} jobs)"

    @property
    def day_of_job(self) -> Int64s:
        """Shape (jobs,): the day of each job."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    @property
    def rank(self) -> Int64s:
        """Shape (jobs,): each job's place within its day by walltime × cores, equals by submission."""
        day = self.day_of_job
        order = np.lexsort((np.arange(len(day)), self.walltime * self.cores, day))
        place = np.empty(len(day), np.int64)
        place[order] = np.arange(len(day))
        return place - self.first[day]

    @property
    def sequential_share(self) -> npt.NDArray[np.float64]:
        """Shape (days,): share of the gaps between submissions that are shorter than five minutes.

        Of a day with a single job: 0.
        """
        shares = np.zeros(len(self))
        for day, (start, end) in enumerate(pairwise(self.first.tolist())):
            gaps = np.diff(self.submit[start:end])
            shares[day] = np.mean(gaps < SEQUENTIAL_GAP) if len(gaps) else 0.0
        return shares

    @property
    def group(self) -> Int64s:
        """Shape (days,): the paper's groups 1 to 5 by share of sequential submissions."""
        return np.searchsorted(GROUP_EDGES, self.sequential_share, side="right").astype(np.int64) + 1

    def subset(self, name: str) -> npt.NDArray[np.bool_]:
        """Return which days stand in a folder of that name (`train`, `test`): shape (days,), bool."""
        return np.array([name in PurePosixPath(each).parts for each in self.names], dtype=bool)

    def take(self, chosen: npt.NDArray[np.bool_] | Int64s) -> Days:
        """Return the days that a mask or an index array selects, in that order."""
        index = np.arange(len(self))[chosen]
        sizes = np.diff(self.first)[index]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        jobs = np.arange(first[-1]) + np.repeat(self.first[index] - first[:-1], sizes)
        columns = (
            column[jobs]
            for column in (self.job_id, self.submit, self.run, self.walltime, self.cores, self.user)
        )
        return Days(tuple(self.names[day] for day in index), first, self.minutes[index], *columns)


def build_days(
    workloads: Sequence[Workload], *, minutes: int | None = MINUTES_A_DAY, step: int = MINUTE
) -> Days:
    """Return days from workloads, one from each.

    Seconds become minutes by rounding up: a job is seen at the first decision after its submission, and
    holds its cores in whole minutes. What was in minutes stays as it was.

    Parameters
    ----------
    workloads
        Sorted by submission, run times known; walltimes too, else a job's run time stands for it.
    minutes
        Length of each day. None: until every job can have ended, whatever holds them up.
    step
        Seconds in a step.

    Raises
    ------
    SimulationError
        If there is no workload, or one has jobs that cannot be simulated.
    """
    if not workloads:
        raise SimulationError("there are no days to simulate")
    parts: list[tuple[Int64s, ...]] = []
    lengths = []
    for workload in workloads:
        _check(workload)
        columns = _in_steps(workload, step)
        parts.append(columns)
        lengths.append(minutes if minutes is not None else _long_enough(*columns[1:4]))
    first = np.cumsum([0, *(len(part[0]) for part in parts)]).astype(np.int64)
    joined = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    names = tuple(workload.name for workload in workloads)
    return Days(names, first, np.array(lengths, np.int64), *joined)


def cut_into_days(workload: Workload, *, length: int = MINUTES_A_DAY * MINUTE) -> list[Workload]:
    """Return a long log's days: jobs by the day of their submission, on the day's own clock.

    Days begin at multiples of `length` seconds of the log's clock; days without a job are left out. What
    still runs at the end of a day does not burden the next.
    """
    number = workload.submit_time // length
    days = []
    for day in np.unique(number).tolist():
        jobs = workload.take(number == day, name=f"{workload.name}/day-{day:05d}")
        days.append(jobs._with(submit_time=jobs.submit_time - day * length))
    return days


def _check(workload: Workload) -> None:
    if not workload.is_sorted:
        raise SimulationError(
            f"the jobs of {workload.name} do not stand by submission",
            path=workload.source,
            hint="apply the cleaning rule 'sort_submits'",
        )
    if (workload.run_time < 0).any():
        raise SimulationError(
            f"{workload.name} has jobs whose run time is unknown",
            path=workload.source,
            hint="apply the cleaning rule 'drop_never_started'",
        )


def _in_steps(workload: Workload, step: int) -> tuple[Int64s, ...]:
    """Return job numbers, submissions, run times, walltimes, cores and users of a workload."""
    run = np.maximum(-(-workload.run_time // step), 1)
    walltime = -(-workload.requested_time // step)
    walltime = np.where(workload.requested_time > 0, walltime, run)
    users = np.unique(workload.user, return_inverse=True)[1].astype(np.int64)
    submit = -(-workload.submit_time // step)
    return workload.job_id.astype(np.int64), submit, run, walltime, workload.processors, users


def _long_enough(submit: Int64s, run: Int64s, walltime: Int64s) -> int:
    """Return a day's length in which all jobs end even if they run one by one and nodes switch between."""
    if not len(submit):
        return 1
    return int(submit[-1] + np.minimum(run, walltime).sum() + 10 * len(run) + MINUTES_A_DAY)
