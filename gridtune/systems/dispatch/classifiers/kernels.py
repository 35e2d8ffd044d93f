"""Compiled parts of the classifiers: predicting with many trees, naive Bayes, locally weighted stumps."""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel

__all__ = ["locally_weighted", "mixed_bayes", "tree_sum"]

#: Makes the farthest of the neighbours count a little.
_FARTHEST = 1.0001


@kernel()
def tree_sum(first, left, right, feature, threshold, value, rows, out):
    """Add up, for each row, the values of its leaves, one in every tree.

    Parameters
    ----------
    first
        Shape (trees,), int64: root of each tree among the nodes.
    left, right, feature, threshold, value
        Shape (nodes,): children (-1 for a leaf), column, largest value that goes left, value of a leaf.
    rows
        Shape (n, d).
    out
        Shape (n,), float64: filled in.
    """
    for row in range(rows.shape[0]):
        total = 0.0
        for root in first:
            node = root
            while left[node] >= 0:
                node = left[node] if rows[row, feature[node]] <= threshold[node] else right[node]
            total += value[node]
        out[row] = total


@kernel()
def mixed_bayes(prior, mean, variance, frequencies, rows, quantities, categorical, out):
    """Return each row's probability of class 1 under naive Bayes with normal and categorical columns.

    Parameters
    ----------
    prior
        Shape (2,): log prior of the classes.
    mean, variance
        Shape (2, quantities).
    frequencies
        Shape (2, categorical columns, most categories): log probability of each category.
    rows
        Shape (n, d).
    quantities, categorical
        Which columns are quantities and which hold numbers of categories.
    out
        Shape (n,), float64: filled in.
    """
    for row in range(rows.shape[0]):
        first = second = 0.0
        for label in range(2):
            log_joint = prior[label]
            for place in range(quantities.size):
                spread = variance[label, place]
                apart = rows[row, quantities[place]] - mean[label, place]
                log_joint -= 0.5 * (np.log(2.0 * np.pi * spread) + apart * apart / spread)
            for place in range(categorical.size):
                log_joint += frequencies[label, place, int(rows[row, categorical[place]])]
            if label == 0:
                first = log_joint
            else:
                second = log_joint
        apart = min(max(first - second, -700.0), 700.0)
        out[row] = 1.0 / (1.0 + np.exp(apart))


@kernel()
def locally_weighted(table, labels, weights, orders, categorical, rows, neighbours, classes, out):
    """Return each row's class probabilities by a decision stump on the examples near it.

    An example's weight is its own times 1.0001 − d/d_k, where d is its Euclidean distance and d_k that of
    the farthest neighbour (a linear kernel); two categories are 0 or 1 apart.

    Parameters
    ----------
    table
        Shape (n, d): the examples, quantities scaled to [0, 1].
    labels, weights
        Shape (n,): class numbers and weights.
    orders
        Shape (d, n), int64: the examples in order of each column.
    categorical
        Shape (d,), bool: the categorical columns.
    rows
        Shape (q, d): queries, scaled alike.
    neighbours
        How many; 0 or less for all.
    classes
        Number of classes.
    out
        Shape (q, classes): filled in.
    """
    count, columns = table.shape
    near = count if neighbours <= 0 else min(neighbours, count)
    distance, local = np.empty(count), np.empty(count)
    for query in range(rows.shape[0]):
        for example in range(count):
            squared = 0.0
            for column in range(columns):
                apart = table[example, column] - rows[query, column]
                squared += (1.0 if apart != 0.0 else 0.0) if categorical[column] else apart * apart
            distance[example] = np.sqrt(squared)
        farthest = distance.max() if near == count else np.partition(distance, near - 1)[near - 1]
        neighbour = np.empty(count, np.int64)
        number = 0
        for example in range(count):
            local[example] = 0.0
            if distance[example] <= farthest:
                relative = distance[example] / farthest if farthest > 0.0 else 0.0
                local[example] = weights[example] * (_FARTHEST - relative)
                neighbour[number] = example
                number += 1
        _stump(
            table, labels, local, orders, categorical, neighbour[:number], rows[query], classes, out[query]
        )


@kernel()
def _stump(table, labels, weights, orders, categorical, examples, row, classes, out):
    """Split examples once, where the classes' entropy falls most; fill in the shares on the row's side."""
    total = np.zeros(classes)
    for example in examples:
        total[labels[example]] += weights[example]
    best, side = np.inf, total.copy()
    few = examples.size * 8 < table.shape[0]
    for column in range(table.shape[1]):
        order = examples[np.argsort(table[examples, column])] if few else orders[column]
        below = np.zeros(classes)
        # The examples of one category are one side, so the sum starts again at each category.
        previous, started = 0.0, False
        for place in range(order.size + 1):
            ended = place == order.size
            if not ended and weights[order[place]] == 0.0:
                continue
            value = previous + 1.0 if ended else table[order[place], column]
            # The last border of a quantity separates nothing.
            if started and value != previous and not (ended and not categorical[column]):
                entropy = _entropy(below) + _entropy(total - below)
                if entropy < best - 1e-12:
                    best = entropy
                    inside = (
                        row[column] == previous
                        if categorical[column]
                        else row[column] <= 0.5 * (previous + value)
                    )
                    side = below.copy() if inside else total - below
                if categorical[column]:
                    below[:] = 0.0
            if not ended:
                below[labels[order[place]]] += weights[order[place]]
                previous, started = value, True
    whole = side.sum()
    if whole <= 0.0:
        side, whole = total, total.sum()
    for label in range(classes):
        out[label] = side[label] / whole


@kernel()
def _entropy(counts):
    """Return the entropy of class weights times their sum."""
    whole, entropy = 0.0, 0.0
    for count in counts:
        if count > 1e-12:
            whole += count
            entropy -= count * np.log2(count)
    return entropy + whole * np.log2(whole) if whole > 0.0 else 0.0
