"""The verdict as a card: the best configuration, who pays for it, what ties with it, and what is not settled.

The terminal, the page, MLflow, `export` and `--json` show the same card.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gridtune.batch.metrics.classes import split_name
from gridtune.core.system import Measure
from gridtune.report.answers import Answer, answers_of
from gridtune.report.labels import (
    interval_text,
    number_text,
    percent_text,
    row_label,
    row_parameters,
    varying_parameters,
)
from gridtune.report.rankings.cells import Configuration, baselines, replicate_order
from gridtune.report.rankings.combined import Front, rank_overall
from gridtune.report.rankings.eligibility import Bound, Bounds, same_configuration
from gridtune.report.rankings.ranking import (
    LEVEL,
    SEED,
    RankingHead,
    Verdict,
    plain,
    rank,
    ranking_head,
    strata,
)
from gridtune.report.rankings.sample_size import POWER
from gridtune.report.tables import MARKS
from gridtune.statistics.dependence import neighbour_correlation
from gridtune.statistics.inference import paired_difference
from gridtune.statistics.resampling import joint_paired_p_values
from gridtune.statistics.sample_size import PairedSpread, fewest_replicates, replicates_needed
from gridtune.sweep.space.constraints import Kept
from gridtune.types import BoolArray, FloatArray

__all__ = ["OF_CLASS", "Card", "CardMaterial", "Change", "Compared", "compare_rows", "print_cards"]

#: Configurations that are compared with the best one, and names that a line lists.
_COMPARED, _LISTED = 50, 6
#: What is worse by less than this in the mean, and not shown to be worse, is not named.
_NAMED_FROM = 0.05
#: The metric that each class of jobs is judged by.
OF_CLASS = "wait_mean"


@dataclass(frozen=True)
class Change:
    """What the best configuration changes for a class of jobs or an objective, against the baseline.

    Attributes
    ----------
    metric, unit
        What is measured; "" for a ratio.
    jobs
        The condition of the class, or "".
    workload
        The stratum.
    baseline, mean
        Means of the baseline and of the best configuration.
    relative, low, high
        The paired difference over the baseline's mean, and its interval, whose error of 5 % is shared by all
        that the card looks at; None where there is none.
    p_value
        Of the sign-flip test of all of them together.
    effect
        "worse" or "better" where that is shown, else "not sure".
    adverse
        Whether the mean is worse.
    """

    metric: str
    unit: str
    jobs: str
    workload: str
    baseline: float | None
    mean: float | None
    relative: float | None
    low: float | None
    high: float | None
    p_value: float | None
    effect: str
    adverse: bool

    def __str__(self) -> str:
        jobs = f" ({self.jobs})" if self.jobs else ""
        values = f"{_amount(self.baseline, self.unit)} → {_amount(self.mean, self.unit)}"
        if self.relative is None:
            return f"{self.metric}{jobs} {values}"
        interval = interval_text(self.low, self.high, percent_text)
        change = percent_text(self.relative) + (f" ({interval})" if interval else "")
        return f"{self.metric}{jobs} {change}, {values}"


@dataclass(frozen=True)
class Card:
    """The verdict for one objective on one stratum, or over all of them.

    Attributes
    ----------
    answer
        The best configuration, by how much, and whether that is sure.
    bounds
        What each constraint comes to for it.
    passed_over
        Configurations with a better mean that break a bound, or may.
    changes
        What it changes for classes of jobs and for objectives.
    ties
        Configurations that cannot be told from it.
    compared
        How many were compared with it.
    front
        The members of the Pareto front.
    alike
        Objectives that no two members of the front are shown to trade for one another.
    not_modelled
        What of the log is not modelled.
    to_settle
        What would settle what is not sure.
    """

    answer: Answer
    bounds: Sequence[Bound] = ()
    passed_over: Sequence[str] = ()
    changes: Sequence[Change] = ()
    ties: Sequence[str] = ()
    compared: int = 0
    front: Sequence[str] = ()
    alike: Sequence[str] = ()
    not_modelled: Sequence[str] = ()
    to_settle: Sequence[str] = ()

    @property
    def pays(self) -> list[Change]:
        """The classes of jobs and objectives that are shown to be worse than under the baseline."""
        return [change for change in self.changes if change.effect == "worse"]

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What stands below the answer: a heading and a text each."""
        lines = [("bounds", str(bound)) for bound in self.bounds]
        lines += [("passed over", text) for text in self.passed_over]
        lines += [("pays", str(change)) for change in self.pays]
        lines += [("may pay", f"{change}: not sure") for change in self.changes if _may_pay(change)]
        looked_at = f"{len(self.changes)} classes and metrics"
        if self.changes and not self.pays:
            lines.append(("pays", f"nobody is shown to, of {looked_at} looked at"))
        if self.pays or any(map(_may_pay, self.changes)):
            lines.append(
                ("intervals", f"of who pays: for all {looked_at} together, so wider than in a table")
            )
        if self.ties:
            lines.append(("ties", f"cannot be told from it: {_listed(self.ties)}"))
        elif self.compared:
            lines.append(("ties", f"none: it is shown to be better than the {self.compared} next ones"))
        lines += [("front", text) for text in (*self.front, *self.alike)]
        lines += [("not modelled", text) for text in self.not_modelled]
        return [*lines, *(("to settle", text) for text in self.to_settle)]

    def as_dict(self) -> dict[str, Any]:
        """Return the card in JSON's types."""
        return {
            "objective": self.answer.objective,
            "workload": self.answer.stratum,
            "best": self.answer.best,
            "verdict": self.answer.verdict.value,
            "answer": self.answer.text,
            "bounds": [bound.as_dict() for bound in self.bounds],
            "passed_over": list(self.passed_over),
            "changes": [asdict(change) for change in self.changes],
            "ties": list(self.ties),
            "front": list(self.front),
            "alike": list(self.alike),
            "not_modelled": list(self.not_modelled),
            "to_settle": list(self.to_settle),
        }

    def markdown(self) -> str:
        """Return the card as Markdown."""
        lines = [self.answer.text, "", *(f"- **{name}**: {text}" for name, text in self.lines)]
        return "\n".join(lines).strip() + "\n"


