"""What the paper on classifiers that choose machines claims, and by which criteria that is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median
from typing import Any

from gridtune.core.reproduction import Claim, Criterion, Reading
from gridtune.systems.dispatch.published import TABLE_2, TABLE_3, TABLE_5, TABLE_6

__all__ = [
    "AFTER_CHANGE",
    "CLAIMS",
    "DISPATCHERS",
    "LEARNERS",
    "SELECTORS",
    "SHARED_QUEUE",
    "after_change",
    "assisted",
    "published_after",
    "published_ratio",
    "tardiness",
    "tardiness_ratio",
]

#: The paper's selectors and learners.
SELECTORS = {"random": "random", "round_robin": "round robin", "first_available": "first available"}
LEARNERS = {"j48": "J48", "naive_bayes": "naive Bayes", "lwl": "LWL"}
#: The strongest simple rule: one queue for all machines, the shortest job first, no speeds.
SHARED_QUEUE = {"rule": "shared_queue", "speeds": "nominal"}
_UNSET = dict.fromkeys(("mode", "rule", "repair_every", "learner", "order", "speeds"))
#: Those that decide alone: of table 6, and the shared queue.
DISPATCHERS: Mapping[str, Mapping[str, Any]] = {
    "j48": {**_UNSET, "mode": "direct", "learner": "j48", "order": "due_date"},
    "naive_bayes": {**_UNSET, "mode": "direct", "learner": "naive_bayes", "order": "due_date"},
    "edd": {**_UNSET, "mode": "alone", "rule": "edd", "repair_every": 10},
    "erd": {**_UNSET, "mode": "alone", "rule": "erd", "repair_every": 10},
    "shared_queue": {**_UNSET, "mode": "alone", **SHARED_QUEUE},
}
#: Batches of table 5 after the machines have changed: places from the first to before the second.
AFTER_CHANGE = {"batch 3": (2, 3), "batches 4 and 5": (3, 5)}
#: The paper's runs from the fourteenth on.
_FROM_RUN_14 = (13, None)


def assisted(rule: str, learner: str, metric: str = "relative_in_time_median", **options: Any) -> Reading:
    """Return a metric of a selector with an assistant, as a rule over that of the selector alone."""
    where: dict[str, Any] = {"mode": "assist", "rule": rule, "learner": learner, "set_aside": None}
    if learner in {"naive_bayes", "drain"}:
        where["set_aside"] = False
    return Reading("assist", metric, where, **options)


def after_change(rule: str, learner: str, part: tuple[int, int | None]) -> Reading:
    """Return jobs in time with an assistant over without, in some of the batches of table 5."""
    where = {"mode": "assist", "rule": rule, "learner": learner, "change_after": 2}
    reference = "reference_in_time_by_batch"
    return Reading("change", "in_time_by_batch", where, {}, "ratio", reference, part=part)


def published_after(rule: str, learner: str, part: tuple[int, int]) -> float:
    """Return the mean of the same of table 5, which has the last three of five batches."""
    return mean(TABLE_5[rule, learner][1][place - 2] for place in range(*part))


def tardiness(experiment: str, dispatcher: str) -> Reading:
    """Return the mean tardiness under a dispatcher that decides alone."""
    return Reading(experiment, "tardiness_mean", DISPATCHERS[dispatcher])


def tardiness_ratio(experiment: str, dispatcher: str, other: str) -> Reading:
    """Return the mean tardiness under a dispatcher over that under another."""
    return Reading(experiment, "tardiness_mean", DISPATCHERS[dispatcher], DISPATCHERS[other], "ratio")


def published_ratio(dispatcher: str, other: str) -> float:
    """Return the same of table 6, over its ten runs."""
    return mean(TABLE_6[dispatcher]) / mean(TABLE_6[other])


def _assistance(learners: Sequence[str], **limits: Any) -> Iterator[Criterion]:
    for learner in learners:
        for rule, name in SELECTORS.items():
            yield Criterion(
                f"jobs in time with {LEARNERS[learner]} over without, {name}",
                assisted(rule, learner),
                published=median(TABLE_2[rule, learner]),
                **limits,
            )


def _fastest(learner: str, other: str | None = None) -> Reading:
    """Return the share of the jobs that the fastest machine, the third, gets under round robin assisted."""
    if other is None:
        return assisted("round_robin", learner, "assignments", part=(2, 3))
    against = assisted("round_robin", other).where
    return assisted(
        "round_robin", learner, "assignments", against=against, relation="difference", part=(2, 3)
    )


def _after_change(when: str, **limits: Any) -> Iterator[Criterion]:
    part = AFTER_CHANGE[when]
    for learner, name in LEARNERS.items():
        for rule, selector in SELECTORS.items():
            yield Criterion(
                f"jobs in time with {name} over without, {selector}, {when}",
                after_change(rule, learner, part),
                published=published_after(rule, learner, part),
                **limits,
            )


def _from_run_14(dispatcher: str, other: str) -> Reading:
    where, against = DISPATCHERS[dispatcher], DISPATCHERS[other]
    return Reading("incremental", "tardiness_by_batch", where, against, "ratio", part=_FROM_RUN_14)


CLAIMS = (
    Claim(
        "Assisted by LWL or J48, a selector puts more jobs in time than alone; LWL is best",
        "section 2.2.2 and table 2; published: medians of its five batches",
        [
            *_assistance(["lwl", "j48"], at_least=1),
            Criterion(
                "LWL less J48, jobs in time over without, round robin",
                assisted(
                    "round_robin",
                    "lwl",
                    against=assisted("round_robin", "j48").where,
                    relation="difference",
                ),
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
        [*_assistance(["naive_bayes"], at_most=1)],
    ),
    Claim(
        "J48 is brittle: some batch ends worse than without it",
        "section 2.2.2 and table 2",
        [
            Criterion(
                f"jobs in time with J48 over without, the worst of the batches, {name}",
                assisted(rule, "j48", "relative_in_time_min"),
                published=min(TABLE_2[rule, "j48"]),
                at_most=1,
            )
            for rule, name in SELECTORS.items()
        ],
    ),
    Claim(
        "Only LWL sends more jobs to faster machines",
        "section 2.2.2 and table 3",
        [
            Criterion(
                "share of the jobs on the fastest of ten machines, LWL with round robin",
                _fastest("lwl"),
                published=TABLE_3["lwl"][2],
                at_least=0.1,
            ),
            *(
                Criterion(
                    f"share of the jobs on the fastest machine, LWL less {LEARNERS[other]}",
                    _fastest("lwl", other),
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
        [*_after_change("batch 3", at_most=1)],
        "The changed machines differ more from one another, so there is more to gain after the change.",
    ),
    Claim(
        "They recover in the next batches",
        "section 2.2.2 and table 5; published: means of batches 4 and 5",
        [*_after_change("batches 4 and 5", at_least=1)],
    ),
    Claim(
        "J48 that decides alone is about as good as EDD with tabu search; naive Bayes is not",
        "section 2.3.2 and table 6",
        [
            Criterion(
                "mean tardiness of J48 over that of EDD + tabu",
                tardiness_ratio("direct", "j48", "edd"),
                published=published_ratio("j48", "edd"),
                at_most=1.2,
            ),
            Criterion(
                "mean tardiness of naive Bayes over that of EDD + tabu",
                tardiness_ratio("direct", "naive_bayes", "edd"),
                published=published_ratio("naive_bayes", "edd"),
                at_least=1.2,
            ),
        ],
        "About as good is taken as at most 1.2 times.",
    ),
    Claim(
        "ERD with tabu search is clearly better than EDD and than J48",
        "section 2.3.2 and table 6",
        [
            Criterion(
                f"mean tardiness of {name} over that of ERD + tabu",
                tardiness_ratio("direct", dispatcher, "erd"),
                published=published_ratio(dispatcher, "erd"),
                at_least=1,
            )
            for dispatcher, name in (("edd", "EDD + tabu"), ("j48", "J48"))
        ],
        "Our deadlines grow with the length of a job, so due dates favour short jobs; the paper does not say "
        "how its generator drew them.",
    ),
    Claim(
        "Insertion with tabu search is an advanced solution, a better benchmark than selectors",
        "sections 2 and 2.3",
        [
            Criterion(
                "mean tardiness of one shared queue over that of ERD + tabu",
                tardiness_ratio("direct", "shared_queue", "erd"),
                at_least=1,
            ),
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
        [
            Criterion(
                "mean tardiness of J48 over that of EDD + tabu, runs from the 14th on",
                _from_run_14("j48", "edd"),
                published=1,
                at_most=1.1,
            )
        ],
        "As good is taken as at most 1.1 times.",
    ),
    Claim(
        "Learning from nothing, J48 is clearly better than naive Bayes",
        "section 2.3.2 and figure 4, published without numbers",
        [
            Criterion(
                "mean tardiness of naive Bayes over that of J48, runs from the 14th on",
                _from_run_14("naive_bayes", "j48"),
                at_least=1,
            )
        ],
    ),
)
