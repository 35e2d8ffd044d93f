"""RLlib's own algorithms train on the broker."""

from __future__ import annotations

import gymnasium as gym
import pytest
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

from gridtune.environments import DispatchEnv

pytestmark = pytest.mark.integration


def small_broker(_config: object) -> gym.Env:
    return DispatchEnv(batch_jobs=40, factors=(0.5, 1.5))


def test_ppo_of_rllib_trains_on_the_broker(cluster):
    register_env("small-broker", small_broker)
    config = (
        PPOConfig()
        .environment("small-broker")
        .env_runners(num_env_runners=0, rollout_fragment_length=160)
        .training(train_batch_size=160, minibatch_size=80, num_epochs=1)
        .debugging(seed=1)
    )
    algorithm = config.build_algo()
    figures = algorithm.train()
    algorithm.stop()
    assert figures["env_runners"]["episode_len_mean"] == 40
    assert figures["env_runners"]["episode_return_mean"] < 0
