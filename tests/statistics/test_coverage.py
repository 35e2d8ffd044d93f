"""The tables of coverages in docs/metrics.md, measured again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.coverage import SIZES, mean_coverage, pair_coverage
from benchmarks.populations import PAIRS, SINGLE

ROW = re.compile(r"^\| ([^|]+) \| ([\w]+) \|((?: \d+ % \|){6})$", re.MULTILINE)
#: Sizes that are measured again; the others take as long and show no more.
AGAIN = (5, 10, 20)


def stated(repository: Path, first: str) -> dict[tuple[str, str], dict[int, float]]:
    """Return the percentages of the table whose first column is called so, by row and replicates."""
    page = (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
    table = page[page.index(f"| {first} |") :].split("\n\n")[0]
    assert [int(n) for n in re.findall(r" n = (\d+) \|", table)] == list(SIZES)
    return {
        (name, kind): dict(zip(SIZES, map(float, re.findall(r"(\d+) %", row)), strict=True))
        for name, kind, row in ROW.findall(table)
    }


def test_the_page_states_how_often_intervals_of_means_cover(repository: Path) -> None:
    rows = stated(repository, "replicates are")
    assert set(rows) == {(name, "mean_interval") for name in SINGLE}
    rng = np.random.default_rng(20_240_229)
    for (name, method), row in rows.items():
        measured = [mean_coverage(name, method, n, rng)[0] for n in AGAIN]
        # The standard error of a percentage is 0.5 to 1 here.
        assert measured == pytest.approx([row[n] for n in AGAIN], abs=3), (name, method)


def test_the_page_states_how_often_intervals_of_differences_cover(repository: Path) -> None:
    rows = stated(repository, "pairs are")
    drawn = {(name, kind) for name in PAIRS for kind in ("difference", "relative")}
    assert drawn <= set(rows)
    rng = np.random.default_rng(20_240_229)
    for name, pair in PAIRS.items():
        for n in AGAIN:
            measured = pair_coverage(pair, n, rng)
            for kind, (covered, _) in measured.items():
                assert covered == pytest.approx(rows[name, kind][n], abs=3), (name, kind, n)
