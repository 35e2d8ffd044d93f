"""Every configuration against best effort, beside the published figures, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gridtune.report.gap import gap_to_bound
from gridtune.statistics.inference import paired_difference
from gridtune.systems.provisioning.metrics import HOUR
from gridtune.systems.provisioning.published import PUBLISHED
from gridtune.systems.provisioning.report.distances import (
    FrontDistance,
    distances_csv,
    distances_markdown,
    front_distances,
)
from gridtune.systems.provisioning.report.rows import COSTS, Row, dimensions, label

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep, PublishedFigure

__all__ = ["comparison_csv", "comparison_markdown", "write_comparison"]

_COSTS = {metric: unit for metric, unit, _ in COSTS}
_SHARES = ("feasible", "workflow_makespan_no_worse", "cost_within_tenth", "both_no_worse")
_OTHERS = (
    "workflow_makespan_bound",
    "allocation_cost_bound",
    "hypervolume",
    "front",
    "feasible_plans",
    "slots",
    "offered_load",
    "utilisation",
)
_LEGEND = (
    "Means ± standard deviations over submissions where a plan was found. “Against best effort” is the "
    "ratio of the means on the same submissions, minus 1, with its 95 % bootstrap interval. Shares are "
    "of those submissions: makespan no worse than best effort's, cost within a tenth of it, neither worse. "
    "Gap: how far the mean makespan is above a lower bound, which no plan undercuts."
)


def write_comparison(sweep: FinishedSweep, rows: Sequence[Row]) -> list[Path]:
    """Write `submissions.md` and `submissions.csv`, and `front_distances.csv` where searches differ."""
    text, table = sweep.directory / "submissions.md", sweep.directory / "submissions.csv"
    paths, distances = [text, table], front_distances(rows)
    text.write_text(comparison_markdown(rows, sweep.name, distances), encoding="utf-8")
    table.write_text(comparison_csv(rows), encoding="utf-8")
    if distances:
        paths.append(sweep.directory / "front_distances.csv")
        paths[-1].write_text(distances_csv(distances), encoding="utf-8")
    return paths


def comparison_markdown(rows: Sequence[Row], name: str, distances: Sequence[FrontDistance]) -> str:
    """Return a table for each workload, one of IGD+, and the published figures for the sweep."""
    parts = ["# Submissions\n\n" + _LEGEND]
    for workload in dict.fromkeys(row.workload for row in rows):
        parts.append(f"## {workload}\n\n" + "\n".join(_table([r for r in rows if r.workload == workload])))
    if distances:
        parts.append(distances_markdown(distances))
    space = name.removeprefix("provisioning_")
    figures = [figure for key, figure in PUBLISHED.items() if key.startswith(f"{space}/")]
    if figures:
        lines = [f"| {figure.quantity} | {_published(figure)} | {figure.source} |" for figure in figures]
        head = "## Published\n\nOn the log of CTC SP2, 430 nodes.\n\n"
        parts.append(head + "\n".join(["| quantity | published | source |", "| --- | ---: | --- |", *lines]))
    return "\n\n".join(parts) + "\n"


def _published(figure: PublishedFigure) -> str:
    if figure.unit == "s":
        return f"{figure.value / HOUR:.1f} h ({figure.value:,g} s)"
    if figure.unit == "%":
        return f"{figure.value:+g} %".replace("-", "−")
    return f"{figure.value:,g}"


def _table(rows: Sequence[Row]) -> list[str]:
    names = dimensions(rows)
    compared = not all(np.isnan(row.values("workflow_makespan_best_effort")).all() for row in rows)
    heads = ["configuration", "n", "makespan, h", "gap", "cost, SU", "hypervolume", "slots", "load"]
    if compared:
        heads[5:6] = ["makespan against best effort", "cost against it", "no worse", "within 1/10", "neither"]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for row in rows:
        makespan, cost = (_spread(row, metric) for metric in _COSTS)
        cells = [label(row, names), str(_planned(row)), makespan, _gap(row), cost]
        if compared:
            cells += [_change(row, cost) for cost in _COSTS]
            cells += [_percent(row.mean(share)) for share in _SHARES[1:]]
        else:
            cells.append(_number(row.mean("hypervolume"), 4))
        cells += [_number(row.mean("slots"), 1), _percent(row.mean("offered_load"))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _planned(row: Row) -> int:
    """Return the number of submissions with a plan."""
    return int((~np.isnan(row.values("workflow_makespan"))).sum())


def _spread(row: Row, cost: str) -> str:
    unit = _COSTS[cost]
    return f"{_number(row.mean(cost) / unit, 1)} ± {_number(row.spread(cost) / unit, 1)}"


def _gap(row: Row) -> str:
    """Return by how much the mean makespan is above that of its bound."""
    bounds = row.values("workflow_makespan_bound")[None]
    (gap,) = gap_to_bound(row.values("workflow_makespan")[None], bounds, "min").tolist()
    return "–" if math.isnan(gap) else f"{100 * gap:+.1f} %"


def _change(row: Row, cost: str) -> str:
    rng = np.random.default_rng(0)
    difference = paired_difference(row.values(cost), row.values(f"{cost}_best_effort"), rng=rng)
    if row.best_effort or math.isnan(float(difference.relative)):
        return "–"
    low, high = 100 * float(difference.relative_low), 100 * float(difference.relative_high)
    return f"{100 * float(difference.relative):+.1f} % ({low:+.1f} … {high:+.1f})".replace("-", "−")


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.0f} %"


def comparison_csv(rows: Sequence[Row]) -> str:
    """Return every row with means and standard deviations of its metrics."""
    names, target = dimensions(rows), io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    spreads = [f"{cost}_sd" for cost in _COSTS]
    references = [f"{cost}_best_effort" for cost in _COSTS]
    means = [*_COSTS, *references, *_SHARES, *_OTHERS]
    writer.writerow(["workload", *names, "submissions", "planned", *means, *spreads])
    for row in rows:
        values = [row.parameters.get(name, "") for name in names]
        figures = [*(row.mean(metric) for metric in means), *(row.spread(cost) for cost in _COSTS)]
        writer.writerow([row.workload, *values, len(row), _planned(row), *figures])
    return target.getvalue()
