"""Agents of the shutdown system after the same steps: ours, with one thing changed, and of other libraries.

    python -m benchmarks.shutdown_agents DAYS --agents mlp no-entropy --steps 6000000
    python -m benchmarks.shutdown_agents DAYS --agents rllib sb3 recurrent --steps 230000

All agents read the paper's 48 numbers and have its reward, actions, settings and train days. Each is judged
on test days by actions drawn from its policy, beside T(0), the adaptive rule and a blind coin. `rllib` is
RLlib's own PPO with its LSTM, connectors, advantages and minibatches; `sb3` is RecurrentPPO of sb3-contrib
(`requirements.txt`). Rates are of one thread's processor time, sampling and learning together.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from benchmarks.comparators.torch_loop import TorchLoop
from benchmarks.measure import print_machine, print_table
from benchmarks.shutdown_blind import measure, toss
from gridtune.systems.shutdown.environment import ShutdownEnv, ShutdownVectorEnv, read_training_days
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.training.acting import draw
from gridtune.training.networks import make_network
from gridtune.training.ppo import PPOSettings
from gridtune.types import Float32Array, IntArray

#: The paper's; an update is from one day of each environment.
SETTINGS = replace(PPOSettings(), seed=1)
#: The odds of the best blind coin, see `benchmarks.shutdown_blind`.
COIN = (0.6, 0.6)
#: Units of the LSTM and of the layer after it; observations that its gradient goes back over.
MEMORY, DENSE, SEQUENCE = 128, 64, 48


class Agent(Protocol):
    """An agent that is trained in updates, and decides for many clusters at once."""

    def update(self) -> float:
        """Sample a day of each environment, learn from them, and return the mean sum of rewards."""

    def decide(self, observations: Float32Array, state: Any) -> tuple[Tensor, Any]:
        """Return logits of shape (clusters, actions), and the state; None begins episodes."""


class _Ours(TorchLoop):
    """gridtune's PPO; `benchmarks.ppo_throughput` checks that it is the same through RLlib."""

    def __init__(self, days: Days, environments: int, network: Any, **changed: Any) -> None:
        env = ShutdownVectorEnv(environments, days, copy=False)
        super().__init__(env, network, replace(SETTINGS, **changed))

    def decide(self, observations: Float32Array, state: Any) -> tuple[Tensor, Any]:
        memory = self.network.memory(len(observations)) if state is None else state
        logits, _, memory = self.network.step(torch.from_numpy(observations), memory)
        return logits, memory


class _RLlib:
    """RLlib's own PPO and network."""

    def __init__(self, days: Days, environments: int, seed: int) -> None:
        import ray  # noqa: PLC0415
        from ray.rllib.algorithms.ppo import PPOConfig  # noqa: PLC0415
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig  # noqa: PLC0415
        from ray.tune import register_env  # noqa: PLC0415

        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, address="local")
        register_env("shutdown", lambda _: ShutdownEnv(days))
        p = SETTINGS
        config = PPOConfig().environment("shutdown").debugging(seed=seed, log_level="ERROR")
        config.env_runners(
            num_env_runners=0, num_envs_per_env_runner=environments, rollout_fragment_length=p.steps
        )
        config.rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[DENSE],
                head_fcnet_hiddens=[DENSE],
                use_lstm=True,
                lstm_cell_size=MEMORY,
                max_seq_len=SEQUENCE,
                vf_share_layers=False,
            )
        )
        config.training(
            train_batch_size_per_learner=environments * p.steps,
            minibatch_size=environments * p.steps // p.minibatches,
            num_epochs=p.epochs,
            gamma=p.gamma,
            lambda_=p.lam,
            clip_param=p.clip,
            vf_loss_coeff=p.value_weight,
            entropy_coeff=p.entropy_weight,
            lr=p.learning_rate,
            use_kl_loss=False,
        )
        self.algorithm = config.build_algo()

    def update(self) -> float:
        return float(self.algorithm.train()["env_runners"].get("episode_return_mean", float("nan")))

    def decide(self, observations: Float32Array, state: Any) -> tuple[Tensor, Any]:
        import tree  # noqa: PLC0415

        module, count = self.algorithm.get_module(), len(observations)
        if state is None:
            begun = tree.map_structure(torch.as_tensor, module.get_initial_state())
            state = tree.map_structure(lambda part: part.expand(count, *part.shape), begun)
        reply = module.forward_inference(
            {"obs": torch.from_numpy(observations).unsqueeze(1), "state_in": state}
        )
        return reply["action_dist_inputs"][:, 0], reply["state_out"]


