"""The paper on classifiers that choose machines: its figures, claims, experiments and tables.

Source: Vladušič, "Using the black-box approach with machine learning methods in order to improve job
scheduling in GRID environments". The paper does not name the unit of mean tardiness in Table 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean, median
from types import MappingProxyType
from typing import Any

from gridtune.core.reproduction import (
    Claim,
    Criterion,
    Experiment,
    PaperFigure,
    PaperTable,
    PublishedFigure,
    Reading,
    Reproduction,
    TableRow,
)
from gridtune.systems.dispatch.parameters import TABLE_1

__all__ = ["PUBLISHED", "REPRODUCTIONS", "TABLE_2", "TABLE_3", "TABLE_5", "TABLE_6"]

#: Table 2: jobs in time with assistance over those without, for each of five batches.
TABLE_2: Mapping[tuple[str, str], Sequence[float]] = {
    ("first_available", "j48"): (1.12, 0.95, 0.99, 1.16, 0.65),
    ("first_available", "lwl"): (1.11, 1.17, 0.86, 1.08, 0.96),
    ("first_available", "naive_bayes"): (0.95, 1.02, 0.94, 1.28, 1.05),
    ("random", "j48"): (1.08, 1.08, 1.03, 1.19, 0.89),
    ("random", "lwl"): (1.2, 0.98, 1.18, 0.74, 1.14),
    ("random", "naive_bayes"): (0.97, 0.89, 1.1, 0.82, 0.75),
    ("round_robin", "j48"): (0.98, 0.99, 1.39, 1.03, 1.04),
    ("round_robin", "lwl"): (1.16, 1.05, 0.92, 1.01, 1.04),
    ("round_robin", "naive_bayes"): (0.92, 0.89, 0.93, 0.97, 0.84),
}
#: Table 3: share of the jobs of each of ten machines, under round robin assisted.
TABLE_3: Mapping[str, Sequence[float]] = {
    "j48": (0.09, 0.07, 0.09, 0.08, 0.1, 0.14, 0.1, 0.09, 0.15, 0.09),
    "lwl": (0.05, 0.06, 0.18, 0.07, 0.15, 0.17, 0.08, 0.03, 0.17, 0.04),
    "naive_bayes": (0.11, 0.12, 0.06, 0.11, 0.1, 0.11, 0.12, 0.12, 0.04, 0.11),
}
#: Table 5: as Table 2; five batches without a change, and the last three with one after the second.
TABLE_5: Mapping[tuple[str, str], tuple[Sequence[float], Sequence[float]]] = {
    ("first_available", "j48"): ((1.73, 0.88, 2.11, 1.76, 1.58), (0.66, 1.24, 0.89)),
    ("first_available", "lwl"): ((1.47, 0.94, 1.17, 0.90, 1.13), (0.81, 1.26, 1.01)),
    ("first_available", "naive_bayes"): ((1.42, 0.70, 1.48, 2.81, 2.61), (0.97, 0.95, 0.94)),
    ("random", "j48"): ((1.09, 1.36, 0.66, 1.35, 1.85), (0.73, 1.48, 1.07)),
    ("random", "lwl"): ((1.74, 0.97, 1.14, 0.85, 1.17), (0.81, 1.39, 1.01)),
    ("random", "naive_bayes"): ((1.03, 0.99, 0.97, 1.33, 0.67), (1.25, 1.10, 1.20)),
    ("round_robin", "j48"): ((0.84, 1.24, 1.08, 0.5, 1.16), (0.98, 1.11, 1.08)),
    ("round_robin", "lwl"): ((1.16, 1.45, 0.75, 1.15, 1.01), (0.80, 1.13, 1.08)),
    ("round_robin", "naive_bayes"): ((1.03, 0.85, 1.13, 0.95, 1.03), (1.11, 1.03, 1.08)),
}
#: Table 6: mean tardiness in each of ten runs of 1,000 jobs.
TABLE_6: Mapping[str, Sequence[float]] = {
    "j48": (6852986, 6975198, 5991922, 4273658, 4956201, 4426126, 4636639, 4194367, 4243210, 4126020),
    "naive_bayes": (
        *(7802715, 8311823, 9450453, 7858624, 8225339),
        *(8187952, 10273174, 7955454, 11394544, 8864409),
    ),
    "edd": (4562290, 4898042, 4629544, 4616085, 5242742, 4805775, 4932950, 4515571, 4421033, 4288354),
    "erd": (3686164, 3946878, 3834669, 3802694, 4485815, 4157972, 4134214, 3879128, 3667836, 4016526),
}


def _figures() -> Iterator[tuple[str, str, Sequence[float], int]]:
    """Yield each row of a table: its name, the quantity of figure i, the figures, the first i."""
    ratio = "jobs in time with {} over without, {}, batch {{}}"
    for (rule, learner), values in TABLE_2.items():
        yield f"table_2_{rule}_{learner}", ratio.format(learner, rule), values, 1
    for learner, values in TABLE_3.items():
        share = f"share of the jobs of machine {{}} under round robin with {learner}"
        yield f"table_3_{learner}", share, values, 1
    for (rule, learner), arms in TABLE_5.items():
        for arm, first, values in zip(("same", "changed"), (1, 3), arms, strict=True):
            quantity = ratio.format(learner, rule) + f", machines {arm}"
            yield f"table_5_{rule}_{learner}_{arm}", quantity, values, first
    for dispatcher, values in TABLE_6.items():
        yield f"table_6_{dispatcher}", f"mean tardiness of 1,000 jobs under {dispatcher}, run {{}}", values, 1


_PAPER = "Vladušič, “Using the black-box approach with machine learning methods”, Table "
#: Every figure of the tables by table, row and column.
PUBLISHED: Mapping[str, PublishedFigure] = MappingProxyType(
    {
        f"{row}_{place}": PublishedFigure(
            _PAPER + row[6], quantity.format(place), value, "unnamed" if row[6] == "6" else "1"
        )
        for row, quantity, values, first in _figures()
        for place, value in enumerate(values, start=first)
    }
)


#: The paper's selectors and learners.
_SELECTORS = {"random": "random", "round_robin": "round robin", "first_available": "first available"}
_LEARNERS = {"j48": "J48", "naive_bayes": "naive Bayes", "lwl": "LWL"}
#: The strongest simple rule: one queue for all machines, the shortest job first, no speeds.
_SHARED_QUEUE = {"rule": "shared_queue", "speeds": "nominal"}
_UNSET = dict.fromkeys(("mode", "rule", "repair_every", "learner", "order", "speeds"))
#: Those that decide alone: of table 6, and the shared queue.
_DISPATCHERS: Mapping[str, Mapping[str, Any]] = {
    "j48": {**_UNSET, "mode": "direct", "learner": "j48", "order": "due_date"},
    "naive_bayes": {**_UNSET, "mode": "direct", "learner": "naive_bayes", "order": "due_date"},
    "edd": {**_UNSET, "mode": "alone", "rule": "edd", "repair_every": 10},
    "erd": {**_UNSET, "mode": "alone", "rule": "erd", "repair_every": 10},
    "shared_queue": {**_UNSET, "mode": "alone", **_SHARED_QUEUE},
}
#: Batches of table 5 after the machines have changed: places from the first to before the second.
_AFTER_CHANGE = {"batch 3": (2, 3), "batches 4 and 5": (3, 5)}
_NAMES = {
    **{"j48": "J48", "naive_bayes": "naive Bayes", "edd": "EDD + tabu", "erd": "ERD + tabu"},
    "shared_queue": "one shared queue",
}


def _assisted(rule: str, learner: str, metric: str = "relative_in_time_median", **options: Any) -> Reading:
    """Return a metric of a selector with an assistant, as a rule over that of the selector alone."""
    where: dict[str, Any] = {"mode": "assist", "rule": rule, "learner": learner, "set_aside": None}
    if learner in {"naive_bayes", "drain"}:
        where["set_aside"] = False
    return Reading("assist", metric, where, **options)


def _relative(rule: str, learner: str, when: str | None) -> tuple[Reading, float | None]:
    """Return jobs in time with an assistant over without: ours, the paper's.

    The median of batches; or `when`, in some batches of table 5.
    """
    known = learner in _LEARNERS
    if when is None:
        return _assisted(rule, learner), median(TABLE_2[rule, learner]) if known else None
    where = {"mode": "assist", "rule": rule, "learner": learner, "change_after": 2}
    part, reference = _AFTER_CHANGE[when], "reference_in_time_by_batch"
    ours = Reading("change", "in_time_by_batch", where, {}, "ratio", reference, part=part)
    # The table has the last three of five batches.
    return ours, mean(TABLE_5[rule, learner][1][place - 2] for place in range(*part)) if known else None


def _in_time(learners: Iterable[str], when: str | None = None, **limits: Any) -> Iterator[Criterion]:
    """Yield limits of jobs in time with learners over without; `when`: in batches after the change."""
    for learner in learners:
        for rule, name in _SELECTORS.items():
            ours, published = _relative(rule, learner, when)
            quantity = f"jobs in time with {_LEARNERS[learner]} over without, {name}"
            quantity += "" if when is None else f", {when}"
            yield Criterion(quantity, ours, published=published, **limits)


#: Options of a reading: the share of the jobs that the fastest machine, the third, gets.
_FASTEST: Mapping[str, Any] = {"metric": "assignments", "part": (2, 3)}


def _less(learner: str) -> dict[str, Any]:
    """Return options of a reading: less the same with another assistant of round robin."""
    return {"against": _assisted("round_robin", learner).where, "relation": "difference"}


def _tardiness_ratio(dispatcher: str, other: str) -> tuple[Reading, float | None]:
    """Return mean tardiness over that under another dispatcher in the runs of table 6: ours, the paper's."""
    ours = Reading("direct", "tardiness_mean", _DISPATCHERS[dispatcher], _DISPATCHERS[other], "ratio")
    return ours, mean(TABLE_6[dispatcher]) / mean(TABLE_6[other]) if dispatcher in TABLE_6 else None


