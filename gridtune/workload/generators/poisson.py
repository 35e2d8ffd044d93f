"""Poisson arrivals of serial jobs: workloads whose waits queueing theory knows.

References
----------
L. Kleinrock, "Queueing Systems, Volume 1: Theory", Wiley 1975, chapters 3 and 5.
"""

from __future__ import annotations

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import IntArray
from gridtune.workload.generators import generator
from gridtune.workload.generators.draws import check_range, stream

#: Distributions of the run time: M/M/c and M/D/c.
_SERVICES = ("exponential", "deterministic")

#: Below this many seconds, rounding to whole seconds would be seen in the moments.
SHORTEST_MEAN = 100.0


@generator("poisson")
def _poisson(
    *,
    jobs: int,
    seed: int,
    processors: int = 4,
    load: float = 0.7,
    mean_run_time: float = 20_000.0,
    service: str = "exponential",
) -> dict[str, IntArray]:
    """M/M/c or M/D/c: Poisson arrivals of serial jobs, for checks against queueing theory.

    Gaps are exponential with mean `mean_run_time / (processors · load)`. Submit times are rounded down,
    run times to the nearest second but at least 1: with a mean of m seconds this moves the mean run time
    by less than 1/m of a second and the variance of gaps and run times by less than 1/(5 m²) of itself.
    The load is that of the distributions, not of the sample. The requested time is the run time.

    Parameters
    ----------
    jobs, seed
        See `generate_workload`.
    processors
        Servers (c).
    load
        Offered load per server (ρ), below 1 if the queue is to have a steady state.
    mean_run_time
        Mean run time (1/μ) in seconds; it and the mean gap must be 100 or more.
    service
        `exponential` (M/M/c) or `deterministic` (M/D/c).
    """
    check_range("processors", processors, 1, 2**24)
    check_range("load", load, high=100.0, above=0.0)
    check_range("mean_run_time", mean_run_time, SHORTEST_MEAN, 1e9)
    if service not in _SERVICES:
        hint = f"one of {', '.join(_SERVICES)}"
        raise WorkloadError(f"no service is named {service!r}", field="service", hint=hint)
    mean_gap = mean_run_time / (processors * load)
    if mean_gap < SHORTEST_MEAN:
        raise WorkloadError(
            f"the mean gap between jobs would be {mean_gap:.3g} s, so short that whole seconds distort it",
            field="mean_run_time",
            hint=f"at least {SHORTEST_MEAN * processors * load:.0f} with this load and machine",
        )
    submit = np.floor(np.cumsum(stream(seed, "gap").exponential(mean_gap, jobs))).astype(np.int64)
    if service == "exponential":
        drawn = stream(seed, "run time").exponential(mean_run_time, jobs)
    else:
        drawn = np.full(jobs, mean_run_time)
    run_time = np.maximum(np.rint(drawn), 1.0).astype(np.int64)
    ones = np.ones(jobs, dtype=np.int64)
    return {
        "submit_time": submit,
        "run_time": run_time,
        "allocated_processors": ones,
        "requested_processors": ones,
        "requested_time": run_time,
        "status": ones,
    }
