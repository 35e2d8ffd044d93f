"""Pareto fronts of sweeps: who is on them, their hypervolume, the files, and what is printed."""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gridtune.cli.main import main
from gridtune.report.facts import ObjectiveFacts
from gridtune.report.summarising import draw_report, summarise, write_report
from gridtune.report.summary import Summary
from tests.report.synthetic import sweep_table
from tests.tracking.synthetic import cell_results, study_folder, sweep_facts

WAIT, USE = ObjectiveFacts("wait_mean", "min", "s"), ObjectiveFacts("utilisation", "max", "")


def table_of(points: dict[str, tuple[float, float]], missing: str = "") -> pa.Table:
    """Return cells of two replicates whose means are these (wait, utilisation)."""
    rows = [
        {
            "configuration_id": name,
            "workload": "log",
            "replicate": f"window {replicate}/2",
            "state": "failed" if name == missing and replicate == 2 else "done",
            "param.order": name,
            "metric.wait_mean": wait + (-1) ** replicate,
            "metric.utilisation": use,
        }
        for (name, (wait, use)), replicate in product(points.items(), (1, 2))
    ]
    return pa.Table.from_pylist(rows)


def summary_of(table: pa.Table, **changes: object) -> Summary:
    return summarise(table, sweep_facts(2, objectives=(WAIT, USE), baseline={}, **changes))


POINTS = {"a": (10.0, 0.5), "b": (20.0, 0.7), "c": (30.0, 0.9), "d": (25.0, 0.6), "e": (30.0, 0.9)}


def test_the_front_is_what_nothing_dominates_and_equal_points_stay_together() -> None:
    (front,) = summary_of(table_of(POINTS)).fronts
    names = [parts[0]["param.order"] for parts in front.rows]
    assert front.size == 4
    assert names[:2] == ["a", "b"]
    assert set(names[2:4]) == {"c", "e"}
    assert names[4:] == ["d"]


def test_the_hypervolume_is_the_area_by_hand() -> None:
    # On the scale of 10 … 30 seconds and, larger being better, 0.9 … 0.5: a (0, 1), b (0.5, 0.5), c (1, 0).
    (front,) = summary_of(table_of(POINTS)).fronts
    by_hand = 1.1 * 0.1 + 0.6 * 0.5 + 0.1 * 0.5
    assert front.hypervolume == pytest.approx(by_hand)
    assert front.reference == pytest.approx((10 + 1.1 * 20, 0.9 - 1.1 * 0.4))
    assert front.limit == pytest.approx(1.21)


def test_a_configuration_that_lacks_a_replicate_takes_no_part() -> None:
    (front,) = summary_of(table_of(POINTS, missing="a")).fronts
    assert front.rows[0][0]["param.order"] == "b"
    assert len(front.rows) == 4


def test_one_objective_has_no_front() -> None:
    assert summarise(table_of(POINTS), sweep_facts(2, objectives=(WAIT,), baseline={})).fronts == []


def test_nothing_finite_gives_no_front(tmp_path: Path) -> None:
    table = table_of({"a": (np.nan, np.nan)})
    assert summary_of(table).fronts == []
    assert not any("front" in path.name for path in write_report(summary_of(table), tmp_path))


def test_several_strata_have_a_front_over_all_of_relative_differences(tmp_path: Path) -> None:
    table = sweep_table({"order": ["fcfs", "sjf", "saf", "f1"], "backfill": ["none", "easy"]})
    facts = sweep_facts(10, objectives=(WAIT, USE), baseline={"order": "fcfs", "backfill": "easy"})
    summary = summarise(table, facts)
    assert [front.stratum for front in summary.fronts] == ["overall", "ctc-sp2", "kth-sp2"]
    write_report(summary, tmp_path)
    list(draw_report(summary, tmp_path / "plots"))
    assert (tmp_path / "plots" / "front.png").stat().st_size > 10_000
    assert (tmp_path / "plots" / "overall-front.png").stat().st_size > 10_000
    rows = list(csv.DictReader((tmp_path / "front.csv").open()))
    assert len(rows) == sum(front.size for front in summary.fronts[1:])
    best = summary.fronts[1].rows[0][0]
    assert float(rows[0]["wait_mean"]) == best["mean"]
    assert float(rows[0]["wait_mean.low"]) == best["ci_low"]
    overall = list(csv.DictReader((tmp_path / "overall-front.csv").open()))
    assert float(overall[0]["wait_mean"]) == summary.fronts[0].rows[0][0]["relative"]


def test_three_objectives_draw_a_panel_per_pair(tmp_path: Path) -> None:
    table = sweep_table({"order": ["fcfs", "sjf", "saf", "f1"]}, workloads=["kth-sp2"])
    table = table.append_column("metric.makespan", pa.array(np.linspace(1, 2, table.num_rows)))
    facts = sweep_facts(10, objectives=(WAIT, USE, ObjectiveFacts("makespan", "min")), baseline={})
    (front,) = summarise(table, facts).fronts
    assert front.points.shape == (4, 3)
    list(draw_report(summarise(table, facts), tmp_path / "plots"))
    assert (tmp_path / "plots" / "front.png").exists()


def test_size_and_hypervolume_are_printed_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study_folder(tmp_path, cell_results(), sweep_facts(objectives=(WAIT, USE)))
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "Pareto front of log: 1 of 3 configurations, hypervolume" in printed
    assert "reference point wait_mean" in printed
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path), "--json"])
    front = json.loads(capsys.readouterr().out)["fronts"]["log"]
    assert (front["size"], front["configurations"]) == (1, 3)
    assert front["hypervolume"] == pytest.approx(1.21)
    assert set(front["reference_point"]) == {"wait_mean", "utilisation"}
