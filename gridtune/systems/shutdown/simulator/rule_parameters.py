"""Rules by name and number, and the numbers that they take."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError

__all__ = [
    "ADAPTIVE",
    "ALWAYS_ON",
    "EAGERNESS",
    "GIVEN",
    "MAX_QUEUE",
    "MAX_STRETCH",
    "MAX_WAIT",
    "NUMBERS",
    "ORACLE",
    "POOL",
    "POOL_FROM",
    "POOL_UNTIL",
    "RUSH_JOBS",
    "RUSH_MINUTES",
    "RUSH_TIMEOUT",
    "TIMEOUT",
    "TIMEOUT_MINUTES",
    "AdaptiveRule",
    "simple_numbers",
]

#: Rules: reserve nothing; a timeout; the oracle OR*; actions given beforehand; the adaptive rule.
ALWAYS_ON, TIMEOUT, ORACLE, GIVEN, ADAPTIVE = range(5)

#: Where a rule's numbers stand. A timeout takes the first, the oracle the second, the adaptive rule all.
(
    TIMEOUT_MINUTES,
    MAX_STRETCH,
    MAX_WAIT,
    EAGERNESS,
    MAX_QUEUE,
    RUSH_TIMEOUT,
    RUSH_JOBS,
    RUSH_MINUTES,
    POOL,
    POOL_FROM,
    POOL_UNTIL,
    NUMBERS,
) = range(12)


def simple_numbers(timeout: float, max_stretch: float) -> npt.NDArray[np.float64]:
    """Return the numbers of a timeout or of the oracle: shape (`NUMBERS`,)."""
    numbers = np.zeros(NUMBERS)
    numbers[[TIMEOUT_MINUTES, MAX_STRETCH]] = timeout, max_stretch
    return numbers


@dataclass(frozen=True)
class AdaptiveRule:
    """The adaptive rule's numbers: whom it lets wait for running jobs, and which idle nodes it keeps on.

    It goes by requested walltimes and by what has happened; how long jobs really run it does not know.

    Attributes
    ----------
    timeout
        Whole idle minutes after which a node may be switched off.
    max_stretch
        Share of its walltime that a job may be let wait, the boot of a node included. 0: nobody waits, and
        the rule is a timeout.
    max_wait
        Minutes that any job may be let wait, boot included.
    eagerness
        Jobs that could still wait start all the same if no larger share of their cores than this stands on
        nodes that would have to be switched on: 0 starts whom nothing has to be switched on for, 1 everyone.
    max_queue
        With more jobs than this waiting, nobody is let wait.
    rush_timeout, rush_jobs, rush_minutes
        The timeout where it is longer, while at least `rush_jobs` came in the last `rush_minutes`.
    pool, pool_from, pool_until
        Idle nodes that are not switched off from one hour of the day until another (0 to 24).
    """

    timeout: float = 0
    max_stretch: float = 0.5
    max_wait: float = 60
    eagerness: float = 0.6
    max_queue: float = np.inf
    rush_timeout: float = 0
    rush_jobs: float = np.inf
    rush_minutes: float = 10
    pool: float = 0
    pool_from: float = 0
    pool_until: float = 24

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value >= 0:
                raise SimulationError(f"must be at least 0, but got {value}", field=each.name)
        if self.eagerness > 1:
            raise SimulationError(f"must be at most 1, but got {self.eagerness}", field="eagerness")

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return them as the kernels take them: shape (`NUMBERS`,)."""
        return np.array([float(getattr(self, each.name)) for each in fields(self)])
