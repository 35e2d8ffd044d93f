"""The folder of a race, which gridtune no longer runs, still reads, reports and exports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import gridtune as gt
from gridtune.report.facts import FACTS_FILE

SPACE = {
    "name": "race",
    "fixed": {"trace": "quickstart"},
    "dimensions": {"order": ["fcfs", "sjf", "saf"], "backfill": ["none", "easy"]},
    "replicates": {"windows": 10},
    "objective": "wait_mean",
    "baseline": {"order": "fcfs", "backfill": "none"},
}


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a race: a grid of which the baseline and one other have all windows."""
    folder = tmp_path_factory.mktemp("race") / "sweep"
    study = gt.run_sweep(SPACE, directory=folder, executor="inline", tracking=False, output="quiet")
    assert "better typically" in set(study.ranking()["verdict"])
    facts = json.loads((folder / FACTS_FILE).read_text())
    facts["space"]["strategy"] = {"race": {"error": 0.1}}
    (folder / FACTS_FILE).write_text(json.dumps(facts))
    return folder


def test_it_is_reported_without_verdicts(race: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(race, tmp_path / "sweep")
    study = gt.report_study(folder)
    verdicts = set(study.ranking()["verdict"])
    assert verdicts <= {"not sure", "", "baseline"}, verdicts
    assert any("this sweep was a race" in line for line in study.summary.remarks)
