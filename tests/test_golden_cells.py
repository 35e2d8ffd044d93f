"""The same cells have the same ids and the same results as ever.

If a result changed on purpose, raise the `version` of its system and write the file again
(`python -m tests.golden_cells`).
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from gridtune.core.system import System, get_system
from gridtune.sweep.execution.runner import run_cell
from gridtune.workload.catalogue import CATALOGUE
from tests.extras import AGENTS
from tests.golden_cells import FILE, SPACES, space_digest

GOLDEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
#: Policies and systems that need the extra `agents`.
NEEDS_AGENTS = ("ppo", "ffnn", "shutdown/ppo", "responsive/esnq")


#: Cells that take many seconds: the start of their ids.
SLOW = ("0a85dc", "74e942", "7aa4fc", "7d9e1a", "82fcc7", "89ee4f", "b82b88", "d8b96c")
CELLS = [
    pytest.param(
        cell,
        id=f"{cell['system']}-{cell['space']}-{cell['cell_id'][:6]}",
        marks=[pytest.mark.slow] if cell["cell_id"].startswith(SLOW) else [],
    )
    for cell in GOLDEN["cells"]
]


@pytest.fixture
def traces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let catalogued logs be found, for what needs them."""

    def find(text: str) -> None:
        if any(name in text for name in CATALOGUE):
            monkeypatch.setenv("GRIDTUNE_TRACE_DIR", str(request.getfixturevalue("trace_dir")))

    return find


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))


def changed(system: System) -> str:
    """Return what to do when a result is another."""
    return (
        f"the results of the system {system.name!r} have changed. If they should have, raise its `version`, "
        f"now {system.version!r}, so that users' journals do not mix them with older ones; then write the "
        "file again: python -m tests.golden_cells"
    )


@pytest.mark.parametrize("name", sorted(GOLDEN["spaces"]))
def test_the_cells_of_a_space_keep_their_ids(name: str, traces: Any) -> None:
    path = SPACES / f"{name}.yaml"
    traces(path.read_text(encoding="utf-8"))
    assert space_digest(path) == GOLDEN["spaces"][name]


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_keeps_its_id_and_its_result(cell: dict[str, Any], traces: Any) -> None:
    text = json.dumps([cell["system"], cell["parameters"]])
    if not AGENTS and any(word in text for word in NEEDS_AGENTS):
        pytest.skip("needs the extra agents")
    traces(text)
    system = get_system(cell["system"])
    names = system.Parameters.renamed_parameters
    parameters = {names.get(name, name): value for name, value in cell["parameters"].items()}
    run = run_cell(cell["system"], parameters, seed=cell["seed"])
    assert (run.cell.cell_id, run.cell.configuration_id) == (cell["cell_id"], cell["configuration_id"])
    results = dict(run.outcome.metrics)
    expected = cell["metrics"]
    # A metric that is added later renames no cell and has no golden value.
    assert set(expected) <= set(results), changed(system)
    differing = {
        name: (value, results[name]) for name, value in expected.items() if not same(value, results[name])
    }
    assert not differing, changed(system)
