"""The comparator: a feed-forward network with the same inputs, trained by back-propagation (in torch).

It has one hidden layer of sigmoid neurons and a linear output. Its arrays are those of a network without
recurrent weights, so the same kernels run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gridtune.systems.responsive.learners.learning import (
    Learner,
    fitted_targets,
    reward_statistics,
    sarsa_targets,
)
from gridtune.systems.responsive.learners.networks import ReservoirArrays
from gridtune.systems.responsive.learners.sampling import RunSamples, Samples, SarsaSamples
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.types import FloatArray

__all__ = ["FeedForwardLearner", "fit"]

#: Samples of a minibatch.
BATCH = 64


class FeedForwardLearner(Learner):
    """The papers' RL-NN: the targets of SARSA or of fitted Q, learned by back-propagation.

    With SARSA, each update trains on all samples of the sweep so far, for `epochs` epochs.
    """

    def __init__(self, arrays: ReservoirArrays, settings: LearnerSettings, seed: int) -> None:
        super().__init__(arrays, settings)
        self._seed, self._fits = seed, 0
        self._collected: list[tuple[FloatArray, FloatArray]] = []

    def update(self, sweep: int, samples: Sequence[Samples]) -> dict[str, float]:
        """Learn from the samples of all samplers in turn."""
        if self.settings.method == "fitted_q":
            return self._fitted(sweep, [run for run in samples if isinstance(run, RunSamples)])
        return self._sarsa(sweep, [part for part in samples if isinstance(part, SarsaSamples)])

    def _sarsa(self, sweep: int, parts: Sequence[SarsaSamples]) -> dict[str, float]:
        loss = float("nan")
        for _ in range(self.settings.pretraining_sweeps if sweep == 0 else 1):
            if sweep == 0 or any(part.begins for part in parts):
                self._collected = []
            for part in parts:
                if len(part):
                    target = sarsa_targets(self.arrays.readout, self._updated(part), self.settings)
                    self._collected.append((part.rows, target))
            loss = self._fit(self._collected)
        return {**reward_statistics(parts), "loss": loss}

    def _fitted(self, sweep: int, runs: Sequence[RunSamples]) -> dict[str, float]:
        loss = float("nan")
        discount = self.settings.discount
        for _ in range(self.settings.pretraining_sweeps if sweep == 0 else self.settings.iterations):
            loss = self._fit([(run.rows, fitted_targets(self.arrays, run, discount)) for run in runs])
        return {"reward": float(np.mean([run.reward.mean() for run in runs])), "loss": loss}

    def _updated(self, part: SarsaSamples) -> SarsaSamples:
        """Return samples with the present readout inputs: the hidden layer learns, too."""
        return replace(part, phi=self._phi(part.rows), following=self._phi(part.following_rows))

    def _phi(self, rows: FloatArray) -> FloatArray:
        with torch.no_grad():
            hidden = _hidden(torch.as_tensor(rows), *_tensors(self.arrays)[:2])
        return np.concatenate([np.ones((len(rows), 1)), hidden.numpy()], axis=1)[:, None, :]

    def _fit(self, samples: Sequence[tuple[FloatArray, FloatArray]]) -> float:
        self._fits += 1
        if not samples:
            return float("nan")
        rows = np.concatenate([rows for rows, _ in samples])
        target = np.concatenate([target for _, target in samples])
        self.arrays, loss = fit(self.arrays, rows, target, self.settings, (self._seed, self._fits))
        return loss

    def state(self) -> dict[str, Any]:
        """Return the state to resume learning from at the end of a sweep, as arrays by name."""
        learned = {"inputs": self.arrays.inputs.copy(), "bias": self.arrays.bias.copy()}
        return {**super().state(), **learned, "fits": np.array(self._fits)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume learning from a state."""
        super().restore(state)
        self.arrays = self.arrays._replace(
            inputs=np.ascontiguousarray(state["inputs"]), bias=np.ascontiguousarray(state["bias"])
        )
        self._fits, self._collected = int(state["fits"]), []


def fit(
    arrays: ReservoirArrays,
    rows: FloatArray,
    target: FloatArray,
    settings: LearnerSettings,
    seed: tuple[int, int],
) -> tuple[ReservoirArrays, float]:
    """Train a network further; return it and the mean squared error of the last epoch.

    Parameters
    ----------
    arrays
        A feed-forward network.
    rows, target
        Shapes (n, d) and (n,).
    settings
        `epochs` and `step`.
    seed
        The seed of the order of minibatches.
    """
    threads = torch.get_num_threads()
    # The last bits of sums depend on the number of threads.
    torch.set_num_threads(1)
    try:
        inputs, targets = torch.as_tensor(rows), torch.as_tensor(target)
        weights = [tensor.clone().requires_grad_() for tensor in _tensors(arrays)]
        optimiser = torch.optim.Adam(weights, lr=settings.step)
        order, loss = np.random.default_rng(seed), 0.0
        for _ in range(settings.epochs):
            loss = 0.0
            for part in torch.split(torch.as_tensor(order.permutation(len(rows))), BATCH):
                optimiser.zero_grad()
                error = (_value(inputs[part], *weights) - targets[part]).square().mean()
                error.backward()
                optimiser.step()
                loss += float(error.detach()) * len(part) / len(rows)
    finally:
        torch.set_num_threads(threads)
    feeding, bias, readout = (tensor.detach().numpy() for tensor in weights)
    return arrays._replace(inputs=feeding[None], bias=bias[None]).with_readout(readout), loss


def _tensors(arrays: ReservoirArrays) -> tuple[Tensor, Tensor, Tensor]:
    feeding, bias = torch.as_tensor(arrays.inputs[0]), torch.as_tensor(arrays.bias[0])
    return feeding, bias, torch.as_tensor(arrays.readout[0])


def _hidden(rows: Tensor, feeding: Tensor, bias: Tensor) -> Tensor:
    return torch.sigmoid(rows @ feeding + bias)


def _value(rows: Tensor, feeding: Tensor, bias: Tensor, readout: Tensor) -> Tensor:
    return readout[0] + _hidden(rows, feeding, bias) @ readout[1:]
