"""`RandomSearch`: plans that take each slot with probability 1/2, what every other search must beat."""

from __future__ import annotations

import numpy as np

from gridtune.systems.provisioning.search.base import Arrays, Evaluator, Search, check
from gridtune.systems.provisioning.search.operators import random_plans
from gridtune.types import BoolArray, FloatArray

__all__ = ["RandomSearch"]


class RandomSearch(Search):
    """Independent random plans; the archive keeps those that no other one dominates.

    Parameters
    ----------
    problem, rng, release
        See `Search`.
    population
        Plans evaluated in one step; the plans do not depend on it.
    """

    def __init__(
        self, problem: Evaluator, rng: np.random.Generator, *, population: int = 100, release: bool = False
    ) -> None:
        super().__init__(problem, rng, release=release)
        check("population", population, population >= 1)
        self.population = population

    def _propose(self) -> BoolArray:
        return random_plans(self.population, len(self.problem), self.rng)

    def _learn(self, costs: FloatArray, plans: BoolArray) -> None:
        """Learn nothing."""

    def _own_state(self) -> Arrays:
        return {}

    def _set_own_state(self, state: Arrays) -> None:
        """Restore nothing: there is no state besides the archive."""
