"""`Model`: days on a platform, in the arrays that the kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.observing import Scales, scales
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.state import (
    DECISIONS,
    EFFECTS,
    EVERY_LATE_JOB,
    ON,
    REALS,
    SWITCHING_OFF,
    SWITCHING_ON,
    TAU,
    UNTIL_DONE,
    Arena,
    Settings,
    Table,
    column_starts,
)

__all__ = ["Model", "Variant", "View", "build_model"]

#: Late jobs that the reward counts: `paper`, as the authors' code, those that the reservation holds back;
#: `exact`, as their equation 5, all in the queue.
Variant = Literal["paper", "exact"]
#: Observations of an agent: `paper`, the authors' 48 numbers (`observing`); `effects`, the effect of each
#: reservation, and more of the past (`effects`).
View = Literal["paper", "effects"]


@dataclass(frozen=True)
class Model:
    """The arrays for days on a platform."""

    settings: Settings
    table: Table
    scales: Scales

    def arena(self, clusters: int) -> Arena:
        """Return memory for the state of so many clusters."""
        nodes, words = int(self.settings.whole[0]), int(self.settings.starts[-1])
        return Arena(np.zeros(clusters * words, np.int64), np.zeros(clusters * (nodes + 1), np.float64))


def build_model(
    days: Days,
    platform: Platform,
    tau: float,
    variant: Variant,
    until_done: bool,
    view: View = "paper",
    decisions: bool = False,
) -> Model:
    """Return the arrays; `until_done` ends a day as soon as all its jobs have ended."""
    if not 0 <= tau < np.inf:
        raise SimulationError(f"must be at least 0, but got {tau}", field="tau")
    power = platform.power
    busiest = int(np.diff(days.first).max(initial=0))
    users = int(days.user.max(initial=-1)) + 1
    starts = column_starts(platform.nodes, platform.cores_per_node, busiest, users)
    flags = (EVERY_LATE_JOB if variant == "exact" else 0) | (UNTIL_DONE if until_done else 0)
    if decisions and view != "effects":
        raise SimulationError('decisions need view="effects"', field="decisions")
    flags |= (EFFECTS if view == "effects" else 0) | (DECISIONS if decisions else 0)
    shape = [platform.nodes, platform.cores_per_node, power.switch_on_time, power.switch_off_time]
    real = np.zeros(REALS)
    real[[ON, SWITCHING_ON, SWITCHING_OFF]] = power.idle, power.switching_on, power.switching_off
    real /= power.wasteful_peak
    real[TAU] = tau
    jobs = [days.submit, days.run, days.walltime, days.cores, days.rank, days.user]
    return Model(
        Settings(np.array([*shape, flags, starts[-1]], np.int64), real, starts),
        Table(np.concatenate(jobs).astype(np.int64), days.first, days.minutes),
        scales(int(days.walltime.max(initial=0))),
    )
