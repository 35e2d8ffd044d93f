"""Hypervolume, IGD+ and merged fronts of fronts drawn by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.errors import MetricError
from gridtune.statistics.pareto import Scale, hypervolume

UNIT = Scale((0.0, 0.0), (1.0, 1.0))


def test_hypervolume_of_rectangles() -> None:
    """Two points cover 0.8 × 0.3 + 0.4 × 0.5 below (1, 1); a dominated one adds nothing."""
    front = [[0.2, 0.7], [0.6, 0.2]]
    assert hypervolume(front, UNIT, reference=1.0) == pytest.approx(0.8 * 0.3 + 0.4 * 0.5)
    assert hypervolume([*front, [0.7, 0.8]], UNIT, reference=1.0) == pytest.approx(0.44)
    assert hypervolume([[0.0, 0.0]], UNIT) == pytest.approx(1.1 * 1.1)


def test_points_beyond_the_reference_or_without_a_value_add_nothing() -> None:
    assert hypervolume([[0.0, 2.0], [np.inf, np.inf], [np.nan, 0.0]], UNIT) == 0.0
    assert hypervolume(np.empty((0, 2)), UNIT) == 0.0


def test_the_scale_is_that_of_all_fronts() -> None:
    scale = Scale.of([[[10, 500]], [[20, 100], [30, np.inf]], np.empty((0, 2))])
    assert (scale.least, scale.greatest) == ((10, 100), (20, 500))
    assert scale.apply([[15, 200], [np.inf, np.inf]]).tolist() == [[0.5, 0.25]]
    # Units do not matter.
    hours = Scale.of([[[10, 500 / 3600]], [[20, 100 / 3600]]])
    assert hypervolume([[12, 150 / 3600]], hours) == pytest.approx(hypervolume([[12, 150]], scale))


def test_an_objective_that_never_differs_counts_as_zero() -> None:
    scale = Scale.of([[[10, 7]], [[20, 7]]])
    assert scale.apply([[20, 7]]).tolist() == [[1, 0]]


def test_a_scale_needs_a_point() -> None:
    with pytest.raises(MetricError, match="no front has a finite point"):
        Scale.of([np.empty((0, 2)), [[np.inf, np.inf]]])
    with pytest.raises(MetricError, match="not \\(2,\\)"):
        Scale.of([[1.0, 2.0]])
    with pytest.raises(MetricError, match="2 objectives, and points of 3"):
        UNIT.apply([[1.0, 2.0, 3.0]])
