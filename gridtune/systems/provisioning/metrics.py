"""Metrics of a workflow that ran on slots or through the queue: its makespan and its cost.

A service unit (SU) is one processor for one hour. Changes are relative to best effort: the same workflow
submitted to the same queue at the same instant. At a price of 1, best effort has the least possible cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from gridtune.batch.metrics.bundled import SOURCES
from gridtune.core.system import Direction, Measure, RenamedMetric

#: Seconds.
HOUR = 3600

_SINGH = "Singh, Kesselman, Deelman, HPDC 2007"
_ZITZLER = "Zitzler, Thiele, PPSN V, 1998, with the rectangle chosen by gridtune"

_BOUNDS = "Fernández, Bussell, IEEE TC C-22(8), 1973; Fekete, Schepers, Mathematical Programming 91, 2001"


def _published(unit: str, direction: Direction, formula: str, place: str) -> Measure:
    return Measure(unit, direction, formula, source=f"{_SINGH}, {place}")


#: Every metric by name.
PROVISIONING_METRICS: Mapping[str, Measure] = MappingProxyType(
    {
        "workflow_makespan": _published(
            "s", "min", "end of the last task − submission of the workflow", "equation 5"
        ),
        "allocation_cost": _published("SU", "min", "Σ price × processors × hours paid + fixed", "equation 4"),
        "workflow_makespan_bound": Measure(
            "s",
            "none",
            "max(critical path from the first instants at which tasks fit, area ⌊p / w⌋ between instants in "
            "what is free): no plan on the slots on offer takes less, nor does best effort",
            source=_BOUNDS,
        ),
        "allocation_cost_bound": Measure.own(
            "SU", "none", "Σ processors × run time × price, each task where that is least: no plan costs less"
        ),
        "workflow_makespan_best_effort": _published(
            "s",
            "none",
            "end of the last task − submission, each task submitted when its parents have ended",
            "section 5",
        ),
        "allocation_cost_best_effort": _published(
            "SU", "none", "Σ price × processors × run time", "equation 9"
        ),
        "workflow_makespan_change": _published(
            "1",
            "min",
            "makespan / that of best effort − 1, of the same submission",
            "section 6, which states it in percent",
        ),
        "allocation_cost_change": _published(
            "1",
            "min",
            "allocation cost / that of best effort − 1",
            "figures 6 and 7, which show the ratio in percent",
        ),
        "workflow_makespan_no_worse": Measure.own(
            "1", "max", "1 if the makespan is at most that of best effort, else 0"
        ),
        "cost_within_tenth": Measure.own(
            "1", "max", "1 if the allocation cost is at most 1.1 × that of best effort, else 0"
        ),
        "both_no_worse": Measure.own(
            "1", "max", "1 if neither makespan nor cost is above that of best effort, else 0"
        ),
        "feasible": _published("1", "max", "1 if a plan was found that holds all tasks, else 0", "section 2"),
        "front": _published(
            "plans", "none", "evaluated plans that no other evaluated plan dominates", "section 3"
        ),
        "hypervolume": Measure(
            "1",
            "max",
            "area that the front dominates, of the rectangle from (least cost, critical path) to (cost, 3 × "
            "makespan) of taking all slots",
            source=_ZITZLER,
        ),
        "evaluations": _published("plans", "none", "plans evaluated", "section 3"),
        "feasible_plans": _published(
            "plans", "none", "distinct plans evaluated that hold all tasks", "section 3, figure 1"
        ),
        "slots": _published("slots", "none", "slots on offer", "section 2"),
        "slots_taken": _published("slots", "none", "slots in the plan", "section 2"),
        "offered_load": Measure(
            "1",
            "none",
            "Σ processors × requested time / (site × time) of the log",
            source=SOURCES["FEITELSON_1998"],
        ),
        "utilisation": _published(
            "1",
            "none",
            "share of the site that the log's jobs hold, over the times at which workflows are submitted",
            "section 5",
        ),
        "jobs": Measure.own("jobs", "none", "jobs of the log; 0 where slots are random"),
        "tasks": Measure.own("tasks", "none", "tasks of the workflow"),
    }
)

#: Metrics of older results; makespans were in hours.
RENAMED_METRICS: Mapping[str, RenamedMetric] = MappingProxyType(
    {
        "makespan": RenamedMetric("workflow_makespan", HOUR),
        "makespan_best_effort": RenamedMetric("workflow_makespan_best_effort", HOUR),
        "makespan_change": RenamedMetric("workflow_makespan_change"),
        "makespan_no_worse": RenamedMetric("workflow_makespan_no_worse"),
    }
)


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
