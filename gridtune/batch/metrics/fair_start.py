"""Start-time unfairness against the fair start time of each job.

A job's *fair start time* is its start without any later submission (Sabin, Kochhar and Sadayappan, ICPP
2004): under the same policy, on the jobs submitted no later than it. A job that starts after that time was
delayed by later arrivals. Computing it takes a simulation for each job, so these figures are not among the
metrics of every schedule. On a long log, use a sample of jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridtune.core.schedules.schedule import Schedule
from gridtune.errors import MetricError
from gridtune.types import IntArray
from gridtune.workload.workload import Workload

__all__ = ["fair_start_times", "start_time_unfairness"]


@dataclass(frozen=True)
class _StartTimeUnfairness:
    """Delay of starts against fair starts.

    Attributes
    ----------
    jobs
        Number of jobs; the other fields are NaN if there are none.
    unfair_fraction
        Share of them that started after their fair start time; smaller is better.
    miss_mean
        Mean over all of them of the seconds by which a job started late, s; smaller is better.
    miss_max
        The largest of these, s; smaller is better.
    """

    jobs: int
    unfair_fraction: float
    miss_mean: float
    miss_max: float


def fair_start_times(
    workload: Workload,
    simulate: Callable[[Workload], Schedule],
    *,
    jobs: npt.ArrayLike | None = None,
) -> IntArray:
    """Return when jobs would have started without any later submission.

    Parameters
    ----------
    workload
        Ordered by submit time.
    simulate
        Runs the policy on a workload: ``lambda w: simulate(w, processors=338, order="sjf")``. A random
        policy must draw the same numbers at every call.
    jobs
        Rows of the jobs; by default all. Each distinct submit time among them costs a simulation.

    Returns
    -------
    numpy.ndarray
        Shape (len(jobs),), int64 s, on the workload's clock.

    Raises
    ------
    MetricError
        If the workload is not in order of submission.

    Notes
    -----
    Formula: FSTᵢ = start of i in the schedule of {j : qⱼ ≤ qᵢ}. Jobs of the same second do not count as
    later. Source: Sabin, Kochhar and Sadayappan, “Job fairness in non-preemptive job scheduling”, ICPP 2004.
    """
    submit = workload.submit_time
    if (submit[1:] < submit[:-1]).any():
        raise MetricError(
            "fair start times need a workload in order of submission", hint="clean it with `sort_submits`"
        )
    rows = np.arange(len(workload)) if jobs is None else np.asarray(jobs, dtype=np.int64)
    until = np.searchsorted(submit, submit[rows], side="right")
    fair = np.empty(len(rows), dtype=np.int64)
    for length in np.unique(until).tolist():
        schedule = simulate(workload.take(slice(0, length)))
        selected = until == length
        fair[selected] = schedule.start_time[rows[selected]]
    return fair


def start_time_unfairness(
    schedule: Schedule, fair_start: npt.ArrayLike, *, jobs: npt.ArrayLike | None = None
) -> _StartTimeUnfairness:
    """Compare a schedule's start times with fair ones.

    Parameters
    ----------
    schedule
        The schedule of all jobs.
    fair_start
        Shape (len(jobs),), s: from `fair_start_times`, or any other notion of a fair start.
    jobs
        The rows of `fair_start`; by default all.

    Returns
    -------
    StartTimeUnfairness
        Formulas: #{i : sᵢ > FSTᵢ} / n, Σ max(0, sᵢ − FSTᵢ) / n and max max(0, sᵢ − FSTᵢ).

    Raises
    ------
    MetricError
        If there are not as many fair start times as jobs.

    Notes
    -----
    Source: Sabin and Sadayappan, “Unfairness metrics for space-sharing parallel job schedulers”, JSSPP
    2005.
    """
    start = schedule.start_time if jobs is None else schedule.start_time[np.asarray(jobs, dtype=np.int64)]
    fair = np.asarray(fair_start, dtype=np.int64)
    if fair.shape != start.shape:
        raise MetricError(f"{len(fair)} fair start times for {len(start)} jobs")
    if not len(start):
        return _StartTimeUnfairness(0, math.nan, math.nan, math.nan)
    miss = np.maximum(start - fair, 0)
    return _StartTimeUnfairness(len(miss), float((miss > 0).mean()), float(miss.mean()), float(miss.max()))
