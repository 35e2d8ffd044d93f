"""`Rollout`: what a batch of environments lived through, time-major, ready to learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gridtune.errors import PolicyError
from gridtune.training.networks import ActorCritic

__all__ = ["Minibatch", "Rollout", "advantages_of", "collect", "empty_rollout", "segments"]


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments.

    A step that merely resets an environment (Gymnasium's next-step autoreset) is not `used`; the last
    observation of the episode before it stands in its row.

    Attributes
    ----------
    observations
        Shape (lookback + T + 1, N, features); the first `lookback` are zeros.
    begins
        Shape (lookback + T + 1, N), bool: which observations begin an episode.
    actions, log_probabilities, rewards
        Shape (T, N).
    spans
        Shape (T, N): how long each step took, in units of time; 1 where the environment does not tell
        `minutes`.
    terminated, truncated, used, decides
        Shape (T, N), bool; `decides`: where the network had a choice.
    values
        Shape (T + 1, N): what the value network expected; the last row is for the bootstrap.
    states
        Shape (T / sequence, N, *state_shape): what the network carried into each segment.
    """

    observations: Tensor
    begins: Tensor
    actions: Tensor
    log_probabilities: Tensor
    rewards: Tensor
    spans: Tensor
    terminated: Tensor
    truncated: Tensor
    used: Tensor
    decides: Tensor
    values: Tensor
    states: Tensor

    @property
    def steps(self) -> int:
        """Steps that count."""
        return int(self.used.sum())

    @property
    def mean_return(self) -> float:
        """Sum of rewards by episode that ended; NaN where none did."""
        ended = int((self.terminated | self.truncated).sum())
        return float(self.rewards.sum()) / ended if ended else float("nan")

    def to(self, device: torch.device | str) -> Rollout:
        """Return the same on a device."""
        return Rollout(*(getattr(self, field.name).to(device) for field in fields(self)))

    @staticmethod
    def side_by_side(rollouts: Sequence[Rollout]) -> Rollout:
        """Return rollouts of as many steps as one of all their environments."""
        columns = ([getattr(each, field.name) for each in rollouts] for field in fields(Rollout))
        return Rollout(*(torch.cat(parts, 1) for parts in columns))


class Minibatch(NamedTuple):
    """Segments of L steps: network inputs, and per step (L, n) what the loss needs."""

    observations: Tensor
    begins: Tensor
    state: Tensor
    actions: Tensor
    log_probabilities: Tensor
    values: Tensor
    advantages: Tensor
    targets: Tensor
    used: Tensor


