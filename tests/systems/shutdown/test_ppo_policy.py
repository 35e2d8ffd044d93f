"""`policy=ppo`: a trained network as a rule of the shutdown system."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridtune.errors import GridtuneError
from gridtune.sweep import run_cell
from gridtune.systems.shutdown.environment import read_training_days
from gridtune.systems.shutdown.learners.playing import score_days
from gridtune.systems.shutdown.simulator.state import FEATURES
from gridtune.systems.shutdown.trained import bundled_policies
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
    assert (
        greedy.outcome.metrics["energy_waste_total"]
        == score_days(load_policy(checkpoint), days)["energy_waste_total"]
    )
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


@pytest.mark.parametrize("name", ["taurus", "orion", "graphite", "econome"])
def test_bundled_policies_waste_less_than_a_timeout(name) -> None:
    learnt = wasted({"policy": "ppo", "checkpoint": name, "greedy": True}, name)
    ruled = wasted({"policy": "timeout", "timeout": 0}, name)
    assert learnt["energy_waste_total"] < 0.95 * ruled["energy_waste_total"]
    assert learnt["switches_total"] < ruled["switches_total"]


def test_the_papers_network_wastes_what_the_paper_says_against_t5() -> None:
    learnt = wasted({"policy": "ppo", "checkpoint": "taurus-lstm"}, "taurus")
    ruled = wasted({"policy": "timeout", "timeout": 5}, "taurus")
    assert 0.45 < learnt["energy_waste_total"] / ruled["energy_waste_total"] < 0.65


def test_bundled_policies_are_small() -> None:
    assert sum(file.stat().st_size for file in bundled_policies().values()) < 1_500_000


def test_a_file_goes_before_a_bundled_name(checkpoint, monkeypatch) -> None:
    monkeypatch.chdir(checkpoint.parent)
    checkpoint.rename("taurus")
    assert load_policy("taurus").kind == "mlp"
    assert load_policy(bundled_policies()["taurus"]).kind == "effects"


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
