"""Quality of Pareto fronts: hypervolume, and distance to a reference front.

Objectives are minimised. Fronts are compared on one scale, which belongs to the comparison, not to a front:
in `Scale.of(fronts)`, 0 is the least value and 1 the greatest of each objective over all points of the fronts
compared, so that no objective outweighs another by its unit. Points with an infinite or undefined objective
are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import moocore
import numpy as np
import numpy.typing as npt

from gridtune.errors import MetricError
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["REFERENCE", "Scale", "hypervolume", "igd_plus", "merge_fronts", "nondominated"]


#: The reference point in each normalised objective: above 1, so that the ends of a front count too.
REFERENCE = 1.1


@dataclass(frozen=True)
class Scale:
    """The values that become 0 and 1 in each objective.

    Attributes
    ----------
    least, greatest
        One value for each objective. Where they are equal, the objective counts as 0.
    """

    least: tuple[float, ...]
    greatest: tuple[float, ...]

    @classmethod
    def of(cls, fronts: Sequence[npt.ArrayLike]) -> Scale:
        """Return the scale for comparing fronts, each of shape (points, objectives).

        Raises
        ------
        MetricError
            If there is no finite point among them.
        """
        points = [_finite(front) for front in fronts]
        if not sum(map(len, points)):
            raise MetricError("no front has a finite point: there is nothing to compare")
        merged = np.concatenate([front for front in points if len(front)])
        return cls(tuple(merged.min(axis=0).tolist()), tuple(merged.max(axis=0).tolist()))

    def apply(self, front: npt.ArrayLike) -> FloatArray:
        """Return the finite points of a front on this scale, shape (points, objectives)."""
        points, least = _finite(front), np.array(self.least)
        span = np.array(self.greatest) - least
        if points.shape[1] != len(least):
            raise MetricError(f"a scale of {len(least)} objectives, and points of {points.shape[1]}")
        return np.divide(points - least, span, out=np.zeros_like(points), where=span > 0)


def hypervolume(front: npt.ArrayLike, scale: Scale, *, reference: float = REFERENCE) -> float:
    """Return the share of the space below the reference point that some point of the front dominates.

    Parameters
    ----------
    front
        Shape (points, objectives); dominated points are allowed.
    scale
        The scale of the comparison.
    reference
        The reference point in each normalised objective; points above it add nothing.

    Returns
    -------
    float
        At most `reference` to the power of the number of objectives; 0 for a front without points.

    References
    ----------
    E. Zitzler, L. Thiele, "Multiobjective optimization using evolutionary algorithms: a comparative case
    study", PPSN V, 1998.
    """
    points = scale.apply(front)
    if len(points) == 0:
        return 0.0
    return float(moocore.hypervolume(points, ref=np.full(points.shape[1], float(reference))))


def igd_plus(front: npt.ArrayLike, true_front: npt.ArrayLike, scale: Scale) -> float:
    """Return the mean distance from each point of a true front to the nearest point of a front; 0 is best.

    Only the coordinates in which the front's point is worse count.

    Parameters
    ----------
    front, true_front
        Shape (points, objectives).
    scale
        The scale of the comparison.

    Returns
    -------
    float
        Normalised; NaN if one of the fronts has no points.

    References
    ----------
    H. Ishibuchi, H. Masuda, Y. Tanigaki, Y. Nojima, "Modified distance calculation in generational distance
    and inverted generational distance", EMO 2015.
    """
    points, truth = scale.apply(front), scale.apply(true_front)
    if len(points) == 0 or len(truth) == 0:
        return float("nan")
    return float(moocore.igd_plus(points, ref=truth))


def nondominated(points: npt.ArrayLike) -> BoolArray:
    """Return which points no other point dominates; equal points are kept together.

    Parameters
    ----------
    points
        Shape (points, objectives), finite.
    """
    costs = np.asarray(points, dtype=np.float64)
    return np.asarray(moocore.is_nondominated(costs, keep_weakly=True), dtype=np.bool_)


def merge_fronts(fronts: Sequence[npt.ArrayLike]) -> tuple[FloatArray, IntArray]:
    """Return the points that no point of any front dominates, and the front of each.

    A point that several fronts have is listed for each of them.

    Parameters
    ----------
    fronts
        Shape (points, 2) each.

    Returns
    -------
    points, owner
        Shape (n, 2) by ascending first objective, and (n,), int64.
    """
    points = [_finite(front) for front in fronts]
    owner = np.repeat(np.arange(len(points)), [len(front) for front in points])
    merged = np.concatenate([front.reshape(-1, 2) for front in points])
    order = np.lexsort((owner, merged[:, 1], merged[:, 0]))
    merged, owner = merged[order], owner[order]
    best = nondominated(merged)
    return merged[best], owner[best]


def _finite(front: npt.ArrayLike) -> FloatArray:
    points = np.asarray(front, dtype=np.float64)
    if points.ndim != 2:
        raise MetricError(f"a front has the shape (points, objectives), not {points.shape}")
    return points[np.isfinite(points).all(axis=1)]
