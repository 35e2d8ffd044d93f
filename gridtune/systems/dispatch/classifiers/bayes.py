"""Naive Bayes over quantities and categories: scikit-learn's normal and categorical models in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gridtune.types import FloatArray

__all__ = ["MixedNaiveBayes"]


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
