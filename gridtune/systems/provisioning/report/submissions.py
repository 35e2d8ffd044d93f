"""Figures of provisioned and best-effort submissions: trade-off, size of tasks, load of the site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridtune.core.style import BASELINE, MARKERS, PALETTE, figure, group_thousands, head, save
from gridtune.systems.provisioning.report.rows import COSTS, Row, by_value, varying

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gridtune.core.system import FinishedSweep

__all__ = ["write_submissions"]

_SPREAD = "means; bars: 10–90 % quantiles of submissions"
_RATIO = "ratio of the means over submissions"
_PERCENT = (
    ("workflow_makespan", "makespan, % of best effort"),
    ("allocation_cost", "allocation cost, % of best effort"),
)


def write_submissions(sweep: FinishedSweep, rows: Sequence[Row]) -> list[Path]:
    """Draw the figures for whose axes the sweep has dimensions, with a row of panels for each workload."""
    planned = [row for row in rows if not row.best_effort]
    by_size, by_load = varying(planned, "task_processors"), varying(planned, "copy_probability")
    drawn: list[tuple[str, Callable[..., None], str]] = []
    subtitles = {"trade_off": _SPREAD, "load": _SPREAD}
    if varying(planned, "alpha") and not (by_size or by_load) and planned[0].get("offers") == "site":
        drawn.append(("trade_off", _trade_off, "Provisioned against best effort, by trade-off factor"))
    if by_size and not by_load:
        drawn.append(("task_size", _task_size, "Wider tasks gain more"))
    if by_load and by_size:
        drawn.append(("load_and_size", _load_and_size, "Gain over the load, by size of tasks"))
    if by_load and not by_size:
        drawn.append(("load", _load, "Provisioned and best effort over the load"))
    folder, paths = sweep.directory / "plots", []
    for name, draw, title in drawn:
        groups = by_value(rows, "workload")
        with figure(11, 3.7 * len(groups), len(groups), ncols=2, squeeze=False) as (drawing, panels):
            for axes, (workload, mine) in zip(panels, groups.items(), strict=True):
                draw(axes, mine)
                heading = f"{title}: {workload}" if len(groups) > 1 else title
                head(axes[0], heading, subtitles.get(name, _RATIO))
                # Lines go from corner to corner: a legend within a panel would cross one.
                axes[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
                for panel in axes:
                    group_thousands(panel.yaxis)
            paths.append(save(drawing, folder / f"provisioning_{name}.png"))
    return paths


def _line(
    axes: Axes, x: Sequence[float], rows: Sequence[Row], cost: tuple[str, float, str], index: int, label: str
) -> None:
    """Draw means, with bars between quantiles: unlike standard deviations, they stay within the costs."""
    metric, unit, _ = cost
    means = [row.mean(metric) / unit for row in rows]
    axes.plot(x, means, color=PALETTE[index], marker=MARKERS[index], label=label)
    # A mean may lie outside its bar, so bars have their own centre.
    low, high = np.array([row.quantiles(metric) for row in rows]).T / unit
    style: dict[str, Any] = {"color": PALETTE[index], "capsize": 3, "elinewidth": 0.9, "fmt": "none"}
    axes.errorbar(x, (low + high) / 2, (high - low) / 2, **style)


def _trade_off(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Makespan and cost over α, with best effort as a level (figure 5)."""
    planned, best_effort = [r for r in rows if not r.best_effort], [r for r in rows if r.best_effort]
    alpha = [row.get("alpha") for row in planned]
    for axes, cost in zip(panels, COSTS, strict=True):
        metric, unit, label = cost
        _line(axes, alpha, planned, cost, 0, "provisioned")
        for row in best_effort[:1]:
            axes.axhline(row.mean(metric) / unit, color=BASELINE, label="best effort", lw=1.4)
            band: dict[str, Any] = {"color": BASELINE, "alpha": 0.1, "lw": 0}
            low, high = row.quantiles(metric)
            axes.axhspan(low / unit, high / unit, label="best effort, 10–90 %", **band)
        axes.set(xlabel="trade-off factor α: 0 makespan alone, 1 cost alone", ylabel=label)


def _percent_line(
    axes: Axes, x: Sequence[float], rows: Sequence[Row], metric: str, style: int, label: str
) -> None:
    y = [row.percent(metric) for row in rows]
    axes.plot(x, y, color=PALETTE[style], marker=MARKERS[style], label=label)


def _finish(axes: Axes, xlabel: str, ylabel: str) -> None:
    axes.axhline(100, color=BASELINE, lw=1.2)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.margins(y=0.15)


def _task_size(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Makespan and cost relative to best effort over the size of tasks, for each α (figure 6)."""
    for axes, (metric, label) in zip(panels, _PERCENT, strict=True):
        for index, (alpha, mine) in enumerate(
            by_value((r for r in rows if not r.best_effort), "alpha").items()
        ):
            sizes = [row.get("task_processors") for row in mine]
            _percent_line(axes, sizes, mine, metric, index, f"α = {alpha:g}")
        _finish(axes, "mean processors of a task", label)


def _load_and_size(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Makespan and cost relative to best effort over the load, for each size of tasks (figure 7)."""
    planned = [row for row in rows if not row.best_effort]
    for axes, (metric, label) in zip(panels, _PERCENT, strict=True):
        for index, (size, mine) in enumerate(by_value(planned, "task_processors").items()):
            load = [100 * row.mean("offered_load") for row in mine]
            _percent_line(axes, load, mine, metric, index, f"{size:g} processors")
        _finish(axes, "offered load of the site, %", label)


def _load(panels: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Makespan and cost over the load (figure 9)."""
    for axes, cost in zip(panels, COSTS, strict=True):
        for index, (approach, mine) in enumerate(by_value(rows, "approach").items()):
            load = [100 * row.mean("offered_load") for row in mine]
            _line(axes, load, mine, cost, index, approach.replace("_", " "))
        axes.set(xlabel="offered load of the site, %", ylabel=cost[2])
        axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
