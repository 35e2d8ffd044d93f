"""Ranking: which configuration is best, by how much, and whether that is sure.

Every configuration of a sweep is judged on the same replicates (windows of a log, seeds, shaken copies),
so differences are taken replicate by replicate. A replicate that is hard for one is hard for all; in the
paired difference that shared hardship cancels, and far fewer replicates settle a question.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from gridtune.errors import MetricError
from gridtune.report.labels import PARAMETER_PREFIX, parameter_names, row_parameters, value_text
from gridtune.report.rankings.cells import (
    Configuration,
    baselines,
    collect,
    gap_to_bound,
    lacks_values,
    replicate_labels,
    value_matrix,
)
from gridtune.statistics.dependence import neighbour_correlation
from gridtune.statistics.inference import interquartile_mean, paired_difference, with_unseen_tail
from gridtune.statistics.intervals import mean_interval
from gridtune.statistics.resampling import joint_paired_p_values
from gridtune.types import FloatArray

__all__ = [
    "LEVEL",
    "RankingHead",
    "Verdict",
    "means_of",
    "plain",
    "rank",
    "ranked_rows",
    "ranking_head",
    "row_key",
    "share_error",
    "shown_rows",
    "strata",
    "verdict_text",
    "window_correlation",
    "with_head",
]

#: Confidence of every interval, and one minus the level of every verdict.
LEVEL = 0.95
#: The resampling is always the same: a report made twice from the same results is the same.
SEED = 20_011
#: Columns of a ranking from a paired difference.
PAIRED = ("diff", "diff_low", "diff_high", "relative", "relative_low", "relative_high")
_FIELDS = {"diff": "difference", "diff_low": "low", "diff_high": "high"}
#: First words of the labels that `gridtune.sweep.space.schema.Replicates` gives.
_KINDS = {"window", "seed", "shake"}
_HEAD = b"gridtune.ranking"
#: Columns of every ranking after the stratum's and before the parameters', and after them.
_BEFORE = (
    pa.field("rank", pa.int64()),
    pa.field("configuration_id", pa.string()),
    pa.field("is_baseline", pa.bool_()),
)
_AFTER = (
    pa.field("n", pa.int64()),
    pa.field("planned", pa.int64()),
    pa.field("complete", pa.bool_()),
    pa.field("failures", pa.int64()),
    pa.field("undefined", pa.int64()),
    *(pa.field(name, pa.float64()) for name in ("mean", "iqm", "ci_low", "ci_high", "gap")),
    pa.field("pairs", pa.int64()),
    *(pa.field(name, pa.float64()) for name in (*PAIRED, "with_tail", "correlation", "p_value")),
    pa.field("verdict", pa.string()),
)


class Verdict(StrEnum):
    """Verdict on the paired difference to the baseline."""

    BETTER = "better"
    #: Better in typical replicates; as many bad ones as the sample can miss would undo it.
    TYPICALLY = "better typically"
    WORSE = "worse"
    UNSURE = "not sure"
    EQUAL = "equal"
    BASELINE = "baseline"
    #: Some of its runs failed: what is left of them cannot be judged.
    FAILED = "runs failed"
    NONE = ""


@dataclass(frozen=True)
class RankingHead:
    """Subject of a ranking; it travels in the table's metadata.

    Attributes
    ----------
    objective
        The metric's name.
    direction
        "min" or "max".
    unit
        The metric's unit, or "".
    baseline
        The parameters that make a configuration the baseline; empty for none.
    group_by
        What splits the ranking into strata.
    overall
        Whether it runs over all strata, by relative differences alone.
    replicate
        What a replicate is: "window" (of a log), "seed", "shake" (a copy of a log with submissions moved at
        random), or "replicate" where the sweep does not say.
    warnings
        Parameters to values to what a reader of a row with that value must know (`System.value_warnings`).
    subject_to
        Constraints that configurations must keep, in words.
    tables
        Tables that share the error of 5 %; with 1, this table has it by itself.
    """

    objective: str
    direction: str
    unit: str = ""
    baseline: Mapping[str, Any] = field(default_factory=dict)
    group_by: tuple[str, ...] = ()
    overall: bool = False
    replicate: str = "replicate"
    warnings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    subject_to: tuple[str, ...] = ()
    tables: int = 1

    @property
    def axis(self) -> str:
        """The objective with its unit, as an axis or a column calls it."""
        return f"{self.objective} ({self.unit})" if self.unit else self.objective

    @property
    def better(self) -> str:
        """Direction of better values, in a word."""
        return "smaller" if self.direction == "min" else "larger"


def rank(
    table: pa.Table,
    *,
    objective: str,
    direction: str,
    baseline: Mapping[str, Any] | None,
    group_by: Sequence[str] = ("workload",),
    unit: str = "",
    warnings: Mapping[str, Mapping[str, str]] | None = None,
) -> pa.Table:
    """Rank the configurations of a sweep within each stratum.

    Parameters
    ----------
    table
        One row per cell: `configuration_id`, `replicate`, `state`, `param.*` and `metric.*` columns.
    objective
        The metric to rank by.
    direction
        "min" if smaller is better, "max" if larger is.
    baseline
        Parameters that make a configuration the baseline. A parameter it does not name stays as the
        configuration under comparison has it, so that with `{"order": "fcfs"}` each backfilling is
        compared with fcfs under the same backfilling. None or empty: no differences.
    group_by
        Columns (or parameters) that split the table into strata, each ranked by itself; names the
        table does not have are passed over.
    unit
        The objective's unit, for headings.
    warnings
        What a reader of rows with certain values must know (`RankingHead`).

    Returns
    -------
    pyarrow.Table
        One row per configuration and stratum, the best first: the stratum's columns, `rank` (null
        where replicates are missing: a mean over other replicates cannot be compared; equal means
        share a rank; those without come last, in order of their difference to the best on the replicates
        that both have), `configuration_id`, `is_baseline`, the parameters, `n` (replicates with a value),
        `planned`, `complete`, `failures`, `undefined` (finished runs without a
        finite value), `mean`, `iqm`, `ci_low` and `ci_high` (95 % interval of the
        mean), `gap` (how far the mean is from that of the metric `<objective>_bound`, as a fraction of the
        latter; null without one), `pairs` (replicates shared with the baseline), `diff`, `diff_low`,
        `diff_high` (configuration minus baseline), the same as fractions of the baseline's mean in
        `relative*`, `with_tail` (`relative` with the bad replicates that the sample can miss, see
        `with_unseen_tail`), `correlation` (of neighbouring windows; null where replicates are independent),
        `p_value` (sign-flip test of all the stratum's configurations together; null where a finished run has
        no value and the baseline has one: the pairs that are left are no fair sample) and `verdict`.

    Raises
    ------
    MetricError
        If the table has no such metric, or the direction is neither "min" nor "max".
    """
    if direction not in {"min", "max"}:
        raise MetricError(f"direction must be 'min' or 'max', but got {direction!r}", field=objective)
    baseline = dict(baseline or {})
    unknown = sorted(set(baseline) - set(parameter_names(table)) - set(table.column_names))
    if unknown:
        raise MetricError(f"the baseline names parameters the table does not have: {', '.join(unknown)}")
    columns, parameters, groups = collect(table, objective, group_by, baseline)
    kinds = {label.partition(" ")[0] for label in table["replicate"].unique().to_pylist()}
    head = RankingHead(
        objective=objective,
        direction=direction,
        unit=unit,
        baseline=baseline,
        group_by=tuple(column.removeprefix(PARAMETER_PREFIX) for column in columns),
        replicate=kinds.pop() if len(kinds) == 1 and kinds <= _KINDS else "replicate",
        warnings=warnings or {},
    )
    rows: list[dict[str, Any]] = []
    for stratum, configurations in groups.items():
        names = dict(zip(head.group_by, stratum, strict=True))
        rows += [names | row for row in _rank_stratum(configurations, names, head)]
    return pa.Table.from_pylist(rows, schema=ranking_schema(table, columns, parameters, head))


def ranking_head(ranking: pa.Table) -> RankingHead:
    """Return what a ranking is about."""
    stored = (ranking.schema.metadata or {}).get(_HEAD)
    if stored is None:
        raise MetricError("this table is not a ranking", hint="make one with gridtune.report.rank")
    values = json.loads(stored)
    lists = {name: tuple(values[name]) for name in ("group_by", "subject_to")}
    return RankingHead(**{**values, **lists})


def with_head(ranking: pa.Table, head: RankingHead) -> pa.Table:
    """Return a ranking with another head."""
    return ranking.replace_schema_metadata(_metadata(head))


def share_error(ranking: pa.Table, tables: int) -> pa.Table:
    """Return a ranking whose verdicts share their error with those of other tables.

    The chance of any false "better" or "worse" in all of them is at most 5 %: p-values are those of the table
    times the number of tables (Bonferroni), at most 1.

    Parameters
    ----------
    ranking
        As `rank` makes it.
    tables
        Number of tables, one for each objective and stratum, and those over all strata.
    """
    head = replace(ranking_head(ranking), tables=tables)
    rows = ranking.to_pylist()
    for row in rows:
        if row["p_value"] is not None:
            row["p_value"] = min(1.0, row["p_value"] * tables)
            row["verdict"] = _verdict_of(row, head.direction).value
    return with_head(pa.Table.from_pylist(rows, schema=ranking.schema), head)


def has_values(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any of a ranking's rows has a mean or a difference; without, nothing can be shown."""
    return any(row["mean"] is not None or row["relative"] is not None for row in rows)


