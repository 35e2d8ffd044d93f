"""Every bundled search space loads, and its smallest cell runs here or as a golden cell."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from gridtune.core.cells import Cell, canonical_json
from gridtune.core.system import get_system
from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.run import space_cells
from gridtune.sweep.space.plan import load_space
from gridtune.sweep.space.schema import SearchSpace
from gridtune.workload.catalogue import CATALOGUE
from tests.golden_cells import FILE

SPACES = sorted((Path(__file__).resolve().parents[2] / "search_spaces").glob("*.yaml"))
#: Spaces of which `tests/test_golden_cells.py` runs cells, the first one among them.
GOLDEN = {cell["space"] for cell in json.loads(FILE.read_text(encoding="utf-8"))["cells"]}


#: What makes a system's cells small beside the few jobs or days.
SHORTER: dict[str, dict[str, object]] = {
    "responsive/esnq": {"iterations": 1},
    "shutdown/ppo": {"first": 20, "iterations": 1, "environments": 2, "steps": 48},
}


@cache
def planned(path: Path) -> tuple[SearchSpace, tuple[Cell, ...]]:
    """Return a space and its cells."""
    space = load_space(path)
    return space, tuple(space_cells(space))


@pytest.fixture(autouse=True)
def real_traces_if_needed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let catalogued logs be found in the folder of real traces."""
    if "path" not in request.fixturenames:
        return
    path = request.getfixturevalue("path")
    if any(name in path.read_text() for name in CATALOGUE):
        monkeypatch.setenv("GRIDTUNE_TRACE_DIR", str(request.getfixturevalue("trace_dir")))


def test_there_are_spaces() -> None:
    names = {path.stem for path in SPACES}
    assert {"quickstart", "backfilling", "queue_orders", "walltime_noise", "load"} <= names


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_it_loads(path: Path) -> None:
    space, cells = planned(path)
    assert space.name == path.stem
    assert space.description
    assert space.baseline
    assert len({cell.cell_id for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    "path", [path for path in SPACES if path.stem not in GOLDEN], ids=lambda path: path.stem
)
def test_its_smallest_cell_runs(path: Path) -> None:
    space, cells = planned(path)
    has_log = (
        "first" in get_system(space.system).Parameters.model_fields
        and cells[0].parameters.get("offers") != "poisson"
    )
    log = {"first": 200} if has_log else {}
    shorter = {**cells[0].parameters, **log, **SHORTER.get(space.system, {})}
    run = run_cell(space.system, shorter, seed=cells[0].seed)
    assert any(run.outcome.metrics.get(name, 0) > 0 for name in ("jobs", "tasks", "iterations", "pods"))
    assert math.isfinite(run.outcome.metrics[space.objective[0].metric])


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_every_configuration_compares_with_the_baseline(path: Path) -> None:
    space, cells = planned(path)
    configurations = {key(cell.configuration): cell.configuration for cell in cells}
    applies = {name for name, value in space.baseline.items() if value is not None}
    missing = [
        configuration
        for configuration in configurations.values()
        # What has no such dimension, as one queue for all has no learner, is compared with nothing.
        if applies <= configuration.keys() and key({**configuration, **space.baseline}) not in configurations
    ]
    assert not missing


def key(configuration: Mapping[str, object]) -> frozenset[tuple[str, object]]:
    return frozenset(
        (name, canonical_json(value) if isinstance(value, list | dict) else value)
        for name, value in configuration.items()
        if value is not None
    )


@pytest.mark.parametrize(
    "path", [path for path in SPACES if path.stem == "queue_orders"], ids=["queue_orders"]
)
def test_the_main_job_has_420_cells(path: Path) -> None:
    assert len(planned(path)[1]) == 420
