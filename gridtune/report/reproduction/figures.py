"""Figures of publications, drawn from a sweep's results as they are declared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from gridtune.core import style
from gridtune.core.cells import CellResult
from gridtune.core.reproduction import Panel, PaperFigure, Reproduction, Series
from gridtune.statistics.inference import bootstrap_interval
from gridtune.types import AnyArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridtune.core.system import FinishedSweep

#: Panels beside each other, and the size of one.
_ABREAST, _WIDTH, _HEIGHT = 3, 4.2, 3.5
#: Lines with more points than this have no markers.
_MOST_MARKERS = 30
#: The part of all rows that `Panel.largest` draws at most.
_LARGEST_PART = 0.2


#: The finished cells of a configuration on a workload, a replicate each.
_Row = Sequence[CellResult]


class _Points(NamedTuple):
    """Points of one series; `low` and `high`: ends of bars, NaN without."""

    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, x: Iterable[Any], y: Iterable[Any]) -> _Points:
        places, values = np.asarray(list(x), np.float64), np.asarray(list(y), np.float64)
        return cls(places, values, np.full(len(values), np.nan), np.full(len(values), np.nan))

    @classmethod
    def binned(cls, x: FloatArray, y: FloatArray, begins: Sequence[float]) -> _Points:
        """Return median and quartiles of y in classes of x, by the number of the class."""
        place = np.searchsorted(begins, x, side="right") - 1
        points = [
            (number, *np.quantile(y[(place == number) & np.isfinite(x)], (0.5, 0.25, 0.75)))
            for number in range(len(begins))
            if np.any((place == number) & np.isfinite(x))
        ]
        return cls(*np.array(points, np.float64).reshape(-1, 4).T)


def draw_figures(reproductions: Iterable[Reproduction], sweep: FinishedSweep) -> list[Path]:
    """Draw the figures that are declared for a sweep's search space, and return their paths.

    A figure is left out if the sweep has none of its points.

    Parameters
    ----------
    reproductions
        The declarations of a system.
    sweep
        The results; the figures go into `plots/` of its folder.
    """
    drawn = []
    for reproduction in reproductions:
        for figure in reproduction.figures:
            space = reproduction.experiments[figure.experiment].space
            path = sweep.directory / "plots" / figure.file
            if Path(space).stem == sweep.name and _draw(figure, sweep, path):
                drawn.append(path)
    return drawn


def _draw(figure: PaperFigure, sweep: FinishedSweep, path: Path) -> bool:
    configurations: dict[tuple[str, str], list[CellResult]] = {}
    for cell in sweep.results:
        if cell.state == "done":
            configurations.setdefault((cell.workload, cell.configuration_id), []).append(cell)
    rows = list(configurations.values())
    tables: dict[str, Any] = {}
    panels = [
        (panel, [_points(panel, _selected(series, panel, rows), sweep, tables) for series in figure.series])
        for panel in figure.panels
    ]
    panels = [(panel, lines) for panel, lines in panels if any(len(line.x) for line in lines)]
    if not panels:
        return False
    columns = min(len(panels), _ABREAST)
    lines_of_panels = -(-len(panels) // columns)
    size = _WIDTH * columns + 2.0, _HEIGHT * lines_of_panels
    with style.figure(*size, lines_of_panels, ncols=columns, squeeze=False) as (drawing, grid):
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, (panel, lines) in zip(grid.flat, panels, strict=False):
            _draw_panel(axes, panel, figure.series, lines)
        drawing.suptitle(figure.title, x=0.01, ha="left", fontweight="bold")
        names = {
            name: handle
            for axes in grid.flat
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if len(figure.series) > 1:
            drawing.legend(names.values(), names.keys(), loc="outside right upper")
        style.save(drawing, path)
    return True


def _selected(series: Series, panel: Panel, rows: Sequence[_Row]) -> list[_Row]:
    def value_of(row: _Row, name: str) -> Any:
        return row[0].workload if name == "workload" else row[0].parameters.get(name)

    wanted = [*series.where.items(), *panel.where.items()]
    return [row for row in rows if all(value_of(row, name) == value for name, value in wanted)]


def _points(panel: Panel, rows: Sequence[_Row], sweep: FinishedSweep, tables: dict[str, Any]) -> _Points:
    """Return the points of a series in a panel; `tables`: those of the cells that were run again so far."""
    if not rows:
        return _Points.of([], [])
    if panel.table:
        points = _of_columns(panel, rows[0], sweep, tables)
    elif panel.y in rows[0][0].metrics:
        points = _of_metrics(panel, rows)
    else:
        points = _of_notes(panel, rows[0])
    x, *others = points
    return _Points(x * panel.x_factor, *(values * panel.y_factor for values in others))


def _values(row: _Row, metric: str) -> FloatArray:
    return np.array([cell.metrics.get(metric, np.nan) for cell in row])


def _place(row: _Row, name: str) -> Any:
    """Return the value of a parameter, or the mean of a metric; None without either."""
    if name in row[0].metrics:
        return np.nanmean(_values(row, name))
    return row[0].parameters.get(name)


def _of_metrics(panel: Panel, rows: Sequence[_Row]) -> _Points:
    """Return the mean of each configuration over its replicates, by a parameter or another metric."""
    points = []
    for number, row in enumerate(rows):
        values = _values(row, panel.y)
        if panel.over:
            values = values / np.nanmean(_values(row, panel.over))
        values = values[np.isfinite(values)]
        place = _place(row, panel.x) if panel.x else number + 1
        if len(values) and place is not None and np.isfinite(place):
            interval = bootstrap_interval(values, rng=np.random.default_rng(0))
            points.append((place, values.mean(), interval.low, interval.high))
    return _Points(*np.array(sorted(points), np.float64).reshape(-1, 4).T)


def _of_notes(panel: Panel, row: _Row) -> _Points:
    """Return the means over replicates of the numbers in a note, by their places."""
    if not all(result.notes.get(name) for name in filter(None, (panel.y, panel.over)) for result in row):
        return _Points.of([], [])

    def means(name: str) -> FloatArray:
        noted = [result.notes[name] for result in row]
        shortest = min(map(len, noted), default=0)
        return np.array([numbers[:shortest] for numbers in noted], np.float64).mean(axis=0)

    values = means(panel.y)
    if panel.over:
        values = values / means(panel.over)
    if len(values) < panel.mean_of:
        return _Points.of([], [])
    values = np.convolve(values, np.ones(panel.mean_of) / panel.mean_of, "valid")
    return _Points.of(range(1, len(values) + 1), values)


def _of_columns(panel: Panel, row: _Row, sweep: FinishedSweep, tables: dict[str, Any]) -> _Points:
    """Return points made of columns of the table of a configuration's runs."""
    cells = row if panel.joined else row[:1]
    for cell in cells:
        if cell.cell_id not in tables:
            tables[cell.cell_id] = sweep.tables_of(cell)
    parts = [tables[cell.cell_id].get(panel.table) for cell in cells]

    def column(name: str) -> AnyArray:
        return np.concatenate(
            [np.asarray(part[name].to_numpy(zero_copy_only=False), np.float64) for part in parts]
        )

    if any(part is None for part in parts):
        return _Points.of([], [])
    y = column(panel.y)
    kept = np.isfinite(y)
    for name, value in panel.rows.items():
        kept &= column(name) == value
    if panel.largest is not None:
        name, most = panel.largest
        order = np.argsort(-np.nan_to_num(np.where(kept, column(name), -np.inf), nan=-np.inf), kind="stable")
        most = max(1, min(most, int(_LARGEST_PART * kept.sum())))
        kept[order[most:]] = False
    y = y[kept]
    if panel.kind == "shares":
        return _Points.of(np.sort(y), np.arange(1, len(y) + 1) / max(len(y), 1))
    x = column(panel.x)[kept] if panel.x else np.arange(1, len(y) + 1, dtype=np.float64)
    if panel.kind == "bins":
        return _Points.binned(x, y, panel.bins)
    return _Points.of(x, np.cumsum(y) if panel.sum_up else y)


