"""Selection of attributes by correlation (CFS), as WEKA does by default.

The chosen set is the one whose members say most about the class and least about each other. Quantities are
cut into intervals first, where that shortens the description (MDL).

Sources: Hall, "Correlation-based feature selection for machine learning", PhD thesis, Waikato, 1999 (merit,
symmetrical uncertainty); Fayyad and Irani, "Multi-interval discretization of continuous-valued attributes",
IJCAI 1993 (intervals); Witten and Frank, "Data Mining", 2nd edition, section 7.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from scipy.special import xlogy

from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["select_attributes"]


def select_attributes(table: FloatArray, labels: IntArray, *, categorical: Sequence[int] = ()) -> BoolArray:
    """Return which attributes to keep, shape (d,): the set of the largest merit, of several the smallest.

    The merit of k attributes is k·r / √(k + k·(k − 1)·s), where r is their mean symmetrical uncertainty with
    the class and s that with each other. Where no attribute tells anything of the class, all are kept.

    Parameters
    ----------
    table
        Examples, shape (n, d): all sets are tried, so d is small.
    labels
        Shape (n,): their classes, numbered from 0 on.
    categorical
        Categorical columns; the others are quantities.
    """
    columns = table.shape[1]
    values = [
        table[:, column].astype(np.int64)
        if column in categorical
        else np.searchsorted(_cut_points(table[:, column], labels), table[:, column])
        for column in range(columns)
    ]
    with_class = np.array([_symmetrical_uncertainty(value, labels) for value in values])
    between = np.zeros((columns, columns))
    for one, other in combinations(range(columns), 2):
        between[one, other] = _symmetrical_uncertainty(values[one], values[other])
    best, merit = tuple(range(columns)), 0.0
    for size in range(1, columns + 1):
        for kept in combinations(range(columns), size):
            pairs = sum(between[one, other] for one, other in combinations(kept, 2))
            own = float(with_class[list(kept)].sum()) / np.sqrt(size + 2 * pairs)
            if own > merit + 1e-9:
                best, merit = kept, own
    return np.isin(np.arange(columns), best)


def _symmetrical_uncertainty(one: IntArray, other: IntArray) -> float:
    """Return 2·(H(X) + H(Y) − H(X, Y)) / (H(X) + H(Y)) of two columns of categories; 0 of constant ones."""
    _, one = np.unique(one, return_inverse=True)
    _, other = np.unique(other, return_inverse=True)
    together = np.bincount(one * (int(other.max()) + 1) + other)
    single = float(_entropy(np.bincount(one)) + _entropy(np.bincount(other)))
    return 2.0 * (single - float(_entropy(together))) / single if single > 0 else 0.0


def _cut_points(values: FloatArray, labels: IntArray) -> FloatArray:
    """Return the borders of a quantity's intervals, ascending; none where no cut pays.

    A value belongs to the interval that ends at the first border not below it.
    """
    order = np.argsort(values, kind="stable")
    return np.array(sorted(_cuts(values[order], np.eye(int(labels.max()) + 1)[labels[order]])))


def _cuts(values: FloatArray, classes: FloatArray) -> Iterator[float]:
    """Yield the cuts of sorted values, `classes` one-hot rows: the best, then those of either side."""
    count = len(values)
    places = np.flatnonzero(values[1:] > values[:-1]) + 1
    if len(places) == 0:
        return
    whole, below = classes.sum(axis=0), np.cumsum(classes, axis=0)[places - 1]
    left, right = _entropy(below), _entropy(whole - below)
    left_share = places / count
    remaining = left_share * left + (1 - left_share) * right
    best = int(np.argmin(remaining))
    gain = _entropy(whole) - remaining[best]
    kinds, kinds_left, kinds_right = (
        int((counts > 0).sum()) for counts in (whole, below[best], whole - below[best])
    )
    lost = kinds * _entropy(whole) - kinds_left * left[best] - kinds_right * right[best]
    price = (np.log2(count - 1) + np.log2(3.0**kinds - 2) - lost) / count
    if gain <= price:
        return
    place = int(places[best])
    yield float(0.5 * (values[place - 1] + values[place]))
    yield from _cuts(values[:place], classes[:place])
    yield from _cuts(values[place:], classes[place:])


def _entropy(counts: FloatArray | IntArray) -> FloatArray:
    """Return the entropy, in bits, of counts along the last axis."""
    total = counts.sum(axis=-1, keepdims=True)
    shares = counts / np.where(total > 0, total, 1)
    entropy: FloatArray = -(xlogy(shares, shares) / np.log(2)).sum(axis=-1)
    return entropy
