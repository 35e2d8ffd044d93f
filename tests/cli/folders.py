"""Folders of sweeps that have been run, made in this process without Ray."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridtune.report.facts import SweepFacts
from gridtune.sweep.execution.observing import SweepPlan
from gridtune.sweep.execution.runner import run_one
from gridtune.sweep.journal.journal import Journal
from gridtune.sweep.journal.results import results_table, write_table
from gridtune.sweep.space.plan import plan_space


def finished_sweep(folder: Path, space: Mapping[str, Any] | Path) -> Path:
    """Run a space's cells here, and leave the folder as a finished sweep does."""
    planned = plan_space(space)
    cells = planned.cells()
    results = [run_one(cell, planned.system, planned.workloads.load) for cell in cells]
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(results)
    loaded = planned.workloads.loaded
    plan = SweepPlan(planned.space, folder, planned.directions, len(results), results, loaded)
    SweepFacts.of(plan).write(folder)
    write_table(results_table(results), folder / "results.parquet")
    return folder


def quickstart(**changes: Any) -> dict[str, Any]:
    """Return a small search space of the batch system."""
    space: dict[str, Any] = {
        "name": "small",
        "fixed": {"trace": "quickstart"},
        "dimensions": {"order": ["fcfs", "sjf", "saf"], "backfill": ["none", "easy"]},
        "replicates": {"windows": 10},
        "objective": "bounded_slowdown_mean",
        "baseline": {"order": "fcfs"},
    }
    return {key: value for key, value in {**space, **changes}.items() if value is not None}
