"""Policy and value networks, as plain torch modules, and the files that they are stored in.

All of them read time-major segments of episodes, so that one loop trains them all. They differ in the number
of earlier observations they read (`lookback`) and in their state (`state_shape`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from gridtune.core.array_files import check_unpacked_size
from gridtune.errors import PolicyError
from gridtune.registry import Registry
from gridtune.storage import draft_of

#: The paper's network: LSTM units, units of the dense layer, slope for negative inputs.
MEMORY_UNITS, DENSE_UNITS, SLOPE = 128, 64, 0.2
#: Units of the network that scores rows.
ROW_UNITS = 32
#: Observations that the paper's network reads at once.
FRAMES = 20


class NetworkOutput(NamedTuple):
    """The output of a network for L observations of N episodes.

    Attributes
    ----------
    logits
        Shape (L, N, actions).
    values
        Shape (L, N).
    state
        Shape (N, *state_shape): the state after them.
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
    lookback
        Number of earlier observations that it reads for a decision.
    sequence
        Number of consecutive decisions it learns from at once: 1 if they are independent.
    state_shape
        Shape of an episode's state, which it passes from one decision to the next.
    fixed_shapes
        Whether the shapes in `step` follow from those of its arguments, so that a GPU can replay it.
    """

    kind: ClassVar[str]
    fixed_shapes: ClassVar[bool] = False
    lookback: int = 0
    sequence: int = 1
    state_shape: tuple[int, ...] = (0,)

    def __init__(self, features: int, actions: int) -> None:
        super().__init__()
        self.features, self.actions = features, actions

    def initial_state(self, episodes: int) -> Tensor:
        """Return the state at the beginning of episodes: zeros of shape (episodes, *state_shape)."""
        device = next(self.parameters()).device
        return torch.zeros(episodes, *self.state_shape, device=device)

    def memory(self, episodes: int) -> Tensor:
        """Return what `step` is given where episodes begin: shape (episodes, …).

        By default it is the state. A network with a lookback has a memory of its own.
        """
        return self.initial_state(episodes)

    def step(self, observations: Tensor, memory: Tensor) -> NetworkOutput:
        """Make the next decision of each episode: `forward` for one observation, without the axis L.

        Parameters
        ----------
        observations
            Shape (N, features).
        memory
            Shape (N, …): `memory` where an episode begins, else the last reply's state.
        """
        begins = torch.zeros(1, len(observations), dtype=torch.bool, device=observations.device)
        logits, values, memory = self(observations.unsqueeze(0), begins, memory)
        return NetworkOutput(logits[0], values[0], memory)

    def resized(self, actions: int) -> ActorCritic:
        """Return the network with the same weights for another number of actions.

        Raises
        ------
        PolicyError
            If its weights fit one number of actions only.
        """
        if actions == self.actions:
            return self
        raise PolicyError(
            f"the network {self.kind!r} has weights for {self.actions} actions, not {actions}",
            hint="use a cluster with as many nodes as the one it was trained on",
        )

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> NetworkOutput:
        """Decide on the last L of `lookback` + L observations.

        Parameters
        ----------
        observations
            Shape (lookback + L, N, features).
        begins
            Shape (lookback + L, N), bool: which of them begin an episode.
        state
            Shape (N, *state_shape): before the first decision.
        """
        raise NotImplementedError

    def description(self) -> dict[str, Any]:
        """Return the arguments of `make_network` that create it."""
        numbers = {"features": self.features, "actions": self.actions, "sequence": self.sequence}
        return {"kind": self.kind, **numbers}


def _dense_layer(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """Return a linear layer with orthogonal weights of this gain and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def _hidden_layers(inputs: int, units: int, outputs: int, gain: float) -> nn.Sequential:
    """Return two hidden layers of tanh units and an output layer with weights of this gain."""
    layers: list[nn.Module] = []
    for before in (inputs, units):
        layers += [_dense_layer(before, units, math.sqrt(2)), nn.Tanh()]
    return nn.Sequential(*layers, _dense_layer(units, outputs, gain))


