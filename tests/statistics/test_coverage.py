"""The tables of coverages in docs/metrics.md, measured again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.coverage import SIZES, mean_coverage, pair_coverage
from benchmarks.populations import PAIRS, SINGLE

ROW = re.compile(r"^\| ([^|]+) \|((?: \d+ % \|){6})", re.MULTILINE)
#: Sizes that are measured again; the others take as long and show no more.
AGAIN = (5, 10, 20)
#: Coverages of intervals of absolute differences, which the page leaves out, at these sizes.
DIFFERENCES = {
    "normal": (97, 96, 96),
    "lognormal(0.5), r = 0.8": (96, 95, 95),
    "lognormal(1), r = 0.9": (93, 93, 93),
    "lognormal(1.5), r = 0.9": (88, 87, 90),
    "lognormal(1.5) to (0.5), r = 0.5": (80, 85, 89),
}


def stated(repository: Path, first: str) -> dict[str, dict[int, float]]:
    """Return the percentages of the table whose first column is called so, by row and replicates."""
    page = (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
    table = page[page.index(f"| {first} |") :].split("\n\n")[0]
    assert [int(n) for n in re.findall(r" n = (\d+) \|", table)] == list(SIZES)
    return {
        name: dict(zip(SIZES, map(float, re.findall(r"(\d+) %", row)), strict=True))
        for name, row in ROW.findall(table)
    }


def test_the_page_states_how_often_intervals_of_means_cover(repository: Path) -> None:
    rows = stated(repository, "replicates are")
    assert set(rows) == set(SINGLE)
    rng = np.random.default_rng(20_240_229)
    for name, row in rows.items():
        measured = [mean_coverage(name, "mean_interval", n, rng)[0] for n in AGAIN]
        # The standard error of a percentage is 0.5 to 1 here.
        assert measured == pytest.approx([row[n] for n in AGAIN], abs=3), name


def test_the_page_states_how_often_intervals_of_differences_cover(repository: Path) -> None:
    rows = stated(repository, "pairs are")
    assert set(PAIRS) <= set(rows)
    assert set(PAIRS) == set(DIFFERENCES)
    rng = np.random.default_rng(20_240_229)
    for name, pair in PAIRS.items():
        for n, difference in zip(AGAIN, DIFFERENCES[name], strict=True):
            measured = {kind: covered for kind, (covered, _) in pair_coverage(pair, n, rng).items()}
            expected = {"difference": difference, "relative": rows[name][n]}
            assert measured == pytest.approx(expected, abs=3), (name, n)
