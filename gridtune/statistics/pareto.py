"""Quality of Pareto fronts: hypervolume.

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
from gridtune.types import FloatArray

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


def _finite(front: npt.ArrayLike) -> FloatArray:
    points = np.asarray(front, dtype=np.float64)
    if points.ndim != 2:
        raise MetricError(f"a front has the shape (points, objectives), not {points.shape}")
    return points[np.isfinite(points).all(axis=1)]
