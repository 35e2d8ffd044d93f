"""Many comparisons tested together: against a plain enumeration, and that false discoveries stay rare."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from gridtune.statistics.dependence import innovations
from gridtune.statistics.resampling import joint_paired_p_values, joint_sign_flip_p_values


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def plain(rows: list[list[float]]) -> list[float]:
    """Return the p-values by the definition, pattern by pattern."""

    def statistic(row: list[float], signs: tuple[int, ...]) -> float:
        return abs(sum(s * x for s, x in zip(signs, row, strict=True))) / sum(x * x for x in row) ** 0.5

    n = len(rows[0])
    observed = [statistic(row, (1,) * n) for row in rows]
    order = sorted(range(len(rows)), key=lambda index: -observed[index])
    values, last = [0.0] * len(rows), 0.0
    for place, index in enumerate(order):
        patterns = list(product((1, -1), repeat=n))
        rest = order[place:]
        hits = sum(max(statistic(rows[j], s) for j in rest) >= observed[index] - 1e-9 for s in patterns)
        last = max(last, hits / len(patterns))
        values[index] = last
    return values


def test_it_is_the_definition_enumerated() -> None:
    rows = rng().normal(0.4, 1, size=(5, 7))
    assert joint_sign_flip_p_values(rows, rng=rng()) == pytest.approx(plain(rows.tolist()))


@pytest.mark.parametrize("n", [3, 8, 14])
def test_of_a_single_configuration_it_is_scipys_exact_permutation_test(n: int) -> None:
    row = rng().normal(0.4, 1, size=n)
    theirs = stats.permutation_test(
        (row,), np.mean, permutation_type="samples", n_resamples=2**n, rng=rng()
    ).pvalue
    assert joint_sign_flip_p_values(row[None], rng=rng())[0] == pytest.approx(theirs, rel=1e-12)


def test_random_patterns_come_close_to_the_t_test() -> None:
    row = rng().normal(0.35, 1, size=(1, 30))
    ours = joint_sign_flip_p_values(row, rng=rng())[0]
    assert ours == pytest.approx(stats.ttest_1samp(row[0], 0).pvalue, abs=0.01)


def test_a_clear_winner_among_many_needs_six_replicates_where_bonferroni_needs_twelve() -> None:
    noise = rng().normal(0, 1, size=(60, 8)) * rng().lognormal(0, 1, size=8)
    clear = -10 - np.arange(8) / 10
    together = joint_sign_flip_p_values(np.vstack([clear, noise]), rng=rng())
    alone = joint_sign_flip_p_values(clear[None], rng=rng())
    assert together[0] < 0.05 < 61 * alone[0]


def test_false_discoveries_stay_at_the_level() -> None:
    generator = rng()
    tables = 400
    wrong = 0
    for _ in range(tables):
        shared = generator.normal(0, 2, size=8)
        rows = generator.standard_t(3, size=(15, 8)) + shared * generator.uniform(-1, 1, size=(15, 1))
        wrong += bool((joint_sign_flip_p_values(rows, rng=generator) <= 0.05).any())
    # Three standard errors of a share of 5 % over so many tables.
    assert wrong / tables <= 0.05 + 3 * (0.05 * 0.95 / tables) ** 0.5


def test_missing_pairs_and_nothing_at_all() -> None:
    rows = np.array([[-1.0, -2, -3, np.nan], [np.nan] * 4, [0, 0, 0, 0]])
    values = joint_sign_flip_p_values(rows, rng=rng())
    assert values[0] == 2 / 2**3
    assert np.isnan(values[1])
    assert values[2] == 1


def test_more_replicates_than_can_be_enumerated() -> None:
    rows = np.vstack([np.full(40, -1.0), rng().normal(0, 1, size=40)])
    values = joint_sign_flip_p_values(rows, rng=rng())
    assert 0 < values[0] < 0.001 < values[1]


def test_scale_is_of_no_matter() -> None:
    rows = rng().normal(0.4, 1, size=(5, 7))
    scales = np.array([[1e-200], [1], [1e200], [1e-3], [7]])
    assert (
        joint_sign_flip_p_values(rows * scales, rng=rng()) == joint_sign_flip_p_values(rows, rng=rng())
    ).all()


class TestPaired:
    def test_it_is_the_smaller_of_two_tests_in_one_family(self) -> None:
        b = rng().lognormal(3, 2, 9)
        a = b * rng().lognormal(0.8, 0.3, (4, 9))
        differences = a - b
        family = joint_sign_flip_p_values(np.vstack([differences, differences / (a + b)]), rng=rng())
        expected = np.minimum(family[:4], family[4:])
        assert joint_paired_p_values(a, b, rng=rng()) == pytest.approx(expected)

    def test_an_estimated_correlation_counts_with_its_doubt(self) -> None:
        b = rng().lognormal(3, 1, 10)
        a = b * rng().lognormal(0.2, 0.3, (3, 10))
        doubted = 0.4 + 0.7 * 0.4 * ((1 - 0.4**2) / 10) ** 0.5
        family = innovations(np.vstack([a - b, (a - b) / (a + b)]), doubted)
        expected = joint_sign_flip_p_values(family, rng=rng())
        values = joint_paired_p_values(a, b, rng=rng(), correlation=0.4)
        assert values == pytest.approx(np.minimum(expected[:3], expected[3:]))
        # Of none there is no doubt, and 0.9 is the largest.
        links = np.array([0.0, 0.9] * 5)
        plain = joint_sign_flip_p_values(innovations(np.vstack([a - b, (a - b) / (a + b)]), links), rng=rng())
        values = joint_paired_p_values(a, b, rng=rng(), correlation=links)
        assert values == pytest.approx(np.minimum(plain[:3], plain[3:]))

    def test_a_difference_against_the_ratios_is_no_evidence(self) -> None:
        # Far better on nine replicates and a disaster on the tenth: worse on average.
        b = np.linspace(10, 20, 10)
        a = b / 30
        a[4] = 2_000.0
        (p_value,) = joint_paired_p_values(a, b, rng=rng())
        plain, relative = joint_sign_flip_p_values(np.vstack([a - b, (a - b) / (a + b)]), rng=rng())
        assert p_value == plain > 0.2
        assert relative < 0.05

    def test_zeros_negative_values_and_missing_pairs(self) -> None:
        a = np.array([[0.0, 0, 0, 0, 0, 0], [-1, -2, -1, -3, -2, -2], [np.nan] * 6])
        b = np.array([0.0, 0, 0, 0, 0, 0])
        values = joint_paired_p_values(a, b, rng=rng())
        assert values[:2].tolist() == [1, 2 / 2**6]
        assert np.isnan(values[2])

    def test_false_discoveries_stay_at_the_level_where_values_are_skewed(self) -> None:
        generator = rng()
        tables = 400
        wrong = 0
        for _ in range(tables):
            values = generator.lognormal(0, 1, 8) * generator.lognormal(0, 1, (16, 8))
            wrong += bool((joint_paired_p_values(values[1:], values[0], rng=generator) <= 0.05).any())
        assert wrong / tables <= 0.05 + 3 * (0.05 * 0.95 / tables) ** 0.5
