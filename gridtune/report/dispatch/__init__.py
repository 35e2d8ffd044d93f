"""The dispatch system's own tables and figures: the paper's with ours beside, learning, calibration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridtune.report.extras import Material

__all__ = ["write"]


def write(material: Material) -> list[Path]:
    """Write the comparison with the paper, learning over batches, and how far chances can be trusted."""
    from gridtune.report.dispatch.figures import write_figures  # noqa: PLC0415
    from gridtune.report.dispatch.rows import gather  # noqa: PLC0415
    from gridtune.report.dispatch.tables import write_comparison  # noqa: PLC0415

    methods = gather(material.results)
    return [*write_comparison(methods, material), *write_figures(methods, material)]
