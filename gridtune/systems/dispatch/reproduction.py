"""The experiments of the paper on classifiers that choose machines, its tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from types import MappingProxyType

from gridtune.core.reproduction import Experiment, PaperFigure, PaperTable, Reading, Reproduction, TableRow
from gridtune.systems.dispatch.claims import (
    AFTER_CHANGE,
    CLAIMS,
    LEARNERS,
    SELECTORS,
    SHARED_QUEUE,
    after_change,
    assisted,
    published_after,
    published_ratio,
    tardiness,
    tardiness_ratio,
)
from gridtune.systems.dispatch.published import TABLE_2

__all__ = ["REPRODUCTIONS"]

_OURS = "one shared queue (ours)"
#: The paper's learners, and the one of ours that learns speeds.
_ASSISTANTS = {**LEARNERS, "drain": "drain (ours)"}


def _assistance() -> PaperTable:
    rows = [
        TableRow.of(
            name,
            [assisted(rule, learner) for rule in SELECTORS],
            [median(TABLE_2[rule, learner]) if learner in LEARNERS else None for rule in SELECTORS],
        )
        for learner, name in _ASSISTANTS.items()
    ]
    queue = [
        Reading(
            "assist",
            "in_time_share",
            {"mode": None, "learner": None, **SHARED_QUEUE},
            {"mode": "alone", "rule": rule, "speeds": None},
            "ratio",
        )
        for rule in SELECTORS
    ]
    return PaperTable(
        "Jobs in time with an assistant over without",
        "table 2; medians over batches",
        list(SELECTORS.values()),
        [*rows, TableRow.of(_OURS, queue)],
    )


def _recovery(when: str, part: tuple[int, int]) -> PaperTable:
    rows = [
        TableRow.of(
            name,
            [after_change(rule, learner, part) for rule in SELECTORS],
            [published_after(rule, learner, part) for rule in SELECTORS] if learner in LEARNERS else (),
        )
        for learner, name in _ASSISTANTS.items()
    ]
    queue = [
        Reading(
            "change",
            "in_time_by_batch",
            {"mode": None, "learner": None, "change_after": 2, **SHARED_QUEUE},
            {"mode": "alone", "rule": rule, "speeds": None},
            "ratio",
            part=part,
        )
        for rule in SELECTORS
    ]
    return PaperTable(
        f"Jobs in time with an assistant over without, all machines change after batch 2: {when}",
        "table 5",
        list(SELECTORS.values()),
        [*rows, TableRow.of(_OURS, queue)],
    )


def _direct() -> PaperTable:
    names = {"j48": "J48", "naive_bayes": "naive Bayes", "edd": "EDD + tabu", "erd": "ERD + tabu"}
    rows = [
        TableRow.of(
            name,
            [tardiness("direct", dispatcher), tardiness_ratio("direct", dispatcher, "erd")],
            [None, published_ratio(dispatcher, "erd") if dispatcher != "shared_queue" else None],
        )
        for dispatcher, name in {**names, "shared_queue": _OURS}.items()
    ]
    return PaperTable(
        "Mean tardiness; the paper does not name its unit",
        "table 6",
        ["mean tardiness, s", "over ERD + tabu"],
        rows,
    )


_FIGURES = (
    PaperFigure(
        "Learning from nothing, run by run",
        "figure 4",
        "incremental",
        "learning.png",
        "J48 starts far above and is level with EDD + tabu from run 14 on; naive Bayes is erratic. Each dot "
        "is a mean of ten runs.",
    ),
    PaperFigure(
        "Jobs in time by batch when all machines change after the second",
        "table 5",
        "change",
        "recovery.png",
        "A dip in batch 3 with most selectors and learners, and a recovery in batches 4 and 5.",
    ),
)

REPRODUCTIONS: Mapping[str, Reproduction] = MappingProxyType(
    {
        "dispatch": Reproduction(
            title="Classifiers that choose the machine",
            publications=[
                "M. Vladušič, “Using the black-box approach with machine learning methods in order to "
                "improve job scheduling in GRID environments”"
            ],
            data=(
                "The paper draws its jobs, and so do we: lengths, arrivals and deadlines by its rules, "
                "machines with its speeds. What it does not say of its generator we chose; how long jobs "
                "are to their deadlines decides whether EDD or ERD is ahead. Replicates draw other jobs, "
                "the same for all dispatchers."
            ),
            experiments={
                "assist": Experiment(
                    "search_spaces/dispatch_assist.yaml",
                    quick={
                        "learner": ["j48", "naive_bayes", "lwl", "drain"],
                        "set_aside": [False],
                        "speeds": ["nominal"],
                        "replicates.seeds": [5],
                    },
                ),
                "change": Experiment(
                    "search_spaces/dispatch_change.yaml",
                    quick={"change_after": [2], "speeds": ["nominal"], "replicates.seeds": [5]},
                ),
                "direct": Experiment(
                    "search_spaces/dispatch_direct.yaml",
                    quick={
                        "rule": ["erd", "edd", "shared_queue"],
                        "speeds": ["nominal"],
                        "learner": ["j48", "naive_bayes"],
                        "order": ["due_date"],
                        "repair_every": [10],
                        "replicates.seeds": [5],
                    },
                ),
                "incremental": Experiment(
                    "search_spaces/dispatch_incremental.yaml",
                    quick={"batches": [15], "replicates.seeds": [5]},
                ),
                "optimum": Experiment(
                    "search_spaces/dispatch_optimum.yaml",
                    quick={"rule": ["erd", "shared_queue"], "repair_every": [10], "replicates.seeds": [10]},
                ),
            },
            claims=CLAIMS,
            tables=[_assistance(), *(_recovery(*batches) for batches in AFTER_CHANGE.items()), _direct()],
            figures=_FIGURES,
            documents=[(name, "comparison.md") for name in ("assist", "change", "direct", "incremental")],
        )
    }
)
