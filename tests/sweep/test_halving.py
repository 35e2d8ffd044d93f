"""Successive halving: many begin, the best go on, and a restart changes neither."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gridtune.errors import SpaceError
from gridtune.sweep import CellResult, as_space
from gridtune.sweep.halving import HalvingQueue
from gridtune.sweep.plan import Planner
from gridtune.sweep.space_check import check_space
from gridtune.sweep.workloads import Workloads
from tests.sweep.spaces import toy_space

SPACE: dict[str, Any] = {
    "dimensions": {"x": {"uniform": [0, 10]}, "word": {"choice": ["a", "b"]}, "depth": [1, 3, 9]},
    "strategy": {"asha": {"trials": 27, "resource": "depth", "reduction": 3, "seed": 1}},
    "replicates": {"seeds": 2},
    "baseline": {},
}


def planner_of(**changes: Any) -> Planner:
    space = as_space(toy_space(**{**SPACE, **changes}))
    return Planner(space, check_space(space), Workloads())


def loss_of(configuration: Any) -> float:
    return abs(configuration["x"] - 3)


def drive(queue: HalvingQueue, limit: int = 10_000, state: str = "done") -> list[CellResult]:
    finished_cells: list[CellResult] = []
    while queue.left and len(finished_cells) < limit:
        block = queue.take()
        assert block is not None
        results = [
            CellResult.of(
                cell,
                state,
                metrics={"loss": loss_of(cell.configuration)} if state == "done" else {},
                seconds=0.1,
            )
            for cell in block.cells
        ]
        queue.report(block.number, results)
        queue.note(results)
        finished_cells += results
    return finished_cells


def rungs_of(results: list[CellResult]) -> dict[int, list[float]]:
    """Return the losses at each rung."""
    values: dict[int, list[float]] = {}
    for result in results:
        if result.seed == 0:
            values.setdefault(result.configuration["depth"], []).append(loss_of(result.configuration))
    return values


def test_one_in_three_goes_on_and_the_best_go_furthest() -> None:
    results = drive(HalvingQueue(planner_of(), {}, workers=1))
    assert len({result.cell_id for result in results}) == len(results)
    rungs = rungs_of(results)
    assert len(rungs[1]) == 27
    # Some went on while they were among the best of the few there were, more than a third in the end.
    assert 9 <= len(rungs[3]) <= 18
    assert 3 <= len(rungs[9]) <= 9
    assert sorted(rungs[1])[:9] == sorted(rungs[3])[:9]
    assert min(rungs[9]) == min(rungs[1])
    assert all(count == 2 for count in Counter(r.configuration_id for r in results).values())


def test_work_is_taken_from_the_highest_rung_down() -> None:
    queue = HalvingQueue(planner_of(replicates={"seeds": 1}), {}, workers=1)
    results = drive(queue)
    depths = [result.configuration["depth"] for result in results]
    # Of the first three at the lowest rung the best goes on at once.
    assert depths[:4] == [1, 1, 1, 3]
    assert loss_of(results[3].configuration) == min(loss_of(result.configuration) for result in results[:3])


def test_a_larger_value_is_better_where_the_objective_says_so() -> None:
    changes = {"objective": [{"metric": "loss", "direction": "max"}], "replicates": {"seeds": 1}}
    rungs = rungs_of(drive(HalvingQueue(planner_of(**changes), {}, workers=1)))
    assert max(rungs[9]) == max(rungs[1])


@pytest.mark.parametrize("stop", [1, 8, 31, 60])
def test_after_a_restart_it_goes_on_where_it_was(stop: int) -> None:
    first = drive(HalvingQueue(planner_of(), {}, workers=1), limit=stop)[:stop]
    stored = {result.cell_id: result for result in first}
    second = drive(HalvingQueue(planner_of(), stored, workers=1))
    assert not {result.cell_id for result in second} & set(stored)
    rungs = rungs_of([*first, *second])
    assert len(rungs[1]) == 27
    assert sorted(rungs[1])[:9] == sorted(rungs[3])[:9]


def test_when_all_is_done_nothing_is_left() -> None:
    results = drive(HalvingQueue(planner_of(), {}, workers=1))
    again = HalvingQueue(planner_of(), {result.cell_id: result for result in results}, workers=1)
    assert again.left == 0
    assert again.take() is None


def test_what_failed_does_not_go_on() -> None:
    results = drive(HalvingQueue(planner_of(), {}, workers=1), state="failed")
    assert {result.configuration["depth"] for result in results} == {1}


def test_a_failed_configuration_that_is_to_be_retried_is_run_again() -> None:
    first = drive(HalvingQueue(planner_of(), {}, workers=1))
    failed = {result.cell_id for result in first[2:4]}
    stored = {result.cell_id: result for result in first if result.cell_id not in failed}
    queue = HalvingQueue(planner_of(), stored, tried=first, workers=1)
    assert {result.cell_id for result in drive(queue)} == failed
    assert {cell.cell_id for cell in queue.cells()} == {result.cell_id for result in first}


@pytest.mark.parametrize(
    "dimensions",
    [{"x": [1, 2]}, {"x": [1, 2], "depth": [3, 1]}, {"x": [1, 2], "depth": {"integer": [1, 9]}}],
)
def test_the_resource_is_an_ascending_list(dimensions: dict[str, Any]) -> None:
    with pytest.raises(SpaceError, match=r"ascending numbers|no dimension is named"):
        as_space(toy_space(**{**SPACE, "dimensions": dimensions}))


def test_a_baseline_off_the_rungs_is_refused() -> None:
    with pytest.raises(SpaceError, match="depth never is 2"):
        planner_of(baseline={"x": 1, "word": "a", "depth": 2}).cells()
