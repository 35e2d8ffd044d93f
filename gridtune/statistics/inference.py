"""Confidence intervals and paired differences.

Every function is vectorised over configurations: replicates lie along the last axis, NaN marks one that
is missing (a failed cell), and leading axes are configurations. No function assumes a normal distribution,
and those that draw random numbers take a generator.

A table on the page of metrics has the coverage of these intervals. Prefer ten replicates or
more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gridtune.errors import MetricError
from gridtune.statistics.dependence import widening
from gridtune.statistics.intervals import FloatOrArray, Interval, Samples, check_confidence, reach, t_quantile
from gridtune.types import BoolArray, FloatArray, IntArray

#: Numbers in a block of resampled means, which keeps it in a processor's cache, and in all weights of a size.
_BLOCK, _WEIGHTS = 500_000, 8_000_000


@dataclass(frozen=True)
class _Resampling:
    """Bootstrap resampling: other indices for each sample size, the same for all samples of a size.

    A resample with replacement is a row of weights over the sample, and the resamples of a thousand
    configurations are one matrix product. As with the random numbers of simulations, common parts cancel in a
    comparison.

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
    def drawn_from(cls, rng: np.random.Generator, resamples: int) -> _Resampling:
        """Draw the seed from a generator, with one draw."""
        if resamples < 1:
            raise MetricError(f"`resamples >= 1` must hold, but got {resamples}")
        return cls(int(rng.integers(2**63)), resamples)

    def means(self, rows: FloatArray) -> FloatArray:
        """Return the mean of every resample.

        Parameters
        ----------
        rows
            Shape (rows, n): samples.

        Returns
        -------
        numpy.ndarray
            Shape (rows, resamples).
        """
        blocks = [rows @ weights.T for weights in self._weights(rows.shape[1])]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def _weights(self, n: int) -> Iterable[FloatArray]:
        """Return the weights of samples of a size in blocks, shape (resamples, n) in all."""
        return self.drawn(n) if n * self.resamples > _WEIGHTS else _kept_weights(self, n)

    def drawn(self, n: int) -> Iterator[FloatArray]:
        """Draw these weights."""
        rng = np.random.default_rng([self.seed, n])
        step = max(1, _WEIGHTS // (4 * n))
        for first in range(0, self.resamples, step):
            count = min(step, self.resamples - first)
            cells = rng.integers(n, size=(count, n)) + np.arange(count)[:, None] * n
            shares = np.full(count * n, 1.0 / n)
            weights = np.bincount(cells.ravel(), weights=shares, minlength=count * n).astype(np.float64)
            yield weights.reshape(count, n)

    def rows_at_once(self) -> int:
        """Return how many samples to resample at a time."""
        return max(1, _BLOCK // self.resamples)


@lru_cache(maxsize=2)
def _kept_weights(resampling: _Resampling, n: int) -> list[FloatArray]:
    """Return weights that one comparison after another needs, as all have the same seed."""
    return list(resampling.drawn(n))


def _expanded_ends(distribution: FloatArray, *, n: int, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the expanded percentile interval of bootstrap distributions.

    The quantiles are moved out to those of Student's t, which corrects most of what the percentile interval
    lacks with few replicates (Hesterberg, The American Statistician 69, 2015).

    Parameters
    ----------
    distribution
        Shape (rows, resamples).
    n
        Size of the samples, at least 2.
    confidence
        Nominal coverage.
    """
    from scipy.special import ndtr, stdtrit  # noqa: PLC0415 (heavy, and only needed here)

    level = float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - confidence) / 2)))
    last = distribution.shape[1] - 1
    # NumPy sorts as fast as it finds the lowest and the highest values alone.
    ordered = np.sort(distribution, axis=1)

    def quantile(position: float) -> FloatArray:
        below = int(position)
        lower, upper = ordered[:, below], ordered[:, min(below + 1, last)]
        return np.asarray(lower + (position - below) * (upper - lower))

    return quantile(level * last), quantile((1 - level) * last)


@dataclass(frozen=True)
class PairedDifference:
    """Difference of two configurations on the same replicates: the first minus the second.

    Attributes
    ----------
    n
        Number of pairs: replicates for which both have a value.
    difference, low, high
        Mean of the differences, in the metric's unit, and its confidence interval.
    relative, relative_low, relative_high
        The mean difference over the size of the second's mean on the same replicates, and its
        interval: 0.05 is 5 % more than the second. NaN where that mean is zero; the interval is also NaN
        where resampled means lie on both sides of zero.
    """

    n: int | IntArray
    difference: FloatOrArray
    low: FloatOrArray
    high: FloatOrArray
    relative: FloatOrArray
    relative_low: FloatOrArray
    relative_high: FloatOrArray


def interquartile_mean(samples: npt.ArrayLike) -> FloatOrArray:
    """Return the mean of the middle half of the values along the last axis.

    Formula: mean of the order statistics between the quartiles, those on the borders counted in part.
    Unit and direction are those of the sample. If the size is a multiple of four, it is the mean without the
    lowest and the highest quarter. It is robust like a median but uses half of the sample.

    Parameters
    ----------
    samples
        Shape (..., n); NaN marks a missing value.

    Returns
    -------
    float or numpy.ndarray
        Shape (...); NaN for a sample without values.

    Notes
    -----
    Source: Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice",
    NeurIPS 2021.
    """
    values = Samples.of(samples)
    result = np.full(len(values.rows), np.nan)
    for n, index in values.by_size(len(result)):
        rank = np.arange(n)
        # Where n is not a multiple of four, the two values on the borders of the middle half count in part.
        inside = np.minimum(rank + 1, 0.75 * n) - np.maximum(rank, 0.25 * n)
        weights = np.clip(inside, 0, None) / (n / 2)
        result[index] = np.sort(values.present(index, n), axis=1) @ weights
    return values.shaped(result)


def bootstrap_interval(
    samples: npt.ArrayLike, *, rng: np.random.Generator, confidence: float = 0.95, resamples: int = 10_000
) -> Interval:
    """Return a bootstrap confidence interval of the mean along the last axis.

    It is the expanded percentile interval (`_expanded_ends`). For others, and other statistics, see
    `scipy.stats.bootstrap`.

    Parameters
    ----------
    samples
        Shape (..., n): replicates along the last axis; NaN marks a missing one.
    rng
        The seed of the resampling is drawn from it, with one draw. The interval of a sample does not depend
        on the other samples of the array.
    confidence
        Nominal coverage, between 0 and 1.
    resamples
        Number of resamples.

    Returns
    -------
    Interval
        `low` and `high` of shape (...). NaN for fewer than two replicates; a single point if all replicates
        agree.

    Raises
    ------
    MetricError
        For an infinite sample or a confidence outside (0, 1).
    """
    check_confidence(confidence)
    values = Samples.of(samples)
    resampling = _Resampling.drawn_from(rng, resamples)
    low = np.full(len(values.rows), np.nan)
    high = low.copy()
    for n, index in values.by_size(resampling.rows_at_once()):
        if n < 2:
            continue
        ordered = np.sort(values.present(index, n), axis=1)
        drawn = resampling.means(ordered)
        low[index], high[index] = _expanded_ends(drawn, n=n, confidence=confidence)
        _close_on_constant(low, high, index, ordered)
    return Interval(values.shaped(low), values.shaped(high))


def paired_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 10_000,
    correlation: float = 0.0,
) -> PairedDifference:
    """Compare two configurations, or many with one, on the same replicates.

    Pairing removes what makes a replicate hard for all configurations, so the interval of the mean
    difference is far narrower than the intervals of the two means suggest; it is that of `mean_interval`.
    The interval of the relative difference reaches on each side as far as the wider of two: the expanded
    bootstrap, and Student's interval of the logarithm of the ratio of the means (where values are negative,
    that of `mean_interval` of the residuals around the ratio).

    Parameters
    ----------
    a, b
        Shapes (..., n), broadcast against each other: `b` may be one baseline for many
        configurations. A replicate counts where neither is NaN.
    rng, confidence, resamples
        As in `bootstrap_interval`.
    correlation
        Of neighbouring replicates (`neighbour_correlation`): intervals are wider by `widening`, the relative
        one in the logarithm of the ratio.

    Returns
    -------
    PairedDifference
        Fields of shape (...). Intervals are NaN for fewer than two pairs, everything is for none.
    """
    check_confidence(confidence)
    first, second = Samples.of_pairs(a, b)
    resampling = _Resampling.drawn_from(rng, resamples)
    mean, low, high, relative, relative_low, relative_high = np.full((6, len(first.rows)), np.nan)
    for n, index in first.by_size(resampling.rows_at_once()):
        base = second.present(index, n)
        differences = first.present(index, n) - base
        # Sorted, so that the order of the replicates has no effect on the last bit.
        order = np.argsort(differences, axis=1, kind="stable")
        differences, base = (np.take_along_axis(rows, order, axis=1) for rows in (differences, base))
        mean[index] = differences.mean(axis=1)
        relative[index] = _over(mean[index], base.mean(axis=1))
        if n < 2:
            continue
        below, above = reach(differences - mean[index, None], confidence)
        low[index], high[index] = mean[index] - below, mean[index] + above
        _close_on_constant(low, high, index, differences)
        drawn, drawn_base = (resampling.means(rows) for rows in (differences, base))
        bootstrap = _expanded_ends(_over(drawn, drawn_base), n=n, confidence=confidence)
        closed = _ratio_ends(differences, base, confidence)
        relative_low[index] = np.fmin(bootstrap[0], closed[0])
        relative_high[index] = np.fmax(bootstrap[1], closed[1])
        wider = widening(n, correlation, confidence)
        low[index] = mean[index] - wider * (mean[index] - low[index])
        high[index] = mean[index] + wider * (high[index] - mean[index])
        relative_low[index] = _moved_out(relative[index], relative_low[index], wider)
        relative_high[index] = _moved_out(relative[index], relative_high[index], wider)
        # A ratio whose denominator may be 0 has no finite interval.
        unsettled = drawn_base.min(axis=1) * drawn_base.max(axis=1) <= 0
        relative_low[index[unsettled]] = relative_high[index[unsettled]] = np.nan
    counts = first.counts.reshape(first.shape)
    columns = (mean, low, high, relative, relative_low, relative_high)
    return PairedDifference(counts if first.shape else int(counts), *map(first.shaped, columns))


#: How many times as bad as the worst replicate that was seen those may be that were not.
_UNSEEN = 2.0


def with_unseen_tail(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    direction: str,
    replicates: int | None = None,
    confidence: float = 0.95,
) -> FloatOrArray:
    """Return the relative difference if `a` also had all the bad replicates that a sample can miss.

    A kind of replicate that n replicates do not contain may be a share 1 − (1 − confidence)^(1/n) of all,
    about 3/n at 95 %. Here so many are twice as bad as the worst value of the pair's sample. A mean that is
    better even so does not hang on its worst replicates.

    Parameters
    ----------
    a, b
        Shapes (..., n), broadcast against each other; a replicate counts where neither is NaN.
    direction
        Whether smaller ("min") or larger ("max") values are better.
    replicates
        Number of replicates of the whole comparison, where these are a part of it; by default the pairs here.
    confidence
        Of the bound on the share.

    Returns
    -------
    float or numpy.ndarray
        Shape (...): as `PairedDifference.relative`; NaN without pairs or where the mean of `b` is zero.

    Notes
    -----
    Source of the share: Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249,
    1983. That bad replicates are at most twice as bad as the worst one seen is an assumption.
    """
    check_confidence(confidence)
    first, second = Samples.of_pairs(a, b)
    counts = first.counts
    worst_of = np.fmax if direction == "min" else np.fmin
    worst = worst_of.reduce(worst_of(first.rows, second.rows), axis=1, initial=np.nan)
    worst = worst * np.where((worst >= 0) == (direction == "min"), _UNSEEN, 1 / _UNSEEN)
    with np.errstate(invalid="ignore", divide="ignore"):
        missed = 1 - (1 - confidence) ** (1 / (counts if replicates is None else np.float64(replicates)))
        mean, base = (np.nansum(rows, axis=1) / counts for rows in (first.rows, second.rows))
    return first.shaped(_over((1 - missed) * mean + missed * worst - base, base))


def hold_together(
    estimate: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    counts: IntArray,
    shown: BoolArray,
    *,
    levels: tuple[float, float],
    ratio: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of intervals that hold for many comparisons together.

    Parameters
    ----------
    estimate, ends, counts
        Of each comparison: the difference, its interval by itself, and the number of pairs.
    shown
        Which differences the test of all comparisons together shows. Only their intervals exclude 0, and all
        of theirs do: an end that would reach across stays at 0.
    levels
        The error of the given intervals, and the one that each may have (`error_of_each`).
    ratio
        True for relative differences: ends move on the scale of the logarithm of the ratio.
    """
    factor = np.ones(len(estimate))
    for n in np.unique(counts[counts > 1]).tolist():
        alone, together = (t_quantile(n, 1 - level) for level in levels)
        factor[counts == n] = together / alone
    plain = [estimate + factor * (end - estimate) for end in ends]
    low, high = (_moved_out(estimate, end, factor) for end in ends) if ratio else plain
    low = np.where(shown, np.where(ends[0] > 0, np.maximum(low, 0.0), low), np.minimum(low, 0.0))
    high = np.where(shown, np.where(ends[1] < 0, np.minimum(high, -0.0), high), np.maximum(high, 0.0))
    return low, high


def with_reach(
    relative: FloatArray, low: FloatArray, high: FloatArray, reach: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of intervals of relative differences with a second cause, in quadrature.

    Parameters
    ----------
    relative, low, high
        Differences and their intervals.
    reach
        The reach of the other cause in the logarithm of the ratio. A hundred times as much is as good as
        anything.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        middle, ends = np.log1p(relative), np.log1p(np.stack([low, high]))
        sampled = np.where(ends == middle, 0.0, ends - middle)
        below, above = middle + np.hypot(sampled, np.minimum(reach, np.log(100))) * [[-1], [1]]
    # Without another cause the ends are these to the last bit: an end just below 0 excludes it. Where the
    # reach is unknown, they are.
    return np.where(reach == 0, low, np.expm1(below)), np.where(reach == 0, high, np.expm1(above))


def _moved_out(relative: FloatArray, end: FloatArray, factor: float | FloatArray) -> FloatArray:
    """Return the end of a relative difference's interval, farther from it; of ratios, in their logarithms."""
    if np.all(factor == 1):
        return end
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = (1 + relative) * np.exp(factor * np.log((1 + end) / (1 + relative))) - 1
    plain = relative + factor * (end - relative)
    return np.where((relative > -1) & (end > -1), ratio, plain)


def _over(values: FloatArray, base: FloatArray) -> FloatArray:
    """Divide by the size of the base; NaN where that is zero."""
    if (base > 0).all():
        return values / base
    size = np.abs(base)
    return np.divide(values, size, out=np.full_like(values, np.nan), where=size > 0)


def _ratio_ends(
    differences: FloatArray, base: FloatArray, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Return an interval of the relative difference in closed form.

    Where no value is negative and both means are positive it is Student's, of log(mean a / mean b); the
    logarithm's standard error is that of the residuals aᵢ / mean a − bᵢ / mean b (delta method). Elsewhere it
    is that of the residuals around the ratio (Cochran, "Sampling Techniques", 1977, section 6.3), as for
    `mean_interval`.
    """
    n = base.shape[1]
    mean = base.mean(axis=1)
    relative = _over(differences.mean(axis=1), mean)
    residuals = differences - (relative * np.sign(mean))[:, None] * base
    below, above = (_over(end, mean) for end in reach(residuals, confidence))
    low, high = relative - below, relative + above
    compared = differences + base
    positive = (np.minimum(base, compared).min(axis=1) >= 0) & (mean > 0) & (compared.mean(axis=1) > 0)
    b, a = base[positive], compared[positive]
    residuals = a / a.mean(axis=1, keepdims=True) - b / b.mean(axis=1, keepdims=True)
    half = t_quantile(n, confidence) * residuals.std(axis=1, ddof=1) / np.sqrt(n)
    low[positive] = (1 + relative[positive]) * np.exp(-half) - 1
    with np.errstate(over="ignore"):
        high[positive] = (1 + relative[positive]) * np.exp(half) - 1
    return low, high


def _close_on_constant(low: FloatArray, high: FloatArray, index: IntArray, rows: FloatArray) -> None:
    """Set the interval of replicates that all agree to their common value, without rounding."""
    constant = rows.min(axis=1) == rows.max(axis=1)
    low[index[constant]] = high[index[constant]] = rows[constant, 0]
