"""Step functions of time: processors in use, jobs waiting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridtune.types import IntArray

__all__ = ["StepFunction", "step_function"]


@dataclass(frozen=True)
class StepFunction:
    """A right-continuous step function of time.

    Attributes
    ----------
    times
        Shape (k,), int64 seconds, strictly increasing: where the value changes.
    values
        Shape (k,), int64: the value from `times[i]` until `times[i + 1]`; 0 before the first.
    """

    times: IntArray
    values: IntArray

    def integral(self, start: int, end: int) -> int:
        """Return the integral over [start, end), exact in integers."""
        if end <= start or len(self.times) == 0:
            return 0
        edges = np.concatenate([self.times, [max(end, int(self.times[-1]))]])
        widths = np.clip(np.diff(np.clip(edges, start, end)), 0, None)
        return int((widths * self.values).sum())

    def mean(self, start: int, end: int) -> float:
        """Return the time average over [start, end); NaN when that is empty."""
        return self.integral(start, end) / (end - start) if end > start else float("nan")

    def at(self, times: npt.ArrayLike) -> IntArray:
        """Return the values at the given times."""
        index = np.searchsorted(self.times, np.asarray(times, dtype=np.int64), side="right") - 1
        if len(self.times) == 0:
            return np.zeros_like(index)
        return np.where(index >= 0, self.values[np.maximum(index, 0)], 0)


def step_function(up: IntArray, down: IntArray, weight: IntArray) -> StepFunction:
    """Return the sum of `weight[i]` over the intervals [up[i], down[i])."""
    times = np.concatenate([up, down])
    changes = np.concatenate([weight, -weight])
    order = np.argsort(times, kind="stable")
    times, changes = times[order], changes[order]
    values = np.cumsum(changes, dtype=np.int64)
    last = np.flatnonzero(np.diff(times, append=times[-1:] + 1) != 0) if len(times) else np.array([], int)
    times, values = times[last], values[last]
    keep = np.diff(values, prepend=0) != 0
    return StepFunction(times[keep], values[keep])
