"""The cells of a sweep, sorted into strata, configurations and replicates."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa

from gridtune.errors import MetricError
from gridtune.registry import name_hint
from gridtune.report.labels import PARAMETER_PREFIX, parameter_names
from gridtune.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult

__all__ = [
    "BOUND",
    "Configuration",
    "ConfigurationRow",
    "baselines",
    "by_configuration",
    "collect",
    "configuration_parameters",
    "gap_to_bound",
    "lacks_values",
    "replicate_labels",
    "replicate_order",
    "value_matrix",
]


#: What the name of a bound has after its metric's.
BOUND = "_bound"


@dataclass
class Configuration:
    """One configuration within a stratum: objective and bound on every replicate, NaN where it failed.

    `undefined` are the replicates that are done without a finite value.
    """

    configuration_id: str
    parameters: dict[str, Any]
    values: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    failures: int = 0
    undefined: set[str] = field(default_factory=set)

    @property
    def key(self) -> tuple[Any, ...]:
        """Its parameters' values, by which it is the same in every stratum."""
        return tuple(self.parameters.values())


def collect(
    table: pa.Table, objective: str, group_by: Sequence[str], baseline: Mapping[str, Any]
) -> tuple[list[str], list[str], dict[tuple[Any, ...], list[Configuration]]]:
    """Sort the cells into strata, in order of appearance, and configurations, in order of their ids.

    Parameters
    ----------
    table
        One row per cell.
    objective, group_by, baseline
        As of `gridtune.report.rankings.ranking.rank`.

    Returns
    -------
    columns, parameters, groups
        The columns that split the table, the parameters of a configuration, and stratum to configurations.
    """
    places = [name if name in table.column_names else PARAMETER_PREFIX + name for name in group_by]
    columns = [name for name in places if name in table.column_names]
    parameters = configuration_parameters(table, columns, keep=baseline)
    metric = f"metric.{objective}"
    if metric not in table.column_names:
        metrics = [name.removeprefix("metric.") for name in table.column_names if name.startswith("metric.")]
        raise MetricError(f"no cell has the metric {objective!r}", hint=name_hint(objective, metrics))
    bound = metric + BOUND if metric + BOUND in table.column_names else None
    names = [PARAMETER_PREFIX + name for name in parameters]
    strata: dict[tuple[Any, ...], dict[str, Configuration]] = {}
    wanted = ["configuration_id", "replicate", "state", metric, *([bound] if bound else []), *columns, *names]
    for row in table.select(list(dict.fromkeys(wanted))).to_pylist():
        stratum = strata.setdefault(tuple(row[name] for name in columns), {})
        key, replicate = row["configuration_id"], row["replicate"]
        if key not in stratum:
            stratum[key] = Configuration(key, {name: row[PARAMETER_PREFIX + name] for name in parameters})
        if row["state"] != "done":
            stratum[key].failures += 1
            stratum[key].values.setdefault(replicate, math.nan)
        else:
            stratum[key].values[replicate] = value = math.nan if row[metric] is None else row[metric]
            if not math.isfinite(value):
                stratum[key].undefined.add(replicate)
            stratum[key].bounds[replicate] = math.nan if bound is None or row[bound] is None else row[bound]
    # A fixed order, because sums and products may differ in their last bit with the order of the rows.
    groups = {stratum: [strata[stratum][key] for key in sorted(strata[stratum])] for stratum in strata}
    return columns, parameters, groups


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
    varying = [name for name in names if len(table[PARAMETER_PREFIX + name].unique()) > 1]
    wanted = ["configuration_id", *columns, *(PARAMETER_PREFIX + name for name in varying)]
    first: dict[tuple[Any, ...], Any] = {}
    among_replicates, within_strata = set(), set()
    for row in table.select(list(dict.fromkeys(wanted))).to_pylist():
        stratum = tuple(row[column] for column in columns)
        for name in varying:
            value = row[PARAMETER_PREFIX + name]
            if first.setdefault(("in", name, row["configuration_id"]), value) != value:
                among_replicates.add(name)
            if first.setdefault(("of", name, stratum), value) != value:
                within_strata.add(name)
    return [
        name
        for name in names
        if name not in among_replicates
        and (name not in varying or name in within_strata or not columns or name in keep)
    ]


def replicate_labels(configurations: Sequence[Configuration]) -> list[str]:
    """Return the labels of all replicates of the configurations, in order: the columns of `value_matrix`."""
    return sorted({name for one in configurations for name in one.values}, key=replicate_order)


