"""The learners of a dispatcher, by name, and the selection of their settings and attributes; naive Bayes.

A learner learns the chance of ending in time from ended jobs. It is refreshed from examples (rows of
attributes, and the jobs' outcomes) and then predicts for all machines of one decision at once. It predicts
from plain arrays: scikit-learn fits, it does not predict.

Attributes are selected by correlation (CFS), as WEKA does by default.
The chosen set is the one whose members say most about the class and least about each other. Quantities are
cut into intervals first, where that shortens the description (MDL).

Sources: Hall, "Correlation-based feature selection for machine learning", PhD thesis, Waikato, 1999 (merit,
symmetrical uncertainty); Fayyad and Irani, "Multi-interval discretization of continuous-valued attributes",
IJCAI 1993 (intervals); Witten and Frank, "Data Mining", 2nd edition, section 7.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import xlogy
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from gridtune.core.compiled import kernel
from gridtune.statistics.chances import area_under_roc
from gridtune.systems.dispatch.classifiers.c45 import GrownTree
from gridtune.systems.dispatch.classifiers.neighbours import stump_shares
from gridtune.systems.dispatch.simulator.replay import MACHINE
from gridtune.types import BoolArray, FloatArray, IntArray


def _select_attributes(table: FloatArray, labels: IntArray, *, categorical: Sequence[int] = ()) -> BoolArray:
    """Return which attributes to keep, shape (d,): the set of the largest merit, of several the smallest.

    The merit of k attributes is k·r / √(k + k·(k − 1)·s), where r is their mean symmetrical uncertainty with
    the class and s that with each other. Where no attribute tells anything of the class, all are kept.

    Parameters
    ----------
    table
        Examples, shape (n, d): all sets are tried, so d is small.
    labels
        Shape (n,): their classes, numbered from 0 on.
    categorical
        Categorical columns; the others are quantities.
    """
    columns = table.shape[1]
    values = [
        table[:, column].astype(np.int64)
        if column in categorical
        else np.searchsorted(_cut_points(table[:, column], labels), table[:, column])
        for column in range(columns)
    ]
    with_class = np.array([_symmetrical_uncertainty(value, labels) for value in values])
    between = np.zeros((columns, columns))
    for one, other in combinations(range(columns), 2):
        between[one, other] = _symmetrical_uncertainty(values[one], values[other])
    best, merit = tuple(range(columns)), 0.0
    for size in range(1, columns + 1):
        for kept in combinations(range(columns), size):
            pairs = sum(between[one, other] for one, other in combinations(kept, 2))
            own = float(with_class[list(kept)].sum()) / np.sqrt(size + 2 * pairs)
            if own > merit + 1e-9:
                best, merit = kept, own
    return np.isin(np.arange(columns), best)


def _symmetrical_uncertainty(one: IntArray, other: IntArray) -> float:
    """Return 2·(H(X) + H(Y) − H(X, Y)) / (H(X) + H(Y)) of two columns of categories; 0 of constant ones."""
    _, one = np.unique(one, return_inverse=True)
    _, other = np.unique(other, return_inverse=True)
    together = np.bincount(one * (int(other.max()) + 1) + other)
    single = float(_entropy(np.bincount(one)) + _entropy(np.bincount(other)))
    return 2.0 * (single - float(_entropy(together))) / single if single > 0 else 0.0


def _cut_points(values: FloatArray, labels: IntArray) -> FloatArray:
    """Return the borders of a quantity's intervals, ascending; none where no cut pays.

    A value belongs to the interval that ends at the first border not below it.
    """
    order = np.argsort(values, kind="stable")
    return np.array(sorted(_cuts(values[order], np.eye(int(labels.max()) + 1)[labels[order]])))


def _cuts(values: FloatArray, classes: FloatArray) -> Iterator[float]:
    """Yield the cuts of sorted values, `classes` one-hot rows: the best, then those of either side."""
    count = len(values)
    places = np.flatnonzero(values[1:] > values[:-1]) + 1
    if len(places) == 0:
        return
    whole, below = classes.sum(axis=0), np.cumsum(classes, axis=0)[places - 1]
    left, right = _entropy(below), _entropy(whole - below)
    left_share = places / count
    remaining = left_share * left + (1 - left_share) * right
    best = int(np.argmin(remaining))
    gain = _entropy(whole) - remaining[best]
    kinds, kinds_left, kinds_right = (
        int((counts > 0).sum()) for counts in (whole, below[best], whole - below[best])
    )
    lost = kinds * _entropy(whole) - kinds_left * left[best] - kinds_right * right[best]
    price = (np.log2(count - 1) + np.log2(3.0**kinds - 2) - lost) / count
    if gain <= price:
        return
    place = int(places[best])
    yield float(0.5 * (values[place - 1] + values[place]))
    yield from _cuts(values[:place], classes[:place])
    yield from _cuts(values[place:], classes[place:])


def _entropy(counts: FloatArray | IntArray) -> FloatArray:
    """Return the entropy, in bits, of counts along the last axis."""
    total = counts.sum(axis=-1, keepdims=True)
    shares = counts / np.where(total > 0, total, 1)
    entropy: FloatArray = -(xlogy(shares, shares) / np.log(2)).sum(axis=-1)
    return entropy


class Examples(NamedTuple):
    """Ended jobs: their attributes when they were placed, and the outcome.

    Attributes
    ----------
    rows
        Shape (n, d), float64.
    in_time
        Shape (n,), int64: 1 for jobs that ended in time.
    """

    rows: FloatArray
    in_time: IntArray


@dataclass
class Learner:
    """The learner of a broker: a classifier with settings that are selected.

    Attributes
    ----------
    machines
        Number of machines.
    attributes
        `published`: the paper's: estimate, deadline, queue length, machine. `observed`: the same four, but
        the seconds left to the deadline, and jobs waiting and running.
    selects_attributes
        Whether it learns from a selection of them only, chosen anew with its settings.
    limit
        Examples that model selection judges on; None for all.
    selection
        The last model selection; None where there is nothing to select.
    memory
        The most examples it learns from; None for any number.
    settings
        Its own settings to select from.
    kept
        Shape (d,): the selected attributes; None for all.
    """

    machines: int = 1
    attributes: Literal["observed", "published"] = "observed"
    selects_attributes: bool = False
    limit: int | None = 1000
    selection: _Selection | None = None
    memory: int | None = None
    settings: tuple[Any, ...] = (None,)
    kept: BoolArray | None = None

    def refresh(self, examples: Examples, *, reselect: bool, rng: np.random.Generator) -> None:
        """Learn from examples; `reselect`: select the model's settings again."""
        labels = examples.in_time
        if labels.min() == labels.max():
            self.constant(float(labels[0]))
            return
        if self.selects_attributes and (reselect or self.selection is None):
            self.kept = _select_attributes(examples.rows, labels, categorical=(MACHINE,))
        table = self._shown(examples.rows)
        if reselect or self.selection is None:
            self.selection = _select(table, labels, self.settings, self.scores, limit=self.limit, rng=rng)
        self.fit(table, labels, _class_weights(labels, self.selection.weight), self.selection.setting)

    def constant(self, chance: float) -> None:
        """Predict the same chance for all jobs."""
        self.answer: Callable[[FloatArray], FloatArray] = lambda rows: np.full(len(rows), chance)

    def chances(self, rows: FloatArray) -> FloatArray:
        """Return the chance of ending in time for each row, shape (n,)."""
        return self.answer(self._shown(rows))

    def _shown(self, rows: FloatArray) -> FloatArray:
        """Return rows in which attributes that are not selected are 0: a constant tells nothing."""
        return rows if self.kept is None else rows * self.kept

    def scores(self, table: FloatArray, labels: Any, weights: Sequence[FloatArray], rows: FloatArray) -> Any:
        """Yield the chances of rows for each weighting and setting, fitted to a table; see `Scorer`."""
        for weighed in weights:
            for setting in self.settings:
                self.fit(table, labels, weighed, setting)
                yield self.answer(rows)

    def fit(self, table: FloatArray, labels: Any, weights: FloatArray, setting: Any) -> None:
        """Fit the model to examples, and set `answer`."""
        raise NotImplementedError


