"""One ranking over all strata: by the mean of the relative differences to the baseline.

Means of seconds cannot be averaged over logs (the log with the longest queue would decide alone), but how
many per cent better than the baseline a configuration is on each log can.

There are two questions. How well do the replicates settle the difference on these very logs? That is what the
verdict is about. And what would it be on another log? There each log is a single observation, however many
replicates it has, and only as many logs as one has can say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gridtune.report.cells import Configuration, baselines, collect, value_matrix
from gridtune.report.labels import PARAMETER_PREFIX
from gridtune.report.placing import placed, plain
from gridtune.report.ranking import LEVEL, SEED, prepare, ranking_schema, verdict_of
from gridtune.statistics.inference import bootstrap_interval
from gridtune.statistics.joint import joint_paired_p_values
from gridtune.statistics.means import mean_interval

__all__ = ["FEWEST_LOGS", "rank_overall"]

FloatArray = npt.NDArray[np.float64]

#: An interval by log is given from so many logs on: with two, Student's is 13 times their distance wide.
FEWEST_LOGS = 3
#: Columns of an overall ranking that others do not have.
_BY_LOG = (
    pa.field("logs", pa.int64()),
    pa.field("by_log_low", pa.float64()),
    pa.field("by_log_high", pa.float64()),
)


@dataclass
class _Scaled:
    """One configuration's values and the baseline's on every stratum, over the baseline's mean there."""

    first: Configuration
    is_baseline: bool
    parts: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    residuals: dict[int, FloatArray] = field(default_factory=dict)
    failures: int = 0

    @property
    def pairs(self) -> int:
        return int(sum(np.isfinite(part).sum() for part, _ in self.parts.values()))


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
        of the mean paired difference over the size of the baseline's mean there. Its interval and the
        verdict hold for these very strata: replicates are resampled within each, the strata are not.
        `logs` is the number of different logs among them, and `by_log_low` and `by_log_high` the
        interval of the mean over logs, each log's mean counting as one observation (`mean_interval`); null
        with fewer than three. Means and differences in the objective's own unit are null. None where
        there are fewer than two strata or nothing to compare.
    """
    head, columns, parameters = prepare(
        table, objective, direction=direction, baseline=baseline, group_by=group_by, unit=unit
    )
    groups = collect(table, objective, columns, parameters)
    logs = _logs(table, columns, list(groups))
    if len(groups) < 2 or not head.baseline:
        return None
    own_baseline = {name: value for name, value in head.baseline.items() if name not in head.group_by}
    if not own_baseline:
        return None
    scaled_by_parameters: dict[tuple[Any, ...], _Scaled] = {}
    for number, configurations in enumerate(groups.values()):
        values = value_matrix(configurations)
        bases = baselines(configurations, own_baseline, {})
        for index, configuration in enumerate(configurations):
            key = tuple(configuration.parameters.values())
            entry = scaled_by_parameters.setdefault(
                key, _Scaled(configuration, is_baseline=bool(bases[index] == index))
            )
            entry.failures += configuration.failures
            if bases[index] >= 0:
                scaled = _relative(values[index], values[bases[index]])
                entry.parts[number], entry.residuals[number] = scaled
    lengths = [value_matrix(configurations).shape[1] for configurations in groups.values()]
    compared = [entry for entry in scaled_by_parameters.values() if entry.pairs]
    if not compared:
        return None
    rows = [
        {
            "configuration_id": None,
            "is_baseline": entry.is_baseline,
            **{PARAMETER_PREFIX + name: value for name, value in entry.first.parameters.items()},
            "n": entry.pairs,
            "pairs": 0 if entry.is_baseline else entry.pairs,
            "planned": sum(lengths),
            "complete": entry.pairs == sum(lengths),
            "failures": entry.failures,
            **statistics,
        }
        for entry, statistics in zip(compared, _statistics(compared, lengths, logs), strict=True)
    ]
    for row in rows:
        row["verdict"] = verdict_of(row, direction).value
    schema = ranking_schema(table, [], parameters, replace(head, group_by=(), overall=True))
    for column in _BY_LOG:
        schema = schema.append(column)
    return pa.Table.from_pylist(placed(rows, direction, "relative"), schema=schema)


def _logs(table: pa.Table, columns: Sequence[str], strata: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return the log of each stratum: what its traces' checksums are, or else its workload's name.

    Two workloads of one log (two machine sizes, two halves) are not two logs.
    """
    if "workload" not in columns:
        return [""] * len(strata)
    names = [stratum[columns.index("workload")] for stratum in strata]
    if "trace_checksum" not in table.column_names:
        return names
    sums: dict[str, set[str]] = {}
    pairs = table.select(["workload", "trace_checksum"]).group_by(["workload", "trace_checksum"])
    for row in pairs.aggregate([]).to_pylist():
        sums.setdefault(row["workload"], set()).add(row["trace_checksum"] or "")
    return [next(iter(sums[name])) or name if len(sums[name]) == 1 else name for name in names]


