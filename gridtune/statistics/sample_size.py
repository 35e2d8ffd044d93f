"""Number of replicates that a paired comparison needs.

The power of Student's t test of paired differences stands in for that of a ranking's verdict. It assumes
that further replicates vary as those at hand do. Effects and deviations are on the scale of `PairedSpread`:
the logarithm of the ratio where all values are positive, so that replicates vary in proportion, otherwise
parts of the baseline's mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from gridtune.errors import MetricError
from gridtune.statistics.intervals import Samples
from gridtune.types import BoolArray, FloatArray, IntArray

#: More replicates than this are not counted.
MOST_REPLICATES = 1_000_000


@dataclass(frozen=True)
class PairedSpread:
    """Spread of a paired comparison between replicates.

    Attributes
    ----------
    pairs
        Shape (configurations,): number of pairs.
    effect
        The observed effect: log(mean a / mean b) where `logarithmic`, else (mean a − mean b) / |mean b|.
    deviation
        Standard deviation of one replicate on the same scale, more where they correlate; NaN for fewer than
        two pairs or a baseline's mean of zero.
    logarithmic
        Whether all values are positive.
    """

    pairs: IntArray
    effect: FloatArray
    deviation: FloatArray
    logarithmic: BoolArray

    @classmethod
    def of(cls, a: npt.ArrayLike, b: npt.ArrayLike, *, correlation: float = 0.0) -> Self:
        """Return how much paired comparisons vary between replicates.

        The deviation is that of the residuals aᵢ / mean a − bᵢ / mean b (delta method) where all values are
        positive, else of the residuals around the ratio over the baseline's mean, as in `paired_difference`.

        Parameters
        ----------
        a, b
            Shapes (configurations, replicates), broadcast against each other; a replicate counts where
            neither is NaN.
        correlation
            Of neighbouring replicates (`neighbour_correlation`): the deviation is the one with which as many
            independent replicates would say as little, √((1 + ρ) / (1 − ρ)) times their own.
        """
        first, second = (samples.rows for samples in Samples.of_pairs(a, b))
        present = ~np.isnan(first)
        pairs = present.sum(axis=1)
        logarithmic = ((first > 0) & (second > 0) | ~present).all(axis=1) & (pairs > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean_a, mean_b = (np.nansum(rows, axis=1) / pairs for rows in (first, second))
            relative = np.where(mean_b != 0, (mean_a - mean_b) / np.abs(mean_b), np.nan)
            effect = np.where(logarithmic, np.log(mean_a / mean_b), relative)
            by_ratio = first / mean_a[:, None] - second / mean_b[:, None]
            around = (first - (mean_a / mean_b)[:, None] * second) / np.abs(mean_b)[:, None]
            residuals = np.where(logarithmic[:, None], by_ratio, around)
            deviation = np.sqrt(np.nansum(residuals**2, axis=1) / (pairs - 1))
            deviation *= math.sqrt((1 + correlation) / (1 - correlation))
        settled = (pairs > 1) & np.isfinite(effect)
        return cls(pairs, effect, np.where(settled, deviation, np.nan), logarithmic)

    def on_scale(self, relative: float) -> FloatArray:
        """Return a relative difference (−0.05: 5 % less) on each configuration's scale."""
        if relative <= -1 and self.logarithmic.any():
            raise MetricError(
                f"{relative:+.0%} of a positive value leaves nothing", hint="give less than 100 %"
            )
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.logarithmic, np.log1p(relative), relative)


def fewest_replicates(level: float = 0.05) -> int:
    """Return the replicates below which the sign-flip test can never reach a level: 6 for 5 %."""
    # n pairs have 2^n sign patterns, two of which are the most extreme ones.
    return math.ceil(math.log2(2 / level))


def _t_test_power(
    n: npt.ArrayLike, effect: npt.ArrayLike, deviation: npt.ArrayLike, *, level: float = 0.05
) -> FloatArray:
    """Return the power of the two-sided paired t test, by the noncentral t distribution.

    Parameters
    ----------
    n
        Number of pairs, at least 2.
    effect, deviation
        True mean and standard deviation of the differences, in one unit.
    level
        Probability of finding a difference where there is none.

    Returns
    -------
    numpy.ndarray
        The broadcast shape, between 0 and 1. The chance of the wrong sign is left out.

    Notes
    -----
    Source: Cohen, "Statistical Power Analysis for the Behavioral Sciences", 2nd edition, 1988, chapter 2.
    """
    from scipy.special import nctdtr, ndtr, stdtrit  # noqa: PLC0415 (heavy, and only needed here)

    n, effect, deviation = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (n, effect, deviation))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.abs(effect) / deviation * np.sqrt(n)
        limit = stdtrit(n - 1, 1 - level / 2)
        exact = 1 - nctdtr(n - 1, np.minimum(shift, _LARGEST_SHIFT), limit)
        # The usual normal approximation, where the series of the exact one gives up.
        scale = np.sqrt(1 + limit**2 / (2 * (n - 1)))
        near = ndtr((shift - limit * (1 - 1 / (4 * (n - 1)))) / scale)
    return np.where(np.isfinite(exact) & (shift < _LARGEST_SHIFT), exact, near)


#: Above this, the power is 1 at any level that matters.
_LARGEST_SHIFT = 30.0


def replicates_needed(
    effect: npt.ArrayLike,
    deviation: npt.ArrayLike,
    *,
    level: float = 0.05,
    power: float = 0.8,
    comparisons: int = 1,
) -> FloatArray:
    """Return the number of pairs with which the paired t test finds an effect with the power asked for.

    Parameters
    ----------
    effect, deviation, level
        As in `_t_test_power`.
    power
        Probability of finding the effect.
    comparisons
        Number of comparisons that share the level: each is tested at level / comparisons.

    Returns
    -------
    numpy.ndarray
        Whole numbers, at least `fewest_replicates(level)`; infinity for an effect of 0 or above
        `MOST_REPLICATES`; NaN where the effect or the deviation is.
    """
    for name, value in (("level", level), ("power", power)):
        if not 0 < value < 1:
            raise MetricError(f"`0 < {name} < 1` must hold, but got {value}")
    effect, deviation = np.broadcast_arrays(
        np.asarray(effect, dtype=np.float64), np.asarray(deviation, dtype=np.float64)
    )
    low = np.full(effect.shape, fewest_replicates(level), dtype=np.int64)
    high = np.full(effect.shape, MOST_REPLICATES + 1, dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        enough = _t_test_power(middle, effect, deviation, level=level / comparisons) >= power
        # Without deviation or effect, any number of pairs is enough, or none is.
        high = np.where(enough | (deviation == 0) & (effect != 0), middle, high)
        low = np.where(high == middle, low, np.minimum(middle + 1, high))
    found = np.where(low > MOST_REPLICATES, np.inf, low.astype(np.float64))
    return np.where(np.isnan(effect) | np.isnan(deviation), np.nan, found)
