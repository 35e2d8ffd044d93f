"""`Nsga`: pymoo's NSGA-II and NSGA-III on the same problem.

Sources: K. Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE TEC 6(2), 2002;
K. Deb, H. Jain, IEEE TEC 18(4), 2014 (NSGA-III); J. Blank, K. Deb, "pymoo: multi-objective optimization in
Python", IEEE Access 8, 2020.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.search.base import Arrays, Evaluator, Search
from gridtune.systems.provisioning.search.operators import random_plans
from gridtune.systems.provisioning.search.seeds import heuristic_plans
from gridtune.types import BoolArray, FloatArray

__all__ = ["Nsga"]


#: Costs of infeasible plans: pymoo normalises with them, so they must be finite.
_WORST = 1e30


class Nsga(Search):
    """NSGA-II or NSGA-III with crossover in two points and mutation of 1 / slots; pymoo drops duplicates.

    Like the other searches it returns the archive of all evaluated plans, not the last population. An
    infeasible plan violates a constraint.

    Parameters
    ----------
    problem, rng, release
        See `Search`. With `release`, pymoo's individuals lose the slots that were released.
    version
        2 or 3. NSGA-III has as many reference directions as plans in the population.
    population
        Plans of a generation.
    seeding
        Whether up to a quarter of the first generation are plans of simple rules.
    """

    def __init__(
        self,
        problem: Evaluator,
        rng: np.random.Generator,
        *,
        version: int = 2,
        population: int = 100,
        seeding: bool = False,
        release: bool = False,
    ) -> None:
        from gridtune.systems.provisioning.search.pymoo_algorithms import new_algorithm  # noqa: PLC0415 (pymoo)

        super().__init__(problem, rng, release=release)
        if version not in (2, 3):
            raise SimulationError(f"NSGA has the versions 2 and 3, not {version}", field="version")
        if population < 2:
            raise SimulationError(f"population cannot be {population}", field="population")
        seeds = (
            heuristic_plans(problem, population // 4) if seeding else np.empty((0, len(problem)), np.bool_)
        )
        first = np.concatenate([seeds, random_plans(population - len(seeds), len(problem), rng)])
        self._algorithm = new_algorithm(version, population, first)
        self._offspring: Any = None

    def _propose(self) -> BoolArray:
        self._algorithm.random_state = self.rng
        self._offspring = self._algorithm.ask()
        if self._offspring is None:
            return np.empty((0, len(self.problem)), np.bool_)
        return np.asarray(self._offspring.get("X"), dtype=np.bool_)

    def _learn(self, costs: FloatArray, plans: BoolArray) -> None:
        if len(costs) < len(self._offspring):  # the budget ends within this generation: nothing comes after
            return
        feasible = np.isfinite(costs).all(axis=1)
        offspring, self._offspring = self._offspring, None
        offspring.set("X", plans)
        offspring.set("F", np.where(feasible.reshape(-1, 1), costs, _WORST))
        offspring.set("G", np.where(feasible, -1.0, 1.0).reshape(-1, 1))
        for individual in offspring:
            individual.evaluated.update({"F", "G", "H"})
        self._algorithm.tell(infills=offspring)

    def _own_state(self) -> Arrays:
        from gridtune.systems.provisioning.search.pymoo_algorithms import algorithm_state  # noqa: PLC0415 (pymoo)

        return algorithm_state(self._algorithm)

    def _set_own_state(self, state: Arrays) -> None:
        from gridtune.systems.provisioning.search.pymoo_algorithms import restore_algorithm  # noqa: PLC0415 (pymoo)

        restore_algorithm(self._algorithm, state)
