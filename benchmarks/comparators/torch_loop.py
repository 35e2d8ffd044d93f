"""PPO as one plain loop in torch: what RLlib's cost is measured against, and the twin of our learner."""

from __future__ import annotations

from typing import Any

import torch

from gridtune.training.acting import Actor
from gridtune.training.networks import ActorCritic
from gridtune.training.ppo import ADAM_EPSILON, PPOSettings, collect, ppo_losses, update_seed


class TorchLoop:
    """Trains a network on a vector environment."""

    def __init__(self, env: Any, network: ActorCritic, settings: PPOSettings) -> None:
        self.env, self.network, self.settings = env, network, settings
        self.updates, self._actor = 0, Actor(network, env.num_envs)
        self._device = next(network.parameters()).device
        self.optimiser = torch.optim.Adam(network.parameters(), eps=ADAM_EPSILON)

    def update(self) -> float:
        """Sample, and learn from it; return the mean return."""
        settings, number = self.settings, self.updates
        seed = update_seed(settings.seed, number, "rollout")
        rollout = collect(self.env, self._actor, settings.steps, seed=seed)
        for group in self.optimiser.param_groups:
            group["lr"] = settings.learning_rate_at(number)
        for batch in rollout.to(self._device).minibatches(self.network, settings, number):
            output = self.network(batch.observations, batch.begins, batch.state)
            losses = ppo_losses(output, batch, settings, number)
            self.optimiser.zero_grad()
            losses.total.backward()
            if settings.gradient_norm is not None:
                torch.nn.utils.clip_grad_norm_(self.network.parameters(), settings.gradient_norm)
            self.optimiser.step()
        self.updates += 1
        return rollout.mean_return
