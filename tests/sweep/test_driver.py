"""The driver: how many workers it wants, and which blocks it gives them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gridtune.core.cells import Cell, CellResult
from gridtune.core.system import CellResources
from gridtune.errors import SweepError
from gridtune.sweep.execution.blocks import Block, BlockQueue, SweepDriver
from gridtune.sweep.execution.cluster import Crew
from gridtune.sweep.run import space_cells
from tests.sweep.spaces import toy_space


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return space_cells(toy_space(dimensions={"x": list(range(50))}))


class Stage:
    """A driver with its surroundings."""

    def __init__(self, cells: list[Cell], *, workers: int = 2, timeout: float | None = None) -> None:
        self.results: list[CellResult] = []
        self.busy = 0
        self.queue = BlockQueue(cells, workers=workers, timeout=timeout)
        self.crew = Crew(workers, CellResources(), lambda: [{"CPU": workers}])
        self.driver = SweepDriver(self.queue, sink=self.results.extend, busy=self.set_busy, crew=self.crew)

    def set_busy(self, count: int) -> None:
        self.busy = count

    def start(self, worker: str) -> Block:
        """Let a worker start; return its first block."""
        assert self.driver.wants(worker)
        self.driver.ready(worker)
        ((name, block),) = self.driver.hand_out()
        assert name == worker
        return block

    def send(self, worker: str, cells: Sequence[Cell], left: int, seconds: float = 0.01) -> Block | None:
        """Let a worker report cells as done; return its next block."""
        results = [CellResult.of(cell, "done", seconds=seconds) for cell in cells]
        self.driver.received(worker, results, left)
        self.driver.deliver()
        return self.next_block(worker)

    def next_block(self, worker: str) -> Block | None:
        """Return the block that a worker gets now."""
        return dict(self.driver.hand_out()).get(worker)

    def lose(self, worker: str, error: str | None = None) -> None:
        """Let a worker die."""
        self.driver.died(worker, error)
        self.driver.deliver()


def test_there_are_as_many_workers_as_are_to_be(cells: list[Cell]) -> None:
    stage = Stage(cells)
    assert [stage.driver.wants(trial) for trial in "abc"] == [True, True, False]
    stage.crew.workers = 3
    assert [stage.driver.wants(trial) for trial in "de"] == [True, False]
    stage.lose("a")
    assert [stage.driver.wants(trial) for trial in "fg"] == [True, False]


def test_few_cells_have_few_workers(cells: list[Cell]) -> None:
    stage = Stage(cells[:2], workers=10)
    assert [stage.driver.wants(trial) for trial in "abc"] == [True, True, False]
    stage.driver.ready("a")
    assert stage.next_block("a") is not None
    assert not stage.driver.wants("d")


def test_a_worker_goes_on_with_block_after_block(cells: list[Cell]) -> None:
    stage = Stage(cells)
    one, two = stage.start("one"), stage.start("two")
    assert stage.busy == 2
    assert stage.send("one", one.cells[:1], left=len(one.cells) - 1, seconds=1.0) is None
    following = stage.send("one", one.cells[1:], left=0, seconds=1.0)
    assert following is not None
    ahead = len(one.cells) + len(two.cells)
    assert following.cells == tuple(cells[ahead : ahead + len(following.cells)])
    blocks: dict[str, Block | None] = {"one": following, "two": two}
    while not stage.driver.over:
        for worker, block in blocks.items():
            blocks[worker] = stage.send(worker, block.cells, left=0) if block else None
    assert len(stage.results) == len(cells) == len({result.cell_id for result in stage.results})
    assert stage.busy == 0


def test_a_worker_without_a_block_gets_what_comes_back(cells: list[Cell]) -> None:
    stage = Stage(cells[:2])
    one, two = stage.start("one"), stage.start("two")
    assert stage.send("one", one.cells, left=0) is None
    assert stage.busy == 1
    assert not stage.driver.over
    stage.lose("two")
    back = stage.next_block("one")
    assert back is not None
    assert back.cells == two.cells
    assert back.careful
    # It is not ended before its first cell, nor after another one.
    assert stage.busy == 0
    assert stage.send("one", [], left=1) is None
    assert stage.busy == 1
    assert stage.send("one", back.cells, left=0) is None
    assert stage.driver.over


def test_many_workers_report_less_often() -> None:
    assert Stage([], workers=16).driver.report_seconds == 0.5
    assert Stage([], workers=256).driver.report_seconds == 2.56


def test_deaths_without_end_end_the_sweep(cells: list[Cell]) -> None:
    stage = Stage(cells)
    for number in range(100):
        if stage.driver.over:
            break
        stage.start(str(number))
        stage.lose(str(number), "out of\nmemory")
    assert isinstance(stage.driver.fault, SweepError)
    assert "out of memory" in str(stage.driver.fault)


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_worker_that_dies_before_it_begins_is_no_cells_fault(
    timeout: float | None, cells: list[Cell]
) -> None:
    stage = Stage(cells, workers=4, timeout=timeout)
    deaths = 0
    while not stage.driver.over:
        assert stage.driver.wants(str(deaths))
        stage.lose(str(deaths), "no room for a worker")
        deaths += 1
        assert deaths < 100
    assert deaths == 12 + 2 * 4 + 1
    assert stage.results == []
    assert stage.queue.left == len(cells)
    assert "no room for a worker" in str(stage.driver.fault)


def test_a_death_past_the_timeout_is_a_timeout(cells: list[Cell], monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(cells[:2], workers=1, timeout=2.0)
    monkeypatch.setattr(stage.queue, "fair_size", lambda: 2)
    now = 100.0
    monkeypatch.setattr("gridtune.sweep.execution.blocks.time.monotonic", lambda: now)
    block = stage.start("one")
    assert stage.send("one", [], left=2) is None
    now = 101.9
    assert stage.send("one", block.cells[:1], left=1) is None
    now = 104.0
    stage.lose("one")
    assert [result.state for result in stage.results] == ["done", "timed_out"]


def test_a_fault_of_the_sink_ends_the_sweep(cells: list[Cell]) -> None:
    def broken(results: Sequence[CellResult]) -> None:
        raise OSError("the disk is full")

    crew = Crew(1, CellResources(), lambda: [{"CPU": 1}])
    driver = SweepDriver(BlockQueue(cells, workers=1), sink=broken, busy=lambda count: None, crew=crew)
    assert driver.wants("one")
    driver.ready("one")
    ((_, block),) = driver.hand_out()
    driver.received("one", [CellResult.of(block.cells[0], "done")], 1)
    driver.deliver()
    assert driver.over
    assert isinstance(driver.fault, OSError)


def test_a_worker_that_cannot_be_made_ready_keeps_its_place_and_no_cells(cells: list[Cell]) -> None:
    stage = Stage(cells[:8])
    assert stage.driver.wants("one")
    two = stage.start("two")
    stage.driver.unfit("one", "host:1: no room for kernels")
    assert not stage.driver.over
    # Ray would start another in its place.
    assert not stage.driver.wants("three")
    # Made ready after all, it takes a block.
    stage.driver.ready("one")
    assert stage.next_block("one") is not None
    stage.driver.unfit("two", "host:2: no room for kernels")
    assert not stage.driver.over
    assert stage.queue.waiting >= len(two.cells)


def test_a_sweep_without_a_worker_that_is_ready_ends_and_blames_no_cell(cells: list[Cell]) -> None:
    stage = Stage(cells[:8])
    for trial in ("one", "two"):
        assert stage.driver.wants(trial)
        stage.driver.unfit(trial, f"host of {trial}: no room for kernels")
    assert stage.driver.over
    assert "no worker can run cells; host of one: no room for kernels" in str(stage.driver.fault)
    assert stage.results == []
    assert stage.queue.left == 8


def test_a_node_that_dies_again_and_again_is_no_cells_fault(cells: list[Cell]) -> None:
    stage = Stage(cells[:1], workers=1, timeout=60.0)
    for death in range(5):
        stage.start(str(death))
        stage.lose(str(death), "The actor died because its node has died.")
    assert stage.results == []
    assert stage.queue.left == 1
