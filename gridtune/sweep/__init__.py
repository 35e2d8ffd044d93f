"""Sweeps: search spaces, cells and their journal, and running them on Ray.

Names are loaded when first used; neither Ray nor a system is imported before a sweep needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gridtune.core.cells import Cell, CellResult, Replicate
    from gridtune.sweep.execution.observing import (
        Progress,
        SweepObserver,
        SweepPlan,
        SweepResult,
    )
    from gridtune.sweep.execution.runner import CellRun, run_cell
    from gridtune.sweep.journal.journal import Journal, read_journal
    from gridtune.sweep.journal.results import TIMING_COLUMNS, results_table
    from gridtune.sweep.run import default_directory, run_space, space_cells
    from gridtune.sweep.space.plan import PlannedSpace, load_space, plan_space
    from gridtune.sweep.space.schema import SearchSpace

_PUBLIC = {
    "TIMING_COLUMNS": "gridtune.sweep.journal.results",
    "Cell": "gridtune.core.cells",
    "CellResult": "gridtune.core.cells",
    "CellRun": "gridtune.sweep.execution.runner",
    "Journal": "gridtune.sweep.journal.journal",
    "PlannedSpace": "gridtune.sweep.space.plan",
    "Progress": "gridtune.sweep.execution.observing",
    "Replicate": "gridtune.core.cells",
    "SearchSpace": "gridtune.sweep.space.schema",
    "SweepObserver": "gridtune.sweep.execution.observing",
    "SweepPlan": "gridtune.sweep.execution.observing",
    "SweepResult": "gridtune.sweep.execution.observing",
    "default_directory": "gridtune.sweep.run",
    "load_space": "gridtune.sweep.space.plan",
    "plan_space": "gridtune.sweep.space.plan",
    "read_journal": "gridtune.sweep.journal.journal",
    "results_table": "gridtune.sweep.journal.results",
    "run_cell": "gridtune.sweep.execution.runner",
    "run_space": "gridtune.sweep.run",
    "space_cells": "gridtune.sweep.run",
}

__all__ = [
    "TIMING_COLUMNS",
    "Cell",
    "CellResult",
    "CellRun",
    "Journal",
    "PlannedSpace",
    "Progress",
    "Replicate",
    "SearchSpace",
    "SweepObserver",
    "SweepPlan",
    "SweepResult",
    "default_directory",
    "load_space",
    "plan_space",
    "read_journal",
    "results_table",
    "run_cell",
    "run_space",
    "space_cells",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'gridtune.sweep' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value
