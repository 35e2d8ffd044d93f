"""Tables: configurations against best effort, and the distances of fronts, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridtune.report.cells import ConfigurationRow, by_configuration
from gridtune.report.derived import gap_to_bound
from gridtune.report.labels import configuration_label, number_text
from gridtune.statistics.inference import bootstrap_interval, paired_difference
from gridtune.statistics.pareto import Scale, igd_plus, merge_fronts
from gridtune.systems.provisioning.metrics import HOUR
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.systems.provisioning.reproduction import PUBLISHED
from gridtune.types import FloatArray

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult
    from gridtune.core.system import FinishedSweep, PublishedFigure

__all__ = [
    "COSTS",
    "FIELDS",
    "FrontDistance",
    "Row",
    "by_value",
    "comparison_csv",
    "comparison_markdown",
    "dimensions",
    "distances_csv",
    "distances_markdown",
    "front_distances",
    "label",
    "rows_of",
    "varying",
    "write_comparison",
]

#: Each cost of a plan: its metric, the unit of tables and figures, and the label of an axis.
COSTS = (("workflow_makespan", HOUR, "makespan, hours"), ("allocation_cost", 1, "allocation cost, SU"))
#: The system's parameters by name.
FIELDS = ProvisioningParameters.model_fields


class Row(ConfigurationRow):
    """One configuration on one workload; a cell is a submission."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parameter; if the configuration does not set it, `default` or the system's default."""
        return super().get(name, FIELDS[name].default if default is None else default)

    @property
    def best_effort(self) -> bool:
        """Whether it is best effort."""
        return bool(self.get("approach") == "best_effort")

    def quantiles(self, metric: str) -> tuple[float, float]:
        """Return the 10 % and the 90 % quantile over the submissions."""
        values = self.values(metric)
        values = values[~np.isnan(values)]
        low, high = np.quantile(values, (0.1, 0.9)) if len(values) else (np.nan, np.nan)
        return float(low), float(high)

    def percent(self, metric: str) -> float:
        """Return the mean of a cost in percent of that of best effort, over the submissions with a plan."""
        ours, theirs = self.values(metric), self.values(f"{metric}_best_effort")
        both = ~(np.isnan(ours) | np.isnan(theirs))
        return float(100 * ours[both].mean() / theirs[both].mean()) if both.any() else float("nan")


def rows_of(results: Iterable[CellResult]) -> list[Row]:
    """Return a row for each configuration with a finished cell, in the order of the sweep."""
    grouped = by_configuration(results)
    return [Row(cells[0].workload, cells[0].configuration, cells) for cells in grouped]


def varying(rows: Sequence[Row], name: str) -> bool:
    """Return whether a parameter has more than one value."""
    return len({row.get(name) for row in rows}) > 1


