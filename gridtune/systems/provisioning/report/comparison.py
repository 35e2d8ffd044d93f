"""Every configuration against best effort, and what the paper says, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gridtune.statistics.inference import paired_difference
from gridtune.systems.provisioning.report.distances import (
    FrontDistance,
    distances_csv,
    distances_markdown,
    front_distances,
)
from gridtune.systems.provisioning.report.published import PUBLISHED, PUBLISHED_ON
from gridtune.systems.provisioning.report.rows import Row, dimensions, label

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["comparison_csv", "comparison_markdown", "write_comparison"]

_COSTS = ("makespan", "allocation_cost")
_SHARES = ("feasible", "makespan_no_worse", "cost_within_tenth", "both_no_worse")
_OTHERS = ("hypervolume", "front", "feasible_plans", "slots", "offered_load", "utilisation")
_LEGEND = (
    "Means ± standard deviations over submissions, where a plan was found. “Against best effort” is the "
    "ratio of the means on the same submissions, less 1, with its 95 % bootstrap interval. Shares are "
    "of those submissions: makespan no worse than best effort's, cost within a tenth of it, neither worse."
)


def write_comparison(sweep: FinishedSweep, rows: Sequence[Row]) -> list[Path]:
    """Write `submissions.md` and `submissions.csv`; where searches differ, `front_distances.csv`, too."""
    text, table = sweep.directory / "submissions.md", sweep.directory / "submissions.csv"
    paths, found = [text, table], front_distances(rows)
    text.write_text(comparison_markdown(rows, sweep.name, found), encoding="utf-8")
    table.write_text(comparison_csv(rows), encoding="utf-8")
    if found:
        paths.append(sweep.directory / "front_distances.csv")
        paths[-1].write_text(distances_csv(found), encoding="utf-8")
    return paths


def comparison_markdown(rows: Sequence[Row], name: str, found: Sequence[FrontDistance]) -> str:
    """Return a table for each workload, one of IGD+, and the paper's figures for the sweep of that name."""
    parts = ["# Submissions\n\n" + _LEGEND]
    for workload in dict.fromkeys(row.workload for row in rows):
        mine = [row for row in rows if row.workload == workload]
        parts.append(f"## {workload}\n\n" + "\n".join(_table(mine)))
    if found:
        parts.append(distances_markdown(found))
    published = [each for each in PUBLISHED if name == f"provisioning_{each.experiment}"]
    if published:
        lines = [f"| {each.what} | {each.value} | {each.source} |" for each in published]
        head = f"## Published\n\nSingh, Kesselman, Deelman, HPDC 2007, on {PUBLISHED_ON}.\n\n"
        parts.append(head + "\n".join(["| what | published | where |", "| --- | ---: | --- |", *lines]))
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Row]) -> list[str]:
    names = dimensions(rows)
    against = not all(np.isnan(row.values("makespan_best_effort")).all() for row in rows)
    heads = ["configuration", "n", "makespan, h", "cost, SU", "hypervolume", "slots", "load"]
    if against:
        heads[4:5] = ["makespan against best effort", "cost against it", "no worse", "within 1/10", "neither"]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for row in rows:
        cells = [label(row, names), str(_found(row)), *(_spread(row, cost) for cost in _COSTS)]
        if against:
            cells += [_change(row, cost) for cost in _COSTS]
            cells += [_percent(row.mean(share)) for share in _SHARES[1:]]
        else:
            cells.append(_number(row.mean("hypervolume"), 4))
        cells += [_number(row.mean("slots"), 1), _percent(row.mean("offered_load"))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _found(row: Row) -> int:
    return int((~np.isnan(row.values("makespan"))).sum())


def _spread(row: Row, metric: str) -> str:
    return f"{_number(row.mean(metric), 1)} ± {_number(row.spread(metric), 1)}"


def _change(row: Row, cost: str) -> str:
    rng = np.random.default_rng(0)
    found = paired_difference(row.values(cost), row.values(f"{cost}_best_effort"), rng=rng)
    if row.queued or math.isnan(float(found.relative)):
        return "–"
    low, high = 100 * float(found.relative_low), 100 * float(found.relative_high)
    return f"{100 * float(found.relative):+.1f} % ({low:+.1f} … {high:+.1f})".replace("-", "−")


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
        stated = [row.parameters.get(name, "") for name in names]
        figures = [*(row.mean(metric) for metric in means), *(row.spread(cost) for cost in _COSTS)]
        writer.writerow([row.workload, *stated, len(row), _found(row), *figures])
    return target.getvalue()
