"""C4.5's decision tree, known as J48: grown by the gain ratio, pruned by estimated errors.

scikit-learn's trees split in two by Gini index or entropy and are pruned by cost and complexity; C4.5 has
branches for categories, gain ratios and error-based pruning.

Sources: Quinlan, "C4.5: Programs for Machine Learning", 1993, chapters 2 and 4; Quinlan, "Improved use of
continuous attributes in C4.5", JAIR 4, 1996 (the price of a threshold); Witten and Frank, "Data Mining",
2nd edition, section 6.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.classifiers.neighbours import entropy
from gridtune.types import FloatArray


class _Examples(NamedTuple):
    """A tree's examples."""

    #: Shape (n, d), float64; a category as its number.
    table: Any
    #: Shape (n,), int64: class numbers.
    labels: Any
    #: Shape (n,), float64, above 0.
    weights: Any
    #: Shape (d,), int64: number of categories of a column; 0 for a quantity.
    categories: Any


class _Nodes(NamedTuple):
    """A tree, its root first and parents before children; pruning changes it in place."""

    #: Shape (nodes,), int64: the first child, -1 for a leaf; the others follow it.
    child: Any
    #: Shape (nodes,), int64: number of children.
    branches: Any
    #: Shape (nodes,): the column, int64, and the largest quantity that goes to the first child, float64; NaN
    #: where each category has a child.
    feature: Any
    threshold: Any
    #: Shape (nodes, classes), float64: weights of the examples of each class at each node.
    counts: Any

    def predictor(self) -> Callable[[FloatArray], FloatArray]:
        """Return a function of rows, shape (n, d), that gives the class shares of their leaves.

        A leaf without examples has its parent's shares.
        """
        shares = np.empty_like(self.counts)
        _share_classes(self, shares)

        def predict(rows: FloatArray) -> FloatArray:
            leaves = np.empty(len(rows), np.int64)
            _find_leaves(rows, self, leaves)
            return shares[leaves]

        return predict


@kernel()
def _branch_of(node, row, tree):
    """Return the number of the branch by which a row leaves a node."""
    value = row[tree.feature[node]]
    if tree.threshold[node] != tree.threshold[node]:
        return int(value)
    return 0 if value <= tree.threshold[node] else 1


@kernel()
def _find_leaves(table, tree, out):
    """Fill in each row's leaf; `table`, shape (n, d), `out`, shape (n,), int64."""
    for row in range(table.shape[0]):
        node = 0
        while tree.child[node] >= 0:
            node = tree.child[node] + _branch_of(node, table[row], tree)
        out[row] = node


@kernel()
def _share_classes(tree, out):
    """Fill in each node's class shares, shape (nodes, classes); one without examples has its parent's."""
    classes = tree.counts.shape[1]
    out[0] = 1.0 / classes
    for node in range(tree.child.size):
        total = tree.counts[node].sum()
        if total > 0.0:
            for label in range(classes):
                out[node, label] = tree.counts[node, label] / total
        if tree.child[node] >= 0:
            for branch in range(tree.branches[node]):
                out[tree.child[node] + branch] = out[node]


#: The weight of examples that two branches of a split have at least.
_MINIMUM = 2.0
#: Either side of a threshold has at least this share of a node's examples per class, but no more need be.
_SHARE, _ENOUGH = 0.1, 25.0
#: A column of many categories, this share of all examples, does not count in the average gain.
_MANY = 0.3
#: Gains that are smaller than the average by no more than this are good enough.
_HARDLY_LESS = 1e-3
#: Numbers that differ by no more are alike.
_ALIKE = 1e-6


