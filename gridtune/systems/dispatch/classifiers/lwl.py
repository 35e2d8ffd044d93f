"""Locally weighted learning: a decision stump for every query, on the examples near it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gridtune.systems.dispatch.classifiers.kernels import locally_weighted
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
