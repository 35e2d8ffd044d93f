"""Proximal policy optimisation: rollouts of a batch of environments, settings, losses and minibatches.

The random numbers of an update follow from the seed and the update's number, and environments are reset
before each. So a training continues from a checkpoint bit for bit, on a CPU with the same number of threads,
although checkpoints hold neither simulators nor random generators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gridtune.core.compiled import kernel
from gridtune.errors import PolicyError
from gridtune.training.acting import Actor
from gridtune.training.networks import ActorCritic, NetworkOutput
from gridtune.types import BoolArray, Float32Array


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments.

    A step that only resets an environment (Gymnasium's next-step autoreset) is not `used`; its row has the
    last observation of the episode before.

    Attributes
    ----------
    observations
        Shape (lookback + T + 1, N, features); the first `lookback` are zeros.
    begins
        Shape (lookback + T + 1, N), bool: which observations begin an episode.
    actions, log_probabilities, rewards
        Shape (T, N).
    terminated, truncated, used
        Shape (T, N), bool.
    values
        Shape (T + 1, N): output of the value network; the last row is for the bootstrap.
    states
        Shape (T / sequence, N, *state_shape): the network's state before each segment.
    """

    observations: Tensor
    begins: Tensor
    actions: Tensor
    log_probabilities: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    used: Tensor
    values: Tensor
    states: Tensor

    @property
    def steps(self) -> int:
        """Number of used steps."""
        return int(self.used.sum())

    def env_steps(self) -> int:
        """Return the same, as RLlib asks for it."""
        return self.steps

    agent_steps = env_steps

    @property
    def episodes(self) -> int:
        """Number of episodes that ended."""
        return int((self.terminated | self.truncated).sum())

    @property
    def mean_return(self) -> float:
        """Sum of rewards per episode that ended; NaN if none did."""
        return float(self.rewards.sum()) / self.episodes if self.episodes else float("nan")

    def to(self, device: torch.device | str) -> Rollout:
        """Return the rollout on a device."""
        return Rollout(*(getattr(self, field.name).to(device) for field in fields(self)))

    @staticmethod
    def side_by_side(rollouts: Sequence[Rollout]) -> Rollout:
        """Join rollouts of the same number of steps into one of all their environments."""
        columns = ([getattr(rollout, field.name) for rollout in rollouts] for field in fields(Rollout))
        return Rollout(*(torch.cat(parts, 1) for parts in columns))

    def advantages(self, gamma: float, lam: float) -> Tensor:
        """Return generalised advantage estimates, shape (T, N).

        δ_t = r_t + γ·(1 − terminated_t)·V_{t+1} − V_t and A_t = δ_t + γ·λ·(1 − ended_t)·A_{t+1}: the value
        after a truncated episode counts, that after a terminated one does not.

        References
        ----------
        J. Schulman et al., "High-dimensional continuous control using generalized advantage estimation",
        2016.
        """
        goes_on = gamma * (~self.terminated).float()
        weights = gamma * (~(self.terminated | self.truncated)).float() * lam
        # The row after an episode's end has the value of its last observation.
        columns = (self.rewards, self.values, goes_on, weights, self.used)
        # On a GPU, step by step, 16,000 operations would take a fifth of an update of the paper's network.
        advantages = _advantages(*(column.cpu().numpy() for column in columns))
        return torch.from_numpy(advantages).to(self.rewards.device)

    def segments(
        self,
        advantages: Tensor,
        targets: Tensor,
        network: ActorCritic,
        minibatches: int,
        generator: torch.Generator,
    ) -> Iterator[_Minibatch]:
        """Shuffle the rollout's segments and yield them in `minibatches` parts."""
        length, episodes, device = network.sequence, self.actions.shape[1], self.actions.device
        order = torch.randperm(self.actions.numel() // length, generator=generator).to(device)
        for part in order.tensor_split(minibatches):
            if len(part) == 0:
                continue
            segment, episode = part // episodes, part % episodes
            first = segment * length
            rows = first + torch.arange(length, device=device).unsqueeze(1)
            inputs = first + torch.arange(network.lookback + length, device=device).unsqueeze(1)
            yield _Minibatch(
                self.observations[inputs, episode],
                self.begins[inputs, episode],
                self.states[segment, episode],
                self.actions[rows, episode],
                self.log_probabilities[rows, episode],
                self.values[rows, episode],
                advantages[rows, episode],
                targets[rows, episode],
                self.used[rows, episode],
            )

    def minibatches(self, network: ActorCritic, settings: PPOSettings, update: int) -> Iterator[_Minibatch]:
        """Yield the minibatches of all epochs of an update, numbered from 0.

        Advantages are normalised over all used steps of the rollout.
        """
        advantages = self.advantages(settings.gamma, settings.lam)
        targets = advantages + self.values[:-1]
        used = advantages[self.used]
        advantages = (advantages - used.mean()) / (used.std(correction=0) + 1e-8)
        generator = torch.Generator().manual_seed(update_seed(settings.seed, update, "minibatches"))
        for _ in range(settings.epochs):
            yield from self.segments(advantages, targets, network, settings.minibatches, generator)


class _Minibatch(NamedTuple):
    """Segments of L steps: the network's inputs and, per step (L, n), the inputs of the loss."""

    observations: Tensor
    begins: Tensor
    state: Tensor
    actions: Tensor
    log_probabilities: Tensor
    values: Tensor
    advantages: Tensor
    targets: Tensor
    used: Tensor


def _empty_rollout(network: ActorCritic, steps: int, episodes: int) -> Rollout:
    """Return an empty rollout of `steps` steps of `episodes` environments, in the processor's memory."""
    if steps % network.sequence:
        raise PolicyError(
            f"must be a multiple of the {network.sequence} steps that the network learns from at once, "
            f"but got {steps}",
            field="steps",
        )
    rows, shape = network.lookback + steps + 1, (steps, episodes)
    flags = torch.zeros(shape, dtype=torch.bool)
    return Rollout(
        observations=torch.zeros(rows, episodes, network.features),
        begins=torch.zeros(rows, episodes, dtype=torch.bool),
        actions=torch.zeros(shape, dtype=torch.int64),
        log_probabilities=torch.zeros(shape),
        rewards=torch.zeros(shape),
        terminated=flags,
        truncated=flags.clone(),
        used=~flags,
        values=torch.zeros(steps + 1, episodes),
        states=torch.zeros(steps // network.sequence, episodes, *network.state_shape),
    )


@torch.no_grad()
def collect(env: Any, actor: Actor, steps: int, *, seed: int) -> Rollout:
    """Reset the environments and step them with actions sampled from the policy.

    Parameters
    ----------
    env
        A Gymnasium vector environment with discrete actions, observations in one axis, and next-step
        autoreset.
    actor
        The policy, for as many episodes as there are environments.
    steps
        Steps of each environment.
    seed
        Seed of the environments and of the actions.
    """
    network = actor.network
    rollout = _empty_rollout(network, steps, env.num_envs)
    # A row is written through NumPy: an operation of torch takes several times as long.
    rows = {field.name: getattr(rollout, field.name).numpy() for field in fields(Rollout)}
    chance = torch.rand(steps, env.num_envs, generator=torch.Generator().manual_seed(seed))
    back, remembers = network.lookback, math.prod(network.state_shape) > 0
    actor.begin()
    rows["observations"][back], _ = env.reset(seed=seed)
    rows["begins"][back] = True
    for step in range(steps + 1):
        if remembers and step % network.sequence == 0 and step < steps:
            rollout.states[step // network.sequence] = actor.memory
        seen, begins = rollout.observations[back + step], rollout.begins[back + step]
        # The value after the last step is needed too.
        decided = actor.step(seen, begins, chance[min(step, steps - 1)], step)
        rollout.values[step] = decided.values
        if step == steps:
            break
        rollout.actions[step], rollout.log_probabilities[step] = decided.actions, decided.log_probabilities
        observations, rewards, terminated, truncated, _ = env.step(rows["actions"][step])
        rows["observations"][back + step + 1] = observations
        rows["rewards"][step] = rewards
        rows["terminated"][step], rows["truncated"][step] = terminated, truncated
        if step:
            # Environments whose episode ended in the last step were only reset in this one.
            ended = rows["terminated"][step - 1] | rows["truncated"][step - 1]
            rows["used"][step] = ~(ended & rows["used"][step - 1])
        rows["begins"][back + step + 1] = ~rows["used"][step]
    return rollout


@kernel()
def _advantages(
    rewards: Float32Array, values: Float32Array, goes_on: Float32Array, weights: Float32Array, used: BoolArray
) -> Float32Array:
    """Return what `Rollout.advantages` does, in single precision from the last step to the first."""
    none = np.float32(0.0)
    steps, episodes = rewards.shape
    advantages = np.empty((steps, episodes), np.float32)
    for episode in range(episodes):
        ahead, carried = values[steps, episode], none
        for step in range(steps - 1, -1, -1):
            value = values[step, episode]
            returned = rewards[step, episode] + goes_on[step, episode] * ahead
            error = returned - value
            carried = error + weights[step, episode] * carried if used[step, episode] else none
            ahead = value
            advantages[step, episode] = carried
    return advantages


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


class Losses(NamedTuple):
    """The loss and its parts: scalars."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    divergence: Tensor


def ppo_losses(output: NetworkOutput, batch: _Minibatch, settings: PPOSettings, update: int = 0) -> Losses:
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


def update_seed(seed: int, update: int, purpose: str, runner: int = 0) -> int:
    """Return the seed of an update's rollout, minibatches or evaluation; each runner has its own."""
    entropy = [seed, update, ("rollout", "minibatches", "evaluation").index(purpose), runner]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])
