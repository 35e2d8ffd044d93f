"""Intervals of means: against the definition solved by root finding, and how often they cover."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import optimize, stats

from gridtune.errors import MetricError
from gridtune.statistics import mean_interval, paired_difference

NAN = math.nan


def hall(sample: npt.NDArray[np.float64], confidence: float = 0.95) -> tuple[float, float]:
    """Return Hall's interval by solving for the means whose transformed statistic is Student's quantile."""
    n, deviation, skewness = len(sample), sample.std(), float(stats.skew(sample))

    def transformed(mean: float) -> float:
        t = (sample.mean() - mean) / deviation
        return t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / (6 * n)

    end = stats.t.ppf((1 + confidence) / 2, n - 1) / math.sqrt(n - 1)
    span = 1e3 * np.ptp(sample)

    def solved(value: float) -> float:
        limits = sample.mean() - span, sample.mean() + span
        return float(optimize.brentq(lambda mean: transformed(mean) - value, *limits))

    return solved(end), solved(-end)


@pytest.mark.parametrize("n", [3, 6, 10, 40])
@pytest.mark.parametrize("shift", [0.0, -1.0])
def test_each_end_is_the_outer_one_of_students_and_halls(n: int, shift: float) -> None:
    for seed in range(20):
        sample = np.random.default_rng(seed).lognormal(0, 1, n) + shift
        corrected = hall(sample)
        mean, error = sample.mean(), sample.std(ddof=1) / math.sqrt(n)
        student = stats.t.interval(0.95, n - 1, mean, error)
        if (sample > 0).all() or (sample < 0).all():
            factor = math.exp(stats.t.ppf(0.975, n - 1) * error / abs(mean))
            student = min(mean / factor, mean * factor), max(mean / factor, mean * factor)
        low, high = mean_interval(sample)
        # It does not cross zero where the sample does not.
        lowest = 0.0 if (sample > 0).all() else -math.inf
        highest = 0.0 if (sample < 0).all() else math.inf
        assert low == pytest.approx(max(min(student[0], corrected[0]), lowest), rel=1e-6)
        assert high == pytest.approx(min(max(student[1], corrected[1]), highest), rel=1e-6)


def test_it_is_students_where_the_sample_is_symmetric() -> None:
    sample = [-3.0, -1.0, 0.0, 1.0, 3.0]
    expected = stats.t.interval(0.95, 4, 0, np.std(sample, ddof=1) / math.sqrt(5))
    assert mean_interval(sample) == pytest.approx(expected, rel=1e-9)


def test_a_mean_of_positive_values_is_hardly_ever_negative() -> None:
    # Slowdowns of ten windows, one of which holds a long queue.
    sample = [12.0, 20, 14, 400, 31, 25, 60, 18, 11, 45]
    low, high = mean_interval(sample)
    assert 0 < low < np.mean(sample) < high
    assert mean_interval([-value for value in sample]) == pytest.approx((-high, -low))


def test_rows_of_different_sizes_order_and_scale() -> None:
    rows = np.random.default_rng(3).lognormal(0, 1, (4, 8))
    rows[1, 3:] = NAN
    rows[3, 0] = -1.0
    together = mean_interval(rows)
    assert together.low[1] == mean_interval(rows[1, :3]).low
    assert together.high[2] == mean_interval(rows[2, ::-1]).high
    np.testing.assert_allclose(mean_interval(rows * 1e200).high, together.high * 1e200)
    np.testing.assert_allclose(mean_interval(-rows).low, -together.high)


def test_two_values_at_a_high_confidence() -> None:
    low, high = mean_interval([0.001, 10.0], confidence=0.9999)
    assert low < 0.001
    assert high == math.inf
    result = paired_difference([0.001, 10.0], [10.0, 0.001], rng=np.random.default_rng(0), confidence=0.9999)
    assert (result.relative_low, result.relative_high) == (pytest.approx(-1), math.inf)


def test_nothing_one_and_equal_values() -> None:
    assert all(map(math.isnan, mean_interval([NAN, NAN])))
    assert all(map(math.isnan, mean_interval([2.0])))
    assert mean_interval([0.1] * 7) == (0.1, 0.1)
    with pytest.raises(MetricError, match="confidence"):
        mean_interval([1.0, 2.0], confidence=1.0)


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0],
        [1.0, 2.0, 30.0],
        [5.0, 8.0, 3.0, 100.0],
        # Waits of windows, some of which had no queue.
        [0.0, 0.0, 3.0, 100.0],
        [0.0] * 9 + [20.0],
    ],
)
def test_the_interval_of_values_that_are_not_negative_is_not_below_zero(values: list[float]) -> None:
    low, high = mean_interval(values)
    assert 0 <= low < np.mean(values) < high
    mirrored = mean_interval(np.negative(values))
    assert (mirrored.low, mirrored.high) == (pytest.approx(-high), -low)


def test_zeros_are_of_no_sign() -> None:
    waits, longer = [0.0, 0, 40, 5, 300, 0], [5.0, 10, 90, 20, 500, 30]
    factor = math.exp(stats.t.ppf(0.975, 5) * np.std(waits, ddof=1) / math.sqrt(6) / np.mean(waits))
    assert mean_interval(waits).high == pytest.approx(max(np.mean(waits) * factor, hall(np.array(waits))[1]))
    ratio = paired_difference(waits, longer, rng=np.random.default_rng(0))
    assert -1 <= ratio.relative_low < ratio.relative < ratio.relative_high
    assert mean_interval([0.0, 0.0, 0.0]) == (0.0, 0.0)
    assert mean_interval([-5.0, 0.0, 5.0]).low < 0


def test_replicates_that_agree_are_a_single_point() -> None:
    samples = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [-2.5, -2.5, -2.5]])
    for bound in mean_interval(samples):
        np.testing.assert_array_equal(bound, [0.0, 1.0, -2.5])
    # A sample of one sign whose mean is 1 is treated as any other of its shape.
    one, double = (np.array(mean_interval([0.0, 1.0 * factor, 2.0 * factor])) for factor in (1, 2))
    np.testing.assert_allclose(double, 2 * one)
