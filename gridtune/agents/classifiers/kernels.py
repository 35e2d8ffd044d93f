"""Compiled parts of the classifiers: pruning trees, predicting with many, locally weighted stumps."""

from __future__ import annotations

import numpy as np

from gridtune.simulation.compiled import kernel

__all__ = ["added_errors", "collapse", "locally_weighted", "mixed_bayes", "prune", "tree_sum"]

#: C4.5 prefers the smaller tree when it is worse by no more than this many errors.
_TOLERANCE = 0.1
#: It collapses a subtree whose training errors are no fewer than this many below its root's.
_COLLAPSED = 1e-3
#: Makes the farthest of the neighbours count a little.
_FARTHEST = 1.0001


@kernel()
def added_errors(total, wrong, confidence, z):
    """Return how many errors to add to those seen, for an upper bound at that confidence.

    With no error the bound p solves (1 − p)^N = confidence; from one on it is the normal approximation to
    the binomial with continuity correction; in between it is interpolated.

    Parameters
    ----------
    total, wrong
        Weights of a leaf's examples, and of those not of its class.
    confidence, z
        C4.5's confidence factor CF, and the standard normal quantile of 1 − CF.
    """
    if wrong < 1.0:
        none = total * (1.0 - confidence ** (1.0 / total))
        if wrong == 0.0:
            return none
        return none + wrong * (added_errors(total, 1.0, confidence, z) - none)
    if wrong + 0.5 >= total:
        return max(total - wrong, 0.0)
    share = (wrong + 0.5) / total
    spread = z * np.sqrt(share / total - share * share / total + z * z / (4.0 * total * total))
    bound = (share + z * z / (2.0 * total) + spread) / (1.0 + z * z / total)
    return bound * total - wrong


@kernel()
def _estimate(counts, confidence, z):
    """Return the errors to expect of a leaf with these class counts."""
    total = counts.sum()
    if total <= 0.0:
        return 0.0
    wrong = total - counts.max()
    return wrong + added_errors(total, wrong, confidence, z)


@kernel()
def collapse(left, right, counts):
    """Make a leaf of every node whose subtree makes no fewer training errors; children follow parents."""
    wrong = np.empty(left.size)
    for node in range(left.size - 1, -1, -1):
        own = counts[node].sum() - counts[node].max()
        wrong[node] = own
        if left[node] >= 0:
            below = wrong[left[node]] + wrong[right[node]]
            if below >= own - _COLLAPSED:
                left[node] = right[node] = -1
            else:
                wrong[node] = below


@kernel()
def prune(
    node, rows, table, labels, weights, left, right, feature, threshold, counts, confidence, z, raising
):
    """Prune a subtree by estimated errors, from its leaves up; return its estimated errors.

    A node becomes a leaf, or is replaced by its larger branch (subtree raising), where that is estimated
    to make hardly more errors.

    Parameters
    ----------
    node, rows
        The subtree, and the examples that reach it, int64.
    table, labels, weights
        All examples: shape (n, d), float32; class numbers, int64; weights, float64.
    left, right, feature, threshold
        The tree, changed in place; a leaf has no children: -1.
    counts
        Shape (nodes, classes): weights of the examples of each class at each node, kept up to date.
    confidence, z
        See `added_errors`.
    raising
        Whether subtrees may be raised.
    """
    as_leaf = _estimate(counts[node], confidence, z)
    if left[node] < 0:
        return as_leaf
    low, high = _parted(rows, table, feature[node], threshold[node])
    errors = 0.0
    for child, part in ((left[node], low), (right[node], high)):
        errors += prune(
            child,
            part,
            table,
            labels,
            weights,
            left,
            right,
            feature,
            threshold,
            counts,
            confidence,
            z,
            raising,
        )
    branch, as_branch = -1, np.inf
    if raising:
        branch = left[node] if counts[left[node]].sum() >= counts[right[node]].sum() else right[node]
        as_branch = _branch_errors(
            branch,
            rows,
            table,
            labels,
            weights,
            left,
            right,
            feature,
            threshold,
            counts.shape[1],
            confidence,
            z,
        )
    if as_leaf <= errors + _TOLERANCE and as_leaf <= as_branch + _TOLERANCE:
        left[node] = right[node] = -1
        return as_leaf
    if as_branch <= errors + _TOLERANCE:
        left[node], right[node] = left[branch], right[branch]
        feature[node], threshold[node] = feature[branch], threshold[branch]
        _recount(node, rows, table, labels, weights, left, right, feature, threshold, counts)
        return prune(
            node,
            rows,
            table,
            labels,
            weights,
            left,
            right,
            feature,
            threshold,
            counts,
            confidence,
            z,
            raising,
        )
    return errors


@kernel()
def _parted(rows, table, column, threshold):
    """Return the rows that go left, and those that go right."""
    low = np.empty(rows.size, np.int64)
    high = np.empty(rows.size, np.int64)
    lows = highs = 0
    for row in rows:
        if table[row, column] <= threshold:
            low[lows] = row
            lows += 1
        else:
            high[highs] = row
            highs += 1
    return low[:lows], high[:highs]


@kernel()
def _counted(rows, labels, weights, classes):
    counts = np.zeros(classes)
    for row in rows:
        counts[labels[row]] += weights[row]
    return counts


