"""The responsive system's own tables and figures: the papers' tables with ours beside, and their curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridtune.report.extras import Material

__all__ = ["write"]


def write(material: Material) -> list[Path]:
    """Write the comparison with the papers, and the curves of one life under each policy."""
    from gridtune.report.responsive.comparison import write_comparison  # noqa: PLC0415
    from gridtune.report.responsive.curves import write_curves  # noqa: PLC0415
    from gridtune.report.responsive.trade_offs import write_trade_offs  # noqa: PLC0415

    return [*write_comparison(material), *write_trade_offs(material), *write_curves(material)]
