"""What the paper on provisioning claims, and by which criteria that is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridtune.core.reproduction import Claim, Criterion, Reading

__all__ = ["CLAIMS", "COST", "LOADS", "MAKESPAN", "change_to_best_effort"]

MAKESPAN, COST = "workflow_makespan", "allocation_cost"
_PROVISIONED = {"approach": "provisioned"}
_SCHEDULERS = {"heft": "HEFT", "greedy": "Greedy", "min-min": "Min-Min", "max-min": "Max-Min"}
#: Chances of a second submission of each job, and the loads in % that they make of the CTC log.
LOADS = {0: 66, 0.087: 69, 0.18: 75, 0.273: 81, 0.367: 88, 0.46: 94, 0.49: 96}


def change_to_best_effort(
    experiment: str, metric: str = MAKESPAN, variant: str = "as published", **where: Any
) -> Reading:
    """Return the change of the mean to that of best effort at the same instants, in %."""
    selection = {"workload": variant, **_PROVISIONED, **where}
    return Reading(experiment, metric, selection, relation="change", reference=f"{metric}_best_effort")


def _trade_off() -> Iterator[Criterion]:
    for alpha in (0, 0.5, 1):
        yield Criterion(
            f"makespan at α = {alpha:g}, change to best effort",
            change_to_best_effort("tradeoff", alpha=alpha),
            at_most=0,
            unit="%",
        )
    for alpha in (0.5, 1):
        yield Criterion(
            f"cost at α = {alpha:g}, change to best effort",
            change_to_best_effort("tradeoff", COST, alpha=alpha),
            at_most=10,
            unit="%",
        )


def _growth(experiment: str, small: Mapping[str, Any], large: Mapping[str, Any]) -> Reading:
    where = {"workload": "as published", **_PROVISIONED, **small, **large}
    return Reading(experiment, "workflow_makespan_change", where, small, "difference", factor=100.0)


def _moga(points: int, mutation: int) -> dict[str, Any]:
    return {"population": 30, "iterations": 30, "crossover_points": points, "mutation": mutation}


CLAIMS = (
    Claim(
        "Plans of slots shorten workflows for every α, at little or no more cost",
        "section 5, figure 5",
        [*_trade_off()],
        "The paper gives no numbers; little is taken as 10 %.",
    ),
    Claim(
        "They shorten CyberShake by 23 % at 63 % load, and by 56 % at 94 %",
        "section 6, figure 9",
        [
            Criterion(
                "CyberShake's makespan, 66 % load (without second submissions), change to best effort",
                change_to_best_effort("cybershake", copy_probability=0),
                "cybershake/change_at_63",
                within=0.25,
            ),
            Criterion(
                "CyberShake's makespan, 94 % load, change to best effort",
                change_to_best_effort("cybershake", copy_probability=0.46),
                "cybershake/change_at_94",
                within=0.25,
            ),
            Criterion(
                "gain at 94 % less gain at 66 %, points of makespan",
                _growth("cybershake", {"copy_probability": 0}, {"copy_probability": 0.46}),
                published=-33,
                at_most=0,
                unit="%",
            ),
        ],
    ),
    Claim(
        "A multi-objective genetic search is what finds such plans",
        "sections 3 and 5",
        [
            Criterion(
                "makespan at α = ½, the search's change to the best of 40 plans of simple rules",
                Reading(
                    "tradeoff",
                    MAKESPAN,
                    {"workload": "as published", **_PROVISIONED, "alpha": 0.5},
                    {"workload": "rules"},
                    "change",
                ),
                at_most=0,
                unit="%",
            ),
            Criterion(
                "CyberShake at 94 % load, the search's change to one plan of all divisible slots",
                Reading(
                    "cybershake",
                    MAKESPAN,
                    {"workload": "as published", **_PROVISIONED, "copy_probability": 0.46},
                    {"workload": "open slots"},
                    "change",
                ),
                at_most=0,
                unit="%",
            ),
        ],
        "The rules and the one plan let tasks use several slots and release what is not used, which matters "
        "more than which slots are searched for.",
    ),
    Claim(
        "The gain grows with the processors that a task needs",
        "section 5, figure 6",
        [
            Criterion(
                f"makespan with 30 processors per task less that with 3, α = {alpha}, points",
                _growth("tasksize", {"task_processors": 3}, {"task_processors": 30, "alpha": alpha}),
                at_most=0,
                unit="%",
            )
            for alpha in (0, 1)
        ],
    ),
    Claim(
        "The gain grows with the load of the site",
        "section 5, figure 7",
        [
            Criterion(
                f"makespan at 88 % load less that at 66 %, {size} processors per task, points",
                _growth(
                    "utilisation",
                    {"copy_probability": 0},
                    {"copy_probability": 0.37, "task_processors": size},
                ),
                at_most=0,
                unit="%",
            )
            for size in (3, 30)
        ],
    ),
    Claim(
        "Requests that are 10 and 20 % too long cost 3 and 7.7 %",
        "section 7",
        [
            Criterion(
                f"CyberShake's makespan with a plan, requests {percent} % too long, change",
                Reading(
                    "inflation",
                    "workflow_makespan",
                    {"workload": "CyberShake", **_PROVISIONED, "inflation": percent / 100},
                    {"inflation": 0},
                    "change",
                ),
                f"inflation/requests_{percent}_too_long",
                within=0.5,
            )
            for percent in (10, 20)
        ],
    ),
    Claim(
        "The search meets 1,742 feasible plans and finds 40 that no other dominates",
        "section 3, figure 1",
        [
            Criterion(
                "slots on offer",
                Reading("slots", "slots", {"scheduler": "heft", "alpha": 0.4}),
                "slots/slots",
                within=0.05,
            ),
            Criterion(
                "feasible plans evaluated",
                Reading("slots", "feasible_plans", {"scheduler": "heft", "alpha": 0.4}),
                "slots/feasible_plans",
                within=0.15,
            ),
            Criterion(
                "plans on the front",
                Reading("slots", "front", {"scheduler": "heft", "alpha": 0.4}),
                "slots/front",
                within=0.5,
            ),
        ],
        "Many of the published plans must lie close together.",
    ),
    Claim(
        "HEFT finds most plans of the merged front",
        "section 3, figure 3",
        [
            Criterion(
                f"hypervolume, HEFT less {_SCHEDULERS[other]}",
                Reading(
                    "slots",
                    "hypervolume",
                    {"scheduler": "heft", "alpha": 0.4},
                    {"scheduler": other, "alpha": None},
                    "difference",
                ),
                at_least=0,
            )
            for other in ("greedy", "min-min", "max-min")
        ],
        "The figure below counts the plans.",
    ),
    Claim(
        "A larger population matters more than more iterations",
        "section 3",
        [
            Criterion(
                "hypervolume of 100 plans over 10 iterations less that of 10 over 100",
                Reading(
                    "moga",
                    "hypervolume",
                    {"population": 100, "iterations": 10},
                    {"population": 10, "iterations": 100},
                    "difference",
                ),
                at_least=0,
            )
        ],
    ),
    Claim(
        "Mutation helps, and two-point crossover is best",
        "section 3",
        [
            Criterion(
                "hypervolume with mutation less that without, two-point crossover",
                Reading("moga", "hypervolume", _moga(2, 1), {"mutation": 0}, "difference"),
                at_least=0,
            ),
            *(
                Criterion(
                    f"hypervolume of two-point less {name} crossover",
                    Reading("moga", "hypervolume", _moga(2, 1), {"crossover_points": points}, "difference"),
                    at_least=0,
                )
                for points, name in ((1, "one-point"), (3, "three-point"))
            ),
        ],
    ),
)
