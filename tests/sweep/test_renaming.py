"""A journal of an earlier gridtune: its metrics and parameters have their names and units of today."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtune.cli.main import main
from gridtune.core.cells import CellResult
from gridtune.core.measures import RenamedMetric
from gridtune.core.system import get_system
from gridtune.core.user_code.plugins import load_plugins
from gridtune.report.facts import FACTS_FILE
from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.journal.journal import Journal, read_journal
from gridtune.sweep.journal.results import Renaming, read_table, results_table, write_table
from gridtune.sweep.run import run_space, space_cells
from tests.sweep.spaces import TOY, toy_space

MESSAGE = (
    "the journal is of an earlier gridtune: mean_loss is now loss (× 60), the parameter sleep_time is now nap"
)
SPACE = toy_space(dimensions={"x": [1, 2], "nap": [0.0, 0.001]}, baseline={"x": 1, "nap": 0.0})


@pytest.fixture
def old_study(tmp_path: Path) -> Path:
    """A finished sweep as an earlier gridtune left it: `mean_loss` in minutes, `sleep_time` for `nap`."""
    results = []
    for cell in space_cells(SPACE):
        outcome = run_cell("toy", cell.parameters, seed=cell.seed).outcome
        metrics = {"gain": outcome.metrics["gain"], "mean_loss": outcome.metrics["loss"] / 60}
        result = CellResult.of(cell, "done", metrics=metrics, seconds=0.1, worker="host:1")
        results.append(
            replace(
                result,
                configuration=_old_parameters(result.configuration),
                parameters=_old_parameters(result.parameters),
            )
        )
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(results)
    write_table(results_table(results), tmp_path / "results.parquet")
    facts = {
        "schema": 1,
        "sweep_id": "0123456789abcdef",
        "name": "toys",
        "description": "",
        "system": "toy",
        "system_version": "1",
        "objectives": [{"metric": "mean_loss", "direction": "min", "unit": "min"}],
        "baseline": {"x": 1.0, "sleep_time": 0.0},
        "dimensions": ["x", "sleep_time"],
        "replicates": 2,
        "cells": len(results),
        "plugins": [str(TOY)],
    }
    (tmp_path / FACTS_FILE).write_text(json.dumps(facts))
    return tmp_path


def _old_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"sleep_time" if name == "nap" else name: value for name, value in parameters.items()}


def test_a_sweep_goes_on_from_it_and_runs_nothing_again(old_study: Path) -> None:
    stored = read_journal(old_study / "journal.jsonl")
    sweep = run_space(SPACE, directory=old_study, executor="inline")
    assert sweep.ran == 0
    assert sweep.renaming == MESSAGE
    for result in sweep.results:
        assert set(result.metrics) == {"loss", "gain"}
        assert result.metrics["loss"] == stored[result.cell_id].metrics["mean_loss"] * 60
        assert result.metrics["gain"] == stored[result.cell_id].metrics["gain"]
        assert set(result.parameters) >= {"x", "nap"}
    assert {"metric.loss", "param.nap"} <= set(read_table(old_study / "results.parquet").column_names)


def test_a_journal_of_today_says_nothing_of_names(old_study: Path, tmp_path: Path) -> None:
    results = run_space(SPACE, directory=old_study, executor="inline").results
    with Journal(tmp_path / "today" / "journal.jsonl") as journal:
        journal.append(results)
    assert run_space(SPACE, directory=tmp_path / "today", executor="inline").renaming is None


def test_a_name_that_is_in_use_means_what_it_means_today() -> None:
    load_plugins([TOY])
    toy = type(get_system("toy"))
    names = {"gain": RenamedMetric("loss", 60.0), "mean_loss": RenamedMetric("loss", 60.0)}
    renaming = Renaming(type("Other", (toy,), {"renamed_metrics": names})())
    assert renaming.metric("gain") == RenamedMetric("gain")
    assert renaming.message is None
    assert renaming.metric("mean_loss") == RenamedMetric("loss", 60.0)
    assert renaming.message == "the journal is of an earlier gridtune: mean_loss is now loss (× 60)"


def test_a_report_ranks_it_by_the_metric_of_today(
    old_study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_table(old_study / "results.parquet")
    with pytest.raises(SystemExit) as ended:
        main(["report", str(old_study), "--json"])
    assert ended.value.code == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [MESSAGE]
    assert json.loads(printed.out)["renaming"] == MESSAGE
    lines = (old_study / "ranking-loss.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    values = before["metric.mean_loss"].to_numpy() * 60
    assert sorted(float(row["mean"]) for row in rows) == pytest.approx(
        sorted((values[0::2] + values[1::2]) / 2), rel=1e-6
    )
    assert "param.nap" in rows[0]


def test_the_old_names_are_answered_with_the_new_ones(
    old_study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_plugins([TOY])
    for options, hint in (
        (["--objective", "mean_loss"], "it is called loss now"),
        (["--baseline", "sleep_time=0"], "it is called nap now"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["report", str(old_study), *options])
        assert ended.value.code == 2
        assert hint in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["run", "toy", "sleep_time=0"])
    assert "toy has no parameter 'sleep_time'\n  hint: it is called nap now" in capsys.readouterr().err
