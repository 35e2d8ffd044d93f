"""The classifiers: published behaviour, scikit-learn's models, and the equations by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.tree import DecisionTreeClassifier

from gridtune.systems.dispatch.classifiers.c45 import GrownTree, _added_errors, _Bound, _Nodes
from gridtune.systems.dispatch.classifiers.neighbours import _least_entropy, entropy, stump_shares
from gridtune.systems.dispatch.dispatchers.learners import (
    _class_weights,
    _naive_bayes_predictor,
    _select,
)


def _stump_predictor(table, labels, weights, *, neighbours=None, categorical=()):
    shares = stump_shares(table, labels, [weights], neighbours=[neighbours], categorical=categorical)
    return lambda rows: shares(rows)[0, 0]


def accuracy(model: object, data: tuple[np.ndarray, np.ndarray]) -> float:
    folds = StratifiedKFold(10, shuffle=True, random_state=1)
    return float(cross_val_score(model, *data, cv=folds).mean())


class Estimator(ClassifierMixin, BaseEstimator):
    """An estimator whose class shares a function of examples, labels and weights predicts."""

    def __init__(self, fit_predictor):
        self.fit_predictor = fit_predictor

    def fit(self, table, labels):
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        self.predictor_ = self.fit_predictor(table, numbers, np.ones(len(table)))
        return self

    def predict(self, rows):
        return self.classes_[self.predictor_(rows).argmax(axis=1)]


def c45_tree(table, labels, weights=None, confidence=0.25, categories=None) -> _Nodes:
    """C4.5's tree of quantities, or of columns with so many categories (0: a quantity)."""
    table, labels = np.asarray(table), np.asarray(labels)
    categories = np.zeros(table.shape[1], int) if categories is None else categories
    weights = np.ones(len(table)) if weights is None else weights
    grown = GrownTree(table, labels, weights, categories=categories, classes=int(labels.max()) + 1)
    return grown.pruned(confidence)


def stumps(table, labels, weights, neighbours, categorical=()):
    """A function of rows that gives class shares by the stumps on so many examples near each."""
    shares = stump_shares(table, labels, [weights], neighbours=[neighbours], categorical=categorical)
    return lambda rows: shares(rows)[0, 0]


C45 = Estimator(lambda *examples: c45_tree(*examples).predictor())
STUMPS = Estimator(lambda *examples: stumps(*examples, neighbours=50))


def leaves(tree: _Nodes) -> int:
    """Leaves that rows can reach."""
    reached = [0]
    for node in reached:
        first = tree.child[node]
        reached += [] if first < 0 else range(first, first + tree.branches[node])
    return sum(tree.child[node] < 0 for node in reached)


# C4.5 -------------------------------------------------------------------------------------------------


def test_bounds_of_leaves_as_printed_in_c45s_description():
    """Quinlan: U₂₅(0, 6) = 0.206, U₂₅(0, 9) = 0.143, U₂₅(0, 1) = 0.750, U₂₅(1, 16) = 0.157."""
    quarter = _Bound(0.25, float(norm.ppf(0.75)))
    for total, wrong, bound in ((6, 0, 0.206), (9, 0, 0.143), (1, 0, 0.750)):
        assert (wrong + _added_errors(float(total), float(wrong), quarter)) / total == pytest.approx(
            bound, abs=5e-4
        )
    # His is exact, the approximation that J48 has is near it.
    assert (1 + _added_errors(16.0, 1.0, quarter)) / 16 == pytest.approx(0.157, abs=3e-3)


def described(tree: _Nodes, node: int = 0) -> object:
    """A tree as nested tuples: column, threshold (None for categories) and branches; a leaf as its counts."""
    if tree.child[node] < 0:
        return tree.counts[node].astype(int).tolist()
    branches = [described(tree, tree.child[node] + branch) for branch in range(tree.branches[node])]
    threshold = float(tree.threshold[node])
    return int(tree.feature[node]), None if np.isnan(threshold) else round(threshold, 2), branches


def test_the_iris_tree_that_j48_is_known_for():
    """Petal width 0.6, 1.7; petal length 4.9; petal width 1.5. Leaves: 50, 48 (1), 3, 3 (1), 46 (1)."""
    fitted = c45_tree(*load_iris(return_X_y=True))
    inner = (2, 4.9, [[0, 47, 1], (3, 1.5, [[0, 0, 3], [0, 2, 1]])])
    assert described(fitted) == (3, 0.6, [[50, 0, 0], (3, 1.7, [inner, [0, 1, 45]])])
    assert leaves(fitted) == 5


