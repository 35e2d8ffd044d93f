"""Many comparisons on the same replicates, tested together.

A correction that knows only the number of comparisons (Holm's) must reckon with the worst: that they have
nothing to do with each other. Configurations run on the same replicates have very much to do with each
other, and flipping a replicate's sign for all of them at once keeps that.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridtune.statistics.samples import FloatArray, read_samples

__all__ = ["joint_sign_flip_p_values"]

#: Up to this many replicates all sign patterns are enumerated, beyond that as many are drawn.
_EXACT_REPLICATES = 14
#: Numbers held at once, which keeps a block near 16 MiB.
_BLOCK = 2_000_000


def joint_sign_flip_p_values(differences: npt.ArrayLike, *, rng: np.random.Generator) -> FloatArray:
    """Return p-values of many configurations' paired differences, corrected for being many.

    The chance of even one false discovery among all of them is at most the level the p-values are held
    against. Each configuration's statistic is the size of its sum of differences over the root of their
    sum of squares. Under the hypothesis that nothing differs, a replicate's differences could as well all
    have the other sign; a configuration's p-value is the share of sign patterns under which the largest
    statistic, of it and those with less evidence, is at least its own. The smallest value n replicates
    can give is 2 / 2^n, however many configurations there are: six replicates can prove something.

    Parameters
    ----------
    differences
        Shape (configurations, replicates), each column the same replicate; NaN marks a missing pair.
    rng
        Where the random patterns' seed is drawn from (above 14 replicates); one draw.

    Returns
    -------
    numpy.ndarray
        Shape (configurations,); NaN for those without pairs.

    Notes
    -----
    Source: Westfall and Young, "Resampling-Based Multiple Testing", Wiley 1993, section 2.6 (step-down
    maximum statistic), with Fisher's sign flips as in `sign_flip_p_value`.
    """
    rows = read_samples(differences).rows
    seed = int(rng.integers(2**63))
    adjusted = np.full(len(rows), np.nan)
    known = np.flatnonzero(~np.isnan(rows).all(axis=1))
    if len(known) == 0:
        return adjusted
    values = np.nan_to_num(rows[known], nan=0.0)
    largest = np.abs(values).max(axis=1, keepdims=True)
    scaled = np.divide(values, largest, out=np.zeros_like(values), where=largest > 0)
    size = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    scaled = np.divide(scaled, size, out=np.zeros_like(scaled), where=size > 0)
    observed = np.abs(scaled.sum(axis=1))
    order = np.argsort(-observed, kind="stable")
    scaled, observed = scaled[order], observed[order]
    # Statistics that are equal on paper may differ in their last bits.
    enough = observed - 1e-9
    reached = np.zeros(len(order), dtype=np.int64)
    signs = _sign_patterns(rows.shape[1], seed)
    step = max(1, _BLOCK // len(order))
    for first in range(0, len(signs), step):
        statistics = np.abs(signs[first : first + step] @ scaled.T)
        from_here_down = np.maximum.accumulate(statistics[:, ::-1], axis=1)[:, ::-1]
        reached += (from_here_down >= enough).sum(axis=0)
    adjusted[known[order]] = np.maximum.accumulate(reached / len(signs))
    return adjusted


def _sign_patterns(n: int, seed: int) -> FloatArray:
    """Return patterns of +1 and −1, shape (patterns, n), that of all +1 among them."""
    patterns = 2 ** min(n, _EXACT_REPLICATES)
    if n <= _EXACT_REPLICATES:
        negative = (np.arange(patterns)[:, None] >> np.arange(n)) & 1
    else:
        negative = np.random.default_rng([seed, n, 2]).integers(2, size=(patterns, n))
        negative[0] = 0
    return (1.0 - 2.0 * negative).astype(np.float64)
