"""The provisioning system's own tables and figures: those of the paper, beside its published figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gridtune.systems.provisioning.report.figures import write_fronts, write_submissions
from gridtune.systems.provisioning.report.tables import Row, write_comparison

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["write"]


def write(sweep: FinishedSweep) -> list[Path]:
    """Write a table always, and each figure for whose axes the sweep has dimensions."""
    rows = Row.of(sweep.results)
    if not rows:
        return []
    return [*write_comparison(sweep, rows), *write_submissions(sweep, rows), *write_fronts(sweep, rows)]
