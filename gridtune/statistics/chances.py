"""Quality of predicted probabilities: the area under the ROC curve, and calibration."""

from __future__ import annotations

import numpy as np

from gridtune.types import BoolArray, FloatArray, IntArray

#: Bins of equal width that probabilities are sorted into.
_BINS = 10


def area_under_roc(chance: FloatArray, true: BoolArray) -> float:
    """Return the probability that something true got a larger chance than something false; ties count half.

    By the rank sum of Mann and Whitney; NaN unless there are both.
    """
    positive = int(true.sum())
    negative = len(true) - positive
    if positive == 0 or negative == 0:
        return float("nan")
    ordered, own = np.sort(chance), chance[true]
    ranks = (np.searchsorted(ordered, own) + np.searchsorted(ordered, own, side="right") + 1) / 2
    return float((ranks.sum() - positive * (positive + 1) / 2) / (positive * negative))


def reliability(chance: FloatArray, true: BoolArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return, for tenths of the chance: its mean, the share that is true, and the number."""
    place = np.minimum((chance * _BINS).astype(np.int64), _BINS - 1)
    number = np.bincount(place, minlength=_BINS)
    some = number > 0
    mean = np.bincount(place, chance, _BINS)[some] / number[some]
    share = np.bincount(place, true, _BINS)[some] / number[some]
    return mean, share, number[some]


def calibration_error(chance: FloatArray, true: BoolArray) -> float:
    """Return the expected calibration error over tenths of the chance; NaN without chances."""
    if len(chance) == 0:
        return float("nan")
    mean, share, number = reliability(chance, true)
    return float((np.abs(mean - share) * number).sum() / len(chance))
