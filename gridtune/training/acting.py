"""`Actor`: a network that decides for a batch of episodes, one decision of each at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gridtune.errors import PolicyError
from gridtune.training.networks import ActorCritic


class Decisions(NamedTuple):
    """One decision of each of N episodes, in the processor's memory.

    Attributes
    ----------
    actions, log_probabilities, values
        Shape (N,).
    """

    actions: Tensor
    log_probabilities: Tensor
    values: Tensor


class Actor:
    """Decides with a network for a batch of episodes, and keeps what the network remembers of each.

    On a GPU, a decision of a network of fixed shapes is one replay of a CUDA graph: launching its thirty
    operations one by one takes several times as long as they do. The graph reads the network's weights where
    they are, so they may be changed in place.

    Parameters
    ----------
    network
        The policy, on any device.
    episodes
        N, their number.
    """

    @torch.no_grad()
    def __init__(self, network: ActorCritic, episodes: int) -> None:
        self.network, self.episodes = network, episodes
        # A graph reads and writes these two where they are.
        self._blank, self.memory = network.memory(1), network.memory(episodes)
        self._replay: _Replay | None = None

    @torch.no_grad()
    def begin(self) -> None:
        """Begin all episodes, with the network's weights as they are now."""
        self._blank.copy_(self.network.memory(1))
        self.memory.copy_(self._blank.expand_as(self.memory))

    @torch.no_grad()
    def step(self, observations: Tensor, begins: Tensor, chance: Tensor, step: int) -> Decisions:
        """Draw an action for each episode.

        Parameters
        ----------
        observations
            Shape (N, features), in the processor's memory like all of them.
        begins
            Shape (N,), bool: which of them begin an episode.
        chance
            Shape (N,): numbers in [0, 1), which select actions.
        step
            Number of the step, for the message.

        Raises
        ------
        PolicyError
            If the network's output is NaN.
        """
        if not self._blank.is_cuda:
            if begins.any():
                self.memory = self._restarted(begins)
            output = self.network.step(observations, self.memory)
            self.memory = output.state
            return Decisions(*draw(output.logits, chance, step), output.values)
        if self._replay is None:
            self._replay = _Replay(self, self.network.features)
        decisions = self._replay(observations, begins, chance)
        _refuse_nan(decisions.log_probabilities, step)
        return decisions

    def _restarted(self, begins: Tensor) -> Tensor:
        return torch.where(begins.view(-1, *[1] * (self.memory.dim() - 1)), self._blank, self.memory)


class _Replay:
    """An actor's step on a GPU: one copy there, one back, and between them one graph if it can be."""

    def __init__(self, actor: Actor, features: int) -> None:
        self._actor, device = actor, actor.memory.device
        self._given = torch.zeros(actor.episodes, features + 2).pin_memory()
        self._seen = self._given.to(device)
        self._decided = torch.zeros(3, actor.episodes, device=device)
        self._returned = self._decided.cpu().pin_memory()
        self._graph: Any = None
        if actor.network.fixed_shapes:
            before = actor.memory.clone()
            beside = torch.cuda.Stream()
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                for _ in range(3):
                    self._decide()
            torch.cuda.current_stream().wait_stream(beside)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._decide()
            actor.memory.copy_(before)

    def __call__(self, observations: Tensor, begins: Tensor, chance: Tensor) -> Decisions:
        self._given[:, :-2], self._given[:, -2], self._given[:, -1] = observations, begins, chance
        self._seen.copy_(self._given, non_blocking=True)
        if self._graph is None:
            self._decide()
        else:
            self._graph.replay()
        self._returned.copy_(self._decided, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        actions, log_probabilities, values = self._returned
        return Decisions(actions.long(), log_probabilities, values)

    def _decide(self) -> None:
        actor, observations = self._actor, self._seen[:, :-2]
        output = actor.network.step(observations, actor._restarted(self._seen[:, -2] > 0))
        actor.memory.copy_(output.state)
        actions, log_probabilities = _drawn(output.logits, self._seen[:, -1])
        self._decided.copy_(torch.stack([actions.float(), log_probabilities, output.values]))


def best_actions(logits: Tensor, step: int) -> Tensor:
    """Return the most probable actions, shape (N,).

    Raises
    ------
    PolicyError
        If a logit is not a number; the message names the step.
    """
    _refuse_nan(logits, step)
    return logits.argmax(-1)


def draw(logits: Tensor, chance: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """Return the actions that numbers in [0, 1) select, and their log-probabilities; all of shape (N,).

    Errors are those of `best_actions`.
    """
    _refuse_nan(logits, step)
    return _drawn(logits, chance)


def _drawn(logits: Tensor, chance: Tensor) -> tuple[Tensor, Tensor]:
    log_probabilities = torch.log_softmax(logits, -1)
    reached = log_probabilities.exp().cumsum(-1) <= chance.unsqueeze(-1)
    actions = reached.sum(-1).clamp(max=logits.shape[-1] - 1)
    return actions, log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def _refuse_nan(output: Tensor, step: int) -> None:
    if output.isnan().any():
        raise PolicyError(
            f"at step {step} the network's output is NaN: no action can be chosen",
            hint="training may have diverged; try a smaller learning rate",
        )
