"""Ranking: which configuration is best, by how much, and whether that is sure.

Every configuration of a sweep is judged on the same replicates (windows of a log, seeds, shaken copies),
so differences are taken replicate by replicate. A replicate that is hard for one is hard for all; in the
paired difference that shared hardship cancels, and far fewer replicates settle a question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gridtune.errors import MetricError
from gridtune.report.labels import PARAMETER_PREFIX, configuration_label, row_parameters, varying_parameters
from gridtune.report.rankings.cells import SEED, Cells, Stratum, gap_to_bound
from gridtune.statistics.inference import hold_together, interquartile_mean, with_unseen_tail
from gridtune.statistics.intervals import mean_interval
from gridtune.statistics.resampling import error_of_each, joint_paired_p_values
from gridtune.types import FloatArray

#: A configuration's row in a ranking: column to value, None where there is none.
Row = Mapping[str, Any]
#: Confidence of every interval, and one minus the level of every verdict.
LEVEL = 0.95
#: Columns of a ranking from a paired difference.
PAIRED = ("diff", "diff_low", "diff_high", "relative", "relative_low", "relative_high")
_FIELDS = {"diff": "difference", "diff_low": "low", "diff_high": "high"}
#: Columns of every ranking before and after those of the parameters.
_BEFORE = {"rank": pa.int64(), "configuration_id": pa.string(), "is_baseline": pa.bool_()}
_AFTER = {
    "n": pa.int64(),
    "planned": pa.int64(),
    "complete": pa.bool_(),
    "failures": pa.int64(),
    "undefined": pa.int64(),
    **dict.fromkeys(("mean", "iqm", "ci_low", "ci_high", "gap"), pa.float64()),
    "pairs": pa.int64(),
    **dict.fromkeys((*PAIRED, "with_tail", "correlation", "p_value"), pa.float64()),
    "verdict": pa.string(),
}


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
    """Subject of a ranking.

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
        The columns that split the ranking into strata.
    overall
        True over all strata, by relative differences alone.
    replicate
        What a replicate is: "window" (of a log), "seed", "shake" (a copy of a log with submissions moved at
        random), or "replicate" where the sweep does not say.
    warnings
        Parameters to values to what a reader of a row with that value must know (`System.value_warnings`).
    subject_to
        Constraints that configurations must keep, in words.
    error
        The chance that any verdict is wrong. It is less where the replicates were judged before
        (`SweepFacts.error`); p-values are then larger in proportion and still compared with 0.05.
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
    error: float = 1 - LEVEL

    @property
    def axis(self) -> str:
        """The objective with its unit, as an axis or a column calls it."""
        return f"{self.objective} ({self.unit})" if self.unit else self.objective

    @property
    def fresh(self) -> str:
        """Replicates that a search did not see, in words."""
        return "later windows" if self.replicate == "window" else f"fresh {self.replicate}s"

    @property
    def better(self) -> str:
        """Direction of better values, in a word."""
        return "smaller" if self.direction == "min" else "larger"

    @property
    def sign(self) -> int:
        """1 if smaller is better, else -1."""
        return 1 if self.direction == "min" else -1

    def joint_columns(
        self,
        columns: Mapping[str, FloatArray],
        values: FloatArray,
        base: FloatArray,
        correlation: npt.ArrayLike,
    ) -> dict[str, FloatArray]:
        """Return the p-values of a ranking, and the ends of its paired intervals such that all hold together.

        Parameters
        ----------
        columns
            Those of `PAIRED`, or only those of the relative difference; each interval by itself.
        values, base
            The pairs, shape (configurations, replicates); NaN for what is not compared.
        correlation
            As of `joint_paired_p_values`.
        """
        rng = np.random.default_rng(SEED)
        p_value = joint_paired_p_values(values, base, rng=rng, correlation=correlation)
        p_value = np.minimum(1.0, p_value * ((1 - LEVEL) / self.error))
        each = error_of_each(
            values, base, rng=np.random.default_rng(SEED), correlation=correlation, level=self.error
        )
        # The verdict is about the relative difference; where it has no interval (a baseline around zero), the
        # difference.
        about = "diff" if "diff" in columns else "relative"
        missing = np.isnan(columns["relative_low"])
        low, high = (
            np.where(missing, columns[about + end], columns["relative" + end]) for end in ("_low", "_high")
        )
        shown = (p_value <= 1 - LEVEL) & ((low > 0) | (high < 0))
        found = {"p_value": p_value}
        for name in {about, "relative"}:
            found[f"{name}_low"], found[f"{name}_high"] = hold_together(
                columns[name],
                (columns[f"{name}_low"], columns[f"{name}_high"]),
                (np.isfinite(values) & np.isfinite(base)).sum(axis=1),
                shown,
                levels=(self.error, each),
                ratio=name == "relative",
            )
        return found

    def rank_stratum(self, stratum: Stratum) -> list[Row]:
        """Return the rows of a stratum; `rank` describes the columns."""
        values = stratum.values(self.objective)
        base = stratum.of_bases(values)
        planned = values.shape[1]
        interval = mean_interval(values, confidence=LEVEL)
        own = stratum.bases == np.arange(len(values))
        compared = (stratum.bases >= 0) & ~own
        correlation = stratum.correlation(values, base)
        paired = stratum.paired(self.objective, stratum.bases, self.error)
        tails = with_unseen_tail(values, base, direction=self.direction, confidence=LEVEL)
        others = np.where(compared[:, None], values, math.nan)
        columns = {name: np.atleast_1d(getattr(paired, _FIELDS.get(name, name))) for name in PAIRED}
        columns |= self.joint_columns(columns, others, base, correlation or 0.0)
        places = np.arange(len(own))
        ends = stratum.widened(self.objective, places, stratum.bases, *(columns[name] for name in PAIRED[3:]))
        columns |= zip(PAIRED[4:], ends, strict=True)
        undefined = stratum.undefined(self.objective)
        counts = np.isfinite(values).sum(axis=1)
        statistics = {
            "configuration_id": stratum.ids,
            "is_baseline": own,
            "n": counts,
            "planned": np.full(len(own), planned),
            "complete": counts == planned,
            "failures": stratum.failures,
            "undefined": undefined.sum(axis=1),
            "mean": means_of(values),
            "iqm": interquartile_mean(values),
            "ci_low": interval.low,
            "ci_high": interval.high,
            "gap": gap_to_bound(values, stratum.bounds(self.objective), self.direction),
            "pairs": np.where(compared, paired.n, 0),
            **{name: np.where(compared, columns[name], math.nan) for name in PAIRED},
            "with_tail": np.where(compared, tails, math.nan),
            "correlation": np.where(compared, math.nan if correlation is None else correlation, math.nan),
            "p_value": np.where((undefined & np.isfinite(base)).any(axis=1), math.nan, columns["p_value"]),
        }
        return self.ranked_rows(stratum.parameters, statistics, "mean", self.comparable_means(values))

    def verdict_of(self, row: Mapping[str, Any]) -> Verdict:
        """Return what a row's difference proves: its interval and its p-value must both exclude chance.

        The interval is that of the relative difference, which tables show; where it has none (a baseline
        around zero), that of the difference.
        """
        if row["is_baseline"] or row["failures"]:
            return Verdict.BASELINE if row["is_baseline"] else Verdict.FAILED
        of = "diff" if row["relative_low"] is None else "relative"
        low, high, p_value = row.get(f"{of}_low"), row.get(f"{of}_high"), row["p_value"]
        if row.get("diff") is None and row["relative"] is None:
            return Verdict.NONE
        if low == high == 0:
            return Verdict.EQUAL
        if low is None or high is None or p_value is None or p_value > 1 - LEVEL or low < 0 < high:
            return Verdict.UNSURE
        if (high <= 0) != (self.direction == "min"):
            return Verdict.WORSE
        return Verdict.TYPICALLY if self.sign * (row["with_tail"] or 0) > 0 else Verdict.BETTER

    def comparable_means(self, values: FloatArray) -> FloatArray:
        """Return the mean of each configuration, corrected where it lacks replicates.

        It is then the best complete configuration's plus the mean difference to it on the replicates that
        both have. Without a complete one, or a replicate in common, it is that of its own replicates.

        Parameters
        ----------
        values
            Shape (configurations, replicates); NaN marks a missing replicate.

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
        best = values[np.argmin(np.where(whole, self.sign * means, math.inf))]
        return np.where(whole | ~present.any(axis=1), means, best.mean() + means_of(values - best))

    def ranked_rows(
        self,
        parameters: Sequence[Mapping[str, Any]],
        statistics: Mapping[str, Sequence[Any]],
        by: str,
        comparable: FloatArray,
    ) -> list[Row]:
        """Return the rows of a ranking in order, each with its verdict, the complete ones with their rank.

        Parameters
        ----------
        parameters
            Of each configuration.
        statistics
            Column to the value of each configuration.
        by
            The column to rank by; equal values share a rank.
        comparable
            Values to order those configurations by that lack replicates.
        """
        rows: list[dict[str, Any]] = []
        columns = [map(plain, np.asarray(column, dtype=object).tolist()) for column in statistics.values()]
        for own, *found in zip(parameters, *columns, strict=True):
            row = {PARAMETER_PREFIX + name: value for name, value in own.items()}
            row |= zip(statistics, found, strict=True)
            rows.append({**row, "verdict": self.verdict_of(row).value})
        whole = np.sort([self.sign * row[by] for row in rows if row["complete"] and row[by] is not None])
        keys = []
        for row, value in zip(rows, comparable, strict=True):
            measured = row[by] is not None
            ranked = measured and row["complete"]
            row["rank"] = int(np.searchsorted(whole, self.sign * row[by])) + 1 if ranked else None
            keys.append(
                (
                    not ranked,
                    not measured,
                    self.sign * value if measured else 0,
                    row["configuration_id"] or "",
                )
            )
        return [rows[index] for index in sorted(range(len(rows)), key=keys.__getitem__)]


@dataclass(frozen=True)
class Ranking:
    """Configurations in order, the best first, within each stratum or over all of them.

    Attributes
    ----------
    head
        Its subject.
    strata
        Name of each stratum to its rows; "" over all of them.
    schema
        The columns of `table`.
    """

    head: RankingHead
    strata: Mapping[str, Sequence[Row]]
    schema: pa.Schema

    @classmethod
    def of(
        cls, head: RankingHead, fields: Iterable[pa.Field], strata: Mapping[str, Sequence[Row]]
    ) -> Ranking:
        """Return a ranking of rows with these columns of strata and parameters."""
        split: list[pa.Field] = []
        parameters: list[pa.Field] = []
        for one in fields:
            (parameters if one.name.startswith(PARAMETER_PREFIX) else split).append(one)
        before, after = ([pa.field(*item) for item in part.items()] for part in (_BEFORE, _AFTER))
        schema = pa.schema([*split, *before, *parameters, *after])
        return cls(head, {}, schema).with_rows(head, strata)

    def with_rows(
        self, head: RankingHead, strata: Mapping[str, Sequence[Row]], *columns: pa.Field
    ) -> Ranking:
        """Return a ranking with other rows, and further columns."""
        schema = self.schema
        for column in columns:
            schema = schema.append(column)
        filled = {
            name: [{column: row.get(column) for column in schema.names} for row in rows]
            for name, rows in strata.items()
        }
        return replace(self, head=head, strata=filled, schema=schema)

    def with_confirmed(self, confirmed: Iterable[Mapping[str, Any]]) -> Ranking:
        """Return a ranking with the difference of a search's best as fresh replicates show it.

        The column `confirmed` has their number. Rows of another objective or baseline are passed over.
        """
        own = (self.head.objective, dict(self.head.baseline))
        found = [one for one in confirmed if (one["objective"], one["baseline"]) == own]
        if not found:
            return self

        def seen(name: str, row: Row) -> Row:
            for one in found:
                if one["stratum"] == name and one["best"] == row_parameters(row):
                    fresh = one["columns"]
                    return {**row, **fresh, "confirmed": fresh["pairs"], "pairs": row["pairs"]}
            return row

        strata = {name: [seen(name, row) for row in rows] for name, rows in self.strata.items()}
        return self.with_rows(self.head, strata, pa.field("confirmed", pa.int64()))

    @property
    def rows(self) -> list[Row]:
        """The rows of all strata."""
        return [row for rows in self.strata.values() for row in rows]

    @cached_property
    def table(self) -> pa.Table:
        """The rows as a table; `rank` describes the columns."""
        return pa.Table.from_pylist(self.rows, schema=self.schema)

    @cached_property
    def varying(self) -> list[str]:
        """The parameters with more than one value, those of the strata left out."""
        return varying_parameters(self.table, without=self.head.group_by)

    def label(self, row: Mapping[str, Any]) -> str:
        """Return the configuration of a row in one short line."""
        return configuration_label(row_parameters(row), self.varying)

    def without_verdicts(self) -> Ranking:
        """Return a race's ranking: no test here allows for configurations that stopped by their results."""

        def unsure(row: Row) -> Row:
            tested = row["p_value"] is not None
            return {**row, "verdict": Verdict.UNSURE.value, "p_value": None} if tested else row

        return self.with_rows(
            self.head, {name: list(map(unsure, rows)) for name, rows in self.strata.items()}
        )