#: Quinlan's weather: outlook (sunny, overcast, rain), temperature, humidity, windy; whether there is play.
WEATHER = np.array(
    [
        (0, 85, 85, 0, 0),
        (0, 80, 90, 1, 0),
        (1, 83, 86, 0, 1),
        (2, 70, 96, 0, 1),
        (2, 68, 80, 0, 1),
        (2, 65, 70, 1, 0),
        (1, 64, 65, 1, 1),
        (0, 72, 95, 0, 0),
        (0, 69, 70, 0, 1),
        (2, 75, 80, 0, 1),
        (0, 75, 70, 1, 1),
        (1, 72, 90, 1, 1),
        (1, 81, 75, 0, 1),
        (2, 71, 91, 1, 0),
    ]
)


@pytest.mark.parametrize("confidence", [0.25, 0.5])
def test_the_weather_tree_of_quinlans_book(confidence):
    """Overcast: play. Sunny: play up to a humidity of 75. Rain: play without wind. All 14 are right."""
    table, play = WEATHER[:, :4], WEATHER[:, 4]
    fitted = c45_tree(table, play, None, confidence, (3, 0, 0, 2))
    sunny, rain = (2, 75.0, [[0, 2], [3, 0]]), (3, None, [[0, 3], [2, 0]])
    assert described(fitted) == (0, None, [sunny, [0, 4], rain])
    assert (fitted.predictor()(table.astype(float)).argmax(axis=1) == play).all()


def test_the_tree_of_the_contact_lenses():
    """Cendrowska's 24 cases, as J48 has them: tears, astigmatism, prescription; two errors."""
    cases = np.array(np.meshgrid(range(3), range(2), range(2), range(2), indexing="ij")).reshape(4, -1).T
    # Age, prescription (myope first), astigmatism, tears (reduced first); none, soft or hard lenses.
    lenses = np.array([0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0])
    fitted = c45_tree(cases, lenses, categories=(3, 2, 2, 2))
    astigmatic = (1, None, [[0, 0, 3], [2, 0, 1]])
    assert described(fitted) == (3, None, [[12, 0, 0], (2, None, [[1, 5, 0], astigmatic])])


def test_an_empty_branch_has_its_parents_shares():
    """Of four categories the last has no example."""
    table = np.array([0, 0, 0, 1, 1, 1, 2, 2])[:, None]
    shares = c45_tree(table, [0, 0, 0, 1, 1, 1, 1, 1], categories=(4,)).predictor()
    assert shares(np.array([[0.0], [1.0], [3.0]])).tolist() == [[1, 0], [0, 1], [3 / 8, 5 / 8]]


def slow_best_split(table, labels, categories, minimum=2):
    """C4.5's choice, spelt out: the column, and the middle of its threshold's neighbours."""

    def entropy(values):
        _, counts = np.unique(values, return_counts=True)
        return -(counts / counts.sum() * np.log2(counts / counts.sum())).sum()

    def gain_and_ratio(parts, price=0.0):
        sizes = np.array([len(part) for part in parts if len(part)])
        left = sum(len(part) / len(labels) * entropy(labels[part]) for part in parts if len(part))
        gain = entropy(labels) - left - price
        return gain, gain / -(sizes / sizes.sum() * np.log2(sizes / sizes.sum())).sum()

    found = []
    for column, count in enumerate(categories):
        values = table[:, column]
        if count:
            parts = [np.flatnonzero(values == value) for value in range(count)]
            if sum(len(part) >= minimum for part in parts) >= 2:
                found.append((column, None, *gain_and_ratio(parts)))
            continue
        least = max(minimum, min(25, 0.1 * len(labels) / len(np.unique(labels))))
        distinct = np.unique(values)
        middles = (distinct[1:] + distinct[:-1]) / 2
        cuts = [m for m in middles if least <= (values <= m).sum() <= len(values) - least]
        if not cuts:
            continue
        price = np.log2(len(cuts)) / len(labels)
        halves = {m: [np.flatnonzero(values <= m), np.flatnonzero(values > m)] for m in cuts}
        best = max(cuts, key=lambda m: round(gain_and_ratio(halves[m])[0], 11))
        gain, ratio = gain_and_ratio(halves[best], price)
        if gain > 0:
            found.append((column, best, gain, ratio))
    if not found:
        return None
    average = np.mean([gain for _, _, gain, _ in found])
    column, middle, _, _ = max((row for row in found if row[2] >= average - 1e-3), key=lambda row: row[3])
    return column, middle