class _PerceptronNetwork(ActorCritic):
    """Two hidden layers that read one observation."""

    kind = "mlp"
    fixed_shapes = True

    def __init__(self, features: int, actions: int) -> None:
        super().__init__(features, actions)
        self.policy = _hidden_layers(features, DENSE_UNITS, actions, 0.01)
        self.value = _hidden_layers(features, DENSE_UNITS, 1, 1.0)

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> NetworkOutput:
        return NetworkOutput(self.policy(observations), self.value(observations).squeeze(-1), state)


class _Tower(nn.Module):
    """LSTM, dense layer with leaky ReLU, output layer; initialised as in Keras."""

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

    def cell(self, observations: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return the LSTM's output and cell after one observation: a layer costs three times as much."""
        layer = self.memory
        weights = layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0
        return torch.lstm_cell(observations, (hidden, cell), *weights)

    def head(self, memory: Tensor) -> Tensor:
        return self.out(nn.functional.leaky_relu(self.dense(memory), SLOPE))


class _FrameStackNetwork(ActorCritic):
    """The paper's network: each decision reads the last 20 observations of its episode.

    References
    ----------
    The paper's section 5.1 and its authors' code: LSTM of 128 units, of which only the last output is used,
    then 64 units with leaky ReLU of slope 0.2. Observations before the episode are zeros.
    """

    kind = "paper"
    fixed_shapes = True
    lookback = FRAMES - 1

    def __init__(self, features: int, actions: int) -> None:
        super().__init__(features, actions)
        self.policy, self.value = _Tower(features, actions), _Tower(features, 1)

    def description(self) -> dict[str, Any]:
        """Return the arguments of `make_network` that create it."""
        return {**super().description(), "frames": self.lookback + 1}

    def memory(self, episodes: int) -> Tensor:
        """Return the states of windows that have read 0, 1, … zeros: (episodes, towers, frames, 2, units).

        An observation is read by every window that it is part of, each of which began a step later than the
        next. So a decision takes one step of the LSTM for `frames` rows instead of `frames` steps in turn.
        """
        seen = torch.zeros(1, self.features, device=next(self.parameters()).device)
        windows = []
        for tower in (self.policy, self.value):
            states = [torch.zeros(2, MEMORY_UNITS, device=seen.device)]
            for _ in range(self.lookback):
                states.append(torch.cat(tower.cell(seen, *states[-1].unsqueeze(1))))
            windows.append(torch.stack(states))
        return torch.stack(windows).repeat(episodes, 1, 1, 1, 1)

    def step(self, observations: Tensor, memory: Tensor) -> NetworkOutput:
        frames = self.lookback + 1
        seen = observations.unsqueeze(1).expand(-1, frames, -1).flatten(0, 1)
        outputs, windows = [], []
        for place, tower in enumerate((self.policy, self.value)):
            hidden, cell = tower.cell(seen, *memory[:, place].flatten(0, 1).unbind(1))
            states = torch.stack((hidden, cell), 1).unflatten(0, (-1, frames))
            outputs.append(tower.head(states[:, -1, 0]))
            # The window that is complete makes way for one that has read nothing.
            windows.append(torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1))
        return NetworkOutput(outputs[0], outputs[1].squeeze(-1), torch.stack(windows, 1))

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> NetworkOutput:
        length, count = observations.shape[0] - self.lookback, self.lookback + 1
        frames, starts = observations, begins
        if length > 1:
            # Every decision becomes an episode of its own.
            frames = observations.unfold(0, count, 1).permute(3, 0, 1, 2).flatten(1, 2)
            starts = begins.unfold(0, count, 1).permute(2, 0, 1).flatten(1, 2)
        # A frame counts if no later one begins an episode.
        later = starts.flip(0).cumsum(0).flip(0) - starts.long()
        masked = frames * (later == 0).unsqueeze(-1)
        logits, values = (tower.head(tower.memory(masked)[0][-1]) for tower in (self.policy, self.value))
        episodes = observations.shape[1]
        return NetworkOutput(logits.view(length, episodes, -1), values.view(length, episodes), state)


