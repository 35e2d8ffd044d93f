"""The answer of a ranking in a sentence: the best configuration, by how much, and whether that is sure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gridtune.report.labels import (
    interval_text,
    number_text,
    percent_text,
    row_label,
    varying_parameters,
)
from gridtune.report.rankings.ranking import RankingHead, Verdict, ranking_head, strata
from gridtune.sweep.space.constraints import Kept

__all__ = ["Answer", "answer_of", "answers_of"]

#: Configurations that a sentence lists.
_LISTED = 6


@dataclass(frozen=True)
class Answer:
    """The answer for one objective on one stratum.

    Attributes
    ----------
    objective, stratum
        Which; the stratum is "overall" over all of them.
    best
        The best configuration in words; "" where there is none.
    verdict
        What is proven of it.
    text
        The sentence.
    row
        The best configuration's row in the ranking, or None.
    """

    objective: str
    stratum: str
    best: str
    verdict: Verdict
    text: str
    row: Mapping[str, Any] | None = None


def answers_of(ranking: pa.Table, single: pa.Table) -> Iterator[Answer]:
    """Yield the answer of each stratum of a ranking; `single` is the one within each stratum."""
    head = ranking_head(ranking)
    varying = varying_parameters(ranking, without=head.group_by)
    for name, rows in strata(ranking):
        where, stratum = _where(head, name, single), "overall" if head.overall else name
        first = [row for row in rows if row["rank"] == 1]
        if not first:
            text = f"{where} no configuration has a value of {head.objective} in every replicate."
            text += _left_out(head, rows, varying)
            yield Answer(head.objective, stratum, "", Verdict.NONE, text)
            continue
        # Of equals the baseline stands for all: to change nothing is the simplest.
        best = next((row for row in first if row["is_baseline"]), first[0])
        label = row_label(best, varying)
        parts = [f"{where} {label} {_lead(head, best)}"]
        if len(first) > 1:
            others = "another configuration shares" if len(first) == 2 else f"{len(first) - 1} others share"
            parts.append(f"{others} the first place")
        text = "; ".join(parts) + _against(head, best, rows, varying) + _left_out(head, rows, varying)
        yield Answer(head.objective, stratum, label, Verdict(best["verdict"]), text, best)


def answer_of(ranking: pa.Table, single: pa.Table, row: Mapping[str, Any]) -> Answer:
    """Return the answer that is about a row of a ranking; `single` is the one within each stratum."""
    head = ranking_head(ranking)
    answers = [one for one in answers_of(ranking, single) if one.row == row]
    if answers:
        return answers[0]
    name, rows = next((name, rows) for name, rows in strata(ranking) if row in rows)
    varying = varying_parameters(ranking, without=head.group_by)
    label = row_label(row, varying)
    place = "no rank, as it breaks a bound," if row["rank"] is None else f"rank {row['rank']}"
    text = f"{_where(head, name, single)} {label} has {place} by {head.objective}"
    text += _against(head, row, rows, varying)
    return Answer(
        head.objective, "overall" if head.overall else name, label, Verdict(row["verdict"]), text, row
    )


def _left_out(head: RankingHead, rows: Sequence[Mapping[str, Any]], varying: Sequence[str]) -> str:
    """Return what the sentence says of configurations whose runs failed or gave no value."""
    text = ""
    for column, reason in (("failures", "runs failed"), ("undefined", f"runs gave no {head.objective}")):
        left_out = [row for row in rows if row[column]]
        names = [f"{row_label(row, varying)} ({row[column]} of {row['planned']})" for row in left_out]
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        if names:
            text += f" Without a rank, as {reason}: {', '.join(names[:_LISTED])}{more}."
    return text


def _where(head: RankingHead, name: str, single: pa.Table) -> str:
    if not head.overall:
        return f"On {name}" if name else "Here"
    names = ranking_head(single).group_by
    what = "workloads" if names == ("workload",) else f"combinations of {' and '.join(names)}"
    return f"Over the {len(list(strata(single)))} {what}"


def _lead(head: RankingHead, row: Mapping[str, Any]) -> str:
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


def _against(
    head: RankingHead, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], varying: Sequence[str]
) -> str:
    """Return what the sentence says of the baseline."""
    if row["is_baseline"]:
        among = " and keeps every bound" if head.subject_to else ""
        return f". It is the baseline: nothing that was tried has a better mean{among}."
    if row["relative"] is None:
        return ". There is no baseline to compare it with." if not head.baseline else "."
    base = next((row_label(other, varying) for other in rows if other["is_baseline"]), "")
    change = percent_text(abs(row["relative"])).lstrip("+")
    amount = f"{change} {'less' if row['relative'] < 0 else 'more'} than the baseline{base and f' {base}'}"
    interval = interval_text(row["relative_low"], row["relative_high"], percent_text)
    paired = f" (paired 95 % interval {interval})" if interval else ""
    these = " on these workloads" if head.overall else ""
    significant = f"The difference{these} is significant at 5 %, all comparisons taken together."
    certainty = {
        Verdict.BETTER: significant,
        Verdict.TYPICALLY: (
            f"{significant} That is about the typical {head.replicate}: the mean is not settled, as "
            f"{head.replicate}s twice as bad as the worst one, which a sample can miss, would undo it."
        ),
        Verdict.EQUAL: "It is equal to the baseline in every replicate.",
        Verdict.WORSE: "It is worse.",
    }.get(Verdict(row["verdict"]), "Whether it really is better is not sure.")
    text = f", {amount}{paired}. {certainty}"
    if by_log := interval_text(row.get("by_log_low"), row.get("by_log_high"), percent_text):
        sure = row["by_log_low"] > 0 or row["by_log_high"] < 0
        end = "which excludes 0" if sure else "so on another log it may be otherwise"
        text += f" With each log as one observation the interval is {by_log}, {end}."
    return text
