"""Policy and value networks, as plain torch modules.

All of them read time-major pieces of episodes, so that one loop trains them all: what a network looks back
on (`lookback` observations) or carries along (`state_shape`) is all that tells them apart.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from gridtune.errors import PolicyError
from gridtune.registry import Registry

__all__ = [
    "DENSE_UNITS",
    "NETWORKS",
    "ActorCritic",
    "FrameStackNetwork",
    "PerceptronNetwork",
    "RecurrentNetwork",
    "Reply",
    "dense_layer",
    "make_network",
]

#: Sizes of the paper's network: memory units, units of the dense layer; its slope for negative inputs.
MEMORY_UNITS, DENSE_UNITS, SLOPE = 128, 64, 0.2
#: Observations that the paper's network sees at once.
FRAMES = 20


class Reply(NamedTuple):
    """What a network says to L observations of N episodes.

    Attributes
    ----------
    logits
        Shape (L, N, actions).
    values
        Shape (L, N).
    state
        Shape (N, *state_shape): what to carry on.
    """

    logits: Tensor
    values: Tensor
    state: Tensor


class ActorCritic(nn.Module):
    """A policy network and a value network that share no weights.

    Parameters
    ----------
    features
        Numbers in an observation.
    actions
        Number of discrete actions.

    Attributes
    ----------
    kind
        Its name in `NETWORKS`.
    view
        What it is shown of a cluster.
    lookback
        Observations before the one to decide on that it sees, too.
    sequence
        How many decisions in a row it learns from at once: 1 where they are independent.
    state_shape
        Of what it carries from one decision to the next, for each episode.
    """

    kind: ClassVar[str]
    view: ClassVar[str] = "paper"
    lookback: int = 0
    sequence: int = 1
    state_shape: tuple[int, ...] = (0,)

    def __init__(self, features: int, actions: int) -> None:
        super().__init__()
        self.features, self.actions = features, actions

    def initial_state(self, episodes: int) -> Tensor:
        """Return what it carries at the beginning: zeros of shape (episodes, *state_shape)."""
        device = next(self.parameters()).device
        return torch.zeros(episodes, *self.state_shape, device=device)

    def resized(self, actions: int) -> ActorCritic:
        """Return the network with the same weights for another number of actions.

        Raises
        ------
        PolicyError
            If its weights are made for one number of actions.
        """
        if actions == self.actions:
            return self
        raise PolicyError(
            f"the network {self.kind!r} has weights for {self.actions} actions and cannot take {actions}",
            hint="play it on a cluster with as many nodes as the one it was trained on",
        )

    def decides(self, observations: Tensor) -> Tensor:
        """Return where there is a choice: observations without their last axis, bool."""
        return torch.ones(observations.shape[:-1], dtype=torch.bool, device=observations.device)

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> Reply:
        """Decide on the last L of `lookback` + L observations.

        Parameters
        ----------
        observations
            Shape (lookback + L, N, features).
        begins
            Shape (lookback + L, N), bool: which of them begin an episode.
        state
            Shape (N, *state_shape): carried to the first decision.
        """
        raise NotImplementedError

    def description(self) -> dict[str, Any]:
        """Return what `make_network` needs to make it anew."""
        numbers = {"features": self.features, "actions": self.actions, "sequence": self.sequence}
        return {"kind": self.kind, **numbers}


def dense_layer(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """Return a linear layer with orthogonal weights of this gain and no bias to begin with."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class PerceptronNetwork(ActorCritic):
    """Two hidden layers that see one observation."""

    kind = "mlp"

    def __init__(self, features: int, actions: int) -> None:
        super().__init__(features, actions)
        self.policy = self._tower(actions, 0.01)
        self.value = self._tower(1, 1.0)

    def _tower(self, outputs: int, gain: float) -> nn.Sequential:
        root = math.sqrt(2)
        hidden = [
            dense_layer(self.features, DENSE_UNITS, root),
            nn.Tanh(),
            dense_layer(DENSE_UNITS, DENSE_UNITS, root),
        ]
        return nn.Sequential(*hidden, nn.Tanh(), dense_layer(DENSE_UNITS, outputs, gain))

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> Reply:  # noqa: D102
        return Reply(self.policy(observations), self.value(observations).squeeze(-1), state)


