"""Verdicts on claims, and the file of them.

A criterion with limits holds if the whole 95 % interval of our number lies within them, and fails if the
whole interval lies outside; else it is undecided. Without an interval, a number within them is undecided. A
criterion that asks for the published number holds if ours is within the stated part of it, and is undecided
if only our interval reaches so far; else it fails. Where the one limit is no effect at all (a change of 0, a
ratio of 1) and a number is published, it holds only in direction if our effect is less than half or more
than twice the published one. Where the data was calibrated to the published number, it is fitted instead.

A claim is reproduced if all its criteria hold; if some of them only do so in direction, that is the verdict,
and if all are fitted, that. It holds partly if only some criteria do. Where none holds, it is not reproduced
if some fail, and undecided if none does; it is not measured where there is no number at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from gridtune.core.cells import CellResult, finite_json
from gridtune.core.reproduction import Claim, Criterion, Reading, Recorded
from gridtune.errors import SweepError
from gridtune.report.facts import read_stored, write_json
from gridtune.report.labels import value_text
from gridtune.statistics.inference import bootstrap_interval, paired_difference


class _Judgement(StrEnum):
    """Outcome of a criterion."""

    HOLDS = "holds"
    DIRECTION = "direction only"
    FITTED = "fitted"
    UNDECIDED = "undecided"
    FAILS = "fails"
    UNMEASURED = "not measured"


class ClaimVerdict(StrEnum):
    """Verdict on a claim."""

    REPRODUCED = "reproduced"
    DIRECTION = "direction only"
    FITTED = "fitted"
    PARTLY = "partly"
    NOT_REPRODUCED = "not reproduced"
    UNDECIDED = "undecided"
    UNMEASURED = "not measured"


@dataclass(frozen=True)
class JudgedCriterion:
    """A criterion with our number.

    Attributes
    ----------
    text, target
        Name of the number, and the condition on it.
    outcome
        Outcome of the condition.
    ours
        The number; None if it was not measured.
    published
        The published one; None where the claim states none.
    unit
        Their unit.
    recorded
        True if ours is of an earlier run.
    effect
        Our effect divided by the published one, where both are known: negative if they differ in sign.
    """

    text: str
    target: str
    outcome: _Judgement
    ours: Estimate | None
    published: float | None
    unit: str
    recorded: bool
    effect: float | None = None


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its verdict."""

    text: str
    source: str
    remark: str
    verdict: ClaimVerdict
    criteria: Sequence[JudgedCriterion]
    check: bool = False


def judge(claim: Claim, results: Results) -> JudgedClaim:
    """Return the verdict of a claim.

    Parameters
    ----------
    claim
        The claim.
    results
        Experiment to its results.
    """
    criteria = []
    for criterion in claim.criteria:
        ours = estimate(criterion.ours, results)
        effect = _relative_effect(criterion, ours)
        criteria.append(
            JudgedCriterion(
                text=criterion.text,
                target=_target_text(criterion),
                outcome=_judged(criterion, ours, effect),
                effect=effect,
                ours=ours,
                published=criterion.published,
                unit=criterion.unit,
                recorded=isinstance(criterion.ours, Recorded),
            )
        )
    verdict = _verdict({criterion.outcome for criterion in criteria})
    return JudgedClaim(claim.text, claim.source, claim.remark, verdict, criteria, claim.check)


def _verdict(outcomes: set[_Judgement]) -> ClaimVerdict:
    evidence = outcomes - {_Judgement.FITTED}
    if not evidence:
        return ClaimVerdict.FITTED
    if evidence == {_Judgement.HOLDS}:
        return ClaimVerdict.REPRODUCED
    if evidence <= {_Judgement.HOLDS, _Judgement.DIRECTION}:
        return ClaimVerdict.DIRECTION
    if evidence & {_Judgement.HOLDS, _Judgement.DIRECTION}:
        return ClaimVerdict.PARTLY
    if _Judgement.FAILS in evidence:
        return ClaimVerdict.NOT_REPRODUCED
    unmeasured = evidence == {_Judgement.UNMEASURED}
    return ClaimVerdict.UNMEASURED if unmeasured else ClaimVerdict.UNDECIDED


