"""The provisioning system's own tables and figures: the paper's, with ours and its figures beside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridtune.report.extras import Material

__all__ = ["write"]


def write(material: Material) -> list[Path]:
    """Write what the sweep's dimensions give: a table always, and each figure whose axes were searched."""
    from gridtune.report.provisioning.comparison import write_comparison  # noqa: PLC0415
    from gridtune.report.provisioning.fronts import write_fronts  # noqa: PLC0415
    from gridtune.report.provisioning.rows import rows_of  # noqa: PLC0415
    from gridtune.report.provisioning.submissions import write_submissions  # noqa: PLC0415

    rows = rows_of(material.results)
    if not rows:
        return []
    return [
        *write_comparison(material, rows),
        *write_submissions(material, rows),
        *write_fronts(material, rows),
    ]
