"""RLlib's own algorithms train on the responsive site, its candidates flattened into one row."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

from gridtune.environments import ResponsiveEnv
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.site import SiteModel

pytestmark = pytest.mark.integration


def flat_site(_config: object) -> gym.Env:
    """A site on which half of the jobs are short."""
    rng = np.random.default_rng(0)
    run = rng.choice([5, 200], 400)
    jobs = SiteJobs(np.arange(400) * 12, run, 0 * run, (run == 5).astype(int), np.ones(1))
    site = ResponsiveEnv(jobs, SiteModel(cores=10), episode=60, slots=4, weight=1.0, reward="start")
    return FlattenObservation(site)


def test_ppo_of_rllib_trains_on_the_site(cluster):
    register_env("flat-site", flat_site)
    config = (
        PPOConfig()
        .environment("flat-site")
        .env_runners(num_env_runners=0, rollout_fragment_length=240)
        .training(train_batch_size=240, minibatch_size=120, num_epochs=1)
        .debugging(seed=1)
    )
    algorithm = config.build_algo()
    figures = algorithm.train()
    algorithm.stop()
    assert figures["env_runners"]["episode_len_mean"] == 60
    # W is between 0 and 1, and an episode has 60 jobs.
    assert 0 < figures["env_runners"]["episode_return_mean"] < 60
