"""C4.5's pruning of a grown tree by estimated errors, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.classifiers.tree import branch_of

__all__ = ["Bound", "added_errors", "collapse", "prune"]

#: C4.5 prefers the smaller tree when it is worse by no more than this many errors.
_TOLERANCE = 0.1
#: It collapses a subtree unless it has this many fewer training errors than its root as a leaf.
_COLLAPSED = 1e-3


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
def prune(node, rows, examples, tree, bound, raising):
    """Prune a subtree by estimated errors, from its leaves up; return its estimated errors.

    A node becomes a leaf, or is replaced by its largest branch (subtree raising), where its
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
    if tree.child[node] < 0:
        return as_leaf
    errors = 0.0
    for branch in range(tree.branches[node]):
        own = _rows_of(node, branch, rows, examples, tree)
        errors += prune(tree.child[node] + branch, own, examples, tree, bound, raising)
    largest, as_branch = -1, np.inf
    if raising:
        largest = _largest_branch(node, tree)
        as_branch = _branch_errors(largest, rows, examples, tree, bound)
    if as_leaf <= errors + _TOLERANCE and as_leaf <= as_branch + _TOLERANCE:
        tree.child[node] = -1
        return as_leaf
    if as_branch <= errors + _TOLERANCE:
        _raise(largest, node, tree)
        _recount(node, rows, examples, tree)
        return prune(node, rows, examples, tree, bound, raising)
    return errors


@kernel()
def _raise(branch, node, tree):
    """Put a branch in its parent's place; the other branches are lost."""
    tree.child[node], tree.branches[node] = tree.child[branch], tree.branches[branch]
    tree.feature[node], tree.threshold[node] = tree.feature[branch], tree.threshold[branch]


@kernel()
def _largest_branch(node, tree):
    """Return the child with the largest weight of examples, the first of several."""
    best, most = -1, -1.0
    for child in range(tree.child[node], tree.child[node] + tree.branches[node]):
        total = tree.counts[child].sum()
        if total > most:
            best, most = child, total
    return best


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
    if tree.child[node] < 0:
        return _leaf_errors(_counted(rows, examples, tree), bound)
    errors = 0.0
    for branch in range(tree.branches[node]):
        own = _rows_of(node, branch, rows, examples, tree)
        errors += _branch_errors(tree.child[node] + branch, own, examples, tree, bound)
    return errors


@kernel()
def _rows_of(node, branch, rows, examples, tree):
    """Return the rows that leave a node by a branch."""
    own, count = np.empty(rows.size, np.int64), 0
    for row in rows:
        if branch_of(node, examples.table[row], tree) == branch:
            own[count] = row
            count += 1
    return own[:count]


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
    nodes = 1
    if tree.child[node] < 0:
        return nodes
    for branch in range(tree.branches[node]):
        own = _rows_of(node, branch, rows, examples, tree)
        nodes += _recount(tree.child[node] + branch, own, examples, tree)
    return nodes
