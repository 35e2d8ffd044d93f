"""The cells of a sweep, read once and sorted into strata, configurations and replicates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gridtune.errors import MetricError
from gridtune.registry import name_hint
from gridtune.report.labels import PARAMETER_PREFIX, parameter_names, value_text
from gridtune.statistics.dependence import neighbour_correlation
from gridtune.statistics.inference import PairedDifference, paired_difference, with_reach
from gridtune.sweep.journal.results import distinct_rows
from gridtune.types import BoolArray, FloatArray, IntArray

#: The resampling is always the same: a report made twice from the same results is the same.
SEED = 20_011
#: What the name of a bound has after its metric's.
BOUND = "_bound"
#: First words of the labels that `gridtune.sweep.space.schema.Replicates` gives.
_KINDS = {"window", "seed", "shake"}


class _Metrics:
    """The table's columns of metrics as arrays: NaN where a cell failed or has no value."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.done = np.asarray(pc.equal(table["state"], "done").to_numpy(zero_copy_only=False), dtype=bool)
        self._columns: dict[str, FloatArray] = {}

    def __contains__(self, metric: str) -> bool:
        return f"metric.{metric}" in self.table.column_names

    def __getitem__(self, metric: str) -> FloatArray:
        if metric not in self._columns:
            if metric not in self:
                columns = (name for name in self.table.column_names if name.startswith("metric."))
                known = [name.removeprefix("metric.") for name in columns]
                raise MetricError(f"no cell has the metric {metric!r}", hint=name_hint(metric, known))
            values = self.table[f"metric.{metric}"].cast(pa.float64()).to_numpy()
            self._columns[metric] = np.where(self.done, values, math.nan)
        return self._columns[metric]