@kernel()
def _grow(examples, orders, minimum, tree):
    """Grow a tree until its leaves are pure or cannot be split; return how many nodes it has.

    Parameters
    ----------
    examples
        See `_Examples`.
    orders
        Shape (d, n), int64: the examples in order of each column; sorted by node in the end.
    minimum
        At least two branches of a split have this weight of examples.
    tree
        Room for all nodes, filled in; thresholds lie midway between the values beside them.
    """
    columns, count = orders.shape
    weight = examples.weights.sum()
    # Where all columns have many categories, they count all the same.
    many = examples.categories >= _MANY * weight
    excluded = many & (not many.all())
    capacity, nodes = tree.child.size, 1
    first, last = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    last[0] = count
    node = 0
    while node < nodes:
        rows = orders[:, first[node] : last[node]]
        tree.child[node] = -1
        tree.counts[node] = 0.0
        for row in rows[0]:
            tree.counts[node, examples.labels[row]] += examples.weights[row]
        feature, threshold = _best_split(examples, rows, tree.counts[node], minimum, excluded)
        if feature >= 0:
            tree.feature[node], tree.threshold[node] = feature, threshold
            tree.branches[node] = max(2, examples.categories[feature])
            tree.child[node] = nodes
            for column in range(columns):
                rows[column], starts = _rows_by_branch(node, rows[column], examples, tree)
            for part in range(tree.branches[node]):
                first[nodes + part] = first[node] + starts[part]
                last[nodes + part] = first[node] + starts[part + 1]
            nodes += tree.branches[node]
        node += 1
    return nodes


@kernel()
def _best_split(examples, rows, counts, minimum, excluded):
    """Return the column to split by and its threshold, NaN for categories; column -1 for no split.

    Of the columns whose gain is at least the average the one of the largest gain ratio, the first of several.
    """
    total, columns = counts.sum(), rows.shape[0]
    if total < 2.0 * minimum or total - counts.max() <= _ALIKE:
        return -1, np.nan
    gain, ratio = np.full(columns, np.nan), np.full(columns, np.nan)
    threshold = np.full(columns, np.nan)
    average, usable = 0.0, 0
    for column in range(columns):
        if examples.categories[column] > 0:
            gain[column], ratio[column] = _by_category(examples, rows[0], column, counts, minimum)
        else:
            gain[column], ratio[column], threshold[column] = _by_threshold(
                examples, rows[column], column, counts, minimum
            )
        if gain[column] == gain[column] and not excluded[column]:
            average += gain[column]
            usable += 1
    best, highest = -1, _ALIKE
    if usable > 0:
        for column in range(columns):
            if gain[column] >= average / usable - _HARDLY_LESS and ratio[column] > highest:
                best, highest = column, ratio[column] + _ALIKE
    return best, threshold[best] if best >= 0 else np.nan


@kernel()
def _by_category(examples, rows, column, counts, minimum):
    """Return gain and gain ratio of a split by category; NaN without two branches that are large enough."""
    inside = np.zeros((examples.categories[column], counts.size))
    for row in rows:
        inside[int(examples.table[row, column]), examples.labels[row]] += examples.weights[row]
    sizes = inside.sum(axis=1)
    if (sizes >= minimum).sum() < 2:
        return np.nan, np.nan
    total, left = counts.sum(), 0.0
    for branch in range(sizes.size):
        left += entropy(inside[branch])
    gain = (entropy(counts) - left) / total
    return gain, gain / (entropy(sizes) / total)


@kernel()
def _by_threshold(examples, rows, column, counts, minimum):
    """Return gain, gain ratio and threshold of the best split of a quantity; NaN where there is none.

    The gain is less by what it takes to say which of the possible thresholds it is: log₂(their number) bits
    for all examples.
    """
    total = counts.sum()
    least = max(minimum, min(_ENOUGH, _SHARE * total / counts.size))
    below, whole = np.zeros(counts.size), entropy(counts)
    best, threshold, share, tries, under = 0.0, np.nan, 0.0, 0, 0.0
    for place in range(rows.size - 1):
        row = rows[place]
        below[examples.labels[row]] += examples.weights[row]
        under += examples.weights[row]
        value, following = examples.table[row, column], examples.table[rows[place + 1], column]
        if value == following or under < least or total - under < least:
            continue
        tries += 1
        gain = (whole - entropy(below) - entropy(counts - below)) / total
        if gain > best + _ALIKE * _ALIKE:
            best, threshold, share = gain, 0.5 * (value + following), under
            threshold = value if threshold >= following else threshold
    if tries == 0 or np.isnan(threshold):
        return np.nan, np.nan, np.nan
    gain = best - np.log2(tries) / total
    if gain <= 0.0:
        return np.nan, np.nan, np.nan
    return gain, gain / (entropy(np.array([share, total - share])) / total), threshold


