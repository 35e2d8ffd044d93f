"""The verdict of a claim: whether its criteria hold, by rules that are stated.

A criterion with limits holds if the whole 95 % interval of our number lies within them, and fails if the
whole interval lies outside; else it is not sure. Without an interval, a number within them is not sure. A
criterion that asks for the published number holds if ours is within the stated part of it, and is not sure if
only our interval reaches so far; else it fails.

A claim is reproduced if all its criteria hold, and partly if only some do. Where none holds, it is not
reproduced if some fail, and open if none does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gridtune.core.reproduction import Claim, Criterion, Recorded
from gridtune.core.system import PublishedFigure
from gridtune.report.reproduction.numbers import Estimate, Results, estimate, reading_text

__all__ = ["ClaimVerdict", "CriterionOutcome", "Outcome", "Verdict", "judge", "target_text"]


class Outcome(StrEnum):
    """How a criterion ends."""

    HOLDS = "holds"
    UNSURE = "not sure"
    FAILS = "fails"
    OPEN = "not measured"


class Verdict(StrEnum):
    """How a claim ends."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not reproduced"
    OPEN = "open"


@dataclass(frozen=True)
class CriterionOutcome:
    """A criterion with our number.

    Attributes
    ----------
    text, target
        What the number is, and what it must be.
    outcome
        Whether it is.
    ours
        The number; None if it was not measured.
    published
        The published one; None where the claim states none.
    unit
        Their unit.
    how
        Where ours comes from.
    recorded
        Whether ours is of an earlier run.
    """

    text: str
    target: str
    outcome: Outcome
    ours: Estimate | None
    published: float | None
    unit: str
    how: str
    recorded: bool


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim with its verdict."""

    text: str
    source: str
    remark: str
    verdict: Verdict
    criteria: Sequence[CriterionOutcome]


def judge(claim: Claim, results: Results, figures: Mapping[str, PublishedFigure]) -> ClaimVerdict:
    """Return the verdict of a claim.

    Parameters
    ----------
    claim
        The claim.
    results
        Experiment to its results.
    figures
        The system's published figures by name.
    """
    criteria = [_outcome(criterion, results, figures) for criterion in claim.criteria]
    verdict = _verdict({criterion.outcome for criterion in criteria})
    return ClaimVerdict(claim.text, claim.source, claim.remark, verdict, criteria)


def target_text(criterion: Criterion) -> str:
    """Return what the number of a criterion must be, in words."""
    if criterion.within is not None:
        return f"within {criterion.within * 100:g} % of the published"
    low, high = (
        None if limit is None else f"{limit:g}".replace("-", "−")
        for limit in (criterion.at_least, criterion.at_most)
    )
    if low is not None and high is not None:
        return f"surely from {low} to {high}"
    return f"surely at least {low}" if low is not None else f"surely at most {high}"


def _verdict(outcomes: set[Outcome]) -> Verdict:
    if outcomes == {Outcome.HOLDS}:
        return Verdict.REPRODUCED
    if Outcome.HOLDS in outcomes:
        return Verdict.PARTLY
    return Verdict.NOT_REPRODUCED if Outcome.FAILS in outcomes else Verdict.OPEN


def _outcome(
    criterion: Criterion, results: Results, figures: Mapping[str, PublishedFigure]
) -> CriterionOutcome:
    ours = estimate(criterion.ours, results)
    published, unit = None, criterion.unit
    if isinstance(criterion.published, str):
        figure = figures[criterion.published]
        published, unit = float(figure.value), figure.unit
    elif criterion.published is not None:
        published = float(criterion.published)
    return CriterionOutcome(
        text=criterion.text,
        target=target_text(criterion),
        outcome=_judged(criterion, ours, published),
        ours=ours,
        published=published,
        unit=unit,
        how=reading_text(criterion.ours),
        recorded=isinstance(criterion.ours, Recorded),
    )


def _judged(criterion: Criterion, ours: Estimate | None, published: float | None) -> Outcome:
    if ours is None:
        return Outcome.OPEN
    low, high = _limits(criterion, published)
    inside = low <= ours.value <= high
    # NaN ends compare as false: without an interval nothing is sure, and nothing reaches further.
    sure = criterion.within is not None or (low <= ours.low and ours.high <= high)
    if inside and sure:
        return Outcome.HOLDS
    reaches = ours.low <= high and ours.high >= low
    return Outcome.UNSURE if inside or reaches else Outcome.FAILS


def _limits(criterion: Criterion, published: float | None) -> tuple[float, float]:
    if criterion.within is not None and published is not None:
        reach = abs(published) * criterion.within
        return published - reach, published + reach
    low = -math.inf if criterion.at_least is None else criterion.at_least
    return low, math.inf if criterion.at_most is None else criterion.at_most
