"""Tables: configurations against best effort, and the distances of fronts, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridtune.report.labels import configuration_label, markdown_table, number_text
from gridtune.report.rankings.cells import ConfigurationRow, gap_to_bound
from gridtune.statistics.inference import bootstrap_interval, paired_difference
from gridtune.statistics.pareto import Scale, igd_plus, merge_fronts
from gridtune.systems.provisioning.metrics import HOUR
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.systems.provisioning.reproduction import PUBLISHED
from gridtune.types import FloatArray

if TYPE_CHECKING:
    from gridtune.core.reproduction import PublishedFigure
    from gridtune.core.system import FinishedSweep

__all__ = [
    "COSTS",
    "Row",
    "by_value",
    "comparison_markdown",
    "front_distances",
    "varying",
    "write_comparison",
]

#: Each cost of a plan: its metric, the unit of tables and figures, and the label of an axis.
COSTS = (("workflow_makespan", HOUR, "makespan, hours"), ("allocation_cost", 1, "allocation cost, SU"))
_FIELDS = ProvisioningParameters.model_fields


class Row(ConfigurationRow):
    """One configuration on one workload; a cell is a submission."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parameter; if the configuration does not set it, `default` or the system's default."""
        return super().get(name, _FIELDS[name].default if default is None else default)

    @property
    def best_effort(self) -> bool:
        """True if it is best effort."""
        return bool(self.get("approach") == "best_effort")

    @property
    def planned(self) -> int:
        """The number of submissions with a plan."""
        return len(self._finite("workflow_makespan"))

    def quantiles(self, metric: str) -> tuple[float, float]:
        """Return the 10 % and the 90 % quantile over the submissions."""
        values = self._finite(metric)
        low, high = np.quantile(values, (0.1, 0.9)) if len(values) else (np.nan, np.nan)
        return float(low), float(high)

    def percent(self, metric: str) -> float:
        """Return the mean of a cost in percent of that of best effort, over the submissions with a plan."""
        ours, theirs = self.values(metric), self.values(f"{metric}_best_effort")
        both = ~(np.isnan(ours) | np.isnan(theirs))
        return float(100 * ours[both].mean() / theirs[both].mean()) if both.any() else float("nan")


def varying(rows: Sequence[Row], name: str) -> bool:
    """Return whether a parameter has more than one value."""
    return len({row.get(name) for row in rows}) > 1


