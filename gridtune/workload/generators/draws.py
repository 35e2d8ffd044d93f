"""Draws that generators share: random streams, Zipf numbers, arrivals over the day, users' estimates.

A cycle of arrivals is a time change. Arrivals are first laid out in *even time*, where nothing depends on the
hour; the cycle then stretches the quiet hours and compresses the busy ones, keeping each period's length. So
the load can be set by scaling even time, while the day keeps its 24 hours.

Real estimates are modal: about 89 % of the jobs use about 20 round values, whose popularity falls off
exponentially with rank, and the longest allowed time is always popular [1]_. Estimates drawn as a
multiple of the run time would tell a scheduler far more than users do [2]_; here an estimate tells it
only that the job fits.

References
----------
.. [1] D. Tsafrir, Y. Etsion, D. G. Feitelson, "Modeling User Runtime Estimates", JSSPP 2005.
.. [2] D. Tsafrir, "Using Inaccurate Estimates Accurately", JSSPP 2010.
.. [3] A. W. Mu'alem, D. G. Feitelson, "Utilization, Predictability, Workloads, and User Runtime
   Estimates in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError
from gridtune.types import FloatArray, IntArray


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return the random generator of one purpose: independent of every other purpose's."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(purpose.encode())])))


def zipf(rng: np.random.Generator, count: int, kinds: int, exponent: float) -> IntArray:
    """Return `count` numbers of 1..kinds, k with probability proportional to k^−exponent."""
    weights = np.arange(1, kinds + 1, dtype=np.float64) ** -exponent
    edges = np.cumsum(weights)
    drawn = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
    return (np.minimum(drawn, kinds - 1) + 1).astype(np.int64)


def check_range(
    field: str,
    value: float | None,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: float = -math.inf,
) -> None:
    """Refuse a parameter outside [low, high], not greater than `above`, or not a finite number; not None.

    Raises
    ------
    WorkloadError
        Naming the parameter, its value and the bound it breaks.
    """
    if value is None:
        return
    if not math.isfinite(value):
        raise WorkloadError(f"must be a finite number, got {value}", field=field)
    if value < low:
        raise WorkloadError(f"must be at least {low:g}, got {value:g}", field=field)
    if value > high:
        raise WorkloadError(f"must be at most {high:g}, got {value:g}", field=field)
    if value <= above:
        raise WorkloadError(f"must be greater than {above:g}, got {value:g}", field=field)


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
            message = "this load needs at least two jobs at different times"
            raise WorkloadError(message, field="load", hint="raise jobs")
    if span(low) > target:
        message = "there are too few jobs for this load: even if all sessions start at once they last "
        message += f"{span(low):.0f} s, but the load needs {target:.0f} s"
        raise WorkloadError(message, field="load", hint="raise jobs or lower load")
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


#: The names that `draw_estimates` knows.
ESTIMATE_MODELS = ("modal", "factor", "exact")

#: Round times that people choose, most popular first (our order; the maximum comes before them all), minutes.
_ROUND_MINUTES = (60, 15, 120, 30, 720, 240, 10, 1440, 5, 360, 180, 20, 600, 480, 1080, 300, 2160, 45, 900)


def _modal_estimates(rng: np.random.Generator, run_time: IntArray, maximum: int) -> IntArray:
    """Return modal estimates that are never shorter than the run times.

    Popularity of rank x = 2..20 is 14.0491 exp(−0.177531 x) + 0.462513 per cent and that of rank 1, here
    the maximum, what is left of 89 % ([1]_ in the module's references); the last 11 %, which in the logs
    spread over hundreds of values, are shared out in proportion. Values of that histogram go to the
    jobs at random among those that fit, shortest values first; where too few fit, the next longer
    value takes the rest.
    """
    if len(run_time) and int(run_time.max()) > maximum:
        raise WorkloadError(
            f"the longest run time is {int(run_time.max())} s, above the longest estimate {maximum} s"
        )
    times = np.array([maximum, *(60 * minutes for minutes in _ROUND_MINUTES if 60 * minutes < maximum)])
    rest = 14.0491 * np.exp(-0.177531 * np.arange(2, len(_ROUND_MINUTES) + 2)) + 0.462513
    shares = np.concatenate([[89.0 - rest.sum()], rest])[: len(times)]
    ascending = np.argsort(times)
    values, shares = times[ascending].astype(np.int64), (shares / shares.sum())[ascending]
    # Whole numbers that add up to the number of jobs, each within 1 of its share of it.
    edges = np.rint(np.cumsum(shares) * len(run_time)).astype(np.int64)
    wanted = np.diff(edges, prepend=0)
    order = np.argsort(run_time, kind="stable")
    fitting = np.searchsorted(run_time[order], values, side="right")
    estimates = np.full(len(run_time), maximum, dtype=np.int64)
    free = np.empty(0, dtype=np.int64)
    start, carried = 0, 0
    for value, until, count in zip(values[:-1], fitting[:-1], wanted[:-1], strict=True):
        free = np.concatenate([free, order[start:until]])
        start = int(until)
        take = min(int(count) + carried, len(free))
        carried += int(count) - take
        rng.shuffle(free)
        estimates[free[:take]] = value
        free = free[take:]
    return estimates


def draw_estimates(
    model: str, rng: np.random.Generator, run_time: IntArray, *, maximum: int, factor: float = 0.0
) -> IntArray:
    """Return requested times by the named model.

    `modal`
        Round values with the popularity that they have in logs [1]_, none shorter than the run time.
    `factor`
        Run time times a number uniform in [1, factor + 1], rounded up: the f-model of [3]_ (module's
        references), here because much published work uses it.
    `exact`
        The run time itself.

    Parameters
    ----------
    model
        One of `ESTIMATE_MODELS`.
    rng
        Source of the random numbers.
    run_time
        Shape (n,), seconds.
    maximum
        The longest estimate of `modal`, seconds; no run time may exceed it.
    factor
        The f of the f-model, at least 0.
    """
    if model == "modal":
        return _modal_estimates(rng, run_time, maximum)
    if model == "exact":
        return run_time.copy()
    if model == "factor":
        stretch = 1.0 + factor * rng.random(len(run_time))
        return np.asarray(np.ceil(run_time * stretch), dtype=np.int64)
    hint = f"one of {', '.join(ESTIMATE_MODELS)}"
    raise WorkloadError(f"no model of estimates is named {model!r}", field="estimates", hint=hint)