@dataclass(frozen=True)
class Stratum:
    """The cells of one stratum: configurations × replicates.

    Attributes
    ----------
    name
        Its name, such as "kth-sp2, load=0.8".
    key
        The columns that split the table, with their values here.
    ids
        The configurations' ids, sorted: sums may differ in their last bit with the order of the rows.
    parameters
        The parameters of each configuration.
    replicates
        Labels of all replicates, in order.
    bases
        The place of each configuration's baseline, -1 where it has none.
    rows
        Shape (configurations, replicates): the cell's row in the table, -1 where there is none.
    metrics
        The table's metrics.
    reach
        Returns `System.reach` of a metric for the pair of two configurations; None for 0.
    """

    name: str
    key: Mapping[str, Any]
    ids: Sequence[str]
    parameters: Sequence[Mapping[str, Any]]
    replicates: Sequence[str]
    bases: IntArray
    rows: IntArray
    metrics: _Metrics
    reach: Callable[..., float] | None = None

    @cached_property
    def place(self) -> dict[str, int]:
        """The place of each configuration, by its id."""
        return {key: place for place, key in enumerate(self.ids)}

    @property
    def windows(self) -> bool:
        """True if the replicates are windows of a log, which follow each other."""
        return bool(self.replicates) and all(label.startswith("window ") for label in self.replicates)

    @cached_property
    def failures(self) -> IntArray:
        """Number of cells without a result, shape (configurations,)."""
        return ((self.rows >= 0) & ~self.metrics.done[self.rows]).sum(axis=1)

    def values(self, metric: str) -> FloatArray:
        """Return a metric of each cell, of the shape of `rows`; NaN where it has no finite value."""
        values = np.where(self.rows >= 0, self.metrics[metric][self.rows], math.nan)
        values[~np.isfinite(values)] = math.nan
        return values

    def undefined(self, metric: str) -> BoolArray:
        """Return which cells are done without a finite value, of the shape of `values`."""
        done = (self.rows >= 0) & self.metrics.done[self.rows]
        return np.asarray(done & np.isnan(self.values(metric)))

    def bounds(self, metric: str) -> FloatArray:
        """Return the bound on a metric of each cell; NaN where there is none."""
        bound = metric + BOUND
        return self.values(bound) if bound in self.metrics else np.full(self.rows.shape, math.nan)

    def samples(self, metric: str, ids: Sequence[str]) -> FloatArray:
        """Return the values of some configurations, on the replicates that at least one of them has."""
        places = [self.place[key] for key in ids]
        return self.values(metric)[places][:, (self.rows[places] >= 0).any(axis=0)]

    def of_bases(self, values: FloatArray, bases: IntArray | None = None) -> FloatArray:
        """Return the rows of each configuration's baseline; NaN where it has none."""
        return np.vstack([values, np.full(values.shape[1], math.nan)])[self.bases if bases is None else bases]

    def widened(
        self, metric: str, places: IntArray, bases: IntArray, *paired: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ends of intervals that hold the real difference, not only the mean simulated one.

        Parameters
        ----------
        metric
            The metric.
        places, bases
            Of the configurations and those they are compared with, -1 for none; shape (rows,).
        paired
            The relative differences, and the ends of their intervals.
        """
        relative, low, high = paired
        counts = metric.replace(metric.partition("[")[0], "jobs")
        if self.reach is None or counts not in self.metrics:
            return low, high
        values = np.array([self.values(metric), self.values(counts)])
        reach = np.zeros(len(places))
        # Of equal schedules nothing is in doubt.
        for row in np.flatnonzero((bases >= 0) & ~((low == 0) & (high == 0))):
            reach[row] = self.reach(metric, values[:, [bases[row], places[row]]], self.windows)
        return with_reach(relative, low, high, reach)

    @cached_property
    def _paired(self) -> dict[Any, PairedDifference]:
        """The comparisons that were asked for."""
        return {}

    def paired(self, metric: str, bases: IntArray, error: float) -> PairedDifference:
        """Return the comparison of each configuration with its baseline, which is made once."""
        key = (metric, bases.tobytes(), error)
        if key not in self._paired:
            values = self.values(metric)
            base, level = self.of_bases(values, bases), 1 - error
            rng, link = np.random.default_rng(SEED), self.correlation(values, base) or 0.0
            self._paired[key] = paired_difference(values, base, rng=rng, confidence=level, correlation=link)
        return self._paired[key]

    def correlation(self, values: FloatArray, base: FloatArray) -> float | None:
        """Return how much differences in neighbouring windows correlate; None for other replicates."""
        return neighbour_correlation(values, base) if self.windows else None


@dataclass(frozen=True)
class Cells:
    """The cells of a sweep.

    Attributes
    ----------
    table
        A row for each cell: `configuration_id`, `replicate`, `state`, `param.*` and `metric.*` columns.
    baseline
        Parameters that make a configuration the baseline.
    group_by
        What splits the cells into strata.
    replicate
        What a replicate is: "window", "seed", "shake", or "replicate" where the labels do not say.
    fields
        Columns of the strata's values and of the parameters, as rankings have them.
    strata
        The strata, in order of appearance.
    """

    table: pa.Table
    baseline: Mapping[str, Any]
    group_by: tuple[str, ...]
    replicate: str
    fields: Sequence[pa.Field]
    strata: Sequence[Stratum]

    @property
    def own_baseline(self) -> dict[str, Any]:
        """The baseline within every stratum: without what splits the cells."""
        return {name: value for name, value in self.baseline.items() if name not in self.group_by}


def read_cells(
    table: pa.Table,
    baseline: Mapping[str, Any] | None = None,
    group_by: Sequence[str] = ("workload",),
    reach: Callable[..., float] | None = None,
) -> Cells:
    """Sort a sweep's cells into strata and configurations.

    Parameters
    ----------
    table
        One row per cell.
    baseline
        Parameters that make a configuration the baseline. A parameter it does not name stays as the
        configuration under comparison has it, so that with `{"order": "fcfs"}` each backfilling is
        compared with fcfs under the same backfilling. None or empty: no differences.
    group_by
        Columns (or parameters) that split the table into strata, each ranked by itself; names the
        table does not have are passed over.
    reach
        Returns `System.reach` for a workload and what `Stratum.reach` takes; None for 0.

    Raises
    ------
    MetricError
        If the baseline names a parameter that the table does not have.
    """
    baseline = dict(baseline or {})
    unknown = sorted(set(baseline) - set(parameter_names(table)) - set(table.column_names))
    if unknown:
        raise MetricError(f"the baseline names parameters the table does not have: {', '.join(unknown)}")
    named = [name if name in table.column_names else PARAMETER_PREFIX + name for name in group_by]
    columns = [name for name in named if name in table.column_names]
    names = [column.removeprefix(PARAMETER_PREFIX) for column in columns]
    parameters = [PARAMETER_PREFIX + name for name in configuration_parameters(table, columns, keep=baseline)]
    metrics = _Metrics(table)
    strata = []
    places = distinct_rows(table, columns)[1]
    first, of_cells = distinct_rows(table, ["configuration_id"])
    identifiers = table["configuration_id"].take(pa.array(first)).to_pylist()
    first, of_replicates = distinct_rows(table, ["replicate"])
    replicates = table["replicate"].take(pa.array(first)).to_pylist()
    order = np.argsort(places, kind="stable")
    # In order of appearance, as are the cells of each.
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    parts = sorted(np.split(order, starts[1:]), key=lambda cells: int(cells[0])) if len(order) else []
    for cells in parts:
        key = [table[column][int(cells[0])].as_py() for column in columns]
        known, first, configurations = np.unique(of_cells[cells], return_index=True, return_inverse=True)
        by_id = sorted(range(len(known)), key=lambda place: identifiers[known[place]])
        ids = [identifiers[known[place]] for place in by_id]
        own = [
            {name.removeprefix(PARAMETER_PREFIX): row[name] for name in parameters}
            for row in table.select(parameters).take(cells[first[by_id]]).to_pylist()
        ]
        known, seen = np.unique(of_replicates[cells], return_inverse=True)
        by_label = sorted(range(len(known)), key=lambda place: replicate_order(replicates[known[place]]))
        labels = [replicates[known[place]] for place in by_label]
        rows = np.full((len(ids), len(labels)), -1)
        rows[np.argsort(by_id)[configurations], np.argsort(by_label)[seen]] = cells
        values = dict(zip(names, key, strict=True))
        title = ", ".join(
            value if isinstance(value, str) else f"{name}={value_text(value)}"
            for name, value in values.items()
        )
        bases = baselines(own, baseline, values)
        of_stratum = None if reach is None else partial(reach, str(values.get("workload")))
        strata.append(Stratum(title, values, ids, own, labels, bases, rows, metrics, of_stratum))
    kinds = {label.partition(" ")[0] for label in table["replicate"].unique().to_pylist()}
    replicate = kinds.pop() if len(kinds) == 1 and kinds <= _KINDS else "replicate"
    fields = [
        pa.field(name, table.schema.field(column).type) for name, column in zip(names, columns, strict=True)
    ]
    fields += [table.schema.field(name) for name in parameters]
    return Cells(table, baseline, tuple(names), replicate, fields, strata)


def configuration_parameters(
    table: pa.Table, columns: Sequence[str], *, keep: Container[str] = ()
) -> list[str]:
    """Return the parameters that make a configuration.

    Left out are those that follow from the stratum (one value in each, several in all: a log's file, its
    machine's size) and those that follow from the replicate (several values within a configuration: its
    window).

    Parameters
    ----------
    table
        One row per cell.
    columns
        Those that split it into strata.
    keep
        Parameters to keep even though they follow from the stratum.
    """
    names = [name for name in parameter_names(table) if PARAMETER_PREFIX + name not in columns]

    def varies_in(groups: Sequence[str], name: str) -> bool:
        both = distinct_rows(table, [*groups, PARAMETER_PREFIX + name])
        return len(both[0]) > len(distinct_rows(table, groups)[0])

    return [
        name
        for name in names
        if not varies_in(["configuration_id"], name)
        and (
            not columns
            or name in keep
            or varies_in(columns, name)
            or len(table[PARAMETER_PREFIX + name].unique()) <= 1
        )
    ]


def replicate_order(label: str) -> list[tuple[int, str]]:
    """Return what labels of replicates are sorted by: window 2/10 comes before window 10/10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", label)]


def gap_to_bound(values: FloatArray, bounds: FloatArray, direction: str) -> FloatArray:
    """Return by how much the mean of each row is worse than the mean of its bounds, as a share of the latter.

    Parameters
    ----------
    values, bounds
        Shape (configurations, replicates); NaN where there is none. Replicates without both are left out.
    direction
        "min" or "max": which values are better.

    Returns
    -------
    numpy.ndarray
        Shape (configurations,): Σ values / Σ bounds − 1, with the other sign for "max"; NaN without bounds,
        or where they are not above 0.
    """
    both = np.isfinite(values) & np.isfinite(bounds)
    total, least = (np.where(both, columns, 0.0).sum(axis=1) for columns in (values, bounds))
    ratio = np.divide(total, least, out=np.full(len(values), np.nan), where=least > 0)
    return np.asarray((ratio - 1.0) * (1.0 if direction == "min" else -1.0))


def baselines(
    parameters: Sequence[Mapping[str, Any]], baseline: Mapping[str, Any], stratum: Mapping[str, Any]
) -> IntArray:
    """Return the place of each configuration's baseline, -1 where it has none.

    The baseline of a configuration has the same parameters but for those that `baseline` names.
    """
    elsewhere = any(stratum[name] != value for name, value in baseline.items() if name in stratum)
    if not baseline or elsewhere:
        return np.full(len(parameters), -1)
    wanted = {name: value for name, value in baseline.items() if name not in stratum}
    if not wanted:
        # The baseline follows from the stratum: each configuration is its own.
        return np.arange(len(parameters))
    candidates = [
        index
        for index, own in enumerate(parameters)
        if all(own.get(name) == value for name, value in wanted.items())
    ]
    exact = {_configuration_key(parameters[index]): index for index in candidates}

    def find(own: Mapping[str, Any]) -> int:
        target = {**own, **wanted}
        if _configuration_key(target) in exact:
            return exact[_configuration_key(target)]
        # A conditional parameter may not apply on one of the two sides; it cannot tell them apart.
        near = [
            index
            for index in candidates
            if all(
                value == target.get(name) or value is None or target.get(name) is None
                for name, value in parameters[index].items()
            )
        ]
        return near[0] if len(near) == 1 else -1

    return np.array([find(own) for own in parameters], dtype=np.int64)


def _configuration_key(parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return the parameters that distinguish configurations; a list counts by its text."""
    return tuple(
        (name, str(value) if isinstance(value, list | dict) else value)
        for name, value in sorted(parameters.items(), key=lambda item: item[0])
        if value is not None
    )
