"""`replay`: simulate whole days under a rule in compiled code."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.kernels import RECORDED, replay_days
from gridtune.systems.shutdown.simulator.model import Variant, build_model
from gridtune.systems.shutdown.simulator.outcome import DayRecord, Outcome
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.rule_parameters import (
    ADAPTIVE,
    ALWAYS_ON,
    LOOKAHEAD,
    ORACLE,
    RECORDED_ACTIONS,
    TIMEOUT,
    AdaptiveRule,
    LookaheadRule,
    simple_numbers,
)
from gridtune.systems.shutdown.simulator.state import TOTALS
from gridtune.types import IntArray

__all__ = ["Rule", "replay"]


Rule = Literal["always_on", "timeout", "oracle"]
_RULES = {"always_on": ALWAYS_ON, "timeout": TIMEOUT, "oracle": ORACLE}


def replay(
    days: Days,
    platform: Platform | None = None,
    *,
    rule: Rule | AdaptiveRule | IntArray = "timeout",
    timeout: int = 1,
    max_stretch: float = 0.5,
    tau: float = 0.5,
    variant: Variant = "paper",
    until_done: bool = False,
    record: bool = False,
) -> tuple[Outcome, DayRecord]:
    """Simulate days under a rule without leaving the compiled code.

    Parameters
    ----------
    days
        The days.
    platform
        The cluster; by default the paper's Taurus.
    rule
        `always_on` reserves nothing. `timeout` reserves sleeping nodes and those that have idled for
        `timeout` minutes. `oracle` is the paper's OR*: a timeout of 0 that keeps no cores free for jobs that
        can wait for running ones to end without waiting for `max_stretch` of their walltime; it knows actual
        run times. `AdaptiveRule`: see there. An array of shape (days, minutes), int64, holds the actions.
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
        The results, and the recorded minutes.
    """
    if until_done and record:
        raise SimulationError("days that last until all jobs are done cannot be recorded")
    cluster = platform or Platform()
    model = build_model(days, cluster, tau, variant, until_done)
    count, longest = len(days), int(days.minutes.max(initial=0))
    recorded = count if record else 0
    outcome = Outcome(
        np.zeros((count, TOTALS), np.int64),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.zeros((count, cluster.nodes), np.int64),
        np.zeros((count, cluster.nodes), np.int64),
        np.full(len(days.submit), -1, np.int64),
    )
    day_record = DayRecord(
        np.zeros((recorded, longest, RECORDED), np.int32),
        np.zeros((recorded, longest)),
        np.zeros((recorded, longest, cluster.nodes), np.int8),
    )
    rule_number, actions = _as_actions(rule, count, longest)
    replay_days(
        model.settings,
        model.table,
        model.arena(2),
        np.arange(count),
        rule_number,
        rule.numbers() if isinstance(rule, AdaptiveRule) else simple_numbers(timeout, max_stretch),
        actions,
        outcome,
        day_record,
    )
    return outcome, day_record


def _as_actions(rule: Rule | AdaptiveRule | IntArray, days: int, minutes: int) -> tuple[int, IntArray]:
    if isinstance(rule, AdaptiveRule):
        return LOOKAHEAD if isinstance(rule, LookaheadRule) else ADAPTIVE, np.zeros((0, 0), np.int64)
    if isinstance(rule, str):
        if rule not in _RULES:
            raise SimulationError(f"no rule is named {rule!r}", hint=f"one of {', '.join(_RULES)}")
        return _RULES[rule], np.zeros((0, 0), np.int64)
    if rule.shape != (days, minutes):
        raise SimulationError(f"actions must have the shape {(days, minutes)}, but have {rule.shape}")
    if rule.size and rule.min() < 0:
        raise SimulationError("an action is a number of nodes, but one is below 0")
    return RECORDED_ACTIONS, np.ascontiguousarray(rule, np.int64)
