"""Figures of waste added up over days (the paper's figure 6), and of sequential submissions (figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gridtune.core.style import PALETTE, figure, group_thousands, head, save
from gridtune.systems.shutdown.report.policy_runs import GROUPS, PolicyRun
from gridtune.systems.shutdown.simulator.days import SEQUENTIAL_GAP
from gridtune.types import AnyArray

__all__ = ["plot_cumulative", "plot_groups"]


def plot_cumulative(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw cumulative waste by group of days, as a share of the largest sum.

    Groups of a single day are left out.
    """
    groups = runs[0].column("days", "group").astype(int)
    tests = np.array(["test" in PurePosixPath(name).parts for name in runs[0].column("days", "day")])
    present = [group for group in range(1, 6) if (groups == group).sum() > 1]
    if not present:
        return []
    columns = len(present) if len(present) < 3 else 2 if len(present) == 4 else 3
    rows = -(-len(present) // columns)
    size = 3.2 * columns + 1.4, 3.1 * rows + 0.5
    with figure(*size, rows, ncols=columns, squeeze=False, sharey=True) as (drawing, axes):
        for panel in axes.flat[len(present) :]:
            panel.set_visible(False)
        for panel, group in zip(axes.flat, present, strict=False):
            order = np.flatnonzero(groups == group)
            _add_up(panel, runs, order[np.argsort(tests[order], kind="stable")], tests)
            head(panel, f"group {group}", f"{GROUPS[group - 1]} % sequential")
        for panel in axes[:, 0]:
            panel.set_ylabel("cumulative waste, share of the largest")
        drawing.suptitle(f"Cumulative waste: {workload}", x=0.01, ha="left", fontweight="bold")
        drawing.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]


def _add_up(panel: Axes, runs: Sequence[PolicyRun], order: AnyArray, tests: AnyArray) -> None:
    """Draw each policy's cumulative waste over the days in this order, with a line before the test days."""
    sums = {run.label: np.cumsum(run.column("days", "energy_waste")[order]) for run in runs}
    largest = max(total[-1] for total in sums.values())
    days = np.arange(1, len(order) + 1)
    for run in runs:
        panel.plot(days, sums[run.label] / largest, label=run.title, color=run.colour)
    border = int((~tests[order]).sum())
    if 0 < border < len(order):
        panel.axvline(border, color="#666666", linestyle="--", linewidth=1)
    panel.set_xlabel("days" if not tests.any() or tests.all() else "days, training then test")
    panel.set_ylim(0, 1.03)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def plot_groups(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw sequential and other jobs by group of days, and how they ended (the paper: by year)."""
    run = runs[0]
    days = run.column("days", "group").astype(int)
    part, day = run.column("jobs", "part"), run.column("jobs", "day").astype(int)
    day_part = run.column("days", "part")
    first = np.searchsorted(day_part, part)
    group = days[first + day]
    gap = run.column("jobs", "gap").astype(float)
    killed = run.column("jobs", "run") >= run.column("jobs", "walltime")
    sequential = gap < SEQUENTIAL_GAP
    with figure(7.5, 4.2) as (drawing, panel):
        bottom = np.zeros(5)
        kinds = {
            "sequential, ended by itself": sequential & ~killed,
            "sequential, killed at its walltime": sequential & killed,
            "other, ended by itself": ~sequential & ~killed,
            "other, killed at its walltime": ~sequential & killed,
        }
        for (name, selected), colour in zip(kinds.items(), PALETTE, strict=False):
            counts = np.bincount(group[selected], minlength=6)[1:]
            panel.bar(range(1, 6), counts, bottom=bottom, color=colour, label=name, width=0.7)
            bottom += counts
        panel.set_xticks(range(1, 6), [f"{n}\n{share} %" for n, share in enumerate(GROUPS, start=1)])
        panel.set_xlabel("group of days, by share of sequential submissions")
        panel.set_ylabel("jobs")
        group_thousands(panel.yaxis)
        head(
            panel, f"Sequential submissions: {workload}", f"less than {SEQUENTIAL_GAP} minutes after another"
        )
        panel.legend()
        return [save(drawing, path)]