def test_the_first_split_is_c45s_choice_on_random_tables():
    rng = np.random.default_rng(8)
    for _ in range(60):
        count = int(rng.integers(20, 80))
        table = np.column_stack([rng.integers(0, 9, count), rng.random(count), rng.integers(0, 4, count)])
        noise = rng.random(count) < 0.3
        labels = np.where(noise, rng.integers(0, 2, count), table[:, 0] + 3 * (table[:, 2] == 1) > 5)
        tree = GrownTree(table, labels, np.ones(count), categories=(0, 0, 4), classes=2).nodes
        expected = slow_best_split(table, labels.astype(int), (0, 0, 4))
        if expected is None or tree.child[0] < 0:
            assert expected is None
            assert tree.child[0] < 0
            continue
        column, middle = expected
        assert tree.feature[0] == column
        if middle is None:
            assert tree.branches[0] == 4
        else:
            assert tree.threshold[0] == table[:, column][table[:, column] <= middle].max()


@pytest.mark.parametrize(
    ("data", "published"), [(load_iris, 0.95), (load_breast_cancer, 0.93), (load_wine, 0.93)]
)
def test_c45s_accuracy_is_as_published(data, published):
    """Ten-fold accuracies of J48 in the literature: 95 % on iris, 93 % on WDBC, 93 % on wine; ± 3 %."""
    assert accuracy(C45, data(return_X_y=True)) == pytest.approx(published, abs=0.03)


def test_a_smaller_confidence_prunes_more():
    table, labels = load_breast_cancer(return_X_y=True)
    trees = [c45_tree(table, labels, None, confidence) for confidence in (0.01, 0.1, 0.25, 0.5)]
    counts = [leaves(tree) for tree in trees]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_noise_is_pruned_away():
    rng = np.random.default_rng(0)
    table, labels = rng.random((400, 3)), (rng.random(400) < 0.2).astype(int)
    assert leaves(c45_tree(table, labels, None, 0.05)) <= 3
    assert DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(table, labels).get_n_leaves() > 50


def test_raising_replaces_a_node_by_its_largest_branch():
    """A first split that says nothing stands above one that says all: raising takes the second up."""
    rng = np.random.default_rng(3)
    table = np.column_stack([rng.random((300, 3)), rng.integers(0, 5, 300)])
    labels = ((table[:, 0] > 0.5) ^ (rng.random(300) < 0.12)).astype(int)
    grown = GrownTree(table, labels, np.ones(300), categories=(0, 0, 0, 5), classes=2)
    raised = grown.pruned(0.25)
    assert 1 < leaves(raised) < leaves(grown.nodes)
    # Whatever was moved, every node's counts are those of the examples that reach it.
    reached = {0: np.arange(300)}
    for node in range(len(raised.child)):
        if node not in reached:
            continue
        rows = reached[node]
        np.testing.assert_array_equal(raised.counts[node], np.bincount(labels[rows], minlength=2))
        if raised.child[node] >= 0:
            values = table[rows, raised.feature[node]]
            threshold = raised.threshold[node]
            branch = values.astype(int) if np.isnan(threshold) else (values > threshold).astype(int)
            for number in range(raised.branches[node]):
                reached[int(raised.child[node]) + number] = rows[branch == number]


# Naive Bayes ------------------------------------------------------------------------------------------


def test_naive_bayes_is_the_sum_of_scikit_learns_two():
    rng = np.random.default_rng(0)
    names = rng.integers(0, 4, (200, 1))
    labels = (names[:, 0] + rng.integers(0, 3, 200) > 3).astype(int)
    quantities = labels[:, None] + rng.random((200, 2))
    rows = np.column_stack([quantities[:, 0], names, quantities[:, 1]])
    weights = _class_weights(labels, 5.0)
    categorical = CategoricalNB().fit(names, labels, weights)
    normal = GaussianNB().fit(quantities, labels, weights)
    # By Bayes' rule: what either says, over the prior that both have in them.
    product = categorical.predict_proba(names) * normal.predict_proba(quantities) / normal.class_prior_
    chances = _naive_bayes_predictor(rows, labels, weights, categorical=1, categories=4)
    np.testing.assert_allclose(chances(rows), product[:, 1] / product.sum(axis=1), atol=1e-9)
    wider = _naive_bayes_predictor(rows, labels, weights, categorical=1, categories=9)
    assert np.isfinite(wider(np.array([[0.5, 8.0, 0.5]]))).all()


# Locally weighted learning ----------------------------------------------------------------------------


