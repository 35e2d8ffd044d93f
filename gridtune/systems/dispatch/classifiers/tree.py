"""A decision tree in columns, its examples, and the compiled way down from its root."""

from __future__ import annotations

from typing import Any, NamedTuple

from gridtune.core.compiled import kernel

__all__ = ["Examples", "Nodes", "branch_of", "find_leaves", "share_classes"]


class Examples(NamedTuple):
    """A tree's examples."""

    #: Shape (n, d), float64; a category as its number.
    table: Any
    #: Shape (n,), int64: class numbers.
    labels: Any
    #: Shape (n,), float64, above 0.
    weights: Any
    #: Shape (d,), int64: how many categories a column has; 0 for a quantity.
    categories: Any


class Nodes(NamedTuple):
    """A tree, its root first and parents before children; pruning changes it in place."""

    #: Shape (nodes,), int64: the first child, -1 for a leaf; the others follow it.
    child: Any
    #: Shape (nodes,), int64: how many children.
    branches: Any
    #: Shape (nodes,): the column, int64, and the largest quantity that goes to the first child, float64; NaN
    #: where each category has a child.
    feature: Any
    threshold: Any
    #: Shape (nodes, classes), float64: weights of the examples of each class at each node.
    counts: Any


@kernel()
def branch_of(node, row, tree):
    """Return the number of the branch by which a row leaves a node."""
    value = row[tree.feature[node]]
    if tree.threshold[node] != tree.threshold[node]:
        return int(value)
    return 0 if value <= tree.threshold[node] else 1


@kernel()
def find_leaves(table, tree, out):
    """Fill in each row's leaf; `table`, shape (n, d), `out`, shape (n,), int64."""
    for row in range(table.shape[0]):
        node = 0
        while tree.child[node] >= 0:
            node = tree.child[node] + branch_of(node, table[row], tree)
        out[row] = node


@kernel()
def share_classes(tree, out):
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
