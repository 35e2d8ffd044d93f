"""Model selection: the weight of positive examples and a learner's own setting, by cross-validated AROC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from gridtune.systems.dispatch.metrics import area_under_roc
from gridtune.types import FloatArray, IntArray

__all__ = ["WEIGHTS", "Scorer", "Selection", "class_weights", "select"]


#: Weights of a positive example that are tried.
WEIGHTS = (1, 2, 5, 10)
FOLDS = 4

#: Fits on a table, labels and weights, and yields the chance of class 1 of another table's rows: for every
#: setting of the learner in turn, so that the work that settings share is done once.
Scorer = Callable[[FloatArray, IntArray, FloatArray, FloatArray], Iterator[FloatArray]]


class Selection(NamedTuple):
    """The selected weight and setting, and their area under the ROC curve."""

    weight: int
    setting: Any
    aroc: float


def class_weights(labels: IntArray, weight: float) -> FloatArray:
    """Return each example's weight: `weight` for the positive ones, 1 for the others."""
    return np.where(labels == 1, float(weight), 1.0)


def select(
    table: FloatArray,
    labels: IntArray,
    settings: Sequence[Any],
    scorer: Scorer,
    *,
    weights: Sequence[int] = WEIGHTS,
    limit: int | None = None,
    rng: np.random.Generator,
) -> Selection:
    """Return the weight and setting with the largest area under the ROC curve; the first of several.

    Parameters
    ----------
    table, labels
        Examples, shape (n, d), and whether they are positive, 0 or 1, shape (n,).
    settings
        The learner's own parameter; `scorer` yields scores for these, in this order.
    scorer
        See `Scorer`.
    weights
        Weights of positive examples to try.
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
        return Selection(weights[0], settings[0], float("nan"))
    part, counts = _judged(labels, order, limit or len(labels))
    table, labels = table[part], labels[part]
    folds = list(
        StratifiedKFold(FOLDS, shuffle=True, random_state=int(rng.integers(2**32))).split(table, labels)
    )
    areas = np.zeros((len(weights), len(settings)))
    for row, weight in enumerate(weights):
        for train, test in folds:
            own = class_weights(labels[train], weight) * counts[labels[train]]
            scores = scorer(table[train], labels[train], own, table[test])
            for column, score in enumerate(scores):
                areas[row, column] += area_under_roc(score, labels[test] == 1) / FOLDS
    row, column = divmod(int(np.argmax(areas)), len(settings))
    return Selection(weights[row], settings[column], float(areas[row, column]))


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
