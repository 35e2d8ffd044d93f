"""Metrics of schedules.

`evaluate` computes them, `METRICS` lists them with unit, direction, formula and source, and `metric`
registers one of your own.
"""

# Importing a family registers its metrics, in the order in which tables show them.
from gridtune.batch.metrics import per_job, per_system, fairness, energy  # noqa: F401, I001
from gridtune.batch.metrics.columns import JobColumns
from gridtune.batch.metrics.registry import evaluate
from gridtune.batch.metrics.registry import METRICS, Metric, get_metric, metric

__all__ = ["METRICS", "JobColumns", "Metric", "evaluate", "get_metric", "metric"]
