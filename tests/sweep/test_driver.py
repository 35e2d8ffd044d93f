"""The driver: no trial ends while a worker is starting, and what is left of the first shares is recalled."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gridtune.errors import SweepError
from gridtune.sweep import Cell, CellResult, space_cells
from gridtune.sweep.blocks import BlockQueue
from gridtune.sweep.driver import SweepDriver
from gridtune.sweep.placement import Crew
from tests.sweep.spaces import toy_space


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return space_cells(toy_space(dimensions={"x": list(range(50))}))


class Stage:
    """A driver with its surroundings."""

    def __init__(
        self, cells: list[Cell], *, workers: int = 2, room: int = 2, timeout: float | None = None
    ) -> None:
        self.results: list[CellResult] = []
        self.busy = 0
        self.queue = BlockQueue(cells, workers=workers, timeout=timeout)
        self.driver = SweepDriver(
            self.queue,
            sink=self.results.extend,
            busy=self.set_busy,
            crew=Crew(workers, room),
            timeout=timeout,
        )

    def set_busy(self, count: int) -> None:
        self.busy = count

    def send(self, trial: str, cells: Sequence[Cell], left: int, seconds: float = 0.01) -> bool:
        """Let a trial report cells as done; return whether it was ended."""
        ended = self.driver.should_end(trial, left)
        self.driver.received(
            trial, [CellResult.of(cell, "done", seconds=seconds) for cell in cells], ended=ended
        )
        return ended


def test_first_shares_are_recalled_when_all_workers_are_there(cells: list[Cell]) -> None:
    stage = Stage(cells)
    one, two = stage.driver.suggest("one"), stage.driver.suggest("two")
    assert one is not None
    assert two is not None
    assert len(one.cells) == len(two.cells) == 50
    assert stage.driver.suggest("three") is None
    stage.driver.started("one")
    # The second worker is still starting: the first one's trial must not end, whatever it has done.
    assert not stage.send("one", one.cells[:10], left=40, seconds=1.0)
    stage.driver.started("two")
    assert stage.send("one", one.cells[10:11], left=39, seconds=1.0)
    again = stage.driver.suggest("three")
    assert again is not None
    assert again.cells[0] == one.cells[11]
    assert len(again.cells) < 10


def test_a_worker_with_nothing_left_waits_for_one_that_starts(cells: list[Cell]) -> None:
    stage = Stage(cells[:8])
    one = stage.driver.suggest("one")
    stage.driver.suggest("two")
    assert one is not None
    stage.driver.started("one")
    assert not stage.send("one", one.cells, left=0)
    assert not stage.send("one", [], left=0)
    stage.driver.started("two")
    assert stage.busy == 2
    assert stage.send("one", [], left=0)


def test_patience_ends(cells: list[Cell], monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(cells[:8])
    one = stage.driver.suggest("one")
    stage.driver.suggest("two")
    assert one is not None
    stage.driver.started("one")
    assert not stage.send("one", one.cells, left=0)
    monkeypatch.setattr("gridtune.sweep.driver._PATIENCE_SECONDS", -1.0)
    assert stage.send("one", [], left=0)


def test_at_the_end_nobody_waits(cells: list[Cell]) -> None:
    stage = Stage(cells[:2])
    one, two = stage.driver.suggest("one"), stage.driver.suggest("two")
    assert one is not None
    assert two is not None
    for trial in ("one", "two"):
        stage.driver.started(trial)
    assert stage.send("one", one.cells, left=0)
    assert stage.driver.suggest("three") is None
    assert not stage.driver.over
    assert stage.send("two", two.cells, left=0)
    assert stage.driver.over
    assert len(stage.results) == 2


@pytest.mark.parametrize(("room", "trials"), [(2, 4), (9, 2)])
def test_a_block_waits_for_each_worker_unless_ray_would_start_more(
    cells: list[Cell], room: int, trials: int
) -> None:
    stage = Stage(cells, workers=2, room=room)
    taken = 0
    for name in "abcdefgh":
        block = stage.driver.suggest(name)
        if block is None:
            continue
        taken += 1
        if taken <= 2:
            stage.driver.started(name)
            if stage.busy == 2:
                assert stage.send("a", [], left=50)
                stage.driver.suggest("a2")
                stage.driver.started("a2")
    assert len(stage.driver._block_of) == trials


def test_deaths_without_end_end_the_sweep(cells: list[Cell]) -> None:
    stage = Stage(cells)
    for number in range(100):
        if stage.driver.suggest(str(number)) is None:
            break
        stage.driver.started(str(number))
        stage.driver.died(str(number), "out of\nmemory")
    assert isinstance(stage.driver.fault, SweepError)
    assert "out of memory" in str(stage.driver.fault)
    assert stage.driver.over


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_worker_that_dies_before_it_begins_is_no_cells_fault(
    timeout: float | None, cells: list[Cell]
) -> None:
    stage = Stage(cells, workers=4, room=4, timeout=timeout)
    deaths = 0
    while not stage.driver.over:
        assert stage.driver.suggest(str(deaths)) is not None
        stage.driver.died(str(deaths), "no room for a worker")
        deaths += 1
        assert deaths < 100
    assert deaths == 8 + 2 * 4 + 1
    assert stage.results == []
    assert stage.queue.left == len(cells)
    assert "no room for a worker" in str(stage.driver.fault)


def test_cells_of_a_worker_that_never_began_are_dealt_out_again(cells: list[Cell]) -> None:
    stage = Stage(cells[:4], workers=1, room=1)
    assert stage.driver.suggest("one") is not None
    stage.driver.died("one", None)
    again = stage.driver.suggest("two")
    assert again is not None
    assert again.cells == tuple(cells[:4])
    assert not again.careful


def test_a_death_past_the_timeout_is_a_timeout(cells: list[Cell], monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(cells[:2], workers=1, room=1, timeout=2.0)
    now = 100.0
    monkeypatch.setattr("gridtune.sweep.driver.time.monotonic", lambda: now)
    block = stage.driver.suggest("one")
    assert block is not None
    stage.driver.started("one")
    now = 101.9
    assert not stage.send("one", block.cells[:1], left=1)
    now = 104.0
    stage.driver.died("one", None)
    assert [result.state for result in stage.results] == ["done", "timed_out"]


def test_a_fault_of_the_sink_ends_the_sweep(cells: list[Cell]) -> None:
    def broken(results: Sequence[CellResult]) -> None:
        raise OSError("the disk is full")

    stage = Stage(cells)
    stage.driver._sink = broken
    one = stage.driver.suggest("one")
    assert one is not None
    stage.driver.started("one")
    stage.send("one", one.cells[:1], left=49)
    assert stage.driver.over
    assert isinstance(stage.driver.fault, OSError)


def test_a_worker_that_cannot_be_made_ready_keeps_its_place_and_no_cells(cells: list[Cell]) -> None:
    stage = Stage(cells[:8], workers=2, room=2)
    one, two = stage.driver.suggest("one"), stage.driver.suggest("two")
    assert one is not None
    assert two is not None
    stage.driver.started("one")
    stage.driver.started("two")
    assert not stage.driver.unfit("one", "host:1: no room for kernels")
    assert not stage.driver.over
    # Its cells go to the other worker, and it is not ended: Ray would start another in its place.
    assert stage.send("two", two.cells, left=0)
    rest = stage.driver.suggest("three")
    assert rest is not None
    assert all(cell in one.cells for cell in rest.cells)
    # Made ready after all, it ends with its trial and takes the next.
    assert stage.driver.unfit("one", "")
    assert stage.driver.should_end("one", left=4)
    stage.driver.received("one", [], ended=True)
    assert stage.queue.left == 4


def test_a_sweep_without_a_worker_that_is_ready_ends_and_blames_no_cell(cells: list[Cell]) -> None:
    stage = Stage(cells[:8], workers=2, room=2)
    for trial in ("one", "two"):
        stage.driver.suggest(trial)
        stage.driver.started(trial)
        stage.driver.unfit(trial, f"host of {trial}: no room for kernels")
    assert stage.driver.over
    assert "no worker can run cells; host of one: no room for kernels" in str(stage.driver.fault)
    assert stage.results == []
    assert stage.queue.left == 8


def test_a_node_that_dies_again_and_again_is_no_cells_fault(cells: list[Cell]) -> None:
    stage = Stage(cells[:1], workers=1, room=1, timeout=60.0)
    for death in range(5):
        stage.driver.suggest(str(death))
        stage.driver.started(str(death))
        stage.driver.died(str(death), "The actor died because its node has died.")
    assert stage.results == []
    assert stage.queue.left == 1


def test_a_worker_that_has_run_nothing_yet_keeps_its_block(cells: list[Cell]) -> None:
    stage = Stage(cells[:20], workers=2, room=2)
    one, two = stage.driver.suggest("one"), stage.driver.suggest("two")
    assert one is not None
    assert two is not None
    stage.driver.started("one")
    stage.driver.started("two")
    stage.send("two", two.cells, left=0, seconds=0.1)
    stage.driver.died("one", "killed")
    # They run where each cell is reported, beginning with a sign of life: more of them than a fair share.
    careful = stage.driver.suggest("three")
    assert careful is not None
    assert careful.careful
    assert len(careful.cells) > stage.queue.fair_size(len(careful.cells))
    stage.driver.started("three")
    assert not stage.driver.should_end("three", len(careful.cells), 0)
    assert stage.send("three", careful.cells[:1], left=len(careful.cells) - 1, seconds=0.1)
