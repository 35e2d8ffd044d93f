"""`EffectNetwork`: a policy that scores the effects of reservations."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gridtune.errors import PolicyError
from gridtune.systems.shutdown.simulator.observing import GLOBALS, PER_ACTION, PER_JOB
from gridtune.systems.shutdown.simulator.state import MAX_CANDIDATES
from gridtune.training.networks import DENSE_UNITS, ActorCritic, NetworkOutput, dense_layer, make_network

__all__ = ["EffectNetwork"]


class EffectNetwork(ActorCritic):
    """Scores the effect of each reservation, given the state; reservations without a row are never chosen.

    The same weights score every row, so the network works with any number of nodes.
    """

    kind = "effects"
    view = "effects"
    #: Numbers that describe the state; the rows follow them.
    state_features = GLOBALS + MAX_CANDIDATES * PER_JOB

    def __init__(self, features: int, actions: int) -> None:
        super().__init__(features, actions)
        expected = self.state_features + actions * PER_ACTION
        if features != expected:
            raise PolicyError(
                f"an observation of effects of {actions} actions has {expected} numbers, not {features}",
                hint='its environment needs view="effects"',
            )
        root, units = math.sqrt(2), DENSE_UNITS
        situation = [dense_layer(self.state_features, units, root), nn.Tanh(), dense_layer(units, units, 1.0)]
        self.situation = nn.Sequential(*situation)
        self.effect = nn.Linear(PER_ACTION, units, bias=False)
        self.score = nn.Sequential(
            nn.Tanh(), dense_layer(units, units, root), nn.Tanh(), dense_layer(units, 1, 0.01)
        )
        hidden = [
            dense_layer(self.state_features, units, root),
            nn.Tanh(),
            dense_layer(units, units, root),
            nn.Tanh(),
        ]
        self.value = nn.Sequential(*hidden, dense_layer(units, 1, 1.0))
        nn.init.orthogonal_(self.effect.weight, root)

    def resized(self, actions: int) -> ActorCritic:
        """Return the network with the same weights for another number of actions."""
        if actions == self.actions:
            return self
        features = self.state_features + actions * PER_ACTION
        other = make_network(self.kind, features, actions).to(next(self.parameters()).device)
        other.load_state_dict(self.state_dict())
        return other.train(self.training)

    def _rows(self, observations: Tensor) -> Tensor:
        return observations[..., self.state_features :].unflatten(-1, (self.actions, PER_ACTION))

    def decides(self, observations: Tensor) -> Tensor:
        """Return where reservations differ in their effects."""
        return self._rows(observations)[..., 0].sum(-1) > 1.5

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> NetworkOutput:  # noqa: D102
        features, rows = observations[..., : self.state_features], self._rows(observations)
        # Few reservations have a row, so only those are scored.
        counts = torch.nonzero(rows[..., 0] > 0.5, as_tuple=True)
        mixed = self.situation(features)[counts[:-1]] + self.effect(rows[counts])
        never = torch.full(rows.shape[:-1], -1e9, device=rows.device)
        logits = never.index_put(counts, self.score(mixed).squeeze(-1))
        return NetworkOutput(logits, self.value(features).squeeze(-1), state)
