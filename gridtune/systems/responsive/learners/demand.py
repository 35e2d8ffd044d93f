"""The demand of the near future, learned from a log: how many more jobs there are once a core has booted.

The log is replayed on a site with a core for each job. At each tick of the timer, the growth of the number of
jobs until a core that is ordered now is in use is known in hindsight. A quantile of it is fitted to what the
site knows at the tick (`autoscalers.forecast_inputs`), by linear quantile regression (Koenker & Bassett 1978,
doi 10.2307/1913643): the weights minimise Σ ρ(y − x·w), with ρ(r) = q·r where r is positive and (q − 1)·r
elsewhere. The quantile q is the newsvendor's: with a cost a of a missing core and b of an idle one,
q = a/(a + b).
"""

from __future__ import annotations

import numpy as np

from gridtune.systems.responsive.simulator.autoscalers import DAY, FORECAST_INPUTS, LONG_SPAN, SHORT_SPAN
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.types import FloatArray, IntArray

__all__ = ["learn_forecast", "quantile_weights"]

#: Ticks to learn from at most, iterations of the regression, and the residual below which it is quadratic.
_MOST_TICKS, _ITERATIONS, _SMOOTH, _RIDGE = 20_000, 60, 1e-3, 1e-4


def learn_forecast(
    jobs: SiteJobs, cores: int, *, boot: int, timer: int, quantile: float
) -> tuple[float, ...]:
    """Return the weights of a forecast, one for each input.

    Parameters
    ----------
    jobs
        The jobs to learn on.
    cores
        The site's cores, the unit of the inputs.
    boot, timer
        Seconds of a boot and between ticks.
    quantile
        Share of the ticks at which the forecast should be enough.
    """
    if len(jobs) == 0:
        return (0.0,) * FORECAST_INPUTS
    submit, end = jobs.submit, np.sort(jobs.submit + jobs.run)
    last = int(submit[-1]) - boot - timer
    stride = timer * max(1, (last - int(submit[0])) // (timer * _MOST_TICKS))
    ticks = np.arange(int(submit[0]), last + 1, stride)

    def count(moments: IntArray, until: IntArray) -> IntArray:
        return np.searchsorted(moments, until, side="right")

    def present(at: IntArray) -> IntArray:
        return count(submit, at) - count(end, at)

    now = present(ticks) / cores
    spans = [
        (count(moments, ticks) - count(moments, ticks - span)) / cores
        for moments in (submit, end)
        for span in (SHORT_SPAN, LONG_SPAN)
    ]
    angle = 2 * np.pi * (ticks % DAY) / DAY
    inputs = np.column_stack([np.ones(len(ticks)), now, np.sqrt(now), *spans, np.sin(angle), np.cos(angle)])
    later = np.maximum(present(ticks + boot), present(ticks + boot + timer)) / cores
    return tuple(quantile_weights(inputs, later - now, quantile).tolist())


def quantile_weights(inputs: FloatArray, values: FloatArray, quantile: float) -> FloatArray:
    """Return the weights of a quantile regression, shape (k,), by iterated weighted least squares.

    Parameters
    ----------
    inputs, values
        Shapes (n, k) and (n,).
    quantile
        In (0, 1).
    """
    ridge = _RIDGE * np.eye(inputs.shape[1])
    weights: FloatArray = np.zeros(inputs.shape[1])
    for _ in range(_ITERATIONS):
        residual = values - inputs @ weights
        importance = np.where(residual > 0, quantile, 1 - quantile) / np.maximum(np.abs(residual), _SMOOTH)
        weighted = inputs * importance[:, None]
        weights = np.asarray(np.linalg.solve(weighted.T @ inputs + ridge, weighted.T @ values), np.float64)
    return weights
