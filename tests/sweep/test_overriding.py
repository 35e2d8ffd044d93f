"""Values of a search space overridden from outside: what each name does, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridtune.errors import SpaceError
from gridtune.sweep.run import space_cells
from gridtune.sweep.space.overriding import override as planned_override
from gridtune.sweep.space.plan import load_space
from gridtune.sweep.space.schema import SearchSpace
from tests.sweep.spaces import TOY

TEXT = f"""
name: toys
system: toy
plugins: [{TOY}]
fixed: {{nap: 0}}
workloads:
  - {{label: left, shake: 1}}
  - {{label: right, shake: 2}}
dimensions:
  word: [a, b, c]
  x: {{grid: [1, 2, 3]}}
  depth: {{grid: [1, 2], when: {{word: [b, c]}}}}
  rate: {{grid: [0.5, 1.5], when: {{depth: 2}}}}
replicates: {{seeds: 2}}
objective: [loss, {{metric: size, direction: max}}]
baseline: {{word: a}}
"""


@pytest.fixture
def space(tmp_path: Path) -> SearchSpace:
    path = tmp_path / "toys.yaml"
    path.write_text(TEXT)
    return load_space(path)


def override(space: SearchSpace, settings: dict[str, list[Any]], **options: Any) -> SearchSpace:
    return planned_override(space, settings, **options).space


def grid(space: SearchSpace, name: str) -> tuple[Any, ...] | None:
    return space.dimensions[name].grid


def test_a_dimension_is_narrowed_and_the_baseline_stays(space: SearchSpace) -> None:
    assert grid(override(space, {"word": ["c"]}), "word") == ("a", "c")
    assert grid(override(space, {"x": [3, 1]}), "x") == (1, 3)
    assert grid(override(space, {"x": [[1, 2]]}), "x") == (1, 2)
    assert grid(space, "word") == ("a", "b", "c")


def test_what_no_longer_applies_is_left_out(space: SearchSpace) -> None:
    narrowed = override(space, {"word": ["a"]})
    assert set(narrowed.dimensions) == {"word", "x"}
    narrowed = override(space, {"depth": [1]})
    assert set(narrowed.dimensions) == {"word", "x", "depth"}
    assert override(space, {"word": ["b"]}).dimensions["depth"].when == {"word": ["b"]}


def test_cells_that_are_left_keep_their_ids(space: SearchSpace) -> None:
    before = {cell.cell_id for cell in space_cells(space)}
    after = {cell.cell_id for cell in space_cells(override(space, {"word": ["b"], "x": [2]}))}
    assert after < before
    assert len(after) == 2 * 2 * (1 + 1 + 2)


def test_fixed_parameters_and_those_that_are_not_set(space: SearchSpace) -> None:
    assert override(space, {"nap": [0.5], "kind": ["good"]}).fixed == {"nap": 0.5, "kind": "good"}


def test_workloads_are_chosen_by_value_or_label(space: SearchSpace) -> None:
    assert [one["label"] for one in override(space, {"shake": [2]}).workloads] == ["right"]
    assert [one["label"] for one in override(space, {"workload": ["left"]}).workloads] == ["left"]
    assert len(override(space, {"workload": ["left", "right"]}).workloads) == 2


def test_baseline_replicates_and_objective(space: SearchSpace) -> None:
    changed = override(space, {"baseline.word": ["b"], "baseline.x": [1], "replicates.seeds": [5]})
    assert changed.baseline == {"word": "b", "x": 1}
    assert changed.replicates.seeds == 5
    assert override(space, {"baseline.word": [None]}).baseline == {}
    assert override(space, {"replicates.windows": [3]}).replicates.windows == 3
    (objective,) = override(space, {}, objective="gain").objective
    assert (objective.metric, objective.direction) == ("gain", None)
    # One of the space's own keeps its direction.
    (objective,) = override(space, {}, objective="size").objective
    assert objective.direction == "max"


def test_a_range_is_narrowed_to_a_value_within_it(space: SearchSpace, tmp_path: Path) -> None:
    path = tmp_path / "range.yaml"
    path.write_text(
        f"name: r\nsystem: toy\nplugins: [{TOY}]\n"
        "dimensions: {x: {uniform: [0, 4]}, depth: {integer: [1, 9]}}\n"
        "objective: loss\nstrategy: {random: {samples: 3}}\n"
    )
    ranged = load_space(path)
    assert override(ranged, {"x": [1.5]}).dimensions["x"].choice == (1.5,)
    assert override(ranged, {"strategy.random.samples": [5]}).strategy.random.samples == 5
    for name, hint in (("strategy.asha.trials", "its strategy is"), ("strategy.random.trials", "trials")):
        with pytest.raises(SpaceError, match=hint):
            override(ranged, {name: [6]})
    assert {cell.configuration["depth"] for cell in space_cells(override(ranged, {"depth": [4]}))} == {4}
    for values, hint in (([7], "from 0.0 to 4.0"), (["a"], "from 0.0 to 4.0")):
        with pytest.raises(SpaceError, match=hint):
            override(ranged, {"x": values})
    with pytest.raises(SpaceError, match="whole number"):
        override(ranged, {"depth": [1.5]})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"wrod": ["a"]}, ["--set wrod", "no parameter 'wrod'", "did you mean 'word'"]),
        ({"word": ["d"]}, ["--set word", "'d' is not among its values"]),
        ({"word": ["a"], "depth": [1]}, ["--set depth", "no configuration that is left"]),
        ({"nap": [1, 2]}, ["--set nap", "one value is needed, but got 2"]),
        ({"nap": ["long"]}, ["--set nap", "number"]),
        ({"shake": [3]}, ["--set shake", "no workload of this space has 3"]),
        ({"workload": ["lfet"]}, ["did you mean 'left'"]),
        ({"replicates.sedes": [3]}, ["did you mean 'seeds'"]),
        ({"replicates.seeds": [0]}, ["--set replicates.seeds"]),
        ({"baseline.word": ["d"]}, ["--set baseline.word"]),
        ({"sleep_time": [1]}, ["it is called nap now"]),
    ],
)
def test_nonsense_is_refused_with_the_option(
    space: SearchSpace, settings: dict[str, list[Any]], words: list[str]
) -> None:
    with pytest.raises(SpaceError) as refused:
        space_cells(override(space, settings))
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_an_unknown_objective_is_refused(space: SearchSpace) -> None:
    with pytest.raises(SpaceError, match=r"--objective.*no metric 'los'"):
        override(space, {}, objective="los")
    with pytest.raises(SpaceError, match="--objective"):
        override(load_space(space.source.path or ""), {}, objective="nothing")
