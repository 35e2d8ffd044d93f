"""A metric of schedules."""

from __future__ import annotations

import gridtune as gt
from gridtune.batch.metrics import JobColumns

__all__ = ["long_wait_fraction"]


@gt.metric(
    "long_wait_fraction",
    unit="1",
    direction="min",
    formula="#{ i : wᵢ > 3600 s } / n",
    source="gridtune-queue-demo, 2026",
    family="queue demo",
)
def long_wait_fraction(jobs: JobColumns) -> float:
    """Share of jobs that waited for more than an hour."""
    return float((jobs.wait > 3600).mean()) if len(jobs) else float("nan")
