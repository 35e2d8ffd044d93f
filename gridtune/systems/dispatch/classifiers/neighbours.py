"""Locally weighted learning with decision stumps, as WEKA's LWL does by default.

scikit-learn weights neighbours too, but takes their votes; it fits no model to them.

Sources: Atkeson, Moore and Schaal, "Locally weighted learning", Artificial Intelligence Review 11, 1997;
Frank, Hall and Pfahringer, "Locally weighted naive Bayes", UAI 2003 (kernel and scaling).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["entropy", "stump_predictor"]

#: Makes the farthest of the neighbours count a little.
_FARTHEST = 1.0001


class _Stored(NamedTuple):
    """The examples.

    Attributes
    ----------
    table
        Shape (n, d): quantities scaled to [0, 1].
    labels, weights
        Shape (n,): class numbers and weights.
    orders
        Shape (d, n), int64: the examples in order of each column.
    categorical
        Shape (d,): the categorical columns.
    """

    table: FloatArray
    labels: IntArray
    weights: FloatArray
    orders: IntArray
    categorical: BoolArray


def stump_predictor(
    table: FloatArray,
    labels: Any,
    weights: FloatArray,
    *,
    neighbours: int | None = None,
    categorical: Sequence[int] = (),
) -> Callable[[FloatArray], FloatArray]:
    """Return a function of rows, shape (q, d), that gives class shares by a stump on the examples near a row.

    For each row the examples are weighted by their distance (a linear kernel that falls to 0 at the farthest
    neighbour), a stump is fitted to them by entropy, and its leaf's class shares are the prediction.
    Quantities are scaled to [0, 1] by the examples' range; two categories are 0 or 1 apart.

    Parameters
    ----------
    table, labels, weights
        Examples, shape (n, d), their classes, numbered from 0 on, and their weights.
    neighbours
        Number of the nearest examples that count; None for all.
    categorical
        Categorical columns.
    """
    named = np.zeros(table.shape[1], np.bool_)
    named[list(categorical)] = True
    lowest = np.where(named, 0.0, table.min(axis=0))
    span = table.max(axis=0) - lowest
    span = np.where(named | (span == 0), 1.0, span)
    scaled = np.ascontiguousarray((table - lowest) / span)
    orders = np.ascontiguousarray(np.argsort(scaled, axis=0, kind="stable").T)
    labels = np.asarray(labels, np.int64)
    examples = _Stored(scaled, labels, np.asarray(weights, np.float64), orders, named)
    classes, near = int(labels.max()) + 1, min(neighbours or len(table), len(table))

    def predict(rows: FloatArray) -> FloatArray:
        out = np.empty((len(rows), classes))
        _fill_shares(examples, np.ascontiguousarray((rows - lowest) / span), near, out)
        return out

    return predict


@kernel()
def _fill_shares(examples, rows, near, out):
    """Fill in the class shares of rows, scaled like the examples, by a stump on so many near examples.

    An example's weight is its own times 1.0001 − d/d_k, where d is its Euclidean distance and d_k that of
    the farthest neighbour; two categories are 0 or 1 apart.
    """
    count, columns = examples.table.shape
    distance, local = np.empty(count), np.empty(count)
    for query in range(rows.shape[0]):
        for example in range(count):
            squared = 0.0
            for column in range(columns):
                apart = examples.table[example, column] - rows[query, column]
                squared += (1.0 if apart != 0.0 else 0.0) if examples.categorical[column] else apart * apart
            distance[example] = np.sqrt(squared)
        farthest = distance.max() if near == count else np.partition(distance, near - 1)[near - 1]
        neighbour = np.empty(count, np.int64)
        number = 0
        for example in range(count):
            local[example] = 0.0
            if distance[example] <= farthest:
                relative = distance[example] / farthest if farthest > 0.0 else 0.0
                local[example] = examples.weights[example] * (_FARTHEST - relative)
                neighbour[number] = example
                number += 1
        _fit_stump(examples, local, neighbour[:number], rows[query], out[query])


@kernel()
def _fit_stump(examples, weights, near, row, out):
    """Split near examples where the classes' entropy falls most; fill in the shares on the row's side."""
    table, labels, categorical = examples.table, examples.labels, examples.categorical
    total = np.zeros(out.size)
    for example in near:
        total[labels[example]] += weights[example]
    best, side = np.inf, total.copy()
    few = near.size * 8 < table.shape[0]
    for column in range(table.shape[1]):
        order = near[np.argsort(table[near, column])] if few else examples.orders[column]
        below = np.zeros(out.size)
        # The examples of one category are one side, so the sum starts again at each category.
        previous, started = 0.0, False
        for place in range(order.size + 1):
            ended = place == order.size
            if not ended and weights[order[place]] == 0.0:
                continue
            value = previous + 1.0 if ended else table[order[place], column]
            # The last border of a quantity separates nothing.
            if started and value != previous and not (ended and not categorical[column]):
                impurity = entropy(below) + entropy(total - below)
                if impurity < best - 1e-12:
                    best = impurity
                    inside = (
                        row[column] == previous
                        if categorical[column]
                        else row[column] <= 0.5 * (previous + value)
                    )
                    side = below.copy() if inside else total - below
                if categorical[column]:
                    below[:] = 0.0
            if not ended:
                below[labels[order[place]]] += weights[order[place]]
                previous, started = value, True
    whole = side.sum()
    if whole <= 0.0:
        side, whole = total, total.sum()
    for label in range(out.size):
        out[label] = side[label] / whole


@kernel()
def entropy(counts):
    """Return the entropy of weights, in bits, times their sum."""
    whole, bits = 0.0, 0.0
    for count in counts:
        if count > 1e-12:
            whole += count
            bits -= count * np.log2(count)
    return bits + whole * np.log2(whole) if whole > 0.0 else 0.0