def replicate_order(label: str) -> list[tuple[int, str]]:
    """Return what labels of replicates are sorted by: window 2/10 comes before window 10/10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", label)]


def value_matrix(
    configurations: Sequence[Configuration],
    replicates: Sequence[str] | None = None,
    kind: Literal["values", "bounds"] = "values",
) -> FloatArray:
    """Return the objective's values, or its bounds; NaN where there is none.

    The shape is (configurations, replicates): those named, or else all that one of them has.
    """
    replicates = replicate_labels(configurations) if replicates is None else replicates
    rows = [[getattr(one, kind).get(name, math.nan) for name in replicates] for one in configurations]
    values = np.array(rows, dtype=np.float64)
    # A replicate without a finite value cannot enter a mean; it counts as missing, and `n` says so.
    values[~np.isfinite(values)] = math.nan
    return values


def lacks_values(configurations: Sequence[Configuration], base: FloatArray) -> BoolArray:
    """Return which configurations have a finished run without a value where their baseline has one.

    Parameters
    ----------
    configurations
        Those of a stratum.
    base
        The values of each one's baseline, as `value_matrix` orders them.
    """
    labels = replicate_labels(configurations)
    undefined = np.array([[name in one.undefined for name in labels] for one in configurations], dtype=bool)
    return np.asarray((undefined & np.isfinite(base)).any(axis=1))


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
    configurations: Sequence[Configuration], baseline: Mapping[str, Any], stratum: Mapping[str, Any]
) -> IntArray:
    """Return each configuration's baseline as an index, -1 where it has none.

    The baseline of a configuration has the same parameters but for those that `baseline` names.
    """
    elsewhere = any(stratum[name] != value for name, value in baseline.items() if name in stratum)
    if not baseline or elsewhere:
        return np.full(len(configurations), -1)
    wanted = {name: value for name, value in baseline.items() if name not in stratum}
    if not wanted:
        # The baseline follows from the stratum: each configuration is its own.
        return np.arange(len(configurations))
    parameters = [configuration.parameters for configuration in configurations]
    return np.array(_baseline_indices(parameters, wanted), dtype=np.int64)


@dataclass(frozen=True)
class ConfigurationRow:
    """One configuration on one workload.

    Attributes
    ----------
    workload
        What the sweep calls it.
    parameters
        The configuration.
    results
        Its finished cells, a replicate each.
    """

    workload: str
    parameters: Mapping[str, Any]
    results: Sequence[CellResult]

    @classmethod
    def of(cls, results: Iterable[CellResult]) -> list[Self]:
        """Return a row for each configuration with a finished cell, in the order of the sweep."""
        return [cls(cells[0].workload, cells[0].configuration, cells) for cells in by_configuration(results)]

    def __len__(self) -> int:
        return len(self.results)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parameter, of the configuration, its workload or the whole sweep."""
        return self.results[0].parameters.get(name, default)

    def values(self, metric: str) -> FloatArray:
        """Return a metric of each replicate, NaN where it is not defined."""
        return np.array([result.metrics.get(metric, np.nan) for result in self.results])

    def mean(self, metric: str) -> float:
        """Return a metric's mean over the replicates that have it; NaN of none."""
        values = self._finite(metric)
        return float(values.mean()) if len(values) else float("nan")

    def spread(self, metric: str) -> float:
        """Return a metric's standard deviation over the replicates that have it; NaN of fewer than two."""
        values = self._finite(metric)
        return float(values.std(ddof=1)) if len(values) > 1 else float("nan")

    def _finite(self, metric: str) -> FloatArray:
        values = self.values(metric)
        return values[~np.isnan(values)]


def by_configuration(results: Iterable[CellResult]) -> list[list[CellResult]]:
    """Return the finished cells of each workload and configuration, in the order of the sweep."""
    rows: dict[tuple[str, str], list[CellResult]] = {}
    for result in results:
        if result.state == "done":
            rows.setdefault((result.workload, result.configuration_id), []).append(result)
    return list(rows.values())


def _baseline_indices(configurations: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> list[int]:
    """Return each configuration's baseline as an index, its own for a baseline, -1 where it has none.

    The baseline of a configuration has the same parameters but for those that `wanted` names.

    Parameters
    ----------
    configurations
        Parameters of each; one that does not apply is None or left out.
    wanted
        Parameters that make a configuration a baseline; empty for none.
    """
    if not wanted:
        return [-1] * len(configurations)
    candidates = [
        index
        for index, parameters in enumerate(configurations)
        if all(parameters.get(name) == value for name, value in wanted.items())
    ]
    exact = {_configuration_key(configurations[index]): index for index in candidates}

    def find(parameters: Mapping[str, Any]) -> int:
        target = {**parameters, **wanted}
        if _configuration_key(target) in exact:
            return exact[_configuration_key(target)]
        # A conditional parameter may not apply on one of the two sides; it cannot tell them apart.
        near = [
            index
            for index in candidates
            if all(
                value == target.get(name) or value is None or target.get(name) is None
                for name, value in configurations[index].items()
            )
        ]
        return near[0] if len(near) == 1 else -1

    return [find(parameters) for parameters in configurations]


def _configuration_key(parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return the parameters that distinguish configurations; a list counts by its text."""
    return tuple(
        (name, str(value) if isinstance(value, list | dict) else value)
        for name, value in sorted(parameters.items(), key=lambda item: item[0])
        if value is not None
    )
