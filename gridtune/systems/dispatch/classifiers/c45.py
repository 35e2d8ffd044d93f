"""C4.5's decision tree, known as J48: scikit-learn's tree, pruned by estimated errors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gridtune.systems.dispatch.classifiers.kernels import tree_sum
from gridtune.systems.dispatch.classifiers.pruning import Bound, Examples, Nodes, collapse, prune

__all__ = ["C45Classifier", "GrownTree", "leaf_shares"]

Floats = npt.NDArray[np.float64]


class GrownTree:
    """A tree before pruning, with its examples (classes from 0 on); it can be pruned many times."""

    def __init__(
        self, table: Any, labels: Any, weights: Any, *, classes: int, minimum: int = 2, seed: int = 0
    ) -> None:
        fitted = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=minimum, random_state=seed).fit(
            table, labels, sample_weight=weights
        )
        tree = fitted.tree_
        self.examples = Examples(
            np.ascontiguousarray(table, np.float32),
            np.asarray(labels, np.int64),
            np.asarray(weights, np.float64),
        )
        left, right = (np.array(side, np.int64) for side in (tree.children_left, tree.children_right))
        counts = self._counts(fitted, left, right, classes)
        self.nodes = Nodes(left, right, np.array(tree.feature, np.int64), np.array(tree.threshold), counts)

    def _counts(self, fitted: Any, left: Any, right: Any, classes: int) -> Floats:
        """Return each node's weight of each class, counted rather than taken from rounded shares."""
        counts = np.zeros((len(left), classes))
        table, labels, weights = self.examples
        np.add.at(counts, (fitted.apply(table), labels), weights)
        for node in range(len(left) - 1, -1, -1):
            if left[node] >= 0:
                counts[node] = counts[left[node]] + counts[right[node]]
        return counts

    def pruned(self, confidence: float, raising: bool) -> Nodes:
        """Return the nodes of the pruned tree; those cut off stay in the arrays, but on no path."""
        nodes = Nodes(*(column.copy() for column in self.nodes))
        collapse(nodes)
        rows = np.arange(len(self.examples.table))
        bound = Bound(float(confidence), float(norm.ppf(1.0 - confidence)))
        prune(0, rows, self.examples, nodes, bound, raising)
        return nodes


class C45Classifier(ClassifierMixin, BaseEstimator):
    """A decision tree with C4.5's pruning.

    The tree is scikit-learn's with the entropy criterion, so splits are binary and chosen by information
    gain, where C4.5 takes the gain ratio: with binary splits alone, what the ratio corrects for (a preference
    for splits into many parts) hardly arises. Pruning is C4.5's: subtrees are collapsed that do not lessen
    the training errors, then replaced by a leaf or by their larger branch where the upper confidence bound of
    the errors says so. Leaves predict the shares of their examples.

    Parameters
    ----------
    confidence
        The confidence factor, above 0 and at most 0.5: the smaller, the more is pruned.
    minimum
        Examples that a leaf has at least when the tree grows.
    raising
        Whether a subtree may be replaced by its larger branch.
    seed
        Breaks ties between equally good splits.

    Notes
    -----
    Sources: Quinlan, "C4.5: Programs for Machine Learning", 1993, chapter 4; Witten and Frank, "Data Mining",
    2nd edition, section 6.1 (the bound).
    """

    def __init__(
        self, confidence: float = 0.25, minimum: int = 2, raising: bool = True, seed: int = 0
    ) -> None:
        self.confidence = confidence
        self.minimum = minimum
        self.raising = raising
        self.seed = seed

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Grow and prune the tree on examples, shape (n, d), and their classes, shape (n,)."""
        if not 0 < self.confidence <= 0.5:
            raise ValueError(f"confidence must be above 0 and at most 0.5, but got {self.confidence}")
        table, classes = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(classes)
        weights = _check_sample_weight(sample_weight, table, dtype=np.float64)
        self.classes_, labels = np.unique(classes, return_inverse=True)
        shape = {"classes": len(self.classes_), "minimum": self.minimum, "seed": self.seed}
        self.nodes_ = GrownTree(table, labels, weights, **shape).pruned(self.confidence, self.raising)
        self.values_ = leaf_shares(self.nodes_)
        return self

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return class probabilities, shape (n, classes)."""
        check_is_fitted(self)
        table = np.ascontiguousarray(validate_data(self, X, reset=False, dtype=np.float32))
        left, right, feature, threshold, _ = self.nodes_
        out, root = np.empty((len(self.classes_), len(table))), np.zeros(1, np.int64)
        for label, values in enumerate(self.values_.T):
            value = np.ascontiguousarray(values)
            tree_sum(root, left, right, feature, threshold, value, table, out[label])
        return np.ascontiguousarray(out.T)

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @property
    def leaves(self) -> int:
        """How many leaves the pruned tree has."""
        left, right = self.nodes_.left, self.nodes_.right
        reached = [0]
        for node in reached:
            reached += [] if left[node] < 0 else [int(left[node]), int(right[node])]
        return sum(left[node] < 0 for node in reached)


def leaf_shares(nodes: Nodes) -> Floats:
    """Return each node's class shares; a leaf that raising left empty has its parent's."""
    shares = np.zeros_like(nodes.counts)
    waiting = [(0, np.full(shares.shape[1], 1.0 / shares.shape[1]))]
    while waiting:
        node, inherited = waiting.pop()
        total = nodes.counts[node].sum()
        shares[node] = nodes.counts[node] / total if total > 0 else inherited
        if nodes.left[node] >= 0:
            waiting += [(int(nodes.left[node]), shares[node]), (int(nodes.right[node]), shares[node])]
    return shares
