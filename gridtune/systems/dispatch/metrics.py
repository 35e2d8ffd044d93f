"""Measures of dispatched jobs: in time or how late, against a reference, and how well predicted."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridtune.core.measures import Measure, read_metrics
from gridtune.statistics.chances import area_under_roc, calibration_error, reliability
from gridtune.systems.dispatch.simulator.bounds import lower_bounds
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import DispatchReplay
from gridtune.types import IntArray

#: Every measure, by name.
DISPATCH_METRICS = read_metrics(__file__, Measure)


def measure_dispatch(
    jobs: DispatchJobs, machines: Machines, outcome: DispatchReplay, reference: DispatchReplay
) -> dict[str, float]:
    """Return every measure; NaN where it is not defined.

    Parameters
    ----------
    jobs, machines, outcome
        The jobs, the machines, and the results.
    reference
        The results of the same jobs, with the same random numbers, under the reference.
    """
    tested = jobs.batch >= 0
    late, late_there = tardiness(jobs, outcome)[tested], tardiness(jobs, reference)[tested]
    in_time, in_time_there = jobs.by_batch(late == 0), jobs.by_batch(late_there == 0)
    relative = _ratio(in_time, in_time_there)
    chance, good = outcome.chance[tested], late == 0
    predicted = ~np.isnan(chance)
    response_bound, tardiness_bound = lower_bounds(jobs, machines)
    values = {
        "tardiness_mean": late.mean(),
        "in_time_share": good.mean(),
        "relative_in_time_median": np.nanmedian(relative) if (~np.isnan(relative)).any() else np.nan,
        "relative_tardiness": _ratio(late.sum(), late_there.sum()),
        "relative_in_time_min": np.nanmin(relative) if (~np.isnan(relative)).any() else np.nan,
        "in_time": good.sum(),
        "tardiness_max": late.max(),
        "tardiness_p95": np.quantile(late, 0.95),
        "response_mean": (outcome.finish - jobs.submit)[tested].mean(),
        "tardiness_mean_bound": tardiness_bound,
        "response_mean_bound": response_bound,
        "overruled_share": outcome.overruled[tested].mean(),
        "aroc": area_under_roc(chance[predicted], good[predicted]),
        "brier": np.mean((chance - good)[predicted] ** 2) if predicted.any() else np.nan,
        "calibration_error": calibration_error(chance[predicted], good[predicted]),
        "moves": outcome.moves,
        "restarts": outcome.restarts,
        "jobs": tested.sum(),
        "batches": len(in_time),
    }
    return {name: float(value) for name, value in values.items()}


def dispatch_notes(
    jobs: DispatchJobs, outcome: DispatchReplay, reference: DispatchReplay, machines: int
) -> dict[str, Any]:
    """Return what tables and figures need besides the metrics: JSON-serialisable.

    Jobs, and jobs in time and mean tardiness of the run and its reference, by batch; the share of jobs that
    each machine got; and the reliability of chances, by tenths.
    """
    tested = jobs.batch >= 0
    late, late_there = tardiness(jobs, outcome)[tested], tardiness(jobs, reference)[tested]
    sizes = jobs.by_batch(np.ones(len(late), np.bool_))
    shares = np.bincount(outcome.machine[tested], minlength=machines) / max(1, tested.sum())
    chance = outcome.chance[tested]
    predicted = ~np.isnan(chance)
    bins = reliability(chance[predicted], (late == 0)[predicted])
    return {
        "jobs_by_batch": sizes.tolist(),
        "in_time_by_batch": jobs.by_batch(late == 0).tolist(),
        "reference_in_time_by_batch": jobs.by_batch(late_there == 0).tolist(),
        "tardiness_by_batch": (jobs.by_batch(late) / sizes).tolist(),
        "reference_tardiness_by_batch": (jobs.by_batch(late_there) / sizes).tolist(),
        "assignments": shares.tolist(),
        "reliability": {
            name: values.tolist() for name, values in zip(("chance", "in_time", "jobs"), bins, strict=True)
        },
    }


def tardiness(jobs: DispatchJobs, outcome: DispatchReplay) -> IntArray:
    """Return max(0, C − d) of each job, shape (n,)."""
    return np.maximum(0, outcome.finish - jobs.deadline)


def _ratio(over: Any, under: Any) -> Any:
    """Return a quotient; NaN where the reference is 0."""
    return np.where(np.equal(under, 0), np.nan, over / np.maximum(under, 1))
