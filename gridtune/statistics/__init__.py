"""Statistics of comparisons: intervals, paired differences, Pareto fronts; independent of schedulers."""

from __future__ import annotations

from gridtune.statistics.dependence import effective_number, neighbour_correlation
from gridtune.statistics.inference import (
    PairedDifference,
    bootstrap_interval,
    interquartile_mean,
    paired_difference,
)
from gridtune.statistics.intervals import Interval, mean_interval
from gridtune.statistics.resampling import joint_paired_p_values, joint_sign_flip_p_values

__all__ = [
    "Interval",
    "PairedDifference",
    "bootstrap_interval",
    "effective_number",
    "interquartile_mean",
    "joint_paired_p_values",
    "joint_sign_flip_p_values",
    "mean_interval",
    "neighbour_correlation",
    "paired_difference",
]
