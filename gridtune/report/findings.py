"""The answers of a ranking: for each stratum the best configuration, its gain, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gridtune.core.remarks import Trust
from gridtune.report.answer import GAINS, Answer, difference_text, is_vague, values_text
from gridtune.report.labels import interval_text, number_text, percent_text
from gridtune.report.rankings.cells import SEED
from gridtune.report.rankings.ranking import LEVEL, Ranking, RankingHead, Row, Verdict
from gridtune.statistics.inference import paired_difference
from gridtune.statistics.resampling import joint_paired_p_values
from gridtune.statistics.sample_size import fewest_replicates
from gridtune.sweep.space.constraints import Kept
from gridtune.types import BoolArray, FloatArray

#: Configurations that a sentence lists.
_LISTED = 6


def answers_of(ranking: Ranking, single: Ranking) -> Iterator[Answer]:
    """Yield the answer of each stratum of a ranking; `single` is the one within each stratum."""
    for name, rows in ranking.strata.items():
        finding = _Finding(ranking, single, name)
        first = [row for row in rows if row["rank"] == 1]
        if not first:
            yield finding.without_answer()
            continue
        # Of equals the baseline stands for all: to change nothing is the simplest.
        best = next((row for row in first if row["is_baseline"]), first[0])
        answer = finding.answer(best, finding.lead(best))
        equals = [ranking.label(row) for row in first if row is not best]
        same = f"; the same with {listed(equals)}" if equals else ""
        yield replace(answer, size=f"{answer.size}{same}")


def answer_of(ranking: Ranking, single: Ranking, row: Row) -> Answer:
    """Return the answer that is about a row of a ranking; `single` is the one within each stratum."""
    answers = [one for one in answers_of(ranking, single) if one.row is row]
    if answers:
        return answers[0]
    name = next(name for name, rows in ranking.strata.items() if any(one is row for one in rows))
    place = "no rank, as it breaks a bound," if row["rank"] is None else f"rank {row['rank']}"
    return _Finding(ranking, single, name).answer(row, f"has {place} by {ranking.head.objective}")


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


@dataclass(frozen=True)
class _Finding:
    """One stratum of a ranking, or all: its name, and the ranking within each stratum."""

    ranking: Ranking
    single: Ranking
    name: str

    @property
    def head(self) -> RankingHead:
        """The subject of the ranking."""
        return self.ranking.head

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of the stratum."""
        return self.ranking.strata[self.name]

    def without_answer(self) -> Answer:
        """Return the answer where no configuration has a rank."""
        objective = self.head.objective
        advice = f"No answer{self._where()}: no configuration has {objective} in every "
        return Answer(
            objective,
            "overall" if self.head.overall else self.name,
            "",
            Verdict.NONE,
            f"{advice}{self.head.replicate}.",
            next_steps=[
                *self._left_out(),
                "`gridtune report` shows the errors; `--retry all` runs the cells again",
            ],
        )

    def answer(self, row: Row, lead: str) -> Answer:
        """Return the answer about a row; `lead` is the start of its statistics."""
        label = self.ranking.label(row)
        base = next((other for other in self.rows if other["is_baseline"]), None)
        statistics = f"{label} {lead}{self._against(row)}"
        gain, size = self._gain(row, base)
        export = ["`gridtune results export` writes this configuration to a file"]
        return Answer(
            self.head.objective,
            "overall" if self.head.overall else self.name,
            label,
            Verdict(row["verdict"]),
            self._advice(row, base, self._where()),
            gain=gain,
            size=size,
            trust=self._trust(row),
            next_steps=export if row["verdict"] in GAINS else [],
            details=[("statistics", statistics), *(("left out", text) for text in self._left_out())],
            row=row,
        )

    def _where(self) -> str:
        if not self.head.overall:
            return f" on {self.name}" if len(self.single.strata) > 1 else ""
        names = self.single.head.group_by
        what = "workloads" if names == ("workload",) else f"combinations of {' and '.join(names)}"
        return f" over the {len(self.single.strata)} {what}"

    def _advice(self, row: Row, base: Row | None, where: str) -> str:
        """Return what to do, in a sentence."""
        label = self.ranking.label(row)
        if base is None:
            extreme = "smallest" if self.head.direction == "min" else "largest"
            advice = f"{label} has the {extreme} {self.head.objective}{where}"
            return f"{advice}; there is no baseline to compare it with."
        before = "the baseline" if base is row else self.ranking.label(base)
        if row.get("subject_to") == Kept.NO and base is not row:
            return f"Keep {before}{where}: {label} breaks a bound."
        if row["verdict"] in GAINS:
            return f"Use {label} instead of {before}{where}."
        if base is row:
            bounds = " that keeps every bound" if self.head.subject_to else ""
            return f"Keep {label}{where}: no other configuration{bounds} has a better {self.head.objective}."
        reason = {
            Verdict.EQUAL: f"{label} gives the same {self.head.objective}",
            Verdict.WORSE: f"{label} is worse",
        }.get(Verdict(row["verdict"]), f"{label}, the best of the others, is not shown to be better")
        if row["pairs"] < fewest_replicates(1 - LEVEL):
            reason = f"{row['pairs']} {self.head.replicate}s cannot show a difference"
        elif row["verdict"] == Verdict.UNSURE and is_vague(row["relative_low"], row["relative_high"]):
            why = f"the {self.head.replicate}s differ too much"
            return f"Cannot say whether {label} is better than {before}{where}: {why}."
        return f"Keep {before}{where}: {reason}."

    def _gain(self, row: Row, base: Row | None) -> tuple[str, str]:
        """Return the gain in a sentence, and its size as far as its interval supports one."""
        relative, confirmed = difference_text(row["relative"]), row.get("confirmed")
        if confirmed:
            fresh = f"{confirmed} {self.head.fresh} that the search did not see"
            text = f"{self.head.objective} is {relative or 'the same'} on {fresh}"
        elif row["mean"] is None:
            text = f"{self.head.objective} is {relative or 'the same'} on average"
            if base is row:
                return "", ""
        elif base is None or base is row or base["mean"] is None:
            return f"{self.head.objective} {values_text(row['mean'], None, self.head.unit)}", ""
        else:
            text = f"{self.head.objective} {values_text(row['mean'], base['mean'], self.head.unit)}"
        low, high = row["relative_low"], row["relative_high"]
        if row["verdict"] not in GAINS or base is row:
            # The advice is to keep the other one.
            chance = "; chance can explain the difference" if row["verdict"] == Verdict.UNSURE else ""
            return text if base is row else f"with {self.ranking.label(row)}: {text}", chance
        if is_vague(low, high):
            return text, "; that it is better is shown, by how much is not"
        size = "" if row["mean"] is None or confirmed else f", {relative}"
        return text, f"{size} ({range_text(low, high)}, 95 % sure)"

    def _trust(self, row: Row) -> Trust:
        """Return what a ranking by itself says of trust: nothing in it was compared with records."""
        reasons = ["simulated, not compared with recorded values"]
        if len(self.single.strata) == 1 and self.head.replicate in {"window", "shake"}:
            reasons.append("one log, another may give a different result")
        if row["verdict"] == Verdict.TYPICALLY:
            reasons.append(f"a few {self.head.replicate}s worse than these could reverse the gain")
        return Trust("not graded", "; ".join(reasons))

    def _left_out(self) -> Iterator[str]:
        """Yield sentences on configurations whose runs failed or gave no value."""
        reasons = {"failures": "runs failed", "undefined": f"runs gave no {self.head.objective}"}
        for column, reason in reasons.items():
            left_out = [row for row in self.rows if row[column]]
            names = [f"{self.ranking.label(row)} ({row[column]} of {row['planned']})" for row in left_out]
            if names:
                yield f"without a rank because {reason}: {listed(names)}"

    def lead(self, row: Row) -> str:
        """Return the start of the statistics of a best row."""
        extreme = "smallest" if self.head.direction == "min" else "largest"
        among = ""
        if self.head.subject_to:
            kept = row["subject_to"] == Kept.YES
            among = " of those that keep every bound" if kept else " of those not shown to break a bound"
        if self.head.overall:
            return f"has the {extreme} {self.head.objective} relative to the baseline{among}"
        unit = f" {self.head.unit}" if self.head.unit else ""
        interval = interval_text(row["ci_low"], row["ci_high"], number_text)
        spread = f" (95 % interval {interval})" if interval else ""
        return f"has the {extreme} {self.head.objective}{among}: {number_text(row['mean'])}{unit}{spread}"

    def _against(self, row: Row) -> str:
        """Return the statistics of the difference to the baseline."""
        if row["is_baseline"] or row["relative"] is None:
            return "."
        base = next((self.ranking.label(other) for other in self.rows if other["is_baseline"]), "")
        change = percent_text(abs(row["relative"])).lstrip("+")
        word = "less" if row["relative"] < 0 else "more"
        amount = f"{change} {word} than the baseline{base and f' {base}'}"
        interval = interval_text(row["relative_low"], row["relative_high"], percent_text)
        paired = f" (paired 95 % interval {interval})" if interval else ""
        significant = "significant at 5 % after correction for all comparisons"
        certainty = {
            Verdict.BETTER: significant,
            Verdict.TYPICALLY: f"{significant}, for the typical {self.head.replicate}",
            Verdict.EQUAL: "equal to the baseline in every replicate",
            Verdict.WORSE: "worse than the baseline",
        }.get(Verdict(row["verdict"]), "not significant: chance can explain the difference")
        text = f", {amount}{paired}; {certainty}."
        if by_log := interval_text(row.get("by_log_low"), row.get("by_log_high"), percent_text):
            sure = row["by_log_low"] > 0 or row["by_log_high"] < 0
            end = "which excludes 0" if sure else "so another log may give a different result"
            text += f" With each log as one observation the interval is {by_log}, {end}."
        return text


def range_text(low: float, high: float) -> str:
    """Write a relative interval in words, such as `28 to 94 % less`."""
    ends = sorted((low, high), key=abs)
    texts = [f"{abs(end):.0%}".replace("%", " %") for end in ends]
    if low < 0 < high:
        return f"{abs(low):.0%} less to {high:.0%} more".replace("%", " %")
    return f"{texts[0].removesuffix(' %')} to {texts[1]} {'less' if high <= 0 else 'more'}"


@dataclass(frozen=True)
class _Compared:
    """Paired comparisons of many rows: differences, intervals, p-values together, and which are shown."""

    relative: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: FloatArray
    shown: BoolArray

    @property
    def paired(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The differences and the ends of their intervals."""
        return self.relative, self.low, self.high

    def with_ends(self, low: FloatArray, high: FloatArray) -> _Compared:
        """Return the comparisons with wider intervals; a difference is shown where these exclude 0, too."""
        return replace(self, low=low, high=high, shown=self.shown & ((low > 0) | (high < 0)))


def compare_rows(
    first: FloatArray, second: FloatArray, correlation: float | None, comparisons: int = 1
) -> _Compared:
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
    return _Compared(np.atleast_1d(paired.relative), low, high, p_value, shown)
