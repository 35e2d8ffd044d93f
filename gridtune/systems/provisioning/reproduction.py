"""The experiments of the paper on provisioning, its tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gridtune.core.reproduction import (
    Experiment,
    GeneratedLog,
    Log,
    PaperFigure,
    PaperTable,
    Reading,
    Reproduction,
    TableRow,
)
from gridtune.systems.provisioning.claims import CLAIMS, COST, LOADS, MAKESPAN, change_to_best_effort

__all__ = ["REPRODUCTIONS"]

_CTC = "ctc-sp2-reconstructed"
#: As many processors as the paper's site has, and about its load: 20,000 jobs take four months.
_LOGS = {
    _CTC: Log(_CTC, GeneratedLog("lublin", jobs=20_000, seed=1, parameters={"processors": 430, "load": 0.66}))
}
#: As published; and the plans that a search must beat: the best of 40 of simple rules, and one of open slots.
_VARIANTS = {"workload": ["as published", "rules", "open slots"]}
#: Tasks of the smallest and the largest size, of the published approach alone.
_TWO_SIZES: Mapping[str, Sequence[Any]] = {
    "workload": ["as published"],
    "task_processors": [3, 30],
    "replicates.seeds": [10],
}


def _cybershake() -> PaperTable:
    columns = {
        "best effort, s": Reading("cybershake", "workflow_makespan", {"approach": "best_effort"}),
        "as published, change in %": change_to_best_effort("cybershake"),
        "rules, change in %": change_to_best_effort("cybershake", variant="rules"),
        "open slots, change in %": change_to_best_effort("cybershake", variant="open slots"),
        "cost as published, change in %": change_to_best_effort("cybershake", COST),
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
        for chance, load in LOADS.items()
    ]
    return PaperTable("CyberShake as the site fills", "section 6, figure 9", list(columns), rows)


def _trade_off_table() -> PaperTable:
    columns = {
        f"{variant}: {what}, change in %": (variant, metric)
        for variant in ("as published", "rules", "open slots")
        for what, metric in (("makespan", MAKESPAN), ("cost", COST))
    }
    rows = [
        TableRow.of(
            f"α = {alpha:g}",
            [
                change_to_best_effort("tradeoff", metric, variant, alpha=alpha)
                for variant, metric in columns.values()
            ],
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
                "slots": Experiment(
                    "search_spaces/provisioning_slots.yaml", quick={"replicates.seeds": [10]}
                ),
                "tradeoff": Experiment(
                    "search_spaces/provisioning_tradeoff.yaml",
                    settings=_VARIANTS,
                    quick={"alpha": [0, 0.5, 1], "replicates.seeds": [10]},
                    logs=_LOGS,
                ),
                "tasksize": Experiment(
                    "search_spaces/provisioning_tasksize.yaml",
                    settings=_VARIANTS,
                    quick=_TWO_SIZES,
                    logs=_LOGS,
                ),
                "utilisation": Experiment(
                    "search_spaces/provisioning_utilisation.yaml",
                    settings=_VARIANTS,
                    quick={**_TWO_SIZES, "copy_probability": [0, 0.37]},
                    logs=_LOGS,
                ),
                "cybershake": Experiment(
                    "search_spaces/provisioning_cybershake.yaml",
                    settings=_VARIANTS,
                    quick={"copy_probability": [0, 0.46], "replicates.seeds": [10]},
                    logs=_LOGS,
                ),
                "inflation": Experiment(
                    "search_spaces/provisioning_inflation.yaml",
                    settings={"workload": ["CyberShake", "100 tasks"]},
                    quick={"workload": ["CyberShake"], "replicates.seeds": [10]},
                    logs=_LOGS,
                ),
                "moga": Experiment("search_spaces/provisioning_moga.yaml", quick={"replicates.seeds": [10]}),
            },
            claims=CLAIMS,
            tables=[_cybershake(), _trade_off_table()],
            figures=_FIGURES,
            documents=[
                (name, "submissions.md")
                for name in ("slots", "tradeoff", "tasksize", "utilisation", "cybershake", "inflation")
            ],
        )
    }
)
