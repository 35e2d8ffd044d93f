"""The table of coverages in docs/metrics.md, measured again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gridtune.statistics import bootstrap_interval

SAMPLES = 2_000
MEANS = {"normal": 0.0, "skewed (exponential)": 1.0}
ROW = re.compile(r"^\| (normal|skewed \(exponential\)) \| (\w+) \|((?: \d+ % \|)+)$", re.MULTILINE)


def covered(kind: str, n: int, method: str, rng: np.random.Generator) -> float:
    """Return the percentage of samples of n whose nominal 95 % interval covers the true mean."""
    draw = rng.standard_normal if kind == "normal" else rng.standard_exponential
    hits = 0
    # Samples of one call share their resampling indices; many calls keep that from showing.
    for samples in np.split(draw((SAMPLES, n)), 40):
        low, high = bootstrap_interval(samples, rng=rng, method=method, resamples=1_000)
        hits += int(np.sum((low <= MEANS[kind]) & (high >= MEANS[kind])))
    return 100 * hits / SAMPLES


def test_the_page_states_the_measured_coverages(repository: Path) -> None:
    page = (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
    sizes = [int(n) for n in re.findall(r" n = (\d+) \|", page)]
    rows = ROW.findall(page)
    assert (len(rows), sizes) == (6, [3, 5, 10, 20, 30])
    rng = np.random.default_rng(20_240_229)
    for kind, method, cells in rows:
        stated = [float(value) for value in re.findall(r"(\d+) %", cells)]
        # The standard error of a percentage is 0.5 to 1 here.
        assert [covered(kind, n, method, rng) for n in sizes] == pytest.approx(stated, abs=2.5)
