"""Configurations without a full rank: those that break a bound, and those that a race has stopped."""

from __future__ import annotations

import math
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
from gridtune.report.rankings.cells import Configuration, baselines, collect, value_matrix
from gridtune.report.rankings.combined import logs_of
from gridtune.report.rankings.ranking import Verdict, plain, ranking_head, settled_better, strata, with_head
from gridtune.statistics.racing import RaceRules, RaceTest
from gridtune.sweep.search.racing import RacePlan
from gridtune.sweep.space.constraints import Constraint, Kept
from gridtune.types import FloatArray, IntArray

__all__ = [
    "Bound",
    "Bounds",
    "constrained",
    "constrained_overall",
    "judge_constraints",
    "raced",
    "raced_overall",
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


#: The column that says how far a configuration came.
RACE = "race"


def raced(ranking: pa.Table, table: pa.Table, plan: RacePlan) -> pa.Table:
    """Return a ranking of a raced sweep with the race's verdicts, and a column that says who was stopped.

    Parameters
    ----------
    ranking
        As `gridtune.report.rankings.ranking.rank` makes it from `table`.
    table
        One row per cell.
    plan
        The race's.
    """
    head = ranking_head(ranking)
    _, _, groups = collect(table, head.objective, head.group_by, head.baseline)
    rules = plan.rules(len(groups))
    sign = 1.0 if head.direction == "min" else -1.0
    rows: list[dict[str, Any]] = []
    for (stratum, configurations), (_, ranked) in zip(groups.items(), strata(ranking), strict=True):
        values = sign * value_matrix(configurations, plan.order)
        bases = baselines(configurations, head.baseline, dict(zip(head.group_by, stratum, strict=True)))
        test = _replayed(values[:, :, None], _counts(configurations), bases, rules)
        index = {configuration.configuration_id: i for i, configuration in enumerate(configurations)}
        for row in ranked:
            place = index[row["configuration_id"]]
            row.update(_decided(row, "diff", int(test.verdict[place]), sign))
            count = len(configurations[place].values)
            ends = f"stopped after {count}" if count < row["planned"] else ""
            row[RACE] = ", ".join(filter(None, [ends, "can be best" if test.contender[place] else ""]))
        # Ranks first; of those without one, the ones that went further.
        rows += sorted(ranked, key=lambda row: (row["rank"] is None, row["rank"] or -row["n"]))
    return pa.Table.from_pylist(rows, schema=ranking.schema.append(pa.field(RACE, pa.string())))


def raced_overall(overall: pa.Table, ranking: pa.Table, table: pa.Table, plan: RacePlan) -> pa.Table:
    """Return the ranking over all strata of a raced sweep with the verdicts of the race's tests.

    Replicates count once for each log: a window under two loads is no two observations. A configuration is
    compared as far as it came in all strata.

    Parameters
    ----------
    overall
        As `gridtune.report.rankings.combined.rank_overall` makes it from `table` and `ranking`.
    ranking, table, plan
        As of `raced`.
    """
    head = ranking_head(ranking)
    columns, parameters, groups = collect(table, head.objective, head.group_by, head.baseline)
    wanted = {name: value for name, value in head.baseline.items() if PARAMETER_PREFIX + name not in columns}
    sign = 1.0 if head.direction == "min" else -1.0
    keys = list(dict.fromkeys(one.key for configurations in groups.values() for one in configurations))
    place = {key: index for index, key in enumerate(keys)}
    values = np.full((len(keys), len(plan.order), len(groups)), math.nan)
    counts = np.full((len(keys), len(groups)), 0)
    bases = np.full(len(keys), -1)
    for group, configurations in enumerate(groups.values()):
        indices = [place[one.key] for one in configurations]
        values[indices, :, group] = sign * value_matrix(configurations, plan.order)
        counts[indices, group] = _counts(configurations)
        for index, base in zip(indices, baselines(configurations, wanted, {}), strict=True):
            if base >= 0:
                bases[index] = indices[base]
    logs = logs_of(table, columns, list(groups))
    merged = np.stack(
        [_merged(values[:, :, [one == log for one in logs]]) for log in dict.fromkeys(logs)], axis=2
    )
    rules = plan.rules(len(groups), merged.shape[2])
    test = _replayed(merged, counts.min(axis=1), bases, rules)
    rows = overall.to_pylist()
    for row in rows:
        index = place[tuple(row[PARAMETER_PREFIX + name] for name in parameters)]
        row.update(_decided(row, "relative", int(test.verdict[index]), sign))
        stopped = row["n"] + row["failures"] < row["planned"]
        row[RACE] = "stopped" if stopped else ""
    return pa.Table.from_pylist(rows, schema=overall.schema.append(pa.field(RACE, pa.string())))


def _merged(values: FloatArray) -> FloatArray:
    """Return one value for each configuration and replicate of a log, from those under several conditions.

    Parameters
    ----------
    values
        Shape (configurations, replicates, conditions); NaN where there is none.

    Returns
    -------
    numpy.ndarray
        Shape (configurations, replicates): geometric means where all values have one sign, else means of
        the values over the mean size of their replicate's.
    """
    if values.shape[2] == 1:
        return values[:, :, 0]
    signs = np.sign(values[np.isfinite(values)])
    if len(signs) and signs[0] != 0 and (signs == signs[0]).all():
        return np.asarray(signs[0] * np.exp(np.log(np.abs(values)).mean(axis=2)))
    present = np.isfinite(values)
    sizes = np.where(present, np.abs(values), 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return np.asarray((values / np.where(sizes > 0, sizes, 1.0)).mean(axis=2))


def _counts(configurations: Sequence[Configuration]) -> IntArray:
    return np.array([len(one.values) for one in configurations], dtype=np.int64)


def _replayed(values: FloatArray, counts: IntArray, bases: Any, rules: RaceRules) -> RaceTest:
    """Return a race's tests after all its looks; `values` has shape (configurations, replicates, strata)."""
    test = RaceTest(bases, rules)
    for number, look in enumerate(rules.looks):
        present = np.where((counts >= look)[:, None, None], values[:, :look], math.nan)
        test.look(present.reshape(len(values), -1), number)
    return test


def _decided(row: Mapping[str, Any], of: str, verdict: int, sign: float) -> dict[str, Any]:
    """Return a row's verdict by the race: its test and its mean difference must agree."""
    settled = Verdict(row["verdict"])
    judged = settled in (Verdict.BETTER, Verdict.TYPICALLY, Verdict.WORSE, Verdict.UNSURE)
    if judged and row["p_value"] is not None:
        better = verdict < 0 and sign * row[of] < 0
        worse = verdict > 0 and sign * row[of] > 0
        direction = "min" if sign > 0 else "max"
        settled = settled_better(row, direction) if better else Verdict.WORSE if worse else Verdict.UNSURE
    return {"verdict": settled.value, "p_value": None}
