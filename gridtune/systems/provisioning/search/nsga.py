"""`Nsga`: pymoo's NSGA-II and NSGA-III on the same problem.

Sources: K. Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE TEC 6(2), 2002;
K. Deb, H. Jain, IEEE TEC 18(4), 2014 (NSGA-III); J. Blank, K. Deb, "pymoo: multi-objective optimization in
Python", IEEE Access 8, 2020.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.moo.nsga3 import NSGA3
from pymoo.core.problem import Problem
from pymoo.operators.crossover.pntx import TwoPointCrossover
from pymoo.operators.mutation.bitflip import BitflipMutation
from pymoo.util.ref_dirs import get_reference_directions

from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.fronts import first_plans
from gridtune.systems.provisioning.search.genetic import Search
from gridtune.types import BoolArray, FloatArray

__all__ = ["Nsga2", "Nsga3"]

#: Costs of infeasible plans: pymoo normalises with them, so they must be finite.
_WORST = 1e30


class Nsga2(Search):
    """NSGA-II with crossover in two points and mutation of 1 / slots; pymoo drops duplicates.

    Like the other searches it returns the archive of all evaluated plans, not the last population. An
    infeasible plan violates a constraint.

    Parameters
    ----------
    problem, rng, release
        See `Search`. With `release`, pymoo's individuals lose the slots that were released.
    population
        Plans of a generation.
    seeding
        Whether up to a quarter of the first generation are plans of simple rules.
    """

    def __init__(
        self,
        problem: PlanProblem,
        rng: np.random.Generator,
        *,
        population: int = 100,
        seeding: bool = False,
        release: bool = False,
    ) -> None:
        super().__init__(problem, rng, release=release)
        self._algorithm = self._new_algorithm(
            pop_size=population,
            sampling=first_plans(problem, population, seeding, rng),
            crossover=TwoPointCrossover(),
            mutation=BitflipMutation(prob=1.0, prob_var=1.0 / len(problem)),
            eliminate_duplicates=True,
        )
        choice = Problem(n_var=len(problem), n_obj=2, n_ieq_constr=1, xl=0, xu=1, vtype=bool)
        self._algorithm.setup(choice, termination=("n_gen", np.inf), seed=0, verbose=False)
        self._offspring: Any = None

    def _new_algorithm(self, **operators: Any) -> Any:
        return NSGA2(**operators)

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


class Nsga3(Nsga2):
    """NSGA-III with as many reference directions as plans in the population; otherwise as `Nsga2`."""

    def _new_algorithm(self, **operators: Any) -> Any:
        directions = get_reference_directions("das-dennis", 2, n_partitions=operators["pop_size"] - 1)
        return NSGA3(ref_dirs=directions, **operators)