def print_cards(cards: Iterable[Card], console: Console) -> None:
    """Print cards, what stands below each answer under its heading."""
    for card in cards:
        console.print(Text(card.answer.text, style=MARKS.get(card.answer.verdict, "")), soft_wrap=False)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(ratio=1)
        before = ""
        for name, text in card.lines:
            style = "red" if name == "pays" and card.pays else ""
            table.add_row(Text("" if name == before else name), Text(text, style=style))
            before = name
        console.print(Padding(table, (0, 0, 1, 2)))


def _may_pay(change: Change) -> bool:
    size = math.inf if change.relative is None else abs(change.relative)
    return change.adverse and change.effect == "not sure" and size >= _NAMED_FROM


def _amount(value: float | None, unit: str) -> str:
    """Write a mean; long times in hours or days."""
    if value is None:
        return "–"
    if unit == "s" and abs(value) >= 5400:
        return f"{value / 86_400:.1f} d" if abs(value) >= 172_800 else f"{value / 3600:.1f} h"
    return f"{number_text(value)} {unit}".rstrip()


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class CardMaterial:
    """What cards are made of.

    Attributes
    ----------
    table
        A row for each cell.
    rankings, overall
        Objective to its ranking, as in `Summary`.
    fronts
        The Pareto fronts.
    bounds
        What each constraint comes to, by configuration.
    measures
        Metric to unit and direction, of those to look at beside the first objective, in order.
    classes
        Workload to the conditions of its classes.
    ignored
        Workload to what is not modelled of its log.
    """

    table: pa.Table
    rankings: Mapping[str, pa.Table]
    overall: Mapping[str, pa.Table]
    fronts: Sequence[Front] = ()
    bounds: Bounds = field(default_factory=dict)
    measures: Mapping[str, Measure] = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)

    def cards(self) -> list[Card]:
        """Return the cards: by objective, over all strata first where there are several.

        Those of the first objective are whole, the others are answers alone.
        """
        cards = []
        for number, (objective, ranking) in enumerate(self.rankings.items()):
            for table in (self.overall.get(objective), ranking):
                if table is None:
                    continue
                for answer in answers_of(table, ranking):
                    whole = number == 0 and answer.row is not None
                    cards.append(self.card(answer, table) if whole else Card(answer))
        return cards

    def card(self, answer: Answer, ranking: pa.Table) -> Card:
        """Return the whole card of an answer, which is about a row of this ranking."""
        row = answer.row
        assert row is not None
        head = ranking_head(ranking)
        single = next(iter(self.rankings.values())) if head.overall else ranking
        varying = varying_parameters(ranking, without=head.group_by)
        of_strata = [
            (name, other, rows)
            for name, rows in strata(single)
            for other in rows
            if same_configuration(row, other)
            and (head.overall or other["configuration_id"] == row["configuration_id"])
        ]
        changes = [
            change
            for name, other, rows in of_strata
            for change in self._changes(name, other, rows, ranking_head(single), len(of_strata))
        ]
        every = next(rows for name, rows in strata(ranking) if head.overall or name == answer.stratum)
        bounds = [] if head.overall else list(self.bounds.get(row["configuration_id"], ()))
        front = next((one for one in self.fronts if one.stratum == answer.stratum), None)
        ties, compared = (self._overall_ties if head.overall else self._ties)(row, every, head)
        workloads = {rows[0].get("workload", name) for name, _, rows in of_strata}
        return Card(
            answer,
            bounds=bounds,
            passed_over=self._passed_over(row, every, head, varying),
            changes=changes,
            ties=[row_label(other, varying) for other in ties],
            compared=compared,
            front=_members(front, varying),
            alike=[] if front is None or head.overall else self._alike(front),
            not_modelled=[self.ignored[name] for name in sorted(workloads & self.ignored.keys())],
            to_settle=[] if head.overall else self._to_settle(row, every, head, bounds),
        )

    def _samples(self, metric: str, ids: Sequence[str]) -> FloatArray:
        """Return a metric of configurations, shape (configurations, replicates); NaN where there is none."""
        part = self.table.filter(
            pc.is_in(self.table["configuration_id"], pa.array(sorted(set(ids)), pa.string()))
        )
        columns = (
            part[name].to_pylist() for name in ("configuration_id", "replicate", "state", f"metric.{metric}")
        )
        found = {
            (key, label): math.nan if value is None or state != "done" else value
            for key, label, state, value in zip(*columns, strict=True)
        }
        labels = sorted({label for _, label in found}, key=replicate_order)
        values = np.array([[found.get((key, label), math.nan) for label in labels] for key in ids])
        values[~np.isfinite(values)] = math.nan
        return values

    def _base(
        self, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], head: RankingHead
    ) -> str | None:
        """Return the id of a row's baseline; None if it has none or is it."""
        configurations = [Configuration(one["configuration_id"], row_parameters(one)) for one in rows]
        stratum = {name: row[name] for name in head.group_by}
        bases = baselines(configurations, head.baseline, stratum)
        place = next(
            index for index, one in enumerate(rows) if one["configuration_id"] == row["configuration_id"]
        )
        base = int(bases[place])
        return None if base in (-1, place) else str(rows[base]["configuration_id"])

    def _changes(
        self,
        stratum: str,
        row: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        head: RankingHead,
        families: int,
    ) -> Iterator[Change]:
        """Yield what a configuration changes on a stratum; all `families` of strata share the error."""
        base = self._base(row, rows, head)
        metrics = [name for name in self.measures if f"metric.{name}" in self.table.column_names]
        both = [self._samples(name, [row["configuration_id"], base]) for name in metrics if base is not None]
        kept = [index for index, pair in enumerate(both) if np.isfinite(pair).all(axis=0).any()]
        if not kept:
            return
        metrics, values, other = (
            [metrics[index] for index in kept],
            np.array([both[index][0] for index in kept]),
            np.array([both[index][1] for index in kept]),
        )
        correlation = _window_correlation(head, values, other)
        compared = compare_rows(values, other, correlation, comparisons=len(metrics) * families)
        conditions = self.classes.get(str(row.get("workload")), {})
        for index, metric in enumerate(metrics):
            measure = self.measures[metric]
            sign = 1 if measure.direction == "min" else -1
            paired = np.isfinite(values[index]) & np.isfinite(other[index])
            means = values[index][paired].mean(), other[index][paired].mean()
            of_class = split_name(metric)[1]
            direction = sign * np.sign(means[0] - means[1])
            shown = bool(compared.shown[index])
            yield Change(
                metric=metric,
                unit="" if measure.unit == "1" else measure.unit,
                jobs=conditions.get(of_class or "", ""),
                workload=stratum,
                baseline=plain(means[1]),
                mean=plain(means[0]),
                relative=plain(compared.relative[index]),
                low=plain(compared.low[index]),
                high=plain(compared.high[index]),
                p_value=plain(compared.p_value[index]),
                effect=("worse" if direction > 0 else "better") if shown else "not sure",
                adverse=bool(direction > 0),
            )

    def _ties(
        self, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], head: RankingHead
    ) -> tuple[list[Mapping[str, Any]], int]:
        """Return the next configurations that are not shown to be worse, and how many were compared."""
        others = [one for one in rows if one["rank"] is not None and one is not row]
        others = [one for one in others if one["configuration_id"] != row["configuration_id"]][:_COMPARED]
        if not others:
            return [], 0
        values = self._samples(head.objective, [one["configuration_id"] for one in (row, *others)])
        first, second = values[1:], np.broadcast_to(values[:1], values[1:].shape)
        compared = compare_rows(first, second, _window_correlation(head, first, second))
        sign = 1 if head.direction == "min" else -1
        worse = compared.shown & (sign * compared.relative > 0)
        return [one for one, is_worse in zip(others, worse, strict=True) if not is_worse], len(others)

    def _overall_ties(
        self, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], head: RankingHead
    ) -> tuple[list[Mapping[str, Any]], int]:
        """Return the same over all strata: the next ones are ranked again with the best as their baseline."""
        best = row_parameters(row)
        others = [one for one in rows if one["rank"] is not None and row_parameters(one) != best][:_COMPARED]
        if not others:
            return [], 0
        single = next(iter(self.rankings.values()))
        ids = [
            other["configuration_id"]
            for _, ranked in strata(single)
            for other in ranked
            if any(same_configuration(one, other) for one in (row, *others))
        ]
        part = self.table.filter(pc.is_in(self.table["configuration_id"], pa.array(ids, pa.string())))
        ranking = rank(
            part,
            objective=head.objective,
            direction=head.direction,
            baseline=best,
            group_by=ranking_head(single).group_by,
        )
        compared = rank_overall(part, ranking)
        if compared is None:
            return [], 0
        worse = [row_parameters(one) for one in compared.to_pylist() if one["verdict"] == Verdict.WORSE]
        return [one for one in others if row_parameters(one) not in worse], len(others)

    def _passed_over(
        self,
        row: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        head: RankingHead,
        varying: Sequence[str],
    ) -> list[str]:
        """Return configurations that have a better mean and do not keep every bound, the best first."""
        by, sign = "relative" if head.overall else "mean", 1 if head.direction == "min" else -1
        if not head.subject_to or row[by] is None:
            return []
        better = [
            one
            for one in rows
            if one[by] is not None and one["subject_to"] != Kept.YES and sign * (one[by] - row[by]) < 0
        ]
        better.sort(key=lambda one: sign * one[by])
        texts = []
        for one in better[:_LISTED]:
            broken = [
                bound for bound in self.bounds.get(one["configuration_id"], ()) if bound.state != Kept.YES
            ]
            reasons = "; ".join(bound.text for bound in broken) or f"bounds {one['subject_to']}"
            texts.append(f"{row_label(one, varying)} ({percent_text(one['relative'])}): {reasons}")
        more = len(better) - _LISTED
        return [*texts, *([f"and {more} more"] if more > 0 else [])]

    def _alike(self, front: Front) -> list[str]:
        """Return the pairs of objectives of which no two members of a front are shown to be a trade."""
        members = front.rows[: front.size][:_LISTED]
        if len(members) < 2:
            return []
        ids = [parts[0]["configuration_id"] for parts in members]
        pairs = list(combinations(range(len(ids)), 2))
        effects = []
        for head in front.heads:
            values = self._samples(head.objective, ids)
            first, second = (values[[pair[side] for pair in pairs]] for side in (0, 1))
            compared = compare_rows(first, second, _window_correlation(head, first, second))
            sign = 1 if head.direction == "min" else -1
            effects.append(np.where(compared.shown, sign * np.sign(compared.relative), 0))
        names = [head.objective for head in front.heads]
        couples = list(combinations(range(len(names)), 2))
        alike = [(i, j) for i, j in couples if not (effects[i] * effects[j] < 0).any()]
        apart = "cannot be told apart: no two members are shown to trade one for the other"
        if len(alike) == len(couples) > 1:
            return [f"its objectives {apart}"]
        return [f"{names[i]} and {names[j]} {apart}" for i, j in alike]

    def _to_settle(
        self,
        row: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        head: RankingHead,
        bounds: Sequence[Bound],
    ) -> list[str]:
        """Return how many replicates would settle a verdict that is not sure, and bounds that are not."""
        base = self._base(row, rows, head)
        if base is None:
            return []
        texts: list[str] = []
        pairs = row["pairs"]
        if pairs < fewest_replicates(1 - LEVEL):
            return [f"{fewest_replicates(1 - LEVEL)} {head.replicate}s at least: {pairs} can show nothing"]
        if row["verdict"] == Verdict.UNSURE:
            first, second = self._samples(head.objective, [row["configuration_id"], base])
            compared = sum(one["p_value"] is not None for one in rows)
            spread = PairedSpread.of(first[None], second[None], correlation=row["correlation"] or 0.0)
            texts += _needed(head.objective, spread, head.replicate, comparisons=compared)
        for bound in bounds:
            constraint = bound.constraint
            if bound.state == Kept.UNSETTLED and constraint.of_baseline and bound.value is not None:
                first, second = self._samples(constraint.metric, [row["configuration_id"], base])
                correlation = _window_correlation(head, first, second)
                spread = PairedSpread.of(first[None], second[None], correlation=correlation)
                texts += _needed(str(constraint), spread, head.replicate, beside=constraint.bound - 1)
        return texts


