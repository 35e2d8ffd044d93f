"""Measures of a workflow that was run on slots, or by the queue: how long it took and what was paid.

A service unit (SU) is a processor for an hour. Changes are those of the provisioned workflow against the same
workflow submitted to the same queue at the same instant: of a price of 1, the queue's cost is the least there
can be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from gridtune.core.measure import Measure

__all__ = ["HOUR", "PROVISIONING_METRICS", "change", "compare"]

#: Seconds.
HOUR = 3600


#: Every measure by name.
PROVISIONING_METRICS: Mapping[str, Measure] = MappingProxyType(
    {
        "makespan": Measure("h", "min", "end of the last task − submission of the workflow"),
        "allocation_cost": Measure("SU", "min", "Σ price × processors × hours paid + fixed"),
        "makespan_best_effort": Measure(
            "h", "none", "end of the last task − submission, tasks sent to the queue"
        ),
        "allocation_cost_best_effort": Measure("SU", "none", "Σ processors × run time"),
        "makespan_change": Measure("1", "min", "makespan / that of best effort − 1, of the same submission"),
        "allocation_cost_change": Measure("1", "min", "allocation cost / that of best effort − 1"),
        "makespan_no_worse": Measure("1", "max", "1 if the makespan is at most best effort's, else 0"),
        "cost_within_tenth": Measure(
            "1", "max", "1 if the allocation cost is at most 1.1 × best effort's, else 0"
        ),
        "both_no_worse": Measure("1", "max", "1 if neither makespan nor cost is above best effort's, else 0"),
        "feasible": Measure("1", "max", "1 if a plan was found that holds all tasks, else 0"),
        "front": Measure("plans", "none", "plans that no other plan that was looked at dominates"),
        "hypervolume": Measure(
            "1",
            "max",
            "area that the front dominates, of the rectangle from (least cost, longest path) to (cost, 3 × "
            "makespan) of taking all slots",
        ),
        "evaluations": Measure("plans", "none", "plans that were looked at"),
        "feasible_plans": Measure("plans", "none", "distinct plans that were looked at and hold all tasks"),
        "slots": Measure("slots", "none", "slots on offer"),
        "slots_taken": Measure("slots", "none", "slots in the plan"),
        "offered_load": Measure("1", "none", "Σ processors × requested time / (site × time) of the log"),
        "utilisation": Measure(
            "1", "none", "share of the site that the log's jobs hold, over the times at which workflows come"
        ),
        "jobs": Measure("jobs", "none", "jobs of the log; 0 where slots are made at random"),
        "tasks": Measure("tasks", "none", "tasks of the workflow"),
    }
)


def change(value: float, reference: float) -> float:
    """Return value / reference − 1; NaN where the reference is 0 or one of them is not finite."""
    if reference == 0 or not (math.isfinite(value) and math.isfinite(reference)):
        return math.nan
    return value / reference - 1.0


def compare(makespan: float, cost: float, makespan_queue: float, cost_queue: float) -> dict[str, float]:
    """Return the measures of a submission beside those of best effort.

    Parameters
    ----------
    makespan, makespan_queue
        Seconds; NaN where there is none.
    cost, cost_queue
        Processor-seconds at a price of 1. Costs that differ by less than a part in 10⁹ count as equal.
    """
    unknown = math.isnan(makespan) or math.isnan(makespan_queue)
    shorter, cheaper = makespan <= makespan_queue, cost <= cost_queue * (1 + 1e-9)
    near = cost <= cost_queue * (1.1 + 1e-9)
    return {
        "makespan": makespan / HOUR,
        "allocation_cost": cost / HOUR,
        "makespan_best_effort": makespan_queue / HOUR,
        "allocation_cost_best_effort": cost_queue / HOUR,
        "makespan_change": change(makespan, makespan_queue),
        "allocation_cost_change": change(cost, cost_queue),
        "makespan_no_worse": math.nan if unknown else float(shorter),
        "cost_within_tenth": math.nan if unknown else float(near),
        "both_no_worse": math.nan if unknown else float(shorter and cheaper),
    }
