"""Figures of policies' decisions: reservations by queue length, and nodes' states over a day."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gridtune.core.style import figure, head, save
from gridtune.systems.shutdown.report.policy_runs import GROUPS, PolicyRun

__all__ = ["plot_nodes", "plot_reservations"]

_STATES = ("idle", "switching on", "asleep", "switching off", "computing")
_COLOURS = ("#D55E00", "#E69F00", "#EFEFEF", "#CC79A7", "#0072B2")
_ASLEEP = 2
#: Queue lengths that occur in fewer minutes are left out: their means are noise.
_FEWEST = 100
_LONGEST = 30
_MINUTES_AN_HOUR = 60


def plot_reservations(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw the mean number of reserved nodes by queue length."""
    if any("queue" not in run.tables for run in runs):
        return []
    with figure(8.5, 4.2) as (drawing, panel):
        for run in runs:
            waiting = run.column("queue", "waiting")
            minutes = run.column("queue", "minutes").astype(float)
            sums = np.bincount(waiting, minutes * run.column("queue", "reserved_mean"))
            counts = np.bincount(waiting, minutes)
            lengths = np.flatnonzero(counts >= _FEWEST)
            lengths = lengths[lengths <= _LONGEST]
            look = {"color": run.colour, "marker": run.marker, "markersize": 4}
            panel.plot(lengths, sums[lengths] / counts[lengths], label=run.title, **look)
        panel.set_xlabel("jobs waiting at the beginning of the minute")
        panel.set_ylabel("mean of nodes reserved")
        panel.set_ylim(bottom=0)
        head(
            panel, f"Reservations by queue length: {workload}", f"lengths that last {_FEWEST} minutes or more"
        )
        drawing.legend(*panel.get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]


def plot_nodes(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw each node's states over one busy day, a panel for each policy."""
    if any("nodes" not in run.tables for run in runs):
        return []
    nodes = 1 + int(runs[0].column("nodes", "node").max())
    height = 1.3 + min(0.08 * nodes + 0.5, 2.0) * len(runs)
    with figure(8.5, height, len(runs), sharex=True, squeeze=False) as (drawing, axes):
        for panel, run in zip(axes[:, 0], runs, strict=True):
            state = run.column("nodes", "state")
            for kind in (2, 4, 0, 3, 1):
                in_state = state == kind
                start, end = (run.column("nodes", name)[in_state] for name in ("start", "end"))
                panel.barh(
                    run.column("nodes", "node")[in_state],
                    (end - start) / _MINUTES_AN_HOUR,
                    left=start / _MINUTES_AN_HOUR,
                    height=0.82,
                    color=_COLOURS[kind],
                    linewidth=0,
                )
            panel.set_ylim(nodes - 0.4, -0.6)
            panel.set_yticks([0, nodes - 1], ["node 1", f"node {nodes}"])
            panel.tick_params(labelsize=11)
            panel.grid(False)
            panel.set_title(run.title, fontsize=12, pad=4)
        axes[-1, 0].set_xlabel("hour of the day", fontsize=12)
        axes[-1, 0].set_xlim(*_awake(runs))
        for kind in (4, 0, 1, 3, 2):
            axes[0, 0].bar([0], [0], color=_COLOURS[kind], label=_STATES[kind])
        drawing.suptitle(
            f"One day: {workload}, {_day_summary(runs[0])}", x=0.01, ha="left", fontsize=13, fontweight="bold"
        )
        drawing.legend(
            *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=11
        )
        return [save(drawing, path)]


def _day_summary(run: PolicyRun) -> str:
    """Return how many jobs the day of the nodes has, and its group."""
    day = int(run.column("nodes", "day")[0])
    # The nodes are those of the first part only.
    jobs = int(((run.column("jobs", "day") == day) & (run.column("jobs", "part") == 0)).sum())
    group = int(run.column("days", "group")[day])
    return f"{jobs} jobs, {GROUPS[group - 1]} % sequential"


def _awake(runs: Sequence[PolicyRun]) -> tuple[float, float]:
    """Return the hours between which some node is not asleep, with half an hour before and after."""
    begins, ends = [], []
    for run in runs:
        awake = run.column("nodes", "state") != _ASLEEP
        begins += [run.column("nodes", "start")[awake].min(initial=1440)]
        ends += [run.column("nodes", "end")[awake].max(initial=0)]
    return max(min(begins) / _MINUTES_AN_HOUR - 0.5, 0.0), max(ends) / _MINUTES_AN_HOUR + 0.5
