"""Is it more than chance? A test for paired differences, and corrections for making many of them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from gridtune.errors import MetricError
from gridtune.statistics.resampling import Resampling
from gridtune.statistics.samples import FloatArray, FloatOrArray, read_samples

__all__ = ["adjust_p_values", "flipped_as_far", "sign_flip_p_value"]

#: Up to this many pairs all sign flips are enumerated; 2^14 of them still are one small matrix product.
_EXACT_PAIRS = 14
#: Rows whose sign patterns are held at once.
_FLIP_ROWS = 500


def sign_flip_p_value(differences: npt.ArrayLike, *, rng: np.random.Generator) -> FloatOrArray:
    """Return the two-sided p-value of paired differences along the last axis being nothing but chance.

    If two configurations were exchangeable, each difference could as well have had the other sign. The
    p-value is the share of all sign patterns whose mean is at least as far from zero as the observed
    one: exact up to 14 pairs, beyond that from 16,384 random patterns, the observed one counted among
    them. The smallest value n pairs can give is 2 / 2^n: with five replicates nothing can reach 0.05.

    Parameters
    ----------
    differences
        Shape (..., n); NaN marks a missing pair.
    rng
        Where the random patterns' seed is drawn from; one draw.

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
        result[index] = flipped_as_far(values.known(index, n), resampling)
    return values.shaped(result)


def adjust_p_values(
    p_values: npt.ArrayLike, *, method: Literal["holm", "benjamini-hochberg"] = "holm"
) -> FloatArray:
    """Return p-values corrected for having made that many comparisons.

    Parameters
    ----------
    p_values
        Any shape; all of them are one family. NaN stays NaN and does not count.
    method
        "holm": bounds the chance of even one false discovery. "benjamini-hochberg": bounds the expected
        share of false ones among the discoveries; milder, for screening many configurations.

    Returns
    -------
    numpy.ndarray
        The shape of `p_values`; compare it with the level as it is.

    Notes
    -----
    Sources: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 1979; Benjamini and Hochberg, "Controlling the false discovery rate", JRSS B 57, 1995.
    """
    given = np.asarray(p_values, dtype=np.float64)
    if ((given < 0) | (given > 1)).any():
        raise MetricError("p-values must lie between 0 and 1")
    known = np.flatnonzero(~np.isnan(given.ravel()))
    count = len(known)
    order = known[np.argsort(given.ravel()[known], kind="stable")]
    ranked = given.ravel()[order]
    if method == "holm":
        stepped = np.maximum.accumulate(ranked * (count - np.arange(count)))
    elif method == "benjamini-hochberg":
        scaled = ranked * count / (np.arange(count) + 1)
        stepped = np.minimum.accumulate(scaled[::-1])[::-1]
    else:
        raise MetricError(f"no such method: {method!r}", hint="one of holm, benjamini-hochberg")
    adjusted = np.full(given.size, np.nan)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.reshape(given.shape)


def flipped_as_far(differences: FloatArray, resampling: Resampling) -> FloatArray:
    """Return for each row the share of sign patterns whose sum is as far from zero as the row's own."""
    n = differences.shape[1]
    patterns = 2 ** min(n, _EXACT_PAIRS)
    if n <= _EXACT_PAIRS:
        negative = (np.arange(patterns)[:, None] >> np.arange(n)) & 1
    else:
        negative = np.random.default_rng([resampling.seed, n, 1]).integers(2, size=(patterns, n))
        negative[0] = 0
    signs = 1.0 - 2.0 * negative
    # Sums that are equal on paper may differ in their last bits.
    slack = 1e-12 * np.abs(differences).sum(axis=1)
    observed = np.abs(differences.sum(axis=1)) - slack
    return (np.abs(differences @ signs.T) >= observed[:, None]).mean(axis=1)
