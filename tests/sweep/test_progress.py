"""What a sweep shows of itself."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gridtune.core.cells import CellResult
from gridtune.sweep.execution.observing import Progress, SweepPlan, SweepResult, TimeLeft
from gridtune.sweep.journal.results import results_table
from gridtune.sweep.run import space_cells
from gridtune.sweep.space.plan import plan_space
from tests.sweep.spaces import toy_space


class Clock:
    """A clock that tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def plan_and_results(direction: str = "min") -> tuple[SweepPlan, list[CellResult]]:
    space = plan_space(toy_space()).space
    results = [
        CellResult.of(cell, "done", metrics={"loss": (cell.configuration["x"] - 2) ** 2 + 0.1}, seconds=1.0)
        for cell in space_cells(space)
    ]
    plan = SweepPlan(space, Path("somewhere"), [direction], len(results) + 4, results[:2], {})
    return plan, results[2:]


def test_plain_lines_tell_start_counts_and_end() -> None:
    plan, results = plan_and_results()
    out = io.StringIO()
    with Progress(Console(file=out, width=200)) as progress:
        progress.stage("starting Ray", 0)
        progress.started(plan)
        progress._last_line = -100.0
        progress.stage("running", 2)
        progress.finished(results)
        progress.ended(SweepResult(plan, results, results_table(results), Path("r.parquet"), 14, 3.0))
    output = out.getvalue()
    assert "20 cells, 2 of them finished before" in output
    assert "16/20 done, 2 running, 0 failed" in output
    assert "14 done; 14 run now, in 0:03" in output
    assert "\x1b" not in output


def test_the_live_screen_shows_the_same() -> None:
    plan, results = plan_and_results()
    progress = Progress(None)
    progress.started(plan)
    bad = replace(results[0], state="timed_out", metrics={})
    clock = Clock()
    progress._left = TimeLeft(clock)
    progress._left.started(plan)
    progress.stage("running", 1)
    progress.finished([bad, *results[1:]])
    clock.now += 13.0
    progress.stage("ending Ray", 0)
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    console.print(progress.screen())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "15/20 done, 0 running, 1 timed out" in shown
    assert "about 0:04 left" in shown  # 4 of 18 are left, and each of the 13 that are done took a second


def test_the_start_of_ray_and_loading_are_no_measure_of_the_time_left() -> None:
    """Of cells that take a second, one is done here; then Ray takes ten minutes to start its two workers."""
    plan, results = plan_and_results()
    clock = Clock()
    left = TimeLeft(clock)
    left.started(replace(plan, total=len(results) + 1, finished=[]))
    left.stage(1)
    clock.now += 1.0
    left.finished(results[:1])
    left.stage(0)
    clock.now += 600.0
    left.stage(2)
    clock.now += 8.0  # most of it to load kernels
    left.finished(results[1:3])
    assert left.seconds is not None
    missing = len(results) + 1 - 3
    assert missing / 2 <= left.seconds <= missing
    # As more is done, the loading counts less.
    clock.now += 2.5
    left.finished(results[3:8])
    assert left.seconds < missing * 0.75
    clock.now += 0.5 * len(results[8:])
    left.finished(results[8:])
    assert left.seconds < 1.5


def interrupted(progress: Progress, plan: SweepPlan, results: list[CellResult]) -> None:
    with progress:
        progress.started(plan)
        progress._last_line = -100.0
        progress.finished(results)
        raise KeyboardInterrupt


def test_the_total_of_a_strategy_that_stops_configurations_is_a_limit() -> None:
    plan, results = plan_and_results()
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        interrupted(Progress(Console(file=out, width=200)), replace(plan, at_most=True), results)
    output = out.getvalue()
    assert "toys: up to 20 cells, 2 of them finished before" in output
    assert "16 of up to 20 done" in output
    assert "16 of up to 20 cells are done and kept in somewhere; the same command goes on" in output


def test_a_terminal_is_left_as_it_was() -> None:
    out = io.StringIO()
    plan, results = plan_and_results()
    with Progress(Console(file=out, force_terminal=True, width=100)) as progress:
        progress.started(plan)
        progress.finished(results)
    assert out.getvalue().endswith(("\x1b[2K", "\x1b[?25h", "\x1b[1A\x1b[2K"))  # erased; the cursor is back


def test_nothing_is_shown_to_nobody() -> None:
    plan, results = plan_and_results()
    with Progress(None) as progress:
        progress.started(plan)
        progress.finished(results)


def test_the_screen_is_drawn_between_results_never_amid_them(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, results = plan_and_results()
    progress = Progress(None)
    progress.started(replace(plan, finished=[]))
    drawn: list[object] = []
    thread = threading.Thread(target=lambda: drawn.append(progress.screen()))
    add = TimeLeft.finished

    def slow_add(left: TimeLeft, results: Sequence[CellResult]) -> None:
        # Half of it is there: a screen drawn now would show nonsense.
        thread.start()
        thread.join(0.1)
        assert not drawn
        add(left, results)

    monkeypatch.setattr(TimeLeft, "finished", slow_add)
    progress.finished(results[:1])
    thread.join(10)
    assert len(drawn) == 1
