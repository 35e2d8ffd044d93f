"""Boosted trees in columns, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from gridtune.batch.predictors.early_end import _fit_trees


def test_flat_trees_predict_what_scikit_learn_does():
    rng = np.random.default_rng(0)
    table, rows = rng.random((500, 5)), rng.random((200, 5))
    labels = (table[:, 0] * table[:, 1] + 0.2 * rng.random(500) > 0.4).astype(int)
    classifier = HistGradientBoostingClassifier(max_iter=20, early_stopping=False)
    chances = _fit_trees(classifier, table, labels)
    np.testing.assert_allclose(chances(rows), classifier.decision_function(rows), atol=1e-12)
    regressor = HistGradientBoostingRegressor(max_iter=20, early_stopping=False)
    values = _fit_trees(regressor, table, table[:, 2])
    np.testing.assert_allclose(values(rows), regressor.predict(rows), atol=1e-12)


def test_a_split_by_category_is_refused():
    rng = np.random.default_rng(0)
    rows = np.column_stack((rng.integers(0, 4, 200), rng.random(200)))
    model = HistGradientBoostingRegressor(categorical_features=[0], max_iter=5)
    with pytest.raises(ValueError, match="splits by category"):
        _fit_trees(model, rows, (rows[:, 0] == 2) * 1.0)
