"""The comparator: a feed-forward network with the same inputs, trained by back-propagation (in torch).

One hidden layer of sigmoid neurons and a linear output. It remembers nothing, so its arrays are those of a
network without recurrent weights, and it is played by the same kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gridtune.systems.responsive.learners.arrays import Floats, ReservoirArrays
from gridtune.systems.responsive.learners.learning import Learner, fitted_targets, sarsa_targets
from gridtune.systems.responsive.learners.sampling import RunSamples, Samples, SarsaSamples
from gridtune.systems.responsive.learners.settings import LearnerSettings

__all__ = ["FeedForwardLearner", "fit"]

#: Samples of a minibatch.
BATCH = 64


class FeedForwardLearner(Learner):
    """The papers' RL-NN: the targets of SARSA or of fitted Q, regressed by back-propagation.

    SARSA: the samples of a sweep are collected, and each update trains on all of them, `epochs` times.
    """

    def __init__(self, arrays: ReservoirArrays, settings: LearnerSettings, seed: int) -> None:
        super().__init__(arrays, settings)
        self._seed, self._fits = seed, 0
        self._collected: list[tuple[Floats, Floats]] = []

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
                    anew = self._as_now(part)
                    target = sarsa_targets(self.arrays.readout, anew, self.settings)
                    self._collected.append((part.rows, target))
            loss = self._fit(self._collected)
        known = sum(len(part) for part in parts)
        total = sum(float(part.reward.sum()) for part in parts)
        return {"decisions": known, "reward": total / known if known else float("nan"), "loss": loss}

    def _fitted(self, sweep: int, runs: Sequence[RunSamples]) -> dict[str, float]:
        loss = float("nan")
        discount = self.settings.discount
        for _ in range(self.settings.pretraining_sweeps if sweep == 0 else self.settings.iterations):
            loss = self._fit([(run.rows, fitted_targets(self.arrays, run, discount)) for run in runs])
        return {"reward": float(np.mean([run.reward.mean() for run in runs])), "loss": loss}

    def _as_now(self, part: SarsaSamples) -> SarsaSamples:
        """Return samples as the network sees them now: its hidden layer learns, too."""
        from dataclasses import replace  # noqa: PLC0415

        return replace(part, seen=self._seen(part.rows), following=self._seen(part.following_rows))

    def _seen(self, rows: Floats) -> Floats:
        with torch.no_grad():
            hidden = _hidden(torch.as_tensor(rows), *_tensors(self.arrays)[:2])
        return np.concatenate([np.ones((len(rows), 1)), hidden.numpy()], axis=1)[:, None, :]

    def _fit(self, samples: Sequence[tuple[Floats, Floats]]) -> float:
        self._fits += 1
        if not samples:
            return float("nan")
        rows = np.concatenate([rows for rows, _ in samples])
        target = np.concatenate([target for _, target in samples])
        self.arrays, loss = fit(self.arrays, rows, target, self.settings, (self._seed, self._fits))
        return loss

    def state(self) -> dict[str, Any]:
        """Return what learning goes on from at a sweep's end, as arrays by name."""
        learned = {"inputs": self.arrays.inputs.copy(), "bias": self.arrays.bias.copy()}
        return {**super().state(), **learned, "fits": np.array(self._fits)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        super().restore(state)
        self.arrays = self.arrays._replace(
            inputs=np.ascontiguousarray(state["inputs"]), bias=np.ascontiguousarray(state["bias"])
        )
        self._fits, self._collected = int(state["fits"]), []


def fit(
    arrays: ReservoirArrays, rows: Floats, target: Floats, settings: LearnerSettings, seed: tuple[int, int]
) -> tuple[ReservoirArrays, float]:
    """Return a network trained on from where it is, and its last epoch's mean squared error.

    Parameters
    ----------
    arrays
        A feed-forward network.
    rows, target
        Shapes (n, d) and (n,).
    settings
        `epochs` and `step`.
    seed
        Of the minibatches' order.
    """
    threads = torch.get_num_threads()
    # How sums are split among threads shows in their last bits.
    torch.set_num_threads(1)
    try:
        seen, wanted = torch.as_tensor(rows), torch.as_tensor(target)
        weights = [each.clone().requires_grad_() for each in _tensors(arrays)]
        optimiser = torch.optim.Adam(weights, lr=settings.step)
        order, loss = np.random.default_rng(seed), 0.0
        for _ in range(settings.epochs):
            loss = 0.0
            for part in torch.split(torch.as_tensor(order.permutation(len(rows))), BATCH):
                optimiser.zero_grad()
                error = (_value(seen[part], *weights) - wanted[part]).square().mean()
                error.backward()
                optimiser.step()
                loss += float(error.detach()) * len(part) / len(rows)
    finally:
        torch.set_num_threads(threads)
    feeding, bias, readout = (each.detach().numpy() for each in weights)
    return arrays._replace(inputs=feeding[None], bias=bias[None]).with_readout(readout), loss


def _tensors(arrays: ReservoirArrays) -> tuple[Tensor, Tensor, Tensor]:
    feeding, bias = torch.as_tensor(arrays.inputs[0]), torch.as_tensor(arrays.bias[0])
    return feeding, bias, torch.as_tensor(arrays.readout[0])


def _hidden(rows: Tensor, feeding: Tensor, bias: Tensor) -> Tensor:
    return torch.sigmoid(rows @ feeding + bias)


def _value(rows: Tensor, feeding: Tensor, bias: Tensor, readout: Tensor) -> Tensor:
    return readout[0] + _hidden(rows, feeding, bias) @ readout[1:]
