"""`replay`: simulate whole days under a rule without leaving compiled code."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.lookahead import lookahead_reservation
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.rules import (
    ADAPTIVE,
    ALWAYS_ON,
    LOOKAHEAD,
    ORACLE,
    RECORDED_ACTIONS,
    TIMEOUT,
    AdaptiveRule,
    LookaheadRule,
    decide,
    simple_numbers,
)
from gridtune.systems.shutdown.simulator.state import (
    COMPUTING,
    NOW,
    ON,
    PROMISE,
    RESERVED,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    TOTALS,
    WAITING,
    Variant,
    build_model,
    cluster_at,
    jobs_of,
)
from gridtune.systems.shutdown.simulator.stepping import (
    act,
    add_minutes,
    is_over,
    pass_minute,
    quiet_until,
    reset_cluster,
)
from gridtune.types import FloatArray, Int8Array, Int32Array, IntArray

__all__ = ["DayRecord", "DayResults", "Rule", "replay"]

#: What a recorded minute holds: action, nodes reserved; then, at the minute's end, nodes idle, switching on,
#: sleeping, switching off and computing, waiting jobs and the oldest one's promise.
RECORDED = 9


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
) -> tuple[DayResults, DayRecord]:
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
    DayResults, DayRecord
        The results, and the recorded minutes.
    """
    if until_done and record:
        raise SimulationError("days that last until all jobs are done cannot be recorded")
    cluster = platform or Platform()
    model = build_model(days, cluster, tau, variant, until_done)
    count, longest = len(days), int(days.minutes.max(initial=0))
    recorded = count if record else 0
    results = DayResults(
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
        results,
        day_record,
    )
    return results, day_record


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


class DayResults(NamedTuple):
    """The result of `n` replayed days.

    Attributes
    ----------
    totals
        Shape (n, 9): node-minutes idle, switching on, sleeping, switching off, computing; idle ones as the
        authors' monitor counts them; core-minutes of computing; nodes switched on; nodes switched off.
    score
        Shape (n,): sum of rewards.
    minutes
        Shape (n,): length of the day.
    switched_on, switched_off
        Shape (n, nodes): how often each node was switched.
    start
        Shape (jobs of all days,): minute of each job's start, -1 where it did not start or was not replayed.
    """

    totals: IntArray
    score: FloatArray
    minutes: IntArray
    switched_on: IntArray
    switched_off: IntArray
    start: IntArray


class DayRecord(NamedTuple):
    """Days minute by minute.

    Attributes
    ----------
    minutes
        Shape (n, minutes, 9): action, nodes reserved; then, at the minute's end, nodes idle, switching on,
        sleeping, switching off and computing, jobs waiting, and the oldest one's promise (-1: none).
    rewards
        Shape (n, minutes).
    states
        Shape (n, minutes, nodes): each node's state during the minute: 0 idle, 1 switching on,
        2 sleeping, 3 switching off, 4 computing.
    """

    minutes: Int32Array
    rewards: FloatArray
    states: Int8Array


@kernel()
def replay_days(settings, table, arena, days, rule, numbers, actions, results, record):
    """Simulate days under a rule, on one cluster, and write their results.

    Minutes in which nothing can happen are skipped, unless the days are recorded.

    Parameters
    ----------
    settings, table, arena
        The cluster's settings, the jobs of all days, and memory for its state.
    days
        Shape (n,), int64: the days.
    rule, numbers
        The rule, and its numbers (`parameters`): shape (`NUMBERS`,), float64.
    actions
        Under the rule `RECORDED_ACTIONS`: shape (n, minutes), int64. Else anything of two dimensions.
    results
        An `DayResults` to fill in, a row for each day.
    record
        A `Record` to fill in, of shape (n, minutes, …), or with n = 0 for none.
    """
    cluster = cluster_at(settings, arena, 0)
    guesses = np.zeros(table.first[-1] + 1, np.int64)
    recording = record.minutes.shape[0] > 0
    for row in range(days.size):
        day = days[row]
        jobs, horizon = jobs_of(table, day), table.minutes[day]
        reset_cluster(cluster, jobs, day)
        memory = cluster.memory
        while not is_over(cluster, jobs, horizon):
            # No rule can do anything before that.
            until = -1 if recording else quiet_until(cluster, jobs, horizon)
            if until > memory[NOW]:
                add_minutes(cluster, until - memory[NOW])
            now = memory[NOW]
            if rule == RECORDED_ACTIONS:
                action = actions[row, now]
            elif rule == LOOKAHEAD:
                action = lookahead_reservation(settings, arena, jobs, bare(guesses), numbers, horizon)
            else:
                action = decide(cluster, jobs, rule, numbers)
            reward = act(cluster, jobs, action)
            if recording:
                _record_states(cluster, record.states[row, now])
            pass_minute(cluster, jobs, horizon)
            if recording:
                record.rewards[row, now] = reward
                _record(cluster, action, record.minutes[row, now])
        _write_outcome(cluster, jobs, table.first[day], results, row)


@kernel()
def _record_states(cluster, states):
    for node in range(cluster.nodes):
        states[node] = COMPUTING if cluster.busy[node] > 0 else cluster.state[node]


@kernel()
def _record(cluster, action, line):
    memory, in_state = cluster.memory, cluster.in_state
    computing = cluster.nodes - in_state[SWITCHING_ON] - in_state[SLEEPING] - in_state[SWITCHING_OFF]
    idle = 0
    for node in range(cluster.nodes):
        if cluster.state[node] == ON and cluster.busy[node] == 0:
            idle += 1
    line[0], line[1] = action, memory[RESERVED]
    line[2 + ON] = idle
    line[2 + SWITCHING_ON] = in_state[SWITCHING_ON]
    line[2 + SLEEPING] = in_state[SLEEPING]
    line[2 + SWITCHING_OFF] = in_state[SWITCHING_OFF]
    line[2 + COMPUTING] = computing - idle
    line[7], line[8] = memory[WAITING], memory[PROMISE]


@kernel()
def _write_outcome(cluster, jobs, first, results, row):
    """Write the results of a day."""
    for place in range(TOTALS):
        results.totals[row, place] = cluster.totals[place]
    results.score[row] = cluster.score[0]
    results.minutes[row] = cluster.memory[NOW]
    for node in range(cluster.nodes):
        results.switched_on[row, node] = cluster.switched_on[node]
        results.switched_off[row, node] = cluster.switched_off[node]
    for job in range(jobs.number):
        results.start[first + job] = cluster.start[job]
