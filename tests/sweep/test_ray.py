"""Sweeps on a real Ray: failures are rows, results do not depend on workers, only what is new is run."""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import ray

from gridtune.core.cells import CellResult
from gridtune.errors import SweepError
from gridtune.sweep.execution.cluster import ray_session
from gridtune.sweep.execution.observing import SweepPlan, SweepResult
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.run import run_space
from gridtune.sweep.space.plan import PlannedSpace
from tests.sweep.spaces import content, runs_in, toy_space

pytestmark = pytest.mark.integration


class Watch:
    """Remembers what a sweep tells."""

    def __init__(self) -> None:
        self.plan: SweepPlan | None = None
        self.heard: list[CellResult] = []
        self.result: SweepResult | None = None
        self.busiest = 0

    def started(self, plan: SweepPlan) -> None:
        self.plan = plan

    def finished(self, results: Sequence[CellResult]) -> None:
        self.heard += results

    def ended(self, result: SweepResult) -> None:
        self.result = result

    def stage(self, what: str, busy: int) -> None:
        self.busiest = max(self.busiest, busy)


def test_a_cluster_that_is_not_there_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with (
        pytest.raises(SweepError, match=r"cannot be reached at 127\.0\.0\.1:1"),
        ray_session("127.0.0.1:1", workers=1, cpus=1),
    ):
        pass


def states(result: SweepResult) -> dict[str, set[str]]:
    states_of_kind: dict[str, set[str]] = {}
    for cell in result.results:
        states_of_kind.setdefault(str(cell.parameters.get("kind", "good")), set()).add(cell.state)
    return states_of_kind


@pytest.mark.usefixtures("cluster")
def test_every_way_to_fail_is_a_row_and_stops_nothing(tmp_path: Path) -> None:
    notebook = tmp_path / "notebook"
    notebook.mkdir()
    kinds = ["good", "raises", "dies", "dies-once"]
    space = toy_space(
        notebook,
        dimensions={"x": [0, 1], "kind": kinds},
        replicates={"seeds": 1},
    )
    watch = Watch()
    result = run_space(space, directory=tmp_path / "out", observers=[watch])
    assert states(result) == {"good": {"done"}, "raises": {"failed"}, "dies": {"lost"}, "dies-once": {"done"}}
    assert result.counts == {"done": 4, "failed": 2, "timed_out": 0, "lost": 2}
    assert not result.complete
    errors = {cell.parameters["kind"]: cell.error for cell in result.results if cell.error}
    assert "ArithmeticError: the toy is broken" in errors["raises"]
    assert re.match("its worker died with it, [35] times: ", errors["dies"])
    assert sorted(cell.cell_id for cell in watch.heard) == sorted(cell.cell_id for cell in result.results)
    assert watch.plan is not None
    assert watch.plan.total == 8
    assert pq.read_table(result.path).num_rows == 8
    runs = runs_in(notebook)
    # As often as the error says, and once more where a block had died with it before it was suspected alone.
    assert {runs[f"{x}-a-dies-None"] for x in range(2)} <= {3, 4, 5, 6}
    assert not (tmp_path / "out" / ".tune").exists()

    # The same call runs nothing; with retry_failed, what is not done and nothing else.
    again = run_space(space, directory=tmp_path / "out")
    assert again.ran == 0
    assert runs_in(notebook) == runs
    Path(f"{notebook}.mended").touch()
    mended = {**space, "dimensions": {"x": [0, 1], "kind": ["good", "raises"]}}
    retried = run_space(mended, directory=tmp_path / "out", retry_failed=True)
    assert retried.ran == 2
    assert retried.complete
    assert runs_in(notebook)["0-a-good-None"] == runs["0-a-good-None"]


