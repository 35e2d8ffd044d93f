"""Adaptive strategies: each configuration once, finished ones told to the sampler, also after a restart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gridtune.errors import SpaceError
from gridtune.sweep import CellResult, as_space
from gridtune.sweep.adaptive import AdaptiveQueue
from gridtune.sweep.plan import Planner
from gridtune.sweep.run import _queue
from gridtune.sweep.space_check import check_space
from gridtune.sweep.workloads import Workloads
from tests.sweep.spaces import toy_space

SPACE: dict[str, Any] = {
    "dimensions": {
        "x": {"uniform": [0, 10]},
        "word": {"choice": ["a", "b"]},
        "depth": {"integer": [1, 9], "when": {"word": "b"}},
    },
    "strategy": {"optuna": {"trials": 30, "seed": 1}},
    "baseline": {"x": 9, "word": "a"},
}


def planner_of(**changes: Any) -> Planner:
    space = as_space(toy_space(**{**SPACE, **changes}))
    return Planner(space, check_space(space), Workloads())


def value_of(result_or_configuration: Any) -> float:
    return float((result_or_configuration["x"] - 3) ** 2)


def drive(queue: AdaptiveQueue, limit: int = 10_000) -> list[CellResult]:
    """Run blocks one after another as a perfect worker would, up to a number of cells."""
    finished_cells: list[CellResult] = []
    while queue.left and len(finished_cells) < limit:
        block = queue.take()
        assert block is not None
        results = [
            CellResult.of(cell, "done", metrics={"loss": value_of(cell.configuration)}, seconds=0.1)
            for cell in block.cells
        ]
        queue.report(block.number, results)
        queue.note(results)
        finished_cells += results
    return finished_cells


def points(results: list[CellResult]) -> list[tuple[Any, ...]]:
    return [tuple(result.configuration.items()) for result in results]


def test_it_runs_the_baseline_and_so_many_configurations_once() -> None:
    results = drive(AdaptiveQueue(planner_of(), {}, workers=1))
    assert len(results) == 2 * 31
    assert len({result.cell_id for result in results}) == len(results)
    assert results[0].configuration["x"] == 9


def test_it_learns() -> None:
    changes = {"strategy": {"optuna": {"trials": 80, "seed": 1}}, "replicates": {"seeds": 1}}
    results = drive(AdaptiveQueue(planner_of(**changes), {}, workers=1))
    finished_cells = [value_of(result.configuration) for result in results[1:]]
    assert np.median(finished_cells[-40:]) < np.median(finished_cells[:10]) / 3


@pytest.mark.parametrize("stop", [1, 7, 20, 45])
def test_after_a_restart_it_goes_on_with_what_it_knows(stop: int) -> None:
    first = drive(AdaptiveQueue(planner_of(), {}, workers=1), limit=stop)[:stop]
    stored = {result.cell_id: result for result in first}
    queue = AdaptiveQueue(planner_of(), stored, workers=1)
    second = drive(queue)
    assert not {result.cell_id for result in second} & set(stored)
    assert len(first) + len(second) == 2 * 31
    assert {cell.cell_id for cell in queue.cells()} == set(stored) | {result.cell_id for result in second}
    if stop == 45:
        # It does not draw its first random points a second time, but builds on those it was told.
        late = [value_of(result.configuration) for result in second]
        assert np.median(late) < 9


def test_after_a_restart_it_does_not_draw_the_same_points_again() -> None:
    changes = {"strategy": {"optuna": {"trials": 30, "seed": 1, "sampler": "random"}}}
    first = drive(AdaptiveQueue(planner_of(**changes), {}, workers=1), limit=52)
    queue = AdaptiveQueue(planner_of(**changes), {result.cell_id: result for result in first}, workers=1)
    drive(queue)
    suggested = [trial for trial in queue._study.trials if "fixed_params" not in trial.system_attrs]
    assert len(suggested) == 5  # and none in vain


def test_when_all_is_done_nothing_is_left() -> None:
    results = drive(AdaptiveQueue(planner_of(), {}, workers=1))
    again = AdaptiveQueue(planner_of(), {result.cell_id: result for result in results}, workers=1)
    assert again.left == 0
    assert again.take() is None


def test_a_finite_space_is_exhausted_and_not_repeated() -> None:
    changes = {"dimensions": {"x": [1, 2, 3], "word": ["a", "b"]}, "baseline": {}}
    results = drive(AdaptiveQueue(planner_of(**changes), {}, workers=1))
    assert len(set(points(results))) == 6
    assert len(results) == 12


def test_results_of_another_space_are_not_taken_for_its_own() -> None:
    other = drive(AdaptiveQueue(planner_of(fixed={"nap": 0.0}), {}, workers=1), limit=10)
    narrowed = {**SPACE["dimensions"], "x": {"uniform": [0, 0.5]}}
    queue = AdaptiveQueue(
        planner_of(dimensions=narrowed, baseline={"x": 0.1, "word": "a"}),
        {result.cell_id: result for result in other},
        workers=1,
    )
    inside = {result.cell_id for result in other if result.configuration["x"] <= 0.5}
    assert {cell.cell_id for cell in queue.cells()} - {c.cell_id for c in queue._planner.cells()} == inside


def test_a_failed_configuration_is_told_as_failed_and_the_search_goes_on() -> None:
    queue = AdaptiveQueue(planner_of(), {}, workers=1)
    while queue.left:
        block = queue.take()
        assert block is not None
        results = [
            CellResult.of(cell, "failed", error="no", seconds=0.1)
            if cell.configuration["word"] == "b"
            else CellResult.of(cell, "done", metrics={"loss": value_of(cell.configuration)}, seconds=0.1)
            for cell in block.cells
        ]
        queue.report(block.number, results)
        queue.note(results)
    states = [trial.state.name for trial in queue._study.trials]
    assert {"COMPLETE", "FAIL"} == set(states)
    assert len(states) == 31


@pytest.mark.parametrize("sampler", ["tpe", "nsgaii", "random"])
def test_every_sampler_runs_and_two_objectives_do(sampler: str) -> None:
    changes = {
        "strategy": {"optuna": {"trials": 4, "seed": 1, "sampler": sampler}},
        "objective": ["loss", {"metric": "size", "direction": "max"}],
    }
    queue = AdaptiveQueue(planner_of(**changes), {}, workers=2)
    while queue.left:
        block = queue.take()
        assert block is not None
        results = [CellResult.of(cell, "done", metrics={"loss": 1.0, "size": 2.0}) for cell in block.cells]
        queue.report(block.number, results)
        queue.note(results)
    assert [trial.values for trial in queue._study.trials] == [[1.0, 2.0]] * 5


def test_a_failed_configuration_that_is_to_be_retried_is_run_again_and_no_other() -> None:
    first = drive(AdaptiveQueue(planner_of(), {}, workers=1))
    failed = {result.cell_id for result in first[10:12]}
    stored = {result.cell_id: result for result in first if result.cell_id not in failed}
    tried = {result.cell_id: result for result in first}
    queue, before = _queue(planner_of(), [], stored, tried, 1, None)
    assert isinstance(queue, AdaptiveQueue)
    assert len(before) == len(stored)
    assert {result.cell_id for result in drive(queue)} == failed
    assert {cell.cell_id for cell in queue.cells()} == {result.cell_id for result in first}
    assert {trial.state.name for trial in queue._study.trials} == {"COMPLETE"}


@pytest.mark.parametrize(
    ("baseline", "field", "words"),
    [
        ({"x": 1, "word": "c"}, "baseline.word", "word never is 'c'"),
        ({"x": 1, "word": "b"}, "baseline", "leaves depth open"),
        ({"x": 1, "word": "a", "depth": 3}, "baseline.depth", "depth does not apply to the baseline"),
    ],
)
def test_a_baseline_outside_the_space_is_refused(baseline: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(SpaceError, match=words) as fault:
        planner_of(baseline=baseline).cells()
    assert fault.value.field == field


def test_a_number_listed_as_another_kind_is_the_same_baseline() -> None:
    changes = {"dimensions": {"x": {"choice": [1.0, 2.0]}}, "baseline": {"x": 1}}
    assert [cell.configuration["x"] for cell in planner_of(**changes).cells()] == [1.0, 1.0]