def _tardiness(dispatcher: str, other: str, **limits: Any) -> Criterion:
    ours, published = _tardiness_ratio(dispatcher, other)
    quantity = f"mean tardiness of {_NAMES[dispatcher]} over that of {_NAMES[other]}"
    return Criterion(quantity, ours, published=published, **limits)


def _from_run_14(dispatcher: str, other: str, **limits: Any) -> Criterion:
    """Return a limit of mean tardiness over that under another dispatcher, both learning from nothing."""
    sides = _DISPATCHERS[dispatcher], _DISPATCHERS[other]
    return Criterion(
        f"mean tardiness of {_NAMES[dispatcher]} over that of {_NAMES[other]}, runs from the 14th on",
        Reading("incremental", "tardiness_by_batch", *sides, "ratio", part=(13, None)),
        **limits,
    )


_CLAIMS = (
    Claim(
        "Assisted by LWL or J48, a selector puts more jobs in time than alone; LWL is best",
        "section 2.2.2 and table 2; published: medians of its five batches",
        [
            *_in_time(["lwl", "j48"], at_least=1),
            Criterion(
                "LWL less J48, jobs in time over without, round robin",
                _assisted("round_robin", "lwl", **_less("j48")),
                published=median(TABLE_2["round_robin", "lwl"]) - median(TABLE_2["round_robin", "j48"]),
                at_least=0,
            ),
        ],
        "Both gain where the selector is random. Where it is not, they crowd the fast machines. The tables "
        "have one queue for all machines beside them, the shortest job first, which learns nothing.",
    ),
    Claim(
        "Assisted by naive Bayes, it puts fewer jobs in time",
        "section 2.2.2 and table 2; published: medians of its five batches",
        [*_in_time(["naive_bayes"], at_most=1)],
    ),
    Claim(
        "J48 is brittle: some batch ends worse than without it",
        "section 2.2.2 and table 2",
        [
            Criterion(
                f"jobs in time with J48 over without, the worst of the batches, {name}",
                _assisted(rule, "j48", "relative_in_time_min"),
                published=min(TABLE_2[rule, "j48"]),
                at_most=1,
            )
            for rule, name in _SELECTORS.items()
        ],
    ),
    Claim(
        "Only LWL sends more jobs to faster machines",
        "section 2.2.2 and table 3",
        [
            Criterion(
                "share of the jobs on the fastest of ten machines, LWL with round robin",
                _assisted("round_robin", "lwl", **_FASTEST),
                published=TABLE_3["lwl"][2],
                at_least=0.1,
            ),
            *(
                Criterion(
                    f"share of the jobs on the fastest machine, LWL less {_LEARNERS[other]}",
                    _assisted("round_robin", "lwl", **_FASTEST, **_less(other)),
                    published=TABLE_3["lwl"][2] - TABLE_3[other][2],
                    at_least=0,
                )
                for other in ("j48", "naive_bayes")
            ),
        ],
    ),
    Claim(
        "Right after all machines have changed their speed, assistants mostly do harm",
        "section 2.2.2 and table 5",
        [*_in_time(_LEARNERS, "batch 3", at_most=1)],
        "The changed machines differ more from one another, so there is more to gain after the change.",
    ),
    Claim(
        "They recover in the next batches",
        "section 2.2.2 and table 5; published: means of batches 4 and 5",
        [*_in_time(_LEARNERS, "batches 4 and 5", at_least=1)],
    ),
    Claim(
        "J48 that decides alone is about as good as EDD with tabu search; naive Bayes is not",
        "section 2.3.2 and table 6",
        [
            _tardiness("j48", "edd", at_most=1.2),
            _tardiness("naive_bayes", "edd", at_least=1.2),
        ],
        "About as good is taken as at most 1.2 times.",
    ),
    Claim(
        "ERD with tabu search is clearly better than EDD and than J48",
        "section 2.3.2 and table 6",
        [_tardiness("edd", "erd", at_least=1), _tardiness("j48", "erd", at_least=1)],
        "Our deadlines grow with the length of a job, so due dates favour short jobs; the paper does not say "
        "how its generator drew them.",
    ),
    Claim(
        "Insertion with tabu search is an advanced solution, a better benchmark than selectors",
        "sections 2 and 2.3",
        [
            _tardiness("shared_queue", "erd", at_least=1),
            *(
                Criterion(
                    f"mean tardiness of ERD + tabu over the optimum, ten jobs on {machines}",
                    Reading(
                        "optimum",
                        "tardiness_mean",
                        {"workload": machines, "rule": "erd", "repair_every": 10},
                        relation="ratio",
                        reference="tardiness_mean_bound",
                    ),
                    at_most=1.25,
                )
                for machines in ("three machines", "six machines")
            ),
        ],
        "Advanced is taken as ahead of one shared queue, which needs neither learning nor speeds, and within "
        "a quarter of the best schedule.",
    ),
    Claim(
        "J48 that starts from nothing is as good as EDD with tabu search from the 14th run on",
        "section 2.3.2 and figure 4",
        [_from_run_14("j48", "edd", published=1, at_most=1.1)],
        "As good is taken as at most 1.1 times.",
    ),
    Claim(
        "Learning from nothing, J48 is clearly better than naive Bayes",
        "section 2.3.2 and figure 4, published without numbers",
        [_from_run_14("naive_bayes", "j48", at_least=1)],
    ),
)


