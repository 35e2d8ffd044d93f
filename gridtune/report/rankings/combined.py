"""Several rankings together: over all strata by ratios, and over several objectives as Pareto fronts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import moocore
import numpy as np
import pyarrow as pa

from gridtune.report.labels import PARAMETER_PREFIX, number_text, percent_text, row_parameters
from gridtune.report.rankings.cells import Cells, Stratum, baselines, gap_to_bound, replicate_order
from gridtune.report.rankings.ranking import LEVEL, Ranking, RankingHead, means_of, row_key
from gridtune.statistics.inference import PairedDifference, with_unseen_tail
from gridtune.statistics.intervals import mean_interval
from gridtune.statistics.pareto import REFERENCE, Scale, hypervolume
from gridtune.types import BoolArray, FloatArray, IntArray

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
    correlation
        Of neighbouring windows there; None where replicates are independent.
    pairs
        Number of replicates in common.
    values, base
        Both samples over the size of the baseline's mean; NaN where there is no pair.
    residuals
        Around the ratio of the means (Cochran, "Sampling Techniques", 1977, section 6.3).
    """

    relative: float
    low: float
    high: float
    gap: float
    correlation: float | None
    pairs: int
    values: FloatArray
    base: FloatArray
    residuals: FloatArray


@dataclass
class _Compared:
    """One configuration on every stratum where it has a replicate in common with its baseline."""

    parameters: Mapping[str, Any]
    is_baseline: bool
    parts: dict[int, _Part] = field(default_factory=dict)
    failures: int = 0
    undefined: int = 0
    lacks_values: bool = False

    @property
    def pairs(self) -> int:
        return sum(part.pairs for part in self.parts.values())

    def with_tail(self, direction: str) -> float:
        """Return the mean relative difference with the bad replicates that all strata together can miss."""
        if self.is_baseline:
            return math.nan
        options: dict[str, Any] = {"direction": direction, "replicates": self.pairs, "confidence": LEVEL}
        tails = [with_unseen_tail(part.values, part.base, **options) for part in self.parts.values()]
        return float(np.mean(np.array(tails)))


def _correlation(both: FloatArray) -> float:
    """Return how alike two strata vary over replicates, from 0 to 1; 1 where too few tell."""
    if both.shape[1] < _FEWEST_FOR_CORRELATION:
        return 1.0
    # As `np.corrcoef`, whose further checks take most of its time.
    off = both - both.mean(axis=1, keepdims=True)
    products = np.dot(off, off.T) * (1 / (both.shape[1] - 1))
    one, other = np.sqrt(products.diagonal())
    return min(max(float(products[0, 1] / one / other), 0.0), 1.0) if one and other else 1.0


