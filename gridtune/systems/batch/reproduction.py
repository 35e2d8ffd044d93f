"""The claims of two papers on learned batch scheduling, beside rules that learn nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from gridtune.core.reproduction import (
    Claim,
    Criterion,
    Experiment,
    Log,
    PaperTable,
    Reading,
    Recorded,
    Reproduction,
    TableRow,
)

__all__ = ["REPRODUCTIONS"]

_SLOWDOWN, _AREA = "bounded_slowdown_mean", "area_weighted_response"
_FCFS = {"order": "fcfs", "backfill": "easy"}
_LOGS = {
    "kth-sp2": Log("kth-sp2", "sessions"),
    "ctc-sp2-reconstructed": Log("ctc-sp2-reconstructed", "quickstart"),
}
#: What trained the policies and measured them: docs/studies/batch_learning.md.
_PROGRAM = "gridtune train batch trace=kth-sp2 …, then python -m benchmarks.batch_policies {} …"
_KTH, _CTC = "the second half of KTH", "CTC (reconstructed)"
_COMMANDS = {_KTH: "kth-sp2 --part second-half", _CTC: "ctc-sp2-reconstructed"}
#: Bounded slowdown in windows of 256 jobs, change in % with its interval. To FCFS with EASY: the trained
#: choice of backfilled jobs, and one that may delay the first job.
_FILL = {_KTH: (-16.7, -34.4, 2.4), _CTC: (-7.4, -14.6, -0.5)}
_FREE = {_KTH: (-42.0, -59.2, -19.8)}
#: To SAF with EASY: the best of three trained orders.
_PICK = {
    _KTH: (-14.4, -36.8, 14.1),
    _CTC: (7.3, 2.0, 12.1),
    "sessions": (19.0, -7.9, 69.5),
    "quickstart": (-12.2, -36.6, 23.0),
}
#: To first come, first served with EASY: another of the three.
_PICK_TO_FCFS = (-47.0, -60.0, -30.0)
#: 17 times better.
_PUBLISHED = (1 / 17 - 1) * 100


def _recorded(log: str, value: float, low: float, high: float) -> Recorded:
    return Recorded(value, _PROGRAM.format(_COMMANDS.get(log, log)), low, high)


def _rule(experiment: str, metric: str, **where: Any) -> Reading:
    against = {**dict.fromkeys(where), **_FCFS}
    return Reading(experiment, metric, {**_FCFS, **where}, against, "change")


def _filling() -> Iterator[Criterion]:
    for what, changes in (("", _FILL), (", which may delay the first job", _FREE)):
        for log, change in changes.items():
            yield Criterion(
                f"bounded slowdown of the trained choice{what}, change to EASY, {log}",
                _recorded(log, *change),
                published=_PUBLISHED,
                within=0.5,
                unit="%",
            )


_CLAIMS = (
    Claim(
        "A learned choice of what to backfill is up to 17 times better than EASY",
        "RLBackfilling, abstract",
        [*_filling()],
        "First come, first served in both. Trained for seven minutes each; an environment of ours, in which "
        "nothing that the agent sees depends on run times.",
    ),
    Claim(
        "It takes learning to gain by what is backfilled",
        "RLBackfilling, implied",
        [
            Criterion(
                f"bounded slowdown of the trained choice, change to EASY filled by the shortest, {_KTH}",
                _recorded(_KTH, 1.5, -1.9, 5.5),
                at_most=0,
                unit="%",
            ),
            Criterion(
                "bounded slowdown of EASY filled by the shortest, change to EASY, ten windows a log",
                _rule("filling", _SLOWDOWN, fill_order="sjf"),
                at_least=0,
                unit="%",
            ),
        ],
        "To fill by the shortest walltime is one word in a search space.",
    ),
    Claim(
        "A learned order does well on various workloads",
        "RLScheduler, abstract",
        [
            Criterion(
                f"bounded slowdown of one of three trained orders, change to FCFS, {_KTH}",
                _recorded(_KTH, *_PICK_TO_FCFS),
                at_most=0,
                unit="%",
            ),
            *(
                Criterion(
                    f"bounded slowdown of the best of them, change to smallest area first, {log}",
                    _recorded(log, *change),
                    at_most=0,
                    unit="%",
                )
                for log, change in _PICK.items()
            ),
        ],
        "Learned on the first half of KTH, with EASY. Ahead of first come, first served is every rule that "
        "puts small jobs first. Seeds differ more than rules.",
    ),
)


def _rules() -> PaperTable:
    rules = {
        "EASY filled by the shortest": ("filling", {"fill_order": "sjf"}),
        "EASY filled by the smallest area": ("filling", {"fill_order": "saf"}),
        **{
            f"{order} with EASY": ("orders", {"order": order})
            for order in ("sjf", "saf", "f1", "f4", "wfp3", "unicef")
        },
    }
    return PaperTable(
        "Rules that learn nothing, change to first come, first served with EASY",
        "not in the papers",
        ["bounded slowdown, %", "area-weighted response, %"],
        [
            TableRow.of(label, [_rule(experiment, metric, **where) for metric in (_SLOWDOWN, _AREA)])
            for label, (experiment, where) in rules.items()
        ],
    )


REPRODUCTIONS: Mapping[str, Reproduction] = MappingProxyType(
    {
        "batch_learning": Reproduction(
            title="Learned batch scheduling: RLScheduler and RLBackfilling",
            publications=[
                "D. Zhang, D. Dai, Y. He, F. S. Bao, B. Xie, “RLScheduler: an automated HPC batch job "
                "scheduler using reinforcement learning”, SC 2020",
                "E. Kolker-Hicks, D. Zhang, D. Dai, “A reinforcement learning based backfilling strategy for "
                "HPC batch jobs”, PMBS 2023",
            ],
            data=(
                "The papers use logs of the Parallel Workloads Archive, among them those of SDSC and HPC2N. "
                "We trained on the first half of KTH SP2 and measured on its second half and on CTC SP2 (as "
                "it was reconstructed), in windows of 256 jobs; that was an earlier run. The rules are run "
                "here, on ten windows of each log."
            ),
            experiments={
                "filling": Experiment(
                    "search_spaces/backfilling.yaml",
                    settings={"order": ["fcfs"], "backfill": ["easy"]},
                    logs=_LOGS,
                ),
                "orders": Experiment(
                    "search_spaces/queue_orders.yaml", settings={"backfill": ["easy"]}, logs=_LOGS
                ),
            },
            claims=_CLAIMS,
            tables=[_rules()],
        )
    }
)
