"""`Search`: the base of all searches for plans, which can be interrupted and resumed; and a random one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.fronts import Archive
from gridtune.systems.provisioning.search.rules import random_plans
from gridtune.types import BoolArray, FloatArray

__all__ = ["Arrays", "RandomSearch", "Search", "check"]

#: Arrays by name.
Arrays = dict[str, npt.NDArray[Any]]

#: Prefix of the names of a search's own arrays.
_OWN = "own."


class Search(ABC):
    """A search for the plans that no other one dominates.

    Each `step` evaluates some plans. Between steps, `state` is complete: another search of the same kind on
    the same problem that restores it continues as this one would.

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

    def _own_state(self) -> Arrays:
        """Return what this kind of search keeps besides the archive: its population, by default."""
        return {"population": self._plans.copy(), "population_costs": self._costs.copy()}

    def _set_own_state(self, state: Arrays) -> None:
        """Restore what `_own_state` returned."""
        self._plans, self._costs = state["population"].copy(), state["population_costs"].copy()

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return everything needed to resume: arrays by name, and values of JSON."""
        own = {f"{_OWN}{name}": array for name, array in self._own_state().items()}
        arrays = {"costs": self.archive.costs.copy(), "plans": self.archive.plans.copy(), **own}
        return arrays, {
            "kind": type(self).__name__,
            "rng": self.rng.bit_generator.state,
            "evaluations": self.evaluations,
            "iterations": self.iterations,
        }

    def restore(self, arrays: Arrays, about: dict[str, Any]) -> None:
        """Restore another search's state.

        Raises
        ------
        SimulationError
            If it is of another kind of search, or of a problem with another number of slots.
        """
        if about["kind"] != type(self).__name__:
            raise SimulationError(f"the state is of {about['kind']}, not of {type(self).__name__}")
        slots = arrays["plans"].shape[1]
        if slots != len(self.problem):
            raise SimulationError(f"the state is of {slots} slots, the problem has {len(self.problem)}")
        self.rng.bit_generator.state = about["rng"]
        self.archive.costs, self.archive.plans = arrays["costs"].copy(), arrays["plans"].copy()
        self.archive.evaluations, self.iterations = about["evaluations"], about["iterations"]
        own = {name: array for name, array in arrays.items() if name.startswith(_OWN)}
        self._set_own_state({name.removeprefix(_OWN): array for name, array in own.items()})


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
