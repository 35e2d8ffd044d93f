"""What grows with the square of a population: ranks by dominance, and how crowded the neighbourhood is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel

__all__ = ["dominators", "niche_counts"]


@kernel()
def dominators(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return for each plan how many others dominate it: no worse in both costs, better in one.

    Parameters
    ----------
    costs
        Shape (plans, 2), float64; a plan that cannot be has infinite costs, and every other one dominates it.
    """
    count = np.zeros(len(costs), np.int64)
    for one in range(len(costs)):
        for other in range(len(costs)):
            no_worse = costs[other, 0] <= costs[one, 0] and costs[other, 1] <= costs[one, 1]
            if no_worse and (costs[other, 0] < costs[one, 0] or costs[other, 1] < costs[one, 1]):
                count[one] += 1
    return count


@kernel()
def niche_counts(
    points: npt.NDArray[np.float64], rank: npt.NDArray[np.int64], radius: float
) -> npt.NDArray[np.float64]:
    """Return for each point the sum of max(0, 1 − d / radius) over the points of its rank, itself included.

    Parameters
    ----------
    points
        Shape (plans, 2), float64; d is the largest difference in a coordinate.
    rank
        Shape (plans,), int64.
    radius
        From where on others do not count; > 0.
    """
    count = np.zeros(len(points))
    for one in range(len(points)):
        for other in range(len(points)):
            if rank[other] != rank[one]:
                continue
            apart = max(abs(points[one, 0] - points[other, 0]), abs(points[one, 1] - points[other, 1]))
            if apart < radius:
                count[one] += 1.0 - apart / radius
    return count
