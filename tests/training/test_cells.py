"""Trainings as cells: higher rungs continue lower ones, and a history is that of another training."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from gridtune.core.measures import Measure
from gridtune.core.system import SystemParameters
from gridtune.errors import GridtuneError
from gridtune.sweep.execution.runner import run_cell
from gridtune.training.system import TRAINING_MEASURES, TRAININGS_VARIABLE, Training, TrainingParameters

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


@pytest.mark.integration
@pytest.mark.slow
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


@pytest.mark.integration
@pytest.mark.slow
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
        ({"frames": 5}, "no effect with network=recurrent"),
        ({"iterations": 3, "history": "3: gamma=0.9"}, "history is up to iteration 3"),
        ({"iterations": 3, "history": "two"}, "must be `ITERATION"),
    ],
)
def test_faults_are_reported(parameters, fault) -> None:
    with pytest.raises(GridtuneError, match=fault):
        run_cell("shutdown/ppo", {**TRAINING, **parameters})


class SumParameters(TrainingParameters):
    """With the rate at which the agent learns."""

    learning_rate: float = 1.0


class SumAlgorithm:
    """Stands for an algorithm of RLlib; its agent is the sum of the learning rates of its iterations."""

    trained: ClassVar[int] = 0

    def __init__(self, rate):
        self.rate, self.sum = rate, 0.0

    def train(self):
        type(self).trained += 1
        self.sum += self.rate
        return {"env_runners": {"episode_return_mean": self.sum}}

    def save_to_path(self, path):
        (Path(path) / "sum.json").write_text(json.dumps(self.sum))

    def restore_from_path(self, path):
        self.sum = json.loads((Path(path) / "sum.json").read_text())

    def stop(self):
        pass


class SumTraining(Training):
    """The score is best where the sum is 3."""

    name, version, objective = "sums/ppo", "1", "score"
    Parameters: ClassVar[type[SystemParameters]] = SumParameters
    metrics: ClassVar = {"score": Measure("1", "max", "-|sum - 3|", source="none"), **TRAINING_MEASURES}

    def config(self, parameters, *, seed, load):
        return SimpleNamespace(build_algo=lambda: SumAlgorithm(parameters.learning_rate))

    def evaluate(self, parameters, algorithm, *, rng, load):
        return {"score": -abs(algorithm.sum - 3)}

    def write_policy(self, parameters, algorithm, path, notes):
        path.write_text(json.dumps({"sum": algorithm.sum, **notes}))


def sums(folder, monkeypatch, **parameters):
    """Run a cell of sums; return its outcome, and how many iterations it took."""
    monkeypatch.setenv(TRAININGS_VARIABLE, str(folder))
    before = SumAlgorithm.trained
    values = SumParameters(validate_every=2, **parameters)
    outcome = SumTraining().run(values, streams=lambda _: np.random.default_rng(1), load=None, tables=False)
    return outcome, SumAlgorithm.trained - before


def test_a_cell_goes_on_from_the_checkpoint_with_fewer_iterations(tmp_path, monkeypatch) -> None:
    whole, _ = sums(tmp_path / "whole", monkeypatch, iterations=5)
    _, first = sums(tmp_path / "rungs", monkeypatch, iterations=4)
    above, second = sums(tmp_path / "rungs", monkeypatch, iterations=5)
    assert (first, second) == (4, 1)
    # Equal to the last bit, NaN included: steps are unknown to this algorithm.
    assert repr(above) == repr(whole)
    assert above.metrics["score"] == -2
    assert above.notes["learning_curve"]["return_mean"] == [1, 2, 3, 4, 5]
    assert above.notes["learning_curve"]["score"] == [None, -1, None, -1, -2]
    (training,) = (tmp_path / "rungs").iterdir()
    # A checkpoint at the end of each cell, and none that was passed.
    assert sorted(place.name for place in training.iterdir()) == ["000004", "000005"]
    best = json.loads((training / "000005" / "best.pt").read_text())
    # Two and four are as near to three: of equally good policies the last is kept.
    assert (best["sum"], best["iteration"]) == (4, 4)
    assert sums(tmp_path / "rungs", monkeypatch, iterations=4)[1] == 0


def test_a_damaged_checkpoint_is_not_gone_on_from(tmp_path, monkeypatch) -> None:
    sums(tmp_path, monkeypatch, iterations=3)
    next(tmp_path.glob("*/000003/sum.json")).write_text("")
    outcome, trained = sums(tmp_path, monkeypatch, iterations=4)
    assert (trained, outcome.metrics["score"]) == (4, -1)


def test_a_history_continues_the_training_with_other_parameters(tmp_path, monkeypatch) -> None:
    sums(tmp_path, monkeypatch, iterations=2)
    changed = {"learning_rate": 0.5, "history": "2: learning_rate=1.0", "iterations": 4}
    outcome, trained = sums(tmp_path, monkeypatch, **changed)
    assert trained == 2
    assert outcome.notes["learning_curve"]["return_mean"] == [1, 2, 2.5, 3]
