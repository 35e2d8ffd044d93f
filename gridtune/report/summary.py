"""The findings of a sweep, and its answers made whole: effects, bounds, ties and next steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gridtune.core.measures import Measure
from gridtune.core.remarks import Trust
from gridtune.registry import NamedValues
from gridtune.report.answer import GAINS, Answer, Effect
from gridtune.report.facts import SweepFacts
from gridtune.report.findings import answer_of, answers_of, compare_rows, listed
from gridtune.report.labels import PARAMETER_PREFIX, file_text, percent_text, row_parameters
from gridtune.report.rankings.bounds import Bound, Bounds
from gridtune.report.rankings.cells import Cells, Stratum, read_cells
from gridtune.report.rankings.combined import Front, fronts_of, rank_overall
from gridtune.report.rankings.ranking import LEVEL, Ranking, Row, Verdict, plain, same_configuration
from gridtune.report.tables import ranking_markdown
from gridtune.statistics.sample_size import PairedSpread, fewest_replicates, replicates_needed
from gridtune.sweep.space.constraints import Kept

#: Levels of trust, the worst first.
_LEVELS = ("no", "not graded", "signs only", "yes")
#: Configurations that are compared with the best one, and names that a line lists.
_COMPARED, _LISTED = 50, 6


@dataclass(frozen=True)
class Best:
    """The best configuration of a stratum.

    Attributes
    ----------
    stratum
        The stratum's name.
    label
        The configuration in words.
    row
        Its row in the ranking.
    """

    stratum: str
    label: str
    row: Mapping[str, Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """Its parameters; without those that do not apply to it."""
        return {name: value for name, value in row_parameters(self.row).items() if value is not None}

    def __str__(self) -> str:
        gain = self.row["relative"]
        gain_text = "" if gain is None else f", {percent_text(gain)} to the baseline ({self.row['verdict']})"
        return f"{self.label}{gain_text}"


@dataclass(frozen=True)
class Summary:
    """The findings of a sweep: tables, answers, the page, figures and JSON are views of it.

    Attributes
    ----------
    facts
        The facts of the sweep.
    cells
        Its cells.
    rankings
        Objective to its ranking within each stratum.
    overall
        Objective to the ranking over all strata, where there are several.
    bounds
        Configuration id to its judged constraints.
    measures
        Metric to unit and direction, of those that answers show beside the first objective, in order.
    classes
        Workload to the conditions of its classes of jobs.
    ignored
        Workload to the parts of its log that are not modelled.
    trust
        Workload to the trust in answers on it, where the system compares with recorded waits.
    remarks
        Parts of the logs that were ignored, assumed or cut off, and metrics that cells lack, a sentence each.
    """

    facts: SweepFacts
    cells: Cells
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    overall: Mapping[str, Ranking] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=dict)
    measures: Mapping[str, Measure] = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    trust: Mapping[str, Trust] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("rankings", "overall"):
            object.__setattr__(self, name, NamedValues(getattr(self, name)))

    @cached_property
    def answers(self) -> list[Answer]:
        """The answers: by objective, over all strata first where there are several.

        Those of the first objective are whole; the others have no effects, bounds and ties, but name the
        loss by the first one.
        """
        answers = []
        for number, (objective, ranking) in enumerate(self.rankings.items()):
            over_all = [self.overall[objective]] if objective in self.overall else []
            for shown in (*over_all, ranking):
                for answer in answers_of(shown, ranking):
                    if answer.row is None or number:
                        answers.append(self._graded(self._with_loss(answer, shown)))
                    else:
                        answers.append(self._whole(answer, shown))
        if len(self.rankings) == 1:
            return answers
        texts = [f"By {one.objective}, {one.advice[:1].lower()}{one.advice[1:]}" for one in answers]
        return [replace(one, advice=text) for one, text in zip(answers, texts, strict=True)]

    def answer(self, ranking: Ranking, row: Row) -> Answer:
        """Return the whole answer about one row of a ranking."""
        return self._whole(answer_of(ranking, self.rankings[ranking.head.objective], row), ranking)

    @cached_property
    def fronts(self) -> list[Front]:
        """The Pareto fronts of several objectives: over all strata, if there are several, and of each."""
        return fronts_of(self.rankings, self.overall)

    @property
    def settled(self) -> bool:
        """True if each best by the first objective differs from the baseline, or is it and all others do."""
        for ranking in list(self.rankings.values())[:1]:
            for first, *others in filter(None, ranking.strata.values()):
                judged = [first, *others] if first["is_baseline"] else [first]
                open_bound = first.get("subject_to") == Kept.UNSETTLED
                if open_bound or any(row["verdict"] == Verdict.UNSURE for row in judged):
                    return False
        return True

    @property
    def unconfirmed(self) -> list[str]:
        """The configurations to replay on fresh replicates: each best of a search, and its baselines."""
        if not (self.facts.searches and self.facts.has_fresh and self.rankings):
            return []
        objective, ranking = next(iter(self.rankings.items()))
        tables = [ranking, *([self.overall[objective]] if objective in self.overall else [])]
        best = [row_parameters(rows[0]) for table in tables for rows in table.strata.values() if rows]
        found = []
        for stratum in self.cells.strata:
            for row in ranking.strata[stratum.name]:
                place = stratum.place[row["configuration_id"]]
                base = int(stratum.bases[place])
                if row_parameters(row) in best and base not in {-1, place}:
                    found += [stratum.ids[base], stratum.ids[place]]
        return found

    @property
    def best(self) -> list[Best]:
        """The best configuration of each stratum by the first objective, where one has a rank."""
        return [
            Best(name, ranking.label(rows[0]), rows[0])
            for ranking in list(self.rankings.values())[:1]
            for name, rows in ranking.strata.items()
            if rows[0]["rank"] is not None
        ]

    @property
    def tables(self) -> Iterator[tuple[str, Ranking]]:
        """Every ranking with the name of its file: the strata's, then the overall one, by objective."""
        for objective, ranking in self.rankings.items():
            yield f"ranking-{file_text(objective)}", ranking
            if objective in self.overall:
                yield f"overall-{file_text(objective)}", self.overall[objective]

    @property
    def markdown(self) -> str:
        """All tables as one Markdown document."""
        parts = [f"# {self.facts.name}\n"]
        if self.facts.description:
            parts.append(f"{self.facts.description.strip()}\n")
        if self.remarks:
            parts.append("\n".join(f"- {remark}" for remark in self.remarks) + "\n")
        parts += [answer.markdown() for answer in self.answers]
        for objective, ranking in self.rankings.items():
            parts.append(f"## {objective}\n")
            if objective in self.overall:
                parts.append(ranking_markdown(self.overall[objective]))
            parts.append(ranking_markdown(ranking))
        parts += [f"{front}\n" for front in self.fronts]
        if not self.rankings:
            parts.append("No cell has a result.\n")
        return "\n".join(parts)

    def _whole(self, answer: Answer, ranking: Ranking) -> Answer:
        """Return an answer about a row of this ranking with its effects, bounds, ties and next steps."""
        row, overall = answer.row, ranking.head.overall
        assert row is not None
        front = next((one for one in self.fronts if one.stratum == answer.stratum), None)
        places = self._places(answer, ranking)
        effects = list(self._effects(places, self.measures))
        rows = ranking.strata["" if overall else answer.stratum]
        next_ones = [one for one in rows if one["rank"] is not None and one is not row][:_COMPARED]
        bounds: Sequence[Bound] = ()
        settle: list[str] = []
        if overall:
            worse = self._worse_overall(row, next_ones, ranking)
        else:
            ((_, stratum),) = places
            worse = _worse(stratum, row, next_ones, ranking)
            bounds = self.bounds.get(row["configuration_id"], ())
            settle = _to_settle(stratum, row, rows, ranking, bounds)
        workloads = {other.get("workload", stratum.name) for other, stratum in places}
        ties = [ranking.label(one) for one in next_ones if one not in worse]
        details = [("bounds", str(bound)) for bound in bounds]
        if ties:
            details.append(("ties", f"not distinguishable from the best: {listed(ties)}"))
        elif next_ones:
            details.append(("ties", f"none; the next {len(next_ones)} in the ranking are shown to be worse"))
        details += [("front", text) for text in ([] if front is None else _members(front, ranking))]
        kept = [f"{bound.constraint}: {bound.state}" for bound in bounds if bound.state != Kept.YES]
        if row.get("confirmed") and row.get("subject_to") == Kept.NO:
            kept.insert(0, f"a bound is broken on the {ranking.head.replicate}s that the search did not see")
        elif bounds and not kept:
            it = "it" if answer.verdict in GAINS else answer.best
            kept = [f"{it} keeps {' and '.join(str(bound.constraint) for bound in bounds)}"]
        whole = replace(
            answer,
            effects=effects,
            bounds=[*kept, *self._passed_over(row, rows, ranking)],
            not_modelled=[self.ignored[name] for name in sorted(workloads & self.ignored.keys())],
            next_steps=[*answer.next_steps, *settle],
            details=[*answer.details, *details],
        )
        return self._graded(whole.weighed())

    def _with_loss(self, answer: Answer, ranking: Ranking) -> Answer:
        """Return an answer by another objective with the loss that is shown by the first one."""
        if not answer.is_confirmed:
            return answer
        first = self.facts.objectives[0]
        effects = self._effects(self._places(answer, ranking), {first.metric: first.measure})
        return replace(answer, effects=[one for one in effects if one.effect == "worse"]).weighed()

    def _places(self, answer: Answer, ranking: Ranking) -> list[tuple[Row, Stratum]]:
        """Return the row of an answer's configuration on each stratum, with the stratum."""
        row, overall = answer.row, ranking.head.overall
        assert row is not None
        single = next(iter(self.rankings.values())) if overall else ranking
        return [
            (other, stratum)
            for stratum in self.cells.strata
            if overall or stratum.name == answer.stratum
            for other in single.strata[stratum.name]
            if same_configuration(row, other) and (overall or other is row)
        ]

    def _graded(self, answer: Answer) -> Answer:
        """Return an answer as far as the least trust in its workloads reaches."""
        workloads = {
            stratum.key.get("workload", stratum.name)
            for stratum in self.cells.strata
            if answer.stratum in {"overall", stratum.name}
        }
        trusts = [trust for name, trust in self.trust.items() if name in workloads]
        return answer.graded(min(trusts, key=lambda trust: _LEVELS.index(trust.level))) if trusts else answer

    def _effects(
        self, places: Sequence[tuple[Row, Stratum]], measures: Mapping[str, Measure]
    ) -> Iterator[Effect]:
        """Yield the effects of a configuration on its strata, which share the error."""
        known = [name for name in measures if f"metric.{name}" in self.cells.table.column_names]
        for row, stratum in places:
            place = stratum.place[row["configuration_id"]]
            base = int(stratum.bases[place])
            if base in (-1, place):
                continue
            samples = {name: stratum.samples(name, [stratum.ids[place], stratum.ids[base]]) for name in known}
            samples = {name: pair for name, pair in samples.items() if np.isfinite(pair).all(axis=0).any()}
            if not samples:
                continue
            values, other = np.array(list(samples.values())).transpose(1, 0, 2)
            compared = compare_rows(
                values, other, stratum.correlation(values, other), comparisons=len(samples) * len(places)
            )
            pair = np.array([place]), np.array([base])
            ends = [
                stratum.widened(name, *pair, *(column[[number]] for column in compared.paired))
                for number, name in enumerate(samples)
            ]
            compared = compared.with_ends(*np.concatenate(ends, axis=1))
            conditions = self.classes.get(str(stratum.key.get("workload")), {})
            for index, metric in enumerate(samples):
                measure = measures[metric]
                paired = np.isfinite(values[index]) & np.isfinite(other[index])
                mean, baseline = values[index][paired].mean(), other[index][paired].mean()
                adverse = bool(mean > baseline if measure.direction == "min" else mean < baseline)
                yield Effect(
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

    def _worse_overall(self, row: Row, others: Sequence[Row], ranking: Ranking) -> list[Row]:
        """Return the same over all strata: the others are ranked again with the one as their baseline."""
        if not others:
            return []
        cells = self.cells
        single = next(iter(self.rankings.values()))
        # Conditions are parameters of the strata alone.
        names = [name for name in single.rows[0] if name.startswith(PARAMETER_PREFIX) and name in row]
        wanted = {tuple(one[name] for name in names) for one in (row, *others)}
        same = (one for one in single.rows if tuple(one[name] for name in names) in wanted)
        ids = pa.array([one["configuration_id"] for one in same], pa.string())
        part = cells.table.filter(pc.is_in(cells.table["configuration_id"], ids))
        again = read_cells(part, row_parameters(row), cells.group_by)
        compared = rank_overall(again, replace(ranking.head, overall=False))
        every = [] if compared is None else compared.rows
        worse = [row_parameters(one) for one in every if one["verdict"] == Verdict.WORSE]
        return [one for one in others if row_parameters(one) in worse]

    def _passed_over(self, row: Row, rows: Sequence[Row], ranking: Ranking) -> list[str]:
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
                bound for bound in self.bounds.get(one["configuration_id"], ()) if bound.state != Kept.YES
            ]
            reasons = "; ".join(bound.text for bound in broken) or f"bounds {one['subject_to']}"
            gain = percent_text(one["relative"])
            texts.append(f"{ranking.label(one)} ({gain}) is not chosen: {reasons}")
        more = len(better) - _LISTED
        return [*texts, *([f"and {more} more"] if more > 0 else [])]


