"""What a ranking says of tables whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from gridtune.errors import MetricError
from gridtune.report.findings import answers_of
from gridtune.report.rankings.cells import read_cells
from gridtune.report.rankings.combined import _correlation
from gridtune.report.rankings.ranking import Ranking, Verdict, has_values, rank, verdict_text
from gridtune.statistics import mean_interval
from tests.report.synthetic import overall_of, ranking_of, sweep_table


def cells(values: Mapping[tuple[Any, ...], Sequence[float | None]], names: Sequence[str]) -> pa.Table:
    """Return a table with one workload; a value of None is a failed cell."""
    rows = [
        {
            "configuration_id": repr(key),
            "workload": "log",
            "replicate": f"seed {index}",
            "state": "failed" if value is None else "done",
            **{f"param.{name}": number for name, number in zip(names, key, strict=True)},
            "metric.wait": value,
        }
        for key, replicates in values.items()
        for index, value in enumerate(replicates)
    ]
    return pa.Table.from_pylist(rows)


def ranked(
    table: pa.Table, baseline: Mapping[str, Any] | None, direction: str = "min"
) -> list[dict[str, Any]]:
    return ranking_of(table, objective="wait", direction=direction, baseline=baseline).rows


def by(rows: Sequence[Mapping[str, Any]], name: str) -> dict[Any, Mapping[str, Any]]:
    return {row[f"param.{name}"]: row for row in rows}


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        (["seed 1", "seed 2"], "seed"),
        (["seed 1", "window 1/2"], "replicate"),
        (["run 1", "run 2"], "replicate"),
    ],
)
def test_replicates_of_one_known_kind_are_called_by_it(labels: list[str], word: str) -> None:
    table = cells({("a",): [1, 2]}, ["order"])
    place = table.schema.get_field_index("replicate")
    table = table.set_column(place, "replicate", pa.array(labels))
    assert read_cells(table, None, ("workload",)).replicate == word


def test_a_mean_or_a_difference_is_a_value() -> None:
    for mean, relative, shown in ((1.0, None, True), (None, 0.1, True), (None, None, False)):
        assert has_values([{"mean": mean, "relative": relative}]) == shown


def test_means_and_paired_differences_are_those_worked_out_by_hand() -> None:
    rows = by(
        ranked(cells({("a",): [10, 20, 30], ("b",): [8, 16, 27]}, ["order"]), {"order": "a"}),
        "order",
    )
    assert rows["b"]["mean"] == pytest.approx(17)
    assert rows["b"]["diff"] == pytest.approx(-3)
    assert rows["b"]["relative"] == pytest.approx(-3 / 20)
    assert rows["b"]["diff_low"] <= -3 <= rows["b"]["diff_high"]
    assert (rows["b"]["rank"], rows["a"]["rank"]) == (1, 2)
    assert rows["a"]["is_baseline"]
    assert rows["a"]["diff"] is None
    assert (rows["b"]["pairs"], rows["a"]["pairs"]) == (3, 0)
    assert rows["a"]["verdict"] == Verdict.BASELINE


def test_the_larger_is_first_where_larger_is_better() -> None:
    table = cells({("a",): [0.5] * 8, ("b",): [0.7, 0.71, 0.72, 0.7, 0.7, 0.7, 0.7, 0.7]}, ["order"])
    rows = ranked(table, {"order": "a"}, "max")
    assert [row["param.order"] for row in rows] == ["b", "a"]
    assert rows[0]["verdict"] == Verdict.BETTER


def test_pairing_finds_what_the_spread_of_the_replicates_would_hide() -> None:
    hard = [10.0 * 3**k for k in range(10)]
    table = cells(
        {("a",): hard, ("b",): [0.95 * value - k * 0.01 for k, value in enumerate(hard)]}, ["order"]
    )
    rows = by(ranked(table, {"order": "a"}), "order")
    assert rows["b"]["ci_low"] < rows["a"]["mean"] < rows["b"]["ci_high"]
    assert rows["b"]["verdict"] == Verdict.TYPICALLY


def test_a_replicate_missing_on_one_side_leaves_the_pairs() -> None:
    table = cells({("a",): [10, 20, 30, 1000], ("b",): [9, 18, 27, None]}, ["order"])
    rows = by(ranked(table, {"order": "a"}), "order")
    assert rows["b"]["pairs"] == 3
    assert rows["b"]["diff"] == pytest.approx(-2)
    assert rows["b"]["relative"] == pytest.approx(-2 / 20)
    assert (rows["b"]["n"], rows["b"]["planned"], rows["b"]["failures"]) == (3, 4, 1)


def test_an_incomplete_configuration_comes_last_and_without_a_rank() -> None:
    # Its mean is the lowest only because the hard replicate is the one that failed.
    table = cells({("a",): [1, 1, 100], ("b",): [1, 1, None], ("c",): [2, 2, 101]}, ["order"])
    rows = ranked(table, {"order": "a"})
    assert [(row["param.order"], row["rank"], row["complete"]) for row in rows] == [
        ("a", 1, True),
        ("c", 2, True),
        ("b", None, False),
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_no_number_counts_as_missing(value: float) -> None:
    rows = by(ranked(cells({("a",): [1, 2, 3], ("b",): [1, 2, value]}, ["order"]), None), "order")
    assert (rows["b"]["n"], rows["b"]["complete"], rows["b"]["failures"]) == (2, False, 0)
    assert rows["b"]["mean"] == pytest.approx(1.5)


GOOD = [10.0 + index for index in range(20)]
HALF = [value / 2 for value in GOOD]


def test_failed_runs_leave_no_verdict_however_good_the_others_are() -> None:
    table = cells({("a",): GOOD, ("b",): [None, None, *HALF[2:]], ("c",): HALF}, ["order"])
    ranking = ranking_of(table, objective="wait", direction="min", baseline={"order": "a"})
    rows = by(ranking.rows, "order")
    assert (rows["b"]["verdict"], rows["b"]["rank"]) == (Verdict.FAILED, None)
    assert verdict_text(rows["b"]) == "2 of 20 runs failed"
    assert rows["c"]["verdict"] == Verdict.BETTER
    (answer,) = answers_of(ranking, ranking)
    assert answer.best == "c"
    assert answer.details[-1] == ("left out", "without a rank because runs failed: b (2 of 20)")


def test_all_but_the_failing_one_failed_has_no_best() -> None:
    table = cells({("a",): [None, *GOOD[1:]], ("b",): [None, *HALF[1:]]}, ["order"])
    ranking = ranking_of(table, objective="wait", direction="min", baseline={"order": "a"})
    (answer,) = answers_of(ranking, ranking)
    assert (answer.best, answer.verdict) == ("", Verdict.NONE)
    assert answer.next_steps[0].endswith("because runs failed: b (1 of 20), a (1 of 20)")


def test_no_verdict_where_the_value_is_undefined_and_that_of_the_baseline_is_not() -> None:
    table = cells({("a",): GOOD, ("b",): [math.nan, *HALF[1:]], ("c",): HALF}, ["order"])
    ranking = ranking_of(table, objective="wait", direction="min", baseline={"order": "a"})
    row = by(ranking.rows, "order")["b"]
    assert (row["undefined"], row["failures"], row["rank"]) == (1, 0, None)
    assert (row["p_value"], row["verdict"]) == (None, Verdict.UNSURE)
    (answer,) = answers_of(ranking, ranking)
    assert answer.details[-1] == ("left out", "without a rank because runs gave no wait: b (1 of 20)")


def test_a_window_without_anything_to_measure_leaves_the_verdicts() -> None:
    table = cells({("a",): [math.nan, *GOOD[1:]], ("b",): [math.nan, *HALF[1:]]}, ["order"])
    rows = by(ranked(table, {"order": "a"}), "order")
    assert (rows["b"]["verdict"], rows["b"]["undefined"], rows["b"]["rank"]) == (Verdict.BETTER, 1, None)


def test_equal_means_share_a_rank() -> None:
    rows = ranked(cells({("a",): [1, 3], ("b",): [2, 2], ("c",): [3, 3]}, ["order"]), None)
    assert [row["rank"] for row in rows] == [1, 1, 3]


def test_what_does_the_same_as_the_baseline_is_equal() -> None:
    rows = by(ranked(cells({("a",): [1, 2, 3], ("b",): [1, 2, 3]}, ["order"]), {"order": "a"}), "order")
    assert rows["b"]["verdict"] == Verdict.EQUAL


def test_five_replicates_prove_nothing_however_large_the_difference() -> None:
    table = cells({("a",): [10, 11, 12, 13, 14], ("b",): [1, 2, 3, 4, 5.5]}, ["order"])
    assert by(ranked(table, {"order": "a"}), "order")["b"]["verdict"] == Verdict.UNSURE


def test_eighteen_times_worse_on_every_replicate_is_sure() -> None:
    # The mean is mostly that of one replicate, as where a window of a log holds a long queue.
    base = [2.0, 900, 4, 7, 30, 3, 12, 5, 60, 2.5]
    factors = [18.0, 19, 5, 26, 12, 9, 30, 15, 22, 7]
    worse = [value * factor for value, factor in zip(base, factors, strict=True)]
    noise = {
        (f"n{i}",): [value * (1 + 0.3 * math.sin(7 * i + k)) for k, value in enumerate(base)]
        for i in range(19)
    }
    row = by(ranked(cells({("a",): base, ("b",): worse, **noise}, ["order"]), {"order": "a"}), "order")["b"]
    assert row["p_value"] <= 0.01
    assert row["relative_low"] > 1
    assert row["verdict"] == Verdict.WORSE


def test_a_disaster_against_a_small_gain_everywhere_else_is_not_sure() -> None:
    base = [100.0 + 3 * k for k in range(10)]
    mostly_better = [value * 0.9 for value in base]
    mostly_better[3] = 20 * base[3]
    row = by(ranked(cells({("a",): base, ("b",): mostly_better}, ["order"]), {"order": "a"}), "order")["b"]
    assert row["diff"] > 0
    assert row["verdict"] == Verdict.UNSURE


def test_configurations_with_fewer_replicates_are_ordered_on_those_they_share() -> None:
    # A search stopped b and c after two easy replicates: on those, a (the best) is 10, c is 11 and b is 12.
    table = cells(
        {("a",): [9, 11, 90], ("b",): [11, 13, None], ("c",): [11, 11, None], ("d",): [9, 12, 91]}, ["order"]
    )
    rows = ranked(table, {"order": "d"})
    assert [(row["param.order"], row["rank"]) for row in rows] == [
        ("a", 1),
        ("d", 2),
        ("c", None),
        ("b", None),
    ]
    lacking = cells({("a",): [10, 20, 90], ("b",): [None, None, 70], ("c",): [12, None, None]}, ["order"])
    # On what they share with a: b is 20 better, c is 2 worse, although its mean is far lower.
    assert [row["param.order"] for row in ranked(lacking, {"order": "a"})] == ["a", "b", "c"]


def test_many_comparisons_ask_for_more_evidence() -> None:
    base = [10.0, 12, 14, 16, 18, 20]
    better = [value - 1 - 0.5 * k for k, value in enumerate(base)]
    noise = {(f"n{i}",): [value + (-1) ** (k // (i + 1)) for k, value in enumerate(base)] for i in range(6)}
    alone = by(ranked(cells({("a",): base, ("b",): better}, ["order"]), {"order": "a"}), "order")["b"]
    among = by(ranked(cells({("a",): base, ("b",): better, **noise}, ["order"]), {"order": "a"}), "order")[
        "b"
    ]
    assert alone["diff_low"] > among["diff_low"]
    assert alone["diff_high"] < 0 <= among["diff_high"]
    assert alone["relative_high"] < 0 <= among["relative_high"]
    assert alone["p_value"] == pytest.approx(2 / 2**6)
    assert alone["verdict"] == Verdict.TYPICALLY
    assert among["verdict"] == Verdict.UNSURE


def test_what_the_baseline_does_not_name_stays_as_the_configuration_has_it() -> None:
    table = cells(
        {("a", 0.7): [10, 20], ("b", 0.7): [9, 18], ("a", 0.9): [100, 200], ("b", 0.9): [80, 160]},
        ["order", "load"],
    )
    rows = {(row["param.order"], row["param.load"]): row for row in ranked(table, {"order": "a"})}
    assert rows["b", 0.7]["relative"] == pytest.approx(-0.1)
    assert rows["b", 0.9]["relative"] == pytest.approx(-0.2)
    assert rows["a", 0.9]["is_baseline"]


def test_a_parameter_that_does_not_apply_to_the_baseline_does_not_hide_it() -> None:
    table = cells(
        {("none", None): [10, 20], ("easy", "sjf"): [5, 10], ("easy", "fcfs"): [6, 12]}, ["fill", "by"]
    )
    rows = {(row["param.fill"], row["param.by"]): row for row in ranked(table, {"fill": "none"})}
    assert rows["easy", "sjf"]["relative"] == pytest.approx(-0.5)
    assert rows["easy", "fcfs"]["relative"] == pytest.approx(-0.4)


def test_a_missing_baseline_cell_is_not_replaced_by_another_one() -> None:
    table = cells({("a", 0.7): [10, 20], ("b", 0.9): [80, 160]}, ["order", "load"])
    rows = {row["param.order"]: row for row in ranked(table, {"order": "a"})}
    assert rows["b"]["diff"] is None
    assert rows["b"]["verdict"] == Verdict.NONE


def test_a_baseline_that_names_a_condition_is_compared_with_under_that_condition_alone() -> None:
    table = cells(
        {("a", 1): [10, 20], ("b", 1): [8, 16], ("a", 2): [30, 60], ("b", 2): [15, 40]}, ["order", "load"]
    )
    ranking = ranking_of(
        table, objective="wait", direction="min", baseline={"order": "a", "load": 1}, group_by=("load",)
    )
    relative = {(row["param.order"], row["load"]): row["relative"] for row in ranking.rows}
    assert relative["b", 1] == pytest.approx(-3 / 15)
    assert relative["b", 2] is None


def test_a_baseline_that_two_configurations_could_be_is_none() -> None:
    table = cells(
        {("a", 1, None): [10, 20], ("a", 2, None): [30, 60], ("b", None, 5): [8, 16]},
        ["order", "depth", "noise"],
    )
    assert by(ranked(table, {"order": "a"}), "order")["b"]["relative"] is None


def test_each_workload_is_ranked_by_itself_and_its_own_properties_are_no_parameters() -> None:
    table = sweep_table({"order": ["fcfs", "sjf"]}, replicates=4)
    ranking = ranking_of(table, objective="wait_mean", direction="min", baseline={"order": "fcfs"}, unit="s")
    groups = ranking.strata
    assert list(groups) == ["ctc-sp2", "kth-sp2"]
    assert all([row["rank"] for row in rows] == [1, 2] for rows in groups.values())
    assert "param.processors" not in ranking.schema.names
    assert "param.trace" not in ranking.schema.names
    assert ranking.head.axis == "wait_mean (s)"


def test_the_same_table_gives_the_same_ranking_whatever_its_order() -> None:
    table = sweep_table({"order": ["fcfs", "sjf", "f1"]}, workloads=["ctc-sp2"])
    shuffled = table.take(list(reversed(range(table.num_rows))))
    settings: dict[str, Any] = {"objective": "wait_mean", "direction": "min", "baseline": {"order": "fcfs"}}
    assert ranking_of(table, **settings).table.equals(ranking_of(shuffled, **settings).table)


def test_a_misspelt_metric_is_guessed() -> None:
    with pytest.raises(MetricError, match="did you mean 'wait'"):
        ranking_of(cells({("a",): [1]}, ["order"]), objective="wiat", direction="min", baseline=None)


def test_a_wrong_direction_and_an_unknown_baseline_are_refused() -> None:
    table = cells({("a",): [1]}, ["order"])
    with pytest.raises(MetricError, match="'min' or 'max'"):
        ranking_of(table, objective="wait", direction="down", baseline=None)
    with pytest.raises(MetricError, match="ordre"):
        ranking_of(table, objective="wait", direction="min", baseline={"ordre": "a"})


def test_a_single_replicate_has_no_interval_and_no_verdict() -> None:
    rows = by(ranked(cells({("a",): [10], ("b",): [1]}, ["order"]), {"order": "a"}), "order")
    assert rows["b"]["ci_low"] is None
    assert rows["b"]["relative"] == pytest.approx(-0.9)
    assert rows["b"]["verdict"] == Verdict.UNSURE


class TestOverall:
    settings: ClassVar[dict[str, Any]] = {"objective": "wait", "direction": "min", "baseline": {"order": "a"}}

    def table(self, logs: Mapping[str, Mapping[str, Sequence[float | None]]]) -> pa.Table:
        parts = []
        for log, values in logs.items():
            part = cells({(name,): number for name, number in values.items()}, ["order"])
            column = pa.array([log] * part.num_rows)
            parts.append(part.set_column(part.column_names.index("workload"), "workload", column))
        return pa.concat_tables(parts)

    def overall(self, table: pa.Table) -> Ranking | None:
        return overall_of(table, **self.settings)

    def test_it_is_the_mean_of_the_relative_differences_each_log_counting_the_same(self) -> None:
        table = self.table(
            {
                "short": {"a": [10, 20], "b": [9, 18]},
                "long": {"a": [1000, 2000, 3000, 4000], "b": [700, 1400, 2100, 2800]},
            }
        )
        ranking = self.overall(table)
        assert ranking is not None
        best, base = ranking.rows
        assert best["relative"] == pytest.approx((-0.1 - 0.3) / 2)
        assert best["n"] == 6
        assert (best["pairs"], base["pairs"]) == (6, 0)
        assert base["relative"] == 0
        assert base["is_baseline"]

    def test_its_interval_leaves_out_how_much_the_logs_differ(self) -> None:
        noise = [1.0, -1, 2, -2, 0, 1, -1, 0.5, -0.5, 0]
        base = [100.0] * 10
        table = self.table(
            {
                "one": {"a": base, "b": [90 + number for number in noise]},
                "two": {"a": base, "b": [50 + number for number in noise]},
            }
        )
        ranking = self.overall(table)
        assert ranking is not None
        row = ranking.rows[0]
        assert row["relative"] == pytest.approx(-0.3)
        assert -0.32 < row["relative_low"] < -0.3 < row["relative_high"] < -0.28
        assert row["verdict"] == Verdict.BETTER

    def test_what_is_hard_for_both_does_not_widen_its_interval(self) -> None:
        hard = [10.0 * 2**k for k in range(10)]
        factors = [0.5, 0.52, 0.48, 0.51, 0.49, 0.5, 0.53, 0.47, 0.5, 0.5]
        better = [value * factor for value, factor in zip(hard, factors, strict=True)]
        table = self.table({"one": {"a": hard, "b": better}, "two": {"a": hard, "b": better}})
        ranking = self.overall(table)
        assert ranking is not None
        row = ranking.rows[0]
        assert row["relative_high"] - row["relative_low"] < 0.05

    def test_a_log_with_few_replicates_counts_as_much_as_one_with_many(self) -> None:
        steady = [90.0, 91, 89, 90, 90, 91, 89, 90, 90, 90, 90, 90]
        shaky = [30.0, 70, 20]
        logs = {"many": {"a": [100.0] * 12, "b": steady}, "few": {"a": [100.0] * 3, "b": shaky}}
        ranking = self.overall(self.table(logs))
        assert ranking is not None
        row = ranking.rows[0]
        assert row["relative"] == pytest.approx((-0.1 - 0.6) / 2)
        # Half of the shaky log's own standard error: the steady one must not drown it.
        assert row["relative_high"] - row["relative_low"] > 2 * 0.5 * 0.15

    def test_two_logs_give_no_interval_by_log(self) -> None:
        logs = {"one": {"a": [10, 20, 30], "b": [9, 18, 28]}, "two": {"a": [5, 6, 7], "b": [4, 5, 6]}}
        ranking = self.overall(self.table(logs))
        assert ranking is not None
        row = ranking.rows[0]
        assert (row["logs"], row["by_log_low"], row["by_log_high"]) == (2, None, None)

    def test_the_interval_by_log_takes_each_log_as_one_observation(self) -> None:
        ratios = {"one": 0.5, "two": 0.6, "three": 0.9, "four": 1.4}
        base = [10.0 + k for k in range(10)]
        noise = [1, 1.01, 0.99, 1.02, 0.98, 1, 1, 1.01, 0.99, 1]
        logs = {
            name: {"a": base, "b": [ratio * x * y for x, y in zip(base, noise, strict=True)]}
            for name, ratio in ratios.items()
        }
        ranking = self.overall(self.table(logs))
        assert ranking is not None
        row = ranking.rows[0]
        per_log = [row["relative"] for row in ranking_of(self.table(logs), **self.settings).rows]
        expected = mean_interval([value for value in per_log if value is not None])
        assert row["logs"] == 4
        assert (row["by_log_low"], row["by_log_high"]) == pytest.approx(expected)
        # Sure on these logs, and not at all on another.
        assert row["relative_high"] < 0 < row["by_log_high"]
        assert row["verdict"] == Verdict.BETTER

    def test_workloads_of_the_same_log_are_one_observation(self) -> None:
        logs = {name: {"a": [10, 20, 30], "b": [9, 18, 28]} for name in ("one", "two", "three", "four")}
        table = self.table(logs)
        checksums = ["x" if name in {"one", "two"} else name for name in table["workload"].to_pylist()]
        ranking = self.overall(table.append_column("trace_checksum", pa.array(checksums)))
        assert ranking is not None
        assert ranking.rows[0]["logs"] == 3

    def test_the_same_windows_under_another_condition_are_no_new_evidence(self) -> None:
        base = [10.0, 14, 9, 20, 12, 11]
        better = [9.0, 13, 8.5, 15, 11, 10.5]
        logs = {name: {"a": base, "b": better} for name in ("small machine", "large machine")}
        table = self.table(logs)
        twice = table.append_column("trace_checksum", pa.array(["x"] * table.num_rows))
        one = ranking_of(twice, **self.settings).rows[0]
        ranking = self.overall(twice)
        assert ranking is not None
        row = ranking.rows[0]
        assert (row["pairs"], row["independent"]) == (12, 6)
        assert row["p_value"] == one["p_value"] == 2 / 2**6
        assert row["relative_low"] == pytest.approx(one["relative_low"])
        assert row["relative_high"] == pytest.approx(one["relative_high"])
        # Two logs would be.
        apart = self.overall(table)
        assert apart is not None
        more = apart.rows[0]
        assert more["independent"] == 12
        assert more["p_value"] == 2 / 2**12
        assert more["relative_high"] < row["relative_high"]

    def test_what_failed_somewhere_has_no_rank(self) -> None:
        table = self.table({"one": {"a": GOOD, "b": [None, *HALF[1:]]}, "two": {"a": GOOD, "b": HALF}})
        ranking = self.overall(table)
        assert ranking is not None
        rows = by(ranking.rows, "order")
        assert (rows["b"]["rank"], verdict_text(rows["b"])) == (None, "1 of 40 runs failed")

    def test_an_undefined_value_somewhere_leaves_no_verdict(self) -> None:
        ranking = self.overall(
            self.table({"one": {"a": GOOD, "b": [math.nan, *HALF[1:]]}, "two": {"a": GOOD, "b": HALF}})
        )
        assert ranking is not None
        row = by(ranking.rows, "order")["b"]
        assert (row["rank"], row["undefined"], row["verdict"]) == (None, 1, Verdict.UNSURE)

    def test_one_log_or_no_baseline_has_none(self) -> None:
        table = self.table({"one": {"a": [1, 2], "b": [1, 2]}})
        assert self.overall(table) is None
        assert overall_of(table, objective="wait", direction="min", baseline=None) is None


def test_real_runs_that_differ_make_intervals_and_verdicts_less_sure() -> None:
    values = {("fcfs",): [100.0, 110, 90, 105, 95, 101, 99], ("same",): [100.0, 110, 90, 105, 95, 101, 99]}
    table = cells(values | {("sjf",): [80.0, 88, 73, 84, 76, 81, 79]}, ["order"])
    table = table.append_column("metric.jobs", pa.array([40.0] * table.num_rows))

    def rows(reach: float) -> dict[Any, Mapping[str, Any]]:
        def of_log(workload: str, metric: str, pair: Any, windows: bool) -> float:
            assert (workload, metric, windows, pair.shape) == ("log", "wait", False, (2, 2, 7))
            return reach

        found = read_cells(table, {"order": "fcfs"}, ("workload",), of_log)
        return by(rank(found, objective="wait", direction="min").rows, "order")

    sure, doubted = rows(0.0)["sjf"], rows(0.3)["sjf"]
    assert sure["verdict"].startswith("better")
    assert doubted["verdict"] == Verdict.UNSURE
    reaches = [math.log((1 + row["relative_high"]) / (1 + row["relative"])) for row in (sure, doubted)]
    assert reaches[1] == pytest.approx(math.hypot(reaches[0], 0.3))
    assert doubted["relative"] == sure["relative"]
    # Of equal schedules nothing is in doubt.
    assert rows(0.3)["same"]["verdict"] == Verdict.EQUAL


@pytest.mark.parametrize("replicates", [10, 11, 50, 333])
def test_strata_correlate_as_numpy_says_and_no_less_than_0(replicates: int) -> None:
    rng = np.random.default_rng(replicates)
    for weight in (-1.0, 0.0, 0.5, 100.0):
        both = rng.lognormal(3, 2, (2, replicates))
        both[1] += weight * both[0]
        assert _correlation(both) == max(0.0, float(np.corrcoef(both)[0, 1]))
    both[1] = 7.0
    assert _correlation(both) == 1.0


def test_a_comparison_with_the_baseline_is_made_once_for_each_baseline_metric_and_error() -> None:
    table = cells({(1,): [3.0, 4.0, 6.0], (2,): [2.0, 2.0, 5.0], (3,): [9.0, 7.0, 8.0]}, ["size"])
    (stratum,) = read_cells(table, {"size": 1}).strata
    first = stratum.paired("wait", stratum.bases, 0.05)
    assert stratum.paired("wait", stratum.bases.copy(), 0.05) is first
    others = (
        stratum.paired("wait", np.full_like(stratum.bases, 2), 0.05),
        stratum.paired("wait", stratum.bases, 0.01),
    )
    assert np.asarray(first.difference).tolist() == pytest.approx([0.0, -4 / 3, 11 / 3])
    assert np.asarray(others[0].difference).tolist() == pytest.approx([-11 / 3, -5.0, 0.0])
    assert np.all(np.asarray(others[1].low)[1:] < np.asarray(first.low)[1:])
