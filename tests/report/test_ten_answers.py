"""Ten typical answers, word by word as a terminal of 100 columns shows them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from gridtune.report.answer import Answer, print_answers
from gridtune.slurm.comparison import Agreement, Comparison, LoggedJobs
from gridtune.slurm.requests import Request
from gridtune.study.advice import WhatIf
from gridtune.workload import read_workload
from gridtune.workload.workload import Workload
from tests.report.test_answer import BOUNDS, PLANTED, cells, summary

#: Lines that an answer has at most.
MOST = 12


def printed(answers: Iterable[Answer]) -> str:
    file = io.StringIO()
    print_answers(answers, Console(file=file, width=100, highlight=False))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip()


def chosen(*orders: str) -> Mapping[str, Mapping[str, float]]:
    return {order: PLANTED[order] for order in ("fcfs", *orders)}


def on_logs(table: pa.Table, *names: str) -> pa.Table:
    rows = table.to_pylist()
    return pa.Table.from_pylist(
        [
            {**row, "workload": name, "configuration_id": f"{name} {row['param.order']}"}
            for name in names
            for row in rows
        ]
    )


def in_windows(table: pa.Table) -> pa.Table:
    return table.set_column(
        table.column_names.index("replicate"),
        "replicate",
        pa.array([name.replace("seed", "window") + "/12" for name in table["replicate"].to_pylist()]),
    )


def with_twin(table: pa.Table, order: str) -> pa.Table:
    rows = [row for row in table.to_pylist() if row["param.order"] == order]
    twins = [{**row, "param.order": "twin", "configuration_id": "twin"} for row in rows]
    return pa.concat_tables([table, pa.Table.from_pylist(twins, schema=table.schema)])


def failing(table: pa.Table) -> pa.Table:
    """Return cells of which the first seed failed everywhere."""

    def failed(row: Mapping[str, object]) -> Mapping[str, object]:
        return {name: None if name.startswith("metric.") else row[name] for name in row} | {"state": "failed"}

    rows = table.to_pylist()
    return pa.Table.from_pylist([failed(row) if row["replicate"] == "seed 0" else row for row in rows])


def what_if(factor: float, replayed: float, log: Workload) -> WhatIf:
    """Return the answer to a change that multiplies waits, where a replay waits so many times as recorded."""
    rng = np.random.default_rng(5)
    days, each = 10, 40
    number = np.arange(days * each)
    recorded = rng.lognormal(8, 1, days * each).astype(np.int64)
    widths = np.where(number % 4 == 0, 64, 1)
    requests = [
        Request(int(k), int(k) * 86_400 // each, 600, 3600, user="ann", tasks=int(widths[k])) for k in number
    ]
    before = recorded * replayed * rng.lognormal(0, 0.02, (20, days * each))
    after = before * np.where(widths == 64, 1.5, factor) * rng.lognormal(0, 0.02, (20, days * each))
    jobs = LoggedJobs(tuple(requests), number, recorded, {}, {}, "day", number // each)
    trust = Agreement.of(recorded, before).trust
    return WhatIf(log, Comparison(jobs, before, after), ["+bf_interval=120"], ["licences"], trust)


FEW = 4
BETTER_OR_NOT = {"fcfs": {}, "little": {"bounded_slowdown_mean": 0.985}}
ANSWERS: Mapping[str, Sequence[Answer]] = {
    "a clear gain": summary(on_logs(cells(chosen("fair", "bad")), "kth", "ctc")).answers[:1],
    "nothing gained": summary(cells(BETTER_OR_NOT)).answers,
    "one log": summary(in_windows(cells(chosen("fair", "bad")))).answers,
    "too few replicates": summary(cells(chosen("fair"), windows=FEW)).answers,
    "a bound broken": summary(cells(), subject_to=BOUNDS).answers,
    "a tie": summary(with_twin(cells(chosen("fair")), "fair")).answers,
    "someone loses": summary().answers,
    "a crash": summary(failing(cells(chosen("fair")))).answers,
    "two objectives": summary(
        cells(chosen("starving")), objectives=("bounded_slowdown_mean", "wait_max")
    ).answers,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_reads_like_this(name: str) -> None:
    text = printed(ANSWERS[name])
    assert text == TEXTS[name].strip()
    assert len(text.splitlines()) <= MOST * len(ANSWERS[name])


@pytest.mark.parametrize(("name", "replayed"), [("a change of Slurm", 1.0), ("no trust", 3.0)])
def test_an_answer_on_slurm_reads_like_this(name: str, replayed: float) -> None:
    answer = what_if(0.4, replayed, read_workload("quickstart"))
    text = printed([answer.answer])
    assert text == TEXTS[name].strip()
    assert bool(answer.as_dict()["classes"]) == (replayed == 1)
    assert len(text.splitlines()) <= MOST


def test_advice_by_another_objective_names_the_loss_by_the_first() -> None:
    objectives = ("wait_max", "bounded_slowdown_mean")
    for logs in (["kth"], ["kth", "ctc"]):
        found = summary(on_logs(cells(chosen("starving")), *logs), objectives=objectives)
        for answer in found.answers[-len(logs) :]:
            advice = "By bounded_slowdown_mean, use starving instead of fcfs"
            assert answer.advice.startswith(advice)
            assert answer.advice.endswith(", if these losses are acceptable.")
            assert all(str(loss).startswith("wait_max 3.8 instead of 1.3 days") for loss in answer.losers)
            assert answer.losers


TEXTS = {
    "a clear gain": """