def shown_rows(rows: Sequence[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    """Return the first rows up to a limit, and the baseline's even where it is not among them."""
    return [row for place, row in enumerate(rows) if limit is None or place < limit or row["is_baseline"]]


def row_key(row: Mapping[str, Any]) -> Any:
    """Return what makes rows the same configuration: its id, or its parameters where it has none."""
    key = row["configuration_id"]
    return tuple(row_parameters(row).values()) if key is None else key


def strata(ranking: pa.Table) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each stratum's name and its rows in order."""
    names = ranking_head(ranking).group_by
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in ranking.to_pylist():
        parts = [
            row[name] if isinstance(row[name], str) else f"{name}={value_text(row[name])}" for name in names
        ]
        groups.setdefault(", ".join(parts), []).append(row)
    yield from groups.items()


def ranking_schema(
    table: pa.Table, columns: Sequence[str], parameters: Sequence[str], head: RankingHead
) -> pa.Schema:
    """Return the columns of a ranking of `table`, with the head in the metadata."""
    fields = [
        pa.field(name, table.schema.field(column).type)
        for name, column in zip(head.group_by, columns, strict=True)
    ]
    fields += [*_BEFORE, *(table.schema.field(PARAMETER_PREFIX + name) for name in parameters), *_AFTER]
    return pa.schema(fields, metadata=_metadata(head))


def _metadata(head: RankingHead) -> dict[bytes, bytes]:
    return {_HEAD: json.dumps(asdict(head), sort_keys=True, default=str).encode()}


def _rank_stratum(
    configurations: Sequence[Configuration], stratum: Mapping[str, Any], head: RankingHead
) -> list[dict[str, Any]]:
    values = value_matrix(configurations)
    bounds = value_matrix(configurations, kind="bounds")
    planned = values.shape[1]
    bases = baselines(configurations, head.baseline, stratum)
    # Row -1 is all NaN: what those without a baseline are compared with.
    padded = np.vstack([values, np.full(planned, math.nan)])
    interval = mean_interval(values, confidence=LEVEL)
    own = bases == np.arange(len(configurations))
    compared = (bases >= 0) & ~own
    correlation = window_correlation(configurations, values, padded[bases])
    paired = paired_difference(
        values,
        padded[bases],
        rng=np.random.default_rng(SEED),
        confidence=LEVEL,
        correlation=correlation or 0.0,
    )
    tails = with_unseen_tail(values, padded[bases], direction=head.direction, confidence=LEVEL)
    counts = np.isfinite(values).sum(axis=1)
    statistics = {
        "configuration_id": [configuration.configuration_id for configuration in configurations],
        "is_baseline": own,
        "n": counts,
        "planned": np.full(len(own), planned),
        "complete": counts == planned,
        "failures": [configuration.failures for configuration in configurations],
        "undefined": [len(configuration.undefined) for configuration in configurations],
        "mean": means_of(values),
        "iqm": interquartile_mean(values),
        "ci_low": interval.low,
        "ci_high": interval.high,
        "gap": gap_to_bound(values, bounds, head.direction),
        "pairs": np.where(compared, paired.n, 0),
        **{name: np.where(compared, getattr(paired, _FIELDS.get(name, name)), math.nan) for name in PAIRED},
        "with_tail": np.where(compared, tails, math.nan),
        "correlation": np.where(compared, math.nan if correlation is None else correlation, math.nan),
        "p_value": np.where(
            lacks_values(configurations, padded[bases]),
            math.nan,
            joint_paired_p_values(
                np.where(compared[:, None], values, math.nan),
                padded[bases],
                rng=np.random.default_rng(SEED),
                correlation=correlation or 0.0,
            ),
        ),
    }
    comparable = _comparable_means(values, head.direction)
    return ranked_rows(configurations, statistics, head.direction, "mean", comparable)


def window_correlation(
    configurations: Sequence[Configuration], values: FloatArray, base: FloatArray
) -> float | None:
    """Return how much differences in neighbouring windows of a log correlate; None for other replicates.

    Parameters
    ----------
    configurations
        Those of a stratum.
    values, base
        Shape (configurations, replicates), as `value_matrix` orders them: of each and of its baseline.
    """
    labels = replicate_labels(configurations)
    if not labels or not all(label.startswith("window ") for label in labels):
        return None
    return neighbour_correlation(values, base)


def ranked_rows(
    configurations: Iterable[Configuration],
    statistics: Mapping[str, Sequence[Any]],
    direction: str,
    by: str,
    comparable: FloatArray,
) -> list[dict[str, Any]]:
    """Return the rows of a ranking in order, each with its verdict, the complete ones with their rank.

    Parameters
    ----------
    configurations
        The configurations; their parameters begin the rows.
    statistics
        Column to the value of each configuration.
    direction
        "min" or "max".
    by
        The column to rank by; equal values share a rank.
    comparable
        Values to order those configurations by that lack replicates.
    """
    sign = 1 if direction == "min" else -1
    rows: list[dict[str, Any]] = []
    for index, configuration in enumerate(configurations):
        row = {PARAMETER_PREFIX + name: value for name, value in configuration.parameters.items()}
        row |= {name: plain(column[index]) for name, column in statistics.items()}
        rows.append({**row, "verdict": _verdict_of(row, direction).value})
    whole = np.sort([sign * row[by] for row in rows if row["complete"] and row[by] is not None])
    keys = []
    for row, value in zip(rows, comparable, strict=True):
        measured = row[by] is not None
        ranked = measured and row["complete"]
        row["rank"] = int(np.searchsorted(whole, sign * row[by])) + 1 if ranked else None
        keys.append(
            (not ranked, not measured, sign * value if measured else 0, row["configuration_id"] or "")
        )
    return [rows[index] for index in sorted(range(len(rows)), key=keys.__getitem__)]


def _verdict_of(row: Mapping[str, Any], direction: str) -> Verdict:
    """Return what a row's difference proves: its interval and its p-value must both exclude chance.

    The interval is that of the relative difference, which tables show; where it has none (a baseline around
    zero), that of the difference.
    """
    if row["is_baseline"] or row["failures"]:
        return Verdict.BASELINE if row["is_baseline"] else Verdict.FAILED
    of = "diff" if row["relative_low"] is None else "relative"
    low, high, p_value = row.get(f"{of}_low"), row.get(f"{of}_high"), row["p_value"]
    if row.get("diff") is None and row["relative"] is None:
        return Verdict.NONE
    if low == high == 0:
        return Verdict.EQUAL
    if low is None or high is None or p_value is None or p_value > 1 - LEVEL or low <= 0 <= high:
        return Verdict.UNSURE
    if (high < 0) != (direction == "min"):
        return Verdict.WORSE
    return _settled_better(row, direction)


def verdict_text(row: Mapping[str, Any]) -> str:
    """Return a row's verdict as tables show it, with the number of failed runs."""
    failed = row["verdict"] == Verdict.FAILED
    return f"{row['failures']} of {row['planned']} {row['verdict']}" if failed else str(row["verdict"])


def _settled_better(row: Mapping[str, Any], direction: str) -> Verdict:
    """Return which "better" a row that is better has: of the mean, or of the typical replicate only."""
    sign = 1 if direction == "min" else -1
    return Verdict.TYPICALLY if sign * (row["with_tail"] or 0) > 0 else Verdict.BETTER


def plain(value: Any) -> Any:
    """Return a NumPy number as Python's, NaN as None."""
    number = value.item() if hasattr(value, "item") else value
    return None if isinstance(number, float) and math.isnan(number) else number


def _comparable_means(values: FloatArray, direction: str) -> FloatArray:
    """Return the mean of each configuration, those that lack replicates corrected for which ones they lack.

    Their mean is the best complete configuration's plus their mean difference to it on the replicates that
    both have. Without a complete one, or a replicate in common, it is that of their own replicates.

    Parameters
    ----------
    values
        Shape (configurations, replicates); NaN marks a missing replicate.
    direction
        "min" or "max".

    Returns
    -------
    numpy.ndarray
        Shape (configurations,); NaN for those without a replicate.
    """
    present = np.isfinite(values)
    means = means_of(values)
    whole = present.all(axis=1)
    if whole.all() or not whole.any():
        return means
    best = values[np.argmin(np.where(whole, means if direction == "min" else -means, math.inf))]
    return np.where(whole | ~present.any(axis=1), means, best.mean() + means_of(values - best))


def means_of(values: FloatArray) -> FloatArray:
    """Return the mean of each row's finite values; NaN for a row without."""
    counts = np.isfinite(values).sum(axis=1)
    return np.asarray(np.nansum(values, axis=1) / np.where(counts, counts, math.nan), dtype=np.float64)