def _worse(stratum: Stratum, row: Row, others: Sequence[Row], ranking: Ranking) -> list[Row]:
    """Return those of the other configurations that are shown to be worse than one."""
    if not others:
        return []
    ids = [one["configuration_id"] for one in (row, *others)]
    values = stratum.samples(ranking.head.objective, ids)
    first, second = values[1:], np.broadcast_to(values[:1], values[1:].shape)
    compared = compare_rows(first, second, stratum.correlation(first, second))
    places = np.array([stratum.place[one] for one in ids])
    of_best = np.full(len(others), places[0])
    ends = stratum.widened(ranking.head.objective, places[1:], of_best, *compared.paired)
    compared = compared.with_ends(*ends)
    worse = compared.shown & (ranking.head.sign * compared.relative > 0)
    return [one for one, is_worse in zip(others, worse, strict=True) if is_worse]


def _members(front: Front, ranking: Ranking) -> list[str]:
    """Return the members of a front by name, with their values."""
    values = [", ".join(map(front.value_text, point)) for point in front.points[: front.size].tolist()]
    labels = [ranking.label(parts[0]) for parts in front.rows[: front.size]]
    members = [f"{label} ({texts})" for label, texts in zip(labels, values, strict=True)]
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
        return [f"run at least {fewest} {noun}s"]
    pair = [stratum.ids[place], stratum.ids[base]]
    texts: list[str] = []
    if row["verdict"] == Verdict.UNSURE:
        first, second = stratum.samples(ranking.head.objective, pair)[:, None]
        spread = PairedSpread.of(first, second, correlation=row["correlation"] or 0.0)
        tested = sum(one["p_value"] is not None for one in rows)
        # As `SweepFacts` says, the next look has less of the error.
        level = min(ranking.head.error, 0.01) / 2
        texts += _needed(ranking.head.objective, spread, noun, level=level, comparisons=max(1, tested))
    for bound in bounds:
        constraint = bound.constraint
        if bound.state == Kept.UNSETTLED and constraint.of_baseline and bound.value is not None:
            first, second = stratum.samples(constraint.metric, pair)[:, None]
            spread = PairedSpread.of(first, second, correlation=stratum.correlation(first, second) or 0.0)
            texts += _needed(str(constraint), spread, noun, beside=constraint.bound - 1)
    return texts


def _needed(
    name: str,
    spread: PairedSpread,
    noun: str,
    *,
    comparisons: int = 1,
    beside: float = 0.0,
    level: float = 1 - LEVEL,
) -> Iterator[str]:
    """Yield how many replicates would show that a mean is on its side of a bound, if that is finite."""
    effect = spread.effect - spread.on_scale(beside)
    (needed,) = replicates_needed(effect, spread.deviation, level=level, comparisons=comparisons)
    if math.isfinite(needed):
        yield f"run about {int(needed):,} {noun}s like these {int(spread.pairs[0])} to settle {name}"
