"""A sweep on three nodes of `ray.cluster_utils`: what is there once for each node, and what fails alone."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from gridtune.workload import read_workload
from gridtune.workload.files import write_workload
from gridtune.workload.workload import Workload
from tests.conftest import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

PLUGIN = ROOT / "tests" / "sweep" / "toy_nodes.py"
JOBS, CELLS, HUNGRY = 200_000, 60, 59


@pytest.fixture(scope="module")
def seen() -> Iterator[dict[str, Any]]:
    """What the sweep saw; Ray's sockets need a shorter folder than pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="gt-"))
    try:
        numbers = np.arange(JOBS, dtype=np.int64)
        ones = np.ones(JOBS, dtype=np.int64)
        times = {"submit_time": numbers, "run_time": ones, "requested_time": ones}
        write_workload(Workload({**times, "allocated_processors": ones}), folder / "log.parquet")
        columns = read_workload(folder / "log.parquet").columns
        space = {
            "name": "nodes",
            "system": "toy-nodes",
            "plugins": [str(PLUGIN)],
            "fixed": {"trace": str(folder / "log.parquet"), "hungry": HUNGRY},
            "dimensions": {"x": list(range(CELLS))},
            "objective": "cost",
            "resources": {"executor": "ray", "memory": 0.25},
        }
        (folder / "nodes.yaml").write_text(yaml.safe_dump(space))
        variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
        variables |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "600"}
        command = [sys.executable, "-m", "tests.integration.three_nodes", folder, folder / "nodes.yaml"]
        done = subprocess.run(
            [*map(str, command)],
            env=variables,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        yield {**found, "bytes": sum(column.nbytes for column in columns.values())}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_all_nodes_work_also_one_whose_cache_cannot_be_written(seen: dict[str, Any]) -> None:
    done = [row for row in seen["rows"] if row["state"] == "done"]
    assert {row["x"] for row in done} == set(range(CELLS)) - {HUNGRY}
    workers = {(row["node"], row["worker"]) for row in done}
    assert {node for node, _ in workers} == {0.0, 1.0, 2.0}
    assert len(workers) == 6


def test_kernels_are_compiled_once_on_each_node(seen: dict[str, Any]) -> None:
    compiled = {
        (row["node"], row["worker"]): row["compiled"] for row in seen["rows"] if row["state"] == "done"
    }
    for node in (0.0, 1.0, 2.0):
        counts = sorted(count for (where, _), count in compiled.items() if where == node)
        assert counts == [0.0, 1.0]


def test_a_log_is_once_on_each_node_and_workers_have_no_copy(seen: dict[str, Any]) -> None:
    assert len(seen["stores"]) == 3
    for used in seen["stores"]:
        assert 0.9 * seen["bytes"] < used < 1.8 * seen["bytes"]
    assert {row["copied"] for row in seen["rows"] if row["state"] == "done"} == {0.0}


def test_a_cell_that_takes_too_much_memory_fails_alone(seen: dict[str, Any]) -> None:
    (failed,) = [row for row in seen["rows"] if row["state"] != "done"]
    assert (failed["state"], failed["x"]) == ("failed", HUNGRY)
    assert "MemoryError" in failed["error"]


def test_a_cells_helpers_are_in_its_placement_group(seen: dict[str, Any]) -> None:
    assert [(row["state"], row["error"]) for row in seen["helped"]] == [("done", None)] * 4
    assert [row["apart"] for row in seen["helped"]] == [0.0] * 4
