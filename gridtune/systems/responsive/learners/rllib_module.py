"""Networks of candidate values as a module of RLlib.

Nothing is learned by gradients, so reservoirs and readout are buffers, which RLlib sends and stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor

from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.reservoir import draw_network
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.systems.responsive.learners.training import first_sweep

__all__ = ["NETWORK", "ESNQModule"]

#: Key of a module's configuration: what its networks are drawn from.
NETWORK = "network"
_SWEEP, _STATE = "sweep", "reservoirs"


class ESNQModule(TorchRLModule):
    """Networks of candidate values, with all their weights as buffers."""

    def setup(self) -> None:
        """Draw the networks."""
        network = self.model_config[NETWORK]
        settings = LearnerSettings.from_dict(network["settings"])
        shared = np.asarray(network["shared"], np.bool_)
        for name, array in draw_network(settings, shared, network["seed"])._asdict().items():
            self.register_buffer(name, torch.as_tensor(array))
        self.register_buffer(_SWEEP, torch.tensor(first_sweep(settings)))

    @property
    def arrays(self) -> ReservoirArrays:
        """The networks as arrays for compiled code."""
        return ReservoirArrays(*(getattr(self, name).numpy() for name in ReservoirArrays._fields))

    def take(self, arrays: ReservoirArrays) -> None:
        """Take over these networks."""
        for name, array in arrays._asdict().items():
            getattr(self, name).copy_(torch.as_tensor(array))

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return all buffers in double precision, unlike RLlib's own method."""
        return {name: array.numpy().copy() for name, array in self.named_buffers()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        for name, array in self.named_buffers():
            array.copy_(torch.as_tensor(state[name]))

    def is_stateful(self) -> bool:
        """Return True: reservoirs have a state."""
        return True

    def get_initial_state(self) -> dict[str, Tensor]:
        """Return the initial state of every run: shape (m, k)."""
        return {_STATE: torch.zeros_like(self.bias)}

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return values of candidates, (B, n), as logits, and the state after the best; rows: (B, n, d)."""
        rows, state = batch[Columns.OBS].to(torch.float64), batch[Columns.STATE_IN][_STATE]
        moved = self._moved(rows, state)
        visible = int(self.sizes[0])
        parts = [torch.ones_like(moved[..., :1]), moved[..., :visible]]
        if self.readout.shape[1] > 1 + visible:
            parts.append(rows[:, :, None, :].expand(*moved.shape[:3], -1))
        values = (torch.cat(parts, -1) * self.readout).sum(-1).mean(-1)
        best = values.argmax(1)
        after = moved[torch.arange(len(best)), best]
        return {Columns.ACTION_DIST_INPUTS: values, Columns.STATE_OUT: {_STATE: after}}

    def _moved(self, rows: Tensor, state: Tensor) -> Tensor:
        """Return the state after each candidate: (B, n, m, k)."""
        from_inputs = torch.einsum("bnd,mdk->bnmk", rows, self.inputs)
        from_state = torch.einsum("bmj,mij->bmi", state, self._recurrent())
        activation = torch.sigmoid(from_inputs + (from_state + self.bias)[:, None])
        leak = self.leak[0]
        return (1 - leak) * state[:, None] + leak * activation

    def _recurrent(self) -> Tensor:
        networks, neurons = self.bias.shape
        dense = torch.zeros(networks, neurons, neurons, dtype=torch.float64)
        for network in range(networks):
            target = torch.repeat_interleave(torch.arange(neurons), torch.diff(self.first[network]))
            size = len(target)
            dense[network, target, self.source[network, :size]] = self.weight[network, :size]
        return dense
