"""Constraints of a search space: bounds that a configuration must keep, judged by an interval.

A bound is a number in the metric's unit, `<= 86400`, or a multiple of the baseline's mean,
`<= 1.2 x baseline`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Self

import numpy as np

from gridtune.statistics.dependence import neighbour_correlation, series_correlation, widening
from gridtune.statistics.inference import paired_difference
from gridtune.statistics.intervals import mean_interval
from gridtune.types import FloatArray

_FORM = re.compile(r"(<=|>=)\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(?:([x×*])\s*baseline)?")
#: The resampling is always the same, so that a search proposes the same again.
_SEED = 20_011
#: Of the intervals that bounds are judged by.
_LEVEL = 0.95


class Kept(StrEnum):
    """State of a constraint by its interval, from best to worst."""

    YES = "satisfied"
    UNSETTLED = "not settled"
    NO = "violated"

    @classmethod
    def worst(cls, states: Iterable[Kept]) -> Kept:
        """Return the worst of these; satisfied for none."""
        return max(states, key=list(cls).index, default=cls.YES)


class _Margin(NamedTuple):
    """Values of configurations beside a bound, with 95 % intervals.

    Attributes
    ----------
    value, low, high
        Shape (configurations,): the relative difference to the baseline, or the mean in the metric's unit.
        NaN without values, the interval also with a single replicate.
    limit
        The bound, on the same scale.
    sign
        "<=" or ">=".
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    limit: float
    sign: str

    @property
    def excess(self) -> FloatArray:
        """Distance of the worse end of each interval beyond the bound; not above 0 where it is kept.

        Without an interval it is that of the value.
        """
        far, sign = (self.high, 1.0) if self.sign == "<=" else (self.low, -1.0)
        return np.asarray(sign * (np.where(np.isnan(far), self.value, far) - self.limit))

    def states(self) -> list[Kept]:
        """Return for each configuration whether the bound is kept."""
        ends = (self.high, self.low) if self.sign == "<=" else (-self.low, -self.high)
        limit = self.limit if self.sign == "<=" else -self.limit
        return [
            Kept.YES if far <= limit else Kept.NO if near > limit else Kept.UNSETTLED
            for far, near in zip(*ends, strict=True)
        ]


@dataclass(frozen=True)
class Constraint:
    """A bound on a metric.

    Attributes
    ----------
    metric
        Its name.
    sign
        "<=" or ">=".
    bound
        A number in the metric's unit, or a multiple of the baseline's mean.
    of_baseline
        Which of the two.
    """

    metric: str
    sign: str
    bound: float
    of_baseline: bool

    @classmethod
    def read(cls, metric: str, text: Any) -> Self:
        """Return the constraint that a search space writes as `metric: text`.

        Raises
        ------
        ValueError
            If the text is no bound.
        """
        match = _FORM.fullmatch(str(text).strip())
        if match is None:
            form = "`<= NUMBER` or `<= NUMBER x baseline`, or the same with >="
            raise ValueError(f"a constraint is {form}, but got {text!r}")
        return cls(metric, match[1], float(match[2]), match[3] is not None)

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.bound:g}{' x baseline' if self.of_baseline else ''}"

    def margin(self, values: FloatArray, base: FloatArray, *, windows: bool = False) -> _Margin:
        """Return what configurations come to beside the bound.

        Parameters
        ----------
        values
            Shape (configurations, replicates); NaN where there is none.
        base
            The baseline of each, of the same shape; only looked at for a multiple of it.
        windows
            Replicates are windows of a log, in order: intervals allow for the correlation of neighbours.
        """
        if self.of_baseline:
            rng = np.random.default_rng(_SEED)
            correlation = neighbour_correlation(values, base) if windows else 0.0
            paired = paired_difference(values, base, rng=rng, correlation=correlation)
            # The baseline is as good as itself, even where its mean is 0.
            same = ((values == base) | np.isnan(base)).all(axis=1) & np.isfinite(base).any(axis=1)
            ends = (paired.relative, paired.relative_low, paired.relative_high)
            value, low, high = (np.where(same, 0.0, end) for end in ends)
        else:
            counts = np.isfinite(values).sum(axis=1)
            means = np.nansum(values, axis=1) / np.where(counts, counts, math.nan)
            correlation = (
                series_correlation(np.where(np.isfinite(values), values, math.nan)) if windows else 0.0
            )
            wider = np.array([widening(int(n), correlation, _LEVEL) for n in counts])
            interval = mean_interval(values, confidence=_LEVEL)
            value, low, high = means, *(means + wider * (end - means) for end in interval)
        return _Margin(value, low, high, self.bound - 1.0 if self.of_baseline else self.bound, self.sign)
