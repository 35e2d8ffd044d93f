"""A race on a real Ray is the race in this process."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gridtune.sweep import run_space
from tests.sweep.spaces import content, toy_space

pytestmark = pytest.mark.integration


@pytest.mark.usefixtures("cluster")
def test_workers_do_not_change_a_race(tmp_path: Path) -> None:
    space = toy_space(
        dimensions={"x": [0, 1, 2.98, 3, 3.02, 5], "word": ["a", "b"]},
        replicates={"seeds": 8},
        baseline={"x": 0, "word": "a"},
        strategy={"race": {"error": 0.1}},
    )
    inline = run_space(space, directory=tmp_path / "inline", executor="inline")
    on_ray = run_space(space, directory=tmp_path / "ray", workers=2, executor="ray")
    assert on_ray.ran == len(on_ray.results) < on_ray.plan.total == 12 * 8
    assert content(pq.read_table(on_ray.path)) == content(pq.read_table(inline.path))
    again = run_space(space, directory=tmp_path / "ray", executor="inline")
    assert again.ran == 0
