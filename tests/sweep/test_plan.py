"""Counting cells without making them comes to the same as making them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from gridtune.errors import SpaceError
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.run import run_space, space_cells
from gridtune.sweep.space.plan import plan_space
from tests.sweep.spaces import toy_space

SPACES: dict[str, dict[str, Any]] = {
    "grid": toy_space(),
    "the same value twice": toy_space(dimensions={"x": [1, 2], "rate": [1.5]}, fixed={"word": "a"}),
    "windows": toy_space(fixed={"trace": "quickstart"}, replicates={"windows": 3}),
    "shakes": toy_space(fixed={"trace": "quickstart"}, replicates={"shakes": 3, "amount": 60}),
    "sampled": toy_space(
        dimensions={"x": {"uniform": [0, 1]}}, strategy={"random": {"samples": 7, "seed": 1}}
    ),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_a_plan_has_the_cells_of_the_space(space: dict[str, Any]) -> None:
    cells, plan = space_cells(space), plan_space(space)
    assert plan.count == len(cells)
    assert list(plan.iterate()) == cells
    assert list(plan.configurations) == list(dict.fromkeys(cell.configuration_id for cell in cells))


def test_a_hundred_million_cells_are_counted_without_making_them() -> None:
    plan = plan_space(toy_space(dimensions={"x": [1, 2]}, replicates={"seeds": 100_000_000}))
    assert plan.count == 200_000_000
    assert [cell.seed for cell in itertools.islice(plan.iterate(), 3)] == [0, 1, 2]


def test_results_of_another_space_are_not_a_plans(tmp_path: Path) -> None:
    run_space(toy_space(), directory=tmp_path, executor="inline")
    results = read_journal(tmp_path / "journal.jsonl").values()
    assert all(map(plan_space(toy_space()).has, results))
    fewer = plan_space(toy_space(replicates={"seeds": 1}))
    assert sum(map(fewer.has, results)) == 8
    assert not any(map(plan_space(toy_space(dimensions={"x": [7]})).has, results))


def test_a_plan_is_checked_as_a_sweep_is() -> None:
    with pytest.raises(SpaceError, match="hm"):
        _ = plan_space(toy_space(dimensions={"kind": ["good", "hm"]})).count