class _Tower(nn.Module):
    """LSTM, then a dense layer with leaky ReLU, then the outputs; initialised as Keras does it."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.memory = nn.LSTM(features, MEMORY_UNITS)
        self.dense = nn.Linear(MEMORY_UNITS, DENSE_UNITS)
        self.out = nn.Linear(DENSE_UNITS, outputs)
        self._initialise()

    def _initialise(self) -> None:
        gates = MEMORY_UNITS
        with torch.no_grad():
            # Keras draws the four gates' kernels as one matrix.
            nn.init.xavier_uniform_(self.memory.weight_ih_l0)
            nn.init.orthogonal_(self.memory.weight_hh_l0)
            self.memory.bias_ih_l0.zero_()
            self.memory.bias_hh_l0.zero_()
            self.memory.bias_ih_l0[gates : 2 * gates] = 1.0
            for layer in (self.dense, self.out):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def head(self, remembered: Tensor) -> Tensor:
        return self.out(nn.functional.leaky_relu(self.dense(remembered), SLOPE))


class FrameStackNetwork(ActorCritic):
    """The paper's network: each decision reads the last 20 observations of its episode afresh.

    References
    ----------
    The paper's section 5.1 and its authors' code: LSTM of 128 units, of which only the last output is used,
    then 64 units with leaky ReLU of slope 0.2. What lies before the episode's beginning is zeros.
    """

    kind = "paper"
    lookback = FRAMES - 1

    def __init__(self, features: int, actions: int) -> None:
        super().__init__(features, actions)
        self.policy, self.value = _Tower(features, actions), _Tower(features, 1)

    def description(self) -> dict[str, Any]:
        """Return what `make_network` needs to make it anew."""
        return {**super().description(), "frames": self.lookback + 1}

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> Reply:  # noqa: D102
        length, count = observations.shape[0] - self.lookback, self.lookback + 1
        frames, starts = observations, begins
        if length > 1:
            # Every decision becomes an episode of its own.
            frames = observations.unfold(0, count, 1).permute(3, 0, 1, 2).flatten(1, 2)
            starts = begins.unfold(0, count, 1).permute(2, 0, 1).flatten(1, 2)
        # A frame counts if no later one begins an episode.
        later = starts.flip(0).cumsum(0).flip(0) - starts.long()
        seen = frames * (later == 0).unsqueeze(-1)
        logits, values = (tower.head(tower.memory(seen)[0][-1]) for tower in (self.policy, self.value))
        episodes = observations.shape[1]
        return Reply(logits.view(length, episodes, -1), values.view(length, episodes), state)


class RecurrentNetwork(ActorCritic):
    """The same layers, but the memory is carried through the episode: each observation is read once."""

    kind = "recurrent"
    sequence = 48
    #: Policy and value; hidden and cell.
    state_shape = (2, 2, MEMORY_UNITS)

    def __init__(self, features: int, actions: int) -> None:
        super().__init__(features, actions)
        self.policy, self.value = _Tower(features, actions), _Tower(features, 1)

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> Reply:  # noqa: D102
        # The memory is wiped where episodes begin, so the sequence is cut there.
        length = observations.shape[0]
        cuts = [int(row) for row in torch.nonzero(begins.any(1)).flatten() if row > 0]
        logits, values = [], []
        for start, end in zip([0, *cuts], [*cuts, length], strict=True):
            state = state * ~begins[start].view(-1, 1, 1, 1)
            remembered, carried = [], []
            for place, tower in enumerate((self.policy, self.value)):
                memory = tuple(part.unsqueeze(0).contiguous() for part in state[:, place].unbind(1))
                output, memory = tower.memory(observations[start:end], memory)
                remembered.append(output)
                carried.append(torch.stack([part.squeeze(0) for part in memory], 1))
            logits.append(self.policy.head(remembered[0]))
            values.append(self.value.head(remembered[1]).squeeze(-1))
            state = torch.stack(carried, 1)
        return Reply(torch.cat(logits), torch.cat(values), state)


#: Networks by name: these, and what packages announce.
NETWORKS: Registry[type[ActorCritic]] = Registry(
    "network", "gridtune.networks", PolicyError, convert=lambda loaded: loaded
)
for _network in (FrameStackNetwork, RecurrentNetwork, PerceptronNetwork):
    NETWORKS.register(_network.kind, _network, module=__name__)


def make_network(
    kind: str,
    features: int,
    actions: int,
    *,
    sequence: int | None = None,
    frames: int | None = None,
    seed: int | None = None,
) -> ActorCritic:
    """Return a new network.

    Parameters
    ----------
    kind
        `paper`: the last 20 observations through an LSTM. `recurrent`: an LSTM that remembers the whole
        episode. `mlp`: the last observation alone. `effects`: what each action would do.
    features, actions
        Numbers in an observation; number of actions.
    sequence
        How many decisions in a row a recurrent network learns from at once; by default 48 (a thirtieth of a
        day of minutes).
    frames
        How many observations the network `paper` reads for each decision; by default its 20.
    seed
        Of its weights; without one they are torch's to draw.
    """
    network_class = NETWORKS.find(kind)
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        network = network_class(features, actions)
    if sequence is not None:
        if sequence < 1 or (sequence > 1 and network.sequence == 1):
            raise PolicyError(f"the network {kind!r} cannot learn from {sequence} decisions at once")
        network.sequence = sequence
    if frames is not None:
        if frames < 1 or (frames != network.lookback + 1 and kind != "paper"):
            raise PolicyError(f"the network {kind!r} cannot read {frames} observations at once")
        network.lookback = frames - 1
    return network
