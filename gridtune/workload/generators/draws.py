"""What the generators share: random streams, truncated draws, Zipf, checks of ranges."""

from __future__ import annotations

import math
import zlib

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError

__all__ = ["check_range", "stream", "truncated_gamma", "zipf"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return the random generator of one purpose: independent of every other purpose's."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(purpose.encode())])))


def truncated_gamma(
    rng: np.random.Generator, shape: FloatArray, scale: FloatArray, limit: float
) -> FloatArray:
    """Return one gamma value per pair of shape and scale, drawn anew while above `limit`."""
    values = rng.gamma(shape, scale)
    over = np.flatnonzero(values > limit)
    while len(over):
        values[over] = rng.gamma(shape[over], scale[over])
        over = over[values[over] > limit]
    return values


def zipf(rng: np.random.Generator, count: int, kinds: int, exponent: float) -> IntArray:
    """Return `count` numbers of 1..kinds, k with probability proportional to k^−exponent."""
    weights = np.arange(1, kinds + 1, dtype=np.float64) ** -exponent
    edges = np.cumsum(weights)
    drawn = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
    return (np.minimum(drawn, kinds - 1) + 1).astype(np.int64)


def check_range(
    field: str,
    value: float,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: float = -math.inf,
) -> None:
    """Refuse a parameter outside [low, high], not greater than `above`, or not a finite number.

    Raises
    ------
    WorkloadError
        Naming the parameter, its value and the bound it breaks.
    """
    if not math.isfinite(value):
        raise WorkloadError(f"must be a finite number, got {value}", field=field)
    if value < low:
        raise WorkloadError(f"must be at least {low:g}, got {value:g}", field=field)
    if value > high:
        raise WorkloadError(f"must be at most {high:g}, got {value:g}", field=field)
    if value <= above:
        raise WorkloadError(f"must be greater than {above:g}, got {value:g}", field=field)
