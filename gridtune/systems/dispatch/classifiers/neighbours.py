"""Locally weighted learning: a decision stump for every query, on the examples near it.

scikit-learn weights neighbours too, but takes their votes; it fits no model to them.

Sources: Atkeson, Moore and Schaal, "Locally weighted learning", Artificial Intelligence Review 11, 1997;
Frank, Hall and Pfahringer, "Locally weighted naive Bayes", UAI 2003 (kernel and scaling).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gridtune.core.compiled import kernel
from gridtune.types import FloatArray

__all__ = ["LocallyWeightedClassifier"]


class LocallyWeightedClassifier(ClassifierMixin, BaseEstimator):
    """Locally weighted learning with decision stumps, as WEKA's LWL does by default.

    For each query the examples are weighted by their distance (a linear kernel that falls to 0 at the
    farthest neighbour), a stump is fitted to them by entropy, and its leaf's class shares are the prediction.
    Quantities are scaled to [0, 1] by the examples' range; two categories are 0 or 1 apart.

    Parameters
    ----------
    neighbours
        How many of the nearest examples count; None for all.
    categorical
        Categorical columns.

    Notes
    -----
    Sources: Atkeson, Moore and Schaal, "Locally weighted learning", Artificial Intelligence Review 11, 1997;
    Frank, Hall and Pfahringer, "Locally weighted naive Bayes", UAI 2003 (kernel and scaling).
    """

    def __init__(self, neighbours: int | None = None, categorical: Sequence[int] = ()) -> None:
        self.neighbours = neighbours
        self.categorical = categorical

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Store examples, shape (n, d), and their classes, shape (n,)."""
        if self.neighbours is not None and self.neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, but got {self.neighbours}")
        table, classes = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(classes)
        self.weights_ = _check_sample_weight(sample_weight, table, dtype=np.float64)
        self.classes_, labels = np.unique(classes, return_inverse=True)
        self.labels_ = labels.astype(np.int64)
        self.categorical_ = np.zeros(table.shape[1], np.bool_)
        self.categorical_[list(self.categorical)] = True
        self.lowest_ = np.where(self.categorical_, 0.0, table.min(axis=0))
        span = table.max(axis=0) - self.lowest_
        self.span_ = np.where(self.categorical_ | (span == 0), 1.0, span)
        self.table_ = self._scaled(table)
        self.orders_ = np.ascontiguousarray(np.argsort(self.table_, axis=0, kind="stable").T)
        return self

    def _scaled(self, table: FloatArray) -> FloatArray:
        return np.ascontiguousarray((table - self.lowest_) / self.span_)

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return class probabilities, shape (n, classes)."""
        check_is_fitted(self)
        return self.shares(validate_data(self, X, reset=False, dtype=np.float64))

    def shares(self, rows: FloatArray) -> FloatArray:
        """Return class probabilities of rows without checking them."""
        out = np.empty((len(rows), len(self.classes_)))
        locally_weighted(
            self.table_,
            self.labels_,
            self.weights_,
            self.orders_,
            self.categorical_,
            self._scaled(rows),
            self.neighbours or 0,
            len(self.classes_),
            out,
        )
        return out

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


#: Makes the farthest of the neighbours count a little.
_FARTHEST = 1.0001


@kernel()
def locally_weighted(table, labels, weights, orders, categorical, rows, neighbours, classes, out):
    """Return each row's class probabilities by a decision stump on the examples near it.

    An example's weight is its own times 1.0001 − d/d_k, where d is its Euclidean distance and d_k that of
    the farthest neighbour (a linear kernel); two categories are 0 or 1 apart.

    Parameters
    ----------
    table
        Shape (n, d): the examples, quantities scaled to [0, 1].
    labels, weights
        Shape (n,): class numbers and weights.
    orders
        Shape (d, n), int64: the examples in order of each column.
    categorical
        Shape (d,), bool: the categorical columns.
    rows
        Shape (q, d): queries, scaled alike.
    neighbours
        How many; 0 or less for all.
    classes
        Number of classes.
    out
        Shape (q, classes): filled in.
    """
    count, columns = table.shape
    near = count if neighbours <= 0 else min(neighbours, count)
    distance, local = np.empty(count), np.empty(count)
    for query in range(rows.shape[0]):
        for example in range(count):
            squared = 0.0
            for column in range(columns):
                apart = table[example, column] - rows[query, column]
                squared += (1.0 if apart != 0.0 else 0.0) if categorical[column] else apart * apart
            distance[example] = np.sqrt(squared)
        farthest = distance.max() if near == count else np.partition(distance, near - 1)[near - 1]
        neighbour = np.empty(count, np.int64)
        number = 0
        for example in range(count):
            local[example] = 0.0
            if distance[example] <= farthest:
                relative = distance[example] / farthest if farthest > 0.0 else 0.0
                local[example] = weights[example] * (_FARTHEST - relative)
                neighbour[number] = example
                number += 1
        _stump(
            table, labels, local, orders, categorical, neighbour[:number], rows[query], classes, out[query]
        )


@kernel()
def _stump(table, labels, weights, orders, categorical, examples, row, classes, out):
    """Split examples once, where the classes' entropy falls most; fill in the shares on the row's side."""
    total = np.zeros(classes)
    for example in examples:
        total[labels[example]] += weights[example]
    best, side = np.inf, total.copy()
    few = examples.size * 8 < table.shape[0]
    for column in range(table.shape[1]):
        order = examples[np.argsort(table[examples, column])] if few else orders[column]
        below = np.zeros(classes)
        # The examples of one category are one side, so the sum starts again at each category.
        previous, started = 0.0, False
        for place in range(order.size + 1):
            ended = place == order.size
            if not ended and weights[order[place]] == 0.0:
                continue
            value = previous + 1.0 if ended else table[order[place], column]
            # The last border of a quantity separates nothing.
            if started and value != previous and not (ended and not categorical[column]):
                entropy = _entropy(below) + _entropy(total - below)
                if entropy < best - 1e-12:
                    best = entropy
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
    for label in range(classes):
        out[label] = side[label] / whole


@kernel()
def _entropy(counts):
    """Return the entropy of class weights times their sum."""
    whole, entropy = 0.0, 0.0
    for count in counts:
        if count > 1e-12:
            whole += count
            entropy -= count * np.log2(count)
    return entropy + whole * np.log2(whole) if whole > 0.0 else 0.0
