"""The outcome on the real site: the waits that a log records."""

from __future__ import annotations

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.outcome import SiteOutcome
from gridtune.types import BoolArray, IntArray

__all__ = ["recorded_outcome"]


def recorded_outcome(jobs: SiteJobs, wait: IntArray, cores: int) -> SiteOutcome:
    """Return the outcome that the recorded waits describe, with F and U as of any other.

    The real site may have had another number of cores, and may have left some idle, so waits are not checked
    against `cores`.

    Parameters
    ----------
    jobs
        The jobs.
    wait
        Shape (n,), int64: recorded waits, seconds; a negative one is unknown and an error.
    cores
        Cores that the utilisation counts.
    """
    if len(wait) and wait.min() < 0:
        raise SimulationError(
            f"the log records no wait for {int((wait < 0).sum())} of {len(wait)} jobs", field="wait_time"
        )
    start = jobs.submit + wait
    order = np.argsort(start, kind="stable")
    decision = np.empty(len(jobs), np.int64)
    decision[order] = np.arange(len(jobs))
    time, end = start[order], start + jobs.run
    fairness, utilisation = np.ones(len(jobs)), np.zeros(len(jobs))
    begin = int(jobs.submit[0]) if len(jobs) else 0
    finished = np.concatenate([[0], np.cumsum(jobs.run[np.argsort(end, kind="stable")])])
    done = finished[np.searchsorted(np.sort(end), time, side="right")]
    area = cores * (time - begin)
    np.divide(done, area, out=utilisation, where=area > 0)
    received = np.stack(
        [_service(start, end, jobs.vo == vo, time) for vo in range(len(jobs.shares))], axis=1
    ).reshape(len(jobs), len(jobs.shares))
    total = received.sum(axis=1)
    served = total > 0
    deficit = jobs.shares - received[served] / total[served, None]
    fairness[served] = 1.0 - np.maximum(deficit.max(axis=1), 0.0) / jobs.shares.max()
    pool = np.full(len(jobs), cores, np.int64)
    paid = cores * (int(jobs.submit[-1]) - begin) if len(jobs) else 0
    track = np.zeros((0, 5), np.int64)
    return SiteOutcome(start, decision, time, pool, fairness, utilisation, cores, paid, 0, track)


def _service(start: IntArray, end: IntArray, mine: BoolArray, time: IntArray) -> IntArray:
    """Return the core-seconds that some jobs have received by each instant: Σ min(t, end) − min(t, start)."""

    def capped(moments: IntArray) -> IntArray:
        ordered = np.sort(moments)
        sums = np.concatenate([[0], np.cumsum(ordered)])
        before = np.searchsorted(ordered, time, side="right")
        return np.asarray(sums[before] + (len(ordered) - before) * time, np.int64)

    return capped(end[mine]) - capped(start[mine])
