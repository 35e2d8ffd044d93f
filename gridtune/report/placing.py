"""The order of a ranking: complete configurations by their value, then those that lack replicates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from gridtune.types import FloatArray

__all__ = ["comparable_means", "means_of", "placed", "plain"]


def plain(value: Any) -> Any:
    """Return a NumPy number as Python's, NaN as None."""
    number = value.item() if hasattr(value, "item") else value
    return None if isinstance(number, float) and math.isnan(number) else number


def comparable_means(values: FloatArray, direction: str) -> FloatArray:
    """Return the mean of each configuration, those that lack replicates corrected for which ones they lack.

    Their mean is the best complete configuration's plus their mean difference to it on the replicates that
    both have. Without a complete one, or a replicate in common, it is that of their own replicates.

    Parameters
    ----------
    values
        Shape (configurations, replicates); NaN marks a missing replicate.
    direction
        "min" or "max".

    Returns
    -------
    numpy.ndarray
        Shape (configurations,); NaN for those without a replicate.
    """
    present = np.isfinite(values)
    means = means_of(values)
    whole = present.all(axis=1)
    if whole.all() or not whole.any():
        return means
    best = values[np.argmin(np.where(whole, means if direction == "min" else -means, math.inf))]
    return np.where(whole | ~present.any(axis=1), means, best.mean() + means_of(values - best))


def means_of(values: FloatArray) -> FloatArray:
    """Return the mean of each row's finite values; NaN for a row without."""
    counts = np.isfinite(values).sum(axis=1)
    return np.asarray(np.nansum(values, axis=1) / np.where(counts, counts, math.nan), dtype=np.float64)


def placed(
    rows: list[dict[str, Any]], direction: str, by: str, comparable: Iterable[float] | None = None
) -> list[dict[str, Any]]:
    """Return the rows in order, the complete ones with their rank; equal values share one.

    Parameters
    ----------
    rows
        Rows of a ranking.
    direction
        "min" or "max".
    by
        The column to rank by.
    comparable
        What to order the rows by instead where they lack replicates; None for that column.
    """
    sign = 1 if direction == "min" else -1
    values = [row[by] for row in rows] if comparable is None else comparable
    keys = [
        (
            row[by] is None or not row["complete"],
            row[by] is None,
            sign * (value if row[by] is not None else 0),
        )
        for row, value in zip(rows, values, strict=True)
    ]
    order = sorted(range(len(rows)), key=lambda index: (keys[index], rows[index]["configuration_id"] or ""))
    ordered = [rows[index] for index in order]
    place, last = 0, None
    for index, row in enumerate(ordered, start=1):
        if not row["complete"] or row[by] is None:
            row["rank"] = None
            continue
        if row[by] != last:
            place, last = index, row[by]
        row["rank"] = place
    return ordered
