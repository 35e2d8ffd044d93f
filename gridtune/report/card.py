"""The verdict as a card: the best configuration, the losers, the ties, and the open questions.

The terminal, the page, MLflow, `export` and `--json` show the same card.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gridtune.report.answers import Answer, answers_of, listed
from gridtune.report.labels import count_text, interval_text, number_text, percent_text, row_parameters
from gridtune.report.rankings.bounds import Bound
from gridtune.report.rankings.cells import Stratum, read_cells
from gridtune.report.rankings.combined import Front, rank_overall
from gridtune.report.rankings.power import POWER
from gridtune.report.rankings.ranking import (
    LEVEL,
    SEED,
    Ranking,
    Row,
    Verdict,
    plain,
    same_configuration,
)
from gridtune.report.tables import MARKS
from gridtune.statistics.inference import paired_difference
from gridtune.statistics.resampling import joint_paired_p_values
from gridtune.statistics.sample_size import PairedSpread, fewest_replicates, replicates_needed
from gridtune.sweep.space.constraints import Kept
from gridtune.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from gridtune.report.summary import Summary

__all__ = ["Card", "Change", "Compared", "card_of", "cards_of", "compare_rows", "print_cards"]

#: Configurations that are compared with the best one, and names that a line lists.
_COMPARED, _LISTED = 50, 6
#: What is worse by less than this in the mean, and not shown to be worse, is not named.
_NAMED_FROM = 0.05


@dataclass(frozen=True)
class Change:
    """The effect of the best configuration on a class of jobs or an objective, against the baseline.

    Attributes
    ----------
    metric, unit
        The metric; the unit is "" for a ratio.
    jobs
        The condition of the class, or "".
    workload
        The stratum.
    baseline, mean
        Means of the baseline and of the best configuration.
    relative, low, high
        The paired difference over the baseline's mean, and its interval; all changes of the card share its
        error of 5 %. None where there is none.
    p_value
        Of the sign-flip test of all of them together.
    effect
        "worse" or "better" where that is shown, else "not sure".
    adverse
        True if the mean is worse.
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

    @property
    def may_be_worse(self) -> bool:
        """True if the mean is notably worse, and that is not shown to be more than chance."""
        size = math.inf if self.relative is None else abs(self.relative)
        return self.adverse and self.effect == "not sure" and size >= _NAMED_FROM


