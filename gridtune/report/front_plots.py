"""Figures of Pareto fronts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from matplotlib.axes import Axes

from gridtune.core import style
from gridtune.report.front import Front
from gridtune.report.scales import is_logarithmic

__all__ = ["plot_fronts"]

#: Pairs of objectives that are drawn at most.
_MOST_PAIRS = 3


def plot_fronts(fronts: Sequence[Front], path: Path) -> Path:
    """Draw every configuration in the plane of two objectives, with the front and its 95 % intervals.

    Parameters
    ----------
    fronts
        Of the same objectives, a row of panels each; with more than two objectives a panel per pair.
    path
        Where the figure goes.
    """
    pairs = list(combinations(range(len(fronts[0].heads)), 2))[:_MOST_PAIRS]
    size = 5.2 * len(pairs) + 0.6, 4.2 * len(fronts) + 0.3
    with style.figure(*size, len(fronts), ncols=len(pairs), squeeze=False) as (drawing, axes):
        for front, panels in zip(fronts, axes, strict=True):
            for (across, up), panel in zip(pairs, panels, strict=True):
                _panel(panel, front, across, up)
            below = f"{front.size} of {len(front.rows)} on the front; hypervolume {front.hypervolume:.4f}"
            style.head(panels[0], front.stratum, f"{below} of {front.limit:.4g}")
        handles = {str(item.get_label()): item for item in axes[0][0].get_legend_handles_labels()[0]}
        drawing.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles))
        return style.save(drawing, path)


def _panel(axes: Axes, front: Front, across: int, up: int) -> None:
    factor = 100.0 if front.overall else 1.0
    values = front.points * factor
    best = values[: front.size]
    axes.plot(
        values[front.size :, across],
        values[front.size :, up],
        linestyle="none",
        marker="o",
        markersize=4,
        color=style.UNSURE,
        alpha=0.55,
        label="dominated",
    )
    if len(front.heads) == 2:
        # What the front dominates ends at a staircase, not at the line between its points.
        axes.plot(*best.T, color="#555555", linewidth=1, linestyle=(0, (4, 3)), drawstyle="steps-post")
    for place, parts in zip(best, front.rows, strict=False):
        for side, number in enumerate((across, up)):
            low, high = (parts[number][key] for key in front.keys[1:])
            if low is not None and high is not None:
                ends = [[place[across]] * 2, [place[up]] * 2]
                ends[side] = [low * factor, high * factor]
                axes.plot(*ends, color=style.BETTER, linewidth=0.9, alpha=0.45)
    axes.plot(
        best[:, across],
        best[:, up],
        linestyle="none",
        marker="o",
        markersize=6.5,
        color=style.BETTER,
        label="on the front",
    )
    for place, parts in zip(values, front.rows, strict=True):
        if parts[0]["is_baseline"]:
            axes.plot(
                place[across],
                place[up],
                marker="D",
                linestyle="none",
                markersize=6.5,
                color=style.BASELINE,
                label="baseline",
            )
    for axis, number, scale in (
        (axes.xaxis, across, axes.set_xscale),
        (axes.yaxis, up, axes.set_yscale),
    ):
        head = front.heads[number]
        unit = f"{head.objective}, difference to the baseline (%)" if front.overall else head.axis
        axis.set_label_text(f"{unit}; {head.better} is better")
        if not front.overall and is_logarithmic(values[:, number]):
            scale("log")
        else:
            style.group_thousands(axis)
