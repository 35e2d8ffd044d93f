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
from gridtune.types import BoolArray, FloatArray, IntArray, UInt64Array

#: Makes the farthest of the neighbours count a little.
_FARTHEST = 1.0001
_LN_2 = float(np.log(2.0))


class _Stored(NamedTuple):
    """The examples.

    Attributes
    ----------
    table
        Shape (n, d): quantities scaled to [0, 1].
    labels
        Shape (n,): class numbers.
    weights
        Shape (w, n): of several weightings.
    orders, values
        Shape (d, m): the examples that have a weight in order of each column, and their values there.
    ends, borders
        Shape (d, m) and (d,), int64: places in that order where a split can be best, as many as `borders`
        says: the ends of the examples below a border, or of those of a category.
    members, passed
        Shape (d, classes, m): those of one class alone in the same order, and how many of them are
        below each border. Indices that cannot be negative take half the time.
    categorical
        Shape (d,): the categorical columns.
    """

    table: FloatArray
    labels: IntArray
    weights: FloatArray
    orders: IntArray
    values: FloatArray
    ends: IntArray
    borders: IntArray
    members: UInt64Array
    passed: UInt64Array
    categorical: BoolArray


def stump_shares(
    table: FloatArray,
    labels: Any,
    weights: Sequence[FloatArray],
    *,
    neighbours: Sequence[int | None],
    categorical: Sequence[int] = (),
) -> Callable[[FloatArray], FloatArray]:
    """Return a function of rows, shape (q, d), that gives class shares by a stump on the examples near a row.

    Its result has shape (w, s, q, classes): for several weights and numbers of neighbours at once. For each
    row the examples are weighted by their distance (a linear kernel that falls to 0 at the farthest
    neighbour), a stump is fitted to them by entropy, and its leaf's class shares are the prediction.
    Quantities are scaled to [0, 1] by the examples' range; two categories are 0 or 1 apart.

    Parameters
    ----------
    table, labels, weights
        Examples, shape (n, d), their classes, numbered from 0 on, and w times their weights.
    neighbours
        s numbers of the nearest examples that count; None for all.
    categorical
        Categorical columns.
    """
    named = np.zeros(table.shape[1], np.bool_)
    named[list(categorical)] = True
    lowest = np.where(named, 0.0, table.min(axis=0))
    span = table.max(axis=0) - lowest
    span = np.where(named | (span == 0), 1.0, span)
    scaled = np.ascontiguousarray((table - lowest) / span)
    labels, weighed = np.asarray(labels, np.int64), np.array(weights, np.float64)
    some = np.flatnonzero(weighed.any(axis=0))
    orders = np.ascontiguousarray(some[np.argsort(scaled[some], axis=0, kind="stable")].T)
    values = np.ascontiguousarray(np.take_along_axis(scaled.T, orders, axis=1))
    classes = int(labels.max()) + 1
    ends, borders = np.empty(orders.shape, np.int64), np.empty(len(orders), np.int64)
    members, passed = np.zeros((2, len(orders), classes, len(some)), np.uint64)
    examples = _Stored(scaled, labels, weighed, orders, values, ends, borders, members, passed, named)
    _find_borders(examples)
    near = np.array([min(number or len(table), len(table)) for number in neighbours])

    def predict(rows: FloatArray) -> FloatArray:
        out = np.empty((len(weighed), len(near), len(rows), classes))
        _fill_shares(examples, np.ascontiguousarray((rows - lowest) / span), near, out)
        return out

    return predict


@kernel()
def _find_borders(examples):
    """Fill in `ends`, `borders`, `members` and `passed`."""
    for column in range(examples.values.shape[0]):
        order, value, start, found = examples.orders[column], examples.values[column], 0, 0
        label, counts = examples.labels[order], np.zeros(examples.members.shape[1], np.int64)
        while start < value.size:
            end, pure = _same_value(value, label, start)
            for place in range(start, end):
                own = label[place]
                examples.members[column, own, counts[own]] = order[place]
                counts[own] += 1
            if examples.categorical[column] or (end < value.size and not _goes_on(value, label, end, pure)):
                examples.ends[column, found] = end
                examples.passed[column, :, found] = counts
                found += 1
            start = end
        examples.borders[column] = found


@kernel()
def _same_value(value, label, start):
    """Return where the examples of a value end, from its first on, and their class, or `_MIXED`."""
    end, pure = start, label[start]
    while end < value.size and value[end] == value[start]:
        pure = pure if label[end] == pure else _MIXED
        end += 1
    return end, pure


