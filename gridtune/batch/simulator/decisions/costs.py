"""Metrics that are sums over jobs, as costs that grow while a job waits: they can reward single steps."""

from __future__ import annotations

import numpy as np

from gridtune.batch.metrics.columns import TAU
from gridtune.batch.simulator.decisions.state import Costs
from gridtune.types import IntArray

__all__ = ["STEPWISE", "job_costs"]


#: The metrics that `job_costs` knows.
STEPWISE = (
    "wait_mean",
    "response_mean",
    "slowdown_mean",
    "bounded_slowdown_mean",
    "processor_bounded_slowdown_mean",
    "stretch_mean",
    "area_weighted_response",
    "area_weighted_slowdown",
    "area_weighted_bounded_slowdown",
)


def job_costs(metric: str | None, run: IntArray, requested: IntArray, processors: IntArray) -> Costs:
    """Return the costs whose sum over a window's jobs, once all have started, is the metric.

    Parameters
    ----------
    metric
        One of `STEPWISE`; None for no costs at all.
    run
        Shape (n,), int64: seconds that each job really takes.
    requested, processors
        Shape (n,), int64: seconds that its user asked for, and its width.
    """
    one, none = np.ones(len(run)), np.zeros(len(run))
    if metric is None:
        return Costs(none, none.copy(), none.copy(), none.copy())
    length, width = run.astype(np.float64), processors.astype(np.float64)
    bounded, area = np.maximum(length, TAU), length * width
    ran, stated = length > 0, requested > 0
    columns = {
        "wait_mean": (one, none, none, one),
        "response_mean": (one, length, none, one),
        "slowdown_mean": (np.where(ran, 1 / np.maximum(length, 1), 0), length, none, 1.0 * ran),
        "bounded_slowdown_mean": (1 / bounded, length, bounded, one),
        "processor_bounded_slowdown_mean": (1 / (width * bounded), length, width * bounded, one),
        "stretch_mean": (np.where(stated, 1 / np.maximum(requested, 1), 0), none, none, 1.0 * stated),
        "area_weighted_response": (area, length, none, area),
        "area_weighted_slowdown": (np.where(ran, width, 0), length, none, area),
        "area_weighted_bounded_slowdown": (area / bounded, length, bounded, area),
    }
    # Each its own writable array: kernels are compiled for those.
    return Costs(*(np.array(column, np.float64) for column in columns[metric]))
