"""The provisioning system's own tables and figures: the paper's, with ours and its figures beside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["write"]


def write(sweep: FinishedSweep) -> list[Path]:
    """Write what the sweep's dimensions give: a table always, and each figure whose axes were searched."""
    from gridtune.systems.provisioning.report.comparison import write_comparison  # noqa: PLC0415
    from gridtune.systems.provisioning.report.fronts import write_fronts  # noqa: PLC0415
    from gridtune.systems.provisioning.report.rows import rows_of  # noqa: PLC0415
    from gridtune.systems.provisioning.report.submissions import write_submissions  # noqa: PLC0415

    rows = rows_of(sweep.results)
    if not rows:
        return []
    return [
        *write_comparison(sweep, rows),
        *write_submissions(sweep, rows),
        *write_fronts(sweep, rows),
    ]
