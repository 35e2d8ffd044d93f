"""Measures of a site under a scheduler: responsiveness by class, delays, fairness, utilisation, core-hours.

The first and the last jobs by submission are left out of every measure but the core-hours: a site fills at
the beginning and drains at the end. Decisions are those of the jobs that count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridtune.core.measure import Measure

if TYPE_CHECKING:
    from gridtune.systems.responsive.simulator.jobs import SiteJobs
    from gridtune.systems.responsive.simulator.outcome import SiteOutcome

__all__ = ["LEFT_OUT", "PROMPT", "RESPONSIVE_METRICS", "counted_jobs", "measure_site"]

Floats = npt.NDArray[np.float64]

#: Jobs left out at either end (Perez et al. 2009, section 4.1), and the largest share of all jobs that this
#: may be.
LEFT_OUT, LARGEST_LEFT_OUT = 500, 0.125
#: A delay that interactive users put up with, seconds (Perez et al. 2010, section 2.2).
PROMPT = 120


def _by_class(kind: str) -> dict[str, Measure]:
    return {
        f"{kind}_responsiveness": Measure("1", "max", f"mean W over {kind} jobs, W = run/(run + wait)"),
        f"{kind}_responsiveness_std": Measure("1", "min", f"standard deviation of W, {kind} jobs"),
        f"{kind}_above_09": Measure("1", "max", f"share of the {kind} jobs with W > 0.9"),
        f"{kind}_delay": Measure("s", "min", f"mean wait, {kind} jobs"),
        f"{kind}_delay_std": Measure("s", "min", f"standard deviation of the wait, {kind} jobs"),
        f"{kind}_prompt": Measure("1", "max", f"share of the {kind} jobs that wait less than 2 min"),
    }


#: Every measure by name.
RESPONSIVE_METRICS: Mapping[str, Measure] = MappingProxyType(
    {
        **_by_class("interactive"),
        **_by_class("batch"),
        "responsiveness": Measure("1", "max", "mean W over all jobs"),
        "fairness": Measure("1", "max", "mean F over decisions, F = 1 − maxₖ (wₖ − Sₖ)₊/maxₖ wₖ"),
        "fairness_least": Measure("1", "max", "least F of a decision"),
        "utilisation": Measure("1", "max", "mean U over decisions"),
        "utilisation_last": Measure("1", "max", "U at the last decision"),
        "rigid_reward": Measure("1", "max", "mean over jobs of R_s = λ·W + (1 − λ)·F"),
        "elastic_reward": Measure("1", "max", "mean over jobs of R_e = λ·W + (1 − λ)·U"),
        "core_hours": Measure(
            "core·h", "min", "pool's size integrated from the first to the last submission"
        ),
        "mean_pool": Measure("cores", "none", "mean size of the pool from the first to the last submission"),
        "jobs": Measure("jobs", "none", "jobs that count"),
        "jobs_interactive": Measure("jobs", "none", "interactive jobs that count"),
        "jobs_batch": Measure("jobs", "none", "batch jobs that count"),
    }
)


def counted_jobs(jobs: int, left_out: int | None = None) -> slice:
    """Return which jobs count, of so many by submission.

    Parameters
    ----------
    jobs
        How many there are.
    left_out
        How many do not count at either end. None: 500, but no more than an eighth of the jobs.
    """
    ends = min(LEFT_OUT, int(LARGEST_LEFT_OUT * jobs)) if left_out is None else left_out
    return slice(ends, max(jobs - ends, ends))


def measure_site(
    jobs: SiteJobs, outcome: SiteOutcome, *, weight: float, left_out: int | None = None
) -> dict[str, float]:
    """Return every measure; NaN of what there is none.

    Parameters
    ----------
    jobs, outcome
        Who came, and what became of them.
    weight
        λ, the weight of responsiveness in the rewards.
    left_out
        See `counted_jobs`.
    """
    chosen = counted_jobs(len(jobs), left_out)
    columns = _columns(jobs, outcome, chosen)
    wait, responsive = columns["wait"], columns["responsiveness"]
    fair, used = columns["fairness"], columns["utilisation"]
    measures: dict[str, float] = {"responsiveness": _of(np.mean, responsive)}
    for kind, number in (("interactive", 1), ("batch", 0)):
        mine = jobs.interactive[chosen] == number
        measures |= {
            f"{kind}_responsiveness": _of(np.mean, responsive[mine]),
            f"{kind}_responsiveness_std": _of(np.std, responsive[mine]),
            f"{kind}_above_09": _of(np.mean, responsive[mine] > 0.9),
            f"{kind}_delay": _of(np.mean, wait[mine]),
            f"{kind}_delay_std": _of(np.std, wait[mine]),
            f"{kind}_prompt": _of(np.mean, wait[mine] < PROMPT),
            f"jobs_{kind}": float(mine.sum()),
        }
    last = np.argmax(outcome.decision[chosen]) if len(wait) else 0
    return measures | {
        "fairness": _of(np.mean, fair),
        "fairness_least": _of(np.min, fair),
        "utilisation": _of(np.mean, used),
        "utilisation_last": float(used[last]) if len(wait) else np.nan,
        "rigid_reward": _of(np.mean, weight * responsive + (1.0 - weight) * fair),
        "elastic_reward": _of(np.mean, weight * responsive + (1.0 - weight) * used),
        "jobs": float(len(wait)),
        **_pool(jobs, outcome),
    }


def _columns(jobs: SiteJobs, outcome: SiteOutcome, chosen: slice) -> dict[str, Floats]:
    """Return, of each job that counts: its wait, W, and F and U of its decision."""
    wait = (outcome.start - jobs.submit)[chosen].astype(np.float64)
    run = jobs.run[chosen]
    decision = outcome.decision[chosen]
    return {
        "wait": wait,
        "responsiveness": run / (run + wait),
        "fairness": outcome.fairness[decision],
        "utilisation": outcome.utilisation[decision],
    }


def _pool(jobs: SiteJobs, outcome: SiteOutcome) -> dict[str, float]:
    from gridtune.systems.responsive.simulator.outcome import core_seconds  # noqa: PLC0415

    if len(jobs) == 0:
        return {"core_hours": np.nan, "mean_pool": np.nan}
    begin, end = int(jobs.submit[0]), int(jobs.submit[-1])
    area = core_seconds(outcome, begin, end)
    return {"core_hours": area / 3600, "mean_pool": area / (end - begin) if end > begin else np.nan}


def _of(summary: Callable[[Any], Any], values: npt.NDArray[Any]) -> float:
    return float(summary(values)) if len(values) else np.nan
