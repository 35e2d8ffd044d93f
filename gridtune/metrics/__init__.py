"""What a schedule is worth, and whether a difference between two is real.

`evaluate` gives every registered metric of a schedule; `METRICS` holds them with unit, direction, formula
and source; `metric` registers one's own. `bootstrap_interval`, `paired_difference` and their like tell
how sure a comparison over replicates is.
"""

# Importing a family registers its metrics, in the order in which tables show them.
from gridtune.metrics import per_job, area_weighted, per_system, fairness  # noqa: F401, I001
from gridtune.metrics.columns import JobColumns
from gridtune.metrics.evaluation import evaluate
from gridtune.metrics.fair_start import StartTimeUnfairness, fair_start_times, start_time_unfairness
from gridtune.metrics.inference import (
    Interval,
    PairedDifference,
    bootstrap_interval,
    interquartile_mean,
    paired_difference,
    probability_of_improvement,
)
from gridtune.metrics.registry import METRICS, Metric, get_metric, metric, register_metric
from gridtune.metrics.significance import adjust_p_values, sign_flip_p_value

__all__ = [
    "METRICS",
    "Interval",
    "JobColumns",
    "Metric",
    "PairedDifference",
    "StartTimeUnfairness",
    "adjust_p_values",
    "bootstrap_interval",
    "evaluate",
    "fair_start_times",
    "get_metric",
    "interquartile_mean",
    "metric",
    "paired_difference",
    "probability_of_improvement",
    "register_metric",
    "sign_flip_p_value",
    "start_time_unfairness",
]