@dataclass
class _J48(Learner):
    """C4.5's tree; its setting is the confidence factor. The machine is categorical."""

    settings: tuple[Any, ...] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)

    def scores(self, table: FloatArray, labels: Any, weights: Sequence[FloatArray], rows: FloatArray) -> Any:
        for weighed in weights:
            tree = self._grown(table, labels, weighed)
            for confidence in self.settings:
                self._prune(tree, confidence)
                yield self.answer(rows)

    def fit(self, table: FloatArray, labels: Any, weights: FloatArray, setting: Any) -> None:
        self._prune(self._grown(table, labels, weights), setting)

    def _grown(self, table: FloatArray, labels: Any, weights: FloatArray) -> GrownTree:
        categories = np.where(np.arange(table.shape[1]) == MACHINE, self.machines, 0)
        return GrownTree(table, labels, weights, categories=categories, classes=2)

    def _prune(self, tree: GrownTree, confidence: float) -> None:
        shares = tree.pruned(confidence).predictor()
        self.answer = lambda rows: shares(rows)[:, 1]


@dataclass
class _NaiveBayes(Learner):
    """Naive Bayes; it has no setting of its own. The machine is categorical."""

    def fit(self, table: FloatArray, labels: Any, weights: FloatArray, setting: Any) -> None:
        self.answer = _naive_bayes_predictor(
            table,
            labels,
            weights,
            categorical=MACHINE,
            categories=self.machines if self.kept is None or self.kept[MACHINE] else 1,
        )


