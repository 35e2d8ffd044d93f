"""Bounds that configurations must keep: judged for each, and rankings with those first that keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from gridtune.report.labels import interval_text, number_text, percent_text
from gridtune.report.rankings.cells import Cells
from gridtune.report.rankings.ranking import Ranking, Row, plain, same_configuration
from gridtune.sweep.space.constraints import Constraint, Kept

#: The column of a ranking with the state of all constraints together.
_SUBJECT_TO = "subject_to"


@dataclass(frozen=True)
class Bound:
    """A constraint judged for one configuration of a stratum.

    Attributes
    ----------
    constraint
        The constraint.
    state
        Satisfied, violated or not settled.
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
        """The metric's value and the state, without the interval."""
        return f"{self.constraint.metric} {self._written(self.value)}, {self.state}"

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.constraint}: {self.state}, no values"
        interval = interval_text(self.low, self.high, self._written)
        to = " to the baseline" if self.constraint.of_baseline else ""
        ends = f" ({interval})" if interval else ""
        return f"{self.constraint}: {self.state}, {self._written(self.value)}{ends}{to}"

    def _written(self, value: float | None) -> str:
        return percent_text(value) if self.constraint.of_baseline else number_text(value)

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return {**asdict(self), "constraint": str(self.constraint), "state": self.state.value}


#: Configuration id to its judged constraints.
Bounds = Mapping[str, Sequence[Bound]]


def constrain(
    cells: Cells,
    constraints: Sequence[Constraint],
    rankings: Mapping[str, Ranking],
    overall: Mapping[str, Ranking],
) -> tuple[Bounds, dict[str, Ranking], dict[str, Ranking]]:
    """Judge constraints, and put the configurations that keep every one of them first.

    Unsettled ones follow; those that violate one come last and have no rank. The column `subject_to` has the
    state; over all strata a constraint must be kept in each of them.

    Parameters
    ----------
    cells
        The cells, with the baseline that constraints refer to. Where they lack a constraint's metric, that
        constraint is not settled.
    constraints
        The constraints.
    rankings, overall
        Objective to its ranking, within each stratum and over all of them.

    Returns
    -------
    tuple
        The judged constraints of each configuration, and both kinds of rankings.
    """
    bounds = _judged(cells, constraints)
    states = {key: Kept.worst(bound.state for bound in judged) for key, judged in bounds.items()}

    within = {
        name: _reordered(ranking, lambda row: states[row["configuration_id"]], constraints)
        for name, ranking in rankings.items()
    }

    def worst_state(rows: Sequence[Row], row: Row) -> Kept:
        same = (other for other in rows if same_configuration(row, other))
        return Kept.worst(Kept(other[_SUBJECT_TO]) for other in same)

    over_all = {
        name: _reordered(ranking, partial(worst_state, within[name].rows), constraints)
        for name, ranking in overall.items()
    }
    return bounds, within, over_all


def _judged(cells: Cells, constraints: Iterable[Constraint]) -> Bounds:
    bounds: dict[str, list[Bound]] = {key: [] for stratum in cells.strata for key in stratum.ids}
    for constraint in constraints:
        for stratum in cells.strata:
            if f"metric.{constraint.metric}" not in cells.table.column_names:
                judged = [Bound(constraint, Kept.UNSETTLED) for _ in stratum.ids]
            else:
                values = stratum.values(constraint.metric)
                windows = cells.replicate == "window"
                margin = constraint.margin(values, stratum.of_bases(values), windows=windows)
                judged = [
                    Bound(constraint, state, *map(plain, ends))
                    for state, *ends in zip(margin.states(), *margin[:3], strict=True)
                ]
            for key, bound in zip(stratum.ids, judged, strict=True):
                bounds[key].append(bound)
    return bounds


def _reordered(
    ranking: Ranking, state_of: Callable[[Row], Kept], constraints: Sequence[Constraint]
) -> Ranking:
    order = list(Kept)
    strata = {}
    for name, rows in ranking.strata.items():
        judged = [{**row, _SUBJECT_TO: state_of(row).value} for row in rows]
        # Sorting is stable, so each state keeps the order of the ranking.
        judged.sort(key=lambda row: (row["rank"] is None, order.index(Kept(row[_SUBJECT_TO]))))
        before: tuple[Any, Any] | None = None
        rank = 0
        for place, row in enumerate(judged, start=1):
            key = (row["rank"], row[_SUBJECT_TO])
            rank = rank if key == before else place
            before = key
            violates = row[_SUBJECT_TO] == Kept.NO
            row["rank"] = None if violates or row["rank"] is None else rank
        strata[name] = judged
    head = replace(ranking.head, subject_to=tuple(map(str, constraints)))
    return ranking.with_rows(head, strata, pa.field(_SUBJECT_TO, pa.string()))