#: C4.5 prefers the smaller tree when it is worse by no more than this many errors.
_TOLERANCE = 0.1
#: It collapses a subtree unless it has this many fewer training errors than its root as a leaf.
_COLLAPSED = 1e-3


class _Bound(NamedTuple):
    """The confidence of the upper bound of a leaf's errors."""

    #: C4.5's confidence factor CF.
    confidence: float
    #: The standard normal quantile of 1 − CF.
    z: float


@kernel()
def _added_errors(total, wrong, bound):
    """Return how many errors to add to a leaf's training errors, for an upper bound at that confidence.

    With no error the bound p solves (1 − p)^N = confidence; from one on it is the normal approximation to
    the binomial with continuity correction; in between it is interpolated.

    Parameters
    ----------
    total, wrong
        Weights of a leaf's examples, and of those not of its class.
    bound
        See `_Bound`.
    """
    if wrong >= 1.0:
        return _added_by_normal(total, wrong, bound)
    none = total * (1.0 - bound.confidence ** (1.0 / total))
    if wrong == 0.0:
        return none
    return none + wrong * (_added_by_normal(total, 1.0, bound) - none)


@kernel()
def _added_by_normal(total, wrong, bound):
    """Return the errors to add by the normal approximation, for one error or more."""
    if wrong + 0.5 >= total:
        return max(total - wrong, 0.0)
    z = bound.z
    share = (wrong + 0.5) / total
    spread = z * np.sqrt(share / total - share * share / total + z * z / (4.0 * total * total))
    highest = (share + z * z / (2.0 * total) + spread) / (1.0 + z * z / total)
    return highest * total - wrong


@kernel()
def _collapse(tree):
    """Make a leaf of every node whose subtree has no fewer training errors."""
    wrong = np.empty(tree.child.size)
    for node in range(tree.child.size - 1, -1, -1):
        own = tree.counts[node].sum() - tree.counts[node].max()
        wrong[node] = own
        if tree.child[node] >= 0:
            below = wrong[tree.child[node] : tree.child[node] + tree.branches[node]].sum()
            if below >= own - _COLLAPSED:
                tree.child[node] = -1
            else:
                wrong[node] = below


@kernel()
def _prune(node, rows, examples, tree, bound):
    """Prune a subtree by estimated errors, from its leaves up; return its estimated errors.

    A node becomes a leaf, or is replaced by its largest branch (subtree raising), where its
    estimated errors are hardly more.

    Parameters
    ----------
    node, rows
        The subtree, and the examples that reach it, int64.
    examples, tree, bound
        See `_Examples`, `_Nodes`, `_Bound`.
    """
    as_leaf = _leaf_errors(tree.counts[node], bound)
    if tree.child[node] < 0:
        return as_leaf
    errors = 0.0
    sorted_rows, starts = _rows_by_branch(node, rows, examples, tree)
    for branch in range(tree.branches[node]):
        own = sorted_rows[starts[branch] : starts[branch + 1]]
        errors += _prune(tree.child[node] + branch, own, examples, tree, bound)
    largest, most = -1, -1.0
    for child in range(tree.child[node], tree.child[node] + tree.branches[node]):
        if tree.counts[child].sum() > most:
            largest, most = child, tree.counts[child].sum()
    as_branch = _branch_errors(largest, rows, examples, tree, bound, max(errors, as_leaf) + _TOLERANCE)
    if as_leaf <= errors + _TOLERANCE and as_leaf <= as_branch + _TOLERANCE:
        tree.child[node] = -1
        return as_leaf
    if as_branch <= errors + _TOLERANCE:
        # The other branches are lost.
        tree.child[node], tree.branches[node] = tree.child[largest], tree.branches[largest]
        tree.feature[node], tree.threshold[node] = tree.feature[largest], tree.threshold[largest]
        _recount(node, rows, examples, tree)
        return _prune(node, rows, examples, tree, bound)
    return errors


