"""Samples of runs over jobs, and the learners of readouts by ridge regression.

A sampler runs sweeps: sweep 0 under a simple rule, the later ones under learned values. Its random numbers
depend only on the seed and the sweep, so a training that resumes at the end of a sweep has the same result as
an uninterrupted one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.learners.networks import ReservoirArrays
from gridtune.systems.responsive.learners.runs import (
    BY_VALUE,
    LearnerState,
    best_values,
    list_candidates,
    new_learner_state,
    run_site,
)
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.systems.responsive.simulator.replay import EDF
from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel
from gridtune.systems.responsive.simulator.state import GridSite
from gridtune.types import BoolArray, Float32Array, FloatArray, IntArray


@kernel()
def _solve(
    gram: FloatArray,
    moment: FloatArray,
    ridge: float,
    prior: FloatArray,
    factor: FloatArray,
    out: FloatArray,
) -> bool:
    """Solve (gram + ridge · 1) w = moment + ridge · prior by Cholesky's factorisation.

    A library is not used because the last bits of its solution depend on the machine.

    Parameters
    ----------
    gram, moment
        Shapes (p, p) and (p,): the lower triangle is read.
    ridge, prior
        The weight of the prior, and the prior, shape (p,).
    factor
        Shape (p, p): overwritten.
    out
        Shape (p,): w.

    Returns
    -------
    bool
        Whether the matrix was positive definite; otherwise `out` is `prior`.
    """
    size = moment.size
    for i in range(size):
        for j in range(i + 1):
            total = gram[i, j] + (ridge if i == j else 0.0)
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i > j:
                factor[i, j] = total / factor[j, j]
            elif total > 0.0:
                factor[i, i] = sqrt(total)
            else:
                out[:] = prior
                return False
    for i in range(size):
        total = moment[i] + ridge * prior[i]
        for k in range(i):
            total -= factor[i, k] * out[k]
        out[i] = total / factor[i, i]
    for i in range(size - 1, -1, -1):
        total = out[i]
        for k in range(i + 1, size):
            total -= factor[k, i] * out[k]
        out[i] = total / factor[i, i]
    return True


@kernel()
def _accumulate(gram: FloatArray, moment: FloatArray, phi: FloatArray, target: FloatArray) -> None:
    """Add samples to normal equations: gram += Σ φ φᵀ (its lower triangle), moment += Σ φ y.

    Parameters
    ----------
    gram, moment
        Shapes (p, p) and (p,), float64: updated.
    phi, target
        Shapes (n, p) and (n,), float64: φ and y of each sample.
    """
    for t in range(phi.shape[0]):
        for i in range(phi.shape[1]):
            value = phi[t, i]
            moment[i] += value * target[t]
            for j in range(i + 1):
                gram[i, j] += value * phi[t, j]


@kernel()
def _values_of(readout: FloatArray, phi: FloatArray, out: FloatArray) -> None:
    """Write the mean over the networks of their readouts' values: `phi`, shape (n, m, p); `out`, (n,)."""
    networks, outputs = readout.shape
    for t in range(out.size):
        total = 0.0
        for a in range(networks):
            for i in range(outputs):
                total += readout[a, i] * phi[t, a, i]
        out[t] = total / networks


@dataclass(frozen=True)
class SarsaSamples:
    """Decisions whose rewards have become known, in the order in which they were taken.

    Attributes
    ----------
    begins
        Whether they are the first of a sweep.
    rows, following_rows
        Shape (n, d): the chosen candidate, and that of the next decision.
    phi, following
        Shape (n, m, p): the readouts' inputs for the two.
    last
        Shape (n,): no decision follows; its `following` are zeros.
    reward
        Shape (n,).
    """

    begins: bool
    rows: FloatArray
    following_rows: FloatArray
    phi: FloatArray
    following: FloatArray
    last: BoolArray
    reward: FloatArray

    def __len__(self) -> int:
        return len(self.reward)

    def targets(self, readout: FloatArray, settings: LearnerSettings) -> FloatArray:
        """Return Q + η [r + γ Q(s', a′) − Q] of each sample (Perez et al. 2009, algorithm 1)."""
        present, following = np.empty(len(self)), np.empty(len(self))
        _values_of(readout, self.phi, present)
        _values_of(readout, self.following, following)
        observed = self.reward + settings.discount * np.where(self.last, 0.0, following)
        return present + settings.learning_rate * (observed - present)