@dataclass(frozen=True)
class Card:
    """The verdict for one objective on one stratum, or over all of them.

    Attributes
    ----------
    answer
        The best configuration, its gain, and how sure that is.
    bounds
        Its constraints, judged.
    passed_over
        Configurations with a better mean that break a bound, or may.
    changes
        Its effects on classes of jobs and on objectives.
    ties
        Configurations that are not distinguishable from it.
    compared
        How many were compared with it.
    front
        The members of the Pareto front.
    not_modelled
        Parts of the log that are not modelled.
    to_settle
        Replicates that would settle what is not sure.
    """

    answer: Answer
    bounds: Sequence[Bound] = ()
    passed_over: Sequence[str] = ()
    changes: Sequence[Change] = ()
    ties: Sequence[str] = ()
    compared: int = 0
    front: Sequence[str] = ()
    not_modelled: Sequence[str] = ()
    to_settle: Sequence[str] = ()

    @property
    def worse(self) -> list[Change]:
        """The classes of jobs and objectives that are shown to be worse than under the baseline."""
        return [change for change in self.changes if change.effect == "worse"]

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The lines below the answer: a heading and a text each."""
        lines = [("bounds", str(bound)) for bound in self.bounds]
        lines += [("passed over", text) for text in self.passed_over]
        lines += [("worse", str(change)) for change in self.worse]
        unsure = [change for change in self.changes if change.may_be_worse]
        lines += [("may be worse", f"{change}: not sure") for change in unsure]
        if self.changes and not self.worse:
            looked_at = count_text(len(self.changes), "comparison")
            lines.append(("worse", f"no class of jobs and no metric is shown to be worse ({looked_at})"))
        elif self.worse or unsure:
            comparisons = count_text(len(self.changes), "comparison")
            lines.append(("intervals", f"those of this list are corrected for {comparisons}"))
        if self.ties:
            lines.append(("ties", f"not distinguishable from the best: {listed(self.ties)}"))
        elif self.compared:
            lines.append(("ties", f"none; the next {self.compared} in the ranking are shown to be worse"))
        lines += [("front", text) for text in self.front]
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
            "not_modelled": list(self.not_modelled),
            "to_settle": list(self.to_settle),
        }

    def markdown(self) -> str:
        """Return the card as Markdown."""
        lines = [self.answer.text, "", *(f"- **{name}**: {text}" for name, text in self.lines)]
        return "\n".join(lines).strip() + "\n"


def print_cards(cards: Iterable[Card], console: Console) -> None:
    """Print cards: each answer, and its lines under their headings."""
    for card in cards:
        console.print(Text(card.answer.text, style=MARKS.get(card.answer.verdict, "")), soft_wrap=False)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(ratio=1)
        before = ""
        for name, text in card.lines:
            style = "red" if name == "worse" and card.worse else ""
            table.add_row(Text("" if name == before else name), Text(text, style=style))
            before = name
        console.print(Padding(table, (0, 0, 1, 2)))


def _amount(value: float | None, unit: str) -> str:
    """Write a mean; long times in hours or days."""
    if value is None:
        return "–"
    if unit == "s" and abs(value) >= 5400:
        return f"{value / 86_400:.1f} d" if abs(value) >= 172_800 else f"{value / 3600:.1f} h"
    return f"{number_text(value)} {unit}".rstrip()


def cards_of(summary: Summary) -> list[Card]:
    """Return a sweep's cards: by objective, over all strata first where there are several.

    Those of the first objective are whole, the others are answers alone.
    """
    cards = []
    for number, (objective, ranking) in enumerate(summary.rankings.items()):
        over_all = [summary.overall[objective]] if objective in summary.overall else []
        for shown in (*over_all, ranking):
            for answer in answers_of(shown, ranking):
                whole = number == 0 and answer.row is not None
                cards.append(card_of(summary, answer, shown) if whole else Card(answer))
    return cards


def card_of(summary: Summary, answer: Answer, ranking: Ranking) -> Card:
    """Return the whole card of an answer about a row of this ranking."""
    row, overall = answer.row, ranking.head.overall
    assert row is not None
    front = next((one for one in summary.fronts if one.stratum == answer.stratum), None)
    # The same configuration on each stratum: its row, its stratum and the others' rows.
    single = next(iter(summary.rankings.values())) if overall else ranking
    places = [
        (other, stratum)
        for stratum in summary.cells.strata
        if overall or stratum.name == answer.stratum
        for other in single.strata[stratum.name]
        if same_configuration(row, other) and (overall or other is row)
    ]
    changes = [
        change
        for other, stratum in places
        for change in _changes(summary, stratum, other["configuration_id"], len(places))
    ]
    rows = ranking.strata["" if overall else answer.stratum]
    next_ones = [one for one in rows if one["rank"] is not None and one is not row][:_COMPARED]
    bounds: Sequence[Bound] = ()
    settle: list[str] = []
    if overall:
        worse = _worse_overall(summary, row, next_ones, ranking)
    else:
        ((_, stratum),) = places
        worse = _worse(stratum, row, next_ones, ranking)
        bounds = summary.bounds.get(row["configuration_id"], ())
        settle = _to_settle(stratum, row, rows, ranking, bounds)
    workloads = {other.get("workload", stratum.name) for other, stratum in places}
    return Card(
        answer,
        bounds=bounds,
        passed_over=_passed_over(summary, row, rows, ranking),
        changes=changes,
        ties=[ranking.label(one) for one in next_ones if one not in worse],
        compared=len(next_ones),
        front=[] if front is None else _members(front, ranking),
        not_modelled=[summary.ignored[name] for name in sorted(workloads & summary.ignored.keys())],
        to_settle=settle,
    )


def _changes(summary: Summary, stratum: Stratum, key: str, families: int) -> Iterator[Change]:
    """Yield the effects of a configuration on a stratum; all `families` of strata share the error."""
    place = stratum.place[key]
    base = int(stratum.bases[place])
    if base in (-1, place):
        return
    known = [name for name in summary.measures if f"metric.{name}" in summary.cells.table.column_names]
    samples = {name: stratum.samples(name, [key, stratum.ids[base]]) for name in known}
    samples = {name: pair for name, pair in samples.items() if np.isfinite(pair).all(axis=0).any()}
    if not samples:
        return
    values, other = np.array(list(samples.values())).transpose(1, 0, 2)
    compared = compare_rows(
        values, other, stratum.correlation(values, other), comparisons=len(samples) * families
    )
    conditions = summary.classes.get(str(stratum.key.get("workload")), {})
    for index, metric in enumerate(samples):
        measure = summary.measures[metric]
        paired = np.isfinite(values[index]) & np.isfinite(other[index])
        mean, baseline = values[index][paired].mean(), other[index][paired].mean()
        adverse = bool(mean > baseline if measure.direction == "min" else mean < baseline)
        yield Change(
            metric=metric,
            unit="" if measure.unit == "1" else measure.unit,
            jobs=conditions.get(metric.partition("[")[2].removesuffix("]"), ""),
            workload=stratum.name,
            baseline=plain(baseline),
            mean=plain(mean),
            relative=plain(compared.relative[index]),
            low=plain(compared.low[index]),
            high=plain(compared.high[index]),
            p_value=plain(compared.p_value[index]),
            effect=("worse" if adverse else "better") if compared.shown[index] else "not sure",
            adverse=adverse,
        )


def _worse(stratum: Stratum, row: Row, others: Sequence[Row], ranking: Ranking) -> list[Row]:
    """Return those of the other configurations that are shown to be worse than one."""
    if not others:
        return []
    ids = [one["configuration_id"] for one in (row, *others)]
    values = stratum.samples(ranking.head.objective, ids)
    first, second = values[1:], np.broadcast_to(values[:1], values[1:].shape)
    compared = compare_rows(first, second, stratum.correlation(first, second))
    worse = compared.shown & (ranking.head.sign * compared.relative > 0)
    return [one for one, is_worse in zip(others, worse, strict=True) if is_worse]


def _worse_overall(summary: Summary, row: Row, others: Sequence[Row], ranking: Ranking) -> list[Row]:
    """Return the same over all strata: the others are ranked again with the one as their baseline."""
    if not others:
        return []
    cells = summary.cells
    single = next(iter(summary.rankings.values()))
    ids = [
        other["configuration_id"]
        for other in single.rows
        if any(same_configuration(one, other) for one in (row, *others))
    ]
    part = cells.table.filter(pc.is_in(cells.table["configuration_id"], pa.array(ids, pa.string())))
    again = read_cells(part, row_parameters(row), cells.group_by)
    compared = rank_overall(again, replace(ranking.head, overall=False))
    every = [] if compared is None else compared.rows
    worse = [row_parameters(one) for one in every if one["verdict"] == Verdict.WORSE]
    return [one for one in others if row_parameters(one) in worse]


def _passed_over(summary: Summary, row: Row, rows: Sequence[Row], ranking: Ranking) -> list[str]:
    """Return configurations that have a better mean and do not keep every bound, the best first."""
    by, sign = "relative" if ranking.head.overall else "mean", ranking.head.sign
    if not ranking.head.subject_to or row[by] is None:
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
            bound for bound in summary.bounds.get(one["configuration_id"], ()) if bound.state != Kept.YES
        ]
        reasons = "; ".join(bound.text for bound in broken) or f"bounds {one['subject_to']}"
        texts.append(f"{ranking.label(one)} ({percent_text(one['relative'])}): {reasons}")
    more = len(better) - _LISTED
    return [*texts, *([f"and {more} more"] if more > 0 else [])]


def _members(front: Front, ranking: Ranking) -> list[str]:
    """Return the members of a front by name, with their values."""
    members = [
        f"{ranking.label(parts[0])} ("
        + ", ".join(front.value_text(float(value)) for value in front.points[place])
        + ")"
        for place, parts in enumerate(front.rows[: front.size])
    ]
    names = ", ".join(head.objective for head in front.heads)
    if len(members) == 1:
        return [f"{members[0]} is best in all of {names}"]
    return [f"{len(members)} of {len(front.rows)} by {names}: {listed(members)}"]


def _to_settle(
    stratum: Stratum, row: Row, rows: Sequence[Row], ranking: Ranking, bounds: Sequence[Bound]
) -> list[str]:
    """Return how many replicates would settle a verdict that is not sure, and bounds that are not."""
    place = stratum.place[row["configuration_id"]]
    base = int(stratum.bases[place])
    if base in (-1, place):
        return []
    noun, fewest = ranking.head.replicate, fewest_replicates(1 - LEVEL)
    if row["pairs"] < fewest:
        return [f"at least {fewest} {noun}s; {row['pairs']} cannot show any difference"]
    pair = [stratum.ids[place], stratum.ids[base]]
    texts: list[str] = []
    if row["verdict"] == Verdict.UNSURE:
        first, second = stratum.samples(ranking.head.objective, pair)[:, None]
        spread = PairedSpread.of(first, second, correlation=row["correlation"] or 0.0)
        tested = sum(one["p_value"] is not None for one in rows)
        texts += _needed(ranking.head.objective, spread, noun, comparisons=max(1, tested))
    for bound in bounds:
        constraint = bound.constraint
        if bound.state == Kept.UNSETTLED and constraint.of_baseline and bound.value is not None:
            first, second = stratum.samples(constraint.metric, pair)[:, None]
            spread = PairedSpread.of(first, second, correlation=stratum.correlation(first, second) or 0.0)
            texts += _needed(str(constraint), spread, noun, beside=constraint.bound - 1)
    return texts


def _needed(
    name: str, spread: PairedSpread, noun: str, *, comparisons: int = 1, beside: float = 0.0
) -> Iterator[str]:
    """Yield how many replicates would show that a mean is on its side of a bound, if that is finite."""
    effect = spread.effect - spread.on_scale(beside)
    (needed,) = replicates_needed(
        effect, spread.deviation, level=1 - LEVEL, power=POWER, comparisons=comparisons
    )
    if math.isfinite(needed):
        yield f"{name}: about {int(needed):,} {noun}s like these {int(spread.pairs[0])}"


@dataclass(frozen=True)
class Compared:
    """Paired comparisons of many rows: differences, intervals, p-values together, and which are shown."""

    relative: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: FloatArray
    shown: BoolArray


def compare_rows(
    first: FloatArray, second: FloatArray, correlation: float | None, comparisons: int = 1
) -> Compared:
    """Compare rows pair by pair: a difference is shown where its interval and the joint test exclude chance.

    Parameters
    ----------
    first, second
        Shape (rows, replicates).
    correlation
        Of neighbouring replicates; 0 or None where they are independent.
    comparisons
        Number of comparisons that share the error of an interval.
    """
    level, correlation = (1 - LEVEL) / comparisons, correlation or 0.0
    rng = np.random.default_rng(SEED)
    paired = paired_difference(first, second, rng=rng, confidence=1 - level, correlation=correlation)
    rng = np.random.default_rng(SEED)
    p_value = joint_paired_p_values(first, second, rng=rng, correlation=correlation)
    low, high = np.atleast_1d(paired.relative_low), np.atleast_1d(paired.relative_high)
    families = max(1, comparisons // len(first))
    p_value = np.minimum(1.0, p_value * families)
    shown = (p_value <= 1 - LEVEL) & ((low > 0) | (high < 0))
    return Compared(np.atleast_1d(paired.relative), low, high, p_value, shown)
