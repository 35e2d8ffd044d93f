"""Searches for plans: random, published genetic (`Moga`), elitist (`Memetic`), `Nsga2` and `Nsga3`.

No library has the published one: pymoo has neither ranks by the number of dominating plans, nor fitness
shared in the space of costs, nor an algorithm without elitism. Cells of this search have recorded results, so
that its operators are ours, too.

The elitist one begins with the plans of simple rules and drops expensive slots. It adds to the published
algorithm: plans release the slots that no task uses; the first plans come from simple rules; a population of
distinct plans survives by rank and crowding distance; the more a slot costs, the more likely a child drops
it; and no plan is evaluated twice.

Sources: C. M. Fonseca, P. J. Fleming, "Genetic algorithms for multiobjective optimization: formulation,
discussion and generalization", ICGA 1993 (ranks, shared fitness, the radius of a niche); G. Singh,
C. Kesselman, E. Deelman, HPDC 2007, section 3 (the coding, crossover in two points, mutation, the archive);
K. Deb et al., IEEE TEC 6(2), 2002 (rank, crowding distance, elitism); P. Moscato, "On evolution, search,
optimization, genetic algorithms and martial arts: towards memetic algorithms", Caltech 1989; K. Deb,
H. Jain, IEEE TEC 18(4), 2014 (NSGA-III); J. Blank, K. Deb, "pymoo: multi-objective optimization in Python",
IEEE Access 8, 2020.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.moo.nsga3 import NSGA3
from pymoo.core.problem import Problem
from pymoo.operators.crossover.pntx import TwoPointCrossover
from pymoo.operators.mutation.bitflip import BitflipMutation
from pymoo.util.ref_dirs import get_reference_directions

from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.fronts import Archive, heuristic_plans, non_dominated
from gridtune.types import BoolArray, FloatArray, IntArray


def _random_plans(plans: int, slots: int, rng: np.random.Generator) -> BoolArray:
    """Return plans whose bits are 1 with probability 1/2."""
    return rng.integers(0, 2, (plans, slots), dtype=np.uint8).astype(np.bool_)


class Search(ABC):
    """A search for the plans that no other one dominates.

    Each `step` evaluates some plans.

    Parameters
    ----------
    problem
        What to search.
    rng
        The source of all random numbers.
    population
        Plans of a generation, all of them evaluated in one step.
    seeding
        Whether up to a quarter of the first generation are plans of simple rules; otherwise all are random.
    release
        Whether plans release the slots that no task uses before they are paid for, compared and bred.

    Attributes
    ----------
    archive
        The non-dominated plans of all that were evaluated.
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
        self.problem, self.rng, self.release = problem, rng, release
        self.population, self.seeding = population, seeding
        self.archive = Archive(len(problem))
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
        self.archive.add(costs, plans)
        self._learn(costs, plans)
        return len(plans)

    def run(self, evaluations: int) -> Archive:
        """Continue until that many plans have been evaluated in all, or there are no more."""
        while self.evaluations < evaluations and self.step(evaluations - self.evaluations):
            pass
        return self.archive

    def _first_plans(self) -> BoolArray:
        """Return the first generation."""
        seeds = heuristic_plans(self.problem, self.population // 4) if self.seeding else self._plans
        return np.concatenate(
            [seeds, _random_plans(self.population - len(seeds), len(self.problem), self.rng)]
        )

    @abstractmethod
    def _propose(self) -> BoolArray:
        """Return the plans to evaluate next, shape (plans, slots)."""

    def _learn(self, costs: FloatArray, plans: BoolArray) -> None:
        """Take in the costs of the proposed plans, as far as they were evaluated."""
        self._costs, self._plans = costs, plans


class RandomSearch(Search):
    """Independent plans that take each slot with probability 1/2: every other search must beat it.

    They do not depend on `population`.
    """

    def __init__(
        self, problem: PlanProblem, rng: np.random.Generator, *, population: int = 100, release: bool = False
    ) -> None:
        super().__init__(problem, rng, population=population, release=release)

    def _propose(self) -> BoolArray:
        return _random_plans(self.population, len(self.problem), self.rng)


def _cross(parents: BoolArray, points: int, rate: float, rng: np.random.Generator) -> BoolArray:
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


def _sample_universally(fitness: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return `count` positions in random order by stochastic universal sampling.

    References
    ----------
    J. E. Baker, "Reducing bias and inefficiency in the selection algorithm", ICGA 1987.
    """
    edges = np.cumsum(fitness)
    pointers = (rng.random() + np.arange(count)) * (edges[-1] / count)
    selected = np.minimum(np.searchsorted(edges, pointers, side="right"), len(fitness) - 1)
    return rng.permutation(selected)


def _shared_fitness(costs: FloatArray) -> FloatArray:
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
    problem, rng, options
        See `Search`; as published, nothing is released, and the first generation is random.
    crossover_points, crossover_rate
        At how many points a pair of parents is crossed, and the probability that it is crossed.
    mutation_rate
        The probability that a bit flips; by default 1 / slots.
    """

    def __init__(
        self,
        problem: PlanProblem,
        rng: np.random.Generator,
        *,
        crossover_points: int = 2,
        crossover_rate: float = 0.9,
        mutation_rate: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(problem, rng, **options)
        self.crossover_points, self.crossover_rate = crossover_points, crossover_rate
        self.mutation_rate = 1.0 / len(problem) if mutation_rate is None else mutation_rate

    def _propose(self) -> BoolArray:
        if len(self._plans) == 0:
            return self._first_plans()
        parents = _sample_universally(_shared_fitness(self._costs), self.population, self.rng)
        children = _cross(self._plans[parents], self.crossover_points, self.crossover_rate, self.rng)
        return children ^ (self.rng.random(children.shape) < self.mutation_rate)


#: Attempts at a new plan, for each plan of a batch.
_ATTEMPTS = 20
#: The probability that a change stops after one slot, then after two, and so on.
_STOP = 0.6


def _crowding_order(costs: FloatArray) -> IntArray:
    """Return the positions of points, best first: by front, then by crowding distance.

    The first front holds the points that no other dominates, the second those of the remaining points that no
    other remaining point dominates, and so on. Equal points are on different fronts. Infinite points come
    last.

    Parameters
    ----------
    costs
        Shape (points, 2).

    References
    ----------
    K. Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE TEC 6(2), 2002.
    """
    ordered: list[IntArray] = []
    left = np.flatnonzero(np.isfinite(costs).all(axis=1))
    while len(left):
        front = left[non_dominated(costs[left])]
        points = costs[front]
        span = np.ptp(points, axis=0)
        gaps = np.abs(points[2:] - points[:-2]) / np.where(span > 0, span, 1.0)
        distance = np.full(len(front), np.inf)
        distance[1:-1] = gaps.sum(axis=1)
        ordered.append(front[np.argsort(-distance, kind="stable")])
        left = np.setdiff1d(left, front, assume_unique=True)
    return np.concatenate([*ordered, np.flatnonzero(~np.isfinite(costs).all(axis=1))])


class Memetic(Search):
    """An elitist genetic local search.

    Parameters
    ----------
    problem, rng, release
        See `Search`; by default slots that no task uses are released.
    population
        Plans that survive a step.
    offspring
        New plans evaluated in a step.

    Attributes
    ----------
    seeds
        The most plans of simple rules to begin with, at least one.
    crossover_rate
        The probability that a child has two parents.
    drop_rate, swap_rate
        The probability that a change drops slots, or exchanges one; otherwise it adds some.
    """

    seeds: int = 40
    crossover_rate: float = 0.8
    drop_rate: float = 0.5
    swap_rate: float = 0.25

    def __init__(
        self,
        problem: PlanProblem,
        rng: np.random.Generator,
        *,
        population: int = 50,
        offspring: int = 25,
        release: bool = True,
    ) -> None:
        super().__init__(problem, rng, population=population, release=release)
        self.offspring = offspring
        # Parts of a divisible slot are paid for when tasks hold them; it may still be dropped.
        price = np.where(problem.slots.divisible, problem.slots.fixed, problem.slots.cost)
        self._weight = price + price.mean() if price.any() else np.ones(len(price))
        self._evaluated: set[bytes] = set()

    def _propose(self) -> BoolArray:
        if len(self._plans) == 0:
            plans = heuristic_plans(self.problem, self.seeds)
            self._evaluated.update(_keys(plans))
            return plans
        children = []
        for _ in range(self.offspring * _ATTEMPTS):
            child = self._child()
            (key,) = _keys(child[None])
            if key not in self._evaluated:
                self._evaluated.add(key)
                children.append(child)
                if len(children) == self.offspring:
                    break
        return np.array(children, np.bool_).reshape(-1, len(self.problem))

    def _child(self) -> BoolArray:
        """Return a plan near one of the population, or between two of them."""
        rng, count = self.rng, len(self._plans)
        # The better of two: the population stands in the order in which it survives.
        child = self._plans[rng.integers(count, size=2).min()].copy()
        if rng.random() < self.crossover_rate:
            other = self._plans[rng.integers(count)]
            if rng.random() < 0.5:
                one, two = np.sort(rng.integers(0, len(child) + 1, 2))
                child[one:two] = other[one:two]
            else:
                child = np.where(rng.random(len(child)) < 0.5, child, other)
            if rng.random() < 0.5:
                return child
        self._change(child)
        return child

    def _change(self, child: BoolArray) -> None:
        """Drop some slots, expensive ones more likely than cheap ones; or exchange one; or add some."""
        rng, move = self.rng, self.rng.random()
        taken, free, steps = np.flatnonzero(child), np.flatnonzero(~child), int(self.rng.geometric(_STOP))
        if move < self.drop_rate + self.swap_rate and len(taken):
            count = min(steps, len(taken)) if move < self.drop_rate else 1
            weight = self._weight[taken]
            child[rng.choice(taken, count, replace=False, p=weight / weight.sum())] = False
        if move >= self.drop_rate and len(free):
            child[rng.choice(free, min(steps, len(free)), replace=False)] = True

    def _learn(self, costs: FloatArray, plans: BoolArray) -> None:
        self._evaluated.update(_keys(plans))
        plans, costs = np.concatenate([self._plans, plans]), np.concatenate([self._costs, costs])
        _, first = np.unique(np.packbits(plans, axis=1), axis=0, return_index=True)
        first.sort()
        survivors = first[_crowding_order(costs[first])[: self.population]]
        self._plans, self._costs = plans[survivors], costs[survivors]


def _keys(plans: BoolArray) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(plans, axis=1)]


#: Costs of infeasible plans: pymoo normalises with them, so they must be finite.
_WORST = 1e30


class Nsga2(Search):
    """NSGA-II with crossover in two points and mutation of 1 / slots; pymoo drops duplicates.

    Like the other searches it returns the archive of all evaluated plans, not the last population. An
    infeasible plan violates a constraint.

    Parameters
    ----------
    problem, rng, options
        See `Search`. With `release`, pymoo's individuals lose the slots that were released.
    """

    def __init__(self, problem: PlanProblem, rng: np.random.Generator, **options: Any) -> None:
        super().__init__(problem, rng, **options)
        self._algorithm = self._new_algorithm(
            pop_size=self.population,
            sampling=self._first_plans(),
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


#: The searches by name.
KINDS: dict[str, type[Search]] = {
    "moga": Moga,
    "memetic": Memetic,
    "nsga2": Nsga2,
    "nsga3": Nsga3,
    "random": RandomSearch,
}
