"""The compiled shutdown simulator from Python: batches of clusters to step, and whole days to replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.simulation.platform import Platform
from gridtune.simulation.shutdown.days import Days
from gridtune.simulation.shutdown.kernels import RECORDED, replay_days, reset_batch, step_batch
from gridtune.simulation.shutdown.observing import Scales, scales
from gridtune.simulation.shutdown.rules import ALWAYS_ON, GIVEN, ORACLE, TIMEOUT
from gridtune.simulation.shutdown.state import (
    EVERY_LATE_JOB,
    FEATURES,
    ON,
    REALS,
    SWITCHING_OFF,
    SWITCHING_ON,
    TAU,
    TOTALS,
    UNTIL_DONE,
    Arena,
    Settings,
    Table,
    column_starts,
)

__all__ = ["ClusterBatch", "DayRecord", "Outcome", "Rule", "Variant", "replay"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Float64s = npt.NDArray[np.float64]
Float32s = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

Rule = Literal["always_on", "timeout", "oracle"]
#: Whom the reward blames a late job on: `paper`, as the authors' code, only where the reservation holds it
#: back; `exact`, as their equation 5, wherever it waits.
Variant = Literal["paper", "exact"]
_RULES = {"always_on": ALWAYS_ON, "timeout": TIMEOUT, "oracle": ORACLE}


class Outcome(NamedTuple):
    """What replayed days came to; `n` of them.

    Attributes
    ----------
    totals
        Shape (n, 9): node-minutes idle, switching on, sleeping, switching off, computing; idle ones as the
        authors' monitor counts them; core-minutes of computing; nodes switched on; nodes switched off.
    score
        Shape (n,): sum of rewards.
    minutes
        Shape (n,): how long the day lasted.
    switched_on, switched_off
        Shape (n, nodes): how often each node was switched.
    start
        Shape (jobs of all days,): minute of each job's start, -1 where it did not start or was not replayed.
    """

    totals: Int64s
    score: Float64s
    minutes: Int64s
    switched_on: Int64s
    switched_off: Int64s
    start: Int64s


class DayRecord(NamedTuple):
    """Days minute by minute.

    Attributes
    ----------
    minutes
        Shape (n, minutes, 9): action, nodes reserved; then, at the minute's end, nodes idle, switching on,
        sleeping, switching off and computing, jobs waiting, and the oldest one's promise (-1: none).
    rewards
        Shape (n, minutes).
    """

    minutes: Int32s
    rewards: Float64s


@dataclass(frozen=True)
class _Model:
    """Days on a platform, as the kernels take them."""

    settings: Settings
    table: Table
    scales: Scales

    def arena(self, clusters: int) -> Arena:
        nodes, words = int(self.settings.whole[0]), int(self.settings.starts[-1])
        return Arena(np.zeros(clusters * words, np.int64), np.zeros(clusters * (nodes + 1), np.float64))


def _model(days: Days, platform: Platform, tau: float, variant: Variant, until_done: bool) -> _Model:
    if not 0 <= tau < np.inf:
        raise SimulationError(f"must be at least 0, but got {tau}", field="tau")
    power = platform.power
    busiest = int(np.diff(days.first).max(initial=0))
    users = int(days.user.max(initial=-1)) + 1
    starts = column_starts(platform.nodes, platform.cores_per_node, busiest, users)
    flags = (EVERY_LATE_JOB if variant == "exact" else 0) | (UNTIL_DONE if until_done else 0)
    shape = [platform.nodes, platform.cores_per_node, power.switch_on_time, power.switch_off_time]
    real = np.zeros(REALS)
    real[[ON, SWITCHING_ON, SWITCHING_OFF]] = power.idle, power.switching_on, power.switching_off
    real /= power.wasteful_peak
    real[TAU] = tau
    jobs = [days.submit, days.run, days.walltime, days.cores, days.rank, days.user]
    return _Model(
        Settings(np.array([*shape, flags, starts[-1]], np.int64), real, starts),
        Table(np.concatenate(jobs).astype(np.int64), days.first, days.minutes),
        scales(int(days.walltime.max(initial=0))),
    )


class ClusterBatch:
    """Clusters that live through days, stepped together minute by minute.

    Parameters
    ----------
    days
        What there is to live through.
    platform
        What each cluster is.
    count
        How many clusters.
    tau
        Share of its walltime that a job may wait before the reward counts it as late.
    variant
        `paper` or `exact`, see `Variant`.

    Attributes
    ----------
    observations
        Shape (count, 48), float32: what the last `reset` or `step` saw. The same array every time.
    rewards
        Shape (count,), float64: of the last step.
    over
        Shape (count,), bool: whether the last step ended the day.
    """

    def __init__(
        self,
        days: Days,
        platform: Platform | None = None,
        *,
        count: int = 1,
        tau: float = 0.5,
        variant: Variant = "paper",
    ) -> None:
        self.days, self.platform, self.count = days, platform or Platform(), count
        self._model = _model(days, self.platform, tau, variant, until_done=False)
        self._arena = self._model.arena(count)
        self.observations = np.zeros((count, FEATURES), np.float32)
        self.rewards = np.zeros(count)
        self.over = np.zeros(count, np.bool_)
        self._seen = self.observations.reshape(-1)
        self._arguments = (*self._model.__dict__.values(), self._arena)

    def reset(self, chosen: Bools, days: Int64s) -> None:
        """Begin `days[i]` on each cluster i that is chosen; both of shape (count,)."""
        reset_batch(*self._arguments, chosen, days, self._seen)

    def step(self, actions: Int64s, skipped: Bools) -> None:
        """Keep `actions[i]` nodes of cluster i reserved for a minute; those skipped stand still.

        `actions` is int64 and `skipped` bool, both of shape (count,). An action is clipped to the nodes
        that no job holds.
        """
        step_batch(*self._arguments, skipped, actions, self._seen, self.rewards, self.over)


def replay(
    days: Days,
    platform: Platform | None = None,
    *,
    rule: Rule | Int64s = "timeout",
    timeout: int = 1,
    max_stretch: float = 0.5,
    tau: float = 0.5,
    variant: Variant = "paper",
    until_done: bool = False,
    record: bool = False,
) -> tuple[Outcome, DayRecord]:
    """Live through days under a rule without leaving the compiled code.

    Parameters
    ----------
    days
        All of them are lived through.
    platform
        The cluster; by default the paper's Taurus.
    rule
        `always_on` reserves nothing. `timeout` reserves what sleeps and what has been idle for `timeout`
        minutes. `oracle` is the paper's OR*: as a timeout of 0, but no cores are kept for a job that can
        wait for running ones to end without passing `max_stretch` of its walltime; it knows actual run
        times. An array of shape (days, minutes), int64, gives the actions themselves.
    timeout, max_stretch
        See `rule`.
    tau, variant
        See `ClusterBatch`.
    until_done
        End a day as soon as all its jobs have ended.
    record
        Keep every minute; otherwise the record is empty.

    Returns
    -------
    Outcome, DayRecord
        What the days came to, and their minutes.
    """
    if until_done and record:
        raise SimulationError("days that go on until all is done are not recorded minute by minute")
    chosen_platform = platform or Platform()
    model = _model(days, chosen_platform, tau, variant, until_done)
    count, longest = len(days), int(days.minutes.max(initial=0))
    kept = count if record else 0
    outcome = Outcome(
        np.zeros((count, TOTALS), np.int64),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.zeros((count, chosen_platform.nodes), np.int64),
        np.zeros((count, chosen_platform.nodes), np.int64),
        np.full(len(days.submit), -1, np.int64),
    )
    told = DayRecord(np.zeros((kept, longest, RECORDED), np.int32), np.zeros((kept, longest)))
    given, actions = _as_actions(rule, count, longest)
    replay_days(
        model.settings,
        model.table,
        model.arena(1),
        np.arange(count),
        given,
        timeout,
        max_stretch,
        actions,
        outcome,
        told,
    )
    return outcome, told


def _as_actions(rule: Rule | Int64s, days: int, minutes: int) -> tuple[int, Int64s]:
    if isinstance(rule, str):
        if rule not in _RULES:
            raise SimulationError(f"no rule is named {rule!r}", hint=f"one of {', '.join(_RULES)}")
        return _RULES[rule], np.zeros((0, 0), np.int64)
    if rule.shape != (days, minutes):
        raise SimulationError(f"actions must have the shape {(days, minutes)}, but have {rule.shape}")
    if rule.size and rule.min() < 0:
        raise SimulationError("an action is a number of nodes, but one is below 0")
    return GIVEN, np.ascontiguousarray(rule, np.int64)
