"""`Moga`: the multi-objective genetic algorithm as published, which no library has.

pymoo has neither ranks by the number of dominating plans, nor fitness shared in the space of costs, nor an
algorithm without elitism. Cells of this search have recorded results, so that its operators are ours, too.

Sources: C. M. Fonseca, P. J. Fleming, "Genetic algorithms for multiobjective optimization: formulation,
discussion and generalization", ICGA 1993 (ranks, shared fitness, the radius of a niche); G. Singh,
C. Kesselman, E. Deelman, HPDC 2007, section 3 (the coding, crossover in two points, mutation, the archive).
"""

from __future__ import annotations

import numpy as np

from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.base import Search, check
from gridtune.systems.provisioning.search.rules import heuristic_plans, random_plans
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["Moga", "cross", "sample_universally", "shared_fitness"]


def cross(parents: BoolArray, points: int, rate: float, rng: np.random.Generator) -> BoolArray:
    """Return the children of neighbouring rows, shape as `parents`; an odd last row is copied.

    Parameters
    ----------
    parents
        Shape (plans, slots).
    points
        The number of crossover points, as far as there are places between bits.
    rate
        The probability that a pair is crossed.
    rng
        The source of random numbers.
    """
    children = parents.copy()
    pairs, places = len(parents) // 2, parents.shape[1] - 1
    points = min(points, places)
    if pairs == 0 or points == 0:
        return children
    cuts = np.argsort(rng.random((pairs, places)), axis=1)[:, :points]
    begins = np.zeros((pairs, places + 1), np.int64)
    np.put_along_axis(begins, cuts + 1, 1, axis=1)
    swapped = begins.cumsum(axis=1) % 2 == 1
    swapped &= (rng.random(pairs) < rate)[:, None]
    one, other = parents[0 : 2 * pairs : 2], parents[1 : 2 * pairs : 2]
    children[0 : 2 * pairs : 2] = np.where(swapped, other, one)
    children[1 : 2 * pairs : 2] = np.where(swapped, one, other)
    return children


def sample_universally(fitness: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return `count` positions in random order by stochastic universal sampling.

    References
    ----------
    J. E. Baker, "Reducing bias and inefficiency in the selection algorithm", ICGA 1987.
    """
    edges = np.cumsum(fitness)
    pointers = (rng.random() + np.arange(count)) * (edges[-1] / count)
    selected = np.minimum(np.searchsorted(edges, pointers, side="right"), len(fitness) - 1)
    return rng.permutation(selected)


def shared_fitness(costs: FloatArray) -> FloatArray:
    """Return each plan's fitness: proportional to its probability to become a parent.

    A plan's rank is the number of plans that dominate it. Fitness falls linearly along the sorted population
    from 2 to 0. Plans of equal rank share the mean of theirs in inverse proportion to their niche counts in
    the space of costs, each normalised over the feasible plans: the sums of max(0, 1 − d / σ) over the plans
    of the rank, itself included, where d is the largest difference in a cost. With σ = 2 / (N − 1) a front as
    long as the edges of that space holds N niches (Fonseca and Fleming, section 4.2, with two objectives).

    Parameters
    ----------
    costs
        Shape (plans, 2); infinite for infeasible plans, which come last and share nothing.
    """
    size = len(costs)
    if size == 1:
        return np.ones(1)
    cost, makespan = costs.T
    no_worse = (cost <= cost[:, None]) & (makespan <= makespan[:, None])
    rank = (no_worse & ((cost < cost[:, None]) | (makespan < makespan[:, None]))).sum(axis=1)
    by_place = np.empty(size)
    by_place[np.argsort(rank, kind="stable")] = np.linspace(2.0, 0.0, size)
    _, same = np.unique(rank, return_inverse=True)
    fitness = (np.bincount(same, by_place) / np.bincount(same))[same]
    feasible = np.isfinite(costs).all(axis=1)
    if feasible.any():
        radius, finite = 2.0 / (size - 1), costs[feasible]
        span = np.ptp(finite, axis=0)
        x, y = ((finite - finite.min(axis=0)) / np.where(span > 0, span, 1.0)).T
        distance = np.maximum(np.abs(x - x[:, None]), np.abs(y - y[:, None]))
        level = same[feasible]
        near = np.maximum(0.0, 1.0 - distance / radius) * (level == level[:, None])
        weight = 1.0 / near.sum(axis=1)
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
        problem: PlanProblem,
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
        self.crossover_points, self.crossover_rate = crossover_points, crossover_rate
        self.mutation_rate = rate

    def _propose(self) -> BoolArray:
        if len(self._plans) == 0:
            seeds = heuristic_plans(self.problem, self.population // 4) if self.seeding else self._plans
            others = random_plans(self.population - len(seeds), len(self.problem), self.rng)
            return np.concatenate([seeds, others])
        parents = sample_universally(shared_fitness(self._costs), self.population, self.rng)
        children = cross(self._plans[parents], self.crossover_points, self.crossover_rate, self.rng)
        return children ^ (self.rng.random(children.shape) < self.mutation_rate)
