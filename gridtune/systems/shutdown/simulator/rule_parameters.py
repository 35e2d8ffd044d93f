"""Numbers of the reservation rules, and of their parameters in the array that the kernels take."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gridtune.errors import SimulationError
from gridtune.types import FloatArray

__all__ = [
    "ADAPTIVE",
    "ALWAYS_ON",
    "EAGERNESS",
    "FIRST_GUESS",
    "GROWTH",
    "HINDSIGHT",
    "LATE_COST",
    "LOOKAHEAD",
    "MARGIN",
    "MAX_QUEUE",
    "MAX_STRETCH",
    "MAX_WAIT",
    "NUMBERS",
    "ORACLE",
    "POOL",
    "POOL_FROM",
    "POOL_UNTIL",
    "RECORDED_ACTIONS",
    "RUSH_JOBS",
    "RUSH_MINUTES",
    "RUSH_TIMEOUT",
    "TIMEOUT",
    "TIMEOUT_MINUTES",
    "AdaptiveRule",
    "LookaheadRule",
    "simple_numbers",
]

#: Rules: reserve nothing; a timeout; the oracle OR*; an array of actions; the adaptive rule.
ALWAYS_ON, TIMEOUT, ORACLE, RECORDED_ACTIONS, ADAPTIVE, LOOKAHEAD = range(6)

#: Indices of the parameters. A timeout takes the first, the oracle the second, the adaptive rule all.
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
    FIRST_GUESS,
    GROWTH,
    MARGIN,
    LATE_COST,
    HINDSIGHT,
    NUMBERS,
) = range(17)


def simple_numbers(timeout: float, max_stretch: float) -> FloatArray:
    """Return the parameters of a timeout or of the oracle: shape (`NUMBERS`,)."""
    numbers = np.zeros(NUMBERS)
    numbers[[TIMEOUT_MINUTES, MAX_STRETCH]] = timeout, max_stretch
    return numbers


@dataclass(frozen=True)
class AdaptiveRule:
    """Parameters of the adaptive rule: which jobs wait for running ones, and which idle nodes stay on.

    The rule knows requested walltimes and the past, but not how long jobs will run.

    Attributes
    ----------
    timeout
        Idle minutes after which a node may be switched off.
    max_stretch
        Longest wait of a job as a share of its walltime, boot included. With 0 no job waits, and the rule is
        a timeout.
    max_wait
        Longest wait of any job in minutes, boot included.
    eagerness
        A job that could wait starts anyway if at most this share of its cores has to be switched on: with 0
        jobs start only on nodes that are on, with 1 always.
    max_queue
        With more jobs than this in the queue, no job has to wait.
    rush_timeout, rush_jobs, rush_minutes
        Another timeout, if longer, while at least `rush_jobs` were submitted in the last `rush_minutes`.
    pool, pool_from, pool_until
        Idle nodes that stay on from one hour of the day until another (0 to 24).
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
        for field in fields(self):
            value = getattr(self, field.name)
            if not value >= 0:
                raise SimulationError(f"must be at least 0, but got {value}", field=field.name)
        if self.eagerness > 1:
            raise SimulationError(f"must be at most 1, but got {self.eagerness}", field="eagerness")

    def numbers(self) -> FloatArray:
        """Return the array that the kernels take: shape (`NUMBERS`,)."""
        numbers = np.zeros(NUMBERS)
        numbers[: len(fields(self))] = [float(getattr(self, field.name)) for field in fields(self)]
        return numbers


@dataclass(frozen=True)
class LookaheadRule(AdaptiveRule):
    """Parameters of the rule that plays each choice forward: those of the adaptive rule, and of its guesses.

    Attributes
    ----------
    first_guess
        Share of its walltime that a job is guessed to take if its user has no previous job.
    growth
        Multiple of its age that a job is guessed to take once it has run for longer than guessed.
    margin
        Energy that another choice than the adaptive rule's has to save, as a share of a boot and a shutdown.
    late_cost
        Cost of a job that starts late, in boots and shutdowns.
    hindsight
        Whether the actual run times and all submissions are known, instead of guesses.
    """

    max_wait: float = np.inf
    first_guess: float = 0.1
    growth: float = 2.0
    margin: float = 0.5
    late_cost: float = 2.0
    hindsight: bool = False
