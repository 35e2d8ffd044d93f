"""Metrics of schedules.

`evaluate` computes them, `METRICS` lists them with unit, direction, formula and source, and `metric`
registers one of your own.
"""

from gridtune.batch.metrics import bundled  # noqa: F401  (registers the metrics that come with gridtune)
from gridtune.batch.metrics.columns import JobColumns
from gridtune.batch.metrics.registry import METRICS, Metric, evaluate, metric

__all__ = ["METRICS", "JobColumns", "Metric", "evaluate", "metric"]
