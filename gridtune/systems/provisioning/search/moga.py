"""`Moga`: the published multi-objective genetic algorithm.

Sources: C. M. Fonseca, P. J. Fleming, "Genetic algorithms for multiobjective optimization: formulation,
discussion and generalization", ICGA 1993 (ranks, shared fitness, the radius of a niche); G. Singh,
C. Kesselman, E. Deelman, HPDC 2007, section 3 (the coding, crossover in two points, mutation, the archive).
"""

from __future__ import annotations

import numpy as np

from gridtune.systems.provisioning.search.base import Arrays, Evaluator, Search, check
from gridtune.systems.provisioning.search.kernels import dominators, niche_counts
from gridtune.systems.provisioning.search.operators import cross, mutate, random_plans, sample_universally
from gridtune.systems.provisioning.search.seeds import heuristic_plans
from gridtune.types import BoolArray, FloatArray

__all__ = ["Moga", "shared_fitness"]


def shared_fitness(costs: FloatArray) -> FloatArray:
    """Return each plan's fitness: proportional to its probability to become a parent.

    A plan's rank is the number of plans that dominate it. Fitness falls linearly along the sorted population
    from 2 to 0. Plans of equal rank share the mean of theirs in inverse proportion to their niche counts in
    the space of costs, each normalised over the feasible plans. Two plans are in one niche if they are nearer
    than σ = 2 / (N − 1), for which a front as long as the edges of that space holds N niches (Fonseca and
    Fleming, section 4.2, with two objectives).

    Parameters
    ----------
    costs
        Shape (plans, 2); infinite for infeasible plans, which come last and share nothing.
    """
    size = len(costs)
    if size == 1:
        return np.ones(1)
    rank = dominators(costs)
    by_place = np.empty(size)
    by_place[np.argsort(rank, kind="stable")] = np.linspace(2.0, 0.0, size)
    _, same = np.unique(rank, return_inverse=True)
    fitness = (np.bincount(same, by_place) / np.bincount(same))[same]
    feasible = np.isfinite(costs).all(axis=1)
    if feasible.any():
        finite = costs[feasible]
        span = np.ptp(finite, axis=0)
        points = (finite - finite.min(axis=0)) / np.where(span > 0, span, 1.0)
        weight = 1.0 / niche_counts(points, rank[feasible], 2.0 / (size - 1))
        level = same[feasible]
        fitness[feasible] *= weight / (np.bincount(level, weight) / np.maximum(np.bincount(level), 1))[level]
    return fitness


class Moga(Search):
    """A generational genetic algorithm with an archive.

    Parameters
    ----------
    problem, rng, release
        See `Search`; as published, nothing is released.
    population
        Plans of a generation, all of them evaluated in one step.
    crossover_points, crossover_rate
        At how many points a pair of parents is crossed, and the probability that it is crossed.
    mutation_rate
        The probability that a bit flips; by default 1 / slots.
    seeding
        Whether up to a quarter of the first generation are plans of simple rules. As published, all are
        random.

    Raises
    ------
    SimulationError
        Naming the parameter that is out of range.
    """

    def __init__(
        self,
        problem: Evaluator,
        rng: np.random.Generator,
        *,
        population: int = 100,
        crossover_points: int = 2,
        crossover_rate: float = 0.9,
        mutation_rate: float | None = None,
        seeding: bool = False,
        release: bool = False,
    ) -> None:
        super().__init__(problem, rng, release=release)
        rate = 1.0 / len(problem) if mutation_rate is None else mutation_rate
        check("population", population, population >= 1)
        check("crossover_points", crossover_points, crossover_points >= 1)
        check("crossover_rate", crossover_rate, 0 <= crossover_rate <= 1)
        check("mutation_rate", rate, 0 <= rate <= 1)
        self.population, self.seeding = population, seeding
        self.crossover_points, self.crossover_rate, self.mutation_rate = (
            crossover_points,
            crossover_rate,
            rate,
        )
        self._plans: BoolArray = np.empty((0, len(problem)), np.bool_)
        self._costs: FloatArray = np.empty((0, 2))

    def _propose(self) -> BoolArray:
        if len(self._plans) == 0:
            seeds = heuristic_plans(self.problem, self.population // 4) if self.seeding else self._plans
            others = random_plans(self.population - len(seeds), len(self.problem), self.rng)
            return np.concatenate([seeds, others])
        parents = sample_universally(shared_fitness(self._costs), self.population, self.rng)
        children = cross(self._plans[parents], self.crossover_points, self.crossover_rate, self.rng)
        return mutate(children, self.mutation_rate, self.rng)

    def _learn(self, costs: FloatArray, plans: BoolArray) -> None:
        self._costs, self._plans = costs, plans

    def _own_state(self) -> Arrays:
        return {"population": self._plans.copy(), "population_costs": self._costs.copy()}

    def _set_own_state(self, state: Arrays) -> None:
        self._plans, self._costs = state["population"].copy(), state["population_costs"].copy()
