"""Races: who goes on to the next round, for how long, and at what cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridtune.statistics.racing import Race, RaceRules, race_looks

REPLICATES = 12
RULES = RaceRules(race_looks(3, REPLICATES), 0.05)


def group(levels: list[float], noise: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    hard = rng.lognormal(0, 1, REPLICATES)
    return np.array(levels)[:, None] * hard * rng.lognormal(0, noise, (len(levels), REPLICATES))


def run(values: list[np.ndarray], **options) -> Race:
    race = Race([np.zeros(len(rows), dtype=int) for rows in values], RULES, **options)
    while race.advance(
        [
            np.where(np.arange(REPLICATES) < counts[:, None], rows, math.nan)
            for rows, counts in zip(values, race.replicates, strict=True)
        ]
    ):
        pass
    return race


CLEAR = [1.0, 2.0, 4.0, 8.0, 0.2, 16.0, 32.0, 64.0]


def test_a_clear_race_is_short_and_its_winner_ran_as_far_as_any_other() -> None:
    race = run([group(CLEAR, 0.05, 1)])
    (counts,), (test,) = race.replicates, race.tests
    assert race.taken < 0.6 * len(CLEAR) * REPLICATES
    assert test.contender.tolist() == [level == 0.2 for level in CLEAR]
    assert counts[4] == counts.max()
    assert counts.min() == 3


def test_contenders_that_cannot_be_told_apart_run_to_the_end() -> None:
    values = group([1.0, 1.0, 1.0, 1.0, 90.0, 90.0, 90.0, 90.0], 0.2, 2)
    (counts,) = run([values], verdicts=False).replicates
    assert (counts[:4] == REPLICATES).all()
    assert (counts[4:] < REPLICATES).all()


def test_a_narrow_interval_is_enough() -> None:
    values = group([1.0] * 6, 0.01, 3)
    wide = run([values])
    narrow = run([values], width=0.05)
    assert wide.taken == values.size
    assert narrow.taken == 6 * 3


@pytest.mark.parametrize("budget", [48, 60, 100, 10_000])
@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_a_budget_is_never_overdrawn_and_shared_by_all_groups(budget: int, noise: float) -> None:
    values = [group(CLEAR, noise, 4), group(CLEAR, noise, 5)]
    race = run(values, budget=budget)
    assert 48 <= race.taken <= budget
    free = run(values)
    assert race.taken <= free.taken
    for counts, test in zip(race.replicates, race.tests, strict=True):
        # Whoever goes on, the leader does.
        assert test.contender[counts == counts.max()].any()


def test_a_race_for_the_best_asks_less_than_one_for_verdicts() -> None:
    values = group([1.0, 1.1, 0.9, 1.2, 1.0, 0.2, 0.2, 1.1], 0.3, 6)
    assert run([values], verdicts=False).taken < run([values]).taken


def test_who_has_no_value_goes_no_further() -> None:
    values = group([1.0] * 6, 0.3, 7)
    values[2, 1] = math.nan
    (counts,) = run([values]).replicates
    assert counts[2] == 3
    assert counts[0] == REPLICATES


def test_two_groups_are_decided_apart() -> None:
    clear, same = group(CLEAR, 0.05, 8), group([1.0] * 8, 0.3, 9)
    together = run([clear, same])
    assert together.replicates[0].tolist() == run([clear]).replicates[0].tolist()
    assert together.replicates[1].tolist() == run([same]).replicates[0].tolist()