def _target_text(criterion: Criterion) -> str:
    """Return what the number of a criterion must be, in words."""
    if criterion.within is not None:
        return f"within {criterion.within * 100:g} %"
    low, high = (
        None if limit is None else f"{limit:g}".replace("-", "−")
        for limit in (criterion.at_least, criterion.at_most)
    )
    if low is not None and high is not None:
        return f"from {low} to {high}"
    return f"at least {low}" if low is not None else f"at most {high}"


def _judged(criterion: Criterion, ours: Estimate | None, effect: float | None) -> _Judgement:
    if ours is None:
        return _Judgement.UNMEASURED
    if criterion.within is not None and criterion.published is not None:
        reach = abs(criterion.published) * criterion.within
        low, high = criterion.published - reach, criterion.published + reach
    else:
        low = -math.inf if criterion.at_least is None else criterion.at_least
        high = math.inf if criterion.at_most is None else criterion.at_most
    inside = low <= ours.value <= high
    # NaN ends compare as false: without an interval nothing is sure, and nothing reaches further. An interval
    # that ends at a limit is not surely within: a ratio of exactly 1 is no gain.
    sure = criterion.within is not None or (low < ours.low and ours.high < high)
    if inside and sure:
        if effect is not None and not 1 / _TWICE <= effect <= _TWICE:
            return _Judgement.DIRECTION
        return _Judgement.FITTED if criterion.fitted else _Judgement.HOLDS
    reaches = ours.low <= high and ours.high >= low
    return _Judgement.UNDECIDED if inside or reaches else _Judgement.FAILS


def _relative_effect(criterion: Criterion, ours: Estimate | None) -> float | None:
    """Return our effect divided by the published one; None where the criterion is not about an effect."""
    limits = [limit for limit in (criterion.at_least, criterion.at_most) if limit is not None]
    if ours is None or criterion.published is None or limits not in ([0.0], [1.0]):
        return None
    published = criterion.published - limits[0]
    return (ours.value - limits[0]) / published if published else None


#: Effects that differ by more than this factor agree in direction only.
_TWICE = 2.0
#: The results of each experiment that was run, by its name.
Results = Mapping[str, Sequence[CellResult]]
_WORKLOAD = "workload"
_PER_CENT = 100.0
#: The end of an interval; JSON, which has no NaN, says null where there is none.
_End = Annotated[float, BeforeValidator(lambda end: math.nan if end is None else end)]


@dataclass(frozen=True)
class Estimate:
    """One of our numbers.

    Attributes
    ----------
    value, low, high
        The mean and its 95 % interval; NaN ends where there are fewer than two replicates.
    replicates
        Number of replicates; 0 for a number of an earlier run.
    """

    value: float
    low: _End = math.nan
    high: _End = math.nan
    replicates: int = 0

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate of a multiple."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Estimate(self.value * factor, low, high, self.replicates)


def estimate(ours: Reading | Recorded, results: Results) -> Estimate | None:
    """Return one of our numbers; None if the results do not have it.

    Intervals of means are bootstrap intervals over replicates; those of a difference, a ratio or a change are
    paired over the replicates that both configurations have.

    Raises
    ------
    SweepError
        If the reading's parameters are those of several configurations.
    """
    if isinstance(ours, Recorded):
        return Estimate(float(ours.value), float(ours.low), float(ours.high))
    first = _samples(ours, ours.metric, ours.where, results)
    if ours.relation == "value":
        if not first:
            return None
        values = list(first.values())
        interval = bootstrap_interval(values, rng=np.random.default_rng(0))
        mean = Estimate(float(np.mean(values)), float(interval.low), float(interval.high), len(values))
        return mean.scaled(ours.factor)
    other = ours.reference or ours.metric
    second = _samples(ours, other, {**ours.where, **ours.against}, results)
    common = [key for key in first if key in second]
    if not common:
        return None
    pairs = [first[key] for key in common], [second[key] for key in common]
    difference = paired_difference(*pairs, rng=np.random.default_rng(0))
    if ours.relation == "difference":
        ends, above, factor = (difference.difference, difference.low, difference.high), 0.0, 1.0
    else:
        ends = (difference.relative, difference.relative_low, difference.relative_high)
        above, factor = (1.0, 1.0) if ours.relation == "ratio" else (0.0, _PER_CENT)
    value, low, high = (float(end) + above for end in ends)
    return Estimate(value, low, high, len(common)).scaled(factor * ours.factor)