def _relative(values: FloatArray, base: FloatArray) -> tuple[tuple[FloatArray, FloatArray], FloatArray]:
    """Return a pair of samples over the size of the second's mean, and what their ratio varies by.

    The mean difference over the baseline's mean is a ratio of two sums over the same replicates. A hard
    replicate makes both large and the ratio hardly different, so its uncertainty is that of the
    residuals around the ratio (the ratio estimator's linearisation; Cochran, "Sampling Techniques",
    Wiley 1977, section 6.3), not that of the differences themselves.

    Returns
    -------
    tuple
        Both samples, scaled, and scaled residuals (mean 0); NaN where there is no pair.
    """
    paired = np.isfinite(values) & np.isfinite(base)
    values, base = np.where(paired, values, math.nan), np.where(paired, base, math.nan)
    mean = float(base[paired].mean()) if paired.any() else math.nan
    size = abs(mean) or math.nan
    differences = values - base
    ratio = float(differences[paired].mean()) / mean if paired.any() and mean else math.nan
    return (values / size, base / size), (differences - ratio * base) / size


def _statistics(
    compared: Sequence[_Scaled], lengths: Sequence[int], logs: Sequence[str]
) -> list[dict[str, float | int | None]]:
    """Return the mean over strata of each configuration's scaled differences, its intervals and p-value."""
    spread = np.full((len(compared), sum(lengths)), math.nan)
    first, second = spread.copy(), spread.copy()
    means = np.full(len(compared), math.nan)
    units = sorted(set(logs))
    by_log = np.full((len(compared), len(units)), math.nan)
    ends = np.cumsum(lengths)
    for index, entry in enumerate(compared):
        parts = {number: part for number, part in entry.parts.items() if np.isfinite(part[0]).any()}
        ratios = {number: float(np.nanmean(a - b)) for number, (a, b) in parts.items()}
        means[index] = np.mean(list(ratios.values()))
        for place, unit in enumerate(units):
            of_log = [ratio for number, ratio in ratios.items() if logs[number] == unit]
            if of_log and not entry.is_baseline:
                by_log[index, place] = np.mean(of_log)
        for number, (a, b) in parts.items():
            # Weights make the plain mean over all replicates the mean of the strata's means. Residuals
            # around each stratum's own ratio leave only the spread within strata to be resampled.
            weight = entry.pairs / (len(parts) * np.isfinite(a).sum())
            replicates = slice(ends[number] - lengths[number], ends[number])
            spread[index, replicates] = entry.residuals[number] * weight + means[index]
            if not entry.is_baseline:
                first[index, replicates], second[index, replicates] = a * weight, b * weight
    interval = bootstrap_interval(spread, rng=np.random.default_rng(SEED), confidence=LEVEL)
    p_values = joint_paired_p_values(first, second, rng=np.random.default_rng(SEED))
    counts = np.isfinite(by_log).sum(axis=1)
    over_logs = mean_interval(np.where((counts >= FEWEST_LOGS)[:, None], by_log, math.nan), confidence=LEVEL)
    own = np.array([entry.is_baseline for entry in compared])
    columns: dict[str, Any] = {
        "relative": means,
        "relative_low": np.where(own, math.nan, interval.low),
        "relative_high": np.where(own, math.nan, interval.high),
        "p_value": p_values,
        "logs": np.where(own, len(units), counts),
        "by_log_low": over_logs.low,
        "by_log_high": over_logs.high,
    }
    return [
        {name: plain(column[index]) for name, column in columns.items()} for index in range(len(compared))
    ]