@pytest.mark.usefixtures("cluster")
def test_a_cell_that_takes_all_memory_fails_alone(tmp_path: Path) -> None:
    dimensions = {"x": [0, 1, 2], "kind": {"grid": ["good", "hungry"], "when": {"x": [1]}}}
    space = toy_space(dimensions=dimensions, replicates={"seeds": 1}, resources={"memory": 0.5})
    result = run_space(space, directory=tmp_path / "out")
    assert result.counts == {"done": 3, "failed": 1, "timed_out": 0, "lost": 0}
    (failed,) = [cell for cell in result.results if cell.state == "failed"]
    assert failed.parameters["kind"] == "hungry"
    assert "MemoryError" in str(failed.error)
    # Its worker lived on.
    assert len({cell.worker for cell in result.results}) <= 2


@pytest.mark.usefixtures("cluster")
def test_a_cell_that_hangs_is_ended_and_the_others_are_done(tmp_path: Path) -> None:
    notebook = tmp_path / "notebook"
    notebook.mkdir()
    space = toy_space(
        notebook,
        dimensions={"x": [0, 1, 2, 3], "kind": ["good", "hangs"]},
        replicates={"seeds": 1},
        timeout=1.0,
    )
    space["dimensions"]["kind"] = {"grid": ["good", "hangs"], "when": {"x": [1]}}
    result = run_space(space, directory=tmp_path / "out")
    assert result.counts == {"done": 4, "failed": 0, "timed_out": 1, "lost": 0}
    (ended,) = [cell for cell in result.results if cell.state == "timed_out"]
    assert ended.parameters["kind"] == "hangs"
    assert 1.0 <= ended.seconds < 10
    assert max(runs_in(notebook).values()) == 1


@pytest.mark.usefixtures("cluster")
def test_results_do_not_depend_on_workers_or_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shuffled(places: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        values = list(places.values())
        random.Random(1).shuffle(values)
        return dict(zip(places, values, strict=True))

    space: dict[str, Any] = {
        "name": "same",
        "fixed": {"trace": "quickstart", "walltime": "noise", "noise": 0.5},
        "dimensions": {"order": ["fcfs", "sjf", "random"], "backfill": ["none", "easy"]},
        "replicates": {"windows": 4},
        "objective": "wait_mean",
    }
    watch = Watch()
    one = run_space(space, directory=tmp_path / "1", workers=1, stage=watch.stage)
    order = PlannedSpace.run_order
    monkeypatch.setattr(PlannedSpace, "run_order", lambda plan, cells: shuffled(order(plan, cells)))
    two = run_space(space, directory=tmp_path / "2", workers=2)
    assert watch.busiest == 1
    assert one.complete, one.results[0].error
    assert len({result.worker for result in one.results}) == 1
    assert content(pq.read_table(one.path)) == content(pq.read_table(two.path))
    assert len(set(one.table["metric.wait_mean"].to_pylist())) > 12


@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
def test_an_observer_that_fails_ends_the_sweep_and_loses_nothing(tmp_path: Path) -> None:
    class Faulty(Watch):
        def finished(self, results: Sequence[CellResult]) -> None:
            raise SweepError("the observer has a fault")

    space = toy_space(dimensions={"x": list(range(40))}, fixed={"nap": 0.02})
    with pytest.raises(SweepError, match="the observer has a fault"):
        run_space(space, directory=tmp_path / "out", observers=[Faulty()])
    finished = len(read_journal(tmp_path / "out" / "journal.jsonl"))
    assert finished > 0
    assert run_space(space, directory=tmp_path / "out").ran == 80 - finished


@pytest.mark.usefixtures("cluster")
def test_workers_report_where_they_ran_and_read_traces_from_the_store(tmp_path: Path) -> None:
    space = toy_space(workloads=({"trace": "quickstart"}, {"trace": "mm4"}), dimensions={"x": [1]})
    result = run_space(space, directory=tmp_path / "out")
    assert result.complete
    assert {cell.worker.partition(":")[0] for cell in result.results} == {socket.gethostname()}
    sizes = dict(
        zip(result.table["workload"].to_pylist(), result.table["metric.size"].to_pylist(), strict=True)
    )
    assert sizes["quickstart"] == 5000
    assert {name: len(log) for name, log in result.plan.workloads.items()} == sizes