class _RecurrentNetwork(ActorCritic):
    """The same layers, but the LSTM's state is carried through the episode: each observation is read once."""

    kind = "recurrent"
    fixed_shapes = True
    sequence = 48
    #: Policy and value; hidden and cell.
    state_shape = (2, 2, MEMORY_UNITS)

    def __init__(self, features: int, actions: int) -> None:
        super().__init__(features, actions)
        self.policy, self.value = _Tower(features, actions), _Tower(features, 1)

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> NetworkOutput:
        length = observations.shape[0]
        if length == 1:
            reply = self.step(observations[0], state * ~begins[0].view(-1, 1, 1, 1))
            return NetworkOutput(reply.logits.unsqueeze(0), reply.values.unsqueeze(0), reply.state)
        # The state is reset where episodes begin, so the sequence is cut there.
        cuts = [int(row) for row in torch.nonzero(begins.any(1)).flatten() if row > 0]
        logits, values = [], []
        for start, end in zip([0, *cuts], [*cuts, length], strict=True):
            state = state * ~begins[start].view(-1, 1, 1, 1)
            outputs, states = [], []
            for place, tower in enumerate((self.policy, self.value)):
                memory = tuple(part.unsqueeze(0).contiguous() for part in state[:, place].unbind(1))
                output, memory = tower.memory(observations[start:end], memory)
                outputs.append(output)
                states.append(torch.stack([part.squeeze(0) for part in memory], 1))
            logits.append(self.policy.head(outputs[0]))
            values.append(self.value.head(outputs[1]).squeeze(-1))
            state = torch.stack(states, 1)
        return NetworkOutput(torch.cat(logits), torch.cat(values), state)

    def step(self, observations: Tensor, memory: Tensor) -> NetworkOutput:
        outputs, states = [], []
        for place, tower in enumerate((self.policy, self.value)):
            after = tower.cell(observations, memory[:, place, 0], memory[:, place, 1])
            outputs.append(tower.head(after[0]))
            states.append(torch.stack(after, 1))
        return NetworkOutput(outputs[0], outputs[1].squeeze(-1), torch.stack(states, 1))


class RowNetwork(ActorCritic):
    """Scores a row of numbers for each action with the same weights, given what the rows are like together.

    So it has as many weights for any number of actions. The mean, least and largest of each number stand for
    the rows together (the kernel network of RLScheduler, SC 2020, has no view of the others). A subclass may
    have numbers before the rows (`before`), and rows that hold no choice (`choices`), which are never taken.
    """

    kind = "rows"
    before: ClassVar[int] = 0

    def __init__(self, features: int, actions: int) -> None:
        super().__init__(features, actions)
        self.width, left = divmod(features - self.before, actions)
        if left or self.width < 1:
            raise PolicyError(f"{features} numbers are no rows for {actions} actions")
        root, shared = math.sqrt(2), self.before + 3 * self.width
        self.situation = nn.Sequential(
            _dense_layer(shared, ROW_UNITS, root), nn.Tanh(), _dense_layer(ROW_UNITS, ROW_UNITS, 1.0)
        )
        self.row = nn.Linear(self.width, ROW_UNITS, bias=False)
        self.score = nn.Sequential(
            nn.Tanh(), _dense_layer(ROW_UNITS, ROW_UNITS, root), nn.Tanh(), _dense_layer(ROW_UNITS, 1, 0.01)
        )
        self.value = _hidden_layers(shared, ROW_UNITS, 1, 1.0)
        nn.init.orthogonal_(self.row.weight, root)

    def choices(self, rows: Tensor) -> Tensor:
        """Return which rows hold a choice, shape (…, actions, 1); the others are zeros."""
        return torch.ones_like(rows[..., :1], dtype=torch.bool)

    def resized(self, actions: int) -> ActorCritic:
        """Return the network with the same weights for another number of actions."""
        if actions == self.actions:
            return self
        other = type(self)(self.before + actions * self.width, actions).to(self.row.weight.device)
        other.load_state_dict(self.state_dict())
        return other.train(self.training)

    def forward(self, observations: Tensor, begins: Tensor, state: Tensor) -> NetworkOutput:  # noqa: D102
        rows = observations[..., self.before :].unflatten(-1, (self.actions, self.width))
        there = self.choices(rows)
        count = there.sum(-2).clamp(min=1)
        shared = torch.cat(
            [
                observations[..., : self.before],
                rows.sum(-2) / count,
                torch.where(there, rows, 1.0).amin(-2),
                rows.amax(-2),
            ],
            -1,
        )
        # Most rows may be empty, so only those that are filled are scored.
        filled = torch.nonzero(there.squeeze(-1), as_tuple=True)
        mixed = self.situation(shared)[filled[:-1]] + self.row(rows[filled])
        never = torch.full(rows.shape[:-1], -1e9, device=rows.device)
        logits = never.index_put(filled, self.score(mixed).squeeze(-1))
        return NetworkOutput(logits, self.value(shared).squeeze(-1), state)


