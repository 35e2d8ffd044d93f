"""Lower bounds: what no policy can beat on these jobs and this machine, not even one that knows the future.

In a schedule without preemption, a job's processors are busy at the mean time eᵢ − rᵢ / 2. So the
area-weighted sum of the responses eᵢ − qᵢ is the work left to do, integrated over time, plus Σ aᵢ rᵢ / 2; and
a relaxation says how small the former can be.
"""

from __future__ import annotations

import math

import numpy as np

from gridtune.batch.metrics.columns import JobColumns
from gridtune.batch.metrics.registry import metric
from gridtune.batch.metrics.sources import GOEMANS_2002, PINEDO_2016

__all__: list[str] = []


@metric(
    "area_weighted_response_bound",
    unit="s",
    direction="none",
    formula="(∫ least work left at t dt + Σ aᵢ rᵢ / 2) / Σ aᵢ, under preemptive LRPT of single processors",
    source=f"{GOEMANS_2002}; {PINEDO_2016}",
    family="Bounds",
)
def area_weighted_response_bound(jobs: JobColumns) -> float:
    """Lower bound of the area-weighted response of these jobs under any policy, whatever it knows."""
    total = float(jobs.area.sum())
    if not total > 0:
        return math.nan
    # Here, because importing metrics imports no compiler.
    from gridtune.batch.simulator.relaxed import least_backlog  # noqa: PLC0415

    submit, run, processors = (
        np.ascontiguousarray(column) for column in (jobs.submit, jobs.run, jobs.processors)
    )
    backlog = least_backlog(submit, run, processors, jobs.schedule.processors)
    return (backlog + float(np.multiply(jobs.area, jobs.run, dtype=np.float64).sum()) / 2.0) / total