@dataclass(frozen=True)
class _Replicates:
    """The replicates of all strata.

    Attributes
    ----------
    logs
        The log of each stratum.
    units
        For each stratum the numbers of its replicates: the same where log and replicate are. Those of a log
        follow each other.
    """

    logs: Sequence[str]
    units: Sequence[IntArray]

    @classmethod
    def of(cls, cells: Cells) -> _Replicates:
        """Return the replicates of cells."""
        logs = cls._logs_of(cells)
        names = [
            [(log, label) for label in stratum.replicates]
            for stratum, log in zip(cells.strata, logs, strict=True)
        ]
        unique = {name for of_stratum in names for name in of_stratum}
        every = sorted(unique, key=lambda name: (name[0], replicate_order(name[1])))
        numbers = {name: number for number, name in enumerate(every)}
        return cls(logs, [np.array([numbers[name] for name in of_stratum]) for of_stratum in names])

    @staticmethod
    def _logs_of(cells: Cells) -> list[str]:
        """Return the log of each stratum: the checksum of its trace, or else its workload's name.

        Two workloads of one log (two machine sizes, two halves) are not two logs.
        """
        if "workload" not in cells.group_by:
            return [""] * len(cells.strata)
        names = [stratum.key["workload"] for stratum in cells.strata]
        if "trace_checksum" not in cells.table.column_names:
            return names
        sums: dict[str, set[str]] = {}
        pairs = cells.table.select(["workload", "trace_checksum"]).group_by(["workload", "trace_checksum"])
        for row in pairs.aggregate([]).to_pylist():
            sums.setdefault(row["workload"], set()).add(row["trace_checksum"] or "")
        return [next(iter(sums[name])) or name if len(sums[name]) == 1 else name for name in names]

    def statistics(self, compared: Sequence[_Compared], own: BoolArray, head: RankingHead) -> dict[str, Any]:
        """Return each configuration's mean relative difference over strata, its intervals and p-value."""
        count = 1 + max(int(numbers.max()) for numbers in self.units)
        first, second = np.zeros((2, len(compared), count))
        names = sorted(set(self.logs))
        by_log = np.full((len(compared), len(names)), math.nan)
        rows: list[tuple[float, float, float]] = []
        # The different replicates that each shares with its baseline.
        shared = np.zeros((len(compared), count), dtype=np.bool_)
        common = cache(
            lambda one, other: np.intersect1d(self.units[one], self.units[other], return_indices=True)[1:]
        )
        for index, entry in enumerate(compared):
            rows.append(self._combined(entry.parts, common))
            if entry.is_baseline:
                continue
            for place, name in enumerate(names):
                of_log = [part.relative for number, part in entry.parts.items() if self.logs[number] == name]
                by_log[index, place] = np.mean(of_log) if of_log else math.nan
            pairs = entry.pairs
            for number, part in entry.parts.items():
                # Weights make the plain mean over all replicates the mean of the strata's means.
                weight = pairs / (len(entry.parts) * part.pairs)
                first[index, self.units[number]] += np.nan_to_num(part.values * weight)
                second[index, self.units[number]] += np.nan_to_num(part.base * weight)
                shared[index, self.units[number][np.isfinite(part.values)]] = True
        first[~shared] = second[~shared] = math.nan
        counts = np.isfinite(by_log).sum(axis=1)
        over_logs = mean_interval(
            np.where((counts >= FEWEST_LOGS)[:, None], by_log, math.nan), confidence=LEVEL
        )
        means, low, high = np.array(rows).T
        links = self._links(compared, count)
        columns = {"relative": means, "relative_low": low, "relative_high": high}
        columns |= head.joint_columns(columns, first, second, links)
        return {
            "relative": means,
            "relative_low": np.where(own, math.nan, columns["relative_low"]),
            "relative_high": np.where(own, math.nan, columns["relative_high"]),
            "gap": [float(np.mean([part.gap for part in entry.parts.values()])) for entry in compared],
            "correlation": np.where(own, math.nan, links.max()),
            "p_value": np.where([entry.lacks_values for entry in compared], math.nan, columns["p_value"]),
            "logs": np.where(own, len(names), counts),
            "by_log_low": over_logs.low,
            "by_log_high": over_logs.high,
            "independent": np.sum(shared, axis=1),
        }

    def _links(self, compared: Sequence[_Compared], count: int) -> FloatArray:
        """Return how much each replicate's differences correlate with those of the one before on its log.

        Shape (count,): the mean over the log's strata; 0 for its first replicate.
        """
        correlations = {
            number: part.correlation or 0.0 for entry in compared for number, part in entry.parts.items()
        }
        links, strata = np.zeros((2, count))
        for number, correlation in correlations.items():
            links[self.units[number][1:]] += correlation
            strata[self.units[number][1:]] += 1
        return links / np.maximum(strata, 1)

    def _combined(
        self, parts: Mapping[int, _Part], common: Callable[[int, int], tuple[IntArray, IntArray]]
    ) -> tuple[float, float, float]:
        """Return the mean of the strata's relative differences and its interval.

        `common` returns the places of the replicates that two strata share, in each of them.

        On each side, the interval reaches as far as the root of the sum of squares of the strata's own, over
        their number, as variances of independent means add up; to strata of one log, their correlation is
        added (Zou, "Toward using confidence intervals to compare correlations", Psychological Methods 12,
        2007).
        """
        relative, low, high = np.array([part[:3] for part in parts.values()]).T
        numbers, residuals = list(parts), [part.residuals for part in parts.values()]
        related = np.eye(len(numbers))
        for i, j in combinations(range(len(numbers)), 2):
            one, other = numbers[i], numbers[j]
            if self.logs[one] == self.logs[other]:
                here, there = common(one, other)
                pair = np.array([residuals[i][here], residuals[j][there]])
                related[i, j] = related[j, i] = _correlation(pair[:, np.isfinite(pair).all(axis=0)])
        below, above = (
            math.sqrt(reach @ related @ reach) / len(numbers) for reach in (relative - low, high - relative)
        )
        mean = float(relative.mean())
        return mean, mean - below, mean + above


