"""Training on the jobs of a site, sweep by sweep, and runs under the policy that is learned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gridtune.core.array_files import read_arrays, write_arrays
from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.learning import Learner, Sampler
from gridtune.systems.responsive.learners.networks import ReservoirArrays, draw_network
from gridtune.systems.responsive.learners.runs import (
    BY_VALUE,
    new_learner_state,
    run_site,
    shared_inputs,
)
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel
from gridtune.systems.responsive.simulator.state import NEVER, GridSite

#: What the file of a policy holds, for messages.
WHAT = "policy of candidate values"


@dataclass(frozen=True)
class QPolicy:
    """A policy that starts the candidate of the highest value.

    Attributes
    ----------
    arrays
        The networks.
    settings
        Their settings, and those of the training.
    organisations
        Number of virtual organisations of the site.
    elastic
        Whether its pool may change.
    weight
        λ of the reward that was learned.
    """

    arrays: ReservoirArrays
    settings: LearnerSettings
    organisations: int
    elastic: bool
    weight: float

    def save(self, path: str | Path) -> None:
        """Write the policy to a file, atomically."""
        about = {
            "settings": self.settings.to_dict(),
            "organisations": self.organisations,
            "elastic": self.elastic,
            "weight": self.weight,
        }
        write_arrays(path, self.arrays._asdict(), about)

    def play(self, jobs: SiteJobs, model: SiteModel, *, headroom: float = 0.0) -> GridSite:
        """Simulate all jobs, always starting the candidate of the highest value; return the site at its end.

        Ties go to the job submitted first. Nothing is random, and nothing is learned.

        Parameters
        ----------
        policy
            The learned policy.
        jobs, model
            The jobs and the site.
        headroom
            Elastic: values choose only the job, and the pool is sized to `headroom` times the cores that
            running and waiting jobs need. 0: values choose both.

        Raises
        ------
        PolicyError
            If the policy was learned for another kind of site, or `headroom` does not fit the site.
        """
        if not 0 <= headroom < np.inf or (headroom and not model.elastic):
            raise PolicyError(
                f"must be finite and at least 0, and 0 on a rigid site, but got {headroom}", field="headroom"
            )
        expected, actual = (self.organisations, self.elastic), (len(jobs.shares), model.elastic)
        if actual != expected:
            kinds = [
                f"{'an elastic' if elastic else 'a rigid'} site of {organisations} organisations"
                for organisations, elastic in (expected, actual)
            ]
            raise PolicyError(f"the policy was learned for {kinds[0]}, but got {kinds[1]}")
        model.require_rule()
        site, learner = jobs.new_site(model), new_learner_state(self.arrays)
        run_site(site, learner, BY_VALUE, 0.0, float(headroom), NEVER, np.random.default_rng(0))
        return site


def load_policy(path: str | Path) -> QPolicy:
    """Return a policy that was saved."""
    arrays, about = read_arrays(path, WHAT, error=PolicyError)
    try:
        networks = ReservoirArrays(**{name: arrays[name] for name in ReservoirArrays._fields})
        settings = LearnerSettings.from_dict(about["settings"])
        return QPolicy(networks, settings, about["organisations"], about["elastic"], about["weight"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PolicyError(f"holds no {WHAT}", path=path) from error


class Trainer:
    """A training, one sweep at a time.

    Parameters
    ----------
    jobs, model
        The jobs to learn on, and the site.
    settings
        The settings of the learner.
    weight
        λ of the reward.
    seed
        The seed of the networks' weights and of every sweep.

    Attributes
    ----------
    learner, sweep
        The learner, and the number of the next sweep.

    Raises
    ------
    PolicyError
        If λ is not in [0, 1].
    """

    def __init__(
        self, jobs: SiteJobs, model: SiteModel, settings: LearnerSettings, weight: float, seed: int
    ) -> None:
        if not 0 <= weight <= 1:
            raise PolicyError(f"must be in [0, 1], but got {weight}", field="weight")
        model.require_rule()
        self._model, self._settings = model, settings
        self._weight, self._seed = weight, seed
        self._organisations = len(jobs.shares)
        self._sampler = Sampler(jobs, model, settings, weight, seed)
        shared = shared_inputs(self._organisations, model.elastic)
        arrays = draw_network(settings, shared, seed)
        if settings.regressor == "ffnn":
            from gridtune.systems.responsive.learners.ffnn import FeedForwardLearner  # noqa: PLC0415 (torch)

            self.learner: Learner = FeedForwardLearner(arrays, settings, seed)
        else:
            self.learner = Learner(arrays, settings)
        self.sweep = settings.first_sweep

    @property
    def over(self) -> bool:
        """True if all sweeps are completed."""
        return self.sweep > self._settings.sweeps

    @property
    def policy(self) -> QPolicy:
        """The policy learned so far."""
        return QPolicy(
            self.learner.arrays, self._settings, self._organisations, self._model.elastic, self._weight
        )

    def step(self) -> dict[str, float]:
        """Run a sweep and learn from it; return the statistics of the last update."""
        return self._run(self._sampler)

    def live(self, jobs: SiteJobs, *, headroom: float = 0.0) -> GridSite:
        """Run the next sweep over other jobs, learning all the while; return the site at its end.

        `headroom` is that of `QPolicy.play`.
        """
        sampler = Sampler(jobs, self._model, self._settings, self._weight, self._seed, headroom=headroom)
        self._run(sampler)
        return sampler.site

    def _run(self, sampler: Sampler) -> dict[str, float]:
        statistics: dict[str, float] = {}
        sampler.begin(self.sweep, self.learner.arrays)
        while not sampler.over:
            samples = sampler.sample(self.learner.arrays)
            statistics = self.learner.update(self.sweep, samples)
        self.sweep += 1
        return statistics


def train(
    jobs: SiteJobs,
    model: SiteModel,
    settings: LearnerSettings,
    *,
    weight: float = 0.5,
    rng: np.random.Generator,
) -> QPolicy:
    """Learn to schedule a site.

    Parameters
    ----------
    jobs, model
        The jobs to learn on, and the site.
    settings
        The settings of the learner.
    weight
        λ of the reward: λ W + (1 − λ) F, on an elastic site λ W + (1 − λ) U.
    rng
        Draws the seed of all random numbers.

    Raises
    ------
    PolicyError
        If λ is not in [0, 1].
    """
    trainer = Trainer(jobs, model, settings, weight, int(rng.integers(2**62)))
    while not trainer.over:
        trainer.step()
    return trainer.policy


def learn_online(
    first: SiteJobs,
    jobs: SiteJobs,
    model: SiteModel,
    settings: LearnerSettings,
    *,
    weight: float = 0.5,
    headroom: float = 0.0,
    rng: np.random.Generator,
) -> GridSite:
    """Learn in the very run that counts, decision by decision, as in Perez et al. 2009, algorithm 1.

    Parameters
    ----------
    first
        The jobs of the pre-training, off-line and under earliest deadline first.
    jobs
        The jobs of the run. A decision depends on `first`, and on what has happened in the run before it.
    model, settings, weight, headroom, rng
        See `train` and `QPolicy.play`; the method must be `sarsa`.

    Returns
    -------
    GridSite
        The site at the end of the run.

    Raises
    ------
    PolicyError
        If the method does not learn during a run, or λ is not in [0, 1].
    """
    if settings.method != "sarsa":
        raise PolicyError(f"only 'sarsa' learns during a run, but got {settings.method!r}", field="method")
    trainer = Trainer(first, model, settings, weight, int(rng.integers(2**62)))
    if trainer.sweep == 0:
        trainer.step()
    return trainer.live(jobs, headroom=headroom)
