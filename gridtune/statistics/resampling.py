"""The sign-flip test of many paired comparisons at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridtune.statistics.dependence import innovations
from gridtune.statistics.intervals import Samples
from gridtune.types import FloatArray

#: Up to this many pairs all sign patterns are enumerated; 2^14 of them are one small matrix product.
_EXACT_PAIRS = 14


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


def error_of_each(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    correlation: npt.ArrayLike = 0.0,
    level: float = 0.05,
) -> float:
    """Return the error that each interval of many paired comparisons may have so that all keep a level.

    The signs of the residuals around each ratio of means are flipped, those of a replicate together. Under
    each pattern the largest Student's t of all comparisons is noted. The error of each interval is that of
    Student's interval which reaches as far as the quantile of these: comparisons that resemble each other
    share more of it. It is never less than the level over their number (Bonferroni).

    Parameters
    ----------
    a, b, rng, correlation
        As in `joint_paired_p_values`.
    level
        The chance that even one of the intervals misses its true value.

    Notes
    -----
    Source: Westfall and Young, "Resampling-Based Multiple Testing", Wiley 1993, section 2.5 (single-step
    maximum statistic). Comparisons with fewer pairs than others count by their number alone.
    """
    from scipy.special import stdtr  # noqa: PLC0415 (heavy, and only needed here)

    first, second = (np.atleast_2d(samples.rows) for samples in Samples.of_pairs(a, b))
    counts = (~np.isnan(first)).sum(axis=1)
    n, compared = int(counts.max(initial=0)), int((counts > 0).sum())
    seed = int(rng.integers(2**63))
    if n < 2 or compared < 2:
        return level
    whole = counts == n
    sums = [np.nansum(rows[whole], axis=1, keepdims=True) for rows in (first, second)]
    ratio = np.divide(sums[0], sums[1], out=np.ones_like(sums[0]), where=sums[1] != 0)
    residuals = innovations(first[whole] - ratio * second[whole], correlation)
    residuals = np.nan_to_num(residuals - np.nansum(residuals, axis=1, keepdims=True) / n, nan=0.0)
    largest = np.abs(residuals).max(axis=1, keepdims=True)
    varies = largest[:, 0] > 1e-9 * np.nanmax(np.abs(second[whole]), axis=1)
    if not varies.any():
        return level
    scaled = residuals[varies] / largest[varies]
    scaled /= np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    signs = _sign_patterns(scaled.shape[1], [seed, scaled.shape[1], 3])
    step = max(1, _FLIP_BLOCK // len(scaled))
    blocks = (signs[at : at + step] @ scaled.T for at in range(0, len(signs), step))
    greatest = np.concatenate([np.abs(block).max(axis=1) for block in blocks])
    reached = float(np.quantile(greatest, 1 - level, method="higher"))
    student = reached * np.sqrt((n - 1) / max(n - reached**2, 1e-12))
    error = 2 * float(stdtr(n - 1, -student)) * int(whole.sum()) / compared
    return min(level, max(level / compared, error))


#: Numbers in a block, which keeps it near 4 MiB, the size of a processor's cache.
_FLIP_BLOCK = 500_000


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
    maximum statistic); Fisher, "The Design of Experiments", 1935, section 21 (sign flips of pairs).
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
    # The largest statistic of the configurations from here on, under each pattern.
    from_here_down = np.zeros(len(signs))
    step = max(1, _FLIP_BLOCK // len(signs))
    for end in range(len(order), 0, -step):
        first = max(0, end - step)
        statistics = np.abs(scaled[first:end] @ signs.T)
        for place in range(end - 1, first - 1, -1):
            np.maximum(from_here_down, statistics[place - first], out=from_here_down)
            reached[place] = np.count_nonzero(from_here_down >= enough[place])
    adjusted[paired[order]] = np.maximum.accumulate(reached / len(signs))
    return adjusted