Use fair instead of fcfs over the 2 workloads.
  gain   bounded_slowdown_mean is 20 % less on average (19 to 23 % less, 95 % sure)
  loses  nobody is shown to lose (8 metrics and classes of jobs compared)
  trust  not graded: simulated, not compared with recorded values; a few seeds worse than these
         could reverse the gain
  next   `gridtune results export` writes this configuration to a file
""",
    "nothing gained": """
Keep fcfs: little, the best of the others, is not shown to be better.
  gain   with little: bounded_slowdown_mean 53.18 instead of 54.27; chance can explain the
         difference
  loses  nobody is shown to lose (4 metrics and classes of jobs compared)
  trust  not graded: simulated, not compared with recorded values
  next   run about 69 seeds like these 12 to settle bounded_slowdown_mean
""",
    "one log": """
Use fair instead of fcfs.
  gain   bounded_slowdown_mean 43.19 instead of 54.27, 20 % less (18 to 23 % less, 95 % sure)
  loses  nobody is shown to lose (4 metrics and classes of jobs compared)
  trust  not graded: simulated, not compared with recorded values; one log, another may give a
         different result; a few windows worse than these could reverse the gain
  next   `gridtune results export` writes this configuration to a file
""",
    "too few replicates": """
Keep fcfs: 4 seeds cannot show a difference.
  gain   with fair: bounded_slowdown_mean 42.98 instead of 53.58; chance can explain the difference
  loses  nobody is shown to lose (4 metrics and classes of jobs compared)
  trust  not graded: simulated, not compared with recorded values
  next   run at least 6 seeds
""",
    "a bound broken": """
Use alike instead of fcfs.
  gain    bounded_slowdown_mean 43.01 instead of 54.27, 21 % less (19 to 23 % less, 95 % sure)
  loses   nobody is shown to lose (4 metrics and classes of jobs compared)
  bounds  it keeps wait_max <= 1.2 x baseline and wait_mean[wide] <= 1.05 x baseline
          starving (−50.3 %) is not chosen: wait_max +199 %, violated; wait_mean[wide] +101 %,
          violated
  trust   not graded: simulated, not compared with recorded values; a few seeds worse than these
          could reverse the gain
  next    `gridtune results export` writes this configuration to a file
""",
    "a tie": """
Use fair instead of fcfs.
  gain   bounded_slowdown_mean 43.19 instead of 54.27, 20 % less (18 to 23 % less, 95 % sure); the
         same with twin
  loses  nobody is shown to lose (4 metrics and classes of jobs compared)
  trust  not graded: simulated, not compared with recorded values; a few seeds worse than these
         could reverse the gain
  next   `gridtune results export` writes this configuration to a file
""",
    "someone loses": """
Use starving instead of fcfs, if these losses are acceptable.
  gain   bounded_slowdown_mean 27.00 instead of 54.27, 50 % less (48 to 52 % less, 95 % sure)
  loses  wait_max 3.8 instead of 1.3 days (3.0 times as much)
         wide jobs wait 18.2 instead of 9.0 h (2.0 times as much)
  trust  not graded: simulated, not compared with recorded values; a few seeds worse than these
         could reverse the gain
  next   `gridtune results export` writes this configuration to a file
""",
    "a crash": """
No answer: no configuration has bounded_slowdown_mean in every seed.
  next  without a rank because runs failed: fair (1 of 12), fcfs (1 of 12)
        `gridtune report` shows the errors; `--retry all` runs the cells again
""",
    "two objectives": """
By bounded_slowdown_mean, use starving instead of fcfs, if these losses are acceptable.
  gain   bounded_slowdown_mean 27.00 instead of 54.27, 50 % less (49 to 52 % less, 95 % sure)
  loses  wait_max 3.8 instead of 1.3 days (3.0 times as much)
         wide jobs wait 18.2 instead of 9.0 h (2.0 times as much)
  trust  not graded: simulated, not compared with recorded values; a few seeds worse than these
         could reverse the gain
  next   `gridtune results export` writes this configuration to a file

By wait_max, keep fcfs: no other configuration has a better wait_max.
  gain   wait_max 30.2 h
  trust  not graded: simulated, not compared with recorded values
""",
    "a change of Slurm": """
Make this change, if these losses are acceptable: jobs wait less.
  gain          mean wait 3,052 instead of 4,548 s, 33 % less (21 to 43 % less, 95 % sure)
  loses         jobs of 49 to 384 processors wait 1.9 instead of 1.2 h (50 % more)
  trust         yes: simulated waits match the recorded ones (mean 4,548 s, recorded 4,544 s; median
                error 10 s; rank correlation 1.00)
  not modelled  licences
""",
    "no trust": """
No answer: the simulated cluster does not wait as the recorded one.
  trust         no: simulated waits differ from the recorded ones (mean 13,644 s, recorded 4,544 s;
                median error 5,573 s of a median wait of 2,788 s; rank correlation 1.00)
  not modelled  licences
  next          run `gridtune slurm fit`, which shows what differs
""",
}
