"""Replicates of many configurations, some of them missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.errors import MetricError
from gridtune.types import FloatArray, IntArray

__all__ = ["FloatOrArray", "Interval", "Samples", "read_pairs", "read_samples"]

#: A number for one sample, an array of the leading axes' shape for many.
FloatOrArray = float | FloatArray


class Interval(NamedTuple):
    """A confidence interval."""

    low: FloatOrArray
    high: FloatOrArray


@dataclass(frozen=True)
class Samples:
    """Samples as rows: NaN where a value is missing.

    Attributes
    ----------
    rows
        Shape (configurations, n).
    shape
        Shape of the leading axes.
    """

    rows: FloatArray
    shape: tuple[int, ...]

    @property
    def counts(self) -> IntArray:
        """Number of values of each row, missing ones left out."""
        return (~np.isnan(self.rows)).sum(axis=1)

    def by_size(self, at_once: int) -> Iterator[tuple[int, IntArray]]:
        """Yield a number of values, and up to `at_once` rows that have so many."""
        counts = self.counts
        for n in np.unique(counts[counts > 0]).tolist():
            index = np.flatnonzero(counts == n)
            for first in range(0, len(index), at_once):
                yield n, index[first : first + at_once]

    def present(self, index: IntArray, n: int) -> FloatArray:
        """Return the values, shape (len(index), n), of rows that have n of them."""
        rows = self.rows[index]
        return rows[~np.isnan(rows)].reshape(len(index), n)

    def shaped(self, values: FloatArray) -> FloatOrArray:
        """Return one value for each row in the shape of the leading axes; a float for a single sample."""
        return values.reshape(self.shape) if self.shape else float(values[0])


def read_samples(samples: npt.ArrayLike) -> Samples:
    """Read an array with replicates along its last axis; infinite values are refused."""
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim == 0:
        raise MetricError("a sample is an array, but a single number was given", hint="wrap it in a list")
    if np.isinf(values).any():
        raise MetricError("a sample holds an infinite value", hint="NaN marks a missing one")
    leading = values.shape[:-1]
    return Samples(values.reshape(math.prod(leading), values.shape[-1]), leading)


def read_pairs(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Samples, Samples]:
    """Broadcast two arrays against each other, with NaN in both where either has it."""
    try:
        first, second = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    except ValueError as error:
        raise MetricError(f"these samples do not pair: shapes {np.shape(a)} and {np.shape(b)}") from error
    missing = np.isnan(first) | np.isnan(second)
    return read_samples(np.where(missing, np.nan, first)), read_samples(np.where(missing, np.nan, second))
