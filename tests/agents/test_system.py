"""`policy=ppo`: a trained network as a rule of the shutdown system."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.agents.checkpoints import load_policy, write_checkpoint
from gridtune.agents.networks import make_network
from gridtune.agents.playing import score_days
from gridtune.environments.shutdown import read_training_days
from gridtune.errors import GridtuneError
from gridtune.simulation.shutdown.state import FEATURES
from gridtune.sweep import run_cell


@pytest.fixture
def checkpoint(tmp_path):
    write_checkpoint(tmp_path / "policy.pt", make_network("mlp", FEATURES, 15, seed=4))
    return tmp_path / "policy.pt"


def run(**parameters):
    return run_cell("shutdown", {"trace": "taurus_days", "first": 8, **parameters})


def test_it_plays_the_checkpoint(checkpoint) -> None:
    days = read_training_days("taurus_days", "all").take(np.arange(8))
    greedy = run(policy="ppo", checkpoint=str(checkpoint), greedy=True)
    assert (
        greedy.outcome.metrics["energy_waste_total"]
        == score_days(load_policy(checkpoint), days)["energy_waste_total"]
    )
    drawn, again = (run(policy="ppo", checkpoint=str(checkpoint)) for _ in range(2))
    assert drawn.outcome.metrics == again.outcome.metrics
    assert drawn.outcome.metrics["energy_waste_total"] != greedy.outcome.metrics["energy_waste_total"]


def test_another_network_is_another_cell(checkpoint) -> None:
    before = run(policy="ppo", checkpoint=str(checkpoint)).cell.cell_id
    write_checkpoint(checkpoint, make_network("mlp", FEATURES, 15, seed=5))
    assert run(policy="ppo", checkpoint=str(checkpoint)).cell.cell_id != before


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
