"""Ranks by dominance and niche counts of a population, in time quadratic in its size."""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, IntArray

__all__ = ["dominators", "niche_counts"]


@kernel()
def dominators(costs: FloatArray) -> IntArray:
    """Return the number of plans that dominate each plan: no worse in both costs, better in one.

    Parameters
    ----------
    costs
        Shape (plans, 2), float64; infinite for infeasible plans, which every feasible one dominates.
    """
    count = np.zeros(len(costs), np.int64)
    for one in range(len(costs)):
        for other in range(len(costs)):
            no_worse = costs[other, 0] <= costs[one, 0] and costs[other, 1] <= costs[one, 1]
            if no_worse and (costs[other, 0] < costs[one, 0] or costs[other, 1] < costs[one, 1]):
                count[one] += 1
    return count


@kernel()
def niche_counts(points: FloatArray, rank: IntArray, radius: float) -> FloatArray:
    """Return for each point the sum of max(0, 1 − d / radius) over the points of its rank, itself included.

    Parameters
    ----------
    points
        Shape (plans, 2), float64; d is the largest difference in a coordinate.
    rank
        Shape (plans,), int64.
    radius
        Points at this distance or beyond do not count; > 0.
    """
    count = np.zeros(len(points))
    for one in range(len(points)):
        for other in range(len(points)):
            if rank[other] != rank[one]:
                continue
            distance = max(abs(points[one, 0] - points[other, 0]), abs(points[one, 1] - points[other, 1]))
            if distance < radius:
                count[one] += 1.0 - distance / radius
    return count
