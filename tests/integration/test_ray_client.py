"""Sweeps over Ray Client: the driver and its journal are here, and the workers on a cluster that is not."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from benchmarks.ray_nodes import Nodes, own_nodes
from gridtune.sweep.execution.cluster import RAY_ENVIRONMENT
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.run import run_space
from tests.integration.processes import wait_for
from tests.sweep.spaces import content, runs_in, toy_space

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


#: What nodes keep of the variables that gridtune starts Ray with: time to start, and no statistics.
KEPT = {
    "RAY_raylet_start_wait_time_s",
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S",
    "RAY_USAGE_STATS_ENABLED",
}


@contextlib.contextmanager
def usual_nodes() -> Iterator[Nodes]:
    """Give a cluster whose nodes are started as the documentation says, with Ray's own settings."""
    with own_nodes() as nodes:
        for name in RAY_ENVIRONMENT.keys() - KEPT:
            nodes.environment.pop(name, None)
        # Ray's proxy forks while its other threads are in gRPC, whose handlers then break the child.
        nodes.environment["GRPC_ENABLE_FORK_SUPPORT"] = "0"
        nodes.environment.pop("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", None)
        yield nodes


def is_listening(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=10):
        return True
    return False


def start(nodes: Nodes, space: object, folder: Path) -> subprocess.Popen[str]:
    """Run `gridtune sweep` on the cluster as a machine does that is no node of it."""
    host, _, port = nodes.client.removeprefix("ray://").partition(":")
    wait_for("Ray Client's server", lambda: is_listening(host, int(port)))
    path = folder / "toys.yaml"
    path.write_text(yaml.safe_dump(space))
    command = [
        sys.executable,
        "-m",
        "gridtune",
        "sweep",
        path,
        "--out",
        folder / "out",
        "--no-tracking",
        "--json",
    ]
    return subprocess.Popen(
        [*map(str, command), "--address", nodes.client],
        env={**nodes.environment, "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("strategy", [{}, {"strategy": {"optuna": {"trials": 4, "seed": 3, "parallel": 2}}}])
def test_the_results_are_those_of_a_sweep_here(strategy: dict[str, object], tmp_path: Path) -> None:
    notebook = tmp_path / "notebook"
    notebook.mkdir()
    dimensions = {"x": [1, 2, 3, 4], "kind": ["good", "dies-once"]}
    fixed = {"notebook": str(notebook), "trace": "quickstart"}
    space = toy_space(dimensions=dimensions, replicates={"seeds": 2}, fixed=fixed, **strategy)
    with usual_nodes() as nodes:
        nodes.add(1)
        nodes.add(1)
        driver = start(nodes, space, tmp_path)
        output, errors = driver.communicate(timeout=900)
        assert driver.returncode == 0, errors
        report = json.loads(output)
    cells = report["cells"]
    assert report["done"] == cells
    table = pq.read_table(tmp_path / "out" / "results.parquet")
    # Workers died.
    assert all(count > 2 for page, count in runs_in(notebook).items() if "dies" in page)
    inline = run_space(tmp_path / "toys.yaml", directory=tmp_path / "inline", executor="inline")
    assert content(table) == content(inline.table)


def test_a_cluster_that_goes_away_ends_the_driver_with_the_reason(tmp_path: Path) -> None:
    notebook, gate = tmp_path / "notebook", tmp_path / "gate"
    notebook.mkdir()
    fixed = {"notebook": str(notebook), "gate": str(gate), "nap": 0.1}
    space = toy_space(dimensions={"x": list(range(40))}, replicates={"seeds": 1}, fixed=fixed)
    out = tmp_path / "out"
    with usual_nodes() as nodes:
        head = nodes.add(1)
        driver = start(nodes, space, tmp_path)
        wait_for("the first results", lambda: len(read_journal(out / "journal.jsonl")) >= 3)
        nodes.end(head)
        _, errors = driver.communicate(timeout=900)
    assert driver.returncode == 2, errors
    assert "connection" in errors
    assert "the same command goes on" in errors
    gate.touch()
    rest = run_space(tmp_path / "toys.yaml", directory=out, executor="inline")
    assert rest.complete
    assert rest.ran < 40
