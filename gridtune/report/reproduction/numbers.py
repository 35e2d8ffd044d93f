"""Our numbers: read from the results of an experiment as a `Reading` says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridtune.core.cells import CellResult
from gridtune.core.reproduction import Reading, Recorded
from gridtune.errors import SweepError
from gridtune.report.labels import value_text
from gridtune.statistics.inference import bootstrap_interval, paired_difference

__all__ = ["Estimate", "Results", "estimate", "reading_text"]

#: The results of each experiment that was run, by its name.
Results = Mapping[str, Sequence[CellResult]]
_WORKLOAD = "workload"
_PER_CENT = 100.0


@dataclass(frozen=True)
class Estimate:
    """One of our numbers.

    Attributes
    ----------
    value, low, high
        The mean and its 95 % interval; NaN ends where there are fewer than two replicates.
    replicates
        How many there are; 0 for a number of an earlier run.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    replicates: int = 0


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
        return _scaled(_mean(list(first.values())), ours.factor) if first else None
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
    return _scaled(Estimate(value, low, high, len(common)), factor * ours.factor)


def reading_text(ours: Reading | Recorded) -> str:
    """Return in one line where a number comes from."""
    if isinstance(ours, Recorded):
        return f"an earlier run: {ours.command}"
    where = {name: value for name, value in ours.where.items() if value is not None}
    text = f"{ours.experiment}: {ours.metric}{_part_text(ours.part)} of {_selection(where)}"
    if ours.relation == "value":
        return text
    differs = {name: value for name, value in ours.against.items() if ours.where.get(name) != value}
    other = " of ".join(filter(None, (ours.reference, _selection(differs) if differs else "")))
    return f"{text}, {ours.relation} to {other}"


def _part_text(part: tuple[int, int | None] | None) -> str:
    if part is None:
        return ""
    first, end = part
    if end is None:
        return f", from {first + 1} on,"
    return f", {first + 1} to {end}," if end > first + 1 else f", {end},"


def _selection(where: Mapping[str, Any]) -> str:
    parts = (f"{name}={value_text(value) if value is not None else 'unset'}" for name, value in where.items())
    return ", ".join(parts) or "the only configuration"


def _samples(
    ours: Reading, metric: str, where: Mapping[str, Any], results: Results
) -> dict[tuple[str, str], float]:
    """Return replicate to value: replicates of all workloads, where none is named."""
    samples: dict[tuple[str, str], float] = {}
    for result in results.get(ours.experiment, ()):
        if result.state != "done" or not _matches(result, where):
            continue
        key = ("" if _WORKLOAD in where else result.workload, result.replicate)
        if key in samples:
            raise SweepError(
                f"several configurations of the experiment {ours.experiment!r} have {_selection(where)}",
                hint="name more parameters in the reading",
            )
        samples[key] = _sample(result, metric, ours.part)
    return {key: value for key, value in samples.items() if math.isfinite(value)}


def _sample(result: CellResult, metric: str, part: tuple[int, int | None] | None) -> float:
    if part is None:
        return result.metrics.get(metric, math.nan)
    numbers = list(result.notes.get(metric, ()))[slice(*part)]
    return float(np.mean(numbers)) if numbers else math.nan


def _matches(result: CellResult, where: Mapping[str, Any]) -> bool:
    return all(
        (result.workload if name == _WORKLOAD else result.parameters.get(name)) == value
        for name, value in where.items()
    )


def _mean(values: Sequence[float]) -> Estimate:
    interval = bootstrap_interval(values, rng=np.random.default_rng(0))
    return Estimate(float(np.mean(values)), float(interval.low), float(interval.high), len(values))


def _scaled(number: Estimate, factor: float) -> Estimate:
    low, high = sorted((number.low * factor, number.high * factor))
    return Estimate(number.value * factor, low, high, number.replicates)
