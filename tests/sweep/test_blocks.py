"""Blocks: every cell gets a result, whatever dies; none is dealt out twice without need."""

from __future__ import annotations

import random

import pytest

from gridtune.core.cells import Cell, CellResult
from gridtune.sweep.execution.blocks import Block, BlockQueue
from gridtune.sweep.run import space_cells
from tests.sweep.spaces import toy_space


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return space_cells(toy_space(dimensions={"x": list(range(50))}))


def done(cells: list[Cell] | tuple[Cell, ...], seconds: float = 0.01) -> list[CellResult]:
    return [CellResult.of(cell, "done", seconds=seconds) for cell in cells]


def take(queue: BlockQueue) -> Block:
    block = queue.take()
    assert block is not None
    return block


def test_every_cell_is_dealt_out_once_in_order(cells: list[Cell]) -> None:
    queue = BlockQueue(cells, workers=3)
    dealt = []
    while block := queue.take():
        dealt += block.cells
        queue.report(block.number, done(block.cells))
    assert dealt == cells
    assert queue.left == 0


def test_blocks_shrink_towards_the_end(cells: list[Cell]) -> None:
    queue = BlockQueue(cells, workers=2)
    sizes = []
    while block := queue.take():
        sizes.append(len(block.cells))
        queue.report(block.number, done(block.cells, seconds=5.0))
    assert sizes[0] <= 4  # they may take minutes, it is not known yet
    assert sizes[1:] == sorted(sizes[1:], reverse=True)
    assert sizes[-1] == 1
    assert max(sizes) <= len(cells) / 8 + 1


def test_quick_cells_come_in_blocks_that_pay_for_their_trial() -> None:
    many = space_cells(toy_space(dimensions={"x": list(range(2000))}))
    queue = BlockQueue(many, workers=1)
    block = take(queue)
    queue.report(block.number, done(block.cells, seconds=0.002))
    assert len(take(queue).cells) == 1000


def test_results_that_came_before_a_death_count(cells: list[Cell]) -> None:
    queue = BlockQueue(cells[:8], workers=1)
    block = take(queue)
    queue.report(block.number, done(block.cells[:2]))
    assert queue.worker_died(block.number, elapsed=0.1, error="killed") == []
    rest: list[Cell] = []
    while again := queue.take():
        rest += again.cells
        queue.report(again.number, done(again.cells))
    assert {cell.cell_id for cell in rest} == {cell.cell_id for cell in cells[2:8]}


def test_a_cell_that_kills_its_worker_again_and_again_is_lost_and_no_other(cells: list[Cell]) -> None:
    some = cells[:12]
    killer = some[5].cell_id
    queue = BlockQueue(some, workers=1)
    runs, lost = play(queue, {killer: 99})
    assert [result.cell_id for result in lost] == [killer]
    assert lost[0].state == "lost"
    assert "killed" in (lost[0].error or "")
    assert runs[killer] == 4  # once among others, then three times where it is seen
    assert set(runs) == {cell.cell_id for cell in some}
    assert max(count for cell_id, count in runs.items() if cell_id != killer) == 1


def test_a_cell_that_kills_once_is_done_in_the_end(cells: list[Cell]) -> None:
    runs, lost = play(BlockQueue(cells[:12], workers=1), {cells[3].cell_id: 1})
    assert lost == []
    assert runs[cells[3].cell_id] == 2


def test_where_workers_die_of_something_else_a_cell_is_given_more_tries(cells: list[Cell]) -> None:
    some = cells[:12]
    first, unlucky, killer = (some[index].cell_id for index in (1, 5, 9))
    runs, lost = play(BlockQueue(some, workers=1), {first: 2, unlucky: 5, killer: 99})
    # The first one is done after the death in its block and one more, which shows that deaths prove little.
    assert [result.cell_id for result in lost] == [killer]
    assert lost[0].error == "its worker died with it, 5 times: killed"
    assert runs[unlucky] == 6


def test_a_death_whose_suspects_are_all_done_is_no_cells_fault(cells: list[Cell]) -> None:
    some = cells[:12]
    runs, lost = play(BlockQueue(some, workers=1), {some[1].cell_id: 1, some[5].cell_id: 4})
    assert lost == []
    assert runs[some[5].cell_id] == 5


