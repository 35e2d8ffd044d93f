"""Compiled predictions of models that scikit-learn fits: boosted trees and naive Bayes.

For the few rows of a decision scikit-learn's checks take longer than the prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, IntArray

__all__ = ["FlatTrees", "MixedNaiveBayes", "flat_boosting", "mixed_bayes"]


class FlatTrees(NamedTuple):
    """Trees whose leaves are added up: `first` holds the roots, the other columns one entry a node."""

    first: IntArray
    left: IntArray
    right: IntArray
    feature: IntArray
    threshold: FloatArray
    value: FloatArray
    base: float

    def sums(self, rows: npt.NDArray[Any]) -> FloatArray:
        """Return the sum of the trees' values for each row, shape (n,)."""
        out = np.empty(len(rows))
        tree_sum(self.first, self.left, self.right, self.feature, self.threshold, self.value, rows, out)
        return out + self.base


def flat_boosting(model: Any) -> FlatTrees:
    """Return the trees of a fitted HistGradientBoosting model of one output, in its raw units.

    These trees know no missing values and no categories.
    """
    trees = [iteration[0].nodes for iteration in model._predictors]
    first = np.cumsum([0, *(len(nodes) for nodes in trees)])
    nodes = np.concatenate(trees)
    if nodes["is_categorical"].any():
        raise ValueError("a tree splits by category, which flat trees do not know")
    shift = np.repeat(first[:-1], np.diff(first))
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int64) + shift) for side in ("left", "right"))
    return FlatTrees(
        first[:-1].astype(np.int64),
        left,
        right,
        nodes["feature_idx"].astype(np.int64),
        np.ascontiguousarray(nodes["num_threshold"], np.float64),
        np.where(leaf, nodes["value"], 0.0),
        float(np.ravel(model._baseline_prediction)[0]),
    )


@kernel()
def tree_sum(first, left, right, feature, threshold, value, rows, out):
    """Add up, for each row, the values of its leaves, one in every tree.

    Parameters
    ----------
    first
        Shape (trees,), int64: root of each tree among the nodes.
    left, right, feature, threshold, value
        Shape (nodes,): children (-1 for a leaf), column, largest value that goes left, value of a leaf.
    rows
        Shape (n, d).
    out
        Shape (n,), float64: filled in.
    """
    for row in range(rows.shape[0]):
        total = 0.0
        for root in first:
            node = root
            while left[node] >= 0:
                node = left[node] if rows[row, feature[node]] <= threshold[node] else right[node]
            total += value[node]
        out[row] = total


@kernel()
def mixed_bayes(prior, mean, variance, frequencies, rows, quantities, categorical, out):
    """Return each row's probability of class 1 under naive Bayes with normal and categorical columns.

    Parameters
    ----------
    prior
        Shape (2,): log prior of the classes.
    mean, variance
        Shape (2, quantities).
    frequencies
        Shape (2, categorical columns, most categories): log probability of each category.
    rows
        Shape (n, d).
    quantities, categorical
        Which columns are quantities and which hold numbers of categories.
    out
        Shape (n,), float64: filled in.
    """
    for row in range(rows.shape[0]):
        first = second = 0.0
        for label in range(2):
            log_joint = prior[label]
            for place in range(quantities.size):
                spread = variance[label, place]
                apart = rows[row, quantities[place]] - mean[label, place]
                log_joint -= 0.5 * (np.log(2.0 * np.pi * spread) + apart * apart / spread)
            for place in range(categorical.size):
                log_joint += frequencies[label, place, int(rows[row, categorical[place]])]
            if label == 0:
                first = log_joint
            else:
                second = log_joint
        apart = min(max(first - second, -700.0), 700.0)
        out[row] = 1.0 / (1.0 + np.exp(apart))


class MixedNaiveBayes(ClassifierMixin, BaseEstimator):
    """Naive Bayes with a normal distribution for each quantity and frequencies for each category.

    scikit-learn's `GaussianNB` and `CategoricalNB` are fitted, each on its columns, and their evidence is
    added up.

    Parameters
    ----------
    categorical
        Categorical columns, their categories numbered from 0 on.
    smoothing
        Added to every count of a category (Laplace).
    categories
        The least number of categories, whether examples have them or not.
    """

    def __init__(
        self, categorical: Sequence[int] = (), smoothing: float = 1.0, categories: int | None = None
    ) -> None:
        self.categorical = categorical
        self.smoothing = smoothing
        self.categories = categories

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit both models on examples, shape (n, d), and their classes, shape (n,)."""
        table, labels = validate_data(self, X, y, dtype=np.float64)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, table)
        self.categorical_ = np.array(sorted(self.categorical), np.int64)
        self.quantities_ = np.setdiff1d(np.arange(table.shape[1]), self.categorical_)
        self.classes_ = np.unique(labels)
        self.normal_ = self.frequencies_ = None
        if len(self.quantities_):
            self.normal_ = GaussianNB().fit(table[:, self.quantities_], labels, weights)
        if len(self.categorical_):
            self.frequencies_ = CategoricalNB(alpha=self.smoothing, min_categories=self.categories)
            self.frequencies_.fit(table[:, self.categorical_].astype(np.int64), labels, weights)
        return self

    def predict_log_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return logarithms of class probabilities, shape (n, classes)."""
        check_is_fitted(self)
        table = validate_data(self, X, reset=False, dtype=np.float64)
        joint = np.zeros((len(table), len(self.classes_)))
        if self.normal_ is not None:
            joint += self.normal_.predict_joint_log_proba(table[:, self.quantities_])
        if self.frequencies_ is not None:
            joint += self.frequencies_.predict_joint_log_proba(table[:, self.categorical_].astype(np.int64))
        if self.normal_ is not None and self.frequencies_ is not None:
            # The prior is in both; it counts once.
            joint -= self.frequencies_.class_log_prior_
        return log_softmax(joint, axis=1)

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return class probabilities, shape (n, classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]
