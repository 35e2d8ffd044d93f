"""The answer in sentences: which configuration is best, by how much, and whether that is sure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gridtune.report.labels import (
    PARAMETER_PREFIX,
    configuration_label,
    number_text,
    percent_text,
    varying_parameters,
)
from gridtune.report.ranking import RankingHead, Verdict, ranking_head, strata
from gridtune.report.summary import Summary

__all__ = ["Sentence", "verdict_sentences"]


@dataclass(frozen=True)
class Sentence:
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
    """

    objective: str
    stratum: str
    best: str
    verdict: Verdict
    text: str


def verdict_sentences(summary: Summary) -> list[Sentence]:
    """Return the answers: by objective, over all strata first where there are several."""
    return [
        sentence
        for objective, ranking in summary.rankings.items()
        for table in (summary.overall.get(objective), ranking)
        if table is not None
        for sentence in _sentences(table, ranking)
    ]


def _sentences(ranking: pa.Table, single: pa.Table) -> Iterator[Sentence]:
    """Yield the sentence of each stratum of a ranking; `single` is the one within each stratum."""
    head = ranking_head(ranking)
    varying = varying_parameters(ranking, without=head.group_by)
    for name, rows in strata(ranking):
        where = _everywhere(single) if head.overall else f"On {name}" if name else "Here"
        stratum = "overall" if head.overall else name
        first = [row for row in rows if row["rank"] == 1]
        if not first:
            text = f"{where} no configuration has a value of {head.objective} in every replicate."
            yield Sentence(head.objective, stratum, "", Verdict.NONE, text)
            continue
        # Of equals the baseline stands for all: to change nothing is the simplest.
        best = next((row for row in first if row["is_baseline"]), first[0])
        label = _label(best, varying)
        parts = [f"{where} {label} {_lead(head, best)}"]
        if len(first) > 1:
            others = "another configuration shares" if len(first) == 2 else f"{len(first) - 1} others share"
            parts.append(f"{others} the first place")
        text = "; ".join(parts) + _against(head, best, rows, varying)
        yield Sentence(head.objective, stratum, label, Verdict(best["verdict"]), text)


def _everywhere(single: pa.Table) -> str:
    count, names = len(list(strata(single))), ranking_head(single).group_by
    what = "workloads" if names == ("workload",) else f"combinations of {' and '.join(names)}"
    return f"Over the {count} {what}"


def _label(row: Mapping[str, Any], varying: Sequence[str]) -> str:
    return configuration_label(
        {name.removeprefix(PARAMETER_PREFIX): value for name, value in row.items()}, varying
    )


def _lead(head: RankingHead, row: Mapping[str, Any]) -> str:
    extreme = "smallest" if head.direction == "min" else "largest"
    if head.overall:
        return f"has the {extreme} {head.objective} relative to the baseline"
    unit = f" {head.unit}" if head.unit else ""
    interval = _interval(row, "ci_low", "ci_high", number_text)
    interval_text = f" (95 % interval {interval})" if interval else ""
    return f"has the {extreme} {head.objective}: {number_text(row['mean'])}{unit}{interval_text}"


def _against(
    head: RankingHead, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], varying: Sequence[str]
) -> str:
    """Return what the sentence says of the baseline."""
    if row["is_baseline"]:
        return ". It is the baseline: nothing that was tried has a better mean."
    if row["relative"] is None:
        return ". There is no baseline to compare it with." if not head.baseline else "."
    base = next((_label(other, varying) for other in rows if other["is_baseline"]), "")
    change = percent_text(abs(row["relative"])).lstrip("+")
    amount = f"{change} {'less' if row['relative'] < 0 else 'more'} than the baseline{base and f' {base}'}"
    interval = _interval(row, "relative_low", "relative_high", percent_text)
    paired = f" (paired 95 % interval {interval})" if interval else ""
    these = " on these workloads" if head.overall else ""
    certainty = {
        Verdict.BETTER: (
            f"The difference{these} is significant at {'the error of the race' if 'race' in row else '5 %'}, "
            "all comparisons taken together."
        ),
        Verdict.EQUAL: "It is equal to the baseline in every replicate.",
        Verdict.WORSE: "It is worse.",
    }.get(Verdict(row["verdict"]), "Whether it really is better is not sure.")
    return f", {amount}{paired}. {certainty}{_on_other_logs(row)}"


def _on_other_logs(row: Mapping[str, Any]) -> str:
    """Return what the logs, each as one observation, say of logs that were not in the sweep."""
    interval = _interval(row, "by_log_low", "by_log_high", percent_text) if "by_log_low" in row else ""
    if not interval:
        return ""
    sure = row["by_log_low"] > 0 or row["by_log_high"] < 0
    end = "which excludes 0" if sure else "so on another log it may be otherwise"
    return f" With each log as one observation the interval is {interval}, {end}."


def _interval(row: Mapping[str, Any], low: str, high: str, write: Any) -> str:
    if row[low] is None or row[high] is None:
        return ""
    return f"{write(row[low]).removesuffix(' %')} … {write(row[high])}"