@pytest.mark.parametrize("seed", range(20))
def test_all_cells_get_results_whatever_dies(cells: list[Cell], seed: int) -> None:
    chance = random.Random(seed)
    some = cells[: chance.randint(1, 60)]
    deaths = {cell.cell_id: chance.choice([0, 0, 0, 1, 2, 9]) for cell in some}
    runs, lost = play(
        BlockQueue(some, workers=chance.randint(1, 4)), dict(deaths), report_every=chance.randint(1, 9)
    )
    assert set(runs) == {cell.cell_id for cell in some}
    assert {result.cell_id for result in lost} <= {name for name, count in deaths.items() if count >= 2}
    assert {name for name, count in deaths.items() if count >= 6} <= {result.cell_id for result in lost}


def play(
    queue: BlockQueue, deaths: dict[str, int], report_every: int = 1
) -> tuple[dict[str, int], list[CellResult]]:
    """Run a queue with one pretended worker that a cell kills so many times; return runs and losses."""
    runs: dict[str, int] = {}
    lost: list[CellResult] = []
    while queue.left:
        block = take(queue)
        unsent: list[CellResult] = []
        for cell in block.cells:
            runs[cell.cell_id] = runs.get(cell.cell_id, 0) + 1
            if deaths.get(cell.cell_id, 0) > 0:
                deaths[cell.cell_id] -= 1
                lost += queue.worker_died(block.number, elapsed=0.1, error="killed")
                break
            unsent += done([cell])
            if len(unsent) >= report_every or block.careful:
                queue.report(block.number, unsent)
                unsent = []
        else:
            queue.report(block.number, unsent)
    return runs, lost


def test_recalled_cells_come_next_and_suspects_stay_suspects(cells: list[Cell]) -> None:
    queue = BlockQueue(cells, workers=2)
    block = take(queue)
    queue.report(block.number, done(block.cells[:3]))
    waiting = queue.waiting
    queue.recall(block.number)
    assert queue.waiting == waiting + 1
    again = take(queue)
    assert again.cells[0] == cells[3]
    queue.worker_died(again.number, elapsed=0, error="killed")
    suspects = take(queue)
    assert suspects.careful
    queue.recall(suspects.number)
    assert take(queue).careful


def test_with_a_timeout_the_cell_that_hangs_is_known_at_once(cells: list[Cell]) -> None:
    queue = BlockQueue(cells[:6], workers=1, timeout=2.0)
    block = take(queue)
    assert block.careful
    queue.report(block.number, done(block.cells[:1]))
    (ended,) = queue.worker_died(block.number, elapsed=2.1, error="killed")
    assert (ended.state, ended.cell_id) == ("timed_out", cells[1].cell_id)
    assert "2 s" in (ended.error or "")
    assert queue.left == 6 - 2


def test_deaths_in_a_row_are_counted_until_a_result(cells: list[Cell]) -> None:
    queue = BlockQueue(cells[:4], workers=1)
    for expected in (1, 2, 3):
        queue.worker_died(take(queue).number, elapsed=0, error="")
        assert queue.deaths_in_a_row == expected
    block = take(queue)
    queue.report(block.number, done(block.cells[:1]))
    assert queue.deaths_in_a_row == 0


def test_sizes_are_those_worked_out_by_hand(cells: list[Cell]) -> None:
    queue = BlockQueue(cells, workers=2)
    assert len(cells) == 100
    first = take(queue)
    queue.report(first.number, done(first.cells, seconds=5.0))
    assert len(first.cells) == 4  # few while it is not known how long they take
    assert queue.fair_size() == 12  # 96 cells, four blocks for each of two workers
    queue.workers = 3
    assert len(take(queue).cells) == 8


def test_quick_cells_are_shared_among_the_workers(cells: list[Cell]) -> None:
    queue = BlockQueue(cells, workers=2)
    first = take(queue)
    queue.report(first.number, done(first.cells, seconds=0.001))
    assert queue.fair_size() == 48  # of 96


def test_blocks_have_a_thousand_cells_at_most() -> None:
    queue = BlockQueue(space_cells(toy_space(dimensions={"x": list(range(2000))})), workers=1)
    first = take(queue)
    queue.report(first.number, done(first.cells, seconds=1e-5))
    assert queue.fair_size() == 1000


def test_a_recalled_block_that_is_no_suspect_is_not_careful_afterwards(cells: list[Cell]) -> None:
    queue = BlockQueue(cells, workers=1)
    block = take(queue)
    queue.recall(block.number)
    again = take(queue)
    assert again.cells == block.cells
    assert not again.careful
