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

__all__ = ["entropy", "least_entropy", "stump_predictor", "stump_shares"]

#: Makes the farthest of the neighbours count a little.
_FARTHEST = 1.0001
_LN_2 = float(np.log(2.0))


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
    shares = stump_shares(table, labels, weights, neighbours=[neighbours], categorical=categorical)
    return lambda rows: shares(rows)[0]


def stump_shares(
    table: FloatArray,
    labels: Any,
    weights: FloatArray,
    *,
    neighbours: Sequence[int | None],
    categorical: Sequence[int] = (),
) -> Callable[[FloatArray], FloatArray]:
    """Return the function of `stump_predictor` for several numbers of neighbours, shape (s, q, classes)."""
    named = np.zeros(table.shape[1], np.bool_)
    named[list(categorical)] = True
    lowest = np.where(named, 0.0, table.min(axis=0))
    span = table.max(axis=0) - lowest
    span = np.where(named | (span == 0), 1.0, span)
    scaled = np.ascontiguousarray((table - lowest) / span)
    orders = np.ascontiguousarray(np.argsort(scaled, axis=0, kind="stable").T)
    labels = np.asarray(labels, np.int64)
    examples = _Stored(scaled, labels, np.asarray(weights, np.float64), orders, named)
    classes = int(labels.max()) + 1
    near = np.array([min(number or len(table), len(table)) for number in neighbours])

    def predict(rows: FloatArray) -> FloatArray:
        out = np.empty((len(near), len(rows), classes))
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
    distance, local, neighbour = np.empty(count), np.empty(count), np.empty(count, np.int64)
    for query in range(rows.shape[0]):
        for example in range(count):
            squared = 0.0
            for column in range(columns):
                apart = examples.table[example, column] - rows[query, column]
                squared += (1.0 if apart != 0.0 else 0.0) if examples.categorical[column] else apart * apart
            distance[example] = np.sqrt(squared)
        ends = _farthest(distance, near)
        for setting in range(near.size):
            number, farthest = 0, ends[setting]
            for example in range(count):
                local[example] = 0.0
                if distance[example] <= farthest:
                    relative = distance[example] / farthest if farthest > 0.0 else 0.0
                    local[example] = examples.weights[example] * (_FARTHEST - relative)
                    neighbour[number] = example
                    number += 1
            _fit_stump(examples, local, neighbour[:number], rows[query], out[setting, query])


@kernel()
def _farthest(distance, near):
    """Return the distance of the farthest of so many nearest examples, for each number."""
    ends, most = np.empty(near.size), 0
    for number in near:
        most = max(most, number if number < distance.size else 0)
    if most > 0:
        nearest = np.sort(np.partition(distance, most - 1)[:most])
    for setting in range(near.size):
        ends[setting] = nearest[near[setting] - 1] if near[setting] <= most else distance.max()
    return ends


@kernel()
def _fit_stump(examples, weights, near, row, out):
    """Split near examples where the classes' entropy falls most; fill in the shares on the row's side."""
    table, labels, categorical = examples.table, examples.labels, examples.categorical
    total, below = np.zeros(out.size), np.zeros(out.size)
    for example in near:
        total[labels[example]] += weights[example]
    best, side = np.inf, total.copy()
    few = near.size * 8 < table.shape[0]
    value, label, weight = np.empty(near.size), np.empty(near.size, np.int64), np.empty(near.size)
    for column in range(table.shape[1]):
        order = near[np.argsort(table[near, column])] if few else examples.orders[column]
        size = 0
        for example in order:
            if weights[example] != 0.0:
                value[size], label[size] = table[example, column], labels[example]
                weight[size] = weights[example]
                size += 1
        found, border = _best_border(
            value[:size], label[:size], weight[:size], categorical[column], total, below, best
        )
        if found < best:
            best = found
            inside = row[column] == border if categorical[column] else row[column] <= border
            side[:] = below if inside else total - below
    whole = side.sum()
    if whole <= 0.0:
        side, whole = total, total.sum()
    for number in range(out.size):
        out[number] = side[number] / whole


@kernel()
def _best_border(value, label, weight, categorical, total, side, best):
    """Return the least entropy of a split of sorted examples, and its border; infinity if none beats `best`.

    `side` is filled in with the weight of each class below the border, or of the category. Of a quantity the
    border is between two values; its last one separates nothing.
    """
    found, border, margin = np.inf, 0.0, 1e-9 * total.sum()
    below, above = np.zeros(total.size), np.zeros(total.size)
    start = 0
    while start < value.size:
        # The examples of one value; those of one category are one side, so the sum starts again.
        end, pure = start, label[start]
        if categorical:
            below[:] = 0.0
        while end < value.size and value[end] == value[start]:
            below[label[end]] += weight[end]
            pure = pure if label[end] == pure else _MIXED
            end += 1
        begin, start = start, end
        if not categorical and (end == value.size or _goes_on(value, label, end, pure)):
            continue
        for number in range(total.size):
            above[number] = total[number] - below[number]
        # Logarithms take long, and most borders are far from the best.
        if total.size == 2 and least_entropy(below) + least_entropy(above) > best + margin:
            continue
        impurity = entropy(below) + entropy(above)
        if impurity < best - 1e-12:
            found = best = impurity
            border = value[begin] if categorical else 0.5 * (value[begin] + value[end])
            side[:] = below
    return found, border


#: Instead of a class: the examples of a value are of several.
_MIXED = -1


@kernel()
def _goes_on(value, label, place, pure):
    """Tell whether all examples of the value that begins at a place are of this class.

    Between two values whose examples are of one class the entropy is least at neither (Fayyad and Irani, "On
    the handling of continuous-valued attributes in decision tree generation", Machine Learning 8, 1992).
    """
    if pure == _MIXED:
        return False
    later = place
    while later < value.size and value[later] == value[place]:
        if label[later] != pure:
            return False
        later += 1
    return True


@kernel()
def least_entropy(counts):
    """Return a lower bound of the entropy of two classes' weights, without a logarithm.

    It is 1 − Σ uᵏ/(2k (2k − 1))/ln 2 bits for u = (1 − 2p)², times the sum of the weights; of the terms
    beyond the fourth, uᵏ is at most u⁵. So it is less than the entropy by 0.03 bits at most.
    """
    whole = counts[0] + counts[1]
    if whole <= 0.0:
        return 0.0
    apart = (counts[0] - counts[1]) / whole
    u = apart * apart
    beyond = _LN_2 - 1.0 / 2.0 - 1.0 / 12.0 - 1.0 / 30.0 - 1.0 / 56.0
    terms = u * (1.0 / 2.0 + u * (1.0 / 12.0 + u * (1.0 / 30.0 + u * (1.0 / 56.0 + u * beyond))))
    return whole * (1.0 - terms / _LN_2)


@kernel()
def entropy(counts):
    """Return the entropy of weights, in bits, times their sum."""
    whole, bits = 0.0, 0.0
    for count in counts:
        if count > 1e-12:
            whole += count
            bits -= count * np.log2(count)
    return bits + whole * np.log2(whole) if whole > 0.0 else 0.0
