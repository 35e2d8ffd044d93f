"""How far results are from the best that any policy can reach, where a system has a bound of it.

A metric named `<metric>_bound` is a bound of `<metric>`: a lower one where less is better, an upper one where
more is. Every ranking by `<metric>` then has a column with the gap between the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gridtune.report.cells import collect, value_matrix
from gridtune.types import FloatArray

__all__ = ["BOUND", "bounds_of", "gap_to_bound"]

#: What the name of a bound has after its metric's.
BOUND = "_bound"


def bounds_of(
    table: pa.Table, objective: str, columns: Sequence[str], parameters: Sequence[str]
) -> dict[tuple[object, ...], FloatArray]:
    """Return the bounds of an objective in each stratum, in the form of `value_matrix`.

    Parameters
    ----------
    table
        One row per cell.
    objective
        The metric to rank by.
    columns, parameters
        As of `collect`.

    Returns
    -------
    dict
        Stratum to bounds of shape (configurations, replicates); empty if no cell has one.
    """
    if f"metric.{objective}{BOUND}" not in table.column_names:
        return {}
    groups = collect(table, f"{objective}{BOUND}", columns, parameters)
    return {stratum: value_matrix(configurations) for stratum, configurations in groups.items()}


def gap_to_bound(values: FloatArray, bounds: FloatArray | None, direction: str) -> FloatArray:
    """Return by how much the mean of each row is worse than the mean of its bounds, as a share of the latter.

    Parameters
    ----------
    values, bounds
        Shape (configurations, replicates); NaN where there is none. Replicates without both are left out.
    direction
        "min" or "max": which values are better.

    Returns
    -------
    numpy.ndarray
        Shape (configurations,): Σ values / Σ bounds − 1, with the other sign for "max"; NaN without bounds,
        or where they are not above 0.
    """
    if bounds is None:
        return np.full(len(values), np.nan)
    both = np.isfinite(values) & np.isfinite(bounds)
    total, least = (np.where(both, columns, 0.0).sum(axis=1) for columns in (values, bounds))
    ratio = np.divide(total, least, out=np.full(len(values), np.nan), where=least > 0)
    return np.asarray((ratio - 1.0) * (1.0 if direction == "min" else -1.0))
