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

#: The modules that have the public names, those that import least first.
_MODULES = (
    "gridtune.core.cells",
    "gridtune.sweep.journal.journal",
    "gridtune.sweep.space.schema",
    "gridtune.sweep.space.plan",
    "gridtune.sweep.execution.runner",
    "gridtune.sweep.execution.observing",
    "gridtune.sweep.journal.results",
    "gridtune.sweep.run",
)

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
    for module in map(importlib.import_module, _MODULES if name in __all__ else ()):
        if hasattr(module, name):
            globals()[name] = value = getattr(module, name)
            return value
    raise AttributeError(f"module 'gridtune.sweep' has no attribute {name!r}")
