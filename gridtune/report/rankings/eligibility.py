"""Configurations that break a bound have no rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gridtune.report.labels import (
    PARAMETER_PREFIX,
    interval_text,
    number_text,
    percent_text,
    row_parameters,
)
from gridtune.report.rankings.cells import baselines, collect, value_matrix
from gridtune.report.rankings.ranking import plain, ranking_head, with_head
from gridtune.sweep.space.constraints import Constraint, Kept

__all__ = [
    "Bound",
    "Bounds",
    "constrained",
    "constrained_overall",
    "judge_constraints",
    "same_configuration",
]

#: The column of a ranking that says whether all constraints are kept.
_SUBJECT_TO = "subject_to"


@dataclass(frozen=True)
class Bound:
    """A constraint judged for one configuration of a stratum.

    Attributes
    ----------
    constraint
        The constraint.
    state
        Whether it is kept.
    value, low, high
        The relative difference to the baseline, or the mean in the metric's unit, with its 95 % interval;
        None where there is none.
    """

    constraint: Constraint
    state: Kept
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        """What it comes to, without the interval."""
        return f"{self.constraint.metric} {self._written(self.value)}, {self.state}"

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.constraint}: {self.state}, as there are no values"
        interval = interval_text(self.low, self.high, self._written)
        to = " to the baseline" if self.constraint.of_baseline else ""
        ends = f" ({interval})" if interval else ""
        return f"{self.constraint}: {self.state}, {self._written(self.value)}{ends}{to}"

    def _written(self, value: float | None) -> str:
        return percent_text(value) if self.constraint.of_baseline else number_text(value)

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return {**asdict(self), "constraint": str(self.constraint), "state": self.state.value}


#: Configuration id to what each constraint comes to.
Bounds = Mapping[str, Sequence[Bound]]


def judge_constraints(table: pa.Table, ranking: pa.Table, constraints: Iterable[Constraint]) -> Bounds:
    """Return for each configuration of a ranking whether it keeps each constraint.

    Parameters
    ----------
    table
        One row per cell. Without a column of a constraint's metric, that constraint is not settled.
    ranking
        A ranking of the table within each stratum, whose baseline constraints refer to.
    constraints
        The constraints.
    """
    head = ranking_head(ranking)
    bounds: dict[str, list[Bound]] = {key: [] for key in ranking["configuration_id"].to_pylist()}
    for constraint in constraints:
        if f"metric.{constraint.metric}" not in table.column_names:
            for judged in bounds.values():
                judged.append(Bound(constraint, Kept.UNSETTLED))
            continue
        _, _, groups = collect(table, constraint.metric, head.group_by, head.baseline)
        for stratum, configurations in groups.items():
            values = value_matrix(configurations)
            names = dict(zip(head.group_by, stratum, strict=True))
            bases = baselines(configurations, head.baseline, names)
            base = np.vstack([values, np.full(values.shape[1], np.nan)])[bases]
            margin = constraint.margin(values, base, windows=head.replicate == "window")
            columns = (configurations, margin.states(), *margin[:3])
            for configuration, state, *ends in zip(*columns, strict=True):
                if configuration.configuration_id in bounds:
                    judged = bounds[configuration.configuration_id]
                    judged.append(Bound(constraint, state, *map(plain, ends)))
    return bounds


def constrained(ranking: pa.Table, bounds: Bounds, constraints: Sequence[Constraint]) -> pa.Table:
    """Return a ranking with the configurations that keep every constraint first.

    Those of which it is not settled follow; those that violate one come last and have no rank. The column
    `subject_to` says which.
    """
    states = {key: Kept.worst(bound.state for bound in judged) for key, judged in bounds.items()}
    return _reordered(ranking, [states[key] for key in ranking["configuration_id"].to_pylist()], constraints)


def constrained_overall(overall: pa.Table, ranking: pa.Table, constraints: Sequence[Constraint]) -> pa.Table:
    """Return a ranking over all strata, in which a constraint must be kept in each of them.

    Parameters
    ----------
    overall
        The ranking over all strata.
    ranking
        The constrained one within each.
    constraints
        The constraints.
    """
    rows = ranking.to_pylist()
    states = [
        Kept.worst(Kept(other[_SUBJECT_TO]) for other in rows if same_configuration(row, other))
        for row in overall.to_pylist()
    ]
    return _reordered(overall, states, constraints)


def same_configuration(overall: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Return whether a row of a stratum is the configuration of a row of the ranking over all strata."""
    wanted = row_parameters(overall).items()
    return all(row.get(PARAMETER_PREFIX + name, value) == value for name, value in wanted)


def _reordered(ranking: pa.Table, states: Sequence[Kept], constraints: Sequence[Constraint]) -> pa.Table:
    order = list(Kept)
    head = ranking_head(ranking)
    rows = [{**row, _SUBJECT_TO: state.value} for row, state in zip(ranking.to_pylist(), states, strict=True)]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in head.group_by), []).append(row)
    sorted_rows: list[dict[str, Any]] = []
    for group in groups.values():
        # Sorting is stable, so each state keeps the order of the ranking.
        group.sort(key=lambda row: (row["rank"] is None, order.index(Kept(row[_SUBJECT_TO]))))
        before: tuple[Any, Any] | None = None
        rank = 0
        for place, row in enumerate(group, start=1):
            key = (row["rank"], row[_SUBJECT_TO])
            rank = rank if key == before else place
            before = key
            violates = row[_SUBJECT_TO] == Kept.NO
            row["rank"] = None if violates or row["rank"] is None else rank
        sorted_rows += group
    schema = ranking.schema.append(pa.field(_SUBJECT_TO, pa.string()))
    changed = replace(head, subject_to=tuple(map(str, constraints)))
    return with_head(pa.Table.from_pylist(sorted_rows, schema=schema), changed)
