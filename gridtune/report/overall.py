"""One ranking over all strata: by the mean of the relative differences to the baseline.

Means of seconds cannot be averaged over logs (the log with the longest queue would decide alone), but how
many per cent better than the baseline a configuration is on each log can.

There are two questions. How well do the replicates settle the difference on these very logs? That is what the
verdict is about. And what would it be on another log? There each log is a single observation, however many
replicates it has, and only as many logs as one has can say.

Strata of one log (two loads, two machine sizes) have the same replicates, which are not independent of each
other: a window that is hard under one load is hard under another. A replicate of a log counts once, whatever
the number of strata that it is in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gridtune.report.cells import (
    Configuration,
    baselines,
    collect,
    gap_to_bound,
    replicate_labels,
    value_matrix,
)
from gridtune.report.ranking import LEVEL, SEED, means_of, ranked_rows, ranking_head, ranking_schema
from gridtune.statistics.inference import paired_difference
from gridtune.statistics.intervals import mean_interval
from gridtune.statistics.resampling import joint_paired_p_values
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["FEWEST_LOGS", "logs_of", "rank_overall"]


#: An interval by log is given from so many logs on: with two, Student's is 13 times their distance wide.
FEWEST_LOGS = 3
#: With fewer common replicates, strata of one log are taken to vary alike.
_FEWEST_FOR_CORRELATION = 4
#: Columns of an overall ranking that others do not have.
_BY_LOG = (
    pa.field("logs", pa.int64()),
    pa.field("by_log_low", pa.float64()),
    pa.field("by_log_high", pa.float64()),
    pa.field("independent", pa.int64()),
)


class _Part(NamedTuple):
    """A configuration on one stratum.

    Attributes
    ----------
    relative, low, high
        Relative difference to the baseline there, and its interval.
    gap
        How far the mean is from its bound there; NaN without one.
    values, base
        Both samples over the size of the baseline's mean; NaN where there is no pair.
    """

    relative: float
    low: float
    high: float
    gap: float
    values: FloatArray
    base: FloatArray

    @property
    def pairs(self) -> int:
        return int(np.isfinite(self.values).sum())

    @property
    def residuals(self) -> FloatArray:
        """Variance of the ratio of the means (Cochran, "Sampling Techniques", 1977, section 6.3)."""
        ratio = np.nanmean(self.values) / np.nanmean(self.base)
        return np.asarray(self.values - ratio * self.base, dtype=np.float64)


@dataclass
class _Compared:
    """One configuration on every stratum where it has a replicate in common with its baseline."""

    first: Configuration
    is_baseline: bool
    parts: dict[int, _Part] = field(default_factory=dict)
    failures: int = 0

    @property
    def pairs(self) -> int:
        return sum(part.pairs for part in self.parts.values())


def rank_overall(table: pa.Table, ranking: pa.Table) -> pa.Table | None:
    """Rank the configurations over all strata, each stratum counting the same.

    Parameters
    ----------
    table
        One row per cell.
    ranking
        Its ranking within each stratum, as `gridtune.report.ranking.rank` makes it.

    Returns
    -------
    pyarrow.Table or None
        A table with the columns of `rank` but for the stratum's; `relative` is the mean over the strata
        of the mean paired difference over the size of the baseline's mean there, `gap` the mean over them
        of the gaps to the bound. Its interval, combined
        from those of the strata, and the verdict hold for these very strata.
        `logs` is the number of different logs among them, and `by_log_low` and `by_log_high` the
        interval of the mean over logs, each log's mean counting as one observation (`mean_interval`); null
        with fewer than three. `independent` is the number of different replicates of a log that the strata
        share between them. Means and differences in the objective's own unit are null. None where
        there are fewer than two strata or nothing to compare.
    """
    head = ranking_head(ranking)
    direction = head.direction
    columns, parameters, groups = collect(table, head.objective, head.group_by, head.baseline)
    own_baseline = {name: value for name, value in head.baseline.items() if name not in head.group_by}
    if len(groups) < 2 or not own_baseline:
        return None
    logs = logs_of(table, columns, list(groups))
    planned = sum(len(replicate_labels(configurations)) for configurations in groups.values())
    units = _units(groups.values(), logs)
    by_parameters: dict[tuple[Any, ...], _Compared] = {}
    for number, configurations in enumerate(groups.values()):
        bases = baselines(configurations, own_baseline, {})
        values = value_matrix(configurations)
        gaps = gap_to_bound(values, value_matrix(configurations, kind="bounds"), direction)
        parts = _parts(values, bases, gaps)
        for index, configuration in enumerate(configurations):
            first_seen = _Compared(configuration, bool(bases[index] == index))
            entry = by_parameters.setdefault(configuration.key, first_seen)
            entry.failures += configuration.failures
            if parts[index].pairs:
                entry.parts[number] = parts[index]
    compared = [entry for entry in by_parameters.values() if entry.pairs]
    if not compared:
        return None
    pairs = np.array([entry.pairs for entry in compared])
    own = np.array([entry.is_baseline for entry in compared])
    statistics = {
        "configuration_id": [None] * len(compared),
        "is_baseline": own,
        "n": pairs,
        "pairs": np.where(own, 0, pairs),
        "planned": np.full(len(own), planned),
        "complete": pairs == planned,
        "failures": [entry.failures for entry in compared],
        **_statistics(compared, own, units, logs),
    }
    first = [entry.first for entry in compared]
    rows = ranked_rows(first, statistics, direction, "relative", statistics["relative"])
    schema = ranking_schema(table, [], parameters, replace(head, group_by=(), overall=True))
    for column in _BY_LOG:
        schema = schema.append(column)
    return pa.Table.from_pylist(rows, schema=schema)


def logs_of(table: pa.Table, columns: Sequence[str], strata: Sequence[tuple[Any, ...]]) -> list[str]:
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


def _parts(values: FloatArray, bases: IntArray, gaps: FloatArray) -> list[_Part]:
    """Return the part of each configuration of a stratum, compared with its baseline (-1: none)."""
    base = np.vstack([values, np.full(values.shape[1], math.nan)])[bases]
    paired = paired_difference(values, base, rng=np.random.default_rng(SEED), confidence=LEVEL)
    missing = ~(np.isfinite(values) & np.isfinite(base))
    values, base = np.where(missing, math.nan, values), np.where(missing, math.nan, base)
    size = np.abs(means_of(base))
    size = np.where(size > 0, size, math.nan)[:, None]
    intervals = (np.atleast_1d(x) for x in (paired.relative, paired.relative_low, paired.relative_high))
    return [_Part(*row) for row in zip(*intervals, gaps, values / size, base / size, strict=True)]


def _units(groups: Iterable[Sequence[Configuration]], logs: Sequence[str]) -> list[IntArray]:
    """Return for each stratum the numbers of its replicates: the same where log and replicate are."""
    numbers: dict[tuple[str, str], int] = {}
    return [
        np.array(
            [numbers.setdefault((log, label), len(numbers)) for label in replicate_labels(configurations)]
        )
        for configurations, log in zip(groups, logs, strict=True)
    ]


def _statistics(
    compared: Sequence[_Compared], own: BoolArray, units: Sequence[IntArray], logs: Sequence[str]
) -> dict[str, Any]:
    """Return the mean over strata of each configuration's relative differences, its intervals and p-value."""
    count = 1 + max(int(numbers.max()) for numbers in units)
    first, second = np.zeros((2, len(compared), count))
    names = sorted(set(logs))
    by_log = np.full((len(compared), len(names)), math.nan)
    rows: list[tuple[float, float, float]] = []
    # The different replicates that each shares with its baseline.
    shared = np.zeros((len(compared), count), dtype=np.bool_)
    for index, entry in enumerate(compared):
        rows.append(_combined(entry.parts, units, logs))
        if entry.is_baseline:
            continue
        for place, name in enumerate(names):
            of_log = [part.relative for number, part in entry.parts.items() if logs[number] == name]
            by_log[index, place] = np.mean(of_log) if of_log else math.nan
        for number, part in entry.parts.items():
            # Weights make the plain mean over all replicates the mean of the strata's means.
            weight = entry.pairs / (len(entry.parts) * part.pairs)
            first[index, units[number]] += np.nan_to_num(part.values * weight)
            second[index, units[number]] += np.nan_to_num(part.base * weight)
            shared[index, units[number][np.isfinite(part.values)]] = True
    first[~shared] = second[~shared] = math.nan
    counts = np.isfinite(by_log).sum(axis=1)
    over_logs = mean_interval(np.where((counts >= FEWEST_LOGS)[:, None], by_log, math.nan), confidence=LEVEL)
    means, low, high = np.array(rows).T
    return {
        "relative": means,
        "relative_low": np.where(own, math.nan, low),
        "relative_high": np.where(own, math.nan, high),
        "gap": [float(np.mean([part.gap for part in entry.parts.values()])) for entry in compared],
        "p_value": joint_paired_p_values(first, second, rng=np.random.default_rng(SEED)),
        "logs": np.where(own, len(names), counts),
        "by_log_low": over_logs.low,
        "by_log_high": over_logs.high,
        "independent": np.sum(shared, axis=1),
    }