@kernel()
def _branch_errors(
    node, rows, table, labels, weights, left, right, feature, threshold, classes, confidence, z
):
    """Return the errors to expect of a subtree that all these examples went into."""
    if left[node] < 0:
        return _estimate(_counted(rows, labels, weights, classes), confidence, z)
    low, high = _parted(rows, table, feature[node], threshold[node])
    errors = _branch_errors(
        left[node], low, table, labels, weights, left, right, feature, threshold, classes, confidence, z
    )
    return errors + _branch_errors(
        right[node], high, table, labels, weights, left, right, feature, threshold, classes, confidence, z
    )


@kernel()
def _recount(node, rows, table, labels, weights, left, right, feature, threshold, counts):
    counts[node] = _counted(rows, labels, weights, counts.shape[1])
    if left[node] < 0:
        return 0
    low, high = _parted(rows, table, feature[node], threshold[node])
    _recount(left[node], low, table, labels, weights, left, right, feature, threshold, counts)
    return _recount(right[node], high, table, labels, weights, left, right, feature, threshold, counts)


@kernel()
def tree_sum(first, left, right, feature, threshold, value, rows, out):
    """Add up, for each row, what the leaves say that it falls into: one of every tree.

    Parameters
    ----------
    first
        Shape (trees,), int64: root of each tree among the nodes.
    left, right, feature, threshold, value
        Shape (nodes,): children (-1 for a leaf), column, what goes left is at most this, what a leaf says.
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
def mixed_bayes(prior, mean, variance, named, rows, quantities, names, out):
    """Return each row's probability of class 1 under naive Bayes with normal and named columns.

    Parameters
    ----------
    prior
        Shape (2,): log prior of the classes.
    mean, variance
        Shape (2, quantities).
    named
        Shape (2, named columns, most names): log probability of each name.
    rows
        Shape (n, d).
    quantities, names
        Which columns are quantities and which hold numbers of names.
    out
        Shape (n,), float64: filled in.
    """
    for row in range(rows.shape[0]):
        first = second = 0.0
        for label in range(2):
            told = prior[label]
            for place in range(quantities.size):
                spread = variance[label, place]
                apart = rows[row, quantities[place]] - mean[label, place]
                told -= 0.5 * (np.log(2.0 * np.pi * spread) + apart * apart / spread)
            for place in range(names.size):
                told += named[label, place, int(rows[row, names[place]])]
            if label == 0:
                first = told
            else:
                second = told
        apart = min(max(first - second, -700.0), 700.0)
        out[row] = 1.0 / (1.0 + np.exp(apart))


@kernel()
def locally_weighted(table, labels, weights, orders, named, rows, neighbours, classes, out):
    """Return each row's class probabilities by a decision stump on the examples near it.

    An example's weight is its own times 1.0001 − d/d_k, where d is its Euclidean distance and d_k that of
    the farthest neighbour (a linear kernel); names are at distance 0 or 1.

    Parameters
    ----------
    table
        Shape (n, d): the examples, quantities scaled to [0, 1].
    labels, weights
        Shape (n,): class numbers and weights.
    orders
        Shape (d, n), int64: the examples in order of each column.
    named
        Shape (d,), bool: columns that hold names.
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
                squared += (1.0 if apart != 0.0 else 0.0) if named[column] else apart * apart
            distance[example] = np.sqrt(squared)
        farthest = distance.max() if near == count else np.partition(distance, near - 1)[near - 1]
        chosen = np.empty(count, np.int64)
        kept = 0
        for example in range(count):
            local[example] = 0.0
            if distance[example] <= farthest:
                relative = distance[example] / farthest if farthest > 0.0 else 0.0
                local[example] = weights[example] * (_FARTHEST - relative)
                chosen[kept] = example
                kept += 1
        _stump(table, labels, local, orders, named, chosen[:kept], rows[query], classes, out[query])


@kernel()
def _stump(table, labels, weights, orders, named, chosen, row, classes, out):
    """Split the chosen examples once, where the classes' entropy falls most, and read off the row's side."""
    total = np.zeros(classes)
    for example in chosen:
        total[labels[example]] += weights[example]
    best, side = np.inf, total.copy()
    few = chosen.size * 8 < table.shape[0]
    for column in range(table.shape[1]):
        order = chosen[np.argsort(table[chosen, column])] if few else orders[column]
        below = np.zeros(classes)
        # Of a name the examples that bear it are one side, so what lies before is forgotten at each.
        previous, started = 0.0, False
        for place in range(order.size + 1):
            ended = place == order.size
            if not ended and weights[order[place]] == 0.0:
                continue
            value = previous + 1.0 if ended else table[order[place], column]
            # The last border of a quantity parts nothing.
            if started and value != previous and not (ended and not named[column]):
                entropy = _entropy(below) + _entropy(total - below)
                if entropy < best - 1e-12:
                    best = entropy
                    inside = (
                        row[column] == previous if named[column] else row[column] <= 0.5 * (previous + value)
                    )
                    side = below.copy() if inside else total - below
                if named[column]:
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
    whole, told = 0.0, 0.0
    for count in counts:
        if count > 1e-12:
            whole += count
            told -= count * np.log2(count)
    return told + whole * np.log2(whole) if whole > 0.0 else 0.0
