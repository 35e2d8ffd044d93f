"""Tables on the terminal and in files."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.labels import configuration_label, number_text, percent_text
from gridtune.report.rankings.ranking import Ranking
from gridtune.report.summarising import summarise
from gridtune.report.tables import print_ranking, ranking_markdown, table_csv

from .synthetic import overall_of, ranking_of, sweep_table

DIMENSIONS = {"order": ["fcfs", "sjf", "f1", "unicef"], "backfill": ["none", "easy", "conservative"]}


def ranking(replicates: int = 10, **options: Any) -> Ranking:
    table = sweep_table({**DIMENSIONS, "kill": [True]}, replicates=replicates, **options)
    baseline = {"order": "fcfs", "backfill": "easy"}
    return ranking_of(table, objective="wait_mean", direction="min", baseline=baseline, unit="s")


def printed(table: Ranking, width: int = 110, **options: Any) -> str:
    out = io.StringIO()
    print_ranking(table, console=Console(file=out, width=width, highlight=False), **options)
    return out.getvalue()


def test_it_fits_the_terminal_and_cuts_nothing() -> None:
    text = printed(ranking(failed=[("f1", 3)]), width=110)
    assert max(map(len, text.splitlines())) <= 110
    assert "…\n" not in text
    assert "conservative" in text


def test_a_note_is_printed_once() -> None:
    out = io.StringIO()
    print_ranking(ranking(), ranking(), console=Console(file=out, width=200, highlight=False))
    assert out.getvalue().count("better, worse:") == 1
    assert out.getvalue().count("baseline") == 2 * printed(ranking(), width=200).count("baseline")


def test_a_narrow_terminal_loses_what_says_least() -> None:
    head = printed(ranking(), width=80).splitlines()[2]
    assert "IQM" not in head
    assert "verdict" in head
    assert "conservative" in printed(ranking(), width=80)


def test_only_parameters_that_vary_have_a_column() -> None:
    head = printed(ranking()).splitlines()[2]
    assert "order" in head
    assert "backfill" in head
    assert "kill" not in head
    assert "processors" not in head


def test_a_table_warns_of_values_that_need_it() -> None:
    reserved = ["easy", "conservative", "conservative-no-compression"]
    table = sweep_table({"backfill": reserved})
    facts = SweepFacts("1", "orders", "", "batch", "2", (ObjectiveFacts("wait_mean", "min", "s"),))
    summary = summarise(table, replace(facts, dimensions=("backfill",)))
    (shown,) = summary.rankings.values()
    warning = "backfill=conservative-no-compression: reservations never move"
    assert printed(shown, width=300).count(warning) == 1
    assert ranking_markdown(shown).count(warning) == len(shown.strata)
    others = summarise(table.filter(pc.not_equal(table["param.backfill"], reserved[-1])), facts)
    assert "never move" not in others.markdown


def test_failures_show_only_where_there_are_some() -> None:
    assert "failed" not in printed(ranking())
    text = printed(ranking(failed=[("f1", 3)]))
    assert "failed" in text
    assert "9*" in text
    assert "some replicates have no result" in text


def test_a_short_table_still_has_the_baseline_and_says_what_is_left_out() -> None:
    text = printed(ranking(), limit=2)
    assert text.count("baseline\n") + text.count("baseline ") >= 2
    assert "9 more configurations" in text


def test_too_few_replicates_for_any_proof_are_told() -> None:
    assert "5 replicates cannot show any difference: at least 6 are needed" in printed(ranking(replicates=5))
    assert "cannot show any difference" not in printed(ranking(replicates=10))


def test_a_table_says_what_its_intervals_are_over() -> None:
    table = sweep_table({"order": ["fcfs", "sjf"]}, replicates=7)
    settings: dict[str, Any] = {"objective": "wait_mean", "direction": "min", "baseline": {"order": "fcfs"}}
    windows = printed(ranking_of(table, **settings))
    assert "7 windows of this log" in windows
    assert "another log may give a different result" in windows.replace("\n", " ")
    labels = pa.array([f"seed {label[7]}" for label in table["replicate"].to_pylist()])
    seeds = table.set_column(table.column_names.index("replicate"), "replicate", labels)
    assert "7 seeds\n" in printed(ranking_of(seeds, **settings))
    overall = overall_of(table, **settings)
    assert overall is not None
    text = printed(overall)
    assert "over 2 logs" in text
    assert "an interval for other logs takes at least 3 logs" in text
    assert "95 % by log" not in text


def test_three_logs_have_an_interval_by_log() -> None:
    logs = ["ctc-sp2", "kth-sp2", "nasa-ipsc"]
    table = sweep_table({"order": ["fcfs", "sjf"]}, replicates=7, workloads=logs)
    overall = overall_of(table, objective="wait_mean", direction="min", baseline={"order": "fcfs"})
    assert overall is not None
    text = printed(overall)
    assert "over 3 logs" in text
    assert "95 % by log" in text.splitlines()[2]


def test_the_csv_holds_every_number_in_full() -> None:
    table = ranking(failed=[("f1", 3)])
    rows = list(csv.DictReader(io.StringIO(table_csv(table.table))))
    for read, row in zip(rows, table.rows, strict=True):
        assert float(read["mean"]) == row["mean"]
        assert read["verdict"] == row["verdict"]
        assert (read["rank"] == "") == (row["rank"] is None)


def test_markdown_has_a_table_per_workload_and_marks_the_baseline() -> None:
    text = ranking_markdown(ranking(failed=[("f1", 3)]))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 * (2 + 12)
    assert len({line.count("|") for line in lines}) == 1
    assert sum("**fcfs**" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.12341, "0.1234"),
        (-12.3456, "−12.35"),
        (9999.4, "9999"),
        (12345.6, "12,346"),
        (1.5e10, "1.500e+10"),
        (1.5e-6, "1.500e−06"),
        (float("nan"), "–"),
        (None, "–"),
        (float("-inf"), "−∞"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number_text(value) == text


def test_percentages_have_a_sign() -> None:
    assert percent_text(0.051) == "+5.1 %"
    assert percent_text(-0.2) == "−20.0 %"
    assert percent_text(12.0) == "+1,200 %"
    # The end of an interval of windows that are nearly one.
    assert percent_text(130_267_191.4) == "> +1,000,000 %"


def test_labels_name_numbers_and_leave_out_what_does_not_apply() -> None:
    label = configuration_label(
        {"order": "sjf", "load": 0.9, "by": None, "kill": True}, ["order", "load", "by", "kill"]
    )
    assert label == "sjf · load=0.9 · kill=yes"