def rank(
    cells: Cells,
    *,
    objective: str,
    direction: str,
    unit: str = "",
    warnings: Mapping[str, Mapping[str, str]] | None = None,
    error: float = 1 - LEVEL,
) -> Ranking:
    """Rank the configurations of a sweep within each stratum.

    Parameters
    ----------
    cells
        The cells, with the baseline to compare with.
    objective
        The metric to rank by.
    direction
        "min" if smaller is better, "max" if larger is.
    unit
        The objective's unit, for headings.
    warnings, error
        As of `RankingHead`.

    Returns
    -------
    Ranking
        One row per configuration and stratum, the best first: the stratum's columns, `rank` (null
        where replicates are missing: a mean over other replicates cannot be compared; equal means
        share a rank; those without come last, in order of their difference to the best on the replicates
        that both have), `configuration_id`, `is_baseline`, the parameters, `n` (replicates with a value),
        `planned`, `complete`, `failures`, `undefined` (finished runs without a
        finite value), `mean`, `iqm`, `ci_low` and `ci_high` (95 % interval of the
        mean), `gap` (how far the mean is from that of the metric `<objective>_bound`, as a fraction of the
        latter; null without one), `pairs` (replicates shared with the baseline), `diff`, `diff_low`,
        `diff_high` (configuration minus baseline; the intervals of all the stratum's configurations hold
        together), the same as fractions of the baseline's mean in `relative*`, `with_tail` (`relative` with
        the bad replicates that the sample can miss, see `with_unseen_tail`), `correlation` (of neighbouring
        windows; null where replicates are independent), `p_value` (sign-flip test of all the stratum's
        configurations together; null where a finished run has no value and the baseline has one: the pairs
        that are left are no fair sample) and `verdict`.

    Raises
    ------
    MetricError
        If the table has no such metric, or the direction is neither "min" nor "max".
    """
    if direction not in {"min", "max"}:
        raise MetricError(f"direction must be 'min' or 'max', but got {direction!r}", field=objective)
    head = RankingHead(
        objective=objective,
        direction=direction,
        unit=unit,
        baseline=cells.baseline,
        group_by=cells.group_by,
        replicate=cells.replicate,
        warnings=warnings or {},
        error=error,
    )
    ranked = {
        stratum.name: [{**stratum.key, **row} for row in head.rank_stratum(stratum)]
        for stratum in cells.strata
    }
    return Ranking.of(head, cells.fields, ranked)


