"""Figures of rankings and of Pareto fronts. The page draws the effects of parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from gridtune.core import style
from gridtune.errors import MetricError
from gridtune.report.labels import is_logarithmic, percent_text
from gridtune.report.rankings.combined import Front
from gridtune.report.rankings.ranking import Ranking, RankingHead, Verdict, has_values, shown_rows

#: More configurations than these make a figure that nobody can read; the best are drawn.
_MOST_RANKED = 40
#: Differences of more per cent than this would squeeze all others into a corner.
_FARTHEST = 100.0

_VERDICT_COLOURS = {
    "better": style.BETTER,
    "better typically": style.BETTER,
    "worse": style.WORSE,
    "baseline": style.BASELINE,
}
_VERDICT_MARKERS = {"better typically": "^", "worse": "s", "baseline": "D"}


def plot_ranking(ranking: Ranking, path: Path) -> Path:
    """Draw means and paired differences with their intervals, one row of panels per stratum.

    Parameters
    ----------
    ranking
        The ranking.
    path
        The figure's file; the suffix decides the format.

    Raises
    ------
    MetricError
        If no replicate has a value of the objective.
    """
    head = ranking.head
    groups = [(name, shown_rows(rows, _MOST_RANKED)) for name, rows in ranking.strata.items()]
    every = [row for _, rows in groups for row in rows]
    if not has_values(every):
        raise MetricError(f"no replicate has a value of {head.objective}: there is nothing to draw")

    def ranked_label(row: Mapping[str, Any]) -> str:
        label = ranking.label(row)
        place = "–" if row["rank"] is None else str(row["rank"])
        # A figure space is as wide as a digit, which keeps the ranks in a column.
        return f"{label}{'' if row['complete'] else ' (incomplete)'}  {place:\u2007>2}"

    draw = [_mean_panel] if any(row["mean"] is not None for row in every) else []
    draw += [_difference_panel] if any(row["relative"] is not None for row in every) else []
    heights = [1.1 + 0.26 * len(rows) for _, rows in groups]
    size = 3.2 + 4.2 * len(draw), sum(heights) + 0.5
    layout: dict[str, Any] = {"ncols": len(draw), "squeeze": False, "height_ratios": heights}
    with style.figure(*size, len(groups), **layout) as (drawing, axes):
        for (name, rows), panels in zip(groups, axes, strict=True):
            for panel, draw_panel in zip(panels, draw, strict=True):
                draw_panel(panel, rows, head)
                _set_rows(panel, rows, [])
            _set_rows(panels[0], rows, [ranked_label(row) for row in rows])
            title = "over all workloads" if head.overall else name
            style.head(panels[0], title, panels[0].get_title(loc="left"))
        for panel in axes[:, 1:].flat:
            style.head(panel, "", panel.get_title(loc="left"))
        _legend(drawing, axes, list(Verdict), loc="outside upper right", ncols=5, handletextpad=0.1)
        return style.save(drawing, path)


def _set_rows(axes: Axes, rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    ranked = sum(row["rank"] is not None for row in rows)
    if 0 < ranked < len(rows):
        axes.axhline(ranked - 0.5, color="#BBBBBB", linewidth=0.8)


def _interval_panel(axes: Axes, rows: Sequence[Mapping[str, Any]], keys: tuple[str, str, str]) -> None:
    """Draw a point and an interval per row; a point alone where there is no interval."""
    for height, row in enumerate(rows):
        middle, low, high = (row[key] for key in keys)
        if middle is None or math.isnan(middle):
            continue
        verdict = row["verdict"]
        colour = _VERDICT_COLOURS.get(verdict, style.UNSURE)
        if low is not None and not math.isnan(low):
            axes.plot([low, high], [height, height], color=colour, linewidth=2.2, solid_capstyle="round")
        axes.plot(
            middle,
            height,
            _VERDICT_MARKERS.get(verdict, "o"),
            markersize=6.5,
            color=colour,
            markerfacecolor=colour if verdict in _VERDICT_COLOURS else "white",
            markeredgewidth=1.5,
            label=verdict,
        )


def _mean_panel(axes: Axes, rows: Sequence[Mapping[str, Any]], head: RankingHead) -> None:
    _interval_panel(axes, rows, ("mean", "ci_low", "ci_high"))
    _scale_axis(axes, "x", [row["mean"] for row in rows])
    axes.set_xlabel(head.axis)
    axes.set_title(f"mean and 95 % interval; {head.better} is better")


def _difference_panel(axes: Axes, rows: Sequence[Mapping[str, Any]], head: RankingHead) -> None:
    """Draw relative differences in per cent; those far off stand at the border with their number."""
    scaled = [
        {**row, **{key: None if row[key] is None else row[key] * 100 for key in _RELATIVE}} for row in rows
    ]
    axes.axvline(0, color=style.BASELINE, linewidth=1, linestyle=(0, (4, 3)))
    for height, row in enumerate(scaled):
        far = row["relative"]
        if far is None or abs(far) <= _FARTHEST:
            continue
        row["relative"], text = None, percent_text(far / 100)
        axes.annotate(
            f"{text} ▶" if far > 0 else f"◀ {text}",
            xy=(1 if far > 0 else 0, height),
            xycoords=("axes fraction", "data"),
            ha="right" if far > 0 else "left",
            va="center",
            fontsize=9,
            color=_VERDICT_COLOURS.get(row["verdict"], style.UNSURE),
        )
    _interval_panel(axes, scaled, _RELATIVE)
    axes.locator_params(axis="x", nbins=8, steps=[1, 2, 2.5, 5, 10])
    axes.set_xlabel(f"difference to the baseline, % of its {head.objective}")
    axes.set_title("paired on the same replicates, 95 % interval")


def _legend(drawing: Figure, axes: Any, order: Sequence[str], **look: Any) -> None:
    """Draw a legend of the labels of all panels that are in `order`."""
    handles = {
        str(item.get_label()): item for panel in axes.flat for item in panel.get_legend_handles_labels()[0]
    }
    names = [name for name in order if name in handles]
    if names:
        drawing.legend([handles[name] for name in names], names, **look)


_RELATIVE = ("relative", "relative_low", "relative_high")


class _PlainLogarithms(LogFormatter):
    """Labels the ticks that matplotlib would label, as 1,000 rather than 10³."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return style.GROUPED.format(x=x).replace("-", "−") if super().__call__(x, pos) else ""


