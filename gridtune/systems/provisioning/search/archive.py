"""`Archive`: every non-dominated plan evaluated so far."""

from __future__ import annotations

import moocore
import numpy as np

from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["Archive", "crowding_order", "non_dominated"]


def non_dominated(costs: FloatArray) -> IntArray:
    """Return the positions of points that no other point dominates, by ascending first cost.

    Both costs are minimised. Points with an infinite cost are left out, and of equal points all but the
    first.

    Parameters
    ----------
    costs
        Shape (points, 2).
    """
    finite = np.flatnonzero(np.isfinite(costs).all(axis=1))
    front = finite[moocore.is_nondominated(costs[finite])]
    return front[np.argsort(costs[front, 0])]


def crowding_order(costs: FloatArray) -> IntArray:
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


class Archive:
    """Non-dominated plans by ascending allocation cost, and so by descending makespan; one for each point.

    Attributes
    ----------
    costs
        Shape (n, 2), float64: allocation cost and makespan.
    plans
        Shape (n, slots), bool. Of plans with equal costs the first one added.
    """

    def __init__(self, slots: int) -> None:
        self.costs: FloatArray = np.empty((0, 2))
        self.plans: BoolArray = np.empty((0, slots), np.bool_)

    def __len__(self) -> int:
        return len(self.costs)

    def add(self, costs: FloatArray, plans: BoolArray) -> int:
        """Add the plans that no other one dominates; return how many of them are in the archive now."""
        merged = np.concatenate([self.costs, costs])
        front = non_dominated(merged)
        new = int((front >= len(self)).sum())
        if new:
            self.plans = np.concatenate([self.plans, plans])[front]
            self.costs = merged[front]
        return new
