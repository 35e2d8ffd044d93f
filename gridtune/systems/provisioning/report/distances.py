"""How far the front of each search falls short of the merged front of all searches of a problem."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gridtune.report.labels import number_text
from gridtune.statistics.inference import bootstrap_interval
from gridtune.statistics.pareto import Scale, igd_plus, merge_fronts
from gridtune.systems.provisioning.report.rows import FIELDS, Row, dimensions, label
from gridtune.types import FloatArray

__all__ = ["FrontDistance", "distances_csv", "distances_markdown", "front_distances"]


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
