"""`Days`: the jobs of many days in columns, times in minutes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal

import numpy as np

from gridtune.errors import SimulationError
from gridtune.types import BoolArray, FloatArray, IntArray
from gridtune.workload.workload import Workload

Cut = Literal["auto", "days", "whole"]

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
        Shape (days,): length of each day.
    job_id, submit, run, walltime, cores, user
        Shape (jobs,), in order of submission within a day; times in minutes of the day. `run` is the run
        time if the job is not killed; users are numbered from 0 within a day.
    """

    names: tuple[str, ...]
    first: IntArray
    minutes: IntArray
    job_id: IntArray
    submit: IntArray
    run: IntArray
    walltime: IntArray
    cores: IntArray
    user: IntArray

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Days({len(self):,} days, {len(self.submit):,} jobs)"

    @property
    def day_of_job(self) -> IntArray:
        """Shape (jobs,): the day of each job."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    @property
    def rank(self) -> IntArray:
        """Shape (jobs,): each job's rank within its day by walltime × cores, then submission."""
        day = self.day_of_job
        order = np.lexsort((np.arange(len(day)), self.walltime * self.cores, day))
        place = np.empty(len(day), np.int64)
        place[order] = np.arange(len(day))
        return place - self.first[day]

    @property
    def sequential_share(self) -> FloatArray:
        """Shape (days,): share of the gaps between submissions that are shorter than five minutes.

        Of a day with a single job: 0.
        """
        shares = np.zeros(len(self))
        for day, (start, end) in enumerate(pairwise(self.first.tolist())):
            gaps = np.diff(self.submit[start:end])
            shares[day] = np.mean(gaps < SEQUENTIAL_GAP) if len(gaps) else 0.0
        return shares

    @property
    def group(self) -> IntArray:
        """Shape (days,): the paper's groups 1 to 5 by share of sequential submissions."""
        return np.searchsorted(GROUP_EDGES, self.sequential_share, side="right").astype(np.int64) + 1

    def subset(self, kind: str) -> BoolArray:
        """Return which days are `train` or `test` days: shape (days,), bool.

        By the folders' names; if no folder has either name, every fifth day is a test day.
        """
        folders = [PurePosixPath(name).parts[:-1] for name in self.names]
        if any({"train", "test"} & set(folder) for folder in folders):
            return np.array([kind in folder for folder in folders], dtype=bool)
        held_out = np.arange(len(self)) % 5 == 4
        return held_out if kind == "test" else ~held_out

    def take(self, selection: BoolArray | IntArray) -> Days:
        """Return the days that a mask or an index array selects, in that order."""
        index = np.arange(len(self))[selection]
        sizes = np.diff(self.first)[index]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        jobs = np.arange(first[-1]) + np.repeat(self.first[index] - first[:-1], sizes)
        columns = (
            column[jobs]
            for column in (self.job_id, self.submit, self.run, self.walltime, self.cores, self.user)
        )
        return Days(tuple(self.names[day] for day in index), first, self.minutes[index], *columns)


def build_days(workload: Workload, *, cut: Cut = "auto", minutes: int = MINUTES_A_DAY) -> Days:
    """Return the days of a workload.

    Seconds are rounded up to minutes: a job is considered at the first decision after its submission, and
    holds its cores for whole minutes. Jobs that still run at the end of a day do not affect the next.

    Parameters
    ----------
    workload
        One log, or many that were joined (`gridtune.workload.files`): in order of submission, with run
        times; a job without walltime gets its run time for one.
    cut
        `auto`: each of joined logs is a day, a single log is cut into days. `days`: every log is cut at
        multiples of `minutes`; days without jobs are left out. `whole`: each log is one long day, long enough
        for all its jobs to end.
    minutes
        Length of a day.

    Raises
    ------
    SimulationError
        If there are no jobs, or some cannot be simulated.
    """
    if len(workload) == 0:
        raise SimulationError("there are no jobs to simulate", path=workload.source)
    logs: tuple[str, ...] = (workload.name,)
    log = np.zeros(len(workload), np.int64)
    if workload.is_joined:
        logs, first_of_log = workload.joined_parts()
        log = np.repeat(np.arange(len(logs)), np.diff(first_of_log))
    _check(workload, log)
    by_clock = cut == "days" or (cut == "auto" and not workload.is_joined)
    part = workload.submit_time // (minutes * MINUTE) if by_clock else np.zeros_like(log)
    starts = (np.diff(log, prepend=-1) != 0) | (np.diff(part, prepend=-1) != 0)
    begins = np.flatnonzero(starts)
    day = np.cumsum(starts) - 1
    names = [logs[number] for number in log[begins].tolist()]
    if by_clock:
        names = [
            f"{name}/day-{number:05d}" for name, number in zip(names, part[begins].tolist(), strict=True)
        ]
    submit = -(-(workload.submit_time - part * (minutes * MINUTE)) // MINUTE)
    run, walltime = np.maximum(-(-workload.run_time // MINUTE), 1), -(-workload.requested_time // MINUTE)
    walltime = np.where(workload.requested_time > 0, walltime, run)
    lengths = np.full(len(names), minutes, np.int64)
    if cut == "whole":
        # A day for each job is more than it can wait for nodes to switch.
        work = np.add.reduceat(np.minimum(run, walltime) + MINUTES_A_DAY, begins)
        lengths = np.maximum.reduceat(submit, begins) + work
    first = np.append(begins, len(workload)).astype(np.int64)
    job_id, cores = workload.job_id.astype(np.int64), workload.processors
    # Users are numbered from 0 within each day.
    _, number = np.unique(np.stack([day, workload.user]), axis=1, return_inverse=True)
    number = number.reshape(-1).astype(np.int64)
    user = number - np.minimum.reduceat(number, begins)[day]
    return Days(tuple(names), first, lengths, job_id, submit, run, walltime, cores, user)


def _check(workload: Workload, log: IntArray) -> None:
    backwards = (np.diff(workload.submit_time) < 0) & (np.diff(log) == 0)
    if backwards.any():
        raise SimulationError(
            f"the jobs of {workload.name} are not sorted by submission",
            path=workload.source,
            hint="apply the cleaning rule 'sort_submits'",
        )
    if (workload.run_time < 0).any():
        raise SimulationError(
            f"{workload.name} has jobs without run time",
            path=workload.source,
            hint="apply the cleaning rule 'drop_never_started'",
        )