def _scale_axis(axes: Axes, which: str, values: Iterable[float | None]) -> None:
    """Make an "x" or "y" axis logarithmic where its values need it, and write its ticks as plain numbers."""
    axis = getattr(axes, f"{which}axis")
    if is_logarithmic(values):
        getattr(axes, f"set_{which}scale")("log")
        # Powers are formulas, which take matplotlib longer to set than the rest of a figure to draw.
        axis.set_major_formatter(_PlainLogarithms())
        axis.set_minor_formatter(_PlainLogarithms(labelOnlyBase=False, minor_thresholds=(1, 0.4)))
    else:
        axis.set_major_formatter(style.GROUPED)


#: Pairs of objectives that are drawn at most.
_MOST_PAIRS = 3


def plot_fronts(fronts: Sequence[Front], path: Path) -> Path:
    """Draw every configuration in the plane of two objectives, with the front and its 95 % intervals.

    Parameters
    ----------
    fronts
        Of the same objectives, a row of panels each; with more than two objectives a panel per pair.
    path
        The figure's file.
    """
    pairs = list(combinations(range(len(fronts[0].heads)), 2))[:_MOST_PAIRS]
    size = 5.2 * len(pairs) + 0.6, 4.2 * len(fronts) + 0.3
    with style.figure(*size, len(fronts), ncols=len(pairs), squeeze=False) as (drawing, axes):
        for front, panels in zip(fronts, axes, strict=True):
            for (across, up), panel in zip(pairs, panels, strict=True):
                _panel(panel, front, across, up)
            below = f"{front.size} of {len(front.rows)} on the front; hypervolume {front.hypervolume:.4f}"
            style.head(panels[0], front.stratum, f"{below} of {front.limit:.4g}")
        _legend(drawing, axes, ["dominated", "on the front", "baseline"], loc="outside lower center", ncols=3)
        return style.save(drawing, path)


def _panel(axes: Axes, front: Front, across: int, up: int) -> None:
    factor = 100.0 if front.overall else 1.0
    values = front.points * factor
    best = values[: front.size]
    others = values[front.size :, [across, up]].T
    axes.plot(*others, "o", markersize=4, color=style.UNSURE, alpha=0.55, label="dominated")
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
    axes.plot(*best[:, [across, up]].T, "o", markersize=6.5, color=style.BETTER, label="on the front")
    for place, parts in zip(values, front.rows, strict=True):
        if parts[0]["is_baseline"]:
            axes.plot(*place[[across, up]], "D", markersize=6.5, color=style.BASELINE, label="baseline")
    for which, number in (("x", across), ("y", up)):
        head = front.heads[number]
        unit = f"{head.objective}, difference to the baseline (%)" if front.overall else head.axis
        axes.set(**{f"{which}label": f"{unit}; {head.better} is better"})
        _scale_axis(axes, which, [] if front.overall else values[:, number])