@kernel()
def _fill_shares(examples, rows, near, out):
    """Fill in the class shares of rows, scaled like the examples, by a stump on so many near examples.

    An example's weight is its own times 1.0001 − d/d_k, where d is its Euclidean distance and d_k that of
    the farthest neighbour; two categories are 0 or 1 apart.
    """
    count, columns = examples.table.shape
    distance, neighbour = np.empty(count), np.empty(count, np.int64)
    by_column = np.ascontiguousarray(examples.table.T)
    local = np.empty(examples.weights.shape)
    scratch = (np.empty((out.shape[3], count)), np.empty(count))
    for query in range(rows.shape[0]):
        distance[:] = 0.0
        for column in range(columns):
            _add_squares(by_column[column], rows[query, column], examples.categorical[column], distance)
        distance[:] = np.sqrt(distance)
        ends = _farthest(distance, near)
        for setting in range(near.size):
            number, farthest = 0, ends[setting]
            local[:] = 0.0
            for example in range(count):
                if distance[example] <= farthest:
                    relative = distance[example] / farthest if farthest > 0.0 else 0.0
                    for weighting in range(local.shape[0]):
                        own = examples.weights[weighting, example]
                        local[weighting, example] = own * (_FARTHEST - relative)
                    neighbour[number] = example
                    number += 1
            _fit_stumps(examples, local, neighbour[:number], rows[query], scratch, out[:, setting, query])


@kernel()
def _add_squares(values, value, categorical, out):
    """Add the squared distances of values from one; two categories are 0 or 1 apart."""
    for example in range(values.size):
        apart = values[example] - value
        square = 1.0 if apart != 0.0 else 0.0
        out[example] += square if categorical else apart * apart


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
def _fit_stumps(examples, weights, near, row, scratch, out):
    """Split near examples where the classes' entropy falls most; fill in the shares on the row's side.

    `weights`, shape (w, n), and `out`, shape (w, classes), have a row for each weighting.
    """
    table, categorical = examples.table, examples.categorical
    weightings, classes = out.shape
    total, below, best = np.zeros(out.shape), np.zeros(classes), np.full(weightings, np.inf)
    for weighting in range(weightings):
        for example in near:
            total[weighting, examples.labels[example]] += weights[weighting, example]
    side = total.copy()
    few, every = near.size * 8 < table.shape[0], near.size == table.shape[0]
    value, label, weight = np.empty(near.size), np.empty(near.size, np.int64), np.empty(near.size)
    for column in range(table.shape[1]):
        order = near[np.argsort(table[near, column])] if few else examples.orders[column]
        for weighting in range(weightings):
            all_of = total[weighting]
            if every:
                found, border = _best_border_of_all(
                    examples, column, weights[weighting], all_of, below, best[weighting], scratch
                )
            else:
                size = 0
                for example in order:
                    if weights[weighting, example] != 0.0:
                        value[size], label[size] = table[example, column], examples.labels[example]
                        weight[size] = weights[weighting, example]
                        size += 1
                found, border = _best_border(
                    value[:size],
                    label[:size],
                    weight[:size],
                    categorical[column],
                    all_of,
                    below,
                    best[weighting],
                )
            if found < best[weighting]:
                best[weighting] = found
                inside = row[column] == border if categorical[column] else row[column] <= border
                side[weighting] = below if inside else all_of - below
    for weighting in range(weightings):
        own = side[weighting] if side[weighting].sum() > 0.0 else total[weighting]
        out[weighting] = own / own.sum()


@kernel()
def _best_border_of_all(examples, column, weights, total, side, best, scratch):
    """Return the same as `_best_border` of all examples; their borders are known beforehand."""
    value, members, passed = examples.values[column], examples.members[column], examples.passed[column]
    ends, named = examples.ends[column, : examples.borders[column]], examples.categorical[column]
    below, bound = scratch
    for number in range(total.size):
        weight, start = 0.0, np.uint64(0)
        for border in range(ends.size):
            # The examples of one category are one side, so the sum starts again.
            weight = 0.0 if named else weight
            for place in range(start, passed[number, border]):
                weight += weights[members[number, place]]
            below[number, border] = weight
            start = passed[number, border]
    for border in range(ends.size):
        bound[border] = -np.inf
        if total.size == 2:
            first, second = below[0, border], below[1, border]
            bound[border] = _least_entropy(first, second) + _least_entropy(
                total[0] - first, total[1] - second
            )
    found, split, margin = np.inf, 0.0, 1e-9 * total.sum()
    for border in range(ends.size):
        # Logarithms take long, and most borders are far from the best.
        if bound[border] > best + margin:
            continue
        own = below[:, border]
        impurity = entropy(own) + entropy(total - own)
        if impurity < best - 1e-12:
            found = best = impurity
            last = value[ends[border] - 1]
            split = last if named else 0.5 * (last + value[ends[border]])
            side[:] = own
    return found, split


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
        end, pure = _same_value(value, label, start)
        if categorical:
            below[:] = 0.0
        for place in range(start, end):
            below[label[place]] += weight[place]
        begin, start = start, end
        if not categorical and (end == value.size or _goes_on(value, label, end, pure)):
            continue
        for number in range(total.size):
            above[number] = total[number] - below[number]
        # Logarithms take long, and most borders are far from the best.
        if total.size == 2:
            least = _least_entropy(below[0], below[1]) + _least_entropy(above[0], above[1])
            if least > best + margin:
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
def _least_entropy(first, second):
    """Return a lower bound of the entropy of two classes' weights, without a logarithm.

    It is 1 − Σ uᵏ/(2k (2k − 1))/ln 2 bits for u = (1 − 2p)², times the sum of the weights; of the terms
    beyond the fourth, uᵏ is at most u⁵. So it is less than the entropy by 0.03 bits at most.
    """
    whole = first + second
    if whole <= 0.0:
        return 0.0
    apart = (first - second) / whole
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
