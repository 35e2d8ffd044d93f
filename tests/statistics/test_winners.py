"""The benchmark of winners computes what a ranking shows, and false findings stay below the level."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.coverage import sweeps
from benchmarks.winners import best_of, by_rank, excludes_zero, looks

NAMES = ("relative", "relative_low", "relative_high", "p_value")


@pytest.mark.parametrize("error", [0.05, 0.005])
def test_the_benchmark_has_the_row_of_the_ranking(error: float) -> None:
    values = sweeps()["normal"](np.random.default_rng(1), 12, 10)
    row = by_rank(values, error)
    assert [best_of(values, error)[name] for name in NAMES] == pytest.approx([row[name] for name in NAMES])
    values[3] *= 0.5
    assert excludes_zero(by_rank(values, error))
    assert by_rank(values, error)["verdict"].startswith("better")


def test_the_interval_of_the_best_of_200_rarely_excludes_0() -> None:
    rng, draw = np.random.default_rng(2), sweeps()["lognormal(0.3) around lognormal(1)"]
    rows = [best_of(draw(rng, 201, 8)) for _ in range(60)]
    assert np.median([row["relative"] for row in rows]) < -0.2
    # 0.05 × 60 are 3 on average; more than 8 in 1 of 200 runs.
    assert sum(map(excludes_zero, rows)) <= 8


def test_all_looks_share_the_error() -> None:
    assert sum(looks(planned=True)) == pytest.approx(0.05, abs=1e-6)
    assert sum(looks(planned=False)) < 0.06
