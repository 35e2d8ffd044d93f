"""The jobs of a site: those of a log, with their classes and virtual organisations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gridtune.errors import SimulationError
from gridtune.types import FloatArray, IntArray
from gridtune.workload.workload import Workload

__all__ = ["SiteJobs", "build_jobs", "check_run_times", "check_sequential", "group_vos", "vo_of"]


#: Jobs that run for less are interactive, seconds (Perez et al. 2009, section 4.2).
INTERACTIVE_BELOW = 900


@dataclass(frozen=True)
class SiteJobs:
    """Sequential jobs in order of submission, and the target shares of their VOs; n jobs, V VOs.

    Attributes
    ----------
    submit, run
        Shape (n,), int64, seconds: submission, ascending, and run time, at least 1.
    vo
        Shape (n,), int64, from 0 up to V − 1.
    interactive
        Shape (n,), int64: 1 where interactive, 0 where batch.
    shares
        Shape (V,), float64: the target share of each VO; at least 0, and together 1.
    user
        Shape (n,), int64: its user, by any number; numbered from 0 here. None: each VO is one user.

    Raises
    ------
    SimulationError
        If the columns differ in length or a value is not allowed.
    """

    submit: IntArray
    run: IntArray
    vo: IntArray
    interactive: IntArray
    shares: FloatArray
    user: IntArray | None = None

    def __post_init__(self) -> None:
        user = self.vo if self.user is None else self.user
        object.__setattr__(self, "user", np.unique(user, return_inverse=True)[1])
        for name in ("submit", "run", "vo", "interactive", "user"):
            column = np.ascontiguousarray(getattr(self, name), np.int64)
            object.__setattr__(self, name, column)
            if column.shape != (len(self.submit),):
                raise SimulationError(
                    f"must have the shape {(len(self.submit),)}, but got {column.shape}", field=name
                )
        object.__setattr__(self, "shares", np.ascontiguousarray(self.shares, np.float64))
        self._check()

    def _check(self) -> None:
        if (np.diff(self.submit) < 0).any():
            raise SimulationError(
                "jobs must be in order of submission",
                field="submit",
                hint="the cleaning rule sort_submits, one of the default ones, sorts them",
            )
        check_run_times(self.run)
        if self.shares.ndim != 1 or len(self.shares) == 0 or not (self.shares >= 0).all():
            raise SimulationError("must be a share of at least 0 for each VO", field="shares")
        if abs(self.shares.sum() - 1) > 1e-6:
            raise SimulationError(f"must add up to 1, but got a sum of {self.shares.sum()}", field="shares")
        if len(self) and not (self.vo.min() >= 0 and self.vo.max() < len(self.shares)):
            raise SimulationError(f"must be numbers from 0 to {len(self.shares) - 1}", field="vo")
        if not np.isin(self.interactive, (0, 1)).all():
            raise SimulationError("must be 0 or 1", field="interactive")

    def __len__(self) -> int:
        return len(self.submit)

    def take(self, part: slice) -> SiteJobs:
        """Return consecutive jobs."""
        submit, run, vo, interactive, user = (column[part] for column in self.columns)
        return SiteJobs(submit, run, vo, interactive, self.shares, user)

    @property
    def columns(self) -> tuple[IntArray, ...]:
        """Submission, run time, VO, class and user, as the kernels take them."""
        assert self.user is not None
        return self.submit, self.run, self.vo, self.interactive, self.user


def group_vos(groups: IntArray, most: int) -> IntArray:
    """Return the groups that are VOs of their own, ascending: the `most` − 1 with most jobs.

    All others form the last VO. With no more than `most` groups, the group with the largest number is the
    last VO.
    """
    numbers, count = np.unique(groups, return_counts=True)
    if len(numbers) <= most:
        return np.asarray(numbers[:-1], np.int64)
    largest = numbers[np.argsort(-count, kind="stable")][: most - 1]
    return np.asarray(np.sort(largest), np.int64)


def vo_of(groups: IntArray, vos: IntArray) -> IntArray:
    """Return the VO of each group number: its place among `vos`; `len(vos)` for all others."""
    order = np.argsort(vos, kind="stable")
    if len(vos) == 0:
        return np.zeros(len(groups), np.int64)
    place = order[np.minimum(np.searchsorted(vos, groups, sorter=order), len(vos) - 1)]
    return np.where(vos[place] == groups, place, len(vos)).astype(np.int64)


def check_sequential(workload: Workload) -> None:
    """Refuse a log with jobs of more than one processor."""
    if len(workload) and workload.processors.max() > 1:
        wide = int((workload.processors > 1).sum())
        raise SimulationError(
            f"{wide} of {len(workload)} jobs of {workload.name} use more than one processor",
            field="trace",
            hint="this site runs sequential jobs: a log such as lcg-2005 or egee, or a partition of one",
        )


def check_run_times(run: IntArray) -> None:
    """Refuse jobs that run for less than a second: their W has no value."""
    if len(run) and run.min() < 1:
        raise SimulationError(
            f"a job must run for at least 1 s, but {int((run < 1).sum())} of {len(run)} jobs do not",
            field="run_time",
            hint="clean=default,raise_zero_run_time lets jobs of 0 s run for 1 s, "
            "clean=default,drop_zero_run_time leaves them out",
        )


def build_jobs(
    workload: Workload,
    *,
    vos: IntArray,
    shares: Sequence[float] | FloatArray,
    interactive_below: int = INTERACTIVE_BELOW,
) -> SiteJobs:
    """Return a log's jobs as jobs of a site, each on one core.

    Parameters
    ----------
    workload
        Sequential jobs; one that uses more than one processor is an error.
    vos
        The groups of the log (SWF field 13) that are VOs of their own; all others form the last VO.
    shares
        The target share of each VO, one more than `vos`.
    interactive_below
        Jobs that run for less are interactive, seconds.
    """
    check_sequential(workload)
    if len(shares) != len(vos) + 1:
        raise SimulationError(
            f"{len(vos)} VOs and the rest need {len(vos) + 1} shares, but got {len(shares)}", field="shares"
        )
    interactive = (workload.run_time < interactive_below).astype(np.int64)
    vo = vo_of(workload.group, vos)
    return SiteJobs(
        workload.submit_time, workload.run_time, vo, interactive, np.asarray(shares), workload.user
    )
