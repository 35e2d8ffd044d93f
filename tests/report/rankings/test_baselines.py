"""A baseline of any kind of value is found again among the cells, however the table holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridtune.core.cells import CellResult
from gridtune.errors import SweepError
from gridtune.study import Study, report_study, run_sweep
from gridtune.sweep.journal.journal import Journal
from gridtune.sweep.run import space_cells
from gridtune.systems.batch.system import BatchSystem
from tests.tracking.synthetic import cell_results, study_folder, sweep_facts


@pytest.fixture(autouse=True)
def _no_drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridtune.study.report.draw_report", lambda *_: iter(()))
    # The cells are made up: whether the log has such a partition does not matter.
    monkeypatch.setattr(BatchSystem, "preflight", lambda *_: None)
    monkeypatch.setattr("gridtune.study.run.write_schedules", lambda *_: [])


def study_of(folder: Path, dimensions: dict[str, Any], baseline: dict[str, Any]) -> Study:
    """Return the study of a sweep whose cells are all in the journal."""
    space = {
        "name": "baselines",
        "fixed": {"trace": "quickstart"},
        "dimensions": dimensions,
        "replicates": {"seeds": 2},
        "objective": "wait_mean",
        "baseline": baseline,
    }
    results = [
        CellResult.of(cell, "done", metrics={"wait_mean": 1.0 + number}, seconds=0.1)
        for number, cell in enumerate(space_cells(space))
    ]
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(results)
    return run_sweep(space, directory=folder, executor="inline", tracking=False, output="quiet")


@pytest.mark.parametrize(
    ("dimensions", "baseline", "value"),
    [
        ({"clean": [["default"], ["default", "drop_wider"]]}, {"clean": ["default"]}, ["default"]),
        ({"clean": ["default", "default,drop_wider"]}, {"clean": "default"}, '["default"]'),
        ({"partition": [1, "short"]}, {"partition": 1}, 1),
        ({"order": ["fcfs", "sjf"]}, {"order": "fcfs"}, "fcfs"),
    ],
)
def test_a_list_or_a_number_among_words_can_be_the_baseline(
    dimensions: dict[str, Any], baseline: dict[str, Any], value: Any, tmp_path: Path
) -> None:
    (ranking,) = study_of(tmp_path, dimensions, baseline).summary.rankings.values()
    marked = {row["mean"]: row["is_baseline"] for row in ranking.rows}
    assert marked == {1.5: True, 3.5: False}
    again = report_study(tmp_path, baseline={next(iter(baseline)): value})
    assert again.report_folder == tmp_path  # asked for by name it is the sweep's own still
    assert [row["is_baseline"] for row in next(iter(again.summary.rankings.values())).rows].count(True)


def test_a_baseline_that_no_cell_has_is_told(tmp_path: Path) -> None:
    study_folder(tmp_path, cell_results(), sweep_facts(baseline={"order": "another"}))
    with pytest.raises(SweepError, match="no cell has the baseline's order=another"):
        report_study(tmp_path)
