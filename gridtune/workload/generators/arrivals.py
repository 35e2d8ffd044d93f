"""Arrivals that follow the clock: cycles of the day and week, and arrivals fitted to a load.

A cycle is a time change. Arrivals are first laid out in *even time*, where nothing depends on the hour;
the cycle then stretches the quiet hours and compresses the busy ones, keeping each period's length. So
the load can be set by scaling even time, while the day keeps its 24 hours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError
from gridtune.types import FloatArray

__all__ = ["DAY", "Cycle", "fit_scale", "span_for_load"]

DAY = 86_400


class Cycle:
    """A periodic arrival rate.

    Parameters
    ----------
    weights
        Shape (k,): relative rate in each of k equal slots of the period; positive.
    slot
        Length of a slot in seconds.
    """

    def __init__(self, weights: npt.ArrayLike, slot: float) -> None:
        rates = np.asarray(weights, dtype=np.float64)
        rates = rates / rates.mean()
        self.period = slot * len(rates)
        self._clock = np.arange(len(rates) + 1) * slot
        self._even = np.concatenate([[0.0], np.cumsum(rates) * slot])
        self._even[-1] = self.period

    def clock_time(self, even_time: npt.ArrayLike) -> FloatArray:
        """Return the clock's seconds for seconds of even time; increasing, whole periods kept."""
        even = np.asarray(even_time, dtype=np.float64)
        periods = np.floor(even / self.period)
        within = np.interp(even - periods * self.period, self._even, self._clock)
        return np.asarray(periods * self.period + within)


def span_for_load(area: float, processors: int, load: float) -> float:
    """Return the seconds between first and last submission that give an offered load.

    The offered load is Σ processors · run time / (machine size · (last − first submission)).
    """
    return area / (processors * load)


def fit_scale(span: Callable[[float], float], target: float) -> float:
    """Return the factor at which the non-decreasing `span(factor)` reaches `target`, by bisection.

    Raises
    ------
    WorkloadError
        If it cannot: for a single job, or a load that these jobs reach only if they arrive within one
        another's sessions.
    """
    low, high = 0.0, 1.0
    while span(high) < target:
        high *= 2.0
        if high > 1e15:
            raise WorkloadError(
                "this load needs at least two jobs at different times", field="load", hint="raise jobs"
            )
    if span(low) > target:
        raise WorkloadError(
            f"there are too few jobs for this load: even if all sessions start at once they last "
            f"{span(low):.0f} s, but the load needs {target:.0f} s",
            field="load",
            hint="raise jobs or lower load",
        )
    # 200 halvings end at neighbouring floating-point numbers for any scale.
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if span(middle) < target:
            low = middle
        else:
            high = middle
    return high
