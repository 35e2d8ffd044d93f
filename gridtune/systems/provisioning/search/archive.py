"""`Archive`: every non-dominated plan seen so far."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Archive", "crowding_order", "non_dominated"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def non_dominated(costs: Floats) -> Ints:
    """Return the positions of points that no other one dominates, by ascending first cost.

    Both costs are to be small. Points with an infinite cost are left out, and of equal points all but the
    first.

    Parameters
    ----------
    costs
        Shape (points, 2).
    """
    order = np.lexsort((costs[:, 1], costs[:, 0]))
    order = order[np.isfinite(costs[order]).all(axis=1)]
    second = costs[order, 1]
    before = np.concatenate([[np.inf], np.minimum.accumulate(second)[:-1]]) if len(order) else second
    return order[second < before]


def crowding_order(costs: Floats) -> Ints:
    """Return the positions of points, best first: by the front they stand on, then by crowding distance.

    The points of the first front are those that no other dominates, those of the second the ones that remain,
    and so on; of equal points one stands on a front. Infinite ones come last.

    Parameters
    ----------
    costs
        Shape (points, 2).

    References
    ----------
    K. Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE TEC 6(2), 2002.
    """
    ordered: list[Ints] = []
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
    """Non-dominated plans by ascending allocation cost, and so by falling makespan; one for each such point.

    Attributes
    ----------
    costs
        Shape (n, 2), float64: allocation cost and makespan.
    plans
        Shape (n, slots), bool. Of plans with equal costs the first one seen.
    """

    def __init__(self, slots: int) -> None:
        self.costs: Floats = np.empty((0, 2))
        self.plans: Bools = np.empty((0, slots), np.bool_)

    def __len__(self) -> int:
        return len(self.costs)

    def add(self, costs: Floats, plans: Bools) -> int:
        """Take in plans, those that no other one dominates; return how many of them stay."""
        merged = np.concatenate([self.costs, costs])
        kept = non_dominated(merged)
        new = int((kept >= len(self)).sum())
        if new:
            self.plans = np.concatenate([self.plans, plans])[kept]
            self.costs = merged[kept]
        return new
