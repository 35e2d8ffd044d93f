"""Tables and figures that only one system has, written beside the ranking of every sweep of that system.

A system's module of the same name in this folder has a function `write(material) -> list of Path`. It takes
what it needs from the results, and makes nothing of a sweep that does not have it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import pyarrow as pa

from gridtune.errors import GridtuneError
from gridtune.sweep.runner import run_cell
from gridtune.sweep.workloads import Workloads

if TYPE_CHECKING:
    from gridtune.report.summary import Summary
    from gridtune.sweep.cells import CellResult

__all__ = ["Material", "write_extras"]


@dataclass(frozen=True)
class Material:
    """What a system's own tables and figures are made of.

    Attributes
    ----------
    summary
        The rankings, with the facts of the sweep.
    table
        One row per cell: `workload`, `configuration_id`, `replicate`, `state`, `param.*`, `metric.*`.
    results
        The same as results, with their notes.
    directory
        Where files go: the sweep's folder; figures into its `plots/`.
    """

    summary: Summary
    table: pa.Table
    results: Sequence[CellResult]
    directory: Path
    _workloads: Workloads = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        base = self.summary.facts.base
        object.__setattr__(self, "_workloads", Workloads(None if base is None else Path(base)))

    def tables_of(self, result: CellResult) -> Mapping[str, pa.Table]:
        """Run a cell again and return the tables its system makes of it (`Outcome.tables`).

        Raises
        ------
        GridtuneError
            If the cell cannot be run any more: its trace has moved, say.
        """
        run = run_cell(
            self.summary.facts.system,
            result.parameters,
            seed=result.seed,
            tables=True,
            workloads=self._workloads,
        )
        return run.outcome.tables


class _Writer(Protocol):
    write: Callable[[Material], list[Path]]


def write_extras(material: Material) -> list[Path]:
    """Write what the sweep's system has of its own.

    Returns
    -------
    list of Path
        Empty for a system that has nothing, and where a trace is no longer to be found: the results stand
        without it.
    """
    name = f"{__package__}.{material.summary.facts.system}"
    if importlib.util.find_spec(name) is None:
        return []
    try:
        return cast("_Writer", importlib.import_module(name)).write(material)
    except GridtuneError:
        return []
