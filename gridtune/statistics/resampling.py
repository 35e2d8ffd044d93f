"""Bootstrap distributions of many samples at once.

Mean, median and interquartile mean are each a weighted sum of the sorted sample. A resample with
replacement is a row of weights over the sorted originals, and the resamples of a thousand configurations are
one matrix product. All samples of the same size share their resampling indices: as with the random numbers of
simulations, what is common cancels in a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from gridtune.errors import MetricError
from gridtune.statistics.dependence import innovations
from gridtune.statistics.intervals import FloatOrArray, Samples
from gridtune.types import FloatArray

__all__ = [
    "Method",
    "Resampling",
    "Statistic",
    "adjust_p_values",
    "bootstrap_ends",
    "flipped_as_far",
    "joint_paired_p_values",
    "joint_sign_flip_p_values",
    "sign_flip_p_value",
    "statistic_weights",
]

Statistic = Literal["mean", "median", "iqm"]
Method = Literal["expanded", "percentile", "bca"]

#: Numbers in a block, which keeps it near 64 MiB.
_BLOCK = 8_000_000


def statistic_weights(statistic: Statistic, n: int) -> FloatArray:
    """Return the weights, shape (n,), with which a statistic sums a sorted sample of n values."""
    if statistic == "mean":
        return np.full(n, 1.0 / n)
    rank = np.arange(n)
    if statistic == "iqm":
        # Where n is not a multiple of four, the two values on the borders of the middle half count in part.
        inside = np.minimum(rank + 1, 0.75 * n) - np.maximum(rank, 0.25 * n)
        return np.clip(inside, 0, None) / (n / 2)
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
        n = len(order_weights)
        rng = np.random.default_rng([self.seed, n])
        step = max(1, _BLOCK // (4 * n))
        blocks = []
        for first in range(0, self.resamples, step):
            count = min(step, self.resamples - first)
            # Sorted positions of a sorted sample: the k-th smallest drawn gets the k-th weight.
            drawn = np.sort(rng.integers(n, size=(count, n)), axis=1)
            cells = drawn + np.arange(count)[:, None] * n
            spread = np.broadcast_to(order_weights, (count, n)).ravel()
            weights = np.bincount(cells.ravel(), weights=spread, minlength=count * n).reshape(count, n)
            blocks.append(columns @ weights.T)
        return np.concatenate(blocks, axis=1)

    def rows_at_once(self) -> int:
        """Return how many samples to resample at a time."""
        return max(1, _BLOCK // self.resamples)


def bootstrap_ends(
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
        Gives the statistic with each value left out in turn, shape (rows, n); called for ``bca`` only.
    n
        Size of the samples, at least 2.
    confidence, method
        As in `gridtune.statistics.inference.bootstrap_interval`.
    """
    from scipy.special import ndtr, ndtri, stdtrit  # noqa: PLC0415 (heavy, and only needed here)

    tail = (1 - confidence) / 2
    if method == "percentile":
        levels = [tail, 1 - tail]
    elif method == "expanded":
        low = float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, tail)))
        levels = [low, 1 - low]
    elif method == "bca":
        bias, acceleration = _corrections(distribution, estimate, left_out())
        ends = [bias + ndtri(tail), bias + ndtri(1 - tail)]
        levels = [ndtr(bias + end / (1 - acceleration * end)) for end in ends]
    else:
        raise MetricError(f"no such method: {method!r}", hint=f"one of {', '.join(get_args(Method))}")
    ordered = np.sort(distribution, axis=1)
    last = ordered.shape[1] - 1
    row = np.arange(len(ordered))

    def quantile(level: float | FloatArray) -> FloatArray:
        position = level * last
        below = np.clip(np.floor(position).astype(np.int64), 0, last)
        lower, upper = ordered[row, below], ordered[row, np.minimum(below + 1, last)]
        return np.asarray(lower + (position - below) * (upper - lower))

    return quantile(levels[0]), quantile(levels[1])