class _StableBaselines:
    """RecurrentPPO of sb3-contrib."""

    def __init__(self, days: Days, environments: int, seed: int) -> None:
        from sb3_contrib import RecurrentPPO  # noqa: PLC0415
        from stable_baselines3.common.monitor import Monitor  # noqa: PLC0415
        from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: PLC0415

        p = SETTINGS
        self.model = RecurrentPPO(
            "MlpLstmPolicy",
            DummyVecEnv([lambda: Monitor(ShutdownEnv(days))] * environments),
            n_steps=p.steps,
            batch_size=environments * p.steps // p.minibatches,
            n_epochs=p.epochs,
            gamma=p.gamma,
            gae_lambda=p.lam,
            clip_range=p.clip,
            clip_range_vf=p.clip,
            vf_coef=p.value_weight,
            ent_coef=p.entropy_weight,
            learning_rate=p.learning_rate,
            max_grad_norm=float("inf"),
            policy_kwargs={"lstm_hidden_size": MEMORY, "net_arch": [DENSE]},
            seed=seed,
            device="cpu",
        )

    def update(self) -> float:
        self.model.learn(self.model.n_envs * SETTINGS.steps, reset_num_timesteps=False)
        return float(np.mean([episode["r"] for episode in self.model.ep_info_buffer]))

    def decide(self, observations: Float32Array, state: Any) -> tuple[Tensor, Any]:
        if state is None:
            state = (torch.zeros(1, len(observations), MEMORY),) * 2
        starts = torch.zeros(len(observations))
        chances, state = self.model.policy.get_distribution(torch.from_numpy(observations), state, starts)
        return chances.distribution.logits, state


def ours(kind: str, **changed: Any) -> Callable[[Days, int, int], Agent]:
    return lambda days, count, seed: _Ours(
        days, count, make_network(kind, 48, 15, seed=seed), seed=seed, **changed
    )


AGENTS: Mapping[str, Callable[[Days, int, int], Agent]] = {
    "paper": ours("paper"),
    "recurrent": ours("recurrent"),
    "recurrent-no-entropy": ours("recurrent", entropy_weight=0.0),
    "mlp": ours("mlp"),
    "no-entropy": ours("mlp", entropy_weight=0.0),
    "fast": ours("mlp", learning_rate=2e-3, minibatches=4),
    "rllib": _RLlib,
    "sb3": _StableBaselines,
}


@torch.no_grad()
def play(agent: Agent, days: Days) -> IntArray:
    """Return reservations drawn from the agent's policy: shape (days, minutes)."""
    chance = torch.Generator().manual_seed(SETTINGS.seed)
    batch = ClusterBatch(days, Platform(), count=len(days))
    batch.reset(np.arange(len(days)))
    reserved, state = np.zeros((len(days), int(days.minutes.max())), np.int64), None
    for minute in range(reserved.shape[1]):
        logits, state = agent.decide(batch.observations.copy(), state)
        reserved[:, minute] = draw(logits, torch.rand(len(days), generator=chance), minute)[0].numpy()
        batch.step(reserved[:, minute])
    return reserved


def train(agent: Agent, updates: int) -> tuple[list[float], float]:
    """Return the mean return of each update, and their seconds of the processor."""
    begun = time.process_time()
    return [agent.update() for _ in range(updates)], time.process_time() - begun


def main() -> None:
    """Train and judge agents in turn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("days", metavar="DAYS", help="archive of days with a part to train on")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=["mlp", "no-entropy"])
    parser.add_argument("--steps", type=int, default=460_000, help="of each, rounded up to updates (460,000)")
    parser.add_argument("--environments", type=int, default=16, help="days of an update (16, as the paper)")
    parser.add_argument("--seed", type=int, default=SETTINGS.seed, help="of networks and trainings (1)")
    parser.add_argument("--test", type=int, default=304, help="test days that judge (304)")
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    torch.set_num_threads(1)
    print_machine()
    days, test = (read_training_days(options.days, subset) for subset in ("train", "test"))
    test = test.take(np.linspace(0, len(test) - 1, min(options.test, len(test))).astype(np.int64))
    updates = -(-options.steps // (options.environments * SETTINGS.steps))
    steps = updates * options.environments * SETTINGS.steps
    rules = {"adaptive": "adaptive", "T(0)": "timeout", "blind coin": toss(test, COIN, seed=0)}
    values = {name: measure(test, rule) for name, rule in rules.items()}
    curves = dict.fromkeys(rules, ("", "", ""))
    for name in options.agents:
        agent = AGENTS[name](days, options.environments, options.seed)
        returns, seconds = train(agent, updates)
        values[name] = measure(test, play(agent, test))
        curves[name] = (f"{steps / seconds:,.0f}", f"{returns[0]:.1f}", f"{np.mean(returns[-3:]):.1f}")
        shown = " ".join(f"{value:.1f}" for value in returns)
        print(f"{name}: returns {shown}; on test days {values[name]['score_per_day']:.2f}", flush=True)
    rows = [
        (
            name,
            *curves[name],
            f"{row['score_per_day']:.2f}",
            *(
                f"{100 * (row['energy_waste_per_day'] / values[rule]['energy_waste_per_day'] - 1):+.1f} %"
                for rule in ("T(0)", "adaptive")
            ),
            f"{row['qos_violations']:.0f}",
        )
        for name, row in values.items()
    ]
    header = (
        "agent",
        "steps/s",
        "return, first",
        "last three",
        "score",
        "waste to T(0)",
        "to adaptive",
        "late",
    )
    print_table(f"{len(test)} test days, after {steps:,} steps", header, rows)


if __name__ == "__main__":
    main()
