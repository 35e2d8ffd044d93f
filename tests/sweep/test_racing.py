"""Races of cells: the same in any order and after any kill, within the budget, and reported as such."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridtune.errors import SpaceError
from gridtune.report.facts import SweepFacts
from gridtune.report.summary import Summary, summarise
from gridtune.sweep import CellResult, SweepPlan, plan_space
from gridtune.sweep.journal.results import results_table
from gridtune.sweep.search.racing import RacePlan, RaceQueue, _spread
from gridtune.sweep.space.plan import PlannedSpace
from gridtune.sweep.space.schema import Replicates
from gridtune.sweep.space.strategies import Racing
from tests.sweep.spaces import toy_space

REPLICATES = 8
SPACE: dict[str, Any] = {
    "dimensions": {"x": list(range(6)), "word": ["a", "b"]},
    "replicates": {"seeds": REPLICATES},
    "baseline": {"x": 0, "word": "a"},
}
#: Both best ones are alike, so that they run to the end.
LEVELS = {0: 9.0, 1: 4.0, 2: 1.0, 3: 1.0, 4: 30.0, 5: 80.0}


def planner_of(race: dict[str, Any] | None = None, **changes: Any) -> PlannedSpace:
    return plan_space(toy_space(**{**SPACE, "strategy": {"race": race or {}}, **changes}))


def queue_of(planner: PlannedSpace, finished: Iterable[CellResult] = (), workers: int = 2) -> RaceQueue:
    results = {result.cell_id: result for result in finished}
    return RaceQueue(planner, planner.cells(), results, workers=workers)


def result_of(cell: Any) -> CellResult:
    configuration = cell.configuration
    noise = np.random.default_rng([cell.seed, int(configuration["x"]), ord(configuration["word"])])
    hardship = np.random.default_rng(cell.seed).lognormal()
    loss = LEVELS[int(configuration["x"])] * hardship * noise.lognormal(0, 0.1)
    return CellResult.of(cell, "done", metrics={"loss": float(loss)}, seconds=0.1)


def drive(queue: RaceQueue, *, limit: int = 10_000, seed: int | None = None) -> list[CellResult]:
    """Run a queue's cells, with a seed several blocks at once that end in any order and piece by piece."""
    draw = random.Random(seed)
    results: list[CellResult] = []
    blocks: list[tuple[int, list[Any]]] = []
    while queue.left and len(results) < limit:
        block = queue.take()
        if block is not None:
            blocks.append((block.number, list(block.cells)))
            if seed is not None and len(blocks) < 4:
                continue
        number, cells = blocks.pop(draw.randrange(len(blocks)) if seed is not None else 0)
        size = draw.randint(1, len(cells)) if seed is not None else len(cells)
        done = [result_of(cell) for cell in cells[:size]]
        queue.report(number, done)
        if cells[size:]:
            blocks.append((number, cells[size:]))
        queue.note(done)
        results += done
    return results


def ids(results: Iterable[Any]) -> set[str]:
    return {result.cell_id for result in results}


def counts(queue: RaceQueue) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for cell in queue.cells():
        key = (int(cell.configuration["x"]), str(cell.configuration["word"]))
        found[key] = found.get(key, 0) + 1
    return found


def test_replicates_go_to_the_configurations_that_can_be_best() -> None:
    queue = queue_of(planner_of())
    results = drive(queue)
    assert len(results) == len(ids(results)) < 0.8 * 12 * REPLICATES
    ran = counts(queue)
    assert {ran[x, word] for x in (2, 3) for word in "ab"} == {REPLICATES}
    assert all(ran[x, word] < REPLICATES for x in (1, 4, 5) for word in "ab")
    assert queue.left == 0
    assert queue.take() is None


@pytest.mark.parametrize("seed", range(6))
def test_the_order_in_which_cells_end_and_the_workers_do_not_matter(seed: int) -> None:
    plain = drive(queue_of(planner_of()))
    assert ids(drive(queue_of(planner_of(), workers=1 + seed), seed=seed)) == ids(plain)


@pytest.mark.parametrize("stop", [1, 20, 36, 37, 55, 70])
def test_a_killed_race_goes_on_as_if_nothing_had_happened(stop: int) -> None:
    undisturbed = drive(queue_of(planner_of()), seed=1)
    first = drive(queue_of(planner_of()), limit=stop, seed=2)[:stop]
    second = drive(queue_of(planner_of(), first), seed=3)
    assert not ids(first) & ids(second)
    assert ids(first) | ids(second) == ids(undisturbed)
    again = queue_of(planner_of(), undisturbed)
    assert again.left == 0
    assert ids(again.cells()) == ids(undisturbed)


def test_results_of_the_full_grid_are_used_but_decide_nothing_early() -> None:
    everything = [result_of(cell) for cell in planner_of().cells()]
    queue = queue_of(planner_of(), everything)
    assert queue.left == 0
    assert ids(queue.cells()) == ids(drive(queue_of(planner_of())))


@pytest.mark.parametrize(("budget", "most"), [(50, 50), (0.5, 48), (0.75, 72), (1000, 96)])
def test_a_budget_is_kept(budget: float, most: int) -> None:
    queue = queue_of(planner_of({"budget": budget}))
    assert queue.most == most
    assert 36 <= len(drive(queue)) <= most


@pytest.mark.parametrize(
    ("budget", "cells"), [(None, 96), (1.0, 96), (0.5, 48), (1, 1), (1.5, 1), (50.0, 50)]
)
def test_a_budget_is_a_share_up_to_one_and_a_number_above(budget: float | None, cells: int) -> None:
    assert Racing(budget=budget).most(96) == cells


