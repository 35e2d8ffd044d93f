"""Walltimes: the run-time estimates that the scheduler gets, and whether jobs are killed at them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gridtune.errors import SimulationError
from gridtune.types import IntArray
from gridtune.workload.workload import Workload

#: Whether jobs are killed at their walltime; "auto" decides from the log.
Kill = bool | Literal["auto"]

#: The kinds of walltimes.
WALLTIMES = ("log", "exact", "noise", "predicted")


def estimate_walltimes(
    workload: Workload, kind: str, noise: float, rng: np.random.Generator | None
) -> tuple[IntArray, int]:
    """Return the walltimes that the scheduler gets, and for how many jobs the log has none.

    Parameters
    ----------
    workload
        The jobs.
    kind
        "log": as requested; where the log has no request, its largest one (or its longest run time), a limit
        that says nothing about the single job. "exact": the run time, a clairvoyant bound. "noise": the
        log's, each multiplied by exp(`noise` × z), z standard normal. "predicted": the log's, in whose place
        the scheduler gets what a predictor says when a job is submitted.
    noise
        The standard deviation of the logarithm, >= 0.
    rng
        The run's stream of random numbers; needed for "noise" only.

    Returns
    -------
    Shape (n,), int64 seconds, at least 1 where the log's are; and a count.
    """
    if kind not in WALLTIMES:
        raise SimulationError(f"no such walltimes: {kind!r}", hint=f"one of {', '.join(WALLTIMES)}")
    if noise and kind != "noise":
        raise SimulationError(f"noise {noise:g} goes with walltime='noise', not with {kind!r}")
    if not noise >= 0 or not np.isfinite(noise):
        raise SimulationError(f"noise must be a finite number >= 0, got {noise!r}")
    if kind == "exact":
        return np.ascontiguousarray(workload.run_time), 0
    requested = workload.requested_time
    missing = requested <= 0
    count = int(missing.sum())
    if count:
        present = requested[~missing]
        limit = present.max() if len(present) else workload.run_time.max()
        requested = np.where(missing, limit, requested)
    if kind == "noise":
        if rng is None:
            raise SimulationError("walltime='noise' needs rng=, the stream its noise comes from")
        factors = np.exp(noise * rng.standard_normal(len(workload)))
        requested = np.maximum(np.rint(np.minimum(requested * factors, 2.0**53)), 1).astype(np.int64)
    return np.ascontiguousarray(requested, dtype=np.int64), count


def kills_jobs(workload: Workload, kill: Kill) -> bool:
    """Return whether jobs are killed at their walltime.

    Parameters
    ----------
    workload
        The jobs: a log or a selection of one, which goes by the whole log.
    kill
        True, False or "auto": unless more than 1 % of the log's jobs with a requested time, and five at
        least, outlived it by more than five minutes (`gridtune.workload.contents`).
    """
    if kill == "auto":
        return workload.contents.kills
    if not isinstance(kill, bool):
        raise SimulationError(f"kill must be 'auto', True or False, got {kill!r}", field="kill")
    return kill


def kill_decided(workload: Workload, kill: Kill) -> dict[str, bool | None]:
    """Return `kill` as ids have it (`System.values_from_log`): left out where jobs are killed, else false."""
    return {"kill": None if kills_jobs(workload, kill) else False}