def _window_correlation(head: RankingHead, first: FloatArray, second: FloatArray) -> float:
    """Return how much differences in neighbouring windows correlate; 0 for other replicates."""
    return neighbour_correlation(first, second) if head.replicate == "window" else 0.0


def _members(front: Front | None, varying: Sequence[str]) -> list[str]:
    """Return the members of a front by name, with their values."""
    if front is None:
        return []
    members = [
        f"{row_label(parts[0], varying)} ("
        + ", ".join(front.value_text(float(value)) for value in front.points[place])
        + ")"
        for place, parts in enumerate(front.rows[: front.size])
    ]
    names = ", ".join(head.objective for head in front.heads)
    if len(members) == 1:
        return [f"{members[0]} is best in all of {names}"]
    return [f"{len(members)} of {len(front.rows)} by {names}: {_listed(members)}"]


@dataclass(frozen=True)
class Compared:
    """Paired comparisons of many rows: differences, intervals, p-values together, and which are shown."""

    relative: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: FloatArray
    shown: BoolArray


def compare_rows(first: FloatArray, second: FloatArray, correlation: float, comparisons: int = 1) -> Compared:
    """Compare rows pair by pair: a difference is shown where its interval and the joint test exclude chance.

    Parameters
    ----------
    first, second
        Shape (rows, replicates).
    correlation
        Of neighbouring replicates.
    comparisons
        Number of comparisons that share the error of an interval.
    """
    level = (1 - LEVEL) / comparisons
    rng = np.random.default_rng(SEED)
    paired = paired_difference(first, second, rng=rng, confidence=1 - level, correlation=correlation)
    rng = np.random.default_rng(SEED)
    p_value = joint_paired_p_values(first, second, rng=rng, correlation=correlation)
    low, high = np.atleast_1d(paired.relative_low), np.atleast_1d(paired.relative_high)
    families = max(1, comparisons // len(first))
    p_value = np.minimum(1.0, p_value * families)
    shown = (p_value <= 1 - LEVEL) & ((low > 0) | (high < 0))
    return Compared(np.atleast_1d(paired.relative), low, high, p_value, shown)


def _needed(
    what: str, spread: PairedSpread, noun: str, *, comparisons: int = 1, beside: float = 0.0
) -> Iterable[str]:
    """Yield how many replicates would show that a mean is on its side of a bound, if that can be said."""
    effect = spread.effect - spread.on_scale(beside)
    (needed,) = replicates_needed(
        effect, spread.deviation, level=1 - LEVEL, power=POWER, comparisons=max(1, comparisons)
    )
    if math.isfinite(needed):
        yield f"{what}: about {int(needed):,} {noun}s like these {int(spread.pairs[0])}"
