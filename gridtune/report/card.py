"""The verdict as a card: the best configuration, the losers, the ties, and the open questions.

The terminal, the page, MLflow, `export` and `--json` show the same card.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gridtune.report.answers import Answer, listed
from gridtune.report.labels import count_text, interval_text, number_text, percent_text
from gridtune.report.rankings.bounds import Bound
from gridtune.report.rankings.ranking import LEVEL, SEED
from gridtune.report.tables import MARKS
from gridtune.statistics.inference import paired_difference
from gridtune.statistics.resampling import joint_paired_p_values
from gridtune.types import BoolArray, FloatArray

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


@dataclass(frozen=True)
class _Compared:
    """Paired comparisons of many rows: differences, intervals, p-values together, and which are shown."""

    relative: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: FloatArray
    shown: BoolArray


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