@dataclass(frozen=True)
class RunSamples:
    """A whole run: the chosen candidate and all candidates of each decision.

    Attributes
    ----------
    rows
        Shape (n, d): the chosen candidates.
    phi
        Shape (n, m, p): the readouts' inputs for them.
    reward
        Shape (n,).
    first
        Shape (n + 1,), int64: the candidates of decision i are those in `own` from first[i] to first[i + 1].
    own
        Shape (c, d − s), float32: the inputs of each candidate that differ between candidates, in the order
        of `ReservoirArrays.columns`.
    """

    rows: FloatArray
    phi: FloatArray
    reward: FloatArray
    first: IntArray
    own: Float32Array

    def __len__(self) -> int:
        return len(self.reward)

    def targets(self, arrays: ReservoirArrays, discount: float) -> FloatArray:
        """Return r + γ maxᵦ Q(s', b) of each decision of a run; r of its last one."""
        best = np.empty(len(self))
        best_values(arrays, self.rows, self.first, self.own, best)
        return self.reward + discount * np.append(best[1:], 0.0)


Samples = SarsaSamples | RunSamples


class Sampler:
    """Runs over the same jobs, sweep by sweep.

    Parameters
    ----------
    jobs, model
        The jobs and the site.
    settings
        The settings of the learner.
    weight
        λ of the reward.
    seed
        The seed of all random numbers.
    headroom
        Of learned values, see `run_site`.

    Attributes
    ----------
    over
        True if the sweep has ended.
    site
        The site of the sweep, as far as its run has come.
    """

    def __init__(
        self,
        jobs: SiteJobs,
        model: SiteModel,
        settings: LearnerSettings,
        weight: float,
        seed: int,
        headroom: float = 0.0,
    ) -> None:
        self._jobs, self._model = jobs, model
        self._settings, self._weight = settings, weight
        self._seed, self._headroom = seed, headroom
        self.over = True

    def begin(self, sweep: int, arrays: ReservoirArrays) -> None:
        """Begin a sweep."""
        self._sweep, self._rule = sweep, EDF if sweep == 0 else BY_VALUE
        self._epsilon = 0.0 if sweep == 0 else self._settings.epsilon
        self._asked = 0.0 if sweep == 0 else self._headroom
        self._rng = np.random.default_rng((self._seed, sweep, 0))
        self.site, self._learner_state = self._new(arrays, len(self._jobs))
        self._pending, self._completed = np.zeros(0, np.int64), 0
        self.over, self._begins = False, True

    def sample(self, arrays: ReservoirArrays) -> Samples:
        """Continue the run with these networks; return the samples.

        SARSA: for `relearn` decisions, in sweep 0 to its end. Otherwise to the end of the sweep.
        """
        self._learner_state = self._learner_state._replace(arrays=arrays)
        if self._settings.method == "fitted_q":
            self._run_until(len(self._jobs))
            return self._run_samples()
        decided = int(self.site.state.memory["decided"][0])
        self._run_until(len(self._jobs) if self._sweep == 0 else decided + self._settings.relearn)
        return self._sarsa_samples()

    def _new(self, arrays: ReservoirArrays, logged: int = 0) -> tuple[GridSite, LearnerState]:
        return self._jobs.new_site(self._model), new_learner_state(arrays, logged)

    def _run_until(self, stop: int) -> None:
        run = (self.site, self._learner_state, self._rule)
        more = run_site(*run, self._epsilon, self._asked, stop, self._rng)
        # After the last decision, jobs are still running: let them complete.
        if more and self.site.state.memory["decided"][0] == len(self._jobs):
            run_site(*run, 0.0, 0.0, stop + 1, self._rng)
            more = False
        self.over = not more

    def _rewards(self, decisions: IntArray) -> FloatArray:
        """Return λ W + (1 − λ) F of decisions, on an elastic site with U for F (Perez et al. 2009, § 3.2)."""
        taken = self.site.state.decisions[decisions]
        job = taken["job"]
        run, wait = self._jobs.run[job], self.site.state.start[job] - self._jobs.submit[job]
        other = taken["utilisation"] if self._model.elastic else taken["fairness"]
        rewards: FloatArray = self._weight * (run / (run + wait)) + (1.0 - self._weight) * other
        return rewards

    def _sarsa_samples(self) -> SarsaSamples:
        """Return the decisions whose job has completed and which another decision follows, in their order."""
        state, log, decisions = self.site.state, self._learner_state.log, len(self._jobs)
        done = int(state.memory["done"][0])
        waiting = np.concatenate([self._pending, state.completed[self._completed : done]])
        self._completed = done
        followed = waiting + 1 < state.memory["decided"][0]
        ready = followed | self.over
        self._pending, decided = waiting[~ready], np.sort(waiting[ready])
        last = decided == decisions - 1
        after = np.where(last, decided, decided + 1)
        following, following_rows = log.phi[after], log.rows[after]
        following[last] = 0.0
        following_rows[last] = 0.0
        begins, self._begins = self._begins, False
        return SarsaSamples(
            begins,
            log.rows[decided],
            following_rows,
            log.phi[decided],
            following,
            last,
            self._rewards(decided),
        )

    def _run_samples(self) -> RunSamples:
        log, decisions = self._learner_state.log, np.arange(len(self._jobs))
        first = np.zeros(len(decisions) + 1, np.int64)
        own = list_candidates(*self._new(self._learner_state.arrays), log.candidate, first)
        return RunSamples(log.rows, log.phi, self._rewards(decisions), first, own)


