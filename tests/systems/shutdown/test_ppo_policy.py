"""`policy=ppo`: a trained network as a rule of the shutdown system."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridtune.errors import GridtuneError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.metrics import combine_days, measure_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.systems.shutdown.simulator.state import FEATURES
from gridtune.systems.shutdown.training import find_policy, play_days
from gridtune.tracking.training import TrainingTracker
from gridtune.training.networks import load_policy, make_network, write_checkpoint


@pytest.fixture
def checkpoint(tmp_path):
    write_checkpoint(tmp_path / "policy.pt", make_network("mlp", FEATURES, 15, seed=4))
    return tmp_path / "policy.pt"


def run(**parameters):
    return run_cell("shutdown", {"trace": "taurus_days", "first": 3, **parameters})


def test_it_plays_the_checkpoint(checkpoint) -> None:
    days = read_training_days("taurus_days", "all").take(np.arange(3))
    greedy = run(policy="ppo", checkpoint=str(checkpoint), greedy=True)
    results, _ = replay(days, rule=play_days(load_policy(checkpoint), days))
    expected = combine_days(measure_days(days, results, Platform()))["energy_waste_total"]
    assert greedy.outcome.metrics["energy_waste_total"] == expected
    drawn, again = (run(policy="ppo", checkpoint=str(checkpoint)) for _ in range(2))
    assert drawn.outcome.metrics == again.outcome.metrics
    assert drawn.outcome.metrics["energy_waste_total"] != greedy.outcome.metrics["energy_waste_total"]


def test_a_policy_that_a_training_tracked_comes_back_from_mlflow(
    checkpoint, store_uri, tmp_path, monkeypatch
) -> None:
    tracker = TrainingTracker("training", "first", tmp_path / "training", parameters={}, uri=store_uri)
    tracker.checkpoint(checkpoint)
    outcome = tracker.close()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store_uri)
    stored, local = (
        run(policy="ppo", checkpoint=place, greedy=True)
        for place in (outcome.checkpoint("policy.pt"), str(checkpoint))
    )
    assert stored.outcome.metrics == local.outcome.metrics
    with pytest.raises(GridtuneError, match="has no file"):
        run(policy="ppo", checkpoint=outcome.checkpoint("other.pt"))


def test_another_network_is_another_cell(checkpoint) -> None:
    before = run(policy="ppo", checkpoint=str(checkpoint)).cell.cell_id
    write_checkpoint(checkpoint, make_network("mlp", FEATURES, 15, seed=5))
    assert run(policy="ppo", checkpoint=str(checkpoint)).cell.cell_id != before


def wasted(policy: dict[str, Any], cluster: str) -> dict[str, float]:
    days = {"trace": f"{cluster}_days", "cluster": cluster, "first": 25, "subset": "test"}
    return run_cell("shutdown", {**days, **policy}).outcome.metrics


def test_the_papers_network_wastes_what_the_paper_says_against_t5() -> None:
    learnt = wasted({"policy": "ppo", "checkpoint": "taurus-lstm"}, "taurus")
    ruled = wasted({"policy": "timeout", "timeout": 5}, "taurus")
    assert 0.45 < learnt["energy_waste_total"] / ruled["energy_waste_total"] < 0.65


def test_the_bundled_policy_is_small() -> None:
    assert find_policy("taurus-lstm").stat().st_size < 1_500_000


def test_a_file_goes_before_a_bundled_name(checkpoint, monkeypatch) -> None:
    monkeypatch.chdir(checkpoint.parent)
    assert load_policy(find_policy("taurus-lstm")).kind == "recurrent"
    checkpoint.rename("taurus-lstm")
    assert load_policy(find_policy("taurus-lstm")).kind == "mlp"


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ({"policy": "ppo"}, "needs a checkpoint"),
        ({"policy": "timeout", "checkpoint": "a.pt"}, "takes no checkpoint"),
        ({"policy": "oracle", "greedy": True}, "has no effect with policy=oracle"),
        ({"policy": "ppo", "checkpoint": "nowhere.pt"}, "cannot be read"),
    ],
)
def test_faults_are_told(parameters, fault) -> None:
    with pytest.raises(GridtuneError, match=fault):
        run(**parameters)
