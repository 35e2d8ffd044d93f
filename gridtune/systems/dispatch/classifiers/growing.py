"""C4.5's growing of a tree: splits of quantities in two and of categories in many, by the gain ratio.

Source: Quinlan, "C4.5: Programs for Machine Learning", 1993, chapter 2; Quinlan, "Improved use of continuous
attributes in C4.5", JAIR 4, 1996 (the price of a threshold).
"""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.classifiers.tree import branch_of

__all__ = ["grow"]

#: Either side of a threshold has at least this share of a node's examples per class, but no more need be.
_SHARE, _ENOUGH = 0.1, 25.0
#: A column of many categories, this share of all examples, does not count in the average gain.
_MANY = 0.3
#: Gains that are smaller than the average by no more than this are good enough.
_HARDLY_LESS = 1e-3
#: What does not differ by more is alike.
_ALIKE = 1e-6


@kernel()
def grow(examples, orders, minimum, tree):
    """Grow a tree until its leaves are pure or cannot be split; return how many nodes it has.

    Parameters
    ----------
    examples
        See `Examples`.
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
    branch, scratch = np.empty(count, np.int64), np.empty(count, np.int64)
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
            for row in rows[0]:
                branch[row] = branch_of(node, examples.table[row], tree)
            begin = first[node]
            for part in range(tree.branches[node]):
                own = 0
                for row in rows[0]:
                    own += branch[row] == part
                first[nodes + part], last[nodes + part] = begin, begin + own
                begin += own
            for column in range(columns):
                _sort_by_branch(rows[column], branch, tree.branches[node], scratch)
            nodes += tree.branches[node]
        node += 1
    return nodes


@kernel()
def _sort_by_branch(rows, branch, branches, scratch):
    """Sort rows by their branch, those of one branch in the order they have."""
    place = 0
    for part in range(branches):
        for row in rows:
            if branch[row] == part:
                scratch[place] = row
                place += 1
    rows[:] = scratch[:place]


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
        left += _entropy(inside[branch])
    gain = (_entropy(counts) - left) / total
    return gain, gain / (_entropy(sizes) / total)


@kernel()
def _by_threshold(examples, rows, column, counts, minimum):
    """Return gain, gain ratio and threshold of the best split of a quantity; NaN where there is none.

    The gain is less by what it takes to say which of the possible thresholds it is: log₂(their number) bits
    for all examples.
    """
    total = counts.sum()
    least = max(minimum, min(_ENOUGH, _SHARE * total / counts.size))
    below, whole = np.zeros(counts.size), _entropy(counts)
    best, threshold, share, tries, under = 0.0, np.nan, 0.0, 0, 0.0
    for place in range(rows.size - 1):
        row = rows[place]
        below[examples.labels[row]] += examples.weights[row]
        under += examples.weights[row]
        value, following = examples.table[row, column], examples.table[rows[place + 1], column]
        if value == following or under < least or total - under < least:
            continue
        tries += 1
        gain = (whole - _entropy(below) - _entropy(counts - below)) / total
        if gain > best + _ALIKE * _ALIKE:
            best, threshold, share = gain, 0.5 * (value + following), under
            threshold = value if threshold >= following else threshold
    if tries == 0 or np.isnan(threshold):
        return np.nan, np.nan, np.nan
    gain = best - np.log2(tries) / total
    if gain <= 0.0:
        return np.nan, np.nan, np.nan
    return gain, gain / (_entropy(np.array([share, total - share])) / total), threshold


@kernel()
def _entropy(counts):
    """Return the entropy of weights, in bits, times their sum."""
    whole, entropy = 0.0, 0.0
    for count in counts:
        if count > 0.0:
            whole += count
            entropy -= count * np.log2(count)
    return entropy + whole * np.log2(whole) if whole > 0.0 else 0.0