@kernel()
def _leaf_errors(counts, bound):
    """Return the errors to expect of a leaf with these class counts."""
    total = counts.sum()
    if total <= 0.0:
        return 0.0
    wrong = total - counts.max()
    return wrong + _added_errors(total, wrong, bound)


@kernel()
def _branch_errors(node, rows, examples, tree, bound, limit):
    """Return the errors to expect of a subtree that all these examples went into; infinity above a limit."""
    if tree.child[node] < 0:
        return _leaf_errors(_counted(rows, examples, tree), bound)
    errors = 0.0
    sorted_rows, starts = _rows_by_branch(node, rows, examples, tree)
    for branch in range(tree.branches[node]):
        own = sorted_rows[starts[branch] : starts[branch + 1]]
        # What is left of the limit is rounded; no sum is cut off below it.
        rest = limit - errors + _ALIKE
        errors += _branch_errors(tree.child[node] + branch, own, examples, tree, bound, rest)
        if errors > limit:
            return np.inf
    return errors


@kernel()
def _rows_by_branch(node, rows, examples, tree):
    """Return the rows by the branch by which they leave a node, and where those of each branch begin."""
    branch, ordered = np.empty(rows.size, np.int64), np.empty(rows.size, np.int64)
    starts = np.zeros(tree.branches[node] + 1, np.int64)
    for place in range(rows.size):
        branch[place] = _branch_of(node, examples.table[rows[place]], tree)
        starts[branch[place] + 1] += 1
    for number in range(tree.branches[node]):
        starts[number + 1] += starts[number]
    following = starts.copy()
    for place in range(rows.size):
        ordered[following[branch[place]]] = rows[place]
        following[branch[place]] += 1
    return ordered, starts


@kernel()
def _counted(rows, examples, tree):
    """Return the rows' weight of each class."""
    counts = np.zeros(tree.counts.shape[1])
    for row in rows:
        counts[examples.labels[row]] += examples.weights[row]
    return counts


@kernel()
def _recount(node, rows, examples, tree):
    """Count a subtree's examples again."""
    tree.counts[node] = _counted(rows, examples, tree)
    if tree.child[node] >= 0:
        sorted_rows, starts = _rows_by_branch(node, rows, examples, tree)
        for branch in range(tree.branches[node]):
            own = sorted_rows[starts[branch] : starts[branch + 1]]
            _recount(tree.child[node] + branch, own, examples, tree)


class GrownTree:
    """A tree before pruning, with its examples; it can be pruned many times.

    Parameters
    ----------
    table, labels, weights
        Examples, shape (n, d), a category as its number; their classes, numbered from 0 on; their weights.
    categories
        Shape (d,): number of categories of a column; 0 for a quantity.
    classes
        Number of classes.
    """

    def __init__(self, table: Any, labels: Any, weights: Any, *, categories: Any, classes: int) -> None:
        some = np.asarray(weights) > 0
        self.examples = examples = _Examples(
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
        tree = _Nodes(child, branches, feature, np.full(room, np.nan), np.zeros((room, classes)))
        nodes = _grow(examples, np.ascontiguousarray(orders), _MINIMUM, tree)
        self.nodes = _Nodes(*(column[:nodes].copy() for column in tree))
        for column in range(columns):
            # A threshold is one of the values: the largest of all that is not above the middle.
            own = (self.nodes.feature == column) & (self.nodes.child >= 0) & ~np.isnan(self.nodes.threshold)
            values = np.sort(examples.table[:, column])
            place = np.searchsorted(values, self.nodes.threshold[own], side="right")
            self.nodes.threshold[own] = values[place - 1]

    def pruned(self, confidence: float) -> _Nodes:
        """Return the nodes of the pruned tree; those cut off stay in the arrays, but on no path."""
        nodes = _Nodes(*(column.copy() for column in self.nodes))
        _collapse(nodes)
        rows = np.arange(len(self.examples.table))
        bound = _Bound(float(confidence), float(ndtri(1.0 - confidence)))
        _prune(0, rows, self.examples, nodes, bound)
        return nodes
