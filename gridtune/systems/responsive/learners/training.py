"""Learning on the jobs of a site: sweep by sweep, and on from where a killed training stood."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.inputs import shared_inputs
from gridtune.systems.responsive.learners.learning import Learner, new_learner
from gridtune.systems.responsive.learners.policy import QPolicy, read_arrays, write_arrays
from gridtune.systems.responsive.learners.reservoir import draw_network
from gridtune.systems.responsive.learners.sampling import Sampler
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.site import SiteModel

__all__ = ["Progress", "Trainer", "first_sweep", "train"]

#: Is told the number of the sweep that has ended, and figures about it.
Progress = Callable[[int, dict[str, float]], None]


def first_sweep(settings: LearnerSettings) -> int:
    """Return the number of a training's first sweep: 0 where there is one under a simple rule."""
    return 0 if settings.pretraining_sweeps > 0 else 1


class Trainer:
    """A training in the middle of its life.

    Parameters
    ----------
    jobs, model
        What to learn on, and where.
    settings
        How to learn.
    weight
        λ of the reward.
    seed
        Of the networks' weights and of every sweep.
    """

    def __init__(
        self, jobs: SiteJobs, model: SiteModel, settings: LearnerSettings, weight: float, seed: int
    ) -> None:
        self._model, self._settings = model, settings
        self._weight, self._seed = weight, seed
        self._organisations = len(jobs.shares)
        self._sampler = Sampler(jobs, model, settings, weight, seed)
        self._learner = new_learner(self._drawn(), settings, seed)
        self.sweep = first_sweep(settings)

    def _drawn(self) -> ReservoirArrays:
        shared = shared_inputs(self._organisations, self._model.elastic, self._settings.inputs)
        return draw_network(self._settings, shared, self._seed)

    @property
    def learner(self) -> Learner:
        """What learns."""
        return self._learner

    @property
    def over(self) -> bool:
        """Whether every sweep has been lived."""
        return self.sweep > self._settings.sweeps

    @property
    def policy(self) -> QPolicy:
        """What has been learned so far."""
        return QPolicy(
            self._learner.arrays, self._settings, self._organisations, self._model.elastic, self._weight
        )

    def step(self) -> dict[str, float]:
        """Live and learn a sweep; return figures about its last update."""
        told: dict[str, float] = {}
        self._sampler.begin(self.sweep, self._learner.arrays)
        while not self._sampler.over:
            samples = self._sampler.sample(self._learner.arrays)
            told = self._learner.update(self.sweep, [samples])
        self.sweep += 1
        return told

    def save(self, path: str | Path) -> None:
        """Write what the training goes on from."""
        write_arrays(path, self._learner.state(), {"sweep": self.sweep, **self._identity()})

    def restore(self, path: str | Path) -> None:
        """Go on from what `save` wrote; refuse what another training wrote."""
        arrays, about = read_arrays(path)
        for name, value in self._identity().items():
            if about.get(name) != value:
                raise PolicyError(
                    f"is of another training: {name} is {about.get(name)!r} there and {value!r} here",
                    path=path,
                )
        self._learner.restore(arrays)
        self.sweep = about["sweep"]

    def _identity(self) -> dict[str, object]:
        return {"settings": self._settings.to_dict(), "seed": self._seed, "weight": self._weight}


def train(
    jobs: SiteJobs,
    model: SiteModel,
    settings: LearnerSettings,
    *,
    weight: float = 0.5,
    rng: np.random.Generator,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> QPolicy:
    """Learn to schedule a site.

    Parameters
    ----------
    jobs, model
        What to learn on, and where; `settings.inputs` says which features of it are seen.
    settings
        How to learn.
    weight
        λ of the reward: λ W + (1 − λ) F, on an elastic site λ W + (1 − λ) U.
    rng
        Draws the seed of everything random.
    checkpoint
        A file that is written after each sweep. Where it exists, learning goes on from it, and comes to the
        same as if it had never stopped.
    progress
        Called after each sweep.

    Raises
    ------
    PolicyError
        Where λ is not in [0, 1], or the checkpoint is of another training.
    """
    if not 0 <= weight <= 1:
        raise PolicyError(f"must be in [0, 1], but got {weight}", field="weight")
    trainer = Trainer(jobs, model, settings, weight, int(rng.integers(2**62)))
    if checkpoint is not None and Path(checkpoint).exists():
        trainer.restore(checkpoint)
    while not trainer.over:
        sweep, told = trainer.sweep, trainer.step()
        if checkpoint is not None:
            trainer.save(checkpoint)
        if progress is not None:
            progress(sweep, told)
    return trainer.policy
