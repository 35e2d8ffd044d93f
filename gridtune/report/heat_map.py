"""A heat map of a ranking over two parameters."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm

from gridtune.core import style
from gridtune.report.labels import distinct, number_text, percent_text, value_text, varying_parameters
from gridtune.report.plots import FARTHEST
from gridtune.report.ranking import RankingHead, ranking_head, strata

__all__ = ["plot_heat_map"]


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
            panel.set_xticks(range(len(columns)), [_wrapped(value_text(value)) for value in columns])
            panel.set_yticks(range(len(lines)), [value_text(value) for value in lines])
            panel.set_xlabel(across)
            panel.set_ylabel(down)
            bar = drawing.colorbar(
                image, ax=panel, aspect=24, extend=_extend(colours) if paired else "neither"
            )
            bar.outline.set_visible(False)
            bar.set_label("difference to the baseline, %" if paired else head.axis)
            over = f", mean over {', '.join(others)}" if others else ""
            # Small print wider than its panel would leave the panels no room.
            title = textwrap.fill(f"{head.axis}{over}; {head.better} is better", int(8 * width))
            style.head(panel, name, title)
        return style.save(drawing, path)


def _wrapped(text: str) -> str:
    """Break a long name at its hyphens, so that neighbours do not run into each other."""
    return text.replace("-", "-\n") if len(text) > 12 else text


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


def _extend(colours: Any) -> str:
    # A workload without a single value still has its panel, of empty fields.
    ends = bool((colours < -FARTHEST).any()), bool((colours > FARTHEST).any())
    return {(False, False): "neither", (True, False): "min", (False, True): "max"}.get(ends, "both")


def _field_text(mean: float, difference: float, *, paired: bool) -> str:
    if math.isnan(mean) or not paired:
        return number_text(mean, 3)
    return f"{number_text(mean, 3)}\n{percent_text(difference / 100)}"


def _heat_panel(axes: Axes, means: Any, colours: Any, head: RankingHead, *, paired: bool) -> Any:
    if paired:
        # Blue is better, orange-red is worse, whichever direction the objective has. One field that
        # is far worse than the rest would wash out all others, so the scale ends at ±100 %.
        largest = min(FARTHEST, float(np.nanmax(np.abs(colours), initial=1.0)))
        norm: Normalize = TwoSlopeNorm(0, -largest, largest)
        colour_map = "RdBu_r" if head.direction == "min" else "RdBu"
    else:
        finite = colours[~np.isnan(colours)]
        norm = Normalize(float(finite.min()), float(finite.max())) if finite.size else Normalize(0.0, 1.0)
        colour_map = "cividis_r" if head.direction == "min" else "cividis"
    image = axes.imshow(colours, norm=norm, cmap=colour_map, aspect="auto")
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xticks(np.arange(means.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(means.shape[0] + 1) - 0.5, minor=True)
    axes.grid(True, which="minor", color="white", linewidth=2)
    axes.tick_params(which="minor", length=0)
    for (line, column), value in np.ndenumerate(means):
        red, green, blue, _ = image.cmap(norm(colours[line, column]))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        axes.text(
            column,
            line,
            _field_text(float(value), float(colours[line, column]), paired=paired),
            ha="center",
            va="center",
            fontsize=8.5,
            linespacing=1.25,
            color="white" if dark and not math.isnan(value) else "#222222",
        )
    return image
