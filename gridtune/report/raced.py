"""Rankings of a race, in which configurations have unequal numbers of replicates.

A race is looked at many times, so its verdicts are those of its own tests, made again here from the cells: a
difference counts where one of the looks has shown it. Only configurations that ran as far as any other have a
rank; the others stand below, the ones that went further first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gridtune.report.cells import Configuration, baselines, collect, value_matrix
from gridtune.report.labels import PARAMETER_PREFIX
from gridtune.report.overall import logs_of
from gridtune.report.ranking import Verdict, ranking_head, strata
from gridtune.statistics.racing import RaceRules, RaceTest
from gridtune.sweep.search.racing import RacePlan
from gridtune.types import FloatArray, IntArray

__all__ = ["raced", "raced_overall"]

#: The column that says how far a configuration came.
RACE = "race"


def raced(ranking: pa.Table, table: pa.Table, plan: RacePlan) -> pa.Table:
    """Return a ranking of a raced sweep with the race's verdicts, and a column that says who was stopped.

    Parameters
    ----------
    ranking
        As `gridtune.report.ranking.rank` makes it from `table`.
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
        As `gridtune.report.overall.rank_overall` makes it from `table` and `ranking`.
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
    if settled in (Verdict.BETTER, Verdict.WORSE, Verdict.UNSURE):
        better = verdict < 0 and sign * row[of] < 0
        worse = verdict > 0 and sign * row[of] > 0
        settled = Verdict.BETTER if better else Verdict.WORSE if worse else Verdict.UNSURE
    return {"verdict": settled.value, "p_value": None}
