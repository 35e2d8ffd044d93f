"""One ranking over all strata: by the mean of the relative differences to the baseline.

Means of seconds cannot be averaged over logs (the log with the longest queue would decide alone), but how
many per cent better than the baseline a configuration is on each log can.
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
from gridtune.report.ranking import LEVEL, SEED, placed, plain, prepare, ranking_schema, verdict_of
from gridtune.statistics.inference import bootstrap_interval
from gridtune.statistics.joint import joint_sign_flip_p_values

__all__ = ["rank_overall"]

FloatArray = npt.NDArray[np.float64]


@dataclass
class _Scaled:
    """One configuration's paired differences on every stratum, over the baseline's mean there."""

    first: Configuration
    is_baseline: bool
    parts: dict[int, FloatArray] = field(default_factory=dict)
    residuals: dict[int, FloatArray] = field(default_factory=dict)
    failures: int = 0

    @property
    def pairs(self) -> int:
        return int(sum(np.isfinite(part).sum() for part in self.parts.values()))


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
        for entry, statistics in zip(compared, _statistics(compared, lengths), strict=True)
    ]
    for row in rows:
        row["verdict"] = verdict_of(row, direction, "relative").value
    schema = ranking_schema(table, [], parameters, replace(head, group_by=(), overall=True))
    return pa.Table.from_pylist(placed(rows, direction, "relative"), schema=schema)


def _relative(values: FloatArray, base: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return paired differences over the size of the baseline's mean, and what they vary by as a ratio.

    The mean difference over the baseline's mean is a ratio of two sums over the same replicates. A hard
    replicate makes both large and the ratio hardly different, so its uncertainty is that of the
    residuals around the ratio (the ratio estimator's linearisation; Cochran, "Sampling Techniques",
    Wiley 1977, section 6.3), not that of the differences themselves.

    Returns
    -------
    tuple of numpy.ndarray
        Scaled differences, and scaled residuals (mean 0); NaN where there is no pair.
    """
    paired = np.isfinite(values) & np.isfinite(base)
    mean = float(base[paired].mean()) if paired.any() else math.nan
    size = abs(mean) or math.nan
    differences = np.where(paired, values - base, math.nan)
    ratio = float(differences[paired].mean()) / mean if paired.any() and mean else math.nan
    return differences / size, (differences - ratio * base) / size


def _statistics(compared: Sequence[_Scaled], lengths: Sequence[int]) -> list[dict[str, float | None]]:
    """Return the mean over strata of each configuration's scaled differences, its interval and p-value."""
    spread = np.full((len(compared), sum(lengths)), math.nan)
    weighted = spread.copy()
    means = np.full(len(compared), math.nan)
    ends = np.cumsum(lengths)
    for index, entry in enumerate(compared):
        parts = {number: part for number, part in entry.parts.items() if np.isfinite(part).any()}
        means[index] = np.mean([np.nanmean(part) for part in parts.values()])
        for number, part in parts.items():
            # Weights make the plain mean over all replicates the mean of the strata's means. Residuals
            # around each stratum's own ratio leave only the spread within strata to be resampled.
            weight = entry.pairs / (len(parts) * np.isfinite(part).sum())
            place = slice(ends[number] - lengths[number], ends[number])
            spread[index, place] = entry.residuals[number] * weight + means[index]
            weighted[index, place] = math.nan if entry.is_baseline else part * weight
    interval = bootstrap_interval(spread, rng=np.random.default_rng(SEED), confidence=LEVEL)
    p_values = joint_sign_flip_p_values(weighted, rng=np.random.default_rng(SEED))
    own = np.array([entry.is_baseline for entry in compared])
    low, high = (np.where(own, math.nan, end) for end in (interval.low, interval.high))
    names = ("relative", "relative_low", "relative_high", "p_value")
    columns = np.array([means, low, high, p_values]).T
    return [{name: plain(value) for name, value in zip(names, row, strict=True)} for row in columns]
