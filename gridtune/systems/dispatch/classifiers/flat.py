"""Fitted trees as arrays: for a few rows scikit-learn's checks take longer than the prediction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.systems.dispatch.classifiers.kernels import tree_sum
from gridtune.types import FloatArray, IntArray

__all__ = ["FlatTrees", "flat_boosting"]


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
