"""Bootstrap distributions of many samples at once.

Mean, median and interquartile mean are each a weighted sum of the sorted sample. A resample with
replacement is a row of weights over the sorted originals, and the resamples of a thousand configurations are
one matrix product. All samples of the same size share their resampling indices: as with the random numbers of
simulations, what is common cancels in a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from gridtune.errors import MetricError
from gridtune.types import FloatArray

__all__ = ["Method", "Resampling", "Statistic", "bounds", "jackknife", "middle_half", "statistic_weights"]

Statistic = Literal["mean", "median", "iqm"]
Method = Literal["expanded", "percentile", "bca"]

#: Numbers in a block, which keeps it near 64 MiB.
_BLOCK = 8_000_000


def middle_half(n: int) -> FloatArray:
    """Return the share of each of n sorted values that lies between the quartiles; together n / 2.

    Where n is not a multiple of four, the two values on the borders count in part.
    """
    rank = np.arange(n)
    return np.clip(np.minimum(rank + 1, 0.75 * n) - np.maximum(rank, 0.25 * n), 0, None)


def statistic_weights(statistic: Statistic, n: int) -> FloatArray:
    """Return the weights, shape (n,), with which a statistic sums a sorted sample of n values."""
    if statistic == "mean":
        return np.full(n, 1.0 / n)
    rank = np.arange(n)
    if statistic == "iqm":
        return middle_half(n) / (n / 2)
    if statistic == "median":
        return np.where((rank == (n - 1) // 2) | (rank == n // 2), 1.0 if n % 2 else 0.5, 0.0)
    raise MetricError(f"no such statistic: {statistic!r}", hint=f"one of {', '.join(get_args(Statistic))}")


@dataclass(frozen=True)
class Resampling:
    """Bootstrap resampling: other indices for each sample size, the same for all samples of a size.

    Attributes
    ----------
    seed
        The generator of each sample size is derived from it, so that the interval of a sample does not
        depend on the other samples.
    resamples
        Number of bootstrap resamples.
    """

    seed: int
    resamples: int

    @classmethod
    def drawn_from(cls, rng: np.random.Generator, resamples: int) -> Resampling:
        """Draw the seed from a generator, with one draw."""
        if resamples < 1:
            raise MetricError(f"`resamples >= 1` must hold, but got {resamples}")
        return cls(int(rng.integers(2**63)), resamples)

    def weights(self, order_weights: FloatArray) -> Iterator[FloatArray]:
        """Yield blocks of rows: the weight of each sorted original in one resample.

        Parameters
        ----------
        order_weights
            Shape (n,): the statistic's weights on a sorted sample.
        """
        n = len(order_weights)
        rng = np.random.default_rng([self.seed, n])
        step = max(1, _BLOCK // (4 * n))
        for first in range(0, self.resamples, step):
            count = min(step, self.resamples - first)
            # Sorted positions of a sorted sample: the k-th smallest drawn gets the k-th weight.
            drawn = np.sort(rng.integers(n, size=(count, n)), axis=1)
            cells = drawn + np.arange(count)[:, None] * n
            spread = np.broadcast_to(order_weights, (count, n)).ravel()
            summed = np.bincount(cells.ravel(), weights=spread, minlength=count * n)
            yield np.asarray(summed, dtype=np.float64).reshape(count, n)

    def distribution(self, order_weights: FloatArray, columns: FloatArray) -> FloatArray:
        """Return the statistic of every resample.

        Parameters
        ----------
        order_weights
            Shape (n,): the statistic's weights on a sorted sample.
        columns
            Shape (rows, n): samples, each sorted (any order will do for the mean).

        Returns
        -------
        numpy.ndarray
            Shape (rows, resamples).
        """
        blocks = [columns @ weights.T for weights in self.weights(order_weights)]
        return np.concatenate(blocks, axis=1)

    def rows_at_once(self) -> int:
        """Return how many samples to resample at a time."""
        return max(1, _BLOCK // self.resamples)


def jackknife(order_weights: Callable[[int], FloatArray], columns: FloatArray) -> FloatArray:
    """Return the statistic with each value left out in turn, shape (rows, n); rows are sorted samples."""
    n = columns.shape[1]
    shorter = order_weights(n - 1)
    matrix = np.zeros((n, n))
    for left_out in range(n):
        matrix[left_out, np.arange(n) != left_out] = shorter
    return columns @ matrix.T


def bounds(
    distribution: FloatArray,
    estimate: FloatArray,
    left_out: Callable[[], FloatArray],
    *,
    n: int,
    confidence: float,
    method: Method,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the confidence interval that a bootstrap distribution gives.

    Parameters
    ----------
    distribution
        Shape (rows, resamples).
    estimate
        Shape (rows,): the statistic of the samples themselves.
    left_out
        Gives the jackknife values, shape (rows, n); called for ``bca`` only.
    n
        Size of the samples, at least 2.
    confidence, method
        As in `gridtune.statistics.inference.bootstrap_interval`.
    """
    levels = _levels(distribution, estimate, left_out, n=n, confidence=confidence, method=method)
    ordered = np.sort(distribution, axis=1)
    return _quantile(ordered, levels[0]), _quantile(ordered, levels[1])


def _levels(
    distribution: FloatArray,
    estimate: FloatArray,
    left_out: Callable[[], FloatArray],
    *,
    n: int,
    confidence: float,
    method: Method,
) -> tuple[FloatArray, FloatArray]:
    """Return the two quantile levels of each row at which the interval ends."""
    from scipy.special import ndtr, ndtri, stdtrit  # noqa: PLC0415 (heavy, and only needed here)

    tail = (1 - confidence) / 2
    rows, resamples = distribution.shape
    if method == "percentile":
        return np.full(rows, tail), np.full(rows, 1 - tail)
    if method == "expanded":
        low = float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, tail)))
        return np.full(rows, low), np.full(rows, 1 - low)
    if method != "bca":
        raise MetricError(f"no such method: {method!r}", hint=f"one of {', '.join(get_args(Method))}")
    # Resamples that equal the sample in exact arithmetic may differ from it in their last bits.
    slack = 1e-12 * np.abs(distribution).max(axis=1, keepdims=True)
    beyond = distribution - estimate[:, None]
    below = (beyond < -slack).sum(axis=1)
    equal = (np.abs(beyond) <= slack).sum(axis=1)
    # A share of 0 or 1 would make the correction infinite; one resample less than all is the most that this
    # many resamples can show.
    share = np.clip((below + equal / 2) / resamples, 1 / (resamples + 1), resamples / (resamples + 1))
    bias = ndtri(share)
    influence = left_out()
    influence = influence.mean(axis=1, keepdims=True) - influence
    spread = (influence**2).sum(axis=1) ** 1.5
    with np.errstate(invalid="ignore", divide="ignore"):
        acceleration = np.where(spread > 0, (influence**3).sum(axis=1) / (6 * spread), 0.0)
    ends = [bias + ndtri(tail), bias + ndtri(1 - tail)]
    low, high = (ndtr(bias + end / (1 - acceleration * end)) for end in ends)
    return low, high


def _quantile(ordered: FloatArray, level: FloatArray) -> FloatArray:
    """Return one quantile of each row of sorted values, interpolated linearly."""
    last = ordered.shape[1] - 1
    position = level * last
    below = np.clip(np.floor(position).astype(np.int64), 0, last)
    above = np.minimum(below + 1, last)
    row = np.arange(len(ordered))
    lower, upper = ordered[row, below], ordered[row, above]
    return lower + (position - below) * (upper - lower)