@dataclass
class _LocallyWeighted(Learner):
    """Locally weighted learning; its setting is the number of neighbours.

    Every prediction goes over all examples, so by default it keeps to the last 500.
    """

    settings: tuple[Any, ...] = (None, 1, 10, 50, 100)
    memory: int | None = 500
    limit: int | None = 250

    def scores(self, table: FloatArray, labels: Any, weights: Sequence[FloatArray], rows: FloatArray) -> Any:
        shares = stump_shares(table, labels, weights, neighbours=self.settings, categorical=(MACHINE,))
        yield from shares(rows)[..., 1].reshape(-1, len(rows))

    def fit(self, table: FloatArray, labels: Any, weights: FloatArray, setting: Any) -> None:
        shares = stump_shares(table, labels, [weights], neighbours=[setting], categorical=(MACHINE,))
        self.answer = lambda rows: shares(rows)[0, 0, :, 1]


#: Learners by name; each takes the number of machines, and its attributes by name.
LEARNERS: dict[str, type[Learner]] = {
    "j48": _J48,
    "naive_bayes": _NaiveBayes,
    "lwl": _LocallyWeighted,
}


#: Weights of a positive example that are tried.
WEIGHTS = (1, 2, 5, 10)
FOLDS = 4

#: Fits on a table, labels and each of several weightings, and yields the chance of class 1 of another table's
#: rows: for every weighting and every setting of the learner in turn, so that what they share is done once.
Scorer = Callable[[FloatArray, IntArray, Sequence[FloatArray], FloatArray], Iterator[FloatArray]]


class _Selection(NamedTuple):
    """The selected weight and setting, and their area under the ROC curve."""

    weight: int
    setting: Any
    aroc: float


def _class_weights(labels: IntArray, weight: float) -> FloatArray:
    """Return each example's weight: `weight` for the positive ones, 1 for the others."""
    return np.where(labels == 1, float(weight), 1.0)


def _select(
    table: FloatArray,
    labels: IntArray,
    settings: Sequence[Any],
    scorer: Scorer,
    *,
    limit: int | None = None,
    rng: np.random.Generator,
) -> _Selection:
    """Return the weight and setting with the largest area under the ROC curve; the first of several.

    Parameters
    ----------
    table, labels
        Examples, shape (n, d), and whether they are positive, 0 or 1, shape (n,).
    settings
        The learner's own parameter; `scorer` yields scores for these, in this order.
    scorer
        See `Scorer`.
    limit
        Judge on a random part of this many examples; None for all. A class with fewer of them than folds,
        although the whole table has enough, is filled up to the number of folds.
    rng
        Draws that part and the four folds.

    Returns
    -------
    Selection
        With an AROC of NaN and the first of everything where a class has fewer examples in the whole table
        than there are folds.

    Notes
    -----
    Algorithm 1 of Vladušič; the area is that of all left-out predictions of a fold, averaged over folds.

    The examples that fill up a rare class are its next ones in the same random order, so that nothing else is
    drawn. In fitting, the class is weighted down to its share of the whole table, so that a weight of
    positive examples means the same as there. Areas do not depend on how frequent a class is.
    """
    order = rng.permutation(len(labels))
    if min(np.bincount(labels, minlength=2)) < FOLDS:
        return _Selection(WEIGHTS[0], settings[0], float("nan"))
    part, counts = _judged(labels, order, limit or len(labels))
    table, labels = table[part], labels[part]
    folds = list(
        StratifiedKFold(FOLDS, shuffle=True, random_state=int(rng.integers(2**32))).split(table, labels)
    )
    areas = np.zeros(len(WEIGHTS) * len(settings))
    for train, test in folds:
        own = [_class_weights(labels[train], weight) * counts[labels[train]] for weight in WEIGHTS]
        for place, score in enumerate(scorer(table[train], labels[train], own, table[test])):
            areas[place] += area_under_roc(score, labels[test] == 1) / FOLDS
    best = int(np.argmax(areas))
    row, column = divmod(best, len(settings))
    return _Selection(WEIGHTS[row], settings[column], float(areas[best]))


