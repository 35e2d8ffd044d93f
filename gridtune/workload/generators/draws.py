"""What the generators share: random streams, truncated draws, Zipf, checks of ranges."""

from __future__ import annotations

import math
import zlib

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import FloatArray, IntArray

__all__ = ["check_range", "hyper_gamma", "stream", "zipf"]


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return the random generator of one purpose: independent of every other purpose's."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(purpose.encode())])))


def hyper_gamma(
    rng: np.random.Generator,
    first: FloatArray,
    shapes: tuple[float, float],
    scales: tuple[float, float],
    limit: float,
) -> FloatArray:
    """Return hyper-gamma values: values above `limit` are drawn again, with a new component.

    Parameters
    ----------
    rng
        Source of the random numbers.
    first
        Shape (n,): probability of the first component for each value.
    shapes, scales
        Of the two gamma components.
    limit
        The largest value.
    """
    values = np.full(len(first), np.inf)
    left = np.arange(len(first))
    while len(left):
        component = rng.random(len(left)) <= first[left]
        values[left] = rng.gamma(np.where(component, *shapes), np.where(component, *scales))
        left = left[values[left] > limit]
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
