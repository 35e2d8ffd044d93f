"""Naive Bayes over quantities and names together: scikit-learn's normal and categorical models in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

__all__ = ["MixedNaiveBayes"]

Floats = npt.NDArray[np.float64]


class MixedNaiveBayes(ClassifierMixin, BaseEstimator):
    """Naive Bayes with a normal distribution for each quantity and frequencies for each name.

    Without names it is scikit-learn's `GaussianNB`, with names alone its `CategoricalNB`: both are fitted,
    each on its columns, and their evidence is added up.

    Parameters
    ----------
    names
        Columns that hold names, as numbers from 0 on.
    smoothing
        Added to every count of a name (Laplace).
    known
        How many names there are at least, seen or not.
    """

    def __init__(self, names: Sequence[int] = (), smoothing: float = 1.0, known: int | None = None) -> None:
        self.names = names
        self.smoothing = smoothing
        self.known = known

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit both models on examples, shape (n, d), and their classes, shape (n,)."""
        table, labels = validate_data(self, X, y, dtype=np.float64)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, table)
        self.names_ = np.array(sorted(self.names), np.int64)
        self.quantities_ = np.setdiff1d(np.arange(table.shape[1]), self.names_)
        self.classes_ = np.unique(labels)
        self.normal_ = self.named_ = None
        if len(self.quantities_):
            self.normal_ = GaussianNB().fit(table[:, self.quantities_], labels, weights)
        if len(self.names_):
            self.named_ = CategoricalNB(alpha=self.smoothing, min_categories=self.known)
            self.named_.fit(table[:, self.names_].astype(np.int64), labels, weights)
        return self

    def predict_log_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return logarithms of class probabilities, shape (n, classes)."""
        check_is_fitted(self)
        table = validate_data(self, X, reset=False, dtype=np.float64)
        joint = np.zeros((len(table), len(self.classes_)))
        if self.normal_ is not None:
            joint += self.normal_.predict_joint_log_proba(table[:, self.quantities_])
        if self.named_ is not None:
            joint += self.named_.predict_joint_log_proba(table[:, self.names_].astype(np.int64))
        if self.normal_ is not None and self.named_ is not None:
            # The prior is in both; it counts once.
            joint -= self.named_.class_log_prior_
        highest = joint.max(axis=1, keepdims=True)
        return joint - highest - np.log(np.exp(joint - highest).sum(axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return class probabilities, shape (n, classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]