def by_value(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    """Return the rows by the value of a parameter, `workload` included, in the order of the sweep."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.workload if name == "workload" else row.get(name), []).append(row)
    return groups


def _dimensions(rows: Sequence[Row]) -> list[str]:
    """Return the parameters that configurations set and differ in, in the order of the sweep."""
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    return [name for name in names if varying(rows, name)]


def _labels(rows: Sequence[Row]) -> list[str]:
    """Return the labels of configurations, each without the parameters that it does not set."""
    names = _dimensions(rows)
    return [configuration_label({name: row.parameters.get(name) for name in names}, names) for row in rows]


def _csv(rows: Sequence[Row], figures: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each configuration: its workload, its parameters and its figures."""
    names, target = _dimensions(rows), io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(["workload", *names, *figures[0]])
    for row, line in zip(rows, figures, strict=True):
        writer.writerow([row.workload, *(row.parameters.get(name, "") for name in names), *line.values()])
    return target.getvalue()


#: Parameters of the search and the scheduler, not of the problem: cells that differ in these alone search one
#: problem, and their fronts can be compared.
_SEARCH = {
    *("scheduler", "cross_slot", "extend", "search", "seeded", "release", "checkpoint", "pilot_widths"),
    *("population", "iterations", "evaluations", "crossover_points", "crossover_rate", "mutation", "alpha"),
}
_DISTANCE = (
    "IGD+ of each configuration's front: the mean distance by which it falls short of the merged front of "
    "all configurations in this table for the same problem and submission. Both costs are normalised to "
    "[0, 1] over the fronts compared, not over the hypervolume's rectangle. Smaller is better; 0 means that "
    "all plans of the merged front were found. Means over submissions with 95 % bootstrap intervals; a "
    "submission without a plan has no distance and is counted instead."
)


@dataclass(frozen=True, eq=False)
class _FrontDistance:
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


def front_distances(rows: Sequence[Row]) -> list[_FrontDistance]:
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


def _key(row: Row, without: Collection[str]) -> str:
    """Return the configuration as text, with defaults, without the parameters named."""
    values = {
        name: row.parameters.get(name, field.default)
        for name, field in _FIELDS.items()
        if name not in without
    }
    return json.dumps(values, default=str, sort_keys=True)


def _compare(rows: Sequence[Row]) -> list[_FrontDistance]:
    by_row = [
        {
            (cell.replicate, cell.seed): np.array(cell.notes.get("front", []), np.float64).reshape(-1, 2)
            for cell in row.results
        }
        for row in rows
    ]
    shared = [replicate for replicate in by_row[0] if all(replicate in fronts for fronts in by_row)]
    values = np.full((len(rows), len(shared)), np.nan)
    for place, replicate in enumerate(shared):
        fronts = [fronts[replicate] for fronts in by_row]
        if any(map(len, fronts)):
            # A plan that several fronts have is listed for each; as a point of the true front it counts once.
            truth, scale = np.unique(merge_fronts(fronts)[0], axis=0), Scale.of(fronts)
            values[:, place] = [igd_plus(front, truth, scale) for front in fronts]
    return [_FrontDistance(row, distances) for row, distances in zip(rows, values, strict=True)]


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
    distances = front_distances(rows)
    texts = {
        "submissions.md": comparison_markdown(rows, sweep.name, distances),
        "submissions.csv": _csv(rows, [_figures(row) for row in rows]),
    }
    if distances:
        figures = [
            {
                "submissions": len(distance.values),
                "without_plan": distance.without_plan,
                "igd_plus": distance.mean,
                "igd_plus_low": distance.interval[0],
                "igd_plus_high": distance.interval[1],
            }
            for distance in distances
        ]
        texts["front_distances.csv"] = _csv([distance.row for distance in distances], figures)
    for name, text in texts.items():
        (sweep.directory / name).write_text(text, encoding="utf-8")
    return [sweep.directory / name for name in texts]


def _figures(row: Row) -> dict[str, float]:
    """Return the means and standard deviations of a configuration's metrics."""
    references = [f"{cost}_best_effort" for cost in _COSTS]
    means = {metric: row.mean(metric) for metric in (*_COSTS, *references, *_SHARES, *_OTHERS)}
    spreads = {f"{cost}_sd": row.spread(cost) for cost in _COSTS}
    return {"submissions": len(row), "planned": row.planned, **means, **spreads}


def comparison_markdown(rows: Sequence[Row], name: str, distances: Sequence[_FrontDistance]) -> str:
    """Return a table for each workload, one of IGD+, and the published figures for the sweep."""
    parts = [f"# Submissions\n\n{_LEGEND}\n"]
    parts += [f"## {workload}\n\n{_table(mine)}" for workload, mine in by_value(rows, "workload").items()]
    if distances:
        heads = ["workload", "configuration", "n", "without a plan", "IGD+", "95 % interval"]
        lines = []
        for distance, label in zip(distances, _labels([distance.row for distance in distances]), strict=True):
            counts = [str(len(distance.values)), str(distance.without_plan)]
            interval = " … ".join(map(number_text, distance.interval))
            lines.append([distance.row.workload, label, *counts, number_text(distance.mean), interval])
        parts.append(
            f"## Distance to the merged front\n\n{_DISTANCE}\n\n{markdown_table(heads, lines, left=2)}"
        )
    space = name.removeprefix("provisioning_")
    figures = [figure for key, figure in PUBLISHED.items() if key.startswith(f"{space}/")]
    if figures:
        published = [[figure.quantity, _published(figure), figure.source] for figure in figures]
        table = markdown_table(["quantity", "published", "source"], published, left=3)
        parts.append(f"## Published\n\nOn the log of CTC SP2, 430 nodes.\n\n{table}")
    return "\n".join(parts)


def _published(figure: PublishedFigure) -> str:
    if figure.unit == "s":
        return f"{figure.value / HOUR:.1f} h ({figure.value:,g} s)"
    if figure.unit == "%":
        return f"{figure.value:+g} %".replace("-", "−")
    return f"{figure.value:,g}"


def _table(rows: Sequence[Row]) -> str:
    compared = not all(np.isnan(row.values("workflow_makespan_best_effort")).all() for row in rows)
    heads = ["configuration", "n", "makespan, h", "gap", "cost, SU", "hypervolume", "slots", "load"]
    if compared:
        heads[5:6] = ["makespan against best effort", "cost against it", "no worse", "within 1/10", "neither"]
    lines = []
    for row, label in zip(rows, _labels(rows), strict=True):
        makespan, cost = (
            f"{_number(row.mean(metric) / unit, 1)} ± {_number(row.spread(metric) / unit, 1)}"
            for metric, unit in _COSTS.items()
        )
        cells = [label, str(row.planned), makespan, _gap(row), cost]
        if compared:
            cells += [_change(row, cost) for cost in _COSTS]
            cells += [_percent(row.mean(share)) for share in _SHARES[1:]]
        else:
            cells.append(_number(row.mean("hypervolume"), 4))
        lines.append([*cells, _number(row.mean("slots"), 1), _percent(row.mean("offered_load"))])
    return markdown_table(heads, lines)


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
