"""`scripts/train_shutdown.py --track`: the curve in MLflow, and the policy back from there."""

from __future__ import annotations

import runpy
import sys

import pytest

from gridtune.sweep import run_cell
from gridtune.tracking.store import connect
from gridtune.training.checkpoints import load_policy

pytestmark = pytest.mark.integration

OPTIONS = "--network effects --environments 2 --steps 40 --minibatches 2 --validate-every 1 --track"


def train(repository, monkeypatch, *options) -> None:
    script = str(repository / "scripts" / "train_shutdown.py")
    monkeypatch.setattr(sys, "argv", [script, "taurus_days", *options, *OPTIONS.split()])
    runpy.run_path(script, run_name="__main__")


def test_a_tracked_training_and_its_policy(repository, store_uri, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store_uri)
    folder = tmp_path / "first"
    train(repository, monkeypatch, str(folder), "--updates", "1")
    # The schedule is that of the beginning: started again, it has nothing to do but to say where things are.
    train(repository, monkeypatch, str(folder), "--updates", "1")
    uri = capsys.readouterr().out.rpartition("checkpoint=")[2].strip()
    client = connect(store_uri)
    run = client.get_run(uri.split("/")[1])
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert run.data.params["network"] == "effects"
    assert [point.step for point in client.get_metric_history(run.info.run_id, "greedy_score_per_day")] == [1]
    stored = run_cell(
        "shutdown", {"trace": "taurus_days", "first": 1, "policy": "ppo", "checkpoint": uri}
    ).outcome
    local = run_cell(
        "shutdown",
        {"trace": "taurus_days", "first": 1, "policy": "ppo", "checkpoint": str(folder / "best.pt")},
    ).outcome
    assert stored.metrics == local.metrics
    assert load_policy(folder / "best.pt")
