"""The dispatch system's own tables and figures: the paper's with ours beside, learning, calibration."""

from __future__ import annotations

from pathlib import Path

from gridtune.core.system import FinishedSweep
from gridtune.systems.dispatch.report.figures import write_figures
from gridtune.systems.dispatch.report.tables import gather, write_comparison

__all__ = ["write"]


def write(sweep: FinishedSweep) -> list[Path]:
    """Write the comparison with the paper, and figures of learning, recovery and calibration."""
    methods = gather(sweep.results)
    return [*write_comparison(methods, sweep), *write_figures(methods, sweep)]
