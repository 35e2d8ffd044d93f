"""Metrics of a workflow that ran on slots or through the queue: its makespan and its cost.

A service unit (SU) is one processor for one hour. Changes are relative to best effort: the same workflow
submitted to the same queue at the same instant. At a price of 1, best effort has the least possible cost.
"""

from __future__ import annotations

import math

from gridtune.core.measures import Measure, read_metrics

#: Seconds.
HOUR = 3600

#: Every metric, by name.
PROVISIONING_METRICS = read_metrics(__file__, Measure)


def _change(value: float, reference: float) -> float:
    """Return value / reference − 1; NaN where the reference is 0 or one of them is not finite."""
    if reference == 0 or not (math.isfinite(value) and math.isfinite(reference)):
        return math.nan
    return value / reference - 1.0


def compare(
    makespan: float, cost: float, makespan_best_effort: float, cost_best_effort: float
) -> dict[str, float]:
    """Return the metrics of a submission beside those of best effort.

    Parameters
    ----------
    makespan, makespan_best_effort
        Seconds; NaN where there is none.
    cost, cost_best_effort
        Processor-seconds where one costs 1. Costs that differ by less than a part in 10⁹ count as equal.
    """
    undefined = math.isnan(makespan) or math.isnan(makespan_best_effort)
    shorter, cheaper = makespan <= makespan_best_effort, cost <= cost_best_effort * (1 + 1e-9)
    within_tenth = cost <= cost_best_effort * (1.1 + 1e-9)
    return {
        "workflow_makespan": makespan,
        "allocation_cost": cost / HOUR,
        "workflow_makespan_best_effort": makespan_best_effort,
        "allocation_cost_best_effort": cost_best_effort / HOUR,
        "workflow_makespan_change": _change(makespan, makespan_best_effort),
        "allocation_cost_change": _change(cost, cost_best_effort),
        "workflow_makespan_no_worse": math.nan if undefined else float(shorter),
        "cost_within_tenth": math.nan if undefined else float(within_tenth),
        "both_no_worse": math.nan if undefined else float(shorter and cheaper),
    }