def _draw_panel(axes: Axes, panel: Panel, series: Sequence[Series], lines: Sequence[_Points]) -> None:
    for number, (one, points) in enumerate(zip(series, lines, strict=True)):
        look: dict[str, Any] = {"color": style.PALETTE[number % len(style.PALETTE)], "label": one.label}
        marker = style.MARKERS[number % len(style.MARKERS)]
        x, y, low, high = points
        if not len(x):
            continue
        if panel.kind == "points":
            axes.plot(x, y, linestyle="", marker=marker, markersize=4, **look)
        elif panel.kind == "shares":
            axes.step(x, y, where="post", **look)
        elif panel.kind == "lines" and not np.isfinite(low).any():
            axes.plot(x, y, marker=marker if len(x) <= _MOST_MARKERS else "", **look)
        else:
            ends = np.maximum([y - low, high - y], 0.0)
            if panel.kind == "bars":
                width = 0.8 / len(series)
                axes.bar(x + (number - (len(series) - 1) / 2) * width, y, width, **look)
            else:
                axes.errorbar(x, y, ends, marker=marker, capsize=3, **look)
    if panel.kind == "bars":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.kind == "bins":
        axes.set_xticks(range(len(panel.bins)), [f"{begin:g}" for begin in panel.bins])
    for which in panel.logarithmic:
        axes.set(**{f"{which}scale": "log"})
    shares = panel.kind == "shares"
    axes.set(xlabel=panel.y_label if shares else panel.x_label)
    axes.set(ylabel="share of them that are no larger" if shares else panel.y_label)
    style.head(axes, panel.title)