def empty_rollout(network: ActorCritic, steps: int, episodes: int) -> Rollout:
    """Return room for `steps` steps of `episodes` environments, on the network's device."""
    if steps % network.sequence:
        raise PolicyError(
            f"must be a multiple of the {network.sequence} steps that the network learns from at once, "
            f"but is {steps}",
            field="steps",
        )
    device = next(network.parameters()).device
    rows, shape = network.lookback + steps + 1, (steps, episodes)
    flags = torch.zeros(shape, dtype=torch.bool, device=device)
    return Rollout(
        observations=torch.zeros(rows, episodes, network.features, device=device),
        begins=torch.zeros(rows, episodes, dtype=torch.bool, device=device),
        actions=torch.zeros(shape, dtype=torch.int64, device=device),
        log_probabilities=torch.zeros(shape, device=device),
        rewards=torch.zeros(shape, device=device),
        spans=torch.ones(shape, device=device),
        terminated=flags,
        truncated=flags.clone(),
        used=~flags,
        decides=~flags,
        values=torch.zeros(steps + 1, episodes, device=device),
        states=torch.zeros(steps // network.sequence, episodes, *network.state_shape, device=device),
    )


@torch.no_grad()
def collect(env: Any, network: ActorCritic, steps: int, *, seed: int) -> Rollout:
    """Reset the environments and act in them by the policy's probabilities.

    Parameters
    ----------
    env
        A Gymnasium vector environment with discrete actions, observations in one axis, and next-step
        autoreset.
    network
        Acts, on whatever device it is.
    steps
        Steps of each environment.
    seed
        Of the environments and of the actions.
    """
    rollout = empty_rollout(network, steps, env.num_envs)
    chance = torch.rand(steps, env.num_envs, generator=torch.Generator().manual_seed(seed))
    chance = chance.to(rollout.actions.device)
    state = network.initial_state(env.num_envs)
    seen, _ = env.reset(seed=seed)
    begins, back = np.ones(env.num_envs, dtype=bool), network.lookback
    for step in range(steps + 1):
        _write(rollout.observations, back + step, seen)
        _write(rollout.begins, back + step, begins)
        window = slice(step, step + back + 1)
        if step % network.sequence == 0 and step < steps:
            rollout.states[step // network.sequence] = state
        logits, values, state = network(rollout.observations[window], rollout.begins[window], state)
        rollout.values[step] = values[0]
        if step == steps:
            break
        rollout.decides[step] = network.decides(rollout.observations[back + step])
        actions, log_probabilities = draw(logits[0], chance[step])
        rollout.actions[step], rollout.log_probabilities[step] = actions, log_probabilities
        seen, rewards, terminated, truncated, told = env.step(actions.cpu().numpy())
        if "minutes" in told:
            _write(rollout.spans, step, told["minutes"])
        _write(rollout.rewards, step, rewards)
        _write(rollout.terminated, step, terminated)
        _write(rollout.truncated, step, truncated)
        if step:
            # Whoever ended in the last step was only reset in this one.
            ended = rollout.terminated[step - 1] | rollout.truncated[step - 1]
            rollout.used[step] = ~(ended & rollout.used[step - 1])
        begins = (~rollout.used[step]).cpu().numpy()
    return rollout


def draw(logits: Tensor, chance: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions, and their log-probabilities, that numbers from [0, 1) stand for; all of shape (N,)."""
    log_probabilities = torch.log_softmax(logits, -1)
    reached = log_probabilities.exp().cumsum(-1) <= chance.unsqueeze(-1)
    actions = reached.sum(-1).clamp(max=logits.shape[-1] - 1)
    return actions, log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def advantages_of(rollout: Rollout, gamma: float, lam: float) -> Tensor:
    """Return generalised advantage estimates, shape (T, N).

    δ_t = r_t + γ·(1 − terminated_t)·V_{t+1} − V_t and A_t = δ_t + γ·λ·(1 − ended_t)·A_{t+1}, with γ to the
    power of the time that the step took: an episode that is cut off goes on in expectation, one that has
    terminated does not. Steps without a choice are lived through: rewards until the next decision, and its
    value, stand for their values, and λ counts decisions.

    References
    ----------
    J. Schulman et al., "High-dimensional continuous control using generalized advantage estimation", 2016.
    """
    discount = gamma**rollout.spans
    goes_on = discount * (~rollout.terminated).float()
    weights = discount * (~(rollout.terminated | rollout.truncated)).float()
    weights *= torch.where(rollout.decides, lam, 1.0)
    # What stands after an episode's end says what its last observation is worth.
    judged = rollout.decides | ~rollout.used
    advantages, carried = torch.zeros_like(weights), torch.zeros_like(weights[0])
    ahead = rollout.values[-1]
    for step in range(len(weights) - 1, -1, -1):
        values, lived = rollout.values[step], rollout.rewards[step] + goes_on[step] * ahead
        errors = torch.where(rollout.decides[step], lived - values, 0.0)
        carried = (errors + weights[step] * carried) * rollout.used[step]
        ahead = torch.where(judged[step], values, lived)
        advantages[step] = carried
    return advantages


def segments(
    rollout: Rollout,
    advantages: Tensor,
    targets: Tensor,
    network: ActorCritic,
    minibatches: int,
    generator: torch.Generator,
) -> Iterator[Minibatch]:
    """Shuffle the rollout's segments in which something was decided; yield them in `minibatches` parts."""
    length, episodes = network.sequence, rollout.actions.shape[1]
    decided = rollout.decides.unflatten(0, (-1, length)).any(1)
    chosen = torch.nonzero(decided.flatten()).squeeze(-1)
    device = rollout.actions.device
    order = torch.randperm(len(chosen), generator=generator).to(device)
    for part in chosen[order].tensor_split(minibatches):
        if len(part) == 0:
            continue
        segment, episode = part // episodes, part % episodes
        first = segment * length
        rows = first + torch.arange(length, device=device).unsqueeze(1)
        seen = first + torch.arange(network.lookback + length, device=device).unsqueeze(1)
        yield Minibatch(
            rollout.observations[seen, episode],
            rollout.begins[seen, episode],
            rollout.states[segment, episode],
            rollout.actions[rows, episode],
            rollout.log_probabilities[rows, episode],
            rollout.values[rows, episode],
            advantages[rows, episode],
            targets[rows, episode],
            (rollout.used & rollout.decides)[rows, episode],
        )


def _write(into: Tensor, row: int, numbers: npt.ArrayLike) -> None:
    into[row] = torch.as_tensor(np.asarray(numbers), device=into.device)
