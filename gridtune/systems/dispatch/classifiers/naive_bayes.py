"""Naive Bayes that scikit-learn fits, with compiled predictions.

For the few rows of a decision scikit-learn's checks take longer than the prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, IntArray

__all__ = ["naive_bayes_predictor"]


class _Bayes(NamedTuple):
    """A naive Bayes model of two classes.

    Attributes
    ----------
    prior
        Shape (2,): log prior of the classes.
    mean, variance
        Shape (2, quantities).
    frequencies
        Shape (2, categories): log probability of each category.
    categorical
        Shape (1,), int64: the column of the category; the others are the quantities.
    """

    prior: FloatArray
    mean: FloatArray
    variance: FloatArray
    frequencies: FloatArray
    categorical: IntArray


def naive_bayes_predictor(
    table: FloatArray, labels: Any, weights: FloatArray, *, categorical: int, categories: int
) -> Callable[[FloatArray], FloatArray]:
    """Fit naive Bayes, and return a function of rows, shape (n, d), that gives the chance of class 1.

    A quantity has a normal distribution in each class, a category its frequency: scikit-learn's `GaussianNB`
    and `CategoricalNB`, each fitted on its columns, with their evidence added up.

    Parameters
    ----------
    table, labels, weights
        Examples, shape (n, d), of the classes 0 and 1; both occur.
    categorical
        The categorical column, its categories numbered from 0 on.
    categories
        The least number of categories, whether examples have them or not.
    """
    quantities = np.setdiff1d(np.arange(table.shape[1]), [categorical])
    normal: Any = GaussianNB().fit(table[:, quantities], labels, weights)
    frequencies: Any = CategoricalNB(min_categories=categories)
    frequencies.fit(table[:, [categorical]].astype(np.int64), labels, weights)
    model = _Bayes(
        np.log(normal.class_prior_),
        np.ascontiguousarray(normal.theta_),
        # Where no quantity varies, all are as probable in both classes.
        np.where(normal.var_ > 0, normal.var_, 1.0),
        np.ascontiguousarray(frequencies.feature_log_prob_[0]),
        np.array([categorical]),
    )

    def predict(rows: FloatArray) -> FloatArray:
        out = np.empty(len(rows))
        _fill_bayes(model, np.ascontiguousarray(rows), out)
        return out

    return predict


@kernel()
def _fill_bayes(model, rows, out):
    """Fill in each row's probability of class 1."""
    for row in range(rows.shape[0]):
        first = second = 0.0
        for label in range(2):
            log_joint = model.prior[label]
            place = 0
            for column in range(rows.shape[1]):
                if column == model.categorical[0]:
                    continue
                spread = model.variance[label, place]
                apart = rows[row, column] - model.mean[label, place]
                log_joint -= 0.5 * (np.log(2.0 * np.pi * spread) + apart * apart / spread)
                place += 1
            log_joint += model.frequencies[label, int(rows[row, model.categorical[0]])]
            if label == 0:
                first = log_joint
            else:
                second = log_joint
        apart = min(max(first - second, -700.0), 700.0)
        out[row] = 1.0 / (1.0 + np.exp(apart))
