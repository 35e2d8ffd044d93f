"""The outcome of a simulation."""

from __future__ import annotations

from typing import NamedTuple

from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.state import (
    AREA_AT_LAST,
    BOOTS,
    CORES,
    DECIDED,
    TRACKED,
    Site,
)
from gridtune.types import FloatArray, IntArray

__all__ = ["SiteOutcome", "outcome_of"]


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
    core_seconds
        Core-seconds of the pool from the first to the last submission.
    boots
        Cores ordered; 0 unless event-driven.
    track
        Shape (r, 5), int64: second, pool, cores that are up, running and waiting jobs over time, see `State`.
    """

    start: IntArray
    decision: IntArray
    time: IntArray
    pool: IntArray
    fairness: FloatArray
    utilisation: FloatArray
    cores: int
    core_seconds: int
    boots: int
    track: IntArray


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
        int(state.memory[AREA_AT_LAST]),
        int(state.memory[BOOTS]),
        state.track[: state.memory[TRACKED]].copy(),
    )
