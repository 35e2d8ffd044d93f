"""The answer of a ranking in sentences: the best configuration, its gain, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridtune.report.labels import interval_text, number_text, percent_text
from gridtune.report.rankings.ranking import Ranking, Row, Verdict
from gridtune.sweep.space.constraints import Kept

#: Configurations that a sentence lists.
_LISTED = 6


@dataclass(frozen=True)
class Answer:
    """The answer for one objective on one stratum.

    Attributes
    ----------
    objective, stratum
        The metric, and the stratum; "overall" over all of them.
    best
        The best configuration in words; "" where there is none.
    verdict
        The verdict on its difference to the baseline.
    text
        The answer in sentences.
    row
        The best configuration's row in the ranking, or None.
    """

    objective: str
    stratum: str
    best: str
    verdict: Verdict
    text: str
    row: Mapping[str, Any] | None = None


def answers_of(ranking: Ranking, single: Ranking) -> Iterator[Answer]:
    """Yield the answer of each stratum of a ranking; `single` is the one within each stratum."""
    head = ranking.head
    for name, rows in ranking.strata.items():
        first = [row for row in rows if row["rank"] == 1]
        if not first:
            text = f"{_where(ranking, name, single)} no configuration has a value of {head.objective} in "
            text += f"every replicate.{_left_out(ranking, rows)}"
            yield Answer(head.objective, _stratum(ranking, name), "", Verdict.NONE, text)
            continue
        # Of equals the baseline stands for all: to change nothing is the simplest.
        best = next((row for row in first if row["is_baseline"]), first[0])
        lead = _lead(ranking, best)
        if len(first) > 1:
            others = "another configuration shares" if len(first) == 2 else f"{len(first) - 1} others share"
            lead += f"; {others} the first place"
        yield _answer(ranking, name, single, best, lead, _left_out(ranking, rows))


def answer_of(ranking: Ranking, single: Ranking, row: Row) -> Answer:
    """Return the answer that is about a row of a ranking; `single` is the one within each stratum."""
    answers = [one for one in answers_of(ranking, single) if one.row is row]
    if answers:
        return answers[0]
    name = next(name for name, rows in ranking.strata.items() if any(one is row for one in rows))
    place = "no rank, as it breaks a bound," if row["rank"] is None else f"rank {row['rank']}"
    return _answer(ranking, name, single, row, f"has {place} by {ranking.head.objective}")


def _stratum(ranking: Ranking, name: str) -> str:
    return "overall" if ranking.head.overall else name


def _answer(ranking: Ranking, name: str, single: Ranking, row: Row, lead: str, left_out: str = "") -> Answer:
    label = ranking.label(row)
    against = _against(ranking, row, ranking.strata[name])
    text = f"{_where(ranking, name, single)} {label} {lead}{against}{left_out}"
    verdict = Verdict(row["verdict"])
    return Answer(ranking.head.objective, _stratum(ranking, name), label, verdict, text, row)


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _left_out(ranking: Ranking, rows: Sequence[Row]) -> str:
    """Return the sentences on configurations whose runs failed or gave no value."""
    text = ""
    reasons = {"failures": "runs failed", "undefined": f"runs gave no {ranking.head.objective}"}
    for column, reason in reasons.items():
        left_out = [row for row in rows if row[column]]
        names = [f"{ranking.label(row)} ({row[column]} of {row['planned']})" for row in left_out]
        if names:
            text += f" Without a rank because {reason}: {listed(names)}."
    return text


def _where(ranking: Ranking, name: str, single: Ranking) -> str:
    if not ranking.head.overall:
        return f"On {name}" if name else "Here"
    names = single.head.group_by
    what = "workloads" if names == ("workload",) else f"combinations of {' and '.join(names)}"
    return f"Over the {len(single.strata)} {what}"


def _lead(ranking: Ranking, row: Row) -> str:
    head = ranking.head
    extreme = "smallest" if head.direction == "min" else "largest"
    among = ""
    if head.subject_to:
        kept = row["subject_to"] == Kept.YES
        among = " of those that keep every bound" if kept else " of those not shown to break a bound"
    if head.overall:
        return f"has the {extreme} {head.objective} relative to the baseline{among}"
    unit = f" {head.unit}" if head.unit else ""
    interval = interval_text(row["ci_low"], row["ci_high"], number_text)
    spread = f" (95 % interval {interval})" if interval else ""
    return f"has the {extreme} {head.objective}{among}: {number_text(row['mean'])}{unit}{spread}"


def _against(ranking: Ranking, row: Row, rows: Sequence[Row]) -> str:
    """Return the sentences on the baseline."""
    head = ranking.head
    if row["is_baseline"]:
        among = " and keeps every bound" if head.subject_to else ""
        return f". It is the baseline: no other configuration has a better mean{among}."
    if row["relative"] is None:
        return ". There is no baseline to compare it with." if not head.baseline else "."
    base = next((ranking.label(other) for other in rows if other["is_baseline"]), "")
    change = percent_text(abs(row["relative"])).lstrip("+")
    amount = f"{change} {'less' if row['relative'] < 0 else 'more'} than the baseline{base and f' {base}'}"
    interval = interval_text(row["relative_low"], row["relative_high"], percent_text)
    paired = f" (paired 95 % interval {interval})" if interval else ""
    these = " on these workloads" if head.overall else ""
    significant = f"The difference{these} is significant at 5 % after correction for all comparisons."
    certainty = {
        Verdict.BETTER: significant,
        Verdict.TYPICALLY: (
            f"{significant} It holds for the typical {head.replicate}. A few unusually bad "
            f"{head.replicate}s, which this sample may not contain, could reverse the mean."
        ),
        Verdict.EQUAL: "It is equal to the baseline in every replicate.",
        Verdict.WORSE: "It is worse.",
    }.get(Verdict(row["verdict"]), "Chance can explain the difference.")
    text = f", {amount}{paired}. {certainty}"
    if by_log := interval_text(row.get("by_log_low"), row.get("by_log_high"), percent_text):
        sure = row["by_log_low"] > 0 or row["by_log_high"] < 0
        end = "which excludes 0" if sure else "so another log may give a different result"
        text += f" With each log as one observation the interval is {by_log}, {end}."
    return text
