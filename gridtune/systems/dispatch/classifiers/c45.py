"""C4.5's decision tree, known as J48."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gridtune.systems.dispatch.classifiers.growing import grow
from gridtune.systems.dispatch.classifiers.pruning import Bound, collapse, prune
from gridtune.systems.dispatch.classifiers.tree import Examples, Nodes, find_leaves, share_classes
from gridtune.types import FloatArray

__all__ = ["C45Classifier", "GrownTree", "leaf_shares", "predicted_shares"]


class GrownTree:
    """A tree before pruning, with its examples; it can be pruned many times.

    Parameters
    ----------
    table, labels, weights
        Examples, shape (n, d), a category as its number; their classes, numbered from 0 on; their weights.
    categories
        Shape (d,): how many categories a column has; 0 for a quantity.
    classes
        How many classes.
    minimum
        The weight of examples that two branches of a split have at least.
    """

    def __init__(
        self, table: Any, labels: Any, weights: Any, *, categories: Any, classes: int, minimum: float = 2
    ) -> None:
        some = np.asarray(weights) > 0
        self.examples = examples = Examples(
            np.ascontiguousarray(table, np.float64)[some],
            np.asarray(labels, np.int64)[some],
            np.asarray(weights, np.float64)[some],
            np.asarray(categories, np.int64),
        )
        count, columns = examples.table.shape
        orders = np.argsort(examples.table, axis=0, kind="stable").T.astype(np.int64)
        # Every split parts the examples, so that there are fewer splits than examples.
        room = 1 + (count - 1) * max(2, int(examples.categories.max(initial=0)))
        child, branches, feature = np.zeros((3, room), np.int64)
        tree = Nodes(child, branches, feature, np.full(room, np.nan), np.zeros((room, classes)))
        nodes = grow(examples, np.ascontiguousarray(orders), float(minimum), tree)
        self.nodes = Nodes(*(column[:nodes].copy() for column in tree))
        for column in range(columns):
            # A threshold is one of the values: the largest of all that is not above the middle.
            own = (self.nodes.feature == column) & (self.nodes.child >= 0) & ~np.isnan(self.nodes.threshold)
            values = np.sort(examples.table[:, column])
            place = np.searchsorted(values, self.nodes.threshold[own], side="right")
            self.nodes.threshold[own] = values[place - 1]

    def pruned(self, confidence: float, raising: bool) -> Nodes:
        """Return the nodes of the pruned tree; those cut off stay in the arrays, but on no path."""
        nodes = Nodes(*(column.copy() for column in self.nodes))
        collapse(nodes)
        rows = np.arange(len(self.examples.table))
        bound = Bound(float(confidence), float(norm.ppf(1.0 - confidence)))
        prune(0, rows, self.examples, nodes, bound, raising)
        return nodes


class C45Classifier(ClassifierMixin, BaseEstimator):
    """C4.5's decision tree, release 8.

    A split is that of the largest gain ratio among those whose gain is at least the average. A quantity is
    split in two, at the threshold of the largest gain, less the price of telling which threshold it is; a
    category has a branch for each of its values. Subtrees are collapsed that do not lessen the training
    errors, then replaced by a leaf or by their largest branch where the upper confidence bound of the errors
    says so. Leaves predict the shares of their examples; one without examples has its parent's. Missing
    values are refused: nothing here has any.

    Parameters
    ----------
    confidence
        The confidence factor, above 0 and at most 0.5: the smaller, the more is pruned.
    minimum
        Weight of examples that at least two branches of a split have.
    raising
        Whether a subtree may be replaced by its largest branch.
    categorical
        Categorical columns, their categories numbered from 0 on.
    categories
        The least number of categories, whether examples have them or not.

    Notes
    -----
    Sources: Quinlan, "C4.5: Programs for Machine Learning", 1993, chapters 2 and 4; Quinlan, "Improved use of
    continuous attributes in C4.5", JAIR 4, 1996; Witten and Frank, "Data Mining", 2nd edition, section 6.1.
    """

    def __init__(
        self,
        confidence: float = 0.25,
        minimum: float = 2,
        raising: bool = True,
        categorical: Sequence[int] = (),
        categories: int | None = None,
    ) -> None:
        self.confidence = confidence
        self.minimum = minimum
        self.raising = raising
        self.categorical = categorical
        self.categories = categories

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Grow and prune the tree on examples, shape (n, d), and their classes, shape (n,)."""
        if not 0 < self.confidence <= 0.5:
            raise ValueError(f"confidence must be above 0 and at most 0.5, but got {self.confidence}")
        table, classes = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(classes)
        weights = _check_sample_weight(sample_weight, table, dtype=np.float64)
        self.classes_, labels = np.unique(classes, return_inverse=True)
        self.categories_ = np.zeros(table.shape[1], np.int64)
        for column in self.categorical:
            self.categories_[column] = max(int(table[:, column].max()) + 1, self.categories or 0)
        grown = GrownTree(
            table,
            labels,
            weights,
            categories=self.categories_,
            classes=len(self.classes_),
            minimum=self.minimum,
        )
        self.nodes_ = grown.pruned(self.confidence, self.raising)
        self.shares_ = leaf_shares(self.nodes_)
        return self

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return class probabilities, shape (n, classes)."""
        check_is_fitted(self)
        table = np.ascontiguousarray(validate_data(self, X, reset=False, dtype=np.float64))
        for column in self.categorical:
            if (table[:, column] >= self.categories_[column]).any() or (table[:, column] < 0).any():
                raise ValueError(f"column {column} has categories that the examples did not have")
        return predicted_shares(self.nodes_, self.shares_, table)

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @property
    def leaves(self) -> int:
        """How many leaves the pruned tree has."""
        child, branches = self.nodes_.child, self.nodes_.branches
        reached = [0]
        for node in reached:
            reached += [] if child[node] < 0 else range(child[node], child[node] + branches[node])
        return sum(child[node] < 0 for node in reached)


def leaf_shares(nodes: Nodes) -> FloatArray:
    """Return each node's class shares, shape (nodes, classes)."""
    shares = np.empty_like(nodes.counts)
    share_classes(nodes, shares)
    return shares


def predicted_shares(nodes: Nodes, shares: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the shares of the leaves of rows: `rows`, shape (n, d), `shares` by node."""
    leaves = np.empty(len(rows), np.int64)
    find_leaves(rows, nodes, leaves)
    return shares[leaves]