def _corrections(
    distribution: FloatArray, estimate: FloatArray, left_out: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the correction of each row for bias, and its acceleration."""
    from scipy.special import ndtri  # noqa: PLC0415 (heavy, and only needed here)

    resamples = distribution.shape[1]
    # Resamples that equal the sample in exact arithmetic may differ from it in their last bits.
    slack = 1e-12 * np.abs(distribution).max(axis=1, keepdims=True)
    beyond = distribution - estimate[:, None]
    below = (beyond < -slack).sum(axis=1)
    equal = (np.abs(beyond) <= slack).sum(axis=1)
    # A share of 0 or 1 would make the correction infinite; one resample less than all is the most that this
    # many resamples can show.
    share = np.clip((below + equal / 2) / resamples, 1 / (resamples + 1), resamples / (resamples + 1))
    influence = left_out.mean(axis=1, keepdims=True) - left_out
    spread = (influence**2).sum(axis=1) ** 1.5
    with np.errstate(invalid="ignore", divide="ignore"):
        return ndtri(share), np.where(spread > 0, (influence**3).sum(axis=1) / (6 * spread), 0.0)


#: Up to this many pairs all sign patterns are enumerated; 2^14 of them are one small matrix product.
_EXACT_PAIRS = 14
#: Rows that are tested at a time.
_FLIP_ROWS = 500


def sign_flip_p_value(differences: npt.ArrayLike, *, rng: np.random.Generator) -> FloatOrArray:
    """Return the two-sided p-value of paired differences along the last axis, by the sign-flip test.

    If two configurations were exchangeable, each difference could as well have the other sign. The
    p-value is the share of all sign patterns whose mean is at least as far from zero as the observed
    one: exact up to 14 pairs, beyond that from 16,384 random patterns, the observed one counted among
    them. The smallest value n pairs can give is 2 / 2^n: with five replicates nothing can reach 0.05.

    Parameters
    ----------
    differences
        Shape (..., n); NaN marks a missing pair.
    rng
        The seed of the random patterns is drawn from it, with one draw.

    Returns
    -------
    float or numpy.ndarray
        Shape (...); NaN without pairs.

    Notes
    -----
    Source: Fisher, "The Design of Experiments", 1935, section 21 (the randomisation test for pairs).
    """
    values = Samples.of(differences)
    resampling = Resampling.drawn_from(rng, 1)
    result = np.full(len(values.rows), np.nan)
    for n, index in values.by_size(_FLIP_ROWS):
        result[index] = flipped_as_far(values.present(index, n), resampling)
    return values.shaped(result)


def adjust_p_values(
    p_values: npt.ArrayLike, *, method: Literal["holm", "benjamini-hochberg"] = "holm"
) -> FloatArray:
    """Return p-values corrected for the number of comparisons.

    Parameters
    ----------
    p_values
        Any shape; all of them are one family. NaN stays NaN and is not counted.
    method
        "holm": bounds the chance of even one false discovery. "benjamini-hochberg": bounds the expected
        share of false ones among the discoveries; milder, for screening many configurations.

    Returns
    -------
    numpy.ndarray
        The shape of `p_values`; to be compared with the level directly.

    Notes
    -----
    Sources: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 1979; Benjamini and Hochberg, "Controlling the false discovery rate", JRSS B 57, 1995.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if ((values < 0) | (values > 1)).any():
        raise MetricError("p-values must lie between 0 and 1")
    flat = values.ravel()
    count = int((~np.isnan(flat)).sum())
    # NaN sorts last.
    order = np.argsort(flat, kind="stable")[:count]
    ranked = flat[order]
    if method == "holm":
        stepped = np.maximum.accumulate(ranked * (count - np.arange(count)))
    elif method == "benjamini-hochberg":
        scaled = ranked * count / (np.arange(count) + 1)
        stepped = np.minimum.accumulate(scaled[::-1])[::-1]
    else:
        raise MetricError(f"no such method: {method!r}", hint="one of holm, benjamini-hochberg")
    adjusted = np.full(values.size, np.nan)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.reshape(values.shape)


def _sign_patterns(n: int, seed: list[int]) -> FloatArray:
    """Return patterns of +1 and −1, shape (patterns, n): the pattern of all +1 and others.

    Up to 14 pairs these are all patterns there are, otherwise 16,384 random ones.
    """
    patterns = 2 ** min(n, _EXACT_PAIRS)
    if n <= _EXACT_PAIRS:
        negative = (np.arange(patterns)[:, None] >> np.arange(n)) & 1
    else:
        negative = np.random.default_rng(seed).integers(2, size=(patterns, n))
        negative[0] = 0
    return (1.0 - 2.0 * negative).astype(np.float64)


def flipped_as_far(differences: FloatArray, resampling: Resampling) -> FloatArray:
    """Return for each row the share of sign patterns whose sum is at least as far from 0 as the row's own."""
    n = differences.shape[1]
    signs = _sign_patterns(n, [resampling.seed, n, 1])
    # Sums that are equal in exact arithmetic may differ in their last bits.
    slack = 1e-12 * np.abs(differences).sum(axis=1)
    observed = np.abs(differences.sum(axis=1)) - slack
    return (np.abs(differences @ signs.T) >= observed[:, None]).mean(axis=1)


#: Numbers in a block, which keeps it near 16 MiB.
_FLIP_BLOCK = 2_000_000


def joint_paired_p_values(
    a: npt.ArrayLike, b: npt.ArrayLike, *, rng: np.random.Generator, correlation: npt.ArrayLike = 0.0
) -> FloatArray:
    """Return p-values of many paired comparisons, corrected for their number, also for skewed values.

    A configuration that is 18 times worse on every replicate differs by 5 on an easy one and by 5,000 on a
    hard one, and the test of such differences hardly sees more than the hard one. So each configuration is
    tested twice, by its differences a − b and by the same over the size of the pair,
    (a − b) / (|a| + |b|), which for positive values depends on their ratio alone. All 2 × configurations
    tests are one family of `joint_sign_flip_p_values`; a configuration's p-value is the smaller of its two.
    Both change their sign where a and b change places, so the chance of even one false discovery stays at
    most the level.

    Parameters
    ----------
    a, b
        Shapes (configurations, replicates), each column the same replicate, broadcast against each other; a
        replicate counts where neither is NaN.
    rng
        As in `joint_sign_flip_p_values`.
    correlation
        Of each replicate's differences with those of the one before, shape (replicates,) or a number for
        all; 0 where they are independent. The signs flipped are those of the `innovations`.

    Returns
    -------
    numpy.ndarray
        Shape (configurations,); NaN for those without pairs. Where the relative differences point the other
        way than the mean difference, the test of the differences alone counts.
    """
    first, second = (np.atleast_2d(samples.rows) for samples in Samples.of_pairs(a, b))
    differences = first - second
    size = np.abs(first) + np.abs(second)
    relative = np.divide(differences, size, out=differences.copy(), where=size > 0)
    family = innovations(np.vstack([differences, relative]), correlation)
    p_values = joint_sign_flip_p_values(family, rng=rng)
    plain, scaled = p_values[: len(first)], p_values[len(first) :]
    agree = np.nansum(differences, axis=1) * np.nansum(relative, axis=1) > 0
    return np.where(agree, np.fmin(plain, scaled), plain)


def joint_sign_flip_p_values(differences: npt.ArrayLike, *, rng: np.random.Generator) -> FloatArray:
    """Return p-values of the paired differences of many configurations, corrected for their number.

    The chance of even one false discovery among all of them is at most the level that the p-values are
    compared with. Each configuration's statistic is the size of its sum of differences over the root of their
    sum of squares. Under the hypothesis that nothing differs, all of a replicate's differences could as well
    have the other sign; a configuration's p-value is the share of sign patterns under which the largest
    statistic, of it and those with less evidence, is at least its own. The smallest value n replicates
    can give is 2 / 2^n, however many configurations there are: six replicates can be significant at 0.05.

    Parameters
    ----------
    differences
        Shape (configurations, replicates), each column the same replicate; NaN marks a missing pair.
    rng
        The seed of the random patterns (above 14 replicates) is drawn from it, with one draw.

    Returns
    -------
    numpy.ndarray
        Shape (configurations,); NaN for those without pairs.

    Notes
    -----
    Source: Westfall and Young, "Resampling-Based Multiple Testing", Wiley 1993, section 2.6 (step-down
    maximum statistic), with Fisher's sign flips as in `sign_flip_p_value`.
    """
    rows = Samples.of(differences).rows
    seed = int(rng.integers(2**63))
    adjusted = np.full(len(rows), np.nan)
    paired = np.flatnonzero(~np.isnan(rows).all(axis=1))
    if len(paired) == 0:
        return adjusted
    values = np.nan_to_num(rows[paired], nan=0.0)
    largest = np.abs(values).max(axis=1, keepdims=True)
    scaled = np.divide(values, largest, out=np.zeros_like(values), where=largest > 0)
    size = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    scaled = np.divide(scaled, size, out=np.zeros_like(scaled), where=size > 0)
    observed = np.abs(scaled.sum(axis=1))
    order = np.argsort(-observed, kind="stable")
    scaled, observed = scaled[order], observed[order]
    # Statistics that are equal in exact arithmetic may differ in their last bits.
    enough = observed - 1e-9
    reached = np.zeros(len(order), dtype=np.int64)
    signs = _sign_patterns(rows.shape[1], [seed, rows.shape[1], 2])
    step = max(1, _FLIP_BLOCK // len(order))
    for first in range(0, len(signs), step):
        statistics = np.abs(signs[first : first + step] @ scaled.T)
        from_here_down = np.maximum.accumulate(statistics[:, ::-1], axis=1)[:, ::-1]
        reached += (from_here_down >= enough).sum(axis=0)
    adjusted[paired[order]] = np.maximum.accumulate(reached / len(signs))
    return adjusted
