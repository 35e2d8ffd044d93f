"""The comparator: a feed-forward network with the same inputs, trained by back-propagation (in torch).

It has one hidden layer of sigmoid neurons and a linear output. Its arrays are those of a network without
recurrent weights, so the same kernels run it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gridtune.systems.responsive.learners.learning import Learner, RunSamples, SarsaSamples
from gridtune.systems.responsive.learners.networks import ReservoirArrays
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.types import FloatArray

#: Samples of a minibatch.
BATCH = 64


class FeedForwardLearner(Learner):
    """The papers' RL-NN: the targets of SARSA or of fitted Q, learned by back-propagation.

    With SARSA, each update trains on all samples of the sweep so far, for `epochs` epochs.
    """

    def __init__(self, arrays: ReservoirArrays, settings: LearnerSettings, seed: int) -> None:
        super().__init__(arrays, settings)
        self._seed = seed
        self._collected: list[tuple[FloatArray, FloatArray]] = []

    def _targets(self, part: SarsaSamples | RunSamples) -> FloatArray:
        if isinstance(part, SarsaSamples):
            # Readout inputs as they are at present: the hidden layer learns, too.
            part = replace(part, phi=self._phi(part.rows), following=self._phi(part.following_rows))
        return super()._targets(part)

    def _phi(self, rows: FloatArray) -> FloatArray:
        with torch.no_grad():
            hidden = _hidden(torch.as_tensor(rows), *_tensors(self.arrays)[:2])
        return np.concatenate([np.ones((len(rows), 1)), hidden.numpy()], axis=1)[:, None, :]

    def _begin(self, prior: FloatArray) -> None:
        self._collected = []

    def _add(self, part: SarsaSamples | RunSamples, target: FloatArray) -> None:
        self._collected.append((part.rows, target))

    def _fit(self) -> dict[str, float]:
        self.fits += 1
        if not self._collected:
            return {"loss": float("nan")}
        rows, target = (np.concatenate(column) for column in zip(*self._collected, strict=True))
        self.arrays, loss = fit(self.arrays, rows, target, self.settings, (self._seed, self.fits))
        return {"loss": loss}


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
        feeding, bias, readout = (tensor.clone().requires_grad_() for tensor in _tensors(arrays))
        optimiser = torch.optim.Adam([feeding, bias, readout], lr=settings.step)
        order, loss = np.random.default_rng(seed), 0.0
        for _ in range(settings.epochs):
            loss = 0.0
            for part in torch.split(torch.as_tensor(order.permutation(len(rows))), BATCH):
                optimiser.zero_grad()
                values = readout[0] + _hidden(inputs[part], feeding, bias) @ readout[1:]
                error = (values - targets[part]).square().mean()
                error.backward()
                optimiser.step()
                loss += float(error.detach()) * len(part) / len(rows)
    finally:
        torch.set_num_threads(threads)
    weights, biases = feeding.detach().numpy(), bias.detach().numpy()
    learned = arrays._replace(inputs=weights[None], bias=biases[None])
    return learned.with_readout(readout.detach().numpy()), loss


def _tensors(arrays: ReservoirArrays) -> tuple[Tensor, Tensor, Tensor]:
    feeding, bias = torch.as_tensor(arrays.inputs[0]), torch.as_tensor(arrays.bias[0])
    return feeding, bias, torch.as_tensor(arrays.readout[0])


def _hidden(rows: Tensor, feeding: Tensor, bias: Tensor) -> Tensor:
    return torch.sigmoid(rows @ feeding + bias)
