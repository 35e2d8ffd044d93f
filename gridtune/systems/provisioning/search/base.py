"""`Search`: the base of all searches for plans; and a random one."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.fronts import Archive
from gridtune.systems.provisioning.search.rules import random_plans
from gridtune.types import BoolArray, FloatArray

__all__ = ["RandomSearch", "Search", "check"]


class Search(ABC):
    """A search for the plans that no other one dominates.

    Each `step` evaluates some plans.

    Parameters
    ----------
    problem
        What to search.
    rng
        The source of all random numbers.
    release
        Whether plans release the slots that no task uses before they are paid for, compared and bred.

    Attributes
    ----------
    archive
        The non-dominated plans of all that were evaluated.
    iterations
        The number of steps so far.
    """

    def __init__(self, problem: PlanProblem, rng: np.random.Generator, *, release: bool) -> None:
        self.problem, self.rng, self.release = problem, rng, release
        self.archive = Archive(len(problem))
        self.iterations = 0
        self._plans: BoolArray = np.empty((0, len(problem)), np.bool_)
        self._costs: FloatArray = np.empty((0, 2))

    @property
    def evaluations(self) -> int:
        """The number of plans evaluated."""
        return self.archive.evaluations

    def step(self, most: int | None = None) -> int:
        """Evaluate the next plans, at most `most`; return how many, 0 if there are no more."""
        plans = self._propose()[:most]
        if len(plans) == 0:
            return 0
        if self.release:
            costs, used = self.problem.evaluate_released(plans)
            # An infeasible plan uses nothing; its bits are still worth breeding from.
            plans = np.where(np.isfinite(costs[:, :1]), used, plans)
        else:
            costs = self.problem.evaluate(plans)
        self.iterations += 1
        self.archive.add(costs, plans)
        self._learn(costs, plans)
        return len(plans)

    def run(self, evaluations: int) -> Archive:
        """Continue until that many plans have been evaluated in all, or there are no more."""
        while self.evaluations < evaluations and self.step(evaluations - self.evaluations):
            pass
        return self.archive

    @abstractmethod
    def _propose(self) -> BoolArray:
        """Return the plans to evaluate next, shape (plans, slots)."""

    def _learn(self, costs: FloatArray, plans: BoolArray) -> None:
        """Take in the costs of the proposed plans, as far as they were evaluated."""
        self._costs, self._plans = costs, plans


def check(name: str, value: float, valid: bool) -> None:
    """Refuse an invalid parameter by name."""
    if not valid:
        raise SimulationError(f"{name} cannot be {value}", field=name)


class RandomSearch(Search):
    """Independent plans that take each slot with probability 1/2: every other search must beat it.

    Parameters
    ----------
    problem, rng, release
        See `Search`.
    population
        Plans evaluated in one step; the plans do not depend on it.
    """

    def __init__(
        self, problem: PlanProblem, rng: np.random.Generator, *, population: int = 100, release: bool = False
    ) -> None:
        super().__init__(problem, rng, release=release)
        check("population", population, population >= 1)
        self.population = population

    def _propose(self) -> BoolArray:
        return random_plans(self.population, len(self.problem), self.rng)
