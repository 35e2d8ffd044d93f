"""A significance test for paired differences, and corrections for many comparisons."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from gridtune.errors import MetricError
from gridtune.statistics.resampling import Resampling
from gridtune.statistics.samples import FloatOrArray, read_samples
from gridtune.types import FloatArray

__all__ = ["adjust_p_values", "flipped_as_far", "sign_flip_p_value", "sign_patterns"]

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
    values = read_samples(differences)
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


def sign_patterns(n: int, seed: list[int]) -> FloatArray:
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
    signs = sign_patterns(n, [resampling.seed, n, 1])
    # Sums that are equal in exact arithmetic may differ in their last bits.
    slack = 1e-12 * np.abs(differences).sum(axis=1)
    observed = np.abs(differences.sum(axis=1)) - slack
    return (np.abs(differences @ signs.T) >= observed[:, None]).mean(axis=1)
