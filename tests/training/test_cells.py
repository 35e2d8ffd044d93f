"""Trainings as cells: higher rungs continue lower ones, and a history is that of another training."""

from __future__ import annotations

import pytest

from gridtune.errors import GridtuneError
from gridtune.sweep import run_cell
from gridtune.training.system import TRAININGS_VARIABLE

pytestmark = pytest.mark.integration

TRAINING = {
    "trace": "orion_days",
    "cluster": "orion",
    "first": 30,
    "environments": 2,
    "steps": 48,
    "minibatches": 2,
    "validate_every": 1,
}


def train(monkeypatch, folder, **parameters):
    monkeypatch.setenv(TRAININGS_VARIABLE, str(folder))
    return run_cell("shutdown/ppo", {**TRAINING, **parameters}).outcome


def test_a_rung_continues_the_one_below(cluster, monkeypatch, tmp_path) -> None:
    whole = train(monkeypatch, tmp_path / "whole", iterations=2)
    below = train(monkeypatch, tmp_path / "rungs", iterations=1)
    above = train(monkeypatch, tmp_path / "rungs", iterations=2)
    (training,) = (tmp_path / "rungs").iterdir()
    assert sorted(place.name for place in training.iterdir()) == ["000001", "000002"]
    assert dict(above.metrics) == dict(whole.metrics)
    assert above.notes == whole.notes
    assert above.notes["learning_curve"]["iteration"] == [1, 2]
    # A lower rung is read from its checkpoint, which stays.
    assert train(monkeypatch, tmp_path / "rungs", iterations=1).metrics == below.metrics


def test_a_history_is_the_training_of_other_parameters(cluster, monkeypatch, tmp_path) -> None:
    changed = {"learning_rate": 0.01, "history": "1: learning_rate=0.0005", "iterations": 2}
    kept = train(monkeypatch, tmp_path, iterations=2)
    copied = train(monkeypatch, tmp_path, **changed)
    curves = kept.notes["learning_curve"], copied.notes["learning_curve"]
    assert curves[0]["score_per_day"][0] == curves[1]["score_per_day"][0]
    assert curves[1]["learning_rate"][0] == 0.0005
    assert curves[1]["learning_rate"][1] > 0.009
    assert curves[0]["loss_total"][1] != curves[1]["loss_total"][1]
    # Without the other training's checkpoint it is trained again.
    assert train(monkeypatch, tmp_path / "elsewhere", **changed).metrics == copied.metrics


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ({"frames": 5}, "no effect with network=effects"),
        ({"iterations": 3, "history": "3: gamma=0.9"}, "history is up to iteration 3"),
        ({"iterations": 3, "history": "two"}, "must be `ITERATION"),
    ],
)
def test_faults_are_reported(parameters, fault) -> None:
    with pytest.raises(GridtuneError, match=fault):
        run_cell("shutdown/ppo", {**TRAINING, **parameters})
