"""The responsive system's own tables and figures: the papers' tables with ours beside, and their curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["write"]


def write(sweep: FinishedSweep) -> list[Path]:
    """Write the comparison with the papers, and the curves of one life under each policy."""
    from gridtune.systems.responsive.report.comparison import write_comparison  # noqa: PLC0415
    from gridtune.systems.responsive.report.curves import write_curves  # noqa: PLC0415
    from gridtune.systems.responsive.report.trade_offs import write_trade_offs  # noqa: PLC0415

    return [*write_comparison(sweep), *write_trade_offs(sweep), *write_curves(sweep)]
