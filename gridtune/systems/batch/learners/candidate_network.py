"""`CandidateNetwork`: a policy that scores the waiting jobs one by one with the same weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gridtune.batch.simulator.decisions.observing import ROW, STATE
from gridtune.errors import PolicyError
from gridtune.training.networks import ActorCritic, NetworkOutput, dense_layer, make_network

__all__ = ["CandidateNetwork"]

UNITS = 32
#: What all candidates share: the machine's state, and the mean, least and largest of each of their numbers.
SHARED = STATE + 3 * ROW


class CandidateNetwork(ActorCritic):
    """Scores each candidate's row, given the state and what the candidates are like; empty slots never win.

    The same weights score every row, so the network works with any number of candidates (the kernel network
    of RLScheduler, SC 2020, which has no view of the others).
    """

    kind = "candidates"

    def __init__(self, features: int, actions: int) -> None:
        super().__init__(features, actions)
        if features != STATE + actions * ROW:
            raise PolicyError(
                f"{actions} candidates have {STATE + actions * ROW} numbers, not {features}",
                hint="its environment is gridtune/Batch-v0 with flat=True",
            )
        root = math.sqrt(2)
        self.situation = nn.Sequential(
            dense_layer(SHARED, UNITS, root), nn.Tanh(), dense_layer(UNITS, UNITS, 1.0)
        )
        self.row = nn.Linear(ROW, UNITS, bias=False)
        self.score = nn.Sequential(
            nn.Tanh(), dense_layer(UNITS, UNITS, root), nn.Tanh(), dense_layer(UNITS, 1, 0.01)
        )
        self.value = nn.Sequential(
            dense_layer(SHARED, UNITS, root),
            nn.Tanh(),
            dense_layer(UNITS, UNITS, root),
            nn.Tanh(),
            dense_layer(UNITS, 1, 1.0),
        )
        nn.init.orthogonal_(self.row.weight, root)

    def resized(self, actions: int) -> ActorCritic:
        """Return the network with the same weights for another number of actions."""
        if actions == self.actions:
            return self
        other = make_network(self.kind, STATE + actions * ROW, actions).to(self.row.weight.device)
        other.load_state_dict(self.state_dict())
        return other.train(self.training)

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> NetworkOutput:  # noqa: D102
        rows = observations[..., STATE:].unflatten(-1, (self.actions, ROW))
        there = rows[..., :1] > 0.5
        count = there.sum(-2).clamp(min=1)
        shared = torch.cat(
            [
                observations[..., :STATE],
                rows.sum(-2) / count,
                torch.where(there, rows, 1.0).amin(-2),
                rows.amax(-2),
            ],
            -1,
        )
        # Most slots are empty, so only those that are filled are scored.
        filled = torch.nonzero(there.squeeze(-1), as_tuple=True)
        mixed = self.situation(shared)[filled[:-1]] + self.row(rows[filled])
        never = torch.full(rows.shape[:-1], -1e9, device=rows.device)
        logits = never.index_put(filled, self.score(mixed).squeeze(-1))
        return NetworkOutput(logits, self.value(shared).squeeze(-1), state)