def by_value(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    """Return the rows by the value of a parameter, `workload` included, in the order of the sweep."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.workload if name == "workload" else row.get(name), []).append(row)
    return groups


def dimensions(rows: Sequence[Row]) -> list[str]:
    """Return the parameters that configurations set and differ in, in the order of the sweep."""
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    return [name for name in names if varying(rows, name)]


def label(row: Row, names: Sequence[str]) -> str:
    """Return the label of a configuration, without the parameters that it does not set."""
    return configuration_label({name: row.parameters.get(name) for name in names}, names)


#: Parameters of the search and the scheduler, not of the problem: cells that differ in these alone search one
#: problem, and their fronts can be compared.
_SCHEDULING = ("scheduler", "cross_slot", "extend")
_EFFORT = ("population", "iterations", "evaluations")
_MOGA = ("crossover_points", "crossover_rate", "mutation")
_SEARCH = frozenset(
    (*_SCHEDULING, *_MOGA, *_EFFORT, "search", "seeded", "release", "checkpoint", "pilot_widths", "alpha")
)
_LEGEND = (
    "IGD+ of each configuration's front: the mean distance by which it falls short of the merged front of "
    "all configurations in this table for the same problem and submission. Both costs are normalised to "
    "[0, 1] over the fronts compared, not over the hypervolume's rectangle. Smaller is better; 0 means that "
    "all plans of the merged front were found. Means over submissions with 95 % bootstrap intervals; a "
    "submission without a plan has no distance and is counted instead."
)


@dataclass(frozen=True, eq=False)
class FrontDistance:
    """A configuration's distances.

    Attributes
    ----------
    row
        The configuration.
    values
        Shape (n,): IGD+ on each replicate that all configurations compared have finished; in parts of the
        range of each cost over the fronts compared; NaN where no plan was found.
    """

    row: Row
    values: FloatArray

    @property
    def without_plan(self) -> int:
        """The number of replicates on which it found no plan."""
        return int(np.isnan(self.values).sum())

    @property
    def mean(self) -> float:
        """Over the replicates with a plan; NaN of none."""
        return float(np.nanmean(self.values)) if self.without_plan < len(self.values) else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of the mean; NaN of fewer than two replicates."""
        low, high = bootstrap_interval(self.values, rng=np.random.default_rng(0))
        return float(low), float(high)


def front_distances(rows: Sequence[Row]) -> list[FrontDistance]:
    """Return IGD+ of every configuration that searched the same problem as another one.

    On each replicate the fronts of the configurations compared are merged, and each is compared with the
    merged front. The scale is `Scale.of` all fronts compared. The rectangle of the metric `hypervolume` would
    not do: it belongs to one cell and changes with the scheduler. Configurations that differ in `alpha` alone
    have one front and count as one, the first. Replicates that one of them lacks are left out.
    """
    problems: dict[str, dict[str, Row]] = {}
    for row in rows:
        if not row.best_effort:
            fronts = problems.setdefault(_key(row, without=_SEARCH), {})
            fronts.setdefault(_key(row, without=frozenset({"alpha"})), row)
    groups = [list(fronts.values()) for fronts in problems.values() if len(fronts) > 1]
    return [distance for group in groups for distance in _compare(group)]


def _key(row: Row, without: frozenset[str]) -> str:
    """Return the configuration as text, with defaults, without the parameters named."""
    values = {
        name: row.parameters.get(name, field.default) for name, field in FIELDS.items() if name not in without
    }
    return json.dumps(values, default=str, sort_keys=True)


def _compare(rows: Sequence[Row]) -> list[FrontDistance]:
    by_row = [{(cell.replicate, cell.seed): _front(cell.notes) for cell in row.results} for row in rows]
    shared = [replicate for replicate in by_row[0] if all(replicate in fronts for fronts in by_row)]
    values = np.array([_distances([fronts[replicate] for fronts in by_row]) for replicate in shared])
    columns = values.reshape(len(shared), len(rows)).T
    return [FrontDistance(row, column) for row, column in zip(rows, columns, strict=True)]


def _front(notes: Mapping[str, object]) -> FloatArray:
    return np.array(notes.get("front", []), np.float64).reshape(-1, 2)


def _distances(fronts: Sequence[FloatArray]) -> list[float]:
    if not any(len(front) for front in fronts):
        return [math.nan] * len(fronts)
    merged, _ = merge_fronts(fronts)
    # A plan that several fronts have is listed for each; as a point of the true front it counts once.
    truth, scale = np.unique(merged, axis=0), Scale.of(fronts)
    return [igd_plus(front, truth, scale) for front in fronts]


def distances_csv(distances: Sequence[FrontDistance]) -> str:
    """Return a line for each configuration: submissions, submissions without a plan, mean and interval."""
    rows, target = [distance.row for distance in distances], io.StringIO()
    names = dimensions(rows)
    writer = csv.writer(target, lineterminator="\n")
    figures = ["submissions", "without_plan", "igd_plus", "igd_plus_low", "igd_plus_high"]
    writer.writerow(["workload", *names, *figures])
    for distance in distances:
        row, counts = distance.row, [len(distance.values), distance.without_plan]
        values = [row.parameters.get(name, "") for name in names]
        writer.writerow([row.workload, *values, *counts, distance.mean, *distance.interval])
    return target.getvalue()


def distances_markdown(distances: Sequence[FrontDistance]) -> str:
    """Return the same as a section of a page."""
    rows = [distance.row for distance in distances]
    names = dimensions(rows)
    lines = ["| workload | configuration | n | without a plan | IGD+ | 95 % interval |"]
    lines.append("| --- | --- |" + " ---: |" * 4)
    for distance in distances:
        row, counts = distance.row, [str(len(distance.values)), str(distance.without_plan)]
        low, high = map(number_text, distance.interval)
        cells = [row.workload, label(row, names), *counts, number_text(distance.mean), f"{low} … {high}"]
        lines.append(f"| {' | '.join(cells)} |")
    return f"## Distance to the merged front\n\n{_LEGEND}\n\n" + "\n".join(lines)


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
