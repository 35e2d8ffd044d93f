"""Metrics of a site under a scheduler: responsiveness and wait by class, fairness, utilisation, core-hours.

The first and the last jobs by submission are left out of every metric but those of the pool, because a site
fills at the beginning and drains at the end. Decisions are those of the jobs that count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.core.system import Direction, Measure, RenamedMetric
from gridtune.systems.responsive.simulator.replay import SiteReplay
from gridtune.systems.responsive.simulator.site import SiteJobs

#: Jobs left out at either end (Perez et al. 2009, section 4.1), and the largest share of all jobs that this
#: may be.
LEFT_OUT, LARGEST_LEFT_OUT = 500, 0.125
#: A wait that interactive users accept, seconds (Perez et al. 2010, section 2.2).
PROMPT = 120
PEREZ_2009 = "Perez et al., “Responsive Elastic Computing”, GMAC 2009"
PEREZ_2010 = "Perez et al., ESN-FQ for grid scheduling, 2010"
FISHER = "Fisher 1981, doi 10.1287/mnsc.27.1.1"


_OF_W, _OF_WAIT = f"{PEREZ_2009}, eq. 1 and section 5.2", f"{PEREZ_2009}, section 5.2 (queuing delay)"
_OF_PROMPT = f"{PEREZ_2010}, sections 2.2 and 5.2"
#: The measures of a class of jobs: name, unit, goal, formula and source.
_OF_CLASS: tuple[tuple[str, str, Direction, str, str], ...] = (
    ("responsiveness_mean", "1", "max", "mean W over {} jobs, W = run/(run + wait)", _OF_W),
    ("responsiveness_std", "1", "min", "standard deviation of W over {} jobs", _OF_W),
    ("responsiveness_above_09", "1", "max", "#{{{0} jobs with W > 0.9}} / #{{{0} jobs}}", _OF_W),
    ("wait_mean", "s", "min", "mean wait over {} jobs", _OF_WAIT),
    ("wait_std", "s", "min", "standard deviation of the wait over {} jobs", _OF_WAIT),
    ("wait_below_120", "1", "max", "#{{{0} jobs with a wait below 120 s}} / #{{{0} jobs}}", _OF_PROMPT),
    ("wait_p95", "s", "min", "95th percentile of the wait over {} jobs", "gridtune"),
    ("wait_p99", "s", "min", "99th percentile of the wait over {} jobs", "gridtune"),
    ("wait_max", "s", "min", "longest wait over {} jobs", "gridtune"),
)
_F = "F = 1 − maxₖ (wₖ − Sₖ)₊/maxₖ wₖ"
_U = "U = run time of the completed jobs / core-seconds of the pool"
_OF_F, _OF_U = f"{PEREZ_2009}, eq. 2", f"{PEREZ_2009}, eq. 3"
_OF_REWARD = f"{PEREZ_2009}, section 3.2"
#: Every measure by name.
RESPONSIVE_METRICS: Mapping[str, Measure] = MappingProxyType(
    {
        **{
            f"{kind}_{name}": Measure(unit, goal, formula.format(kind), source=source)
            for kind in ("interactive", "batch")
            for name, unit, goal, formula, source in _OF_CLASS
        },
        "responsiveness_mean": Measure("1", "max", "mean W over all jobs", source=f"{PEREZ_2009}, eq. 1"),
        "responsiveness_std": Measure(
            "1", "min", "standard deviation of W over all jobs", source=f"{PEREZ_2010}, table 2"
        ),
        "responsiveness_mean_bound": Measure(
            "1",
            "none",
            "1 − max_λ (Σⱼ min_s [1 − Wⱼ(s) + ∫ₛ λ] − P ∫ λ)/n: no order has more (with bound=true)",
            source=FISHER,
        ),
        "fairness_mean": Measure("1", "max", f"mean F over decisions, {_F}", source=_OF_F),
        "fairness_min": Measure("1", "max", "min F over decisions", source=_OF_F),
        "utilisation_mean": Measure("1", "max", f"mean U over decisions, {_U}", source=_OF_U),
        "utilisation_last": Measure("1", "max", "U at the last decision", source=_OF_U),
        "rigid_reward_mean": Measure(
            "1", "max", "mean over jobs of R_s = λ·W + (1 − λ)·F", source=_OF_REWARD
        ),
        "elastic_reward_mean": Measure(
            "1", "max", "mean over jobs of R_e = λ·W + (1 − λ)·U", source=_OF_REWARD
        ),
        "core_hours": Measure.own(
            "core·h", "min", "∫ pool(t) dt / 3600, from the first to the last submission"
        ),
        "pool_mean": Measure.own(
            "cores", "none", "∫ pool(t) dt / (q₂ − q₁), over [q₁, q₂), the first and the last submission"
        ),
        "cost": Measure.own(
            "core·h",
            "min",
            "core_hours + core-seconds of jobs after the last submission / 3600: then only cores in use are "
            "paid for",
        ),
        "boots": Measure.own("cores", "min", "number of cores that were ordered"),
        "jobs": Measure.own("jobs", "none", "number of jobs that count"),
        "interactive_jobs": Measure.own("jobs", "none", "number of interactive jobs that count"),
        "batch_jobs": Measure.own("jobs", "none", "number of batch jobs that count"),
    }
)
_RENAMED_BY_CLASS = {
    "{}_responsiveness": "{}_responsiveness_mean",
    "{}_above_09": "{}_responsiveness_above_09",
    "{}_delay": "{}_wait_mean",
    "{}_delay_std": "{}_wait_std",
    "{}_prompt": "{}_wait_below_120",
    "jobs_{}": "{}_jobs",
}
_RENAMED = {
    **{
        old.format(kind): new.format(kind)
        for kind in ("interactive", "batch")
        for old, new in _RENAMED_BY_CLASS.items()
    },
    **{
        name: f"{name}_mean"
        for name in ("responsiveness", "fairness", "utilisation", "rigid_reward", "elastic_reward")
    },
    "fairness_least": "fairness_min",
    "mean_pool": "pool_mean",
}
#: Names of metrics in older results to what they are called now.
RENAMED_METRICS: Mapping[str, RenamedMetric] = MappingProxyType(
    {old: RenamedMetric(new) for old, new in _RENAMED.items()}
)


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
        measures |= {
            f"{kind}_responsiveness_mean": _summary(np.mean, responsiveness[mine]),
            f"{kind}_responsiveness_std": _summary(np.std, responsiveness[mine]),
            f"{kind}_responsiveness_above_09": _summary(np.mean, responsiveness[mine] > 0.9),
            f"{kind}_wait_mean": _summary(np.mean, wait[mine]),
            f"{kind}_wait_std": _summary(np.std, wait[mine]),
            f"{kind}_wait_below_120": _summary(np.mean, wait[mine] < PROMPT),
            f"{kind}_wait_p95": _summary(lambda waits: np.percentile(waits, 95), wait[mine]),
            f"{kind}_wait_p99": _summary(lambda waits: np.percentile(waits, 99), wait[mine]),
            f"{kind}_wait_max": _summary(np.max, wait[mine]),
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