class Learner:
    """Networks whose readout learns the targets of SARSA or of fitted Q; their other weights stay as drawn.

    With SARSA each update adds decisions with known rewards to those of the sweep, with targets
    from the present values; in sweep 0 the whole run several times. Of fitted Q each learns from whole runs,
    `iterations` times. The readouts are those of ridge regression: they minimise
    Σ (φ·w − y)² + ridge · |w − prior|². Adding n samples costs O(n p²), solving O(p³), however many samples
    have been added before.

    Parameters
    ----------
    arrays
        The networks, with the readouts to start from.
    settings
        The settings of the learner.

    Attributes
    ----------
    fits
        Number of fits so far, where each has random numbers of its own. With the networks it is all that a
        training needs to resume at the end of a sweep: each sweep forgets the samples of the one before.
    """

    def __init__(self, arrays: ReservoirArrays, settings: LearnerSettings) -> None:
        self.arrays, self.settings, self.fits = arrays, settings, 0
        networks, outputs = arrays.readout.shape
        self._gram, self._factor = np.zeros((networks, outputs, outputs)), np.zeros((outputs, outputs))
        self._moment, self._prior = np.zeros((2, networks, outputs))

    def update(self, sweep: int, samples: Samples) -> dict[str, float]:
        """Learn from samples; return statistics of the update."""
        settings, statistics = self.settings, {}
        fitted = isinstance(samples, RunSamples)
        times = settings.pretraining_sweeps if sweep == 0 else settings.iterations if fitted else 1
        for _ in range(times):
            if isinstance(samples, RunSamples):
                self._begin(np.zeros_like(self.arrays.readout))
            elif sweep == 0 or samples.begins:
                self._begin(self.arrays.readout)
            if len(samples):
                self._add(samples, self._targets(samples))
            statistics = self._fit()
        reward = float(samples.reward.mean()) if len(samples) else float("nan")
        return {"decisions": len(samples), "reward": reward, **statistics}

    def _targets(self, part: SarsaSamples | RunSamples) -> FloatArray:
        if isinstance(part, RunSamples):
            return part.targets(self.arrays, self.settings.discount)
        return part.targets(self.arrays.readout, self.settings)

    def _begin(self, prior: FloatArray) -> None:
        """Forget all samples; the prior of a readout has the shape (m, p)."""
        self._gram[:], self._moment[:], self._prior[:] = 0.0, 0.0, prior

    def _add(self, part: SarsaSamples | RunSamples, target: FloatArray) -> None:
        """Add samples with their targets."""
        for network in range(len(self._gram)):
            phi = np.ascontiguousarray(part.phi[:, network])
            _accumulate(self._gram[network], self._moment[network], phi, target)

    def _fit(self) -> dict[str, float]:
        """Fit the values to the samples added; return statistics of the fit."""
        before = self.arrays.readout
        out = np.empty_like(self._prior)
        for equations in zip(self._gram, self._moment, self._prior, out, strict=True):
            gram, moment, prior, readout = equations
            _solve(gram, moment, self.settings.ridge, prior, self._factor, readout)
        self.arrays = self.arrays.with_readout(out)
        return {"change": float(np.abs(self.arrays.readout - before).max())}
