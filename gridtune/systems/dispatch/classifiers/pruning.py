"""C4.5's pruning of a grown tree by estimated errors, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.core.compiled import kernel

__all__ = ["Bound", "Examples", "Nodes", "added_errors", "collapse", "prune"]

#: C4.5 prefers the smaller tree when it is worse by no more than this many errors.
_TOLERANCE = 0.1
#: It collapses a subtree unless it has this many fewer training errors than its root as a leaf.
_COLLAPSED = 1e-3


class Examples(NamedTuple):
    """A tree's examples."""

    #: Shape (n, d), float32.
    table: Any
    #: Shape (n,), int64: class numbers.
    labels: Any
    #: Shape (n,), float64.
    weights: Any


class Nodes(NamedTuple):
    """A tree, its root first and parents before children; pruning changes it in place."""

    #: Shape (nodes,), int64: children; -1 for a leaf.
    left: Any
    right: Any
    #: Shape (nodes,): the column, int64, and the largest value that goes left, float64.
    feature: Any
    threshold: Any
    #: Shape (nodes, classes), float64: weights of the examples of each class at each node.
    counts: Any


class Bound(NamedTuple):
    """The confidence of the upper bound of a leaf's errors."""

    #: C4.5's confidence factor CF.
    confidence: float
    #: The standard normal quantile of 1 − CF.
    z: float


@kernel()
def added_errors(total, wrong, bound):
    """Return how many errors to add to a leaf's training errors, for an upper bound at that confidence.

    With no error the bound p solves (1 − p)^N = confidence; from one on it is the normal approximation to
    the binomial with continuity correction; in between it is interpolated.

    Parameters
    ----------
    total, wrong
        Weights of a leaf's examples, and of those not of its class.
    bound
        See `Bound`.
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
def collapse(tree):
    """Make a leaf of every node whose subtree has no fewer training errors."""
    wrong = np.empty(tree.left.size)
    for node in range(tree.left.size - 1, -1, -1):
        own = tree.counts[node].sum() - tree.counts[node].max()
        wrong[node] = own
        if tree.left[node] >= 0:
            below = wrong[tree.left[node]] + wrong[tree.right[node]]
            if below >= own - _COLLAPSED:
                _make_leaf(node, tree)
            else:
                wrong[node] = below


@kernel()
def prune(node, rows, examples, tree, bound, raising):
    """Prune a subtree by estimated errors, from its leaves up; return its estimated errors.

    A node becomes a leaf, or is replaced by its larger branch (subtree raising), where its
    estimated errors are hardly more.

    Parameters
    ----------
    node, rows
        The subtree, and the examples that reach it, int64.
    examples, tree, bound
        See `Examples`, `Nodes`, `Bound`.
    raising
        Whether subtrees may be raised.
    """
    as_leaf = _leaf_errors(tree.counts[node], bound)
    if tree.left[node] < 0:
        return as_leaf
    low, high = _parted(node, rows, examples, tree)
    errors = prune(tree.left[node], low, examples, tree, bound, raising)
    errors += prune(tree.right[node], high, examples, tree, bound, raising)
    branch, as_branch = -1, np.inf
    if raising:
        branch = _larger_branch(node, tree)
        as_branch = _branch_errors(branch, rows, examples, tree, bound)
    if as_leaf <= errors + _TOLERANCE and as_leaf <= as_branch + _TOLERANCE:
        _make_leaf(node, tree)
        return as_leaf
    if as_branch <= errors + _TOLERANCE:
        _raise(branch, node, tree)
        _recount(node, rows, examples, tree)
        return prune(node, rows, examples, tree, bound, raising)
    return errors


@kernel()
def _make_leaf(node, tree):
    tree.left[node] = tree.right[node] = -1


@kernel()
def _raise(branch, node, tree):
    """Put a branch in its parent's place; the other branch is lost."""
    tree.left[node], tree.right[node] = tree.left[branch], tree.right[branch]
    tree.feature[node], tree.threshold[node] = tree.feature[branch], tree.threshold[branch]


@kernel()
def _larger_branch(node, tree):
    left, right = tree.left[node], tree.right[node]
    return left if tree.counts[left].sum() >= tree.counts[right].sum() else right


@kernel()
def _leaf_errors(counts, bound):
    """Return the errors to expect of a leaf with these class counts."""
    total = counts.sum()
    if total <= 0.0:
        return 0.0
    wrong = total - counts.max()
    return wrong + added_errors(total, wrong, bound)


@kernel()
def _branch_errors(node, rows, examples, tree, bound):
    """Return the errors to expect of a subtree that all these examples went into."""
    if tree.left[node] < 0:
        return _leaf_errors(_counted(rows, examples, tree), bound)
    low, high = _parted(node, rows, examples, tree)
    errors = _branch_errors(tree.left[node], low, examples, tree, bound)
    return errors + _branch_errors(tree.right[node], high, examples, tree, bound)


@kernel()
def _parted(node, rows, examples, tree):
    """Return the rows that go left of a node, and those that go right."""
    low = np.empty(rows.size, np.int64)
    high = np.empty(rows.size, np.int64)
    lows = highs = 0
    for row in rows:
        if examples.table[row, tree.feature[node]] <= tree.threshold[node]:
            low[lows] = row
            lows += 1
        else:
            high[highs] = row
            highs += 1
    return low[:lows], high[:highs]


@kernel()
def _counted(rows, examples, tree):
    """Return the rows' weight of each class."""
    counts = np.zeros(tree.counts.shape[1])
    for row in rows:
        counts[examples.labels[row]] += examples.weights[row]
    return counts


@kernel()
def _recount(node, rows, examples, tree):
    """Count a subtree's examples again; return how many nodes it has."""
    tree.counts[node] = _counted(rows, examples, tree)
    if tree.left[node] < 0:
        return 1
    low, high = _parted(node, rows, examples, tree)
    below = _recount(tree.left[node], low, examples, tree)
    return 1 + below + _recount(tree.right[node], high, examples, tree)
