"""The shutdown system's own tables and figures: the paper's with ours beside, and what policies do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["write"]


def write(sweep: FinishedSweep) -> list[Path]:
    """Write the comparison with the paper and, for each workload, the figures of its policies."""
    from gridtune.systems.shutdown.report.comparison import write_comparison  # noqa: PLC0415
    from gridtune.systems.shutdown.report.delays import plot_delayed_runs, plot_slowdown  # noqa: PLC0415
    from gridtune.systems.shutdown.report.lives import drawn, lives_of  # noqa: PLC0415
    from gridtune.systems.shutdown.report.nodes import plot_nodes, plot_reservations  # noqa: PLC0415
    from gridtune.systems.shutdown.report.waste import plot_cumulative, plot_groups  # noqa: PLC0415

    by_workload = lives_of(sweep)
    if not by_workload:
        return []
    files = write_comparison(by_workload, sweep.directory)
    figures = {
        "cumulative_waste": plot_cumulative,
        "sequential": plot_groups,
        "reservations": plot_reservations,
        "slowdown": plot_slowdown,
        "delayed_runs": plot_delayed_runs,
        "nodes": plot_nodes,
    }
    for number, (workload, lives) in enumerate(by_workload.items(), start=1):
        stem = sweep.directory / "plots" / f"shutdown_{number}"
        for name, draw in figures.items():
            files += draw(drawn(lives), workload, stem.with_name(f"{stem.name}_{name}.png"))
    return files
