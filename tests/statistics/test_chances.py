"""The area under the ROC curve, and calibration, by hand and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gridtune.statistics.chances import area_under_roc, calibration_error, reliability


def test_the_area_is_scikit_learns():
    rng = np.random.default_rng(0)
    for _ in range(20):
        chance = rng.integers(0, 8, 60) / 8
        good = rng.random(60) < chance
        assert area_under_roc(chance, good) == pytest.approx(roc_auc_score(good, chance))
    assert np.isnan(area_under_roc(np.ones(3), np.ones(3, np.bool_)))


def test_calibration():
    chance = np.array([0.05, 0.05, 0.95, 0.95, 1.0])
    good = np.array([False, True, True, True, False])
    _, share, number = reliability(chance, good)
    assert number.tolist() == [2, 3]
    assert share.tolist() == [0.5, pytest.approx(2 / 3)]
    assert calibration_error(chance, good) == pytest.approx((2 * 0.45 + 3 * (2.9 / 3 - 2 / 3)) / 5)
    rng = np.random.default_rng(1)
    chance = rng.random(20_000)
    assert calibration_error(chance, rng.random(20_000) < chance) < 0.02
    assert calibration_error(chance, rng.random(20_000) < 0.5) > 0.2
