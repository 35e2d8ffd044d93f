"""Confidence intervals of means that allow for skewed samples, in closed form.

Waiting times and slowdowns have long tails. A sample of ten rarely holds a value from far out in the tail, so
its mean is mostly too small and so is its standard deviation, and symmetric intervals miss the true mean on
the side of the tail. Hall's transformation removes the skewness of the t statistic and moves that end
outwards. It also moves the other end inwards, for which the skewness of few replicates is too uncertain. So
an interval here reaches on each side as far as the wider of the two, Student's and Hall's. Where no two
values have opposite signs, as with waits, some of which are zero, Student's is that of the logarithm of the
mean, which does not reach across zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from gridtune.errors import MetricError
from gridtune.types import FloatArray, IntArray

#: Skewness below which Hall's transformation is the identity in double precision.
_SYMMETRIC = 1e-6


def mean_interval(samples: npt.ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Return a confidence interval of the mean along the last axis, for symmetric and skewed samples.

    Each end is the outer one of Hall's interval, which corrects for skewness, and of Student's: on the scale
    of the logarithm for samples without values of opposite signs (delta method), plain for others; the
    interval of such a sample does not cross zero. Nothing is drawn at random.

    Parameters
    ----------
    samples
        Shape (..., n): replicates along the last axis; NaN marks a missing one.
    confidence
        Nominal coverage, between 0 and 1. The page of metrics states the measured one.

    Returns
    -------
    Interval
        `low` and `high` of shape (...). NaN for fewer than two replicates; a single point if all replicates
        agree.

    Raises
    ------
    MetricError
        For an infinite sample or a confidence outside (0, 1).

    Notes
    -----
    Source: Hall, "On the removal of skewness by transformation", JRSS B 54, 1992, with Student's quantiles
    in place of the normal ones.
    """
    check_confidence(confidence)
    values = Samples.of(samples)
    low = np.full(len(values.rows), np.nan)
    high = low.copy()
    for n, index in values.by_size(len(low)):
        if n < 2:
            continue
        # Sorted, so that the order of the replicates has no effect on the last bit.
        rows = np.sort(values.present(index, n), axis=1)
        mean = rows.mean(axis=1)
        residuals = rows - mean[:, None]
        below, above = reach(residuals, confidence)
        # Samples of one sign, zeros among them: the mean times a factor, and divided by it.
        one_sign = ((rows[:, 0] >= 0) | (rows[:, -1] <= 0)) & (mean != 0)
        size = np.abs(mean)[one_sign]
        half = _student(residuals[one_sign], confidence) / size
        with np.errstate(over="ignore"):
            larger, smaller = size * np.expm1(half), size * -np.expm1(-half)
        positive = mean[one_sign] > 0
        hall = _hall(residuals[one_sign], confidence)
        below[one_sign] = np.maximum(hall[0], np.where(positive, smaller, larger))
        above[one_sign] = np.maximum(hall[1], np.where(positive, larger, smaller))
        constant = rows[:, 0] == rows[:, -1]
        # Of few replicates, or with zeros, Hall's end may lie beyond zero.
        lowest = np.where(rows[:, 0] >= 0, 0.0, -np.inf)
        highest = np.where(rows[:, -1] <= 0, 0.0, np.inf)
        low[index] = np.where(constant, rows[:, 0], np.maximum(mean - below, lowest))
        high[index] = np.where(constant, rows[:, 0], np.minimum(mean + above, highest))
    return Interval(values.shaped(low), values.shaped(high))


