"""`ReportMaterial`: what a system's own tables and figures are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.space.plan import Workloads

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult
    from gridtune.report.summary import Summary

__all__ = ["ReportMaterial"]


@dataclass(frozen=True)
class ReportMaterial:
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

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.summary.facts.name

    @property
    def ranks(self) -> dict[str, float]:
        """Rank by the first objective of each configuration, by its id; infinity where it has none."""
        for ranking in self.summary.rankings.values():
            rows = ranking.select(["configuration_id", "rank"]).to_pylist()
            return {row["configuration_id"]: math.inf if row["rank"] is None else row["rank"] for row in rows}
        return {}

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
