"""RLlib's own PPO trains on the batch environment, its observations in one row."""

from __future__ import annotations

import numpy as np
import pytest
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

from gridtune.environments import BatchEnv

pytestmark = pytest.mark.integration


def test_ppo_of_rllib_trains_on_the_machine(cluster):
    register_env(
        "small-batch",
        lambda _: BatchEnv("quickstart", jobs=40, candidates=6, flat=True, relative=True),
    )
    config = (
        PPOConfig()
        .environment("small-batch")
        .env_runners(num_env_runners=0, rollout_fragment_length=240)
        .training(train_batch_size=240, minibatch_size=120, num_epochs=1)
        .debugging(seed=1)
    )
    algorithm = config.build_algo()
    figures = algorithm.train()
    algorithm.stop()
    assert figures["env_runners"]["num_episodes"] > 0
    assert np.isfinite(figures["env_runners"]["episode_return_mean"])
