"""Replicates that follow each other: adjacent windows of a log resemble each other.

A policy that does well in one window of a log does well in the next, too, where the load, the users and even
the queue are much the same. Differences of neighbouring windows are taken to be an autoregressive series of
the first order: at a distance of k windows they correlate by ρᵏ. Then n windows say no more about the mean
than fewer independent ones, and a test that flips their signs one by one finds differences where there are
none.

ρ is estimated once for a table, from all of its comparisons. Intervals are those of the effective number of
windows; the sign-flip test works with what is new in each window.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gridtune.statistics.intervals import Samples, t_quantile
from gridtune.types import FloatArray

#: With fewer windows nothing is estimated; no test of so few finds a difference either.
_FEWEST = 6
#: Standard errors that are added: too low an estimate does more harm than one that is too high.
_CAUTION = 0.1
#: The largest correlation that is allowed for.
LARGEST = 0.9


def neighbour_correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return how much the paired differences of neighbouring replicates correlate.

    The mean over all configurations of the first autocorrelation, corrected for its bias in short series, of
    the differences over the size of the pair, (a − b) / (|a| + |b|), or of the residuals
    aᵢ / mean a − bᵢ / mean b, whichever is larger; a tenth of its standard error is added.

    Parameters
    ----------
    a, b
        Shapes (configurations, n), each column a replicate, in order; broadcast against each other. NaN marks
        a missing one.

    Returns
    -------
    float
        Between 0 and 0.9; 0 with fewer than six replicates, or where nothing differs.

    Notes
    -----
    Source of the bias, −(1 + 4ρ) / n: Marriott and Pope, "Bias in the estimation of autocorrelations",
    Biometrika 41, 1954.
    """
    first, second = (np.atleast_2d(samples.rows) for samples in Samples.of_pairs(a, b))
    differences = first - second
    size = np.abs(first) + np.abs(second)
    estimates = [series_correlation(np.divide(differences, size, out=differences.copy(), where=size > 0))]
    counts = np.maximum((~np.isnan(first)).sum(axis=1, keepdims=True), 1)
    means = [np.abs(np.nansum(rows, axis=1, keepdims=True)) / counts for rows in (first, second)]
    if all((mean > 0).all() for mean in means):
        estimates.append(series_correlation(first / means[0] - second / means[1]))
    return max(estimates)


def series_correlation(rows: FloatArray) -> float:
    """Return the correlation of neighbours in series of differences, as `neighbour_correlation` does.

    Parameters
    ----------
    rows
        Shape (series, n), in order; NaN marks a missing one. Those that do not vary are left out.
    """
    n = int((~np.isnan(rows)).any(axis=0).sum())
    if n < _FEWEST:
        return 0.0
    counts = (~np.isnan(rows)).sum(axis=1, keepdims=True)
    centred = np.nan_to_num(rows - np.nansum(rows, axis=1, keepdims=True) / np.maximum(counts, 1), nan=0.0)
    largest = np.abs(centred).max(axis=1, keepdims=True)
    varies = largest[:, 0] > 1e-12 * np.nanmax(np.abs(rows), initial=1e-300)
    if not varies.any():
        return 0.0
    centred = centred[varies] / largest[varies]
    first = ((centred[:, 1:] * centred[:, :-1]).sum(axis=1) / (centred**2).sum(axis=1)).mean()
    estimate = min((n * first + 1) / (n - 4), LARGEST)
    error = np.sqrt(max(0.0, 1 - estimate**2) / n)
    return float(np.clip(estimate + _CAUTION * error, 0.0, LARGEST))


def effective_number(n: int, correlation: float) -> float:
    """Return how many independent replicates say as much about a mean as n that follow each other."""
    lags = np.arange(1, n)
    return float(n / (1 + 2 * ((1 - lags / n) * correlation**lags).sum()))


def widening(n: int, correlation: float, confidence: float) -> float:
    """Return by how much the interval of a mean of n correlated replicates is wider than of independent ones.

    The standard deviation of correlated values is too small by (1 − 1 / m) / (1 − 1 / n), and Student's
    quantile is that of m values, m being the effective number (Zwiers and von Storch, "Taking serial
    correlation into account in tests of the mean", Journal of Climate 8, 1995).
    """
    if correlation <= 0 or n < 2:
        return 1.0
    effective = effective_number(n, correlation)
    quantiles = t_quantile(max(effective, 2.0), confidence) / t_quantile(n, confidence)
    errors = math.sqrt((n - 1) / max(effective - 1, 0.5))
    return float(errors * quantiles)


def innovations(differences: FloatArray, correlation: npt.ArrayLike) -> FloatArray:
    """Return what is new in each of a series' differences, so that the sum estimates their mean.

    Under the hypothesis that nothing differs they are independent, and each could as well have the other
    sign. Independent differences stay as they are.

    Parameters
    ----------
    differences
        Shape (rows, n), in order; NaN marks a missing one.
    correlation
        Of each difference with the one before, shape (n,) or a number for all: 0 where a series begins.

    Returns
    -------
    numpy.ndarray
        Shape (rows, n): (dⱼ − φ dᵢ) / (1 + φ), where i is the last one before j that is there, and φ their
        correlation. The weights are those of generalised least squares.
    """
    links = np.broadcast_to(np.asarray(correlation, dtype=np.float64), differences.shape[1:])
    if not links.any():
        return differences
    result = differences.copy()
    last, link = np.zeros((2, len(differences)))
    for place in range(differences.shape[1]):
        link = link * links[place]
        present = ~np.isnan(differences[:, place])
        new = (differences[:, place] - link * last) / (1 + link)
        result[present, place] = new[present]
        last = np.where(present, differences[:, place], last)
        link = np.where(present, 1.0, link)
    return result
