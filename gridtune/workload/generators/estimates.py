"""Requested times: users' estimates of their jobs' run times.

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

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import FloatArray, IntArray

__all__ = ["ESTIMATE_MODELS", "draw_estimates", "modal_estimates"]


#: The names that `draw_estimates` knows.
ESTIMATE_MODELS = ("modal", "factor", "exact")

#: Round times that people choose, most popular first (our order; the maximum comes before them all), minutes.
_ROUND_MINUTES = (60, 15, 120, 30, 720, 240, 10, 1440, 5, 360, 180, 20, 600, 480, 1080, 300, 2160, 45, 900)


def modal_estimates(rng: np.random.Generator, run_time: IntArray, maximum: int) -> IntArray:
    """Return modal estimates that are never shorter than the run times.

    Popularity of rank x = 2..20 is 14.0491 exp(−0.177531 x) + 0.462513 per cent and that of rank 1, here
    the maximum, what is left of 89 % ([1]_ in the module's references); the last 11 %, which in the logs
    spread over hundreds of values, are shared out in proportion. Values of that histogram go to the
    jobs at random among those that fit, shortest values first; where too few fit, the next longer
    value takes the rest.

    Parameters
    ----------
    rng
        Source of the random numbers.
    run_time
        Shape (n,), seconds.
    maximum
        The longest allowed estimate, seconds; no run time may exceed it.

    Returns
    -------
    ndarray
        Shape (n,), seconds.
    """
    if len(run_time) and int(run_time.max()) > maximum:
        raise WorkloadError(
            f"the longest run time is {int(run_time.max())} s, above the longest estimate {maximum} s"
        )
    values, shares = _histogram(maximum)
    wanted = _apportion(shares, len(run_time))
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


def _histogram(maximum: int) -> tuple[IntArray, FloatArray]:
    """Return the estimates' values, ascending, and their shares, which add up to 1."""
    times = [maximum, *(60 * minutes for minutes in _ROUND_MINUTES if 60 * minutes < maximum)]
    rank = np.arange(2, len(_ROUND_MINUTES) + 2)
    rest = 14.0491 * np.exp(-0.177531 * rank) + 0.462513
    shares = np.concatenate([[89.0 - rest.sum()], rest])[: len(times)]
    ascending = np.argsort(times)
    return np.asarray(times, dtype=np.int64)[ascending], (shares / shares.sum())[ascending]


def _apportion(shares: FloatArray, count: int) -> IntArray:
    """Return whole numbers that add up to `count`, each within 1 of its share of it."""
    edges = np.rint(np.cumsum(shares) * count).astype(np.int64)
    return np.diff(edges, prepend=0)


def draw_estimates(
    model: str, rng: np.random.Generator, run_time: IntArray, *, maximum: int, factor: float
) -> IntArray:
    """Return requested times by the named model.

    `modal`
        See `modal_estimates`.
    `factor`
        Run time times a number uniform in [1, factor + 1], rounded up: the f-model of [3]_ (module's
        references), here because much published work uses it.
    `exact`
        The run time itself.

    Parameters
    ----------
    model
        One of `ESTIMATE_MODELS`.
    rng, run_time, maximum
        As for `modal_estimates`; `maximum` matters to `modal` alone.
    factor
        The f of the f-model, at least 0.
    """
    if model == "modal":
        return modal_estimates(rng, run_time, maximum)
    if model == "exact":
        return run_time.copy()
    if model == "factor":
        stretch = 1.0 + factor * rng.random(len(run_time))
        return np.asarray(np.ceil(run_time * stretch), dtype=np.int64)
    raise WorkloadError(
        f"no model of estimates is named {model!r}",
        field="estimates",
        hint=f"one of {', '.join(ESTIMATE_MODELS)}",
    )
