"""RLlib's own PPO trains on the environment of every system, its observations in one row."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

import gridtune.environments  # noqa: F401  (registers)
from gridtune.core.system import SYSTEMS

pytestmark = pytest.mark.integration

#: Options for short episodes, and whether one ends within 240 steps.
ENVIRONMENTS: dict[str, tuple[dict[str, Any], bool]] = {
    "Batch-v0": ({"jobs": 40, "candidates": 6, "relative": True}, True),
    "Dispatch-v0": ({"batch_jobs": 40, "factors": (0.5, 1.5)}, True),
    "Provisioning-v0": ({"instances": 2, "task_processors": 20}, True),
    "Responsive-v0": ({"episode": 60, "slots": 4, "weight": 1.0, "reward": "start"}, True),
    "Shutdown-v0": ({}, False),
}


def make_flat(name: str, _config: Any) -> gymnasium.Env:
    return FlattenObservation(gymnasium.make(f"gridtune/{name}", **ENVIRONMENTS[name][0]))


def test_every_environment_is_trained_in() -> None:
    assert {name for system in SYSTEMS.values() for name in system.environments} == set(ENVIRONMENTS)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_ppo_of_rllib_trains(name, cluster) -> None:
    register_env(name, partial(make_flat, name))
    config = (
        PPOConfig()
        .environment(name)
        .env_runners(num_env_runners=0, rollout_fragment_length=240)
        .training(train_batch_size=240, minibatch_size=120, num_epochs=1)
        .debugging(seed=1)
    )
    algorithm = config.build_algo()
    sampled = algorithm.train()["env_runners"]
    algorithm.stop()
    assert sampled["num_env_steps_sampled"] == 240
    assert not ENVIRONMENTS[name][1] or np.isfinite(sampled["episode_return_mean"])
