"""Recorded against simulated waits: errors, by class of job, and reasons why a log cannot be replayed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import rankdata

from gridtune.slurm.whatif import LoggedJobs
from gridtune.types import FloatArray, IntArray
from gridtune.workload.workload import Workload

__all__ = ["Agreement", "Trust", "diagnoses", "known_at", "utilisation"]

#: Whether advice on a log can be trusted: in figures, in signs, not at all.
Trust = Literal["yes", "signs only", "no"]

#: The errors up to which advice can be trusted: of the mean, of the median job, and the rank correlation.
_MEAN, _MEDIAN, _RANK = 0.07, 0.2, 0.7
#: The same for signs.
_ROUGH_MEAN, _ROUGH_RANK = 0.3, 0.5
#: Seconds below which a wait is none.
_NO_WAIT = 60


@dataclass(frozen=True)
class Agreement:
    """Errors of the replayed waits of some jobs against the recorded ones; seconds.

    Attributes
    ----------
    jobs
        Those with a recorded wait.
    recorded_mean, simulated_mean, recorded_median, simulated_median
        Of the waits.
    mean_error
        The simulated mean over the recorded one, less 1.
    median_error
        The median distance of a job's wait, that in the middle of all draws, from the recorded one.
    rank
        Spearman's rank correlation.
    """

    jobs: int
    recorded_mean: float
    simulated_mean: float
    recorded_median: float
    simulated_median: float
    mean_error: float
    median_error: float
    rank: float

    @staticmethod
    def of(recorded: IntArray, waits: FloatArray) -> Agreement:
        """Compare waits of shape (draws, jobs) with recorded ones, shape (jobs,); below 0 there is none."""
        stated = np.flatnonzero(recorded >= 0)
        real, drawn = recorded[stated].astype(np.float64), waits[:, stated]
        if not len(stated):
            return Agreement(0, *[np.nan] * 7)
        single = np.median(drawn, axis=0)
        ranks = [rankdata(values) for values in (real, single)]
        varied = all(np.ptp(values) > 0 for values in ranks)
        mean = float(real.mean())
        return Agreement(
            len(stated),
            mean,
            float(drawn.mean()),
            float(np.median(real)),
            float(np.median(single)),
            float(drawn.mean() / mean - 1) if mean > 0 else np.nan,
            float(np.median(np.abs(single - real))),
            float(np.corrcoef(ranks)[0, 1]) if varied else np.nan,
        )

    @property
    def trust(self) -> Trust:
        """Say whether advice can be trusted, by the errors of these jobs."""
        near = self.median_error <= max(_MEDIAN * self.recorded_median, _NO_WAIT)
        if abs(self.mean_error) <= _MEAN and near and self.rank >= _RANK:
            return "yes"
        rough = abs(self.mean_error) <= _ROUGH_MEAN and self.rank >= _ROUGH_RANK
        return "signs only" if rough else "no"

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in JSON's types; NaN as None."""
        return {name: None if math.isnan(value) else value for name, value in asdict(self).items()}


def known_at(workload: Workload, cut: int) -> Workload:
    """Return what was known of a log at an instant.

    Jobs submitted before it, of which those that ran then have the run time so far, and those that waited
    their time limit, without a recorded wait.
    """
    rows = np.flatnonzero(workload.submit_time < cut)
    part = workload.take(rows, name=f"{workload.name} to {cut}")
    submit, wait, run = part.submit_time, part.wait_time, part.run_time
    waiting = (wait < 0) | (submit + wait >= cut)
    running = ~waiting & (run >= 0) & (submit + wait + run > cut)
    columns = {name: column.copy() for name, column in part.columns.items()}
    columns["run_time"][running] = (cut - submit - wait)[running]
    columns["run_time"][waiting & (run >= 0)] = part.requested_time[waiting & (run >= 0)]
    columns["wait_time"][waiting] = -1
    for name in ("state", "status", "end_time", "used_memory", "average_cpu_time"):
        if name in columns:
            columns[name][waiting | running] = -1
    return Workload(columns, part.name, None, part.machine_processors, part.header, part.names)


def utilisation(jobs: LoggedJobs, processors: int) -> float:
    """Return the share of the processors that the jobs had from the first submission to the last start."""
    ran = [
        (one.submit + wait, one.run_time if one.run_time < 1 << 24 else one.time_limit, one.cpus)
        for one, wait in zip(jobs.requests, jobs.recorded.tolist(), strict=True)
        if wait >= 0
    ]
    if not ran:
        return np.nan
    start, run, cpus = np.array(ran, dtype=np.float64).T
    begin, end = min(one.submit for one in jobs.requests), start.max()
    inside = np.minimum(start + run, end) - start
    return float((inside * cpus).sum() / max(1.0, (end - begin) * processors))


def diagnoses(
    workload: Workload, jobs: LoggedJobs, processors: int, waits: FloatArray, *, partial: bool
) -> Iterator[str]:
    """Yield reasons why the waits of a log may not be those of a cluster.

    Parameters
    ----------
    workload, jobs
        The log, and those of its jobs that the cluster can run.
    processors
        Of the cluster.
    waits
        Replayed waits, shape (draws, jobs).
    partial
        True without a slurm.conf.
    """
    recorded = jobs.recorded[jobs.recorded >= 0]
    if not len(recorded):
        yield "the log records no waits: nothing can be compared"
        return
    used, mean = utilisation(jobs, processors), recorded.mean()
    if (waits < _NO_WAIT).mean() > 0.99 and mean > 10 * _NO_WAIT:
        yield (
            f"nothing ever waits here, but the log's jobs waited {_hours(mean)} on average: "
            "the machine is smaller than you say, or what they waited for is not in the log"
        )
    elif used < 0.5 and mean > 60 * _NO_WAIT and waits.mean() < 0.5 * mean:
        yield (
            f"{used:.0%} used beside a wait of {_hours(mean)}: the machine is smaller than you say, or jobs "
            "waited for limits, licences or one part of it"
        )
    if used > 1:
        yield f"the jobs used {used:.1f} times the processors there are: the machine is larger than you say"
    contents = workload.contents
    if contents.in_minutes:
        yield "most jobs ran longer than their time limits, but not as minutes: the limits are in minutes"
    elif contents.requests and contents.outlived > 0.2 * contents.requests:
        yield f"{contents.outlived:,} of {contents.requests:,} jobs ran longer than their time limits"
    if not contents.requests:
        yield "the log has no time limits: what backfill did cannot be known"
    elif contents.without_request > 0.1 * contents.jobs:
        yield f"{contents.without_request:,} of {contents.jobs:,} jobs have no time limit"
    held = int(contents.facts.get("holds", 0))
    if held:
        yield f"{held:,} jobs were held back for a while; their waits count from their release"
    if partial:
        yield (
            "without a slurm.conf the machine is one pool under first come, first served: no partitions, "
            "priorities or limits"
        )
        if len(np.unique(workload.column("partition"))) < 2 and len(np.unique(workload.user)) < 2:
            yield "the log has neither users nor partitions: no priority or limit can be told from it"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
