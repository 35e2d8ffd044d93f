"""Proximal policy optimisation: its settings, its losses, and the minibatches of an update.

The random numbers of an update follow from the seed and the update's number, and environments are reset
before each. So a training continues from a checkpoint bit for bit, on a CPU with the same number of threads,
although checkpoints hold neither simulators nor random generators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gridtune.errors import PolicyError
from gridtune.training.networks import ActorCritic, NetworkOutput
from gridtune.training.rollouts import Minibatch, Rollout, advantages_of, segments

__all__ = [
    "ADAM_EPSILON",
    "Losses",
    "PPOSettings",
    "minibatches_of",
    "ppo_losses",
    "update_seed",
]

#: Adam's, as the authors set it.
ADAM_EPSILON = 1e-5


@dataclass(frozen=True)
class PPOSettings:
    """Hyper-parameters; the defaults are the paper's, as its authors coded them.

    Attributes
    ----------
    steps
        Steps of each environment per update. Environments are reset before each update, so this is one
        whole episode or several.
    epochs, minibatches
        Passes over these steps, and minibatches per pass.
    gamma, lam
        Discount factor, and λ of the advantage estimate.
    clip
        Bound of the change of probability ratio and value within an update.
    value_weight, entropy_weight, entropy_decay
        Weights of the value loss and of the entropy in the loss; the latter falls to `entropy_decay` times
        its initial value over `updates` updates.
    learning_rate, decay, least_learning_rate, updates
        The learning rate falls to `decay` times its initial value over `updates` updates, and not below the
        least one.
    gradient_norm
        Gradients are scaled down to this norm; None: not at all.
    seed
        Seed of all random numbers.
    """

    steps: int = 1440
    epochs: int = 4
    minibatches: int = 16
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.005
    entropy_decay: float = 1.0
    learning_rate: float = 5e-4
    decay: float = 0.1
    least_learning_rate: float = 1e-6
    updates: int = 2170
    gradient_norm: float | None = None
    seed: int = 48238

    def __post_init__(self) -> None:
        for name in ("steps", "epochs", "minibatches", "updates"):
            if getattr(self, name) < 1:
                raise PolicyError(f"must be at least 1, but got {getattr(self, name)}", field=name)
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise PolicyError(f"must be between 0 and 1, but got {getattr(self, name)}", field=name)
        for name in ("clip", "learning_rate", "decay", "entropy_decay"):
            if not getattr(self, name) > 0:
                raise PolicyError(f"must be above 0, but got {getattr(self, name)}", field=name)

    def learning_rate_at(self, update: int) -> float:
        """Return the learning rate of an update, numbered from 0."""
        return max(self.learning_rate * self.decay ** (update / self.updates), self.least_learning_rate)

    def entropy_weight_at(self, update: int) -> float:
        """Return the entropy weight of an update, numbered from 0."""
        return self.entropy_weight * self.entropy_decay ** (update / self.updates)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PPOSettings:
        """Return the settings that `asdict` gave; unknown names are refused."""
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise PolicyError(f"PPO has no setting {', '.join(unknown)}")
        return cls(**values)


class Losses(NamedTuple):
    """The loss and its parts: scalars."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    divergence: Tensor


def ppo_losses(output: NetworkOutput, batch: Minibatch, settings: PPOSettings, update: int = 0) -> Losses:
    """Return the clipped losses of a network's output for a minibatch, means over the used steps.

    With ρ = π(a|s) / π_old(a|s): policy loss −min(ρ·A, clip(ρ, 1 ± ε)·A); value loss
    max((V − R)², (V_old + clip(V − V_old, ± ε) − R)²); total = policy + c_v·value − c_e·entropy.

    References
    ----------
    J. Schulman et al., "Proximal policy optimization algorithms", arXiv:1707.06347.
    """
    values = output.values
    weight = batch.used / batch.used.sum().clamp(min=1)
    log_probabilities = torch.log_softmax(output.logits, -1)
    taken = log_probabilities.gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
    change = taken - batch.log_probabilities
    ratio = change.exp()
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    policy = -(torch.minimum(ratio * batch.advantages, clipped * batch.advantages) * weight).sum()
    moved = batch.values + (values - batch.values).clamp(-settings.clip, settings.clip)
    errors = torch.maximum((values - batch.targets) ** 2, (moved - batch.targets) ** 2)
    value = (errors * weight).sum()
    entropy = (-(log_probabilities.exp() * log_probabilities).sum(-1) * weight).sum()
    total = policy + settings.value_weight * value - settings.entropy_weight_at(update) * entropy
    divergence = ((ratio - 1 - change) * weight).sum()
    return Losses(total, policy, value, entropy, divergence)


def minibatches_of(
    rollout: Rollout, network: ActorCritic, settings: PPOSettings, update: int
) -> Iterator[Minibatch]:
    """Yield the minibatches of all epochs of an update, numbered from 0.

    Advantages are normalised over all decisions of the rollout.
    """
    advantages = advantages_of(rollout, settings.gamma, settings.lam)
    targets = advantages + rollout.values[:-1]
    decided = advantages[rollout.used & rollout.decides]
    advantages = (advantages - decided.mean()) / (decided.std(correction=0) + 1e-8)
    generator = torch.Generator().manual_seed(update_seed(settings.seed, update, "minibatches"))
    for _ in range(settings.epochs):
        yield from segments(rollout, advantages, targets, network, settings.minibatches, generator)


def update_seed(seed: int, update: int, purpose: str, runner: int = 0) -> int:
    """Return the seed of an update's rollout or minibatches; each runner has its own."""
    entropy = [seed, update, ("rollout", "minibatches").index(purpose), runner]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])
