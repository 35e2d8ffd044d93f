"""How an adaptive sweep went: its configurations in the order they were tried, and the best so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gridtune.core.cells import CellResult
from gridtune.report.front import Front
from gridtune.statistics.pareto import Scale, hypervolume, nondominated

__all__ = ["best_so_far", "hypervolume_so_far", "trial_order"]

#: Points of the curve of hypervolumes: each costs a computation.
_MOST_POINTS = 200


def trial_order(
    results: Sequence[CellResult], cells: Iterable[str], proposals: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return the configurations' ids in the order in which they were tried.

    Parameters
    ----------
    results
        The sweep's results.
    cells
        Cell ids in the journal's order.
    proposals
        The journal's proposals. What the strategy did not propose, such as a baseline, comes first, by the
        order of its cells.
    """
    configuration = {result.cell_id: result.configuration_id for result in results}
    wanted = set(configuration.values())
    proposed = dict.fromkeys(key for entry in proposals for key in entry["configurations"] if key in wanted)
    others = dict.fromkeys(configuration[cell] for cell in cells if cell in configuration)
    return [*(key for key in others if key not in proposed), *proposed]


def best_so_far(means: Sequence[float | None], direction: str) -> list[float | None]:
    """Return the best of each and all earlier means; None before the first."""
    sign = 1.0 if direction == "min" else -1.0
    costs = [math.inf if mean is None or math.isnan(mean) else sign * mean for mean in means]
    best = np.minimum.accumulate(costs).tolist() if costs else []
    return [None if math.isinf(cost) else sign * cost for cost in best]


def hypervolume_so_far(front: Front, order: Mapping[str, int]) -> list[tuple[int, float]]:
    """Return (trial, hypervolume of the front up to it), on the scale of the whole sweep.

    Parameters
    ----------
    front
        The front of all configurations.
    order
        Configuration id to its place; those without one are left out.
    """
    signs = np.array([1.0 if head.direction == "min" else -1.0 for head in front.heads])
    placed = [
        (order[parts[0]["configuration_id"]], point)
        for parts, point in zip(front.rows, front.points * signs, strict=True)
        if parts[0]["configuration_id"] in order
    ]
    if not placed:
        return []
    placed.sort(key=lambda entry: entry[0])
    costs = np.array([point for _, point in placed])
    scale = Scale.of([front.points * signs])
    best, volumes, last = np.empty((0, costs.shape[1])), [], 0.0
    for (trial, _), point in zip(placed, costs, strict=True):
        if not (best <= point).all(axis=1).any():
            best = np.vstack([best, point])
            best = best[nondominated(best)]
            last = hypervolume(best, scale)
            volumes.append((trial, last))
    step = max(1, len(volumes) // _MOST_POINTS)
    return [*volumes[::step], *([volumes[-1]] if (len(volumes) - 1) % step else [])]