def slow_lwl(table, labels, weights, categorical, row, neighbours, classes):
    """The definition, one query: distances, linear kernel, the best of all stumps."""
    low, span = table.min(axis=0), np.ptp(table, axis=0)
    low, span = np.where(categorical, 0, low), np.where(categorical | (span == 0), 1, span)
    table, row = (table - low) / span, (row - low) / span
    apart = np.where(categorical, table != row, np.abs(table - row)).astype(float)
    distance = np.sqrt((apart**2).sum(axis=1))
    farthest = np.sort(distance)[min(neighbours or len(table), len(table)) - 1]
    near = distance <= farthest
    local = np.where(near, weights * (1.0001 - (distance / farthest if farthest > 0 else 0)), 0.0)

    def entropy(mask):
        sums = np.array([local[mask & (labels == label)].sum() for label in range(classes)])
        if sums.sum() <= 0:
            return 0.0, sums
        shares = sums[sums > 0] / sums.sum()
        return float(-(shares * np.log2(shares)).sum() * sums.sum()), sums

    best, side = np.inf, entropy(near)[1]
    for column in range(table.shape[1]):
        values = np.unique(table[near, column])
        cuts = values if categorical[column] else (values[1:] + values[:-1]) / 2
        for cut in cuts:
            inside = table[:, column] == cut if categorical[column] else table[:, column] <= cut
            (one, sums), (other, rest) = entropy(near & inside), entropy(near & ~inside)
            if one + other < best - 1e-12:
                best = one + other
                within = row[column] == cut if categorical[column] else row[column] <= cut
                side = sums if within else rest
    return side / side.sum() if side.sum() > 0 else entropy(near)[1] / entropy(near)[1].sum()


@pytest.mark.parametrize("neighbours", [None, 1, 5, 60])
def test_locally_weighted_learning_is_its_definition(neighbours):
    rng = np.random.default_rng(5)
    table = np.column_stack([rng.random(120), rng.integers(0, 30, 120), rng.integers(0, 4, 120)])
    labels = (table[:, 0] + table[:, 2] / 4 + 0.3 * rng.random(120) > 0.9).astype(int)
    weights = _class_weights(labels, 2.0)
    categorical = np.array([False, False, True])
    rows = np.column_stack([rng.random(40), rng.integers(0, 30, 40), rng.integers(0, 4, 40)])
    shares = stumps(table, labels, weights, neighbours=neighbours, categorical=(2,))
    expected = [slow_lwl(table, labels, weights, categorical, row, neighbours, 2) for row in rows]
    np.testing.assert_allclose(shares(rows), expected, atol=1e-9)


def test_weights_and_numbers_of_neighbours_are_valued_together_as_one_by_one():
    rng = np.random.default_rng(6)
    table = np.column_stack([rng.random(300).round(1), rng.integers(0, 9, 300), rng.integers(0, 3, 300)])
    labels = (table[:, 0] + table[:, 1] / 9 + rng.random(300) > 1.4).astype(int)
    settings, weights = (None, 1, 10, 50, 100), [_class_weights(labels, weight) for weight in (1.0, 5.0)]
    together = stump_shares(table, labels, weights, neighbours=settings, categorical=(2,))(table[:60])
    for weighed, of_weights in zip(weights, together, strict=True):
        for setting, shares in zip(settings, of_weights, strict=True):
            alone = stumps(table, labels, weighed, neighbours=setting, categorical=(2,))
            np.testing.assert_array_equal(shares, alone(table[:60]))


def test_the_bound_of_the_entropy_is_below_it_and_near():
    for share in np.linspace(0.0, 1.0, 201):
        counts = 7.0 * np.array([share, 1.0 - share])
        assert entropy(counts) - 7.0 * 0.03 <= _least_entropy(*counts) <= entropy(counts) + 1e-9


def test_one_neighbour_is_the_nearest_neighbour():
    table, labels = load_iris(return_X_y=True)
    shares = stumps(table[::2], labels[::2], np.ones(75), neighbours=1)
    assert (shares(table[::2]).argmax(axis=1) == labels[::2]).mean() > 0.98


def test_locally_weighted_learning_is_as_accurate_as_published():
    """Locally weighted stumps: 94 to 96 % on iris, 95 to 97 % on wine (± 3 %)."""
    assert accuracy(STUMPS, load_iris(return_X_y=True)) == pytest.approx(0.95, abs=0.03)
    assert accuracy(STUMPS, load_wine(return_X_y=True)) == pytest.approx(0.95, abs=0.04)


# Selection -----------------------------------------------------------------------------


