"""Runs over jobs, and the samples that learners learn from.

A sampler runs sweeps: sweep 0 under a simple rule, the later ones under learned values. Its random numbers
depend only on the seed, the sweep and the sampler's number, so a training that resumes at the end of a sweep
has the same result as an uninterrupted one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gridtune.systems.responsive.learners.branching import BranchingPlan, run_and_branch, run_and_weigh
from gridtune.systems.responsive.learners.inputs import observed_model
from gridtune.systems.responsive.learners.networks import ReservoirArrays
from gridtune.systems.responsive.learners.runs import (
    BY_VALUE,
    LearnerState,
    list_candidates,
    new_learner_state,
    run_site,
)
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.rules import EDF
from gridtune.systems.responsive.simulator.site import SiteModel, new_site
from gridtune.systems.responsive.simulator.state import NEVER, Site, pool_area, utilisation_now
from gridtune.types import BoolArray, Float32Array, FloatArray, IntArray

__all__ = ["Branches", "RunSamples", "Sampler", "Samples", "SarsaSamples"]


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


@dataclass(frozen=True)
class Branches:
    """The values of several candidates of the same decisions.

    Attributes
    ----------
    first
        Shape (c + 1,), int64: the branches of decision i are those from first[i] to first[i + 1].
    phi
        Shape (b, m, p): the readouts' inputs for them.
    value
        Shape (b,): their values, in jobs' rewards; in sweep 0, their urgency.
    """

    first: IntArray
    phi: FloatArray
    value: FloatArray

    def __len__(self) -> int:
        return len(self.value)


Samples = SarsaSamples | RunSamples | Branches


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
    number
        The number of this sampler, if there are several; each draws different numbers.
    headroom
        Of learned values, see `run_site`.
    """

    def __init__(
        self,
        jobs: SiteJobs,
        model: SiteModel,
        settings: LearnerSettings,
        weight: float,
        seed: int,
        number: int = 0,
        headroom: float = 0.0,
    ) -> None:
        self._jobs, self._model = jobs, observed_model(model, settings.inputs)
        self._settings, self._weight = settings, weight
        self._seed, self._number, self._headroom = seed, number, headroom
        self._over = True

    @property
    def over(self) -> bool:
        """True if the sweep has ended."""
        return self._over

    @property
    def site(self) -> Site:
        """The site of the sweep, as far as its run has come."""
        return self._site

    def begin(self, sweep: int, arrays: ReservoirArrays) -> None:
        """Begin a sweep."""
        self._sweep, self._rule = sweep, EDF if sweep == 0 else BY_VALUE
        self._epsilon = 0.0 if sweep == 0 else self._settings.epsilon
        self._asked = 0.0 if sweep == 0 else self._headroom
        self._rng = np.random.default_rng((self._seed, sweep, self._number))
        self._site, self._learner_state = self._new(arrays, len(self._jobs))
        self._pending, self._completed = np.zeros(0, np.int64), 0
        self._over, self._begins = False, True

    def sample(self, arrays: ReservoirArrays) -> Samples:
        """Continue the run with these networks; return the samples.

        SARSA: for `relearn` decisions, in sweep 0 to its end. Otherwise to the end of the sweep.
        """
        self._learner_state = self._learner_state._replace(arrays=arrays)
        if self._settings.method == "counterfactual":
            return self._weigh() if self._sweep == 0 else self._branch()
        if self._settings.method == "fitted_q":
            self._run_until(len(self._jobs))
            return self._run_samples()
        decided = int(self._site.state.memory["decided"][0])
        self._run_until(len(self._jobs) if self._sweep == 0 else decided + self._settings.relearn)
        return self._sarsa_samples()

    def _new(self, arrays: ReservoirArrays, logged: int = 0) -> tuple[Site, LearnerState]:
        learner = new_learner_state(arrays, self._settings.inputs, logged)
        return new_site(self._jobs, self._model), learner

    def _run_until(self, stop: int) -> None:
        run = (self._site, self._learner_state, self._rule)
        more = run_site(*run, self._epsilon, self._asked, stop, NEVER, self._rng)
        # After the last decision, jobs are still running: let them complete.
        if more and self._site.state.memory["decided"][0] == len(self._jobs):
            run_site(*run, 0.0, 0.0, stop + 1, NEVER, self._rng)
            more = False
        self._over = not more

    def _rewards(self, decisions: IntArray) -> FloatArray:
        """Return λ W + (1 − λ) F of decisions, on an elastic site with U for F (Perez et al. 2009, § 3.2)."""
        taken = self._site.state.decisions[decisions]
        job = taken["job"]
        run, wait = self._jobs.run[job], self._site.state.start[job] - self._jobs.submit[job]
        other = taken["utilisation"] if self._model.elastic else taken["fairness"]
        rewards: FloatArray = self._weight * (run / (run + wait)) + (1.0 - self._weight) * other
        return rewards

    def _sarsa_samples(self) -> SarsaSamples:
        """Return the decisions whose job has completed and which another decision follows, in their order."""
        state, log, decisions = self._site.state, self._learner_state.log, len(self._jobs)
        done = int(state.memory["done"][0])
        waiting = np.concatenate([self._pending, state.completed[self._completed : done]])
        self._completed = done
        followed = waiting + 1 < state.memory["decided"][0]
        ready = followed | self._over
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

    def _weigh(self) -> Branches:
        arrays, branches, jobs = self._learner_state.arrays, self._settings.branches, len(self._jobs)
        first, room = np.zeros(jobs + 1, np.int64), jobs * branches
        sizes = np.zeros(room, np.int64)
        out = (first, np.zeros((room, *arrays.readout.shape)), np.zeros(room), sizes)
        run_and_weigh(self._site, self._learner_state, self._rule, branches, self._weight, self._rng, out)
        self._over = True
        count = int(first[-1])
        value = out[2][:count]
        if self._model.elastic and self._model.autoscaler is None:
            value = value + self._pool_values(np.repeat(np.arange(jobs), np.diff(first)), sizes[:count])
        return Branches(first, out[1][:count], value)

    def _pool_values(self, decision: IntArray, sizes: IntArray) -> FloatArray:
        """Return the value of pool sizes for the period in which they cannot change, as a newsvendor's stock.

        A missing core makes a job wait for about the period, which costs λ times the loss in W; an idle core
        costs its core-seconds. The right size is known in hindsight: the largest number of jobs present at
        once.
        """
        jobs, state, period = self._jobs, self._site.state, self._model.period
        now = state.decisions["time"][decision]
        submits, ends = np.sort(jobs.submit), np.sort(state.start + jobs.run)
        present = np.arange(1, len(jobs) + 1) - np.searchsorted(ends, submits, side="right")
        present_now = np.searchsorted(submits, now, "right") - np.searchsorted(ends, now, "right")
        needed = np.array(
            [
                max(int(now_present), int(present[i:j].max(initial=0)))
                for now_present, i, j in zip(
                    present_now,
                    np.searchsorted(submits, now, "right"),
                    np.searchsorted(submits, now + period, "right"),
                    strict=True,
                )
            ]
        )
        few = self._weight * float(np.mean(period / (jobs.run + period)))
        used, area = utilisation_now(self._site), pool_area(self._site)
        many = (1 - self._weight) * used * len(jobs) / max(area, 1) * period
        lacking, idle = np.maximum(needed - sizes, 0), np.maximum(sizes - needed, 0)
        return -(few * lacking + many * idle) / self._model.cores

    def _branch(self) -> Branches:
        arrays, settings = self._learner_state.arrays, self._settings
        decisions, price = self._look_ahead(arrays)
        number = min(settings.probes, len(decisions))
        probes = np.sort(self._rng.choice(decisions, number, replace=False)) if number else decisions
        plan = BranchingPlan(probes, settings.branches, int(settings.horizon), self._weight, price)
        room = number * settings.branches
        first = np.zeros(number + 1, np.int64)
        out = (first, np.zeros((room, *arrays.readout.shape)), np.zeros(room))
        run_and_branch(
            self._site, self._learner_state, self._new(arrays), plan, self._epsilon, self._rng, out
        )
        self._over = True
        return Branches(first, out[1][: first[-1]].copy(), out[2][: first[-1]].copy())

    def _look_ahead(self, arrays: ReservoirArrays) -> tuple[IntArray, float]:
        """Run once with the same values; return decisions with a choice, and the price of a core-second.

        One more core-second on an elastic site lowers U of the later decisions, the sum over n decisions by
        about n · U/core-seconds, weighted by (1 − λ).
        """
        jobs = len(self._jobs)
        site, learner = self._new(arrays, jobs)
        run_site(site, learner, self._rule, 0.0, 0.0, NEVER, NEVER, self._rng)
        decisions = np.flatnonzero(learner.log.choices > 1)
        if not self._model.elastic:
            return decisions, 0.0
        price = (1 - self._weight) * jobs * utilisation_now(site) / max(pool_area(site), 1)
        return decisions, float(price)