def _samples(
    ours: Reading, metric: str, where: Mapping[str, Any], results: Results
) -> dict[tuple[str, str], float]:
    """Return replicate to value: replicates of all workloads, where none is named."""
    samples: dict[tuple[str, str], float] = {}
    for result in results.get(ours.experiment, ()):
        read = {**result.parameters, _WORKLOAD: result.workload}
        if result.state != "done" or any(read.get(name) != value for name, value in where.items()):
            continue
        key = ("" if _WORKLOAD in where else result.workload, result.replicate)
        if key in samples:
            parts = (
                f"{name}={'unset' if value is None else value_text(value)}" for name, value in where.items()
            )
            selected = ", ".join(parts) or "the only configuration"
            raise SweepError(
                f"several configurations of the experiment {ours.experiment!r} have {selected}",
                hint="name more parameters in the reading",
            )
        if ours.part is None:
            samples[key] = result.metrics.get(metric, math.nan)
        else:
            numbers = list(result.notes.get(metric, ()))[slice(*ours.part)]
            samples[key] = float(np.mean(numbers)) if numbers else math.nan
    return {key: value for key, value in samples.items() if math.isfinite(value)}


#: The verdicts in a reproduction's folder.
VERDICTS_FILE = "verdicts.json"
_SCHEMA = "gridtune-reproduction-1"


@dataclass(frozen=True)
class TraceUse:
    """A log that was read.

    Attributes
    ----------
    name
        As the space names it.
    checksum
        Its SHA-256.
    remark
        The log that it stands in for; "" for the log itself.
    """

    name: str
    checksum: str
    remark: str = ""


@dataclass(frozen=True)
class TableNumbers:
    """A published table with ours.

    Attributes
    ----------
    title, source, columns
        As of the `PaperTable`.
    rows
        Label, and for each column the published number and ours; None for what there is not.
    experiments
        Where ours come from.
    """

    title: str
    source: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[float | None, Estimate | None]]]]
    experiments: Sequence[str]


@dataclass(frozen=True)
class Reproduced:
    """Findings of a reproduction.

    Attributes
    ----------
    name, title, publications, data
        As of the `Reproduction`.
    system, system_version
        The system, and the version of its results.
    full
        True if the whole experiments were run.
    command
        The command that does so again.
    commands
        Experiment to the command that runs it by itself.
    cells, missing
        Experiment to its cells, and to those without a result.
    traces
        The logs that were read.
    versions
        Software to its version.
    claims
        Each claim with its verdict.
    tables
        The published tables with ours.
    """

    name: str
    title: str
    publications: Sequence[str]
    data: str
    system: str
    system_version: str
    full: bool
    command: str
    commands: Mapping[str, str]
    cells: Mapping[str, int]
    missing: Mapping[str, int]
    traces: Sequence[TraceUse]
    versions: Mapping[str, str]
    claims: Sequence[JudgedClaim]
    tables: Sequence[TableNumbers] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        """Write the verdicts into a folder and return their file; it is never there by half."""
        return write_json(finite_json({"schema": _SCHEMA, **asdict(self)}), folder / VERDICTS_FILE)

    @property
    def made(self) -> str:
        """The command, the experiments and the logs of the reproduction."""
        logs = ", ".join(trace.name + (f" ({trace.remark})" if trace.remark else "") for trace in self.traces)
        experiments, cells = ", ".join(self.cells), sum(self.cells.values())
        made = f"`{self.command}`, experiments {experiments}, {cells:,} cells"
        return f"{made}{f', on {logs}' if logs else ''}"

    @classmethod
    def read(cls, path: Path) -> Reproduced:
        """Return what `Reproduced.write` wrote.

        Raises
        ------
        SweepError
            If the file is missing or not one of these.
        """
        other = f"holds no verdicts of this version of gridtune: give a {VERDICTS_FILE} of gridtune reproduce"
        return read_stored(cls, path, _SCHEMA, other)

    def verdicts(self) -> Counter[ClaimVerdict]:
        """Return how many claims of the publication have each verdict; checks of ours are left out."""
        return Counter(claim.verdict for claim in self.claims if not claim.check)

    def tally(self) -> str:
        """Return the same in words."""
        counts = self.verdicts()
        return ", ".join(f"{counts[verdict]} {verdict}" for verdict in ClaimVerdict if counts[verdict])
