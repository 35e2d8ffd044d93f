"""The learner that settings ask for."""

from __future__ import annotations

from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.learning import (
    BranchLearner,
    FittedLearner,
    Learner,
    SarsaLearner,
)
from gridtune.systems.responsive.learners.settings import LearnerSettings, Method

__all__ = ["new_learner"]

_RIDGE_LEARNERS: dict[Method, type[Learner]] = {
    "sarsa": SarsaLearner,
    "fitted_q": FittedLearner,
    "counterfactual": BranchLearner,
}


def new_learner(arrays: ReservoirArrays, settings: LearnerSettings, seed: int) -> Learner:
    """Return the learner that the settings ask for; `seed` is for the fits of a feed-forward network."""
    if settings.regressor == "ffnn":
        from gridtune.systems.responsive.learners.ffnn import FeedForwardLearner  # noqa: PLC0415 (torch)

        return FeedForwardLearner(arrays, settings, seed)
    return _RIDGE_LEARNERS[settings.method](arrays, settings)
