"""PPO of other libraries in the batch environment: sb3-contrib's MaskablePPO, and RLlib's with masks.

    python -m benchmarks.batch_stock sb3 --seconds 300 --seed 0 --out FILE.npz
    python -m benchmarks.batch_stock rllib --seconds 300 --seed 0 --out FILE.npz

Both have their default networks, and the hyper-parameters of the study where they have them. What they learn
is written as plain layers, which `python -m benchmarks.batch_learners` plays. sb3-contrib is not among
gridtune's dependencies.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

from gridtune.batch.environment import BatchEnv, read_jobs

#: The environment, and what PPO has in common.
OPTIONS: dict[str, Any] = {
    "candidates": 32, "jobs": 3000, "warm": 512, "predict": True, "order": "sjf", "reward": "delay",
}  # fmt: skip
GAMMA, LAMBDA, RATE, ENTROPY, EPOCHS, BATCH, ENVIRONMENTS = 0.9998, 0.97, 3e-4, 0.001, 3, 8192, 16


def learned_jobs(log: str) -> Any:
    """Return the first 70 % of the first half of a log."""
    half = read_jobs(log, "first-half")
    return half.take(slice(0, round(0.7 * len(half))))


def by_sb3(log: str, seconds: float, seed: int) -> tuple[list[np.ndarray], int]:
    """Train MaskablePPO; return the layers of its policy, and the number of decisions."""
    from sb3_contrib import MaskablePPO  # noqa: PLC0415 (not a dependency)
    from stable_baselines3.common.callbacks import BaseCallback  # noqa: PLC0415
    from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: PLC0415

    jobs = learned_jobs(log)
    envs = DummyVecEnv([lambda: BatchEnv(jobs, flat=True, **OPTIONS)] * ENVIRONMENTS)
    began = time.process_time()

    class Limit(BaseCallback):
        def _on_step(self) -> bool:
            return time.process_time() - began < seconds

    model = MaskablePPO(
        "MlpPolicy", envs, learning_rate=RATE, n_steps=BATCH // ENVIRONMENTS, batch_size=512, n_epochs=EPOCHS,
        gamma=GAMMA, gae_lambda=LAMBDA, ent_coef=ENTROPY, seed=seed, device="cpu",
    )  # fmt: skip
    model.learn(10**9, callback=Limit())
    policy = model.policy
    layers = [*policy.mlp_extractor.policy_net, policy.action_net]
    return _weights(layers), int(model.num_timesteps)


def by_rllib(log: str, seconds: float, seed: int) -> tuple[list[np.ndarray], int]:
    """Train RLlib's PPO with action masks; return the layers of its policy, and the number of decisions."""
    jobs = learned_jobs(log)

    def masked(_: Mapping[str, Any]) -> gym.Env[Any, Any]:
        env = BatchEnv(jobs, flat=True, **OPTIONS)
        space = gym.spaces.Dict(
            {
                "action_mask": gym.spaces.Box(0, 1, (OPTIONS["candidates"],), np.float32),
                "observations": env.observation_space,
            }
        )
        seen = lambda row: {"action_mask": env.action_masks().astype(np.float32), "observations": row.copy()}  # noqa: E731
        return gym.wrappers.TransformObservation(env, seen, space)

    register_env("masked", masked)
    config = PPOConfig().environment("masked").debugging(seed=seed)
    config.env_runners(
        num_env_runners=0, num_envs_per_env_runner=ENVIRONMENTS, rollout_fragment_length="auto"
    )
    config.training(
        train_batch_size_per_learner=BATCH, minibatch_size=512, num_epochs=EPOCHS, lr=RATE, gamma=GAMMA,
        lambda_=LAMBDA, entropy_coeff=ENTROPY,
    )  # fmt: skip
    config.rl_module(rl_module_spec=RLModuleSpec(module_class=ActionMaskingTorchRLModule))
    algorithm, began, decisions = config.build_algo(), time.process_time(), 0
    while time.process_time() - began < seconds:
        result = algorithm.train()
        decisions = int(result["env_runners"]["num_env_steps_sampled_lifetime"])
        print(f"{decisions:,} decisions, {time.process_time() - began:.0f} s", flush=True)
    module = algorithm.get_module()
    layers = [*module.encoder.actor_encoder.net.mlp, *module.pi.net.mlp]
    return _weights(layers), decisions


def _weights(layers: list[Any]) -> list[np.ndarray]:
    """Return weights and biases of linear layers with tanh between them."""
    linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    others = {type(layer).__name__ for layer in layers} - {"Linear", "Tanh", "Dropout"}
    assert not others, others
    return [part.detach().numpy() for layer in linear for part in (layer.weight, layer.bias)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", choices=("sb3", "rllib"))
    parser.add_argument("--log", default="kth-sp2", help="the log; its first half is used")
    parser.add_argument("--seconds", type=float, default=300, help="CPU seconds (300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    train = by_sb3 if options.library == "sb3" else by_rllib
    weights, decisions = train(options.log, options.seconds, options.seed)
    np.savez(options.out, *weights, kind="layers", decisions=decisions)
    print(f"{options.library}: {decisions:,} decisions in {options.seconds:.0f} CPU seconds")


if __name__ == "__main__":
    main()
