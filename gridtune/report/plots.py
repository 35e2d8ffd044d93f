"""Figures of a ranking: intervals, curves over a numeric dimension, heat maps.

Every function takes a ranking (see `gridtune.report.rankings.ranking.rank`) and a path, writes a figure
there and returns the path.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure

from gridtune.core import style
from gridtune.errors import MetricError
from gridtune.report.labels import (
    distinct,
    is_logarithmic,
    number_text,
    percent_text,
    row_label,
    value_text,
    varying_parameters,
)
from gridtune.report.rankings.combined import Front
from gridtune.report.rankings.ranking import (
    RankingHead,
    Verdict,
    has_values,
    ranking_head,
    shown_rows,
    strata,
)
from gridtune.types import FloatArray

__all__ = ["plot_against", "plot_fronts", "plot_heat_map", "plot_ranking", "scale_axis"]

#: More configurations than these make a figure that nobody can read; the best are drawn.
_MOST_RANKED = 40
MOST_CURVES = 7
#: Bands of more curves than these hide each other.
_MOST_BANDS = 3
_OTHERS = "others"
#: Differences of more per cent than this would squeeze all others into a corner.
_FARTHEST = 100.0

_VERDICT_COLOURS = {
    "better": style.BETTER,
    "better typically": style.BETTER,
    "worse": style.WORSE,
    "baseline": style.BASELINE,
}
_VERDICT_MARKERS = {"better typically": "^", "worse": "s", "baseline": "D"}


def plot_ranking(ranking: pa.Table, path: Path) -> Path:
    """Draw means and paired differences with their intervals, one row of panels per stratum.

    Parameters
    ----------
    ranking
        As `rank` or `rank_overall` makes it.
    path
        Where the figure goes; the suffix decides the format.

    Raises
    ------
    MetricError
        If no replicate has a value of the objective.
    """
    head = ranking_head(ranking)
    groups = [(name, shown_rows(rows, _MOST_RANKED)) for name, rows in strata(ranking)]
    every = [row for _, rows in groups for row in rows]
    if not has_values(every):
        raise MetricError(f"no replicate has a value of {head.objective}: there is nothing to draw")
    draw = [_mean_panel] if any(row["mean"] is not None for row in every) else []
    draw += [_difference_panel] if any(row["relative"] is not None for row in every) else []
    varying = varying_parameters(ranking, without=head.group_by)
    heights = [1.1 + 0.26 * len(rows) for _, rows in groups]
    size = 3.2 + 4.2 * len(draw), sum(heights) + 0.5
    with style.figure(*size, len(groups), ncols=len(draw), squeeze=False, height_ratios=heights) as (
        drawing,
        axes,
    ):
        for (name, rows), panels in zip(groups, axes, strict=True):
            for panel, draw_panel in zip(panels, draw, strict=True):
                draw_panel(panel, rows, head)
                _set_rows(panel, rows, [])
            _set_rows(panels[0], rows, [_ranked_label(row, varying) for row in rows])
            title = "over all workloads" if head.overall else name
            style.head(panels[0], title, panels[0].get_title(loc="left"))
        for panel in axes[:, 1:].flat:
            style.head(panel, "", panel.get_title(loc="left"))
        _legend(drawing, axes, list(Verdict), loc="outside upper right", ncols=5, handletextpad=0.1)
        return style.save(drawing, path)


def _ranked_label(row: Mapping[str, Any], varying: Sequence[str]) -> str:
    label = row_label(row, varying)
    place = "–" if row["rank"] is None else str(row["rank"])
    # A figure space is as wide as a digit, which keeps the ranks in a column.
    return f"{label}{'' if row['complete'] else ' (incomplete)'}  {place:\u2007>2}"


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
    scale_axis(axes, "x", [row["mean"] for row in rows])
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


def scale_axis(axes: Axes, which: str, values: Iterable[float | None]) -> None:
    """Make an "x" or "y" axis logarithmic where its values need it, and write its ticks as plain numbers."""
    axis = getattr(axes, f"{which}axis")
    if is_logarithmic(values):
        getattr(axes, f"set_{which}scale")("log")
        style.plain_logarithms(axis)
    else:
        style.group_thousands(axis)


def plot_against(ranking: pa.Table, dimension: str, path: Path) -> Path:
    """Draw the objective, and the difference to the baseline, over a numeric parameter.

    At most seven configurations are drawn in colour (the best by their mean over the dimension, and
    the baseline); any others stay in the background in grey.

    Parameters
    ----------
    ranking
        As `rank` makes it.
    dimension
        The numeric parameter on the horizontal axis.
    path
        Where the figure goes.
    """
    head = ranking_head(ranking)
    column = f"param.{dimension}"
    # Where a conditional parameter does not apply there is no place on its axis.
    groups = [(name, [row for row in rows if row[column] is not None]) for name, rows in strata(ranking)]
    every = [row for _, rows in groups for row in rows]
    varying = varying_parameters(ranking, without=[*head.group_by, dimension])
    paired = any(row["relative"] is not None and not row["is_baseline"] for row in every)
    keys = [("mean", "ci_low", "ci_high"), *([_RELATIVE] if paired else [])]
    shown = _curves_to_colour(every, varying, head)
    size = 4.6 * len(groups) + 2.4, 3.4 * len(keys) + 0.8
    with style.figure(*size, len(keys), ncols=len(groups), squeeze=False, sharex="col") as (drawing, axes):
        for (name, rows), panels in zip(groups, axes.T, strict=True):
            for panel, key in zip(panels, keys, strict=True):
                _curve_panel(panel, _curves(rows, varying, dimension, key), shown)
            scale_axis(panels[0], "y", [row["mean"] for row in rows])
            if paired:
                panels[1].axhline(0, color=style.BASELINE, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
            sampled = _is_sample(_curves(rows, varying, dimension, keys[0]))
            what = "each configuration, and their local mean" if sampled else "mean, 95 % interval"
            style.head(panels[0], name, f"{what}; {head.better} is better")
            panels[-1].set_xlabel(dimension)
        axes[0][0].set_ylabel(head.axis)
        if paired:
            axes[1][0].set_ylabel("paired difference to the baseline (%)")
        _legend(drawing, axes, [*shown, _OTHERS], loc="outside right upper")
        return style.save(drawing, path)


def _curves(
    rows: Sequence[Mapping[str, Any]], varying: Sequence[str], dimension: str, keys: tuple[str, str, str]
) -> dict[str, list[tuple[float, ...]]]:
    """Return the points (place, middle, low, high) of each curve, from left to right."""
    curves: dict[str, list[tuple[float, ...]]] = {}
    scale = 100 if keys == _RELATIVE else 1
    for row in rows:
        place, middle, low, high = row[f"param.{dimension}"], *(row[key] for key in keys)
        if middle is None:
            continue
        label = row_label(row, varying)
        ends = (middle if end is None else end for end in (low, high))
        curves.setdefault(label, []).append((place, *(value * scale for value in (middle, *ends))))
    return {label: sorted(points) for label, points in curves.items()}


def _curves_to_colour(rows: Sequence[dict[str, Any]], varying: Sequence[str], head: RankingHead) -> list[str]:
    means: dict[str, list[float]] = {}
    baselines = []
    for row in rows:
        label = row_label(row, varying)
        if row["mean"] is not None and not math.isnan(row["mean"]):
            means.setdefault(label, []).append(row["mean"])
        if row["is_baseline"] and label not in baselines:
            baselines.append(label)
    sign = 1 if head.direction == "min" else -1
    ordered = sorted(means, key=lambda label: sign * float(np.mean(means[label])))
    if len(ordered) <= MOST_CURVES:
        return ordered
    shown = [label for label in ordered if label not in baselines][: max(1, MOST_CURVES - len(baselines))]
    return [label for label in ordered if label in shown or label in baselines]


def _curve_panel(axes: Axes, curves: Mapping[str, Sequence[tuple[float, ...]]], shown: Sequence[str]) -> None:
    """Draw curves: few with bands, several with bars that stand beside each other.

    Where no configuration has a second place, as in a sample, they are dots around their local mean.
    """
    if _is_sample(curves):
        across, up = np.array([points[0][:2] for points in curves.values()]).T
        axes.plot(across, up, "o", markersize=4, color=style.UNSURE, alpha=0.6)
        along = np.linspace(across.min(), across.max(), 101)
        axes.plot(along, _local_mean(across, up, along), color=style.BETTER, linewidth=2)
        return
    colours = style.series_colours(shown)
    places = sorted({point[0] for points in curves.values() for point in points})
    gap = min(np.diff(places), default=0.0)
    for label in sorted(curves, key=lambda label: label in colours):
        points = np.asarray(curves[label], dtype=float).T
        if label not in colours:
            axes.plot(points[0], points[1], color="#CFCFCF", linewidth=1, zorder=1, label=_OTHERS)
            continue
        index = shown.index(label)
        look: dict[str, Any] = {
            "color": colours[label],
            "marker": style.MARKERS[index % len(style.MARKERS)],
            "label": label,
        }
        if len(shown) <= _MOST_BANDS:
            axes.fill_between(points[0], points[2], points[3], color=colours[label], alpha=0.13, linewidth=0)
            axes.plot(points[0], points[1], markersize=5, **look)
        else:
            aside = gap * 0.07 * (index - (len(shown) - 1) / 2)
            axes.vlines(points[0] + aside, points[2], points[3], color=colours[label], linewidth=1.1)
            axes.plot(points[0] + aside, points[1], markersize=4.5, linewidth=1.2, **look)


def _is_sample(curves: Mapping[str, Sequence[tuple[float, ...]]]) -> bool:
    """Return whether these are many configurations with a place each, so that nothing is a curve."""
    return len(curves) > MOST_CURVES and all(len(points) == 1 for points in curves.values())


def _local_mean(across: FloatArray, up: FloatArray, at: FloatArray) -> FloatArray:
    """Return the local linear mean of points at some places, with Gaussian weights."""
    width = max(0.07, 0.32 * len(across) ** -0.2) * (np.ptp(across) or 1.0)
    weights = np.exp(-0.5 * ((at[:, None] - across) / width) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    mean, centre = weights @ up, weights @ across
    apart = across - centre[:, None]
    spread = (weights * apart**2).sum(axis=1)
    slope = (weights * apart * up).sum(axis=1) / np.where(spread > 0, spread, 1.0)
    return np.asarray(mean + slope * (at - centre))


def plot_heat_map(ranking: pa.Table, across: str, down: str, path: Path) -> Path:
    """Draw the objective over two parameters: the difference to the baseline in colour, both as text.

    Where further parameters vary, a field shows the mean over them.

    Parameters
    ----------
    ranking
        As `rank` makes it.
    across, down
        The parameters of the columns and of the rows.
    path
        Where the figure goes.
    """
    head = ranking_head(ranking)
    groups = list(strata(ranking))
    every = ranking.to_pylist()
    columns = distinct([row[f"param.{across}"] for row in every])
    lines = distinct([row[f"param.{down}"] for row in every])
    paired = any(row["relative"] is not None for row in every)
    fields = [_fields(rows, across, down, columns, lines, paired=paired) for _, rows in groups]
    others = varying_parameters(ranking, without=[*head.group_by, across, down])
    width, height = max(5.4, 1.25 * len(columns) + 1.6), 1.7 + 0.55 * len(lines)
    with style.figure(width * len(groups), height, 1, ncols=len(groups), squeeze=False) as (drawing, axes):
        for (name, _), (means, colours), panel in zip(groups, fields, axes[0], strict=True):
            image = _heat_panel(panel, means, colours, head, paired=paired)
            # Long names break at their hyphens, so that neighbours do not run into each other.
            texts = [
                text.replace("-", "-\n") if len(text) > 12 else text for text in map(value_text, columns)
            ]
            panel.set_xticks(range(len(columns)), texts)
            panel.set_yticks(range(len(lines)), [value_text(value) for value in lines])
            panel.set_xlabel(across)
            panel.set_ylabel(down)
            # A workload without a single value still has its panel, of empty fields.
            ends = (colours < -_FARTHEST).any() and paired, (colours > _FARTHEST).any() and paired
            beyond = "both" if all(ends) else "min" if ends[0] else "max" if ends[1] else "neither"
            bar = drawing.colorbar(image, ax=panel, aspect=24, extend=beyond)
            bar.outline.set_visible(False)
            bar.set_label("difference to the baseline, %" if paired else head.axis)
            over = f", mean over {', '.join(others)}" if others else ""
            # Small print wider than its panel would leave the panels no room.
            title = textwrap.fill(f"{head.axis}{over}; {head.better} is better", int(8 * width))
            style.head(panel, name, title)
        return style.save(drawing, path)


def _fields(
    rows: Sequence[Mapping[str, Any]],
    across: str,
    down: str,
    columns: Sequence[Any],
    lines: Sequence[Any],
    *,
    paired: bool,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the means and the values to colour, shape (rows, columns) each; NaN where there are none."""
    key = "relative" if paired else "mean"
    cells: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for row in rows:
        if row["mean"] is not None and not math.isnan(row["mean"]):
            place = lines.index(row[f"param.{down}"]), columns.index(row[f"param.{across}"])
            value = row[key] if row[key] is not None else (0.0 if row["is_baseline"] else math.nan)
            cells.setdefault(place, []).append((row["mean"], value * (100 if paired else 1)))
    shape = len(lines), len(columns)
    means, colours = np.full(shape, np.nan), np.full(shape, np.nan)
    for place, values in cells.items():
        means[place], colours[place] = np.mean(values, axis=0)
    return means, colours


