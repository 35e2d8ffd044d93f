"""How far each search's fronts fall short of the best that all searches of the problem found together."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridtune.report.labels import number_text
from gridtune.statistics.inference import bootstrap_interval
from gridtune.statistics.pareto import Scale, igd_plus, merge_fronts
from gridtune.systems.provisioning.parameters import SEARCHES
from gridtune.systems.provisioning.report.rows import FIELDS, Row, dimensions, label

__all__ = ["FrontDistance", "distances_csv", "distances_markdown", "front_distances"]

Floats = npt.NDArray[np.float64]

#: What decides how plans are looked for, and not what a plan costs at best: cells that differ in nothing else
#: are about one problem. Their fronts are of the same two costs, whatever laid the tasks onto the slots.
_SCHEDULING = ("scheduler", "cross_slot", "extend")
_MOGA = ("crossover_points", "crossover_rate", "mutation")
_HOW = frozenset((*_SCHEDULING, *_MOGA, "search", "population", "iterations", "seeded", "release", "alpha"))
_LEGEND = (
    "IGD+ of the front that each configuration found: the mean distance by which it falls short of the plans "
    "that no other one dominates, of all configurations in this table for the same problem and submission. "
    "Both costs are brought to [0, 1] over the fronts compared, not over the hypervolume's rectangle; "
    "no unit, smaller is better, 0 is to have found all of them. Means over submissions, 95 % bootstrap "
    "intervals; a submission without a plan has no distance and is counted instead."
)


@dataclass(frozen=True, eq=False)
class FrontDistance:
    """A configuration's distances.

    Attributes
    ----------
    row
        The configuration.
    values
        Shape (n,): IGD+ on each replicate that all configurations compared with it have finished; no unit, in
        parts of the range of each cost over the fronts compared; NaN where it found no plan.
    """

    row: Row
    values: Floats

    @property
    def without_plan(self) -> int:
        """On how many replicates it found no plan."""
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
    """Return IGD+ of every configuration that searched a problem that another one searched, too.

    On each replicate the fronts of the configurations compared are merged, and each is held against what no
    other plan dominates. As wherever fronts are compared here, 0 is the least and 1 the greatest value of
    each cost over all their points (`Scale.of`). That is not the rectangle of the metric `hypervolume`, which
    is of one cell: it changes with the scheduler, and two fronts need one scale. Configurations that differ
    in `alpha` alone have one front and count as one, the first; replicates that one of them lacks are left
    out.
    """
    problems: dict[str, dict[str, Row]] = {}
    for row in rows:
        if not row.queued and row.get("search") in SEARCHES:
            alike = problems.setdefault(_stated(row, without=_HOW), {})
            alike.setdefault(_stated(row, without=frozenset({"alpha"})), row)
    return [each for alike in problems.values() if len(alike) > 1 for each in _compared(list(alike.values()))]


def _stated(row: Row, without: frozenset[str]) -> str:
    """Return the configuration as a text, defaults filled in, without the parameters named."""
    stated = {name: row.parameters.get(name, field.default) for name, field in FIELDS.items()}
    told = {name: value for name, value in stated.items() if name not in without}
    return json.dumps(told, default=str, sort_keys=True)


def _compared(rows: Sequence[Row]) -> list[FrontDistance]:
    held = [{(each.replicate, each.seed): _front(each.notes) for each in row.results} for row in rows]
    shared = [replicate for replicate in held[0] if all(replicate in fronts for fronts in held)]
    values = np.array([_distances([fronts[replicate] for fronts in held]) for replicate in shared])
    columns = values.reshape(len(shared), len(rows)).T
    return [FrontDistance(row, column) for row, column in zip(rows, columns, strict=True)]


def _front(notes: Mapping[str, object]) -> Floats:
    return np.array(notes.get("front", []), np.float64).reshape(-1, 2)


def _distances(fronts: Sequence[Floats]) -> list[float]:
    if not any(len(front) for front in fronts):
        return [math.nan] * len(fronts)
    merged, _ = merge_fronts(fronts)
    # Plans that several found are listed for each; as points to be reached they count once.
    truth, scale = np.unique(merged, axis=0), Scale.of(fronts)
    return [igd_plus(front, truth, scale) for front in fronts]


def distances_csv(found: Sequence[FrontDistance]) -> str:
    """Return a line for each configuration: submissions, those without a plan, mean and interval of IGD+."""
    rows, target = [each.row for each in found], io.StringIO()
    names = dimensions(rows)
    writer = csv.writer(target, lineterminator="\n")
    figures = ["submissions", "without_plan", "igd_plus", "igd_plus_low", "igd_plus_high"]
    writer.writerow(["workload", *names, *figures])
    for each in found:
        stated = [each.row.parameters.get(name, "") for name in names]
        counts = [len(each.values), each.without_plan]
        writer.writerow([each.row.workload, *stated, *counts, each.mean, *each.interval])
    return target.getvalue()


def distances_markdown(found: Sequence[FrontDistance]) -> str:
    """Return the same as a section of a page."""
    rows = [each.row for each in found]
    names = dimensions(rows)
    lines = ["| workload | configuration | n | without a plan | IGD+ | 95 % interval |"]
    lines.append("| --- | --- |" + " ---: |" * 4)
    for each in found:
        low, high = map(number_text, each.interval)
        cells = [each.row.workload, label(each.row, names), str(len(each.values)), str(each.without_plan)]
        lines.append(f"| {' | '.join([*cells, number_text(each.mean), f'{low} … {high}'])} |")
    return f"## Distance to the merged front\n\n{_LEGEND}\n\n" + "\n".join(lines)
