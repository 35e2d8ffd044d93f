"""Means in which a job counts by the processor-seconds it uses.

Splitting a job into many, or joining many into one, hardly changes these metrics. So they cannot be improved
by favouring many small jobs over a few large ones, as plain means can.
"""

from __future__ import annotations

import numpy as np

from gridtune.batch.metrics.columns import TAU, JobColumns
from gridtune.batch.metrics.registry import metric
from gridtune.batch.metrics.sources import KRALLMANN_1999, STREIT_2004
from gridtune.types import FloatArray, IntArray

__all__: list[str] = []

FAMILY = "Weighted by area"


def _weighted(
    jobs: JobColumns,
    weights: IntArray,
    values: IntArray | FloatArray,
) -> float:
    # In floating point, as the products of long runs on large machines leave int64; and not as a dot
    # product, whose last bits depend on how many threads the linear algebra library may use.
    total = float(jobs.area.sum())
    return float(np.multiply(weights, values, dtype=np.float64).sum()) / total if total > 0 else float("nan")


@metric(
    "area_weighted_response",
    unit="s",
    direction="min",
    formula="Σ aᵢ (wᵢ + rᵢ) / Σ aᵢ",
    source=KRALLMANN_1999,
    family=FAMILY,
)
def area_weighted_response(jobs: JobColumns) -> float:
    """Mean response in which a job counts by its processor-seconds; NaN if none used any."""
    return _weighted(jobs, jobs.area, jobs.response)


@metric(
    "area_weighted_slowdown",
    unit="1",
    direction="min",
    formula="Σ aᵢ (wᵢ + rᵢ) / rᵢ / Σ aᵢ = Σ pᵢ (wᵢ + rᵢ) / Σ aᵢ",
    source=STREIT_2004,
    family=FAMILY,
)
def area_weighted_slowdown(jobs: JobColumns) -> float:
    """Mean slowdown in which a job counts by its processor-seconds; jobs without run time weigh nothing."""
    return _weighted(jobs, np.where(jobs.run > 0, jobs.processors, 0), jobs.response)


@metric(
    "area_weighted_bounded_slowdown",
    unit="1",
    direction="min",
    formula=f"Σ aᵢ max(1, (wᵢ + rᵢ) / max(rᵢ, τ)) / Σ aᵢ, τ = {TAU} s",
    source=STREIT_2004,
    family=FAMILY,
)
def area_weighted_bounded_slowdown(jobs: JobColumns) -> float:
    """Mean bounded slowdown in which a job counts by its processor-seconds."""
    return _weighted(jobs, jobs.area, jobs.bounded_slowdown)
