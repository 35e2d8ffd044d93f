"""Sentences, trials, schedules and notes of the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gridtune.report.answer import Answer
from gridtune.report.facts import ObjectiveFacts
from gridtune.report.page.content import _best_so_far, _schedule_content, trial_order
from gridtune.report.rankings.ranking import Verdict
from gridtune.report.schedules import ScheduleFiles
from gridtune.report.summarising import summarise
from gridtune.report.summary import Summary
from gridtune.sweep.journal.results import results_table
from tests.report.synthetic import sweep_table
from tests.tracking.synthetic import cell_results, sweep_facts

ORDERS = {"order": ["fcfs", "sjf", "ljf"]}


def statistics(answer: Answer) -> str:
    return dict(answer.details)["statistics"]


def summary_of(workloads: tuple[str, ...] = ("kth-sp2",), **changes: object) -> Summary:
    facts = sweep_facts(10, **{"baseline": {"order": "fcfs"}, **changes})
    return summarise(sweep_table(ORDERS, workloads=workloads), facts)


def test_the_sentence_has_the_rankings_numbers() -> None:
    summary = summary_of()
    (sentence,) = summary.answers
    (best, *_) = summary.rankings["wait_mean"].rows
    assert (sentence.best, sentence.verdict) == ("sjf", Verdict.TYPICALLY)
    assert sentence.advice == "Use sjf instead of fcfs."
    text = statistics(sentence)
    assert text.startswith("sjf has the smallest wait_mean: ")
    assert f"{best['mean']:.0f} s (95 % interval {best['ci_low']:.0f} … {best['ci_high']:.0f})" in text
    assert f"{-best['relative'] * 100:.1f} % less than the baseline fcfs" in text
    assert "significant at 5 %" in text


def test_a_baseline_that_is_best_is_said_to_be() -> None:
    (sentence,) = summary_of(baseline={"order": "sjf"}).answers
    assert sentence.verdict == Verdict.BASELINE
    assert sentence.advice == "Keep sjf: no other configuration has a better wait_mean."


def test_without_a_baseline_the_sentence_says_so() -> None:
    (sentence,) = summary_of(baseline={}).answers
    assert sentence.advice.endswith("; there is no baseline to compare it with.")


def test_what_is_not_sure_is_not_called_certain() -> None:
    # Four replicates cannot prove anything.
    facts = sweep_facts(4, baseline={"order": "order2"})
    (sentence,) = summarise(results_table(cell_results()), facts).answers
    assert sentence.verdict == Verdict.UNSURE
    assert statistics(sentence).endswith("chance can explain the difference.")


def test_several_workloads_have_a_sentence_over_all_first() -> None:
    sentences = summary_of(("ctc-sp2", "kth-sp2")).answers
    assert [sentence.stratum for sentence in sentences] == ["overall", "ctc-sp2", "kth-sp2"]
    assert sentences[0].advice == "Use sjf instead of fcfs over the 2 workloads."
    assert sentences[1].advice == "Use sjf instead of fcfs on ctc-sp2."


def test_three_logs_say_something_of_others() -> None:
    (overall, *_) = summary_of(("ctc-sp2", "kth-sp2")).answers
    assert "each log as one observation" not in statistics(overall)
    results = [result for name in ("a", "b", "c") for result in cell_results(3, 10, workload=name)]
    results = [replace(result, traces={f"{result.workload}.swf": result.workload * 64}) for result in results]
    facts = sweep_facts(10, baseline={"order": "order2"})
    (overall, *_) = summarise(results_table(results), facts).answers
    by_log = "With each log as one observation the interval is −16.7 … −16.7 %, which excludes 0."
    assert by_log in statistics(overall)


def test_a_larger_best_value_is_more() -> None:
    (sentence,) = summary_of(objectives=(ObjectiveFacts("utilisation", "max"),)).answers
    assert "has the largest utilisation" in statistics(sentence)
    assert "more than the baseline" in statistics(sentence) or sentence.advice.startswith("Keep ")


def test_trials_are_in_the_journals_order() -> None:
    results = cell_results(3)
    cells = [results[9].cell_id, "a cell of an earlier space", *(result.cell_id for result in results)]
    assert trial_order(results, cells, []) == ["log-c0002", "log-c0000", "log-c0001"]


def test_proposals_have_the_order_they_were_made_in_after_what_was_not_proposed() -> None:
    results = cell_results(4)
    cells = [result.cell_id for result in reversed(results)]
    entries = [{"configurations": ["log-c0001", "gone"]}, {"configurations": ["log-c0003"]}]
    assert trial_order(results, cells, entries) == ["log-c0002", "log-c0000", "log-c0001", "log-c0003"]


@pytest.mark.parametrize(("sign", "best"), [(1, [None, 3, 3, 3, 1]), (-1, [None, 3, 4, 4, 4])])
def test_the_best_so_far_passes_over_what_is_missing(sign: int, best: list[float | None]) -> None:
    assert _best_so_far([None, 3, 4, float("nan"), 1], sign) == best


def test_a_schedules_curves_and_bars_are_differences_of_times(tmp_path: Path) -> None:
    columns = {
        "job_id": [7, 8, 9],
        "submit_time": [100, 110, 120],
        "start_time": [100, 150, 150],
        "end_time": [150, 200, 160],
        "processors": [2, 1, 1],
    }
    path = tmp_path / "log-baseline.parquet"
    pq.write_table(pa.table(columns), path)
    (entry,) = _schedule_content(
        [ScheduleFiles("log", {"id": path}, replicate="window 1/2", processors=2)], {"id": "fcfs"}
    )
    (schedule,) = entry["schedules"]
    assert (schedule["role"], schedule["label"], schedule["jobs"], schedule["end"]) == (
        "baseline",
        "fcfs",
        3,
        100,
    )
    assert schedule["bars"] == [[7, 0, 50, 0, 0, 1], [8, 50, 50, 40, 0, 0], [9, 0, 10, 30, 1, 1]]
    assert schedule["use"] == {"times": [0, 60, 40], "values": [2, 1, 0]}
    assert schedule["queue"] == {"times": [10, 10, 30], "values": [1, 2, 0]}


def test_a_long_schedule_is_averaged_and_its_bars_are_cut(tmp_path: Path) -> None:
    start = np.arange(20_000) * 10
    columns = {"job_id": start, "submit_time": start, "start_time": start, "end_time": start + 5}
    path = tmp_path / "log-best.parquet"
    pq.write_table(pa.table({**columns, "processors": np.ones(20_000, dtype=int)}), path)
    (entry,) = _schedule_content([ScheduleFiles("log", {"id": path}, replicate="", processors=1)], {})
    (schedule,) = entry["schedules"]
    assert (schedule["jobs"], len(schedule["bars"])) == (20_000, 8_000)
    assert len(schedule["use"]["times"]) == 2_000
    assert np.mean(schedule["use"]["values"]) == pytest.approx(0.5, abs=0.01)


def test_a_schedule_whose_jobs_share_processors_has_curves_but_no_bars(tmp_path: Path) -> None:
    columns = {"job_id": [1, 2], "submit_time": [0, 0], "start_time": [0, 0], "end_time": [9, 9]}
    path = tmp_path / "log-best.parquet"
    pq.write_table(pa.table({**columns, "processors": [1, 1]}), path)
    (entry,) = _schedule_content([ScheduleFiles("log", {"id": path}, replicate="", processors=1)], {})
    assert entry["schedules"][0]["bars"] == []
    assert entry["schedules"][0]["use"]["values"] == [2, 0]
