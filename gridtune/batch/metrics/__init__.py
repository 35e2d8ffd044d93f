"""Metrics of schedules.

`evaluate` gives every registered metric of a schedule; `METRICS` holds them with unit, direction, formula
and source; `metric` registers one's own.
"""

# Importing a family registers its metrics, in the order in which tables show them.
from gridtune.batch.metrics import per_job, area_weighted, per_system, fairness  # noqa: F401, I001
from gridtune.batch.metrics.columns import JobColumns
from gridtune.batch.metrics.evaluation import evaluate
from gridtune.batch.metrics.fair_start import StartTimeUnfairness, fair_start_times, start_time_unfairness
from gridtune.batch.metrics.registry import METRICS, Metric, get_metric, metric, register_metric

__all__ = [
    "METRICS",
    "JobColumns",
    "Metric",
    "StartTimeUnfairness",
    "evaluate",
    "fair_start_times",
    "get_metric",
    "metric",
    "register_metric",
    "start_time_unfairness",
]
