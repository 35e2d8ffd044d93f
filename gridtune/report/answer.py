"""The answer to a question: what to do, the gain, who loses, how far to trust it, and the next step.

Every command that advises gives one, and the terminal, the page, MLflow, exports and JSON show the same.
Its lines are plain sentences. The statistics behind them are its details.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gridtune.core.remarks import Trust
from gridtune.report.labels import interval_text, number_text, percent_text
from gridtune.report.rankings.ranking import Verdict
from gridtune.report.tables import MARKS
from gridtune.sweep.space.constraints import Kept

#: What is worse by less than this in the mean, and not shown to be worse, is not named.
_NAMED_FROM = 0.05
#: A size is given where the ends of its interval, as ratios, differ by this factor at most.
_WIDEST = 4.0
#: Losers that are named and sentences of one heading; and those on what is not modelled.
_NAMED, _UNMODELLED = 3, 6
#: Verdicts that show a gain.
GAINS = (Verdict.BETTER, Verdict.TYPICALLY)
#: Seconds to a unit that people read more easily, from so many seconds on.
_UNITS = ((172_800, 86_400, "days"), (5400, 3600, "h"), (0, 1, "s"))


@dataclass(frozen=True)
class Effect:
    """The effect of a change on a metric or a class of jobs, against the baseline.

    Attributes
    ----------
    metric, unit
        The metric; the unit is "" for a ratio.
    jobs
        The class of jobs in words, or "".
    workload
        The stratum.
    baseline, mean
        Means of the baseline and after the change.
    relative, low, high
        The paired difference over the baseline's mean, and its interval; all effects of an answer share its
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
        """Return the means, and the difference as far as its interval supports one."""
        if self.baseline is None or self.mean is None:
            return f"{self._subject}: no values"
        size = difference_text(self.relative)
        if self.is_vague and self.effect != "not sure":
            size = "by how much is not known"
        values = values_text(self.mean, self.baseline, self.unit)
        return f"{self._subject} {values}" + (f" ({size})" if size else "")

    @property
    def _subject(self) -> str:
        """The class of jobs and the metric in words."""
        name, _, of_class = self.metric.partition("[")
        jobs = self.jobs if self.jobs in {"", "all jobs"} else f"jobs of {self.jobs}"
        if of_class:
            condition = f" ({self.jobs})" if self.jobs else ""
            jobs = f"{of_class.removesuffix(']')} jobs{condition}"
        return f"{jobs}: {name}" if jobs and name != "wait_mean" else f"{jobs} wait" if jobs else name

    @property
    def is_vague(self) -> bool:
        """True if the interval does not support a size."""
        return is_vague(self.low, self.high)

    @property
    def numbers(self) -> str:
        """The difference with its interval, as the details have it."""
        interval = interval_text(self.low, self.high, percent_text)
        return f"{self._subject} {percent_text(self.relative)}" + (f" ({interval})" if interval else "")

    @property
    def may_be_worse(self) -> bool:
        """True if the mean is notably worse, and that is not shown to be more than chance."""
        size = math.inf if self.relative is None else abs(self.relative)
        return self.adverse and self.effect == "not sure" and size >= _NAMED_FROM


