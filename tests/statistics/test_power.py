"""Numbers of replicates: against published tables, and against simulated tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gridtune.errors import MetricError
from gridtune.statistics.sample_size import (
    PairedSpread,
    _t_test_power,
    fewest_replicates,
    replicates_needed,
)


def test_the_numbers_of_cohens_tables() -> None:
    # Small, medium and large effects at 5 %, power 0.8, as G*Power gives them for matched pairs.
    assert replicates_needed([0.2, 0.5, 0.8], 1.0).tolist() == [199, 34, 15]
    assert replicates_needed(0.5, 1.0, power=0.95) == 54
    assert replicates_needed([1.0, 2.5], [5.0, 5.0]).tolist() == [199, 34]


@pytest.mark.parametrize(("n", "effect"), [(6, 1.5), (10, 0.7), (25, 0.4)])
def test_power_is_the_share_of_simulated_tests(n: int, effect: float) -> None:
    samples = np.random.default_rng(1).normal(effect, 1, (20_000, n))
    found = stats.ttest_1samp(samples, 0, axis=1).pvalue <= 0.05
    assert _t_test_power(n, effect, 1.0) == pytest.approx(float(found.mean()), abs=0.012)


def test_power_is_sound_far_out() -> None:
    assert _t_test_power([10, 10_000], [1e6, 1.0], [1.0, 1.0]) == pytest.approx([1.0, 1.0])
    assert replicates_needed(1e-5, 1.0) == math.inf
    assert replicates_needed(0.0, 1.0) == math.inf
    assert replicates_needed(0.01, 1.0) == pytest.approx(((1.96 + 0.8416) / 0.01) ** 2, rel=1e-3)
    assert replicates_needed(1.0, 0.0) == 6
    assert replicates_needed(0.0, 0.0) == math.inf
    # Where the exact series gives up: 0.300 of 200,000 simulated tests.
    assert _t_test_power(3, 60 / math.sqrt(3), 1.0, level=1e-4) == pytest.approx(0.3, abs=0.02)
    assert np.isnan(replicates_needed([np.nan, 1.0], [1.0, np.nan])).all()


def test_fewer_than_six_can_show_nothing() -> None:
    assert fewest_replicates() == 6
    assert replicates_needed(100.0, 1.0) == 6


def test_so_many_replicates_are_just_enough() -> None:
    for effect in (0.3, 0.9, 2.0):
        needed = int(replicates_needed(effect, 2.0))
        assert _t_test_power(needed, effect, 2.0) >= 0.8 > _t_test_power(needed - 1, effect, 2.0)


def test_the_spread_of_ratios() -> None:
    rng = np.random.default_rng(2)
    b = rng.lognormal(5, 1, 4_000)
    a = 0.8 * b * rng.lognormal(0, 0.1, 4_000)
    spread = PairedSpread.of([a, 7 * a], b)
    assert spread.logarithmic.all()
    assert spread.effect == pytest.approx(np.log([a.mean() / b.mean(), 7 * a.mean() / b.mean()]))
    # The standard error of a logarithm of a ratio of means, found by drawing many samples.
    drawn = rng.integers(4_000, size=(2_000, 400))
    ratios = np.log(a[drawn].mean(axis=1) / b[drawn].mean(axis=1))
    assert spread.deviation[0] / math.sqrt(400) == pytest.approx(float(ratios.std()), rel=0.06)
    assert spread.deviation[1] == pytest.approx(spread.deviation[0])
    assert spread.on_scale(-0.05) == pytest.approx([math.log(0.95)] * 2)


def test_the_spread_of_values_that_are_not_positive() -> None:
    spread = PairedSpread.of([[-3.0, -1.0, -2.0, math.nan]], [[-2.0, -2.0, -2.0, -2.0]])
    assert not spread.logarithmic[0]
    assert (spread.pairs[0], spread.effect[0]) == (3, 0.0)
    assert spread.deviation[0] == pytest.approx(0.5)
    none = PairedSpread.of([[1.0, math.nan], [0.0, 1.0]], [[2.0, 1.0], [0.0, 0.0]])
    assert np.isnan(none.deviation).all()


def test_wrong_shares() -> None:
    with pytest.raises(MetricError, match="power"):
        replicates_needed(1.0, 1.0, power=1.0)
    with pytest.raises(MetricError, match="level"):
        replicates_needed(1.0, 1.0, level=0.0)
    with pytest.raises(MetricError, match="less than 100 %"):
        PairedSpread.of([[1.0, 2.0]], [[1.0, 3.0]]).on_scale(-1.0)


def test_windows_that_follow_each_other_say_less_each() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.lognormal(0, 0.3, (2, 1, 12))
    apart, alike = PairedSpread.of(a, b), PairedSpread.of(a, b, correlation=0.5)
    # The variance of a long series' mean is (1 + ρ) / (1 − ρ) times that of independent values.
    assert alike.deviation == pytest.approx(apart.deviation * math.sqrt(3))
    assert alike.effect == apart.effect
