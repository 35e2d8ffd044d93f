"""Learners of readouts by ridge regression: SARSA, fitted Q, and branches; the base of other regressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gridtune.systems.responsive.learners.networks import ReservoirArrays, accumulate, solve, values_of
from gridtune.systems.responsive.learners.runs import best_values
from gridtune.systems.responsive.learners.sampling import Branches, RunSamples, Samples, SarsaSamples
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.types import FloatArray

__all__ = ["BranchLearner", "Learner", "NormalEquations", "fitted_targets", "sarsa_targets"]


class NormalEquations:
    """Ridge regression of m readouts, to which samples can be added at any time.

    It minimises Σ (φ·w − y)² + ridge · |w − prior|². Adding n samples costs O(n p²), solving O(p³),
    however many samples have been added before.

    Parameters
    ----------
    networks, outputs
        m and p.
    ridge
        Weight of the prior.
    """

    def __init__(self, networks: int, outputs: int, ridge: float) -> None:
        self.gram = np.zeros((networks, outputs, outputs))
        self.moment = np.zeros((networks, outputs))
        self.prior = np.zeros((networks, outputs))
        self._ridge, self._factor = ridge, np.zeros((outputs, outputs))

    def begin(self, prior: FloatArray) -> None:
        """Forget all samples, and set the prior, shape (m, p)."""
        self.gram[:], self.moment[:], self.prior[:] = 0.0, 0.0, prior

    def add(self, phi: FloatArray, target: FloatArray) -> None:
        """Add samples: inputs of the readouts, shape (n, m, p), and target values, shape (n,)."""
        for network in range(len(self.gram)):
            part = np.ascontiguousarray(phi[:, network])
            accumulate(self.gram[network], self.moment[network], part, target)

    def solution(self) -> FloatArray:
        """Return the readouts, shape (m, p)."""
        out = np.empty_like(self.prior)
        for network, readout in enumerate(out):
            solve(
                self.gram[network],
                self.moment[network],
                self._ridge,
                self.prior[network],
                self._factor,
                readout,
            )
        return out


def sarsa_targets(readout: FloatArray, samples: SarsaSamples, settings: LearnerSettings) -> FloatArray:
    """Return Q + η [r + γ Q(s', a′) − Q] of each sample (Perez et al. 2009, algorithm 1)."""
    present, following = np.empty(len(samples)), np.empty(len(samples))
    values_of(readout, samples.phi, present)
    values_of(readout, samples.following, following)
    observed = samples.reward + settings.discount * np.where(samples.last, 0.0, following)
    return present + settings.learning_rate * (observed - present)


class Learner:
    """Networks whose readout learns the targets of SARSA or of fitted Q; their other weights stay as drawn.

    Of SARSA each update adds decisions, whose rewards have become known, to those of the sweep, with targets
    from the present values; in sweep 0 the whole run several times. Of fitted Q each learns from whole runs,
    `iterations` times.

    Parameters
    ----------
    arrays
        The networks, with the readouts to start from.
    settings
        The settings of the learner.
    """

    def __init__(self, arrays: ReservoirArrays, settings: LearnerSettings) -> None:
        self.arrays, self.settings = arrays, settings
        networks, outputs = arrays.readout.shape
        self._equations = NormalEquations(networks, outputs, settings.ridge)

    def update(self, sweep: int, samples: Sequence[Samples]) -> dict[str, float]:
        """Learn from the samples of all samplers in turn; return statistics of the update."""
        parts = [part for part in samples if not isinstance(part, Branches)]
        settings, statistics = self.settings, {}
        fitted = settings.method == "fitted_q"
        times = settings.pretraining_sweeps if sweep == 0 else settings.iterations if fitted else 1
        for _ in range(times):
            if fitted or sweep == 0 or any(part.begins for part in parts if isinstance(part, SarsaSamples)):
                self._begin(np.zeros_like(self.arrays.readout) if fitted else self.arrays.readout)
            for part in parts:
                if len(part):
                    self._add(part, self._targets(part))
            statistics = self._fit()
        decisions, total = sum(map(len, parts)), sum(float(part.reward.sum()) for part in parts)
        reward = total / decisions if decisions else float("nan")
        return {"decisions": decisions, "reward": reward, **statistics}

    def _targets(self, part: SarsaSamples | RunSamples) -> FloatArray:
        if isinstance(part, RunSamples):
            return fitted_targets(self.arrays, part, self.settings.discount)
        return sarsa_targets(self.arrays.readout, part, self.settings)

    def _begin(self, prior: FloatArray) -> None:
        """Forget all samples; the prior of a readout has the shape (m, p)."""
        self._equations.begin(prior)

    def _add(self, part: SarsaSamples | RunSamples, target: FloatArray) -> None:
        """Add samples with their targets."""
        self._equations.add(part.phi, target)

    def _fit(self) -> dict[str, float]:
        """Fit the values to the samples added; return statistics of the fit."""
        before = self.arrays.readout
        self.arrays = self.arrays.with_readout(self._equations.solution())
        return {"change": float(np.abs(self.arrays.readout - before).max())}

    def state(self) -> dict[str, Any]:
        """Return the state to resume learning from, as arrays by name."""
        equations = self._equations
        return {
            "readout": self.arrays.readout.copy(),
            "gram": equations.gram.copy(),
            "moment": equations.moment.copy(),
            "prior": equations.prior.copy(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume learning from a state."""
        self.arrays = self.arrays.with_readout(state["readout"])
        equations = self._equations
        for name in ("gram", "moment", "prior"):
            getattr(equations, name)[:] = state[name]


def fitted_targets(arrays: ReservoirArrays, run: RunSamples, discount: float) -> FloatArray:
    """Return r + γ maxᵦ Q(s', b) of each decision of a run; r of its last one."""
    best = np.empty(len(run))
    best_values(arrays, run.rows, run.first, run.own, best)
    return run.reward + discount * np.append(best[1:], 0.0)


class BranchLearner(Learner):
    """Values fitted to the differences between the branches of a decision.

    Only differences within a decision matter for the choice, and everything else that happened cancels out in
    them, so the regression uses inputs and values minus their means over the decision's branches. Sweep 0
    fits the urgency of candidates in hindsight (`branching.urgency`). In later sweeps this readout, scaled to
    fit the branches best, is the prior of a regression on all branches so far.
    """

    def __init__(self, arrays: ReservoirArrays, settings: LearnerSettings) -> None:
        super().__init__(arrays, settings)
        self._urgency = np.zeros_like(arrays.readout)
        # Over all branches so far: Σ value · urgency, and Σ urgency².
        self._scale = np.zeros(2)

    def update(self, sweep: int, samples: Sequence[Samples]) -> dict[str, float]:
        """Learn from branches."""
        parts = [centred(part) for part in samples if isinstance(part, Branches) and len(part)]
        explained = _explained(self.arrays.readout, parts)
        for phi, value in parts:
            self._equations.add(phi, value)
            urgency = np.empty(len(value))
            values_of(self._urgency, phi, urgency)
            self._scale += (value * urgency).sum(), (urgency**2).sum()
        if sweep == 0:
            self._fit()
            self._urgency = self.arrays.readout.copy()
            self._equations.begin(self._urgency)
            self._scale[:] = 0.0
            return {"explained": _explained(self._urgency, parts)}
        if self._scale[1] > 0:
            self._equations.prior[:] = max(self._scale[0], 0.0) / self._scale[1] * self._urgency
        self._fit()
        return {"explained": explained}

    def state(self) -> dict[str, Any]:
        """Return the state to resume learning from, as arrays by name."""
        return {**super().state(), "urgency": self._urgency.copy(), "scale": self._scale.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume learning from a state."""
        super().restore(state)
        self._urgency[:], self._scale[:] = state["urgency"], state["scale"]


def _explained(readout: FloatArray, parts: Sequence[tuple[FloatArray, FloatArray]]) -> float:
    """Return the share of the values' variance within decisions that a readout explains."""
    left = total = 0.0
    for phi, value in parts:
        predicted = np.empty(len(value))
        values_of(readout, phi, predicted)
        left, total = left + float(((value - predicted) ** 2).sum()), total + float((value**2).sum())
    return 1 - left / total if total else float("nan")


def centred(branches: Branches) -> tuple[FloatArray, FloatArray]:
    """Return inputs and values of branches, minus their means over each decision's branches."""
    sizes = np.diff(branches.first)
    group = np.repeat(np.arange(len(sizes)), sizes)
    safe = np.maximum(sizes, 1)
    value = branches.value - (np.bincount(group, branches.value, len(sizes)) / safe)[group]
    phi = branches.phi.copy()
    for begin, end in zip(branches.first[:-1], branches.first[1:], strict=True):
        if end > begin:
            phi[begin:end] -= phi[begin:end].mean(axis=0)
    return phi, value
