"""Trainings as cells: the same result after an interruption; higher rungs continue lower ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gridtune.errors import GridtuneError
from gridtune.sweep import run_cell
from gridtune.systems.shutdown.training_system import TRAININGS_VARIABLE

TRAINING = {
    "trace": "orion_days",
    "cluster": "orion",
    "first": 30,
    "environments": 2,
    "steps": 48,
    "minibatches": 2,
    "schedule": 400,
    "validate_every": 1,
}


def train(monkeypatch, folder, **parameters):
    monkeypatch.setenv(TRAININGS_VARIABLE, str(folder))
    return run_cell("shutdown_training", {**TRAINING, **parameters}).outcome


def test_a_rung_continues_the_one_below(monkeypatch, tmp_path) -> None:
    whole = train(monkeypatch, tmp_path / "whole", until=2)
    below = train(monkeypatch, tmp_path / "rungs", until=1)
    (training,) = (tmp_path / "rungs").iterdir()
    written = (training / "last.pt").stat().st_mtime_ns
    above = train(monkeypatch, tmp_path / "rungs", until=2)
    assert (training / "last.pt").stat().st_mtime_ns > written
    assert dict(above.metrics) == dict(whole.metrics)
    assert above.notes == whole.notes
    assert above.notes["learning_curve"]["update"] == [1, 2]
    assert below.metrics["updates"] == 1
    # A lower rung is read from the learning curve.
    written = (training / "last.pt").stat().st_mtime_ns
    assert train(monkeypatch, tmp_path / "rungs", until=1).metrics == below.metrics
    assert (training / "last.pt").stat().st_mtime_ns == written


def test_other_parameters_and_seeds_are_other_trainings(monkeypatch, tmp_path) -> None:
    one = train(monkeypatch, tmp_path, until=1)
    other = train(monkeypatch, tmp_path, until=1, learning_rate=0.003)
    seeded = run_cell("shutdown_training", {**TRAINING, "until": 1}, seed=3).outcome
    assert len(list(tmp_path.iterdir())) == 3
    assert one.metrics["return_mean"] != seeded.metrics["return_mean"]
    # The first update is collected before the learning rate matters.
    assert one.metrics["return_mean"] == other.metrics["return_mean"]


# That a stopped training continues without a difference is tested on small days in `test_days_training`.
@pytest.mark.slow
@pytest.mark.integration
def test_a_killed_training_ends_as_one_that_was_not(monkeypatch, tmp_path) -> None:
    updates = 12
    parameters = [f"{name}={value}" for name, value in {**TRAINING, "until": updates}.items()]
    command = [sys.executable, "-m", "gridtune", "run", "shutdown_training", *parameters, "--json"]
    environment = {**os.environ, TRAININGS_VARIABLE: str(tmp_path / "killed")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    end = time.monotonic() + 300
    while not list((tmp_path / "killed").glob("*/last.pt")):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    (training,) = (tmp_path / "killed").iterdir()
    before = Path(training / "learning_curve.jsonl").read_text().splitlines()
    assert 1 <= len(before) < updates
    second = subprocess.run(command, env=environment, capture_output=True, check=True)
    whole = train(monkeypatch, tmp_path / "whole", until=updates)
    assert json.loads(second.stdout)["metrics"] == pytest.approx(dict(whole.metrics), rel=0, abs=0)
    lines = [json.loads(line) for line in (training / "learning_curve.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == whole.notes["learning_curve"]["update"]


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ({"until": 500}, "more than the 400 updates"),
        ({"until": 1, "frames": 5}, "no effect with network=effects"),
    ],
)
def test_faults_are_reported(parameters, fault) -> None:
    with pytest.raises(GridtuneError, match=fault):
        run_cell("shutdown_training", {**TRAINING, **parameters})
