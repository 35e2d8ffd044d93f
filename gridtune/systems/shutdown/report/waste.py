"""Figures of the waste: how it adds up over days (the paper's figure 6), and who submits in sequence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gridtune.report.style import PALETTE, figure, group_thousands, head, save
from gridtune.systems.shutdown.report.lives import GROUPS, Column, Life

__all__ = ["plot_cumulative", "plot_groups"]

#: Jobs that come fewer minutes than this after another are sequential.
_SEQUENTIAL = 5


def plot_cumulative(lives: Sequence[Life], workload: str, path: Path) -> list[Path]:
    """Draw waste over days, added up, by group of days and as a share of the most there is.

    A group of a single day has nothing to add up and is left out.
    """
    groups = lives[0].column("days", "group").astype(int)
    tests = np.array(["test" in PurePosixPath(name).parts for name in lives[0].column("days", "day")])
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
            _add_up(panel, lives, order[np.argsort(tests[order], kind="stable")], tests)
            head(panel, f"group {group}", f"{GROUPS[group - 1]} % sequential")
        for panel in axes[:, 0]:
            panel.set_ylabel("waste so far, share of the most")
        drawing.suptitle(f"Cumulative waste: {workload}", x=0.01, ha="left", fontweight="bold")
        drawing.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]


def _add_up(panel: Axes, lives: Sequence[Life], order: Column, tests: Column) -> None:
    """Draw each policy's waste, added up over the days in this order; a line parts train from test days."""
    sums = {life.label: np.cumsum(life.column("days", "energy_waste")[order]) for life in lives}
    most = max(each[-1] for each in sums.values())
    days = np.arange(1, len(order) + 1)
    for life in lives:
        panel.plot(days, sums[life.label] / most, label=life.label, color=life.colour)
    border = int((~tests[order]).sum())
    if 0 < border < len(order):
        panel.axvline(border, color="#666666", linestyle="--", linewidth=1)
    panel.set_xlabel("days" if not tests.any() or tests.all() else "days, training then test")
    panel.set_ylim(0, 1.03)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def plot_groups(lives: Sequence[Life], workload: str, path: Path) -> list[Path]:
    """Draw sequential and other jobs by group of days, and how they ended: for want of years, figure 3."""
    life = lives[0]
    days = life.column("days", "group").astype(int)
    part, day = life.column("jobs", "part"), life.column("jobs", "day").astype(int)
    day_part = life.column("days", "part")
    first = np.searchsorted(day_part, part)
    group = days[first + day]
    gap = life.column("jobs", "gap").astype(float)
    killed = life.column("jobs", "run") >= life.column("jobs", "walltime")
    sequential = gap < _SEQUENTIAL
    with figure(7.5, 4.2) as (drawing, panel):
        bottom = np.zeros(5)
        kinds = {
            "sequential, ended by itself": sequential & ~killed,
            "sequential, killed at its walltime": sequential & killed,
            "other, ended by itself": ~sequential & ~killed,
            "other, killed at its walltime": ~sequential & killed,
        }
        for (name, chosen), colour in zip(kinds.items(), PALETTE, strict=False):
            counts = np.bincount(group[chosen], minlength=6)[1:]
            panel.bar(range(1, 6), counts, bottom=bottom, color=colour, label=name, width=0.7)
            bottom += counts
        panel.set_xticks(range(1, 6), [f"{n}\n{each} %" for n, each in enumerate(GROUPS, start=1)])
        panel.set_xlabel("group of days, by share of sequential submissions")
        panel.set_ylabel("jobs")
        group_thousands(panel.yaxis)
        head(panel, f"Sequential submissions: {workload}", f"less than {_SEQUENTIAL} minutes after another")
        panel.legend()
        return [save(drawing, path)]
