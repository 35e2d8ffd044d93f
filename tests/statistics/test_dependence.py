"""Windows that follow each other: their correlation, and what it does to intervals and tests."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import tail_sweep, verdicts_of, window_sweep
from gridtune.report.rankings.cells import replicate_order
from gridtune.statistics import effective_number, neighbour_correlation
from gridtune.statistics.dependence import innovations, widening
from gridtune.statistics.inference import paired_difference, with_unseen_tail

NAN = float("nan")


def series(correlation: float, shape: tuple[int, int], seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    for place in range(1, shape[1]):
        values[:, place] *= np.sqrt(1 - correlation**2)
        values[:, place] += correlation * values[:, place - 1]
    return values


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
def test_the_correlation_is_estimated_without_the_bias_of_short_series(correlation: float) -> None:
    estimates = [
        neighbour_correlation(np.exp(0.2 * series(correlation, (40, 12), seed)), 1.0) for seed in range(30)
    ]
    assert np.mean(estimates) == pytest.approx(correlation, abs=0.08)


def test_the_correlation_is_that_of_the_formula() -> None:
    a = np.array([3.0, 5, 4, 6, 7, 4, 5, 2])
    estimates = []
    # Differences of a and 1: over the sum of both, and each over its mean.
    for values in ((a - 1) / (a + 1), a / a.mean() - 1):
        centred = (values - values.mean()).tolist()
        neighbours = sum(one * other for one, other in pairwise(centred)) / sum(one**2 for one in centred)
        unbiased = (8 * neighbours + 1) / 4
        estimates.append(unbiased + 0.1 * np.sqrt((1 - unbiased**2) / 8))
    assert 0.2 < max(estimates) < 0.9
    assert neighbour_correlation(a[None], 1.0) == pytest.approx(max(estimates))


def test_few_or_equal_windows_have_no_correlation() -> None:
    assert neighbour_correlation([[1.0, 2, 3, 4, 5]], 1.0) == 0
    assert neighbour_correlation([[2.0] * 9], 2.0) == 0
    assert neighbour_correlation([[NAN] * 9], 2.0) == 0


def test_the_effective_number_is_the_one_of_the_variance_of_a_mean() -> None:
    # n / (1 + 2 (3/4 ρ + 2/4 ρ² + 1/4 ρ³)) for n = 4 and ρ = 1/2.
    assert effective_number(4, 0.5) == pytest.approx(4 / (1 + 0.75 + 0.25 + 0.0625))
    assert effective_number(10, 0.0) == 10
    assert widening(10, 0.0, 0.95) == 1
    assert widening(10, 0.3, 0.95) < widening(10, 0.5, 0.95)
    # Of a standard deviation, and of Student's quantile.
    effective = effective_number(10, 0.3)
    quantiles = stats.t.ppf(0.975, effective - 1) / stats.t.ppf(0.975, 9)
    assert widening(10, 0.3, 0.95) == pytest.approx(np.sqrt(9 / (effective - 1)) * quantiles)


def test_innovations_are_independent_and_add_up_to_the_mean() -> None:
    values = series(0.5, (4_000, 10))
    new = innovations(values, 0.5)
    correlations = np.corrcoef(new.T)[np.triu_indices(10, 1)]
    assert np.abs(correlations).max() < 0.06
    # Of a constant, every window but the first brings the share (1 − ρ) / (1 + ρ).
    assert innovations(np.full((1, 4), 3.0), 0.5)[0] == pytest.approx([3, 1, 1, 1])
    # A missing window leaves its neighbours two apart, with ρ²; a link of 0 begins another log.
    with_gap = innovations(np.array([[3.0, NAN, 3.0]]), 0.5)[0]
    assert with_gap[2] == pytest.approx(3 * (1 - 0.25) / (1 + 0.25))
    links = np.array([0, 0.5, 0, 0.5])
    assert innovations(np.full((1, 4), 3.0), links)[0] == pytest.approx([3, 1, 3, 1])


def test_intervals_of_correlated_windows_are_wider_and_stay_around_the_difference() -> None:
    rng = np.random.default_rng(3)
    b = rng.lognormal(3, 0.5, 12)
    a = 0.8 * b * rng.lognormal(0, 0.2, 12)
    apart = paired_difference(a, b, rng=np.random.default_rng(0))
    alike = paired_difference(a, b, rng=np.random.default_rng(0), correlation=0.4)
    assert alike.relative == apart.relative
    assert -1 < alike.relative_low < apart.relative_low < apart.relative_high < alike.relative_high
    assert alike.low < apart.low < apart.high < alike.high
    ratio = np.log((1 + alike.relative_low) / (1 + alike.relative))
    assert ratio / np.log((1 + apart.relative_low) / (1 + apart.relative)) == pytest.approx(
        widening(12, 0.4, 0.95)
    )


def test_windows_are_in_the_order_of_the_log() -> None:
    labels = [f"window {number}/12" for number in range(1, 13)]
    assert sorted(sorted(labels), key=replicate_order) == labels


def test_the_tail_that_a_sample_can_miss() -> None:
    b = np.full(10, 10.0)
    a = np.array([6.0] * 9 + [8.0])
    # 1 − 0.05^(1/10) = 25.9 % of the windows, each 20: the worst of the two is 10.
    missed = 1 - 0.05**0.1
    expected = (1 - missed) * a.mean() / 10 + 2 * missed - 1
    assert with_unseen_tail(a, b, direction="min") == pytest.approx(expected)
    assert with_unseen_tail(-a, -b, direction="max") == pytest.approx(-expected)
    # Where more is better, the worst is 6, and 3 half of it.
    assert with_unseen_tail(a, b, direction="max") == pytest.approx(expected - 1.7 * missed)
    assert np.isnan(with_unseen_tail([NAN], [1.0], direction="min"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "correlation", "most"), [(1, 0.3, 6), (1, 0.5, 8), (20, 0.3, 6), (20, 0.5, 8)]
)
def test_correlated_windows_are_not_taken_for_differences(
    count: int, correlation: float, most: float
) -> None:
    rng = np.random.default_rng(11)
    sweeps = 400
    wrong = sum(
        any(verdict in {"better", "better typically", "worse"} for verdict in verdicts_of(values))
        for values in (window_sweep(rng, count + 1, 10, correlation) for _ in range(sweeps))
    )
    assert 100 * wrong / sweeps <= most + 3


@pytest.mark.slow
def test_a_policy_with_rare_disasters_is_seldom_called_better() -> None:
    rng = np.random.default_rng(12)
    verdicts = [verdicts_of(tail_sweep(rng, 20, hardship=1.0))[0] for _ in range(300)]
    assert verdicts.count("better typically") > 60
    assert verdicts.count("better") <= 15
