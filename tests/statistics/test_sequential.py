"""Tests of a race: their errors over all looks, what they find, and what they do not depend on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.coverage import window_sweep
from gridtune.statistics.racing import (
    Boundaries,
    RaceRules,
    RaceTest,
    _differences,
    _relative_scores,
    race_looks,
)

LOOKS = race_looks(3, 8)


def test_looks_come_further_apart_and_end_with_the_last_replicate() -> None:
    assert race_looks(3, 10) == (3, 4, 5, 6, 8, 10)
    assert race_looks(5, 4) == (4,)
    long = race_looks(2, 1000)
    assert long[-1] == 1000
    assert len(long) < 35


def test_scores_make_ratios_of_differences_and_keep_the_order() -> None:
    assert _relative_scores([[1.0, 10.0], [2.0, 20.0]])[1] - _relative_scores([[1.0, 10.0], [2.0, 20.0]])[
        0
    ] == (pytest.approx([math.log(2), math.log(2)]))
    assert (np.diff(_relative_scores([[-4.0], [-2.0], [-1.0]]), axis=0) > 0).all()
    mixed = _relative_scores([[-1.0, 0.0], [0.0, 0.0], [3.0, 0.0]])
    assert mixed[:, 0] == pytest.approx([-0.75, 0, 2.25])
    assert mixed[:, 1].tolist() == [0, 0, 0]


def race(values: np.ndarray, rules: RaceRules, base: int = 0) -> RaceTest:
    test = RaceTest(np.full(len(values), base), rules)
    for number, look in enumerate(rules.looks):
        test.look(values[:, : look * rules.columns], number)
    return test


TAILS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 2, shape),
    "log-t": lambda rng, shape: np.exp(np.clip(rng.standard_t(1.5, shape), -300, 300)),
}


@pytest.mark.parametrize("tails", TAILS)
@pytest.mark.parametrize("columns", [1, 2])
def test_where_nothing_differs_the_errors_hold_whatever_the_tails(tails: str, columns: int) -> None:
    rules = RaceRules(LOOKS, 0.1, columns)
    shape = (8, LOOKS[-1] * columns)
    rng = np.random.default_rng(5)
    races, found, lost = 600, 0, 0
    for _ in range(races):
        values = TAILS[tails](rng, shape) * rng.lognormal(0, 1, shape[1])
        test = race(values, rules)
        found += bool(test.verdict.any())
        lost += not test.contender[3]
    # Three standard errors above the stated error.
    limit = races * 0.1 + 3 * math.sqrt(races * 0.1 * 0.9)
    assert found < limit
    assert lost < limit


@pytest.mark.parametrize("apart", [False, True])
def test_configurations_that_differ_in_noise_alone_are_seldom_called_better_or_worse(apart: bool) -> None:
    rules = RaceRules(LOOKS, 0.1)
    rng = np.random.default_rng(6)
    found = 0
    for _ in range(300):
        values = np.exp(0.5 * rng.standard_normal((8, 1))) * rng.standard_normal((8, LOOKS[-1]))
        if apart:
            # Others that are clearly worse say nothing of two that are the same.
            values[2:] += np.arange(20, 80, 10)[:, None]
        found += bool(race(np.exp(values), rules).verdict[:2].any())
    assert found < 300 * 0.1 + 3 * math.sqrt(300 * 0.1 * 0.9)


def test_limits_grow_with_configurations_and_shrink_with_the_error() -> None:
    few, many = Boundaries.of(5, RaceRules(LOOKS, 0.05)), Boundaries.of(40, RaceRules(LOOKS, 0.05))
    assert many.different[-1] > few.different[-1]
    assert Boundaries.of(5, RaceRules(LOOKS, 0.2)).different[-1] < few.different[-1]
    assert all(one <= two for one, two in zip(few.worse, few.different, strict=True))
    # Too little to spend for the number of simulated races: no decision rather than a wrong one.
    assert math.isinf(Boundaries.of(5, RaceRules(LOOKS, 1e-6)).different[0])
    # Beyond what is simulated, the error is divided.
    assert Boundaries.of(400, RaceRules(LOOKS, 0.05)) == Boundaries.of(200, RaceRules(LOOKS, 0.025))


def clear() -> np.ndarray:
    rng = np.random.default_rng(1)
    level = np.array([100.0, 100, 100, 100, 40, 40, 300, 300, 1000, 1000])
    return level[:, None] * rng.lognormal(0, 0.1, (10, LOOKS[-1])) * rng.lognormal(0, 1, LOOKS[-1])


def test_it_finds_what_is_there_and_who_can_be_best() -> None:
    test = race(clear(), RaceRules(LOOKS, 0.05))
    assert test.verdict.tolist() == [0, 0, 0, 0, -1, -1, 1, 1, 1, 1]
    assert test.contender.tolist() == [False] * 4 + [True] * 2 + [False] * 4


def test_neither_the_unit_nor_how_hard_a_replicate_is_matters() -> None:
    hardship = np.random.default_rng(2).lognormal(0, 3, LOOKS[-1])
    first, second = (race(values, RaceRules(LOOKS, 0.05)) for values in (clear(), 60 * hardship * clear()))
    assert first.verdict.tolist() == second.verdict.tolist()
    assert first.contender.tolist() == second.contender.tolist()


def test_larger_is_better_where_values_are_negated() -> None:
    test = race(-clear(), RaceRules(LOOKS, 0.05))
    assert test.verdict.tolist() == [0, 0, 0, 0, 1, 1, -1, -1, -1, -1]
    assert test.contender.tolist() == [False] * 8 + [True] * 2


def test_what_is_missing_is_not_in_the_race_and_a_replicate_without_values_is_passed_over() -> None:
    values = clear()
    values[4, 1] = math.nan
    values[:, 2] = math.nan
    test = RaceTest(np.zeros(10, dtype=int), RaceRules(LOOKS, 0.05))
    look = test.look(values, len(LOOKS) - 1)
    assert test.verdict[4] == 0
    assert test.verdict[5] == -1
    assert look.leader == 5


def test_a_lone_configuration_leads() -> None:
    values = np.full((3, 4), math.nan)
    values[1] = 1.0
    look = RaceTest([0, 0, 0], RaceRules(LOOKS, 0.05)).look(values, 0)
    assert look.leader == 1
    assert np.isnan(look.ahead).all()


def test_configurations_that_are_the_same_are_never_told_apart() -> None:
    values = np.repeat(clear()[:1], 6, axis=0)
    test = race(values, RaceRules(LOOKS, 0.2))
    assert not test.verdict.any()
    assert test.contender.all()


def test_variances_are_those_of_the_plain_formulas() -> None:
    scores = np.log(clear())
    count = len(scores)
    for n, (mean, deviation) in zip(LOOKS, _differences(scores, scores[3], LOOKS), strict=True):
        seen = scores[:, :n]
        residuals = seen - seen.mean(axis=0) - seen.mean(axis=1, keepdims=True) + seen.mean()
        typical = 2 * (residuals**2).sum() / ((count - 1) * (n - 1))
        own = (seen - seen[3]).var(axis=1, ddof=1)
        assert mean == pytest.approx((seen - seen[3]).mean(axis=1))
        assert deviation == pytest.approx(np.sqrt(np.maximum(own, (4 * typical + (n - 1) * own) / (n + 3))))


def test_one_replicate_decides_nothing() -> None:
    test = race(np.array([[1.0], [50.0], [900.0]]), RaceRules(race_looks(3, 1), 0.05))
    assert test.contender.all()
    assert test.verdict.tolist() == [0, 0, 0]


def test_windows_that_follow_each_other_are_not_taken_for_independent_ones() -> None:
    places = (0, 8, 4, 2, 6, 1, 5, 3, 7, 9)
    independent = RaceRules(race_looks(3, 10), 0.05)
    rng = np.random.default_rng(4)
    sweeps, wrong, wrong_before = 200, 0, 0
    for _ in range(sweeps):
        values = window_sweep(rng, 12, 10, 0.5)[:, places]
        wrong += (race(values, replace(independent, places=places)).verdict != 0).any()
        wrong_before += (race(values, independent).verdict != 0).any()
    assert wrong / sweeps < 0.12
    assert wrong_before / sweeps > 0.25
