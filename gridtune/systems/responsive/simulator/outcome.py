"""The outcome of a simulation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.state import CORES, DECIDED, Site

__all__ = ["SiteOutcome", "core_seconds", "outcome_of"]

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class SiteOutcome(NamedTuple):
    """Starts of jobs, and F, U and pool at each decision; n jobs, and so n decisions.

    Attributes
    ----------
    start
        Shape (n,), int64, by job: when it started, seconds.
    decision
        Shape (n,), int64, by job: which decision started it.
    time, pool
        Shape (n,), int64, by decision: its second, and the pool's size after it, cores.
    fairness, utilisation
        Shape (n,), float64, by decision: F and U when it was taken.
    cores
        The pool's size before the first decision.
    """

    start: Int64s
    decision: Int64s
    time: Int64s
    pool: Int64s
    fairness: Float64s
    utilisation: Float64s
    cores: int


def outcome_of(site: Site) -> SiteOutcome:
    """Return the outcome of a site, once `advance_until_decision` has returned False."""
    state = site.state
    if state.memory[DECIDED] != len(state.start):
        raise SimulationError(
            f"only {state.memory[DECIDED]} of {len(state.start)} jobs have started: the simulation goes on"
        )
    return SiteOutcome(
        state.start.copy(),
        state.number.copy(),
        state.time.copy(),
        state.pool.copy(),
        state.fairness.copy(),
        state.utilisation.copy(),
        int(site.settings.whole[CORES]),
    )


def core_seconds(outcome: SiteOutcome, begin: int, end: int) -> int:
    """Return the core-seconds of the pool in [begin, end)."""
    edges = np.clip(np.concatenate([[begin], outcome.time, [end]]), begin, end)
    sizes = np.concatenate([[outcome.cores], outcome.pool])
    return int((np.diff(edges) * sizes).sum())