def _heat_panel(axes: Axes, means: Any, colours: Any, head: RankingHead, *, paired: bool) -> Any:
    if paired:
        # Blue is better, orange-red is worse, whichever direction the objective has. One field that
        # is far worse than the rest would wash out all others, so the scale ends at ±100 %.
        largest = min(_FARTHEST, float(np.nanmax(np.abs(colours), initial=1.0)))
        norm: Normalize = TwoSlopeNorm(0, -largest, largest)
        colour_map = "RdBu_r" if head.direction == "min" else "RdBu"
    else:
        finite = colours[~np.isnan(colours)]
        norm = Normalize(float(finite.min()), float(finite.max())) if finite.size else Normalize(0.0, 1.0)
        colour_map = "cividis_r" if head.direction == "min" else "cividis"
    places = range(means.shape[1]), range(means.shape[0])
    image = axes.pcolormesh(*places, colours, norm=norm, cmap=colour_map, edgecolors="white", linewidth=2)
    axes.invert_yaxis()
    axes.grid(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for (line, column), value in np.ndenumerate(means):
        red, green, blue, _ = image.cmap(norm(colours[line, column]))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        text = number_text(float(value), 3)
        if paired and not math.isnan(value):
            text += f"\n{percent_text(float(colours[line, column]) / 100)}"
        axes.text(
            column,
            line,
            text,
            ha="center",
            va="center",
            fontsize=8.5,
            linespacing=1.25,
            color="white" if dark and not math.isnan(value) else "#222222",
        )
    return image


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
        scale_axis(axes, which, [] if front.overall else values[:, number])
