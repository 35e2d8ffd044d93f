"""The dispatch system's own tables and figures: the paper's with ours beside, learning, calibration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["write"]


def write(sweep: FinishedSweep) -> list[Path]:
    """Write the comparison with the paper, learning over batches, and how far chances can be trusted."""
    from gridtune.systems.dispatch.report.figures import write_figures  # noqa: PLC0415
    from gridtune.systems.dispatch.report.rows import gather  # noqa: PLC0415
    from gridtune.systems.dispatch.report.tables import write_comparison  # noqa: PLC0415

    methods = gather(sweep.results)
    return [*write_comparison(methods, sweep), *write_figures(methods, sweep)]