def test_selection_takes_the_largest_area_over_weights_and_settings():
    rng = np.random.default_rng(0)
    table = rng.random((300, 2))
    labels = (table[:, 0] + 0.3 * rng.random(300) > 0.6).astype(int)
    calls = []

    def scorer(train, own, weights, test):
        for weighed in weights:
            calls.append((len(train), len(test), float(weighed.max())))
            # Settings: noise, the column that tells, its opposite.
            yield np.linspace(0, 1, len(test))
            yield test[:, 0]
            yield -test[:, 0]

    selection = _select(table, labels, ("noise", "good", "bad"), scorer, rng=np.random.default_rng(1))
    assert (selection.weight, selection.setting) == (1, "good")
    assert selection.aroc == pytest.approx(roc_auc_score(labels, table[:, 0]), abs=0.02)
    assert len(calls) == 4 * 4
    assert {weight for *_, weight in calls} == {1.0, 2.0, 5.0, 10.0}
    assert all(train + out == 300 for train, out, _ in calls)
    few = _select(table[:3], np.array([0, 1, 0]), ("noise",), scorer, rng=np.random.default_rng(1))
    assert np.isnan(few.aroc)


def rare(positive: int, count: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    """Examples of which so few are positive, those with the largest values of the second column."""
    table = np.random.default_rng(2).random((count, 2))
    labels = np.zeros(count, np.int64)
    labels[np.argsort(table[:, 1])[count - positive :]] = 1
    return table, labels


def columns(calls: list):
    """A scorer of three settings, noise and two columns; it records its calls, with the first weights."""

    def scorer(train, own, weights, test):
        calls.append((train, own, weights[0], test))
        for _ in weights:
            yield np.zeros(len(test))
            yield test[:, 0]
            yield test[:, 1]

    return scorer


@pytest.mark.parametrize("positive", [4, 10])
@pytest.mark.parametrize("flipped", [False, True], ids=["positive", "negative"])
def test_a_rare_class_is_judged_on_as_many_examples_as_there_are_folds(positive, flipped):
    """Of 5,000 examples 0.1 or 0.2 % are of one class: 250 at random have hardly one of them."""
    table, labels = rare(positive)
    labels = 1 - labels if flipped else labels
    few = int(not flipped)
    for seed in range(5):
        plain = np.random.default_rng(seed).permutation(5000)[:250]
        assert (labels[plain] == few).sum() < 4
        calls: list = []
        settings = ("noise", "other", "good")
        rng = np.random.default_rng(seed)
        selection = _select(table, labels, settings, columns(calls), limit=250, rng=rng)
        if not flipped:
            assert (selection.setting, selection.aroc) == ("good", 1.0)
        test = np.concatenate([call[3] for call in calls])
        judged = {tuple(row) for row in test}
        assert len(judged) == len(test) == 250 + 4 - (labels[plain] == few).sum()
        assert {tuple(row) for row in table[plain]} <= judged
        for train, own, weights, _ in calls:
            assert (own == few).sum() == 3
            assert len(train) == len(weights)
            # Odds by weight are, but for the fold that is left out, those of all 5,000.
            odds = weights[own == few].sum() / weights[own != few].sum()
            assert odds == pytest.approx(positive / (5000 - positive), rel=0.02)
            assert weights.max() == 1.0
        assert rng.random() == after(seed)


def after(seed: int) -> float:
    """The generator's next number, if it drew one permutation and the folds."""
    rng = np.random.default_rng(seed)
    rng.permutation(5000)
    rng.integers(2**32)
    return float(rng.random())


@pytest.mark.parametrize("limit", [None, 60, 250])
def test_where_a_plain_part_has_enough_of_both_classes_it_is_what_is_judged(limit):
    table, labels = rare(2500)
    calls: list = []
    selection = _select(table, labels, "abc", columns(calls), limit=limit, rng=np.random.default_rng(7))
    # Algorithm 1 without the rule for rare classes.
    rng = np.random.default_rng(7)
    part = rng.permutation(5000)[: limit or 5000]
    table, labels = table[part], labels[part]
    split = StratifiedKFold(4, shuffle=True, random_state=int(rng.integers(2**32))).split(table, labels)
    expected = [
        (table[train], labels[train], _class_weights(labels[train], 1.0), table[test])
        for train, test in split
    ]
    for call, wanted in zip(calls, expected, strict=True):
        for one, other in zip(call, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    assert (selection.weight, selection.setting, selection.aroc) == (1, "c", 1.0)


def test_too_few_of_a_class_in_the_whole_table_are_told_by_the_area():
    table, labels = rare(3)
    calls: list = []
    rng, again = np.random.default_rng(0), np.random.default_rng(0)
    selection = _select(table, labels, "abc", columns(calls), limit=250, rng=rng)
    assert (selection.weight, selection.setting, calls) == (1, "a", [])
    again.permutation(5000)
    assert rng.random() == again.random()
    assert np.isnan(selection.aroc)
