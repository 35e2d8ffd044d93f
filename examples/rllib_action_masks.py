"""RLlib's PPO with action masks: it never takes a slot without a job.

RLlib's module for masks reads a dictionary of `action_mask` and one row of numbers, `observations`.

    python examples/rllib_action_masks.py --trace quickstart --iterations 20
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

import gridtune  # noqa: F401 (registers the environments)


def masked(options: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Return a batch machine whose observations are a mask, and all other numbers as one row."""
    env = gym.make("gridtune/Batch-v0", **options)
    assert isinstance(env.observation_space, gym.spaces.Dict)
    others = {name: space for name, space in env.observation_space.items() if name != "action_mask"}
    numbers, slots = gym.spaces.Dict(others), env.observation_space["action_mask"].shape
    row = gym.spaces.flatten_space(numbers)
    space = gym.spaces.Dict({"action_mask": gym.spaces.Box(0, 1, slots, np.float32), "observations": row})

    def seen(observation: Mapping[str, Any]) -> dict[str, Any]:
        mask = observation["action_mask"].astype(np.float32)
        return {"action_mask": mask, "observations": gym.spaces.flatten(numbers, observation)}

    return gym.wrappers.TransformObservation(env, seen, space)


def main() -> None:
    """Train, and print the mean return of each iteration."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", default="quickstart")
    parser.add_argument("--jobs", type=int, default=128, help="jobs of an episode")
    parser.add_argument("--iterations", type=int, default=20)
    arguments = parser.parse_args()
    register_env("masked", masked)
    options = {"trace": arguments.trace, "jobs": arguments.jobs, "candidates": 16}
    config = PPOConfig().environment("masked", env_config=options)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    config.training(train_batch_size_per_learner=1024, minibatch_size=256, num_epochs=4, lr=3e-4)
    config.rl_module(rl_module_spec=RLModuleSpec(module_class=ActionMaskingTorchRLModule))
    algorithm = config.build_algo()
    for _ in range(arguments.iterations):
        print(algorithm.train()["env_runners"].get("episode_return_mean"))  # None until an episode has ended


if __name__ == "__main__":
    main()
