"""The operators of genetic algorithms on plans: sampling, crossover, mutation, selection of parents."""

from __future__ import annotations

import numpy as np

from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["cross", "mutate", "random_plans", "sample_universally"]


def random_plans(plans: int, slots: int, rng: np.random.Generator) -> BoolArray:
    """Return plans whose bits are 1 with probability 1/2."""
    return rng.integers(0, 2, (plans, slots), dtype=np.uint8).astype(np.bool_)


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


def mutate(plans: BoolArray, rate: float, rng: np.random.Generator) -> BoolArray:
    """Return plans with each bit flipped with probability `rate`."""
    return plans ^ (rng.random(plans.shape) < rate)


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
