"""Figures of the waste: how it adds up over days (the paper's figure 6), and who submits in sequence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from matplotlib.ticker import MaxNLocator

from gridtune.report.shutdown.lives import Life
from gridtune.report.style import PALETTE, figure, group_thousands, head, save

__all__ = ["plot_cumulative", "plot_groups"]

_GROUPS = ("[0, 25)", "[25, 50)", "[50, 75)", "[75, 100)", "100")
#: Table 2's bins, in per cent; jobs whose gap is below this many minutes are sequential.
_SEQUENTIAL = 5


def plot_cumulative(lives: Sequence[Life], workload: str, path: Path) -> list[Path]:
    """Draw waste over days, added up, by group of days and as a share of the most there is."""
    groups = lives[0].column("days", "group").astype(int)
    present = [group for group in range(1, 6) if (groups == group).any()]
    tests = np.array(["test" in PurePosixPath(name).parts for name in lives[0].column("days", "day")])
    with figure(3.1 * len(present) + 1.6, 3.9, ncols=len(present), squeeze=False, sharey=True) as (
        drawing,
        axes,
    ):
        for panel, group in zip(axes[0], present, strict=True):
            order = np.flatnonzero(groups == group)
            order = order[np.argsort(tests[order], kind="stable")]
            sums = {life.label: np.cumsum(life.column("days", "energy_waste")[order]) for life in lives}
            most = max(each[-1] for each in sums.values())
            days = np.arange(1, len(order) + 1)
            for life in lives:
                share = sums[life.label] / most
                marker = life.marker if len(days) == 1 else None
                panel.plot(days, share, label=life.label, color=life.colour, marker=marker)
            border = int((~tests[order]).sum())
            if 0 < border < len(order):
                panel.axvline(border, color="#666666", linestyle="--", linewidth=1)
            head(panel, f"group {group}", f"{_GROUPS[group - 1]} % sequential")
            panel.set_xlabel("days" if not tests.any() or tests.all() else "days, training then test")
            panel.set_ylim(0, 1.03)
            panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        axes[0][0].set_ylabel("waste so far, share of the most")
        drawing.suptitle(f"Cumulative waste: {workload}", x=0.01, ha="left", fontweight="bold")
        drawing.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]


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
        panel.set_xticks(range(1, 6), [f"{n}\n{each} %" for n, each in enumerate(_GROUPS, start=1)])
        panel.set_xlabel("group of days, by share of sequential submissions")
        panel.set_ylabel("jobs")
        group_thousands(panel.yaxis)
        head(panel, f"Sequential submissions: {workload}", f"less than {_SEQUENTIAL} minutes after another")
        panel.legend()
        return [save(drawing, path)]
