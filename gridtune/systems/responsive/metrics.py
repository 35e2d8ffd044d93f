"""Metrics of a site under a scheduler: responsiveness and wait by class, fairness, utilisation, core-hours.

The first and the last jobs by submission are left out of every metric but those of the pool, because a site
fills at the beginning and drains at the end. Decisions are those of the jobs that count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.core.measures import Measure, read_metrics
from gridtune.systems.responsive.simulator.replay import SiteReplay
from gridtune.systems.responsive.simulator.site import SiteJobs

#: Jobs left out at either end (Perez et al. 2009, section 4.1), and the largest share of all jobs that this
#: may be.
LEFT_OUT, LARGEST_LEFT_OUT = 500, 0.125
#: A wait that interactive users accept, seconds (Perez et al. 2010, section 2.2).
PROMPT = 120
#: Every measure, by name.
RESPONSIVE_METRICS = read_metrics(__file__, Measure)


def counted_jobs(jobs: int, left_out: int | None = None) -> slice:
    """Return which of `jobs` jobs, in order of submission, count.

    Parameters
    ----------
    left_out
        Number of jobs left out at either end. None: 500, but no more than an eighth of the jobs.
    """
    ends = min(LEFT_OUT, int(LARGEST_LEFT_OUT * jobs)) if left_out is None else left_out
    return slice(ends, max(jobs - ends, ends))


def measure_site(
    jobs: SiteJobs,
    outcome: SiteReplay,
    *,
    weight: float,
    left_out: int | None = None,
) -> dict[str, float]:
    """Return every measure; NaN where there is nothing to measure.

    Parameters
    ----------
    jobs, outcome
        The jobs, and when and how they were started.
    weight
        λ, the weight of responsiveness in the rewards.
    left_out
        See `counted_jobs`.
    """
    counted = counted_jobs(len(jobs), left_out)
    decision = outcome.decision[counted]
    fairness, utilisation = outcome.fairness[decision], outcome.utilisation[decision]
    run = jobs.run[counted]
    wait = (outcome.start - jobs.submit)[counted].astype(np.float64)
    responsiveness = run / (run + wait)
    measures: dict[str, float] = {
        "responsiveness_mean": _summary(np.mean, responsiveness),
        "responsiveness_std": _summary(np.std, responsiveness),
    }
    for kind, number in (("interactive", 1), ("batch", 0)):
        mine = jobs.interactive[counted] == number
        quality, waits = responsiveness[mine], wait[mine]
        measures |= {
            f"{kind}_responsiveness_mean": _summary(np.mean, quality),
            f"{kind}_responsiveness_std": _summary(np.std, quality),
            f"{kind}_responsiveness_above_09": _summary(np.mean, quality > 0.9),
            f"{kind}_responsiveness_p05": _percentile(quality, 5),
            f"{kind}_wait_mean": _summary(np.mean, waits),
            f"{kind}_wait_std": _summary(np.std, waits),
            f"{kind}_wait_below_120": _summary(np.mean, waits < PROMPT),
            f"{kind}_wait_p95": _percentile(waits, 95),
            f"{kind}_wait_p99": _percentile(waits, 99),
            f"{kind}_wait_max": _summary(np.max, waits),
            f"{kind}_jobs": float(mine.sum()),
        }
    return measures | {
        "fairness_mean": _summary(np.mean, fairness),
        "fairness_min": _summary(np.min, fairness),
        "utilisation_mean": _summary(np.mean, utilisation),
        "utilisation_last": float(utilisation[np.argmax(decision)]) if len(wait) else np.nan,
        "rigid_reward_mean": _summary(np.mean, weight * responsiveness + (1.0 - weight) * fairness),
        "elastic_reward_mean": _summary(np.mean, weight * responsiveness + (1.0 - weight) * utilisation),
        "jobs": float(len(wait)),
        **_pool_measures(jobs, outcome),
    }


def _pool_measures(jobs: SiteJobs, outcome: SiteReplay) -> dict[str, float]:
    if len(jobs) == 0:
        return {"core_hours": np.nan, "pool_mean": np.nan, "cost": np.nan, "boots": 0.0}
    begin, end = int(jobs.submit[0]), int(jobs.submit[-1])
    area = outcome.core_seconds
    left = int(np.minimum(np.maximum(outcome.start + jobs.run - end, 0), jobs.run).sum())
    return {
        "core_hours": area / 3600,
        "pool_mean": area / (end - begin) if end > begin else np.nan,
        "cost": (area + left) / 3600,
        "boots": float(outcome.boots),
    }


def _summary(statistic: Callable[[Any], Any], values: npt.NDArray[Any]) -> float:
    return float(statistic(values)) if len(values) else np.nan


def _percentile(values: npt.NDArray[Any], share: float) -> float:
    return _summary(lambda values: np.percentile(values, share), values)
