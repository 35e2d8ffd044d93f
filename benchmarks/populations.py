"""Populations with known means, for measuring how often intervals cover and tests are wrong.

A pair of samples is b, the values of the baseline on each replicate, and a, those of another configuration.
The real ones are mean bounded slowdowns of windows of a log, drawn with replacement, so that their true means
are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import gridtune as gt
from benchmarks.logs import REAL, real
from gridtune.types import FloatArray

Draw = Callable[[np.random.Generator, tuple[int, int]], FloatArray]
DrawPair = Callable[[np.random.Generator, tuple[int, int]], tuple[FloatArray, FloatArray]]

#: Name to how to draw, and the true mean.
SINGLE: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, shape: rng.standard_normal(shape), 0.0),
    "exponential": (lambda rng, shape: rng.standard_exponential(shape), 1.0),
    "exponential, or 0 in 40 %": (
        lambda rng, shape: rng.standard_exponential(shape) * (rng.random(shape) < 0.6),
        0.6,
    ),
    "lognormal(0.5)": (lambda rng, shape: rng.lognormal(0, 0.5, shape), float(np.exp(0.5**2 / 2))),
    "lognormal(1)": (lambda rng, shape: rng.lognormal(0, 1, shape), float(np.exp(1 / 2))),
    "lognormal(1.5)": (lambda rng, shape: rng.lognormal(0, 1.5, shape), float(np.exp(1.5**2 / 2))),
    "Pareto(1.5)": (lambda rng, shape: 1 + rng.pareto(1.5, shape), 3.0),
    "Pareto(2.5)": (lambda rng, shape: 1 + rng.pareto(2.5, shape), 2.5 / 1.5),
}
#: Orders compared with first come, first served with EASY on windows of real logs.
WINDOWS = {"KTH": 60, "CTC (reconstructed)": 100}
COMPARED = (("sjf", "easy"), ("saf", "easy"), ("f4", "easy"), ("fcfs", "none"), ("sjf", "none"))


@dataclass(frozen=True)
class Pair:
    """Two samples on the same replicates.

    Attributes
    ----------
    draw
        Gives a and b, each of the shape asked for.
    means
        Their true means.
    """

    draw: DrawPair
    means: tuple[float, float]

    @property
    def difference(self) -> float:
        """The true mean difference."""
        return self.means[0] - self.means[1]

    @property
    def relative(self) -> float:
        """The same over the baseline's mean."""
        return self.difference / self.means[1]


def lognormal_pair(sigma_a: float, sigma_b: float, correlation: float, ratio: float) -> Pair:
    """Return correlated lognormal samples, b with mean 1 and a with mean `ratio`."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
        shared, own = rng.standard_normal((2, *shape))
        mixed = correlation * shared + np.sqrt(1 - correlation**2) * own
        return (
            ratio * np.exp(sigma_a * mixed - sigma_a**2 / 2),
            np.exp(sigma_b * shared - sigma_b**2 / 2),
        )

    return Pair(draw, (ratio, 1.0))


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    shared, own = rng.standard_normal((2, *shape))
    return 18 + 2 * shared + own, 20 + 2 * shared


PAIRS = {
    "normal": Pair(_normal, (18.0, 20.0)),
    "lognormal(0.5), r = 0.8": lognormal_pair(0.5, 0.5, 0.8, 0.8),
    "lognormal(1), r = 0.9": lognormal_pair(1, 1, 0.9, 0.8),
    "lognormal(1.5), r = 0.9": lognormal_pair(1.5, 1.5, 0.9, 0.8),
    "lognormal(1.5) to (0.5), r = 0.5": lognormal_pair(1.5, 0.5, 0.5, 3),
}


def window_values(name: str) -> dict[str, FloatArray]:
    """Return the mean bounded slowdown of each window of a real log, by order and backfilling.

    Empty where the log is missing.
    """
    log = real(name)
    if log is None:
        return {}
    workload, processors = log
    windows = workload.windows(WINDOWS[name])
    policies = (("fcfs", "easy"), *COMPARED)
    return {
        f"{order} {backfill}": np.array(
            [
                gt.evaluate(gt.simulate(window, processors=processors, order=order, backfill=backfill))[
                    "bounded_slowdown_mean"
                ]
                for window in windows
            ]
        )
        for order, backfill in policies
    }


def window_pairs() -> dict[str, Pair]:
    """Return the policies of `COMPARED` beside first come, first served with EASY, on each real log."""
    pairs = {}
    for log in REAL:
        values = window_values(log)
        for name in list(values)[1:]:
            pairs[f"{log}: {name}"] = _resampled(values[name], values["fcfs easy"])
    return pairs


def _resampled(a: FloatArray, b: FloatArray) -> Pair:
    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
        drawn = rng.integers(len(a), size=shape)
        return a[drawn], b[drawn]

    return Pair(draw, (float(a.mean()), float(b.mean())))
