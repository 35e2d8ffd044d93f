"""One ranking over all strata: by the mean of the relative differences to the baseline.

Means of seconds cannot be averaged over logs (the log with the longest queue would decide alone), but how
many per cent better than the baseline a configuration is on each log can.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gridtune.metrics.inference import bootstrap_interval
from gridtune.metrics.significance import adjust_p_values, sign_flip_p_value
from gridtune.report.cells import Configuration, baselines, collect, value_matrix
from gridtune.report.labels import PARAMETER_PREFIX
from gridtune.report.ranking import LEVEL, SEED, placed, plain, prepare, ranking_schema, verdict_of

__all__ = ["rank_overall"]

FloatArray = npt.NDArray[np.float64]


def rank_overall(
    table: pa.Table,
    *,
    objective: str,
    direction: str,
    baseline: Mapping[str, Any] | None,
    group_by: Sequence[str] = ("workload",),
    unit: str = "",
) -> pa.Table | None:
    """Rank the configurations over all strata, each stratum counting the same.

    Parameters
    ----------
    table, objective, direction, baseline, group_by, unit
        As in `gridtune.report.ranking.rank`.

    Returns
    -------
    pyarrow.Table or None
        A table with the columns of `rank` but for the stratum's; `relative` is the mean over the strata
        of the mean paired difference over the size of the baseline's mean there. Its interval holds for
        these very strata: replicates are resampled within each, the strata are not. Means and
        differences in the objective's own unit are null. None where there are fewer than two strata or
        nothing to compare.
    """
    head, columns, parameters = prepare(
        table, objective, direction=direction, baseline=baseline, group_by=group_by, unit=unit
    )
    groups = collect(table, objective, columns, parameters)
    if len(groups) < 2 or not head.baseline:
        return None
    own_baseline = {name: value for name, value in head.baseline.items() if name not in head.group_by}
    if not own_baseline:
        return None
    scaled: dict[tuple[Any, ...], list[FloatArray]] = {}
    firsts: dict[tuple[Any, ...], Configuration] = {}
    failures: dict[tuple[Any, ...], int] = {}
    is_baseline: dict[tuple[Any, ...], bool] = {}
    complete: dict[tuple[Any, ...], int] = {}
    planned = 0
    for configurations in groups.values():
        values = value_matrix(configurations)
        bases = baselines(configurations, own_baseline, {})
        planned += values.shape[1]
        for index, each in enumerate(configurations):
            key = tuple(each.parameters.values())
            firsts.setdefault(key, each)
            failures[key] = failures.get(key, 0) + each.failures
            is_baseline[key] = bool(bases[index] == index)
            differences = _scaled(values[index], values[bases[index]] if bases[index] >= 0 else None)
            complete[key] = complete.get(key, 0) + int(len(differences) == values.shape[1])
            if len(differences):
                scaled.setdefault(key, []).append(differences)
    keys = [key for key in firsts if key in scaled]
    if not keys:
        return None
    rows = [
        {
            "configuration_id": None,
            "is_baseline": is_baseline[key],
            **{PARAMETER_PREFIX + name: value for name, value in firsts[key].parameters.items()},
            "n": sum(map(len, scaled[key])),
            "pairs": 0 if is_baseline[key] else sum(map(len, scaled[key])),
            "planned": planned,
            "complete": complete[key] == len(groups),
            "failures": failures[key],
            **statistics,
        }
        for key, statistics in zip(keys, _statistics([scaled[key] for key in keys]), strict=True)
    ]
    compared = [row for row in rows if not row["is_baseline"]]
    adjusted = adjust_p_values([row["p_value"] for row in compared])
    for row, p_value in zip(compared, adjusted, strict=True):
        row["p_value"] = plain(p_value)
    for row in rows:
        row["verdict"] = verdict_of(row, direction, "relative").value
        if row["is_baseline"]:
            row["p_value"] = row["relative_low"] = row["relative_high"] = None
    schema = ranking_schema(table, [], parameters, replace(head, group_by=(), overall=True))
    return pa.Table.from_pylist(placed(rows, direction, "relative"), schema=schema)


def _scaled(values: FloatArray, base: FloatArray | None) -> FloatArray:
    """Return the paired differences over the size of the baseline's mean; empty where there are none."""
    if base is None:
        return np.array([])
    paired = np.isfinite(values) & np.isfinite(base)
    size = abs(float(base[paired].mean())) if paired.any() else 0.0
    return (values - base)[paired] / size if size else np.array([])


def _statistics(groups: Sequence[Sequence[FloatArray]]) -> list[dict[str, float | None]]:
    """Return the mean over strata of each configuration's scaled differences, its interval and p-value."""
    longest = max(sum(map(len, parts)) for parts in groups)
    spread = np.full((len(groups), longest), math.nan)
    flipped = spread.copy()
    means = np.array([np.mean([part.mean() for part in parts]) for parts in groups])
    for index, parts in enumerate(groups):
        count = sum(map(len, parts))
        # Weights make the plain mean over all replicates the mean of the strata's means. Moving each
        # stratum to the common mean leaves only the spread within strata to be resampled.
        weights = [count / (len(parts) * len(part)) for part in parts]
        inner = [(part - part.mean()) * weight for part, weight in zip(parts, weights, strict=True)]
        spread[index, :count] = np.concatenate(inner) + means[index]
        flipped[index, :count] = np.concatenate(
            [part * weight for part, weight in zip(parts, weights, strict=True)]
        )
    interval = bootstrap_interval(spread, rng=np.random.default_rng(SEED), confidence=LEVEL)
    p_values = sign_flip_p_value(flipped, rng=np.random.default_rng(SEED))
    columns = np.array([means, interval.low, interval.high, p_values])
    names = ("relative", "relative_low", "relative_high", "p_value")
    return [{name: plain(value) for name, value in zip(names, column, strict=True)} for column in columns.T]
