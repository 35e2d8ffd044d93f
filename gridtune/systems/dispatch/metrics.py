"""Measures of dispatched jobs: in time or how late, against a reference, and how well predicted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gridtune.core.system import Measure, RenamedMetric
from gridtune.statistics.chances import area_under_roc, calibration_error, reliability
from gridtune.systems.dispatch.simulator.bounds import lower_bounds
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import DispatchReplay
from gridtune.types import IntArray

_PAPER = (
    "Vladušič, “Using the black-box approach with machine learning methods in order to improve job "
    "scheduling in GRID environments”"
)
_BAKER = "Baker and Trietsch, “Principles of Sequencing and Scheduling”, 2009, section 2.2"
_SCHRAGE = (
    "Schrage, “A proof of the optimality of the shortest remaining processing time discipline”, Operations "
    "Research 16, 1968"
)
_CHU = (
    "Chu, “A branch-and-bound algorithm to minimize total tardiness with different release dates”, Naval "
    "Research Logistics 39, 1992"
)
_BOUND = (
    "of at most ten jobs on machines that do not change the optimum; else ends of one preemptive machine as "
    "fast as all together, shortest remaining time first, and of jobs alone on the fastest machine"
)
_BATCHES = "jobs in time over those of the reference, by batch"

#: Every measure, by name. C: end, d: deadline, s: submission; p: predicted chance of ending in time.
DISPATCH_METRICS: Mapping[str, Measure] = MappingProxyType(
    {
        "tardiness_mean": Measure(
            "s", "min", "mean of max(0, C − d)", source=f"{_PAPER}, Table 6 (average tardiness)"
        ),
        "in_time_share": Measure("1", "max", "jobs with C ≤ d over jobs", source=f"{_PAPER}, section 2.2.2"),
        "relative_in_time_median": Measure(
            "1", "max", f"median of {_BATCHES}", source=f"{_PAPER}, Table 2 (each batch)"
        ),
        "relative_tardiness": Measure.own("1", "min", "mean tardiness over that of the reference"),
        "relative_in_time_min": Measure.own("1", "max", f"smallest of {_BATCHES}"),
        "in_time": Measure("jobs", "max", "jobs with C ≤ d", source=f"{_PAPER}, section 2.2.2"),
        "tardiness_max": Measure("s", "min", "largest max(0, C − d)", source=_BAKER),
        "tardiness_p95": Measure.own("s", "min", "95 % quantile of max(0, C − d)"),
        "response_mean": Measure("s", "min", "mean of C − s", source=f"{_BAKER} (flowtime)"),
        "tardiness_mean_bound": Measure("s", "none", f"lower bound of tardiness_mean: {_BOUND}", source=_CHU),
        "response_mean_bound": Measure(
            "s", "none", f"lower bound of response_mean: {_BOUND}", source=_SCHRAGE
        ),
        "overruled_share": Measure.own(
            "1", "none", "jobs that an assisting learner sent elsewhere than the selector, over jobs"
        ),
        "aroc": Measure(
            "1",
            "max",
            "area under the ROC curve of p against ending in time",
            source="Hanley and McNeil, “The meaning and use of the area under a receiver operating "
            "characteristic (ROC) curve”, Radiology 143, 1982",
        ),
        "brier": Measure(
            "1",
            "min",
            "mean of (p − [C ≤ d])²",
            source="Brier, “Verification of forecasts expressed in terms of probability”, Monthly Weather "
            "Review 78, 1950",
        ),
        "calibration_error": Measure(
            "1",
            "min",
            "mean over jobs of |mean p − share in time| of its tenth of p",
            source="Naeini, Cooper and Hauskrecht, “Obtaining well calibrated probabilities using Bayesian "
            "binning”, AAAI 2015 (expected calibration error)",
        ),
        "moves": Measure.own(
            "moves", "none", "times that a waiting job was moved to another machine, learning jobs too"
        ),
        "restarts": Measure.own("jobs", "none", "jobs restarted after failures, learning jobs too"),
        "jobs": Measure.own("jobs", "none", "jobs of all batches"),
        "batches": Measure.own("batches", "none", "batches"),
    }
)
RENAMED_METRICS: Mapping[str, RenamedMetric] = MappingProxyType(
    {
        "mean_tardiness": RenamedMetric("tardiness_mean"),
        "max_tardiness": RenamedMetric("tardiness_max"),
        "mean_response": RenamedMetric("response_mean"),
        "relative_in_time": RenamedMetric("relative_in_time_median"),
        "worst_relative_in_time": RenamedMetric("relative_in_time_min"),
    }
)


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
    bounds = lower_bounds(jobs, machines)
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
        "tardiness_mean_bound": bounds.tardiness_mean,
        "response_mean_bound": bounds.response_mean,
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
