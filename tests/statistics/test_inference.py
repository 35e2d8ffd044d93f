"""Intervals, paired differences and corrections, against hand-computed numbers and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gridtune.errors import MetricError
from gridtune.statistics.inference import (
    _expanded_ends,
    bootstrap_interval,
    hold_together,
    interquartile_mean,
    paired_difference,
    with_reach,
)
from gridtune.statistics.intervals import mean_interval

NAN = math.nan


def seeded(seed: int | list[int] = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestInterquartileMean:
    @pytest.mark.parametrize(
        ("sample", "expected"),
        [
            ([5.0], 5.0),
            ([1.0, 3.0], 2.0),
            # The middle half of three values is a quarter of the first, the second, a quarter of the third.
            ([1.0, 2.0, 9.0], (0.25 * 1 + 2 + 0.25 * 9) / 1.5),
            ([0.0, 4.0, 6.0, 100.0], 5.0),
            # Six values: half of the second and half of the fifth count.
            ([1.0, 2.0, 3.0, 4.0, 5.0, 60.0], (1 + 3 + 4 + 2.5) / 3),
            ([2.0, 2.0, 2.0], 2.0),
            ([], NAN),
            ([NAN, NAN], NAN),
            ([NAN, 1.0, 3.0], 2.0),
        ],
    )
    def test_by_hand(self, sample: list[float], expected: float) -> None:
        assert interquartile_mean(sample) == pytest.approx(expected, nan_ok=True, abs=0, rel=1e-15)

    @pytest.mark.parametrize("n", [4, 8, 20])
    def test_is_the_quarter_trimmed_mean_where_four_divides_the_size(self, n: int) -> None:
        sample = seeded().lognormal(size=(3, n))
        np.testing.assert_allclose(
            interquartile_mean(sample), stats.trim_mean(sample, 0.25, axis=1), rtol=1e-14
        )

    def test_rows_of_different_sizes_do_not_mix(self) -> None:
        rows = np.array([[1.0, 2.0, 9.0, NAN], [0.0, 4.0, 6.0, 100.0]])
        np.testing.assert_allclose(interquartile_mean(rows), [interquartile_mean(rows[0, :3]), 5.0])


class TestBootstrapInterval:
    def test_agrees_with_scipy(self) -> None:
        sample = seeded(3).exponential(size=12)
        ours = bootstrap_interval(sample, rng=seeded(), resamples=100_000)
        # The percentile interval at the confidence that Student's quantiles ask for.
        level = stats.norm.cdf(math.sqrt(12 / 11) * stats.t.ppf(0.025, 11))
        scipys = stats.bootstrap(
            (sample,),
            np.mean,
            n_resamples=100_000,
            batch=20_000,
            confidence_level=1 - 2 * level,
            method="percentile",
            rng=seeded(1),
        ).confidence_interval
        width = scipys.high - scipys.low
        assert ours.low == pytest.approx(scipys.low, abs=0.03 * width)
        assert ours.high == pytest.approx(scipys.high, abs=0.03 * width)

    def test_expanded_ends_by_their_formula(self) -> None:
        distribution = seeded(4).exponential(size=(3, 499))
        level = stats.norm.cdf(math.sqrt(8 / 7) * stats.t.ppf(0.05, 7))
        expected = np.quantile(distribution, [level, 1 - level], axis=1)
        np.testing.assert_allclose(_expanded_ends(distribution, n=8, confidence=0.9), expected, rtol=1e-12)

    def test_expanded_is_close_to_students_interval_on_normal_data(self) -> None:
        samples = seeded(5).normal(10, 2, size=(400, 10))
        low, high = bootstrap_interval(samples, rng=seeded(), resamples=2_000)
        student = stats.ttest_1samp(samples, 0, axis=1).confidence_interval(0.95)
        ratio = np.mean(high - low) / np.mean(student.high - student.low)
        assert 0.93 < ratio < 1.03

    @pytest.mark.parametrize(("n", "least", "most"), [(10, 0.93, 0.965), (30, 0.94, 0.965)])
    def test_coverage_on_normal_data(self, n: int, least: float, most: float) -> None:
        # 4,000 samples: the standard error of the share is 0.35 %.
        samples = seeded(7).normal(3.0, 1.0, size=(4_000, n))
        low, high = bootstrap_interval(samples, rng=seeded(), resamples=1_000)
        covered = np.mean((low <= 3.0) & (high >= 3.0))
        assert least <= covered <= most

    def test_confidence_orders_the_widths(self) -> None:
        sample = seeded(2).exponential(size=15)
        widths = []
        for confidence in (0.5, 0.8, 0.95, 0.99):
            low, high = bootstrap_interval(sample, rng=seeded(), confidence=confidence)
            widths.append(high - low)
        assert widths == sorted(widths)
        assert widths[0] < widths[-1] / 2

    def test_degenerate_samples(self) -> None:
        def interval(sample: list[float]) -> tuple[float, float]:
            return bootstrap_interval(sample, rng=seeded())

        assert all(map(math.isnan, interval([])))
        assert all(map(math.isnan, interval([NAN, NAN])))
        assert all(map(math.isnan, interval([4.0, NAN])))
        assert interval([0.1] * 7) == (0.1, 0.1)
        low, high = interval([1.0, 2.0])
        assert 1.0 <= low < high <= 2.0

    def test_an_interval_does_not_depend_on_its_company(self) -> None:
        samples = seeded(4).exponential(size=(300, 10))
        samples[5, 3] = NAN
        together = bootstrap_interval(samples, rng=seeded(9))
        for row in (0, 5, 299):
            alone = bootstrap_interval(samples[row], rng=seeded(9))
            assert together.low[row] == pytest.approx(alone.low, rel=1e-13)
            assert together.high[row] == pytest.approx(alone.high, rel=1e-13)

    def test_the_order_of_replicates_does_not_matter(self) -> None:
        sample = seeded(4).exponential(size=10)
        assert bootstrap_interval(sample, rng=seeded(1)) == bootstrap_interval(sample[::-1], rng=seeded(1))

    def test_blocks_do_not_change_the_result(self, monkeypatch: pytest.MonkeyPatch) -> None:
        samples = seeded(4).exponential(size=(40, 10))
        whole = bootstrap_interval(samples, rng=seeded(1), resamples=500)
        monkeypatch.setattr("gridtune.statistics.inference._BLOCK", 4_000)
        np.testing.assert_allclose(
            bootstrap_interval(samples, rng=seeded(1), resamples=500), whole, rtol=1e-13
        )

    def test_shapes(self) -> None:
        samples = seeded().normal(size=(2, 3, 8))
        assert bootstrap_interval(samples, rng=seeded(), resamples=50).low.shape == (2, 3)
        assert bootstrap_interval(np.empty((0, 8)), rng=seeded(), resamples=50).low.shape == (0,)
        assert isinstance(bootstrap_interval(samples[0, 0], rng=seeded(), resamples=50).low, float)

    @pytest.mark.parametrize(
        "wrong",
        [{"confidence": 95}, {"confidence": 1.0}, {"resamples": 0}],
    )
    def test_wrong_arguments(self, wrong: dict[str, object]) -> None:
        with pytest.raises(MetricError):
            bootstrap_interval([1.0, 2.0], rng=seeded(), **wrong)

    @pytest.mark.parametrize("sample", [3.0, [1.0, math.inf]])
    def test_wrong_samples(self, sample: object) -> None:
        with pytest.raises(MetricError):
            bootstrap_interval(sample, rng=seeded())


class TestPairedDifference:
    def test_by_hand(self) -> None:
        result = paired_difference([3.0, 5.0, NAN, 7.0, 1.0], [2.0, 2.0, 2.0, NAN, 2.0], rng=seeded())
        # Pairs: 3 − 2, 5 − 2, 1 − 2.
        assert result.n == 3
        assert result.difference == pytest.approx(1.0)
        assert result.relative == pytest.approx(0.5)
        assert result.low < 1.0 < result.high
        assert result.relative_low < 0.5 < result.relative_high

    def test_pairing_takes_out_what_is_common(self) -> None:
        hardship = seeded(1).lognormal(3, 1, size=20)
        noise = seeded(2).normal(0, 0.1, size=20)
        a, b = hardship + 0.5 + noise, hardship
        result = paired_difference(a, b, rng=seeded())
        assert 0.4 < result.low < result.difference < result.high < 0.6
        own = bootstrap_interval(a, rng=seeded())
        assert (own.high - own.low) > 50 * (result.high - result.low)

    def test_the_adjusted_interval_is_that_of_the_mean(self) -> None:
        a, b = seeded(1).lognormal(0, 1, size=(2, 5, 9))
        result = paired_difference(a, b, rng=seeded())
        np.testing.assert_allclose((result.low, result.high), mean_interval(a - b))

    def test_the_adjusted_ratio_reaches_as_far_as_students_on_the_log_scale(self) -> None:
        base = seeded(1).lognormal(3, 1, size=10)
        a = base * seeded(2).lognormal(0.5, 0.4, size=10)
        result = paired_difference(a, base, rng=seeded())
        seed = seeded().integers(2**63)
        drawn = seeded([seed, 10]).integers(10, size=(10_000, 10))
        order = np.argsort(a - base, kind="stable")
        ratios = a[order][drawn].mean(axis=1) / base[order][drawn].mean(axis=1) - 1
        expanded = _expanded_ends(ratios[None], n=10, confidence=0.95)
        # The delta method: the variance of a logarithm of a mean is that of the mean over its square.
        cov = np.cov(a, base) / np.outer([a.mean(), base.mean()], [a.mean(), base.mean()]) / 10
        deviation = math.sqrt(cov[0, 0] + cov[1, 1] - 2 * cov[0, 1])
        log = math.log(a.mean() / base.mean()) + np.array(stats.t.interval(0.95, 9)) * deviation
        assert result.relative_low == pytest.approx(min(expanded[0][0], math.exp(log[0]) - 1))
        assert result.relative_high == pytest.approx(max(expanded[1][0], math.exp(log[1]) - 1))
        assert result.relative_low > -1

    def test_the_adjusted_ratio_of_values_that_may_be_negative(self) -> None:
        result = paired_difference([-1.0, 5.0, 7.0, 2.0], [2.0] * 4, rng=seeded())
        assert result.relative_low == pytest.approx(result.low / 2)
        assert result.relative_high == pytest.approx(result.high / 2)

    def test_one_baseline_for_many(self) -> None:
        many, baseline = seeded(1).exponential(size=(6, 10)), seeded(2).exponential(size=10)
        together = paired_difference(many, baseline, rng=seeded(3))
        alone = paired_difference(many[4], baseline, rng=seeded(3))
        assert together.difference.shape == (6,)
        for name in (
            "n",
            "difference",
            "low",
            "high",
            "relative",
            "relative_low",
            "relative_high",
        ):
            assert getattr(together, name)[4] == pytest.approx(getattr(alone, name), rel=1e-12)

    def test_a_configuration_with_itself(self) -> None:
        sample = seeded(1).exponential(size=10)
        result = paired_difference(sample, sample, rng=seeded())
        assert (result.difference, result.low, result.high) == (0.0, 0.0, 0.0)
        assert (result.relative, result.relative_low, result.relative_high) == (0.0, 0.0, 0.0)

    def test_too_few_pairs(self) -> None:
        one = paired_difference([3.0], [2.0], rng=seeded())
        assert (one.n, one.difference, one.relative) == (1, 1.0, 0.5)
        assert math.isnan(one.low)
        assert math.isnan(one.relative_high)
        none = paired_difference([NAN, 1.0], [1.0, NAN], rng=seeded())
        assert none.n == 0
        assert all(math.isnan(value) for value in (none.difference, none.low, none.relative))

    def test_relative_to_a_base_that_may_be_zero(self) -> None:
        zero = paired_difference([1.0, 2.0, 4.0], [0.0, 0.0, 0.0], rng=seeded())
        assert math.isnan(zero.relative)
        assert math.isnan(zero.relative_low)
        assert math.isfinite(zero.low)
        with np.errstate(invalid="raise"):
            nothing = paired_difference([0.0] * 4, [1.0, 2.0, 3.0, 4.0], rng=seeded())
        assert (nothing.relative, nothing.relative_low, nothing.relative_high) == pytest.approx((-1, -1, -1))
        around = paired_difference([1.0, 2.0, 4.0], [-1.0, 3.0, 1.0], rng=seeded())
        assert math.isfinite(around.relative)
        assert math.isnan(around.relative_low)
        negative = paired_difference([-1.0, -1.0], [-2.0, -2.0], rng=seeded())
        assert negative.relative == 0.5

    def test_relative_interval_covers(self) -> None:
        base = seeded(1).gamma(20, 1.0, size=(800, 15))
        result = paired_difference(
            base * 0.8 + seeded(2).normal(size=base.shape), base, rng=seeded(), resamples=1_000
        )
        covered = np.mean((result.relative_low <= -0.2) & (result.relative_high >= -0.2))
        assert 0.92 <= covered <= 0.97

    def test_shapes_that_do_not_pair(self) -> None:
        with pytest.raises(MetricError, match="do not pair"):
            paired_difference([1.0, 2.0], [1.0, 2.0, 3.0], rng=seeded())


class TestIntervalsThatHoldTogether:
    def test_an_end_beyond_0_stops_there_and_one_at_0_moves_out(self) -> None:
        estimate = np.array([2.0, 2.0, -2.0, -2.0])
        ends = (np.array([0.5, 0.0, -4.0, -4.0]), np.array([4.0, 4.0, -0.5, 0.0]))
        counts, shown = np.full(4, 5), np.ones(4, bool)
        factor = stats.t.ppf(0.995, 4) / stats.t.ppf(0.975, 4)
        low, high = hold_together(estimate, ends, counts, shown, levels=(0.05, 0.01), ratio=False)
        assert low[:2] == pytest.approx([0.0, 2 - 2 * factor])
        assert high[2:] == pytest.approx([0.0, 2 * factor - 2])
        assert (high[:2], low[2:]) == (pytest.approx(2 + 2 * factor), pytest.approx(-2 - 2 * factor))

    def test_without_a_shown_difference_0_is_inside(self) -> None:
        ends = (np.array([0.5, -4.0]), np.array([4.0, -0.5]))
        low, high = hold_together(
            np.array([2.0, -2.0]), ends, np.full(2, 5), np.zeros(2, bool), levels=(0.05, 0.05), ratio=False
        )
        assert (low.tolist(), high.tolist()) == ([0.0, -4.0], [4.0, 0.0])


def test_an_interval_without_another_cause_stays_as_it_is_to_the_last_bit() -> None:
    relative, low = np.array([-0.868, -1.0, 0.5]), np.array([-0.974, -1.0, 0.1])
    high = np.array([-1e-12, -1.0, np.inf])
    ends = with_reach(relative, low, high, np.zeros(3))
    np.testing.assert_array_equal(ends, [low, high])
    wider = with_reach(relative, low, high, np.array([0.0, 0.0, 0.3]))
    np.testing.assert_array_equal(wider[0][:2], low[:2])
    assert wider[0][2] < low[2]
    unknown = np.array(with_reach(relative, low, high, np.full(3, np.nan)))
    assert np.isnan(unknown[:, :2]).all()