_OURS = "one shared queue (ours)"


def _in_time_table(when: str | None = None) -> PaperTable:
    """Return table 2, or with some batches after the change table 5, with our learner and shared queue."""
    part = None if when is None else _AFTER_CHANGE[when]
    rows = [
        TableRow.of(name, *zip(*(_relative(rule, learner, when) for rule in _SELECTORS), strict=True))
        for learner, name in {**_LEARNERS, "drain": "drain (ours)"}.items()
    ]
    experiment, metric = ("assist", "in_time_share") if part is None else ("change", "in_time_by_batch")
    queue = {"mode": None, "learner": None, **({"change_after": 2} if part else {}), **_SHARED_QUEUE}
    selectors = [{"mode": "alone", "rule": rule, "speeds": None} for rule in _SELECTORS]
    ours = [Reading(experiment, metric, queue, selector, "ratio", part=part) for selector in selectors]
    title, source = "Jobs in time with an assistant over without", "table 2; medians over batches"
    if part is not None:
        title, source = f"{title}, all machines change after batch 2: {when}", "table 5"
    return PaperTable(title, source, list(_SELECTORS.values()), [*rows, TableRow.of(_OURS, ours)])


def _shares_table() -> PaperTable:
    rows = [
        TableRow.of(
            name,
            [
                _assisted("round_robin", learner, "assignments", part=(place, place + 1))
                for place in range(len(TABLE_3[learner]))
            ],
            [f"table_3_{learner}_{place}" for place in range(1, len(TABLE_3[learner]) + 1)],
        )
        for learner, name in _LEARNERS.items()
    ]
    columns = [f"machine {place}, {factor:g}" for place, factor in enumerate(TABLE_1, start=1)]
    return PaperTable(
        "Share of the jobs of each machine, with its factor, round robin", "table 3", columns, rows
    )


def _tardiness_table() -> PaperTable:
    rows = []
    for dispatcher, name in {**_NAMES, "shared_queue": _OURS}.items():
        ratio, published = _tardiness_ratio(dispatcher, "erd")
        ours = Reading("direct", "tardiness_mean", _DISPATCHERS[dispatcher])
        rows.append(TableRow.of(name, [ours, ratio], [None, published]))
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
        "Share of the jobs of each machine under round robin with an assistant",
        "table 3",
        "assist",
        "assignments.png",
        "LWL sends 15 to 18 % of the jobs to each of the three fastest machines and 3 to 8 % to the others; "
        "J48 and naive Bayes hardly tell them apart.",
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
                "the same for all dispatchers. Learners see the seconds left to the deadline where the paper "
                "has the deadline, and learn from the last 2,000 jobs (LWL: 500) where it has all; "
                "dispatch_published.yaml does as the paper does."
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
            claims=_CLAIMS,
            tables=[
                _in_time_table(),
                _shares_table(),
                *map(_in_time_table, _AFTER_CHANGE),
                _tardiness_table(),
            ],
            figures=_FIGURES,
            documents=[(name, "comparison.md") for name in ("assist", "change", "direct", "incremental")],
        )
    }
)
