"""All files of a report: the comparison with the paper, and the figures of each workload."""

from __future__ import annotations

from pathlib import Path

from gridtune.core.system import FinishedSweep
from gridtune.systems.shutdown.report.comparison import write_comparison
from gridtune.systems.shutdown.report.delays import plot_delayed_runs, plot_slowdown
from gridtune.systems.shutdown.report.nodes import plot_nodes, plot_reservations
from gridtune.systems.shutdown.report.policy_runs import policy_runs, shown_runs
from gridtune.systems.shutdown.report.waste import plot_cumulative, plot_groups

__all__ = ["write_report"]

#: Figures of a workload: the end of the file's name, and what draws it.
_FIGURES = {
    "cumulative_waste": plot_cumulative,
    "sequential": plot_groups,
    "reservations": plot_reservations,
    "slowdown": plot_slowdown,
    "delayed_runs": plot_delayed_runs,
    "nodes": plot_nodes,
}


def write_report(sweep: FinishedSweep) -> list[Path]:
    """Write the comparison with the paper and, for each workload, the figures of its policies."""
    by_workload = policy_runs(sweep)
    if not by_workload:
        return []
    files = write_comparison(by_workload, sweep.directory)
    for number, (workload, runs) in enumerate(by_workload.items(), start=1):
        for name, draw in _FIGURES.items():
            path = sweep.directory / "plots" / f"shutdown_{number}_{name}.png"
            files += draw(shown_runs(runs), workload, path)
    return files
