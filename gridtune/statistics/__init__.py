"""Statistics of comparisons: intervals, paired differences, Pareto fronts; independent of schedulers."""

from __future__ import annotations

from gridtune.statistics.inference import (
    Interval,
    PairedDifference,
    bootstrap_interval,
    interquartile_mean,
    paired_difference,
    probability_of_improvement,
)
from gridtune.statistics.significance import adjust_p_values, sign_flip_p_value

__all__ = [
    "Interval",
    "PairedDifference",
    "adjust_p_values",
    "bootstrap_interval",
    "interquartile_mean",
    "paired_difference",
    "probability_of_improvement",
    "sign_flip_p_value",
]
