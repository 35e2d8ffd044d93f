"""Readouts learned from samples: SARSA, fitted Q, and branches; all by ridge regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gridtune.systems.responsive.learners.arrays import Floats, ReservoirArrays
from gridtune.systems.responsive.learners.kernels import accumulate, solve, values_of
from gridtune.systems.responsive.learners.loop import best_values
from gridtune.systems.responsive.learners.sampling import Branches, RunSamples, Samples, SarsaSamples
from gridtune.systems.responsive.learners.settings import LearnerSettings

__all__ = ["Learner", "NormalEquations", "new_learner", "sarsa_targets"]


class NormalEquations:
    """Ridge regression of m readouts that takes samples as they come.

    It minimises Σ (φ·w − y)² + ridge · |w − prior|². Adding n samples costs O(n p²) once, solving O(p³),
    however many samples there have been.

    Parameters
    ----------
    networks, outputs
        m and p.
    ridge
        How strongly the readouts are held to the prior.
    """

    def __init__(self, networks: int, outputs: int, ridge: float) -> None:
        self.gram = np.zeros((networks, outputs, outputs))
        self.moment = np.zeros((networks, outputs))
        self.prior = np.zeros((networks, outputs))
        self._ridge, self._factor = ridge, np.zeros((outputs, outputs))

    def begin(self, prior: Floats) -> None:
        """Forget all samples; hold the next solutions to `prior`, shape (m, p)."""
        self.gram[:], self.moment[:], self.prior[:] = 0.0, 0.0, prior

    def add(self, seen: Floats, target: Floats) -> None:
        """Add samples: what the readouts saw, shape (n, m, p), and what they should say, shape (n,)."""
        for network in range(len(self.gram)):
            part = np.ascontiguousarray(seen[:, network])
            accumulate(self.gram[network], self.moment[network], part, target)

    def solution(self) -> Floats:
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


def sarsa_targets(readout: Floats, samples: SarsaSamples, settings: LearnerSettings) -> Floats:
    """Return Q + η [r + γ Q(s', a′) − Q] of each sample (Perez et al. 2009, algorithm 1)."""
    present, following = np.empty(len(samples)), np.empty(len(samples))
    values_of(readout, samples.seen, present)
    values_of(readout, samples.following, following)
    observed = samples.reward + settings.discount * np.where(samples.last, 0.0, following)
    return present + settings.learning_rate * (observed - present)


class Learner:
    """Networks whose readout learns; the rest of them stays as it was drawn.

    Parameters
    ----------
    arrays
        The networks; their readouts are where learning begins.
    settings
        How to learn.
    """

    def __init__(self, arrays: ReservoirArrays, settings: LearnerSettings) -> None:
        self.arrays, self.settings = arrays, settings
        networks, outputs = arrays.readout.shape
        self._equations = NormalEquations(networks, outputs, settings.ridge)

    def update(self, sweep: int, samples: Sequence[Samples]) -> dict[str, float]:
        """Learn from the samples of all samplers in turn; return figures about it."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return what learning goes on from, as arrays by name."""
        equations = self._equations
        return {
            "readout": self.arrays.readout.copy(),
            "gram": equations.gram.copy(),
            "moment": equations.moment.copy(),
            "prior": equations.prior.copy(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.arrays = self.arrays.with_readout(state["readout"])
        equations = self._equations
        for name in ("gram", "moment", "prior"):
            getattr(equations, name)[:] = state[name]

    def _resolve(self) -> None:
        self.arrays = self.arrays.with_readout(self._equations.solution())


class SarsaLearner(Learner):
    """Targets from the present values, once for each sample; the readout is solved anew at each update."""

    def update(self, sweep: int, samples: Sequence[Samples]) -> dict[str, float]:
        """Learn from decisions as they become known; in sweep 0 several times from the whole run."""
        parts = [part for part in samples if isinstance(part, SarsaSamples)]
        for _ in range(self.settings.pretraining_sweeps if sweep == 0 else 1):
            if sweep == 0 or any(part.begins for part in parts):
                self._equations.begin(self.arrays.readout)
            for part in parts:
                if len(part):
                    self._equations.add(part.seen, sarsa_targets(self.arrays.readout, part, self.settings))
            self._resolve()
        known = sum(len(part) for part in parts)
        total = sum(float(part.reward.sum()) for part in parts)
        return {"decisions": known, "reward": total / known if known else float("nan")}


class FittedLearner(Learner):
    """Targets from the best candidate of the next decision, over whole runs (Perez et al. 2010, § 3.2)."""

    def update(self, sweep: int, samples: Sequence[Samples]) -> dict[str, float]:
        """Learn from runs, `iterations` times."""
        runs = [run for run in samples if isinstance(run, RunSamples)]
        settings, change = self.settings, 0.0
        for _ in range(settings.pretraining_sweeps if sweep == 0 else settings.iterations):
            before = self.arrays.readout
            self._equations.begin(np.zeros_like(before))
            for run in runs:
                self._equations.add(run.seen, fitted_targets(self.arrays, run, settings.discount))
            self._resolve()
            change = float(np.abs(self.arrays.readout - before).max())
        return {"reward": float(np.mean([run.reward.mean() for run in runs])), "change": change}


def fitted_targets(arrays: ReservoirArrays, run: RunSamples, discount: float) -> Floats:
    """Return r + γ maxᵦ Q(s', b) of each decision of a run; r of its last one."""
    best = np.empty(len(run))
    best_values(arrays, run.rows, run.first, run.own, best)
    return run.reward + discount * np.append(best[1:], 0.0)


class BranchLearner(Learner):
    """Values that tell a decision's candidates apart as their branches did.

    Only differences within a decision matter for choosing, and only they are free of everything else that
    happened, so features and values are regressed less their means over the decision's branches. Sweep 0
    regresses how urgent candidates were, as hindsight tells (`branching.urgency`). That is where the values
    begin: later sweeps hold the readout to it, on the scale that fits their branches best, and let all
    branches so far move it.
    """

    def __init__(self, arrays: ReservoirArrays, settings: LearnerSettings) -> None:
        super().__init__(arrays, settings)
        self._urgency = np.zeros_like(arrays.readout)
        # Of all branches so far: Σ value · urgency, and Σ urgency².
        self._scale = np.zeros(2)

    def update(self, sweep: int, samples: Sequence[Samples]) -> dict[str, float]:
        """Learn from branches."""
        parts = [centred(part) for part in samples if isinstance(part, Branches) and len(part)]
        explained = _explained(self.arrays.readout, parts)
        for seen, value in parts:
            self._equations.add(seen, value)
            told = np.empty(len(value))
            values_of(self._urgency, seen, told)
            self._scale += (value * told).sum(), (told**2).sum()
        if sweep == 0:
            self._resolve()
            self._urgency = self.arrays.readout.copy()
            self._equations.begin(self._urgency)
            self._scale[:] = 0.0
            return {"explained": _explained(self._urgency, parts)}
        if self._scale[1] > 0:
            self._equations.prior[:] = max(self._scale[0], 0.0) / self._scale[1] * self._urgency
        self._resolve()
        return {"explained": explained}

    def state(self) -> dict[str, Any]:
        """Return what learning goes on from, as arrays by name."""
        return {**super().state(), "urgency": self._urgency.copy(), "scale": self._scale.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        super().restore(state)
        self._urgency[:], self._scale[:] = state["urgency"], state["scale"]


def _explained(readout: Floats, parts: Sequence[tuple[Floats, Floats]]) -> float:
    """Return which share of the values' variance within decisions a readout tells."""
    left = total = 0.0
    for seen, value in parts:
        told = np.empty(len(value))
        values_of(readout, seen, told)
        left, total = left + float(((value - told) ** 2).sum()), total + float((value**2).sum())
    return 1 - left / total if total else float("nan")


def centred(branches: Branches) -> tuple[Floats, Floats]:
    """Return what was seen and what came of it, less their means over each decision's branches."""
    sizes = np.diff(branches.first)
    group = np.repeat(np.arange(len(sizes)), sizes)
    safe = np.maximum(sizes, 1)
    value = branches.value - (np.bincount(group, branches.value, len(sizes)) / safe)[group]
    seen = branches.seen.copy()
    for begin, end in zip(branches.first[:-1], branches.first[1:], strict=True):
        if end > begin:
            seen[begin:end] -= seen[begin:end].mean(axis=0)
    return seen, value


def new_learner(arrays: ReservoirArrays, settings: LearnerSettings, seed: int) -> Learner:
    """Return the learner that the settings ask for; `seed` is of a feed-forward network's fits."""
    if settings.regressor == "ffnn":
        from gridtune.systems.responsive.learners.ffnn import FeedForwardLearner  # noqa: PLC0415 (torch)

        return FeedForwardLearner(arrays, settings, seed)
    kinds: dict[str, type[Learner]] = {
        "sarsa": SarsaLearner,
        "fitted_q": FittedLearner,
        "counterfactual": BranchLearner,
    }
    return kinds[settings.method](arrays, settings)
