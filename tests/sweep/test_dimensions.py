"""Points of grids and samples, with conditional dimensions."""

from __future__ import annotations

import math

import numpy as np
import optuna
import pytest
from scipy import stats

from gridtune.errors import SpaceError
from gridtune.sweep.search.proposals import _suggested_point
from gridtune.sweep.space.points import (
    _sobol_points,
    active_part,
    grid_points,
    in_order,
    random_points,
)
from gridtune.sweep.space.schema import Dimension

CONDITIONAL = {
    "extra": Dimension(grid=(1, 2), when={"kind": ["b", "c"]}),
    "kind": Dimension(grid=("a", "b", "c")),
    "deep": Dimension(grid=(True,), when={"extra": 2}),
}
CONTINUOUS = {
    "u": Dimension(uniform=(-1, 3)),
    "l": Dimension(loguniform=(1e-3, 10)),
    "i": Dimension(integer=(2, 5)),
    "c": Dimension(choice=("x", "y")),
}


def test_a_grid_has_each_combination_that_applies_once() -> None:
    assert grid_points(CONDITIONAL) == [
        {"kind": "a"},
        {"extra": 1, "kind": "b"},
        {"extra": 1, "kind": "c"},
        {"extra": 2, "kind": "b", "deep": True},
        {"extra": 2, "kind": "c", "deep": True},
    ]


def test_a_dimension_that_does_not_apply_fulfils_no_condition() -> None:
    point = {"extra": 2, "kind": "a", "deep": True}
    assert active_part(CONDITIONAL, point) == {"kind": "a"}
    assert in_order(CONDITIONAL) == ["kind", "extra", "deep"]


def test_a_grid_spells_out_integers_and_refuses_real_numbers() -> None:
    assert [point["i"] for point in grid_points({"i": Dimension(integer=(2, 5))})] == [2, 3, 4, 5]
    with pytest.raises(SpaceError, match="cannot spell out uniform"):
        grid_points(CONTINUOUS)


@pytest.mark.parametrize("sample", [random_points, _sobol_points])
def test_samples_fill_their_ranges_evenly(sample: object) -> None:
    points = sample(CONTINUOUS, 2048, 3)  # type: ignore[operator]
    assert len(points) == 2048
    scaled = {
        "u": [(point["u"] + 1) / 4 for point in points],
        "l": [(math.log10(point["l"]) + 3) / 4 for point in points],
    }
    for name, values in scaled.items():
        assert stats.kstest(values, "uniform").pvalue > 1e-3, name
    for name, values in {"i": [2, 3, 4, 5], "c": ["x", "y"]}.items():
        counts = [sum(point[name] == value for point in points) for value in values]
        assert sum(counts) == len(points), name
        assert stats.chisquare(counts).pvalue > 1e-3, name


@pytest.mark.parametrize("sample", [random_points, _sobol_points])
def test_more_samples_keep_those_there_were(sample: object) -> None:
    few, many = (sample(CONTINUOUS, count, 7) for count in (5, 21))  # type: ignore[operator]
    assert many[:5] == few
    assert sample(CONTINUOUS, 5, 8) != few  # type: ignore[operator]


def test_grids_are_crossed_with_samples() -> None:
    dimensions = {"c": Dimension(choice=(1, 2, 3, 4)), "g": Dimension(grid=("p", "q"))}
    points = random_points({**CONTINUOUS, **dimensions}, 6, 0)
    assert len(points) == 12
    assert [point["g"] for point in points] == ["p", "q"] * 6
    assert points[0]["u"] == points[1]["u"]


def test_suggestions_ask_only_for_what_applies() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    distinct = set()
    for _ in range(60):
        trial = study.ask()
        point = _suggested_point(CONDITIONAL, trial)
        assert active_part(CONDITIONAL, point) == point
        assert set(trial.params) == set(point)
        distinct.add(tuple(point.items()))
    assert len(distinct) == 5


def test_suggestions_stay_in_their_ranges() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    points = [_suggested_point(CONTINUOUS, study.ask()) for _ in range(50)]
    assert all(-1 <= point["u"] <= 3 and 1e-3 <= point["l"] <= 10 for point in points)
    assert {point["i"] for point in points} == {2, 3, 4, 5}
    assert np.ptp([point["u"] for point in points]) > 2