@dataclass(frozen=True)
class Answer:
    """The answer for one objective on one stratum, or over all of them.

    Attributes
    ----------
    objective, stratum
        The metric, and the stratum; "overall" over all of them.
    best
        The best configuration in words; "" where there is none.
    verdict
        The verdict on its difference to the baseline.
    advice
        What to do, in a sentence.
    gain, size
        The gain in a sentence, and its size with the interval.
    trust
        How far to trust it; None where nothing was compared.
    effects
        Effects on classes of jobs and on other metrics.
    excluded
        Sentences on jobs that could no longer run.
    bounds
        Sentences on bounds, and on better configurations that break one.
    not_modelled
        Parts of the log and of the configuration that are not modelled.
    next_steps
        What to do next.
    details
        The statistics behind it: a heading and a text each.
    row
        The best configuration's row in the ranking, or None.
    """

    objective: str
    stratum: str
    best: str
    verdict: Verdict
    advice: str
    gain: str = ""
    size: str = ""
    trust: Trust | None = None
    effects: Sequence[Effect] = ()
    excluded: Sequence[str] = ()
    bounds: Sequence[str] = ()
    not_modelled: Sequence[str] = ()
    next_steps: Sequence[str] = ()
    details: Sequence[tuple[str, str]] = ()
    row: Mapping[str, Any] | None = None

    @property
    def losers(self) -> list[Effect]:
        """The classes of jobs and metrics that are shown to be worse, the worst first."""
        worse = [effect for effect in self.effects if effect.effect == "worse"]
        return sorted(worse, key=lambda effect: -abs(effect.relative or math.inf))

    @property
    def is_confirmed(self) -> bool:
        """True if a gain is shown that breaks no bound."""
        return self.verdict in GAINS and (self.row or {}).get("subject_to") != Kept.NO

    def weighed(self) -> Answer:
        """Return the answer with advice that depends on the losses, where somebody is shown to lose."""
        if not self.is_confirmed or not (self.losers or self.excluded):
            return self
        advice, colon, reason = self.advice.removesuffix(".").partition(":")
        return replace(self, advice=f"{advice}, if these losses are acceptable{colon}{reason}.")

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The lines below the advice: a heading and a sentence each."""
        lines = [("gain", self.gain + self.size)] if self.gain else []
        lines += [("loses", text) for text in self._losses()]
        lines += [("bounds", text) for text in _shortened(self.bounds)]
        lines += [("trust", str(self.trust))] if self.trust else []
        lines += [("not modelled", text) for text in _shortened(self.not_modelled, _UNMODELLED)]
        return [*lines, *(("next", text) for text in self.next_steps)]

    def _losses(self) -> list[str]:
        if not self.effects:
            return _shortened(self.excluded)
        unsure = [f"perhaps {effect}: not sure" for effect in self.effects if effect.may_be_worse]
        if not self.losers:
            looked_at = f"nobody is shown to lose ({len(self.effects)} metrics and classes of jobs compared)"
            return [*_shortened(self.excluded), looked_at, *_shortened(unsure)]
        return _shortened([*self.excluded, *map(str, self.losers), *unsure])

    @property
    def all_details(self) -> list[tuple[str, str]]:
        """The details, with the interval of each effect."""
        effects = [("effect", effect.numbers) for effect in self.effects]
        if len(effects) > 1:
            effects.append(("intervals", f"those of effects are corrected for {len(effects)} comparisons"))
        return [*self.details, *effects, *self._others]

    @property
    def _others(self) -> list[tuple[str, str]]:
        """The sentences for which `lines` has no room; losses among them are effects, too."""
        others = [("loses", text) for text in self.excluded[_NAMED:]]
        others += [("bounds", text) for text in self.bounds[_NAMED:]]
        return [*others, *(("not modelled", text) for text in self.not_modelled[_UNMODELLED:])]

    def graded(self, trust: Trust, *, anyway: bool = False) -> Answer:
        """Return the answer as far as the trust in it reaches; without trust only if it is wanted anyway."""
        if trust.level == "signs only" and self.size:
            return replace(self, trust=trust, size="; the size of the difference is not sure")
        if trust.level != "no":
            return replace(self, trust=trust)
        if anyway:
            return replace(self, trust=trust, advice=f"Not to be trusted. {self.advice}")
        return replace(
            self,
            best="",
            verdict=Verdict.NONE,
            advice="No answer: the simulated cluster does not wait as the recorded one.",
            gain="",
            trust=trust,
            effects=(),
            bounds=(),
            next_steps=["run `gridtune slurm fit`, which shows what differs"],
            details=(),
        )

    def __repr__(self) -> str:
        """Return the advice and its lines, as the terminal shows them."""
        lines = [f"  {name:12}  {text}" for name, text in self.lines]
        return "\n".join([self.advice, *lines]).replace("(--details)", "(answer.all_details)")

    def as_dict(self) -> dict[str, Any]:
        """Return the answer in JSON's types."""
        content = asdict(self)
        del content["row"]
        return content | {"verdict": self.verdict.value, "losers": [str(one) for one in self.losers]}

    def paragraphs(self, *more: tuple[str, str]) -> str:
        """Return the answer and further lines as paragraphs of HTML."""
        # `more` may have the details.
        lines = [f"{name}: {text}" for name, text in dict.fromkeys((*self.lines, *self._others, *more))]
        notes = [f'<p class="note">{html.escape(line.replace("--details", "below"))}</p>' for line in lines]
        return "\n".join([f'<p class="answer">{html.escape(self.advice)}</p>', *notes])

    def markdown(self) -> str:
        """Return the answer with its details as Markdown."""
        lines = [f"- **{name}**: {text}" for name, text in (*self.lines, *self.all_details)]
        return "\n".join([self.advice, "", *lines]).strip().replace("(--details)", "(below)") + "\n"


def print_answers(answers: Iterable[Answer], console: Console, *, details: bool = False) -> None:
    """Print answers: the advice, and the lines below it under their headings; with the details if asked."""
    for answer in answers:
        console.print(Text(answer.advice, style=MARKS.get(answer.verdict, "") or "bold"), soft_wrap=False)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(ratio=1)
        before = ""
        for name, text in (*answer.lines, *(answer.all_details if details else ())):
            loses = name == "loses" and (answer.losers or answer.excluded)
            warns = loses or (name == "trust" and text.startswith("no:"))
            table.add_row(Text("" if name == before else name), Text(text, style="red" if warns else ""))
            before = name
        console.print(Padding(table, (0, 0, 1, 2)))


def is_vague(low: float | None, high: float | None) -> bool:
    """Return whether a relative interval is too wide to give a size, or there is none."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return True
    return low <= -1 or (1 + high) / (1 + low) > _WIDEST


def difference_text(relative: float | None) -> str:
    """Write a relative difference in words, such as `12 % less`; large ones as a factor."""
    if relative is None or math.isnan(relative):
        return ""
    if relative >= 1:
        return f"{1 + relative:,.1f} times as much"
    size = f"{abs(relative):.0%}" if abs(relative) >= 0.1 else f"{abs(relative):.1%}"
    return f"{size.replace('%', ' %')} {'less' if relative < 0 else 'more'}"


def values_text(value: float, other: float | None, unit: str) -> str:
    """Write a mean, and what it is instead of, in the same unit; long times in hours or days."""
    values = [value] if other is None else [value, other]
    size, name = 1, unit
    if unit == "s":
        largest = max(map(abs, values))
        size, name = next((size, name) for least, size, name in _UNITS if largest >= least)
        texts = [f"{one / size:,.0f}" if size == 1 else f"{one / size:,.1f}" for one in values]
    else:
        texts = [number_text(one) for one in values]
    return f"{' instead of '.join(texts)} {name}".rstrip()


def _shortened(texts: Sequence[str], most: int = _NAMED) -> list[str]:
    """Return the first texts, and how many more there are."""
    more = [f"and {len(texts) - most} more (--details)"] if len(texts) > most else []
    return [*texts[:most], *more]
