"""Compiled predictions of boosted trees that scikit-learn fits.

For the few rows of a decision scikit-learn's checks take longer than the prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, IntArray


def fit_boosted_trees(model: Any, rows: FloatArray, goal: Any) -> Callable[[FloatArray], FloatArray]:
    """Fit a HistGradientBoosting model, and return a function of rows, shape (n, d), for its raw predictions.

    On one thread: on a busy machine several wait for each other, and their number would decide the last bits.
    """
    with threadpool_limits(limits=1):
        return _predictor_of(model.fit(rows, goal))


class _Trees(NamedTuple):
    """Trees whose leaves are added up: `first` holds the roots, the other columns one entry a node.

    Attributes
    ----------
    left, right
        Children; -1 for a leaf.
    feature, threshold
        The column, and the largest value that goes left.
    value
        Of a leaf.
    """

    first: IntArray
    left: IntArray
    right: IntArray
    feature: IntArray
    threshold: FloatArray
    value: FloatArray


def _predictor_of(model: Any) -> Callable[[FloatArray], FloatArray]:
    """Return a function of rows, shape (n, d), that gives what a fitted HistGradientBoosting model predicts.

    The model has one output, no missing values and no categories; predictions are in its raw units.

    Raises
    ------
    ValueError
        If a tree splits by category.
    """
    trees = [iteration[0].nodes for iteration in model._predictors]
    first = np.cumsum([0, *(len(nodes) for nodes in trees)])
    nodes = np.concatenate(trees)
    if nodes["is_categorical"].any():
        raise ValueError("a tree splits by category, and its predictor supports no categories")
    shift = np.repeat(first[:-1], np.diff(first))
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int64) + shift) for side in ("left", "right"))
    flat = _Trees(
        first[:-1].astype(np.int64),
        left,
        right,
        nodes["feature_idx"].astype(np.int64),
        np.ascontiguousarray(nodes["num_threshold"], np.float64),
        np.where(leaf, nodes["value"], 0.0),
    )
    base = float(np.ravel(model._baseline_prediction)[0])

    def predict(rows: FloatArray) -> FloatArray:
        out = np.empty(len(rows))
        _add_up_leaves(flat, rows, out)
        return out + base

    return predict


@kernel()
def _add_up_leaves(trees: Any, rows: Any, out: Any) -> None:
    """Fill in the sum, for each row, of the values of its leaves, one in every tree."""
    for row in range(rows.shape[0]):
        total = 0.0
        for root in trees.first:
            node = root
            while trees.left[node] >= 0:
                below = rows[row, trees.feature[node]] <= trees.threshold[node]
                node = trees.left[node] if below else trees.right[node]
            total += trees.value[node]
        out[row] = total
