"""Sweeps on clusters of several real nodes, which join, die, differ, or cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from benchmarks.ray_nodes import Nodes, own_nodes
from gridtune.study.status import sweep_status
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.journal.results import TIMING_COLUMNS
from gridtune.sweep.run import run_space
from tests.integration.processes import wait_for
from tests.sweep.spaces import runs_in, toy_space

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

#: Enough for blocks of two seconds on three workers.
CELLS = 120


class Sweep:
    """`gridtune sweep` as a process, on a cluster."""

    def __init__(self, nodes: Nodes, folder: Path, *, inside: Sequence[str] = (), **changes: object) -> None:
        self.inside = inside
        self.out, self.gate, notebook = folder / "out", folder / "gate", folder / "notebook"
        notebook.mkdir()
        # Slow enough for a report before the first cell that waits at the gate.
        fixed = {"nap": 0.1, "notebook": str(notebook), "gate": str(self.gate), **changes.pop("fixed", {})}  # type: ignore[dict-item]
        dimensions = {"x": list(range(CELLS))}
        self.space = toy_space(
            fixed=fixed, **{"dimensions": dimensions, "replicates": {"seeds": 1}, **changes}
        )
        self.notebook = notebook
        self.path = folder / "toys.yaml"
        self.path.write_text(yaml.safe_dump(self.space))
        self.start(nodes)

    def start(self, nodes: Nodes) -> None:
        """Run the command."""
        command = [sys.executable, "-m", "gridtune", "sweep", str(self.path), "--out", str(self.out)]
        self.process = subprocess.Popen(
            [*self.inside, *command, "--no-tracking", "--json", "--address", nodes.address],
            env=nodes.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, what: str, done: Callable[[], bool]) -> None:
        """Wait for something while the command runs; fail at once if it has ended before."""

        def done_before_end() -> bool:
            if self.process.poll() is not None and not done():
                pytest.fail(f"waiting for {what}: the command ended\n{self.process.communicate()[1]}")
            return done()

        wait_for(what, done_before_end)

    def busy(self) -> int:
        """Return how many workers run cells, as `gridtune status` says it."""
        try:
            return int(json.loads((self.out / "status.json").read_text())["busy"])
        except (OSError, ValueError):
            return 0

    def done(self) -> int:
        return len(read_journal(self.out / "journal.jsonl"))

    def finish(self) -> dict[str, int]:
        """Open the gate; wait for the end, and check that the table is that of an undisturbed run."""
        self.gate.touch()
        output, errors = self.process.communicate(timeout=900)
        assert self.process.returncode == 0, errors
        self.runs = runs_in(self.notebook)
        undisturbed = run_space(self.path, directory=self.out.parent / "undisturbed", executor="inline")
        timings = list(TIMING_COLUMNS)
        rows = pq.read_table(self.out / "results.parquet").drop_columns(timings).to_pylist()
        assert list(map(repr, rows)) == list(map(repr, undisturbed.table.drop_columns(timings).to_pylist()))
        report: dict[str, int] = json.loads(output)
        return report

    def workers(self) -> set[str]:
        """Return the workers that have results."""
        return {result.worker for result in read_journal(self.out / "journal.jsonl").values()}


def test_nodes_that_join_are_used_and_one_that_dies_loses_nothing(tmp_path: Path) -> None:
    with own_nodes() as nodes:
        nodes.add(1)
        sweep = Sweep(nodes, tmp_path)
        sweep.wait_for("the first cells", lambda: sweep.done() >= 5)
        second = nodes.add(1, ready=False)
        nodes.add(1)
        # Cells wait at the gate on all three, so each has a worker.
        sweep.wait_for("workers on the new nodes", lambda: sweep.busy() == 3)
        nodes.kill(second)
        report = sweep.finish()
        assert report["done"] == CELLS
        # What ran on the node that died ran once more, and nothing else but the report's best.
        again = {name for name, count in sweep.runs.items() if count > 1}
        assert len(again) <= 25


def test_a_node_whose_workers_cannot_be_made_ready_fails_no_cell(tmp_path: Path) -> None:
    with own_nodes() as nodes:
        nodes.add(1)
        nodes.add(1, TOY_UNFIT="1")
        sweep = Sweep(nodes, tmp_path)
        report = sweep.finish()
        assert report["done"] == CELLS
        assert len(sweep.workers()) == 1


def test_a_head_that_dies_ends_the_driver_and_the_same_command_goes_on(tmp_path: Path) -> None:
    with own_nodes() as nodes:
        head = nodes.add(1)
        # A head that is gone ends its drivers after a minute, otherwise.
        nodes.environment["RAY_gcs_rpc_server_reconnect_timeout_s"] = "10"
        sweep = Sweep(nodes, tmp_path)
        sweep.wait_for("the first cells", lambda: sweep.done() >= 5)
        kept = sweep.done()
        nodes.end(head)
        sweep.process.wait(600)
        status = sweep_status(sweep.out)
        assert status.state in {"died", "stopped"}
        assert sweep.done() >= kept
        nodes.add(1)
        sweep.start(nodes)
        assert sweep.finish()["done"] == CELLS
