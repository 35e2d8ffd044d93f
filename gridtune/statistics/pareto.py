"""How good a set of trade-offs is: hypervolume, and distance to a reference front.

Objectives are costs, to be small. Fronts are compared after they are brought to one scale, and the scale
belongs to the comparison, not to a front: `Scale.of(fronts)` takes it from all fronts that are compared, 0
being the least value and 1 the greatest of each objective over all their points, so that no objective
outweighs the other by its unit. Points with an infinite or undefined objective count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridtune.errors import MetricError

__all__ = ["REFERENCE", "Scale", "hypervolume", "igd_plus", "merge_fronts"]

Floats = npt.NDArray[np.float64]

#: The reference point, in both normalised objectives: beyond 1, so that the ends of a front count too.
REFERENCE = 1.1


@dataclass(frozen=True)
class Scale:
    """What is 0 and what is 1 in each objective.

    Attributes
    ----------
    least, greatest
        One value for each objective. Where they are equal, the objective counts as 0 throughout.
    """

    least: tuple[float, ...]
    greatest: tuple[float, ...]

    @classmethod
    def of(cls, fronts: Sequence[npt.ArrayLike]) -> Scale:
        """Return the scale of fronts that are to be compared, each of shape (points, objectives).

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

    def apply(self, front: npt.ArrayLike) -> Floats:
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
        Shape (points, objectives); dominated points do no harm.
    scale
        Of the comparison.
    reference
        The reference point in each normalised objective; points beyond it add nothing.

    Returns
    -------
    float
        Of `reference` to the power of the number of objectives; 0 for a front without points.

    References
    ----------
    E. Zitzler, L. Thiele, "Multiobjective optimization using evolutionary algorithms: a comparative case
    study", PPSN V, 1998.
    """
    from pymoo.indicators.hv import HV  # noqa: PLC0415 - takes long to import

    points = scale.apply(front)
    if len(points) == 0:
        return 0.0
    return float(HV(ref_point=np.full(points.shape[1], float(reference)))(points))


def igd_plus(front: npt.ArrayLike, true_front: npt.ArrayLike, scale: Scale) -> float:
    """Return the mean distance by which a front falls short of the points of a true one; 0 is best.

    From each point of the true front, to the nearest point of the front, and only the coordinates count in
    which that is worse.

    Parameters
    ----------
    front, true_front
        Shape (points, objectives).
    scale
        Of the comparison.

    Returns
    -------
    float
        Normalised; NaN if one of the fronts has no points.

    References
    ----------
    H. Ishibuchi, H. Masuda, Y. Tanigaki, Y. Nojima, "Modified distance calculation in generational distance
    and inverted generational distance", EMO 2015.
    """
    from pymoo.indicators.igd_plus import IGDPlus  # noqa: PLC0415 - takes long to import

    points, truth = scale.apply(front), scale.apply(true_front)
    if len(points) == 0 or len(truth) == 0:
        return float("nan")
    return float(IGDPlus(truth)(points))


def merge_fronts(fronts: Sequence[npt.ArrayLike]) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return the points that no point of any front dominates, and which front each is of.

    A point that several fronts have is listed for each of them. Two objectives.

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
    kept = np.ones(len(merged), bool)
    best, at = np.inf, np.inf
    for i, (first, second) in enumerate(merged.tolist()):
        if second < best:
            best, at = second, first
        elif (first, second) != (at, best):
            kept[i] = False
    return merged[kept], owner[kept]


def _finite(front: npt.ArrayLike) -> Floats:
    points = np.asarray(front, dtype=np.float64)
    if points.ndim != 2:
        raise MetricError(f"a front has the shape (points, objectives), not {points.shape}")
    return points[np.isfinite(points).all(axis=1)]
