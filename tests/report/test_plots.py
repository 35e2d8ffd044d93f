"""Figures: that they are drawn, the same each time, and from the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gridtune.core.schedules.plots import plot_gantt, plot_load
from gridtune.core.schedules.schedule import Schedule
from gridtune.core.usage import StepFunction
from gridtune.errors import MetricError, ScheduleError
from gridtune.report.facts import ObjectiveFacts
from gridtune.report.plots import plot_ranking
from gridtune.report.rankings.ranking import Ranking
from gridtune.report.summarising import draw_report, summarise, write_report
from gridtune.workload.workload import Workload
from tests.tracking.synthetic import sweep_facts

from .synthetic import overall_of, ranking_of, sweep_table

PNG = b"\x89PNG\r\n\x1a\n"
SETTINGS: dict[str, Any] = {
    "objective": "wait_mean",
    "direction": "min",
    "baseline": {"order": "fcfs"},
    "unit": "s",
}


def ranking(**dimensions: Any) -> Ranking:
    return ranking_of(sweep_table(dimensions, replicates=4, failed=[("f1", 1)]), **SETTINGS)


@pytest.mark.parametrize(
    "draw",
    [
        lambda path: plot_ranking(ranking(order=["fcfs", "sjf", "f1"]), path),
        lambda path: plot_ranking(ranking(order=["fcfs", "sjf", "ljf"], backfill=["none", "easy"]), path),
    ],
)
def test_a_figure_is_the_same_each_time(draw: Callable[[Path], Path], tmp_path: Path) -> None:
    first, second = (draw(tmp_path / name).read_bytes() for name in ("one.png", "two.png"))
    assert first.startswith(PNG)
    assert first == second


def test_rankings_without_a_baseline_and_over_all_workloads_are_drawn(tmp_path: Path) -> None:
    table = sweep_table({"order": ["fcfs", "sjf"], "backfill": ["none", "easy"]}, replicates=1)
    alone = ranking_of(table, objective="wait_mean", direction="min", baseline=None)
    assert plot_ranking(alone, tmp_path / "a.png").exists()
    overall = overall_of(table, **SETTINGS)
    assert overall is not None
    assert plot_ranking(overall, tmp_path / "c.png").exists()


def schedule(count: int = 20, processors: int = 8) -> Schedule:
    submit = np.arange(count, dtype=np.int64) * 100
    run = np.full(count, 250, dtype=np.int64)
    columns = {
        "job_id": np.arange(count) + 1,
        "submit_time": submit,
        "run_time": run,
        "requested_processors": np.full(count, 2),
    }
    return Schedule(
        Workload(columns, name="log"),
        processors,
        submit + 50,
        submit + 50 + run,
        run,
        np.zeros(count, dtype=np.int8),
    )


def test_means_over_spans_equal_the_step_functions_own() -> None:
    rng = np.random.default_rng(3)
    times = np.unique(rng.integers(0, 1000, 40))
    function = StepFunction(times, rng.integers(0, 9, len(times)))
    edges = np.array([-50, 0, 3, 500, 501, 1200, 1500])
    expected = [function.mean(int(a), int(b)) for a, b in pairwise(edges)]
    assert function.means(edges) == pytest.approx(expected)
    assert (StepFunction(times[:0], times[:0]).means(edges) == 0).all()


def test_load_and_gantt_are_drawn(tmp_path: Path) -> None:
    tables = {"a": schedule().to_table(), "b": schedule(10).to_table()}
    assert plot_load(tables, 8, tmp_path / "load.png", title="log").read_bytes()[:8] == PNG
    assert plot_gantt(tables["a"], 8, tmp_path / "gantt.png").read_bytes()[:8] == PNG


def test_nothing_to_draw_is_an_error_that_says_so(tmp_path: Path) -> None:
    empty = schedule(0).to_table()
    with pytest.raises(ScheduleError, match="no job to draw"):
        plot_load({"a": empty}, 8, tmp_path / "x.png")
    with pytest.raises(ScheduleError, match="0 jobs"):
        plot_gantt(empty, 8, tmp_path / "x.png")


def with_mean_waits(table: pa.Table, values: list[float | None]) -> pa.Table:
    place = table.column_names.index("metric.wait_mean")
    return table.set_column(place, "metric.wait_mean", pa.array(values, pa.float64()))


@pytest.mark.parametrize("baseline", [{"order": "fcfs"}, {}])
def test_an_objective_without_a_single_value_has_no_figure_and_says_so(
    baseline: dict[str, str], tmp_path: Path
) -> None:
    table = sweep_table({"order": ["fcfs", "sjf"], "backfill": ["none", "easy"]}, replicates=2)
    table = with_mean_waits(table, [float("nan")] * table.num_rows)
    facts = sweep_facts(objectives=(ObjectiveFacts("wait_mean", "min", "s"),), baseline=baseline)
    report = summarise(table, facts)
    write_report(report, tmp_path)
    assert not list(draw_report(report, tmp_path))
    assert "no replicate has a value of the objective" in (tmp_path / "ranking.md").read_text()
    with pytest.raises(MetricError, match="no replicate has a value of wait_mean"):
        plot_ranking(report.rankings["wait_mean"], tmp_path / "a.png")


@pytest.mark.parametrize("baseline", [{"order": "fcfs"}, {}])
def test_a_workload_without_a_single_value_is_drawn_beside_another(
    baseline: dict[str, str], tmp_path: Path
) -> None:
    table = sweep_table({"order": ["fcfs", "sjf"], "backfill": ["none", "easy"]}, replicates=2)
    waits = zip(table["workload"].to_pylist(), table["metric.wait_mean"].to_pylist(), strict=True)
    values = [value if workload == "kth-sp2" else None for workload, value in waits]
    table = with_mean_waits(table, values)
    alone = ranking_of(table, **{**SETTINGS, "baseline": baseline})
    assert plot_ranking(alone, tmp_path / "a.png").exists()