def _combined(
    parts: Mapping[int, _Part], units: Sequence[IntArray], logs: Sequence[str]
) -> tuple[float, float, float]:
    """Return the mean of the strata's relative differences and its interval.

    On each side, the interval reaches as far as the root of the sum of squares of the strata's own, over
    their number, as variances of independent means add up; to strata of one log, their correlation is added
    (Zou, "Toward using confidence intervals to compare correlations", Psychological Methods 12, 2007).
    """
    relative, low, high = np.array([part[:3] for part in parts.values()]).T
    numbers = list(parts)
    related = np.eye(len(numbers))
    for i, j in combinations(range(len(numbers)), 2):
        one, other = numbers[i], numbers[j]
        if logs[one] == logs[other]:
            _, here, there = np.intersect1d(units[one], units[other], return_indices=True)
            pair = np.array([parts[one].residuals[here], parts[other].residuals[there]])
            related[i, j] = related[j, i] = _correlation(pair[:, np.isfinite(pair).all(axis=0)])
    below, above = (
        math.sqrt(reach @ related @ reach) / len(numbers) for reach in (relative - low, high - relative)
    )
    mean = float(relative.mean())
    return mean, mean - below, mean + above


def _correlation(both: FloatArray) -> float:
    """Return how alike two strata vary over replicates, from 0 to 1; 1 where too few tell."""
    if both.shape[1] < _FEWEST_FOR_CORRELATION or (both.std(axis=1) == 0).any():
        return 1.0
    return max(0.0, float(np.asarray(np.corrcoef(both))[0, 1]))
