"""Where cells run: the results are the same bits in this process as in workers, and so are failures."""

from __future__ import annotations

import itertools
import json
import os
import runpy
from collections.abc import Iterable, Sequence
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from gridtune.core.cells import CellResult
from gridtune.errors import GridtuneWarning, SweepError
from gridtune.sweep.execution import children, executors
from gridtune.sweep.execution.blocks import BlockQueue
from gridtune.sweep.execution.children import ChildWorkers
from gridtune.sweep.execution.executors import SweepExecutor, check_executor, single_threaded
from gridtune.sweep.execution.observing import SweepObserver, SweepPlan, SweepResult
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.run import run_space, space_cells
from gridtune.sweep.space.code import SweepCode
from gridtune.sweep.space.plan import plan_space
from tests.sweep.spaces import content, runs_in, toy_space

#: Parts of a result that may differ between two runs of the same cell.
VOLATILE = ("seconds", "worker", "check")


def lines(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the journal's lines by cell, without timings."""
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()[1:]]
    return {
        record["cell_id"]: {name: value for name, value in record.items() if name not in VOLATILE}
        for record in records
    }


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the toy's cells in this process, as if it were not the code of users."""
    monkeypatch.setattr(SweepCode, "from_outside", False)


def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every start of Ray fail, and no Ray run already."""

    def refuse(self: SweepExecutor) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr(SweepExecutor, "start_ray", refuse)
    monkeypatch.setattr(executors, "sys", SimpleNamespace(modules={}))


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "space",
    [
        {
            "name": "same",
            "fixed": {"trace": "quickstart", "walltime": "noise", "noise": 0.5},
            "dimensions": {"order": ["fcfs", "sjf", "random"], "backfill": ["none", "easy"]},
            "replicates": {"windows": 3},
            "objective": "wait_mean",
        },
        toy_space(dimensions={"x": [0, 1, 2], "kind": ["good", "raises", "exits"]}),
    ],
    ids=["batch", "failures"],
)
def test_a_cell_has_the_same_bits_whichever_executor_ran_it(space: dict[str, Any], tmp_path: Path) -> None:
    inline = run_space(space, directory=tmp_path / "inline", executor="inline")
    workers = run_space(space, directory=tmp_path / "ray", executor="ray")
    here = f":{os.getpid()}"
    assert len({result.worker for result in inline.results}) == 1
    assert inline.results[0].worker.endswith(here) == (space["name"] == "same")
    assert not any(result.worker.endswith(here) for result in workers.results)
    assert content(inline.table) == content(workers.table)
    assert lines(tmp_path / "inline") == lines(tmp_path / "ray")


def test_auto_stays_on_this_machine_for_little_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_ray(monkeypatch)
    result = run_space(toy_space(), directory=tmp_path / "out")
    assert (result.ran, result.complete) == (16, True)
    assert not (tmp_path / "out" / ".inline").exists()


@pytest.mark.usefixtures("cluster", "in_process")
def test_auto_begins_here_and_goes_on_with_ray_when_much_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(executors, "_RAY_SECONDS", 0.5)
    space = toy_space(dimensions={"x": list(range(30))}, fixed={"nap": 0.1})
    result = run_space(space, directory=tmp_path / "out")
    here = [cell for cell in result.results if cell.worker.endswith(f":{os.getpid()}")]
    assert 0 < len(here) < len(result.results)
    assert (result.ran, result.complete) == (60, True)


def test_auto_uses_ray_at_once_where_the_journal_says_that_cells_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ray(monkeypatch)
    small = toy_space(dimensions={"x": [0]}, fixed={"nap": 0.01})
    run_space(small, directory=tmp_path)
    monkeypatch.setattr(executors, "_RAY_SECONDS", 0.1)
    larger = toy_space(dimensions={"x": list(range(100))}, fixed={"nap": 0.01})
    with pytest.raises(AssertionError, match="Ray was started"):
        run_space(larger, directory=tmp_path)
    assert len(read_journal(tmp_path / "journal.jsonl")) == 2


def test_a_sweep_whose_process_died_goes_on_in_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ray(monkeypatch)
    (tmp_path / ".inline").touch()
    result = run_space(toy_space(), directory=tmp_path)
    assert result.complete
    assert not any(cell.worker.endswith(f":{os.getpid()}") for cell in result.results)
    assert not (tmp_path / ".inline").exists()


@pytest.mark.parametrize("deaths", [1, 99, 100])
def test_a_server_of_forks_that_is_killed_is_replaced(
    deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, count = forkserver.connect_to_new_process, itertools.count(1)
    monkeypatch.setattr(children, "_PAUSE_SECONDS", 0.0)

    def connected(*arguments: Any) -> Any:
        if next(count) <= deaths:
            raise EOFError
        return connect(*arguments)

    monkeypatch.setattr(forkserver, "connect_to_new_process", connected)
    if deaths < 100:
        assert ChildWorkers.result_of(os.getppid, folder=tmp_path) > 0
    else:
        with pytest.raises(SweepError, match="no process for the cells could be started"):
            ChildWorkers.result_of(os.getppid, folder=tmp_path)


def test_auto_never_takes_ray_for_one_worker_or_less_work_than_its_start(tmp_path: Path) -> None:
    plan, seconds = plan_space(toy_space()), executors._RAY_SECONDS

    def stays(workers: int, work: float) -> bool:
        runner = SweepExecutor(plan, "auto", None, workers, tmp_path, lambda what, busy: None)
        return runner._is_little(work)

    assert stays(1, 1e6)
    assert stays(2, 2 * seconds)
    assert not stays(2, 2.1 * seconds)
    assert not stays(4, 2 * seconds)


@pytest.mark.parametrize(
    ("seconds", "beside", "answered", "stays"),
    [
        (0.01, False, False, True),
        (9.0, False, False, False),
        (9.0, True, False, True),
        (9.0, True, True, False),
    ],
)
def test_cells_go_on_while_ray_starts_unless_they_would_hold_it_up(
    seconds: float, beside: bool, answered: bool, stays: bool, tmp_path: Path
) -> None:
    queue = BlockQueue(space_cells(toy_space(replicates={"seeds": 1000})), workers=1)
    block = queue.take()
    assert block is not None
    queue.report(block.number, [CellResult.of(block.cells[0], "done", seconds=seconds)])
    plan = plan_space(toy_space())
    runner = SweepExecutor(plan, "auto", None, 4, tmp_path, lambda what, busy: None)
    runner._session = cast(Any, SimpleNamespace(answered=answered))
    assert runner._stay(queue, beside=beside) == stays


@pytest.mark.parametrize(
    ("changes", "options", "executor"),
    [
        ({}, {}, "auto"),
        ({"timeout": 5.0}, {}, "auto"),
        ({}, {"workers": 2}, "ray"),
        ({}, {"address": "10.0.0.1:6379"}, "ray"),
        ({"resources": {"executor": "inline"}}, {}, "inline"),
        ({"resources": {"executor": "inline"}}, {"executor": "ray"}, "ray"),
        ({}, {"executor": "inline", "workers": 1}, "inline"),
    ],
)
def test_the_executor_is_what_was_asked_for(
    changes: dict[str, Any], options: dict[str, Any], executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "sys", SimpleNamespace(modules={}))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    asked: dict[str, Any] = {"executor": None, "address": None, "workers": None} | options
    assert check_executor(plan_space(toy_space(**changes)), **asked) == executor


@pytest.mark.parametrize(
    "options",
    [{"workers": 2}, {"address": "10.0.0.1:6379"}],
)
def test_what_only_ray_does_is_refused_inline(options: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"address": None, "workers": None} | options
    with pytest.raises(SweepError, match="needs Ray"):
        check_executor(plan_space(toy_space()), executor="inline", **asked)


def test_an_unknown_executor_is_refused() -> None:
    unknown: Any = "dask"
    with pytest.raises(SweepError, match="no executor is named 'dask'"):
        check_executor(plan_space(toy_space()), unknown, address=None, workers=None)


@pytest.mark.usefixtures("in_process")
def test_an_interrupt_keeps_the_finished_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_one = executors.run_one
    count = itertools.count()

    def interrupted(*args: Any) -> CellResult:
        if next(count) == 5:
            raise KeyboardInterrupt
        return run_one(*args)

    monkeypatch.setattr(executors, "run_one", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_space(toy_space(), directory=tmp_path / "out", executor="inline")
    assert len(read_journal(tmp_path / "out" / "journal.jsonl")) == 5
    assert not (tmp_path / "out" / ".inline").exists()
    assert run_space(toy_space(), directory=tmp_path / "out", executor="inline").ran == 11


def test_a_folder_that_is_moved_during_the_run_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    out, moved = tmp_path / "out", tmp_path / "moved"

    class Mover(SweepObserver):
        def finished(self, results: Sequence[CellResult]) -> None:
            if out.exists():
                out.rename(moved)

    with pytest.warns(GridtuneWarning, match="was moved or removed during the run"):
        result = run_space(toy_space(), directory=out, executor="inline", observers=[Mover()])
    assert result.complete
    assert result.path.exists()
    assert len(read_journal(moved / "journal.jsonl")) == 16


def test_an_observer_that_fails_ends_an_inline_sweep_and_loses_nothing(tmp_path: Path) -> None:
    class Faulty:
        def started(self, plan: object) -> None: ...

        def finished(self, results: Sequence[CellResult]) -> None:
            raise SweepError("the observer has a fault")

        def ended(self, result: object) -> None: ...

    with pytest.raises(SweepError, match="the observer has a fault"):
        run_space(toy_space(), directory=tmp_path / "out", executor="inline", observers=[Faulty()])
    finished = len(read_journal(tmp_path / "out" / "journal.jsonl"))
    assert run_space(toy_space(), directory=tmp_path / "out", executor="inline").ran == 16 - finished


class Watch:
    """Remembers the plan of a sweep."""

    plan: SweepPlan | None = None

    def started(self, plan: SweepPlan) -> None:
        self.plan = plan

    def finished(self, results: Sequence[CellResult]) -> None: ...

    def ended(self, result: SweepResult) -> None: ...


def test_an_extended_space_runs_the_new_cells_alone(tmp_path: Path) -> None:
    notebook = tmp_path / "notebook"
    notebook.mkdir()
    small = toy_space(notebook, dimensions={"x": [0, 1]})
    first = run_space(small, directory=tmp_path / "out", executor="inline")
    watch = Watch()
    larger = {**small, "dimensions": {"x": [0, 1, 2], "word": ["a", "b"]}}
    second = run_space(larger, directory=tmp_path / "out", observers=[watch], executor="inline")
    assert (first.ran, second.ran) == (4, 8)  # `word: a` is the default: those cells are the old ones
    assert watch.plan is not None
    assert len(watch.plan.finished) == 4
    assert set(runs_in(notebook).values()) == {2}  # two seeds, each once
    # Results of the smaller space are described as the larger one describes them.
    assert set(second.table["param.word"].to_pylist()) == {"a", "b"}
    assert {cell.configuration["word"] for cell in watch.plan.finished} == {"a"}


def test_an_adaptive_sweep_runs_inline_and_goes_on(tmp_path: Path) -> None:
    space = toy_space(dimensions={"x": {"uniform": [0, 6]}}, strategy={"optuna": {"trials": 5, "seed": 0}})
    first = run_space(space, directory=tmp_path / "out", executor="inline")
    assert (first.ran, len(first.results)) == (10, 10)
    more = {**space, "strategy": {"optuna": {"trials": 8, "seed": 0}}}
    second = run_space(more, directory=tmp_path / "out", executor="inline")
    assert (second.ran, len(second.results)) == (6, 16)
    assert {cell.cell_id for cell in first.results} < {cell.cell_id for cell in second.results}
    assert run_space(more, directory=tmp_path / "out", executor="inline").ran == 0


def test_the_plan_of_a_strategy_that_stops_configurations_has_the_most_cells(tmp_path: Path) -> None:
    asha = {"trials": 6, "seed": 0, "reduction": 2}
    space = toy_space(
        dimensions={"x": {"uniform": [0, 6]}},
        replicates={"seeds": 4},
        strategy={"asha": asha},
        baseline={"x": 6},
    )
    watch = Watch()
    result = run_space(space, directory=tmp_path / "out", executor="inline", observers=[watch])
    assert watch.plan is not None
    assert (watch.plan.total, watch.plan.at_most) == (28, True)
    assert 7 < len(result.results) < 28


def test_a_queue_that_deals_out_nothing_is_an_error_and_not_an_endless_loop(tmp_path: Path) -> None:
    class Stuck(BlockQueue):
        @property
        def left(self) -> int:
            return 1

    plan = plan_space(toy_space())
    runner = SweepExecutor(plan, "inline", None, workers=1, folder=tmp_path, stage=lambda what, busy: None)
    with pytest.raises(SweepError, match="cells are left"):
        runner.run(Stuck([], workers=1), [], None, sink=lambda results: None)


def test_numerical_libraries_have_one_thread_as_in_a_worker() -> None:
    np.ones((4, 4)) @ np.ones((4, 4))
    with single_threaded():
        assert {library["num_threads"] for library in threadpool_info()} == {1}
        assert os.environ["OMP_NUM_THREADS"] == "1"


@pytest.mark.usefixtures("in_process")
def test_compiling_is_said_only_when_something_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Markers of what is compiled are in the folder for temporary files: this test has one of its own.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = tmp_path / "fresh.py"  # no cache has it
    file.write_text("from numba import njit\n@njit(cache=True)\ndef kernel(x):\n    return x + 1\n")
    compiled = runpy.run_path(str(file))["kernel"]
    space, said = toy_space(dimensions={"x": [0, 1]}), list[str]()
    system = type(plan_space(space).system)
    prepare = system.prepare

    def compile_here(self: Any, parameters: Iterable[Any]) -> None:
        compiled(len(said))
        prepare(self, parameters)

    run_space(space, directory=tmp_path / "first", executor="inline", stage=lambda what, _: said.append(what))
    assert not [what for what in said if "compiling" in what]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "first"))
    monkeypatch.setattr(system, "prepare", compile_here)
    run_space(
        space, directory=tmp_path / "second", executor="inline", stage=lambda what, _: said.append(what)
    )
    assert len([what for what in said if "compiling kernels" in what]) == 1


@pytest.mark.usefixtures("in_process")
def test_a_search_prepares_for_every_listed_value_and_not_for_its_baseline_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    space = toy_space(
        dimensions={"x": {"uniform": [0, 3]}, "word": {"choice": ["a", "b"]}},
        baseline={"x": 1, "word": "a"},
        strategy={"optuna": {"trials": 1, "seed": 1}},
    )
    prepared = set[str]()

    def note(self: Any, parameters: Iterable[Any]) -> None:
        prepared.update(one.word for one in parameters)

    monkeypatch.setattr(type(plan_space(space).system), "prepare", note)
    run_space(space, directory=tmp_path / "out", executor="inline")
    assert prepared == {"a", "b"}