def _judged(labels: IntArray, order: IntArray, limit: int) -> tuple[Any, FloatArray]:
    """Return the examples to judge on, and how much one of either class counts in fitting, shape (2,).

    The first `limit` in `order`, and the next of a class that has fewer than `FOLDS` among them.
    """
    part = order[:limit]
    drawn = np.bincount(labels[part], minlength=2)
    lacking = np.maximum(0, FOLDS - drawn)
    if not lacking.any():
        return part, np.ones(2)
    rest = order[limit:]
    more = [rest[labels[rest] == label][: lacking[label]] for label in (0, 1)]
    shares = np.bincount(labels, minlength=2) / (drawn + lacking)
    # The larger class counts 1, so that its leaves and neighbourhoods keep their usual weight.
    return np.concatenate([part, *more]), shares / shares.max()


def _naive_bayes_predictor(
    table: FloatArray, labels: Any, weights: FloatArray, *, categorical: int, categories: int
) -> Callable[[FloatArray], FloatArray]:
    """Fit naive Bayes, and return a function of rows, shape (n, d), that gives the chance of class 1.

    A quantity has a normal distribution in each class, a category its frequency: scikit-learn's `GaussianNB`
    and `CategoricalNB`, each fitted on its columns, with their evidence added up. Predictions are compiled:
    for the few rows of a decision scikit-learn's checks take longer than the prediction.

    Parameters
    ----------
    table, labels, weights
        Examples, shape (n, d), of the classes 0 and 1; both occur.
    categorical
        The categorical column, its categories numbered from 0 on.
    categories
        The least number of categories, also of those without examples.
    """
    quantities = np.setdiff1d(np.arange(table.shape[1]), [categorical])
    normal: Any = GaussianNB().fit(table[:, quantities], labels, weights)
    frequencies: Any = CategoricalNB(min_categories=categories)
    frequencies.fit(table[:, [categorical]].astype(np.int64), labels, weights)
    prior, mean = np.log(normal.class_prior_), np.ascontiguousarray(normal.theta_)
    # Where no quantity varies, all are as probable in both classes.
    variance = np.where(normal.var_ > 0, normal.var_, 1.0)
    model = (prior, mean, variance, np.ascontiguousarray(frequencies.feature_log_prob_[0]), categorical)

    def predict(rows: FloatArray) -> FloatArray:
        out = np.empty(len(rows))
        _fill_bayes(model, np.ascontiguousarray(rows), out)
        return out

    return predict


@kernel()
def _fill_bayes(model: tuple[Any, ...], rows: FloatArray, out: FloatArray) -> None:
    """Fill in each row's probability of class 1.

    Parameters
    ----------
    model
        Log prior of the classes, shape (2,); means and variances, shapes (2, quantities); log probability of
        each category, shape (2, categories); the column of the category, the others are the quantities.
    rows, out
        Shapes (n, d) and (n,).
    """
    prior, mean, variance, chances, categorical = model
    for row in range(rows.shape[0]):
        first = second = 0.0
        for label in range(2):
            log_joint = prior[label]
            place = 0
            for column in range(rows.shape[1]):
                if column == categorical:
                    continue
                spread = variance[label, place]
                apart = rows[row, column] - mean[label, place]
                log_joint -= 0.5 * (np.log(2.0 * np.pi * spread) + apart * apart / spread)
                place += 1
            log_joint += chances[label, int(rows[row, categorical])]
            if label == 0:
                first = log_joint
            else:
                second = log_joint
        apart = min(max(first - second, -700.0), 700.0)
        out[row] = 1.0 / (1.0 + np.exp(apart))