def has_values(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any of a ranking's rows has a mean or a difference; without, nothing can be shown."""
    return any(row["mean"] is not None or row["relative"] is not None for row in rows)


def shown_rows(rows: Sequence[Row], limit: int | None) -> list[Row]:
    """Return the first rows up to a limit, and the baseline's even where it is not among them."""
    return [row for place, row in enumerate(rows) if limit is None or place < limit or row["is_baseline"]]


def row_key(row: Mapping[str, Any]) -> Any:
    """Return what makes rows the same configuration: its id, or its parameters where it has none."""
    key = row["configuration_id"]
    return tuple(row_parameters(row).values()) if key is None else key


def same_configuration(overall: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Return whether a row of a stratum is the configuration of a row of the ranking over all strata."""
    wanted = (item for item in overall.items() if item[0].startswith(PARAMETER_PREFIX))
    return all(row.get(name, value) == value for name, value in wanted)


def verdict_text(row: Mapping[str, Any]) -> str:
    """Return a row's verdict as tables show it, with the number of failed runs."""
    failed = row["verdict"] == Verdict.FAILED
    return f"{row['failures']} of {row['planned']} {row['verdict']}" if failed else str(row["verdict"])


def plain(value: Any) -> Any:
    """Return a NumPy number as Python's, NaN as None."""
    number = value.item() if hasattr(value, "item") else value
    return None if isinstance(number, float) and math.isnan(number) else number


def means_of(values: FloatArray) -> FloatArray:
    """Return the mean of each row's finite values; NaN for a row without."""
    counts = np.isfinite(values).sum(axis=1)
    return np.asarray(np.nansum(values, axis=1) / np.where(counts, counts, math.nan), dtype=np.float64)