def rank_overall(cells: Cells, head: RankingHead) -> Ranking | None:
    """Rank the configurations over all strata, each stratum counting the same.

    Parameters
    ----------
    cells
        The cells, with the baseline to compare with.
    head
        The subject of the ranking within each stratum.

    Returns
    -------
    Ranking or None
        A ranking with the columns of `rank` but for the stratum's; `relative` is the mean over the strata
        of the mean paired difference over the size of the baseline's mean there, `gap` the mean over them
        of the gaps to the bound. Its interval, combined
        from those of the strata, and the verdict hold for these very strata.
        `logs` is the number of different logs among them, and `by_log_low` and `by_log_high` the
        interval of the mean over logs, each log's mean counting as one observation (`mean_interval`); null
        with fewer than three. `independent` is the number of different replicates of a log that the strata
        share between them. Means and differences in the objective's own unit are null. None where
        there are fewer than two strata or nothing to compare.
    """
    if len(cells.strata) < 2 or not cells.own_baseline:
        return None
    compared = _compare_strata(cells, head)
    if not compared:
        return None
    planned = sum(len(stratum.replicates) for stratum in cells.strata)
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
        "undefined": [entry.undefined for entry in compared],
        **_Replicates.of(cells).statistics(compared, own, head),
        "with_tail": [entry.with_tail(head.direction) for entry in compared],
    }
    overall = replace(head, group_by=(), overall=True, baseline=cells.baseline)
    parameters = [entry.parameters for entry in compared]
    rows = overall.ranked_rows(parameters, statistics, "relative", statistics["relative"])
    fields = [one for one in cells.fields if one.name.startswith(PARAMETER_PREFIX)]
    return Ranking.of(overall, fields, {}).with_rows(overall, {"": rows}, *_BY_LOG)


def _compare_strata(cells: Cells, head: RankingHead) -> list[_Compared]:
    """Return the configurations that share a replicate with their baseline on some stratum."""
    by_parameters: dict[tuple[Any, ...], _Compared] = {}
    for number, stratum in enumerate(cells.strata):
        bases = baselines(stratum.parameters, cells.own_baseline, {})
        values = stratum.values(head.objective)
        base = stratum.of_bases(values, bases)
        gaps = gap_to_bound(values, stratum.bounds(head.objective), head.direction)
        parts = _parts(stratum, values, base, gaps, stratum.paired(head.objective, bases, head.error))
        undefined = stratum.undefined(head.objective)
        lacking = np.asarray((undefined & np.isfinite(base)).any(axis=1))
        for index, parameters in enumerate(stratum.parameters):
            first_seen = _Compared(parameters, bool(bases[index] == index))
            entry = by_parameters.setdefault(tuple(parameters.values()), first_seen)
            entry.failures += int(stratum.failures[index])
            entry.undefined += int(undefined[index].sum())
            entry.lacks_values |= bool(lacking[index])
            if parts[index].pairs:
                entry.parts[number] = parts[index]
    return [entry for entry in by_parameters.values() if entry.pairs]


def _parts(
    stratum: Stratum, values: FloatArray, base: FloatArray, gaps: FloatArray, paired: PairedDifference
) -> list[_Part]:
    """Return the part of each configuration of a stratum, compared with its baseline's values."""
    correlation = stratum.correlation(values, base)
    missing = ~(np.isfinite(values) & np.isfinite(base))
    values, base = np.where(missing, math.nan, values), np.where(missing, math.nan, base)
    size = np.abs(means_of(base))
    size = np.where(size > 0, size, math.nan)[:, None]
    values, base, pairs = values / size, base / size, np.isfinite(values / size).sum(axis=1).tolist()
    residuals = values - (means_of(values) / means_of(base))[:, None] * base
    intervals = (np.atleast_1d(x) for x in (paired.relative, paired.relative_low, paired.relative_high))
    links = [correlation] * len(values)
    return list(map(_Part, *intervals, gaps, links, pairs, values, base, residuals))


#: Columns of a ranking that hold a value and its interval: within a stratum, and over all strata.
_MEAN, _RELATIVE = ("mean", "ci_low", "ci_high"), ("relative", "relative_low", "relative_high")