#: Networks by name: these, and those that packages announce.
NETWORKS: Registry[type[ActorCritic]] = Registry(
    "network", "gridtune.networks", PolicyError, convert=lambda loaded: loaded
)
for _network in (_FrameStackNetwork, _RecurrentNetwork, _PerceptronNetwork, RowNetwork):
    NETWORKS.register(_network.kind, _network)


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
        `paper`: an LSTM over the last 20 observations. `recurrent`: an LSTM over the whole episode. `mlp`:
        the last observation only. `rows`: a row of the last observation for each action. Packages may
        announce others.
    features, actions
        Numbers in an observation; number of actions.
    sequence
        Number of consecutive decisions that a recurrent network learns from at once; by default 48.
    frames
        Number of observations that the network `paper` reads for each decision; by default 20.
    seed
        Seed of the weights; by default torch's own generator is used.
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


FORMAT = 1


def write_checkpoint(
    path: str | Path, network: ActorCritic, *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write a network to a file; the file is replaced atomically."""
    weights = {name: weight.cpu() for name, weight in network.state_dict().items()}
    content = {"format": FORMAT, "network": network.description(), "weights": weights}
    with draft_of(Path(path)) as draft:
        torch.save({**content, "notes": dict(notes or {})}, draft)


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint without executing anything in it.

    Returns
    -------
    dict
        `network`: arguments of `make_network`; `weights`: its weights by name; `notes`: those of the writer,
        such as the scores of a validation.

    Raises
    ------
    PolicyError
        If it cannot be read, or is none.
    """
    file = Path(path)
    try:
        check_unpacked_size(file, error=PolicyError)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", path=file) from error
    except PolicyError:
        raise
    except Exception as error:  # what a damaged file raises depends on where in it torch stumbles
        raise PolicyError("is not a checkpoint of a policy", path=file) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise PolicyError(f"is not a checkpoint of format {FORMAT}", path=file)
    if not all(isinstance(content.get(name), dict) for name in ("network", "weights", "notes")):
        raise PolicyError("is not a checkpoint of a policy", path=file)
    return content


def load_policy(path: str | Path) -> ActorCritic:
    """Return the network of a checkpoint in evaluation mode."""
    checkpoint = read_checkpoint(path)
    try:
        network = make_network(**checkpoint["network"])
        network.load_state_dict(checkpoint["weights"])
    except (TypeError, ValueError, RuntimeError, AttributeError, OverflowError, MemoryError) as error:
        raise PolicyError("its weights are not those of its network", path=path) from error
    return network.eval()