def reach(residuals: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Return how far the wider of Student's and Hall's interval reaches below and above the mean.

    Parameters
    ----------
    residuals
        Shape (rows, n), n at least 2: values around their mean.
    confidence
        Nominal coverage.
    """
    half = _student(residuals, confidence)
    below, above = _hall(residuals, confidence)
    return np.maximum(half, below), np.maximum(half, above)


def _student(residuals: FloatArray, confidence: float) -> FloatArray:
    """Return half the width of Student's interval."""
    n = residuals.shape[1]
    largest = np.abs(residuals).max(axis=1, keepdims=True, initial=np.finfo(np.float64).tiny)
    deviation = largest[:, 0] * (residuals / largest).std(axis=1, ddof=1)
    return np.asarray(t_quantile(n, confidence) * deviation / np.sqrt(n), dtype=np.float64)


def _hall(residuals: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Return how far Hall's interval reaches below and above the mean."""
    n = residuals.shape[1]
    largest = np.abs(residuals).max(axis=1, keepdims=True, initial=np.finfo(np.float64).tiny)
    scaled = residuals / largest
    deviation = np.sqrt((scaled**2).mean(axis=1))
    cubes = (scaled**3).mean(axis=1)
    skewness = np.divide(cubes, deviation**3, out=np.zeros_like(cubes), where=deviation > 0)
    symmetric = np.abs(skewness) < _SYMMETRIC
    divisor = np.where(symmetric, 1.0, skewness)
    # In units of the deviation with divisor n, so that n - 1 is under the root.
    student = t_quantile(n, confidence) / np.sqrt(n - 1)

    def corrected(end: float) -> FloatArray:
        ends = 3 / divisor * (np.cbrt(1 + divisor * (end - divisor / (6 * n))) - 1)
        return np.where(symmetric, end, ends) * largest[:, 0] * deviation

    return corrected(student), -corrected(-student)


def t_quantile(n: float, confidence: float) -> float:
    """Return the quantile of Student's t for n values that leaves half of the error above it."""
    from scipy.special import stdtrit  # noqa: PLC0415 (heavy, and only needed here)

    return float(stdtrit(n - 1, (1 + confidence) / 2))


def check_confidence(confidence: float) -> None:
    """Refuse a nominal coverage outside (0, 1)."""
    if not 0 < confidence < 1:
        raise MetricError(f"`0 < confidence < 1` must hold, but got {confidence}", hint="0.95 is 95 %")


#: A number for one sample, an array of the leading axes' shape for many.
FloatOrArray = float | FloatArray


class Interval(NamedTuple):
    """A confidence interval."""

    low: FloatOrArray
    high: FloatOrArray


@dataclass(frozen=True)
class Samples:
    """Samples as rows: NaN where a value is missing.

    Attributes
    ----------
    rows
        Shape (configurations, n).
    shape
        Shape of the leading axes.
    """

    rows: FloatArray
    shape: tuple[int, ...]

    @classmethod
    def of(cls, samples: npt.ArrayLike) -> Self:
        """Read an array with replicates along its last axis; infinite values are refused."""
        values = np.asarray(samples, dtype=np.float64)
        if values.ndim == 0:
            raise MetricError("a sample is an array, but a single number was given", hint="wrap it in a list")
        if np.isinf(values).any():
            raise MetricError("a sample holds an infinite value", hint="NaN marks a missing one")
        leading = values.shape[:-1]
        return cls(values.reshape(math.prod(leading), values.shape[-1]), leading)

    @classmethod
    def of_pairs(cls, a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Self, Self]:
        """Broadcast two arrays against each other, with NaN in both where either has it."""
        try:
            pair = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
        except ValueError as error:
            shapes = f"{np.shape(a)} and {np.shape(b)}"
            raise MetricError(f"these samples do not pair: shapes {shapes}") from error
        missing = np.isnan(pair[0]) | np.isnan(pair[1])
        first, second = (cls.of(np.where(missing, np.nan, values)) for values in pair)
        return first, second

    @property
    def counts(self) -> IntArray:
        """Number of values of each row, missing ones left out."""
        return (~np.isnan(self.rows)).sum(axis=1)

    def by_size(self, at_once: int) -> Iterator[tuple[int, IntArray]]:
        """Yield a number of values, and up to `at_once` rows that have so many; parts of a size are alike."""
        counts = self.counts
        for n in np.unique(counts[counts > 0]).tolist():
            index = np.flatnonzero(counts == n)
            yield from ((n, part) for part in np.array_split(index, -(-len(index) // at_once)))

    def present(self, index: IntArray, n: int) -> FloatArray:
        """Return the values, shape (len(index), n), of rows that have n of them."""
        rows = self.rows[index]
        return rows[~np.isnan(rows)].reshape(len(index), n)

    def shaped(self, values: FloatArray) -> FloatOrArray:
        """Return one value for each row in the shape of the leading axes; a float for a single sample."""
        return values.reshape(self.shape) if self.shape else float(values[0])
