"""Figures of what policies do: reservations by the queue's length, and nodes' states over a day."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gridtune.report.style import figure, head, save
from gridtune.systems.shutdown.report.lives import GROUPS, Life

__all__ = ["plot_nodes", "plot_reservations"]

_STATES = ("idle", "switching on", "asleep", "switching off", "computing")
_COLOURS = ("#D55E00", "#E69F00", "#EFEFEF", "#CC79A7", "#0072B2")
_ASLEEP = 2
#: Queues that were so long for fewer minutes are left out: their means are noise.
_FEWEST = 100
_LONGEST = 30
_MINUTES_AN_HOUR = 60


def plot_reservations(lives: Sequence[Life], workload: str, path: Path) -> list[Path]:
    """Draw the mean number of reserved nodes by the number of waiting jobs."""
    if any("queue" not in life.tables for life in lives):
        return []
    with figure(8.5, 4.2) as (drawing, panel):
        for life in lives:
            waiting = life.column("queue", "waiting")
            minutes = life.column("queue", "minutes").astype(float)
            sums = np.bincount(waiting, minutes * life.column("queue", "reserved_mean"))
            counts = np.bincount(waiting, minutes)
            lengths = np.flatnonzero(counts >= _FEWEST)
            lengths = lengths[lengths <= _LONGEST]
            look = {"color": life.colour, "marker": life.marker, "markersize": 4}
            panel.plot(lengths, sums[lengths] / counts[lengths], label=life.label, **look)
        panel.set_xlabel("jobs waiting at the beginning of the minute")
        panel.set_ylabel("nodes reserved, mean")
        panel.set_ylim(bottom=0)
        head(
            panel, f"What is reserved: {workload}", f"queues that were so long for {_FEWEST} minutes or more"
        )
        drawing.legend(*panel.get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]


def plot_nodes(lives: Sequence[Life], workload: str, path: Path) -> list[Path]:
    """Draw each node's states over one busy day, a panel for each policy."""
    if any("nodes" not in life.tables for life in lives):
        return []
    nodes = 1 + int(lives[0].column("nodes", "node").max())
    height = 0.5 + min(0.11 * nodes + 0.55, 2.4) * len(lives)
    with figure(11, height, len(lives), sharex=True, squeeze=False) as (drawing, axes):
        for panel, life in zip(axes[:, 0], lives, strict=True):
            state = life.column("nodes", "state")
            for kind in (2, 4, 0, 3, 1):
                chosen = state == kind
                start, end = (life.column("nodes", name)[chosen] for name in ("start", "end"))
                panel.barh(
                    life.column("nodes", "node")[chosen],
                    (end - start) / _MINUTES_AN_HOUR,
                    left=start / _MINUTES_AN_HOUR,
                    height=0.82,
                    color=_COLOURS[kind],
                    linewidth=0,
                )
            panel.set_ylim(nodes - 0.4, -0.6)
            panel.set_yticks([0, nodes - 1], ["node 1", f"{nodes}"])
            panel.grid(False)
            panel.set_title(life.label, fontsize=10, pad=3)
        axes[-1, 0].set_xlabel(f"hours of the day {lives[0].column('nodes', 'name')[0]}")
        axes[-1, 0].set_xlim(*_awake(lives))
        for kind in (4, 0, 1, 3, 2):
            axes[0, 0].bar([0], [0], color=_COLOURS[kind], label=_STATES[kind])
        drawing.suptitle(
            f"One day: {workload}, {_kind_of_day(lives[0])}", x=0.01, ha="left", fontweight="bold"
        )
        drawing.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]


def _kind_of_day(life: Life) -> str:
    """Return how busy the day of the nodes is, and how many of its jobs come close after others."""
    day = int(life.column("nodes", "day")[0])
    # The nodes are of the first part alone, whatever was joined.
    jobs = int(((life.column("jobs", "day") == day) & (life.column("jobs", "part") == 0)).sum())
    group = int(life.column("days", "group")[day])
    return f"{jobs} jobs, {GROUPS[group - 1]} % sequential"


def _awake(lives: Sequence[Life]) -> tuple[float, float]:
    """Return between which hours any node is not asleep under any policy, with half an hour around."""
    begins, ends = [], []
    for life in lives:
        awake = life.column("nodes", "state") != _ASLEEP
        begins += [life.column("nodes", "start")[awake].min(initial=1440)]
        ends += [life.column("nodes", "end")[awake].max(initial=0)]
    return max(min(begins) / _MINUTES_AN_HOUR - 0.5, 0.0), max(ends) / _MINUTES_AN_HOUR + 0.5
