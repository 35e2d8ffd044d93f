"""`shaken_metrics`: the spread of metrics when the submissions of a log are moved a little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gridtune.arguments import require, require_number
from gridtune.batch.metrics import evaluate
from gridtune.batch.replay import simulate
from gridtune.core.system import Streams
from gridtune.errors import SimulationError
from gridtune.statistics import mean_interval
from gridtune.types import FloatArray
from gridtune.workload.workload import Workload

#: By how many seconds submissions are moved by default: nobody submits to the minute.
SHAKE_SECONDS = 60


@dataclass(frozen=True)
class Spread:
    """A metric over shaken replicates of a log.

    Attributes
    ----------
    values
        Shape (replicates,); NaN where the metric is not defined.
    low, high
        Ends of the 95 % interval of the mean (`gridtune.statistics.mean_interval`).
    """

    values: FloatArray
    low: float
    high: float

    @property
    def mean(self) -> float:
        """Their mean; NaN where one is not defined."""
        return float(self.values.mean())

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value of a single run."""
        return float(self.values.min()), float(self.values.max())


def shaken_metrics(
    workload: Workload,
    *,
    replicates: int = 10,
    amount: int = SHAKE_SECONDS,
    seed: int = 0,
    only: Iterable[str] | None = None,
    **options: Any,
) -> dict[str, Spread]:
    """Repeat a run with its submissions shaken, and return each metric's spread.

    The same seed gives the same replicates to every policy.

    Parameters
    ----------
    workload
        The jobs, as for `simulate`.
    replicates
        The number of runs, 2 or more.
    amount
        Submissions are moved by up to this many whole seconds either way (`Workload.shake`).
    seed
        Of the moves, and of random orders and noise.
    only
        Names of metrics; by default all.
    options
        Those of `simulate`, but for `rng`.

    Raises
    ------
    SimulationError
        As `simulate`, and for fewer than two replicates.

    References
    ----------
    Tsafrir, Ouaknine, Feitelson, "Reducing performance evaluation sensitivity and variability by input
    shaking", MASCOTS 2007.
    """
    require(workload, Workload, "workload", error=SimulationError)
    require_number(replicates, "replicates", whole=True, least=2, error=SimulationError)
    require_number(amount, "amount", whole=True, least=1, error=SimulationError)
    chosen = None if only is None else list(only)

    def measure(streams: Streams) -> dict[str, float]:
        shaken = workload.shake(amount, streams("shaking"))
        return evaluate(simulate(shaken, rng=streams("simulation"), **options), only=chosen)

    return spreads_of(measure, replicates=replicates, seed=seed)


def spreads_of(
    measure: Callable[[Streams], Mapping[str, float]], *, replicates: int, seed: int
) -> dict[str, Spread]:
    """Repeat a measurement with other random numbers, and return each metric's spread.

    Parameters
    ----------
    measure
        Called with the streams of random numbers of one replicate; returns metrics.
    replicates, seed
        As of `shaken_metrics`.
    """
    purposes = ("shaking", "simulation", "copies")

    def streams(number: int, purpose: str) -> np.random.Generator:
        return np.random.default_rng([seed, number, purposes.index(purpose)])

    runs = [measure(partial(streams, number)) for number in range(replicates)]
    spreads = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        interval = mean_interval(values) if np.isfinite(values).all() else None
        low, high = (np.nan, np.nan) if interval is None else (interval.low, interval.high)
        spreads[name] = Spread(values, float(low), float(high))
    return spreads