def test_a_budget_below_the_first_round_is_refused() -> None:
    with pytest.raises(SpaceError, match="35 cells are fewer than the first 3 replicates") as refusal:
        queue_of(planner_of({"budget": 35}))
    assert "at least 36" in str(refusal.value.hint)


def test_a_failed_cell_takes_its_configuration_out() -> None:
    queue = queue_of(planner_of())
    blocks = list(iter(queue.take, None))  # the first round
    bad = next(cell for block in blocks for cell in block.cells if cell.configuration["x"] == 2)
    for block in blocks:
        done = [
            CellResult.of(cell, "failed", error="broken") if cell is bad else result_of(cell)
            for cell in block.cells
        ]
        queue.report(block.number, done)
        queue.note(done)
    drive(queue)
    ran = counts(queue)
    assert ran[2, str(bad.configuration["word"])] == 3
    assert ran[3, "a"] == REPLICATES


def test_each_condition_is_a_race_of_its_own() -> None:
    changes: dict[str, Any] = {"baseline": {"x": 0}}
    queue = queue_of(planner_of(**changes))
    assert [len(test.bases) for test in queue.race.tests] == [6, 6]
    assert [test.bases.tolist() for test in queue.race.tests] == [[0] * 6] * 2


def test_sampled_points_race_too() -> None:
    drawn = {"sobol": {"samples": 8, "seed": 1}}
    dimensions = {"x": {"integer": [0, 5]}, "word": {"choice": ["a", "b"]}}
    queue = queue_of(planner_of(drawn, dimensions=dimensions))
    assert 0 < len(drive(queue)) <= 9 * REPLICATES
    assert counts(queue)[0, "a"] >= 3


def test_windows_are_run_all_over_the_log_first() -> None:
    assert _spread(10) == [0, 8, 4, 2, 6, 1, 9, 5, 3, 7]
    plan = RacePlan.of(Racing(), Replicates(windows=10))
    assert plan.order[:3] == ("window 1/10", "window 9/10", "window 5/10")
    assert RacePlan.of(Racing(), Replicates(seeds=3)).order == ("seed 0", "seed 1", "seed 2")
    assert RacePlan.stored({"strategy": {"race": {}}, "replicates": {"windows": 10}}) == plan
    assert RacePlan.stored({"strategy": {"grid": {}}}) is None


@pytest.mark.parametrize(
    ("race", "message"),
    [
        ({"eror": 0.1}, "eror"),
        ({"error": 0.7}, "less than 0.5"),
        ({"first": 1}, "at least 2"),
        ({"random": {"samples": 3}, "sobol": {"samples": 4}}, "not both"),
    ],
)
def test_wrong_options_are_refused(race: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        planner_of(race)


def summary_of(tmp_path: Path, race: dict[str, Any] | None = None, **changes: Any) -> Summary:
    planner = planner_of(race, **changes)
    queue = queue_of(planner)
    finished = {result.cell_id: result for result in drive(queue)}
    results = [finished[cell.cell_id] for cell in queue.cells()]
    facts = SweepFacts.of(SweepPlan(planner.space, tmp_path, ["min"], queue.most, [], {}))
    return summarise(results_table(results), facts)


def test_the_report_has_the_race_s_verdicts_and_marks_who_was_stopped(tmp_path: Path) -> None:
    rows = summary_of(tmp_path).rankings["loss"].to_pylist()
    verdicts = {(row["param.x"], row["param.word"]): row["verdict"] for row in rows}
    assert verdicts[0, "a"] == "baseline"
    assert verdicts[0, "b"] == "not sure"
    # Eight replicates can miss the bad one that would undo a lead.
    assert {verdicts[x, word] for x in (1, 2, 3) for word in "ab"} == {"better typically"}
    assert {verdicts[x, word] for x in (4, 5) for word in "ab"} == {"worse"}
    ranks = [row["rank"] for row in rows]
    ranked = [rank for rank in ranks if rank is not None]
    assert ranks[: len(ranked)] == sorted(ranked)
    assert {row["param.x"] for row in rows[:4]} == {2, 3}
    assert {row["race"] for row in rows[:4]} == {"can be best"}
    stopped = rows[len(ranked) :]
    assert stopped
    assert all(row["race"] == f"stopped after {row['n']}" for row in stopped)
    assert [row["n"] for row in stopped] == sorted((row["n"] for row in stopped), reverse=True)
    assert all(row["p_value"] is None for row in rows)


def test_tables_say_what_a_stop_means(tmp_path: Path) -> None:
    text = summary_of(tmp_path).markdown
    assert "stopped after 3" in text
    assert "so no rank" in text
    assert "sign-flip" not in text


def test_a_race_over_several_workloads_has_verdicts_over_all(tmp_path: Path) -> None:
    workloads = [{"nap": 0.0, "label": "one"}, {"nap": 1e-9, "label": "two"}]
    summary = summary_of(tmp_path, workloads=workloads)
    assert len(set(summary.rankings["loss"]["workload"].to_pylist())) == 2
    rows = summary.overall["loss"].to_pylist()
    verdicts = {row["param.x"]: row["verdict"] for row in rows if row["param.word"] == "b"}
    assert verdicts == {
        0: "not sure",
        1: "better typically",
        2: "better",
        3: "better",
        4: "worse",
        5: "worse",
    }
    assert {row["race"] for row in rows if row["param.x"] == 5} == {"stopped"}
    assert all(row["rank"] is None for row in rows if row["race"] == "stopped")
