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

#: The names that each module has.
_PUBLIC = {
    "gridtune.core.cells": ("Cell", "CellResult", "Replicate"),
    "gridtune.sweep.execution.observing": (
        "Progress",
        "SweepObserver",
        "SweepPlan",
        "SweepResult",
    ),
    "gridtune.sweep.execution.runner": ("CellRun", "run_cell"),
    "gridtune.sweep.journal.journal": ("Journal", "read_journal"),
    "gridtune.sweep.journal.results": ("TIMING_COLUMNS", "results_table"),
    "gridtune.sweep.run": ("default_directory", "run_space", "space_cells"),
    "gridtune.sweep.space.plan": ("PlannedSpace", "load_space", "plan_space"),
    "gridtune.sweep.space.schema": ("SearchSpace",),
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
    module = next((module for module, names in _PUBLIC.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'gridtune.sweep' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value