@dataclass(frozen=True)
class Front:
    """The Pareto front of one stratum.

    Attributes
    ----------
    stratum
        Its name; "overall" where the points are mean relative differences over all strata.
    heads
        What each objective is.
    rows
        Of each configuration, its row in each objective's ranking; the front's first, by the first objective.
    points
        Shape (configurations, objectives): means, or relative differences, in the objectives' own direction.
    size
        How many of the rows are on the front.
    reference
        The point that hypervolumes are measured from, one value for each objective: a tenth of the range
        beyond the worst mean of any configuration.
    hypervolume
        With 0 the least and 1 the greatest mean of each objective over all configurations; at most `limit`.
    """

    stratum: str
    heads: tuple[RankingHead, ...]
    rows: Sequence[Sequence[Mapping[str, Any]]]
    points: FloatArray
    size: int
    reference: tuple[float, ...]
    hypervolume: float

    @property
    def overall(self) -> bool:
        """True if it is over all strata, by relative differences."""
        return self.heads[0].overall

    @property
    def limit(self) -> float:
        """The hypervolume of a front that reaches the best value of every objective at once."""
        return float(REFERENCE ** len(self.heads))

    @property
    def keys(self) -> tuple[str, str, str]:
        """The columns of a row that hold the point and its interval."""
        return _RELATIVE if self.overall else _MEAN

    def value_text(self, value: float | None) -> str:
        """Write one of its values."""
        return percent_text(value) if self.overall else number_text(value)

    def __str__(self) -> str:
        count = "1 configuration" if len(self.rows) == 1 else f"{len(self.rows)} configurations"
        at = ", ".join(
            f"{head.objective} {self.value_text(value)} {'' if self.overall else head.unit}".rstrip()
            for head, value in zip(self.heads, self.reference, strict=True)
        )
        return (
            f"Pareto front of {self.stratum}: {self.size} of {count}, hypervolume {self.hypervolume:.4f} "
            f"of at most {self.limit:.4g} (reference point {at})"
        )


def fronts_of(rankings: Mapping[str, Ranking], overall: Mapping[str, Ranking]) -> list[Front]:
    """Return the front over all strata, if there is one, and that of each stratum; [] for one objective.

    Parameters
    ----------
    rankings, overall
        Objective to its ranking, as in `Summary`.
    """
    if len(rankings) < 2:
        return []
    fronts = []
    for tables in (overall, rankings):
        if len(tables) == len(rankings):
            heads = tuple(ranking.head for ranking in tables.values())
            for name in next(iter(tables.values())).strata:
                rows = [ranking.strata.get(name, []) for ranking in tables.values()]
                front = _front("overall" if heads[0].overall else name, heads, rows)
                fronts += [front] if front else []
    return fronts


def _front(
    name: str, heads: tuple[RankingHead, ...], by_objective: Sequence[Sequence[Mapping[str, Any]]]
) -> Front | None:
    """Return the front of one stratum; None where no configuration has a value of every objective."""
    keys = _RELATIVE if heads[0].overall else _MEAN
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for number, rows in enumerate(by_objective):
        for row in rows:
            parts = found.setdefault(row_key(row), [])
            if row["rank"] is not None and math.isfinite(row[keys[0]]) and len(parts) == number:
                parts.append(row)
    complete = [parts for parts in found.values() if len(parts) == len(heads)]
    if not complete:
        return None
    points = np.array([[row[keys[0]] for row in parts] for parts in complete], dtype=np.float64)
    signs = np.array([head.sign for head in heads])
    costs = points * signs
    on_front = np.asarray(moocore.is_nondominated(costs, keep_weakly=True))
    scale = Scale.of([costs])
    least, greatest = np.array(scale.least), np.array(scale.greatest)
    order = np.lexsort((costs[:, 1], costs[:, 0], ~on_front))
    return Front(
        stratum=name,
        heads=heads,
        rows=[complete[index] for index in order],
        points=points[order],
        size=int(on_front.sum()),
        reference=tuple((signs * (least + REFERENCE * (greatest - least))).tolist()),
        hypervolume=hypervolume(costs[on_front], scale),
    )


def front_table(fronts: Sequence[Front]) -> pa.Table:
    """Return the configurations on these fronts, a row each.

    Columns: `stratum`, `configuration_id`, `is_baseline`, `param.*`; for each objective its value and the
    ends of the interval, `OBJECTIVE`, `OBJECTIVE.low`, `OBJECTIVE.high`; last the stratum's `hypervolume`.
    """
    rows = []
    for front in fronts:
        value, low, high = front.keys
        for parts in front.rows[: front.size]:
            row = {"stratum": front.stratum}
            row |= {name: parts[0][name] for name in ("configuration_id", "is_baseline")}
            row |= {PARAMETER_PREFIX + name: item for name, item in row_parameters(parts[0]).items()}
            for head, part in zip(front.heads, parts, strict=True):
                row[head.objective] = part[value]
                row |= {f"{head.objective}.low": part[low], f"{head.objective}.high": part[high]}
            rows.append({**row, "hypervolume": front.hypervolume})
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})
