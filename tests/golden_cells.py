"""A fixed set of cells of every system, with the ids and results they are known to have.

`python -m tests.golden_cells` writes the file again: only after raising the `version` of each system whose
results changed. `python -m tests.golden_cells SPACE…` writes the cells of these spaces alone.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.run import space_cells
from gridtune.sweep.space.plan import load_space

SPACES = Path(__file__).resolve().parents[1] / "search_spaces"
FILE = Path(__file__).with_name("golden_cells.json")
#: What keeps a cell short: fewer jobs, days, tasks or updates.
SHORT: dict[str, dict[str, Any]] = {
    "batch": {"first": 400},
    "dispatch": {"learning_jobs": 150, "batches": 2, "batch_jobs": 100},
    "gangs": {"drawn_jobs": 400},
    "placement": {"drawn_nodes": 40},
    "provisioning": {"tasks": 20},
    "responsive": {"first": 400},
    "responsive/esnq": {"first": 400, "iterations": 1},
    "shutdown": {"first": 12},
    "shutdown/ppo": {"first": 20, "iterations": 1, "environments": 2, "steps": 48},
}
#: Cells of each space, spread over all of them.
CELLS = 6


def short_cells(path: Path) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yield system, parameters and seed of some of a space's cells, made short."""
    space = load_space(path)
    cells = space_cells(space)
    for cell in cells[:: max(1, len(cells) // CELLS)][:CELLS]:
        short = SHORT[space.system]
        if space.system == "provisioning" and cell.parameters.get("offers") != "poisson":
            short = {**short, "first": 200}
        if cell.parameters.get("workflow") is not None:
            short = {"first": 200}
        if cell.parameters.get("change_after") is not None:
            short = {**short, "change_after": 1}
        if space.system == "dispatch" and cell.parameters.get("trace") is not None:
            short = {"first": 300}
        given = {name: value for name, value in cell.parameters.items() if value is not None}
        yield space.system, {**given, **short}, cell.seed


def space_digest(path: Path) -> dict[str, Any]:
    """Return how many cells a space has, and a digest of their ids."""
    ids = [cell.cell_id for cell in space_cells(path)]
    return {"cells": len(ids), "ids": hashlib.sha256("\n".join(ids).encode()).hexdigest()}


def write(*names: str) -> None:
    """Compute the cells of these spaces, by default of all, and write the file."""
    stored = json.loads(FILE.read_text(encoding="utf-8")) if names else {"spaces": {}, "cells": []}
    spaces: dict[str, Any] = {**stored["spaces"]}
    cells: list[dict[str, Any]] = [cell for cell in stored["cells"] if cell["space"] not in names]
    for path in [SPACES / f"{name}.yaml" for name in names] or sorted(SPACES.glob("*.yaml")):
        spaces[path.stem] = space_digest(path)
        for system, parameters, seed in short_cells(path):
            started = time.perf_counter()
            try:
                run = run_cell(system, parameters, seed=seed)
            except Exception as error:
                print(f"left out: {path.stem} {parameters}: {error}")
                continue
            metrics = {name: float(value) for name, value in run.outcome.metrics.items()}
            seconds = time.perf_counter() - started
            print(path.stem, f"{seconds:.1f} s", run.cell.cell_id, flush=True)
            cells.append(
                {
                    "space": path.stem,
                    "system": system,
                    "parameters": parameters,
                    "seed": seed,
                    "cell_id": run.cell.cell_id,
                    "configuration_id": run.cell.configuration_id,
                    "metrics": metrics,
                }
            )
    cells.sort(key=lambda cell: str(cell["space"]))
    content = {"spaces": dict(sorted(spaces.items())), "cells": cells}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(*sys.argv[1:])
