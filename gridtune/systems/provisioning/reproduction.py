"""The paper on provisioning: its published figures, claims, experiments, tables and figures.

G. Singh, C. Kesselman, E. Deelman, "A provisioning model and its comparison with best-effort for
performance-cost optimization in grids", HPDC 2007; on the log of CTC SP2 with 430 nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gridtune.core.reproduction import (
    Claim,
    Criterion,
    Deviation,
    Experiment,
    GeneratedLog,
    Log,
    PaperFigure,
    PaperTable,
    PublishedFigure,
    Reading,
    Reproduction,
    TableRow,
)

__all__ = ["PUBLISHED", "REPRODUCTIONS"]


_PAPER = "Singh, Kesselman, Deelman, HPDC 2007"
_FRONT = f"{_PAPER}, section 3, figure 1"
_REQUESTS = "change of CyberShake's makespan, requests {} % too long"
_GAIN = "change of the makespan by provisioning at {} % load"

#: By the search space `provisioning_<space>` that repeats the experiment, and the quantity: `space/quantity`.
PUBLISHED: Mapping[str, PublishedFigure] = MappingProxyType(
    {
        name: PublishedFigure(*figure)
        for name, figure in {
            "slots/slots": (f"{_PAPER}, section 3", "slots on offer", 124, "slots"),
            "slots/feasible_plans": (_FRONT, "feasible plans evaluated", 1742, "plans"),
            "slots/front": (_FRONT, "plans on the front", 40, "plans"),
            "slots/merged_front": (
                f"{_PAPER}, section 3, figure 3",
                "plans on the merged front, most of them of HEFT",
                39,
                "plans",
            ),
            "cybershake/best_effort": (
                f"{_PAPER}, section 6",
                "makespan of best effort at 63 % load",
                476_811,
                "s",
            ),
            "cybershake/change_at_63": (f"{_PAPER}, section 6", _GAIN.format(63), -23, "%"),
            "cybershake/change_at_94": (f"{_PAPER}, section 6", _GAIN.format(94), -56, "%"),
            "inflation/requests_10_too_long": (f"{_PAPER}, section 7", _REQUESTS.format(10), 3, "%"),
            "inflation/requests_20_too_long": (f"{_PAPER}, section 7", _REQUESTS.format(20), 7.7, "%"),
        }.items()
    }
)

_MAKESPAN, _COST = "workflow_makespan", "allocation_cost"
_PROVISIONED = {"approach": "provisioned"}
_SCHEDULERS = {"greedy": "Greedy", "min-min": "Min-Min", "max-min": "Max-Min"}
#: Chances of a second submission of each job, and the loads in % that they make of the CTC log.
_LOADS = {0: 66, 0.087: 69, 0.18: 75, 0.273: 81, 0.367: 88, 0.46: 94, 0.49: 96}
_HEFT = {"scheduler": "heft", "alpha": 0.4}
_MUTATED = {"population": 30, "iterations": 30, "crossover_points": 2, "mutation": 1}


def _change(experiment: str, metric: str = _MAKESPAN, variant: str = "as published", **where: Any) -> Reading:
    """Return the change of the mean to that of best effort at the same instants, in %."""
    selection = {"workload": variant, **_PROVISIONED, **where}
    return Reading(experiment, metric, selection, relation="change", reference=f"{metric}_best_effort")


def _variant(experiment: str, other: str, **where: Any) -> Reading:
    """Return the change of the makespan from another variant to the published one, in %."""
    selection = {"workload": "as published", **_PROVISIONED, **where}
    return Reading(experiment, _MAKESPAN, selection, {"workload": other}, "change")


def _growth(experiment: str, small: Mapping[str, Any], **large: Any) -> Reading:
    """Return by how much more the makespan changes in a large setting than in a small one, in points."""
    where = {"workload": "as published", **_PROVISIONED, **small, **large}
    return Reading(experiment, "workflow_makespan_change", where, small, "difference", factor=100.0)


def _volume(text: str, experiment: str, where: Mapping[str, Any], against: Mapping[str, Any]) -> Criterion:
    """Return the criterion that one hypervolume is at least another."""
    reading = Reading(experiment, "hypervolume", where, against, "difference")
    return Criterion(f"hypervolume{text}", reading, at_least=0)


def _no_more(text: str, reading: Reading, at_most: float = 0, **published: float) -> Criterion:
    """Return the criterion that a change in % is at most a limit."""
    return Criterion(text, reading, at_most=at_most, unit="%", **published)


_CLAIMS = (
    Claim(
        "Plans of slots shorten workflows for every α, at little or no more cost",
        "section 5, figure 5",
        [
            *(
                _no_more(
                    f"makespan at α = {alpha:g}, change to best effort", _change("tradeoff", alpha=alpha)
                )
                for alpha in (0, 0.5, 1)
            ),
            *(
                _no_more(
                    f"cost at α = {alpha:g}, change to best effort",
                    _change("tradeoff", _COST, alpha=alpha),
                    10,
                )
                for alpha in (0.5, 1)
            ),
        ],
        "The paper gives no numbers; little is taken as 10 %.",
    ),
    Claim(
        "They shorten CyberShake by 23 % at 63 % load, and by 56 % at 94 %",
        "section 6, figure 9",
        [
            Criterion(
                "CyberShake's makespan, 66 % load (without second submissions), change to best effort",
                _change("cybershake", copy_probability=0),
                "cybershake/change_at_63",
                within=0.25,
            ),
            Criterion(
                "CyberShake's makespan, 94 % load, change to best effort",
                _change("cybershake", copy_probability=0.46),
                "cybershake/change_at_94",
                within=0.25,
            ),
            _no_more(
                "gain at 94 % less gain at 66 %, points of makespan",
                _growth("cybershake", {"copy_probability": 0}, copy_probability=0.46),
                published=-33,
            ),
        ],
    ),
    Claim(
        "A multi-objective genetic search is what finds such plans",
        "sections 3 and 5",
        [
            _no_more(
                "makespan at α = ½, the search's change to the best of 40 plans of simple rules",
                _variant("tradeoff", "rules", alpha=0.5),
            ),
            _no_more(
                "CyberShake at 94 % load, the search's change to one plan of all divisible slots",
                _variant("cybershake", "open slots", copy_probability=0.46),
            ),
        ],
        "The rules and the one plan let tasks use several slots and release what is not used, which matters "
        "more than which slots are searched for.",
    ),
    Claim(
        "The gain grows with the processors that a task needs",
        "section 5, figure 6",
        [
            _no_more(
                f"makespan with 30 processors per task less that with 3, α = {alpha}, points",
                _growth("tasksize", {"task_processors": 3}, task_processors=30, alpha=alpha),
            )
            for alpha in (0, 1)
        ],
    ),
    Claim(
        "The gain grows with the load of the site",
        "section 5, figure 7",
        [
            _no_more(
                f"makespan at 88 % load less that at 66 %, {size} processors per task, points",
                _growth("utilisation", {"copy_probability": 0}, copy_probability=0.37, task_processors=size),
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
                    _MAKESPAN,
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
            Criterion(text, Reading("slots", metric, _HEFT), f"slots/{metric}", within=within)
            for text, metric, within in (
                ("slots on offer", "slots", 0.05),
                ("feasible plans evaluated", "feasible_plans", 0.15),
                ("plans on the front", "front", 0.5),
            )
        ],
        "Many of the published plans must lie close together.",
    ),
    Claim(
        "HEFT finds most plans of the merged front",
        "section 3, figure 3",
        [
            _volume(f", HEFT less {name}", "slots", _HEFT, {"scheduler": other, "alpha": None})
            for other, name in _SCHEDULERS.items()
        ],
        "The figure below counts the plans.",
    ),
    Claim(
        "A larger population matters more than more iterations",
        "section 3",
        [
            _volume(
                " of 100 plans over 10 iterations less that of 10 over 100",
                "moga",
                {"population": 100, "iterations": 10},
                {"population": 10, "iterations": 100},
            )
        ],
    ),
    Claim(
        "Mutation helps, and two-point crossover is best",
        "section 3",
        [
            _volume(
                " with mutation less that without, two-point crossover", "moga", _MUTATED, {"mutation": 0}
            ),
            _volume(" of two-point less one-point crossover", "moga", _MUTATED, {"crossover_points": 1}),
            _volume(" of two-point less three-point crossover", "moga", _MUTATED, {"crossover_points": 3}),
        ],
    ),
)

_CTC = "ctc-sp2-reconstructed"
#: As many processors as the paper's site has, and about its load: 20,000 jobs take four months.
_LOGS = {
    _CTC: Log(_CTC, GeneratedLog("lublin", jobs=20_000, seed=1, parameters={"processors": 430, "load": 0.66}))
}
#: As published; and the plans that a search must beat: the best of 40 of simple rules, and one of open slots.
_VARIANTS = {"workload": ["as published", "rules", "open slots"]}
_TEN: Mapping[str, Sequence[Any]] = {"replicates.seeds": [10]}
#: Tasks of the smallest and the largest size, of the published approach alone.
_TWO_SIZES: Mapping[str, Sequence[Any]] = {
    "workload": ["as published"],
    "task_processors": [3, 30],
    **_TEN,
}


def _cybershake() -> PaperTable:
    columns = {
        "best effort, s": Reading("cybershake", "workflow_makespan", {"approach": "best_effort"}),
        "as published, change in %": _change("cybershake"),
        "rules, change in %": _change("cybershake", variant="rules"),
        "open slots, change in %": _change("cybershake", variant="open slots"),
        "cost as published, change in %": _change("cybershake", _COST),
    }
    published: dict[tuple[float, int], str] = {
        (0, 0): "cybershake/best_effort",
        (0, 1): "cybershake/change_at_63",
        (0.46, 1): "cybershake/change_at_94",
    }
    rows = [
        TableRow.of(
            f"{load} % load",
            [
                replace(reading, where={"workload": "rules", **reading.where, "copy_probability": chance})
                for reading in columns.values()
            ],
            [published.get((chance, place)) for place in range(len(columns))],
        )
        for chance, load in _LOADS.items()
    ]
    return PaperTable("CyberShake as the site fills", "section 6, figure 9", list(columns), rows)


def _trade_off_table() -> PaperTable:
    columns = {
        f"{variant}: {what}, change in %": (variant, metric)
        for variant in ("as published", "rules", "open slots")
        for what, metric in (("makespan", _MAKESPAN), ("cost", _COST))
    }
    rows = [
        TableRow.of(
            f"α = {alpha:g}",
            [_change("tradeoff", metric, variant, alpha=alpha) for variant, metric in columns.values()],
        )
        for alpha in (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
    ]
    title = "A hundred tasks of 22 processors against best effort"
    return PaperTable(title, "figure 5, published without numbers", list(columns), rows)


_FIGURES = (
    PaperFigure(
        "All feasible plans that the search evaluated, and its front",
        "figure 1",
        "slots",
        "provisioning_plans.png",
        "Feasible plans between about 50 and 300 SU; the front falls steeply at first.",
    ),
    PaperFigure(
        "The plan chosen over α",
        "figure 2",
        "slots",
        "provisioning_choice.png",
        "With growing α the cost falls and the makespan rises.",
    ),
    PaperFigure(
        "Plans of the merged front by scheduler",
        "figure 3",
        "slots",
        "provisioning_schedulers.png",
        "Most plans are HEFT's, then Greedy's, Min-Min's and Max-Min's.",
    ),
    PaperFigure(
        "Makespan and cost over α, provisioned and best effort",
        "figure 5",
        "tradeoff",
        "provisioning_trade_off.png",
        "Provisioned makespans are below best effort for every α and vary less; costs are about the same.",
    ),
    PaperFigure(
        "Makespan and cost relative to best effort over the size of tasks",
        "figure 6",
        "tasksize",
        "provisioning_task_size.png",
        "The gain grows with the processors of a task.",
    ),
    PaperFigure(
        "Makespan and cost relative to best effort over the load",
        "figure 7",
        "utilisation",
        "provisioning_load_and_size.png",
        "The gain grows with the load and with the size of tasks.",
    ),
    PaperFigure(
        "CyberShake over the load",
        "figure 9",
        "cybershake",
        "provisioning_load.png",
        "Best effort rises steeply with the load, the provisioned makespan slowly.",
    ),
    PaperFigure(
        "Settings of the genetic search",
        "section 3",
        "moga",
        "provisioning_settings.png",
        "In words alone: the population matters more than iterations, two-point crossover is best, mutation "
        "helps.",
    ),
)

_CYBERSHAKE = "search_spaces/provisioning_cybershake.yaml:workloads.0"
_DEVIATIONS = (
    Deviation(
        "the log of CTC SP2 on 430 nodes, from 28 June 1996",
        "section 5",
        "the log as it was reconstructed from simulation outputs, all of it, on 430 processors",
        "the log itself cannot be had with a checksum to trust; other jobs, so compare tendencies, not hours",
        {
            f"{_CYBERSHAKE}.trace": _CTC,
            "search_spaces/provisioning_tradeoff.yaml:fixed.processors": 430,
        },
    ),
    Deviation(
        "loads of 63, 76 and 88 %",
        "section 5, figure 7",
        "66, 75 and 88 %, by second submissions of 0, 18 and 37 % of the jobs",
        "the reconstructed log alone has 66 %",
        {"search_spaces/provisioning_utilisation.yaml:dimensions.copy_probability": [0, 0.18, 0.37]},
    ),
    Deviation(
        "slots of several sites under conservative backfilling",
        "section 2, eq. 3",
        "one site with a queue; several with random slots",
        "the experiments have no more: four sites with random slots (section 3), one with a log (5 and 6)",
        {"offers": "site", "slot_sites": (10, 20, 30, 40)},
    ),
    Deviation(
        "rank and sharing of the genetic search: 'as in [16]'",
        "section 3",
        "ranks and niche counts of Fonseca and Fleming, stochastic universal sampling",
        "that MOGA is the one that the reference describes first",
        {
            "gridtune.systems.provisioning.search.genetic:shared_fitness": True,
            "gridtune.systems.provisioning.search.genetic:sample_universally": True,
        },
    ),
    Deviation(
        "crossover rate, and population and iterations except for CyberShake (10 × 10), are not given",
        "section 3",
        "0.9; 100 × 20 on random slots, 100 × 10 and 50 × 10 on the log",
        "some must be chosen; provisioning_moga has others, and provisioning_moga_tuned searches them",
        {
            "crossover_rate": 0.9,
            f"{_CYBERSHAKE}.population": 10,
            f"{_CYBERSHAKE}.iterations": 10,
            "search_spaces/provisioning_slots.yaml:fixed.population": 100,
            "search_spaces/provisioning_slots.yaml:fixed.iterations": 20,
            "search_spaces/provisioning_tradeoff.yaml:workloads.0.iterations": 10,
            "search_spaces/provisioning_utilisation.yaml:workloads.0.population": 50,
        },
    ),
    Deviation(
        "which processor a job gets is not said",
        "section 4",
        "the one that became free last",
        "that leaves as many divisible slots as possible",
        {"gridtune.systems.provisioning.simulator.reservations:earliest_fit": True},
    ),
    Deviation(
        "figure 4 is a drawing of three reservations and six slots",
        "section 4, figure 4",
        "a test that finds the six slots, and no drawing",
        "it illustrates the model; the hours of two reservations are ours, since the text has none",
        {"gridtune.systems.provisioning.simulator.site:Site": True},
    ),
    Deviation(
        "queues that know the dependencies of tasks, and let waiting tasks gain priority",
        "section 7",
        "the queue knows none: a task is submitted when its parents have ended",
        "the paper discusses them and measures none",
        {"gridtune.systems.provisioning.simulator.reservations:run_best_effort": True},
    ),
    Deviation(
        "the edges of CyberShake",
        "section 6, figure 8 and table 1",
        "tasks, levels and run times of table 1; both checks wait for both tasks above them",
        "the figure does not show the edges of the upper levels",
        {"gridtune.workload.workflows.generate:cybershake_workflow": True},
    ),
    Deviation(
        "figures 5 to 7 and 9 are printed without numbers",
        "sections 5 and 6",
        "claims are judged by sign; deviations over the 50 submissions are in submissions.md",
        "reading numbers off a drawing would add errors of its own",
        {"search_spaces/provisioning_tradeoff.yaml:replicates.seeds": 50},
    ),
)

REPRODUCTIONS: Mapping[str, Reproduction] = MappingProxyType(
    {
        "provisioning": Reproduction(
            title="Slots instead of a queue: provisioning for workflows",
            publications=[
                "G. Singh, C. Kesselman, E. Deelman, “A provisioning model and its comparison with "
                "best-effort for performance-cost optimization in grids”, HPDC 2007"
            ],
            data=(
                "The paper submits workflows to a site of 430 nodes with the log of CTC SP2. Ours is that "
                "log as it was reconstructed from simulation outputs, on 430 processors, where it offers "
                "66 % of the capacity; where it is not on the machine, a quick run takes a log that the "
                "model of Lublin and Feitelson generates with the same load. Replicates are instants of "
                "submission, or sets of slots."
            ),
            experiments={
                name: Experiment(f"search_spaces/provisioning_{name}.yaml", settings, quick, logs)
                for name, settings, quick, logs in (
                    ("slots", {}, _TEN, {}),
                    ("tradeoff", _VARIANTS, {"alpha": [0, 0.5, 1], **_TEN}, _LOGS),
                    ("tasksize", _VARIANTS, _TWO_SIZES, _LOGS),
                    ("utilisation", _VARIANTS, {**_TWO_SIZES, "copy_probability": [0, 0.37]}, _LOGS),
                    ("cybershake", _VARIANTS, {"copy_probability": [0, 0.46], **_TEN}, _LOGS),
                    (
                        "inflation",
                        {"workload": ["CyberShake", "100 tasks"]},
                        {"workload": ["CyberShake"], **_TEN},
                        _LOGS,
                    ),
                    ("moga", {}, _TEN, {}),
                )
            },
            claims=_CLAIMS,
            tables=[_cybershake(), _trade_off_table()],
            figures=_FIGURES,
            documents=[
                (name, "submissions.md")
                for name in ("slots", "tradeoff", "tasksize", "utilisation", "cybershake", "inflation")
            ],
            deviations=_DEVIATIONS,
        )
    }
)
