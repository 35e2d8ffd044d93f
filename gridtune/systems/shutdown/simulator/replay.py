"""`replay`: simulate whole days under a rule without leaving compiled code."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.rules import (
    ADAPTIVE,
    LOOKAHEAD,
    RECORDED,
    RULE,
    RULES,
    TIMEOUT,
    decide,
    lookahead_reservation,
)
from gridtune.systems.shutdown.simulator.state import (
    COMPUTING,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    TOTALS,
    Records,
    Variant,
    build_model,
    cluster_at,
    jobs_of,
    new_arena,
)
from gridtune.systems.shutdown.simulator.stepping import (
    act,
    add_minutes,
    is_over,
    pass_minute,
    quiet_until,
    reset_cluster,
)
from gridtune.types import FloatArray, Int8Array, IntArray

__all__ = ["DayRecord", "DayResults", "Rule", "replay"]

Rule = Literal["always_on", "timeout", "oracle", "adaptive", "lookahead"]

#: A recorded minute: action and nodes reserved; then, at the minute's end, nodes by state, waiting jobs, and
#: the promise to the oldest one (-1: none).
_STATES = ("idle", "switching_on", "sleeping", "switching_off", "computing")
MINUTE = np.dtype([(name, np.int32) for name in ("action", "reserved", *_STATES, "waiting", "promise")])


class DayResults(NamedTuple):
    """The results of `n` replayed days.

    Attributes
    ----------
    totals
        Shape (n,), `state.TOTALS`: node-minutes `idle`, `switching_on`, `sleeping`, `switching_off`,
        `computing`; idle ones as the authors' monitor counts them, `reported_idle`; `core_minutes` of
        computing; nodes `switched_on` and `switched_off`.
    score
        Shape (n,): sum of rewards.
    minutes
        Shape (n,): length of the day.
    start
        Shape (jobs of all days,): minute of each job's start, -1 where it did not start or was not replayed.
    """

    totals: Records
    score: FloatArray
    minutes: IntArray
    start: IntArray


class DayRecord(NamedTuple):
    """Days minute by minute.

    Attributes
    ----------
    minutes
        Shape (n, minutes), `MINUTE`: `action`, nodes `reserved`; then, at the minute's end, nodes `idle`,
        `switching_on`, `sleeping`, `switching_off` and `computing`, jobs `waiting`, and the `promise` to the
        oldest one (-1: none).
    rewards
        Shape (n, minutes).
    states
        Shape (n, minutes, nodes): each node's state during the minute: 0 idle, 1 switching on,
        2 sleeping, 3 switching off, 4 computing.
    """

    minutes: Records
    rewards: FloatArray
    states: Int8Array


def replay(
    days: Days,
    platform: Platform | None = None,
    *,
    rule: Rule | IntArray = "timeout",
    timeout: int | None = None,
    max_stretch: float = 0.5,
    max_wait: float | None = None,
    eagerness: float = 0.6,
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
        can wait for running ones to end without waiting for `max_stretch` of their walltime; it reads actual
        run times. `adaptive` lets jobs wait for nodes that are on; it knows requested walltimes and the past.
        `lookahead` plays its choices forward. An array of shape (days, minutes), int64, holds the actions.
    timeout
        Idle minutes after which a node may be switched off; by default 1 with `timeout`, else 0.
    max_stretch
        Longest wait of a job as a share of its walltime, boot included. With 0 no job waits.
    max_wait
        Longest wait of a job in minutes, boot included; by default 60 with `adaptive`, else without limit.
    eagerness
        A job that could wait starts anyway if at most this share of its cores has to be switched on: with 0
        jobs start only on nodes that are on, with 1 always.
    tau, variant
        See `build_model`.
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
    chosen, actions = np.zeros(1, RULE), np.zeros((0, 0), np.int64)
    if isinstance(rule, str):
        if rule not in RULES:
            raise SimulationError(f"no rule is named {rule!r}", hint=f"one of {', '.join(RULES[:RECORDED])}")
        kind = RULES.index(rule)
        timeout = int(kind == TIMEOUT) if timeout is None else timeout
        max_wait = (60 if kind == ADAPTIVE else np.inf) if max_wait is None else max_wait
        chosen[0] = (kind, timeout, max_stretch, max_wait, eagerness)
    else:
        if rule.shape != (count, longest):
            raise SimulationError(f"actions must have the shape {(count, longest)}, but have {rule.shape}")
        if rule.size and rule.min() < 0:
            raise SimulationError("an action is a number of nodes, but one is below 0")
        chosen["kind"], actions = RECORDED, np.ascontiguousarray(rule, np.int64)
    results = DayResults(
        np.zeros(count, TOTALS),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.full(len(days.submit), -1, np.int64),
    )
    shape = (count if record else 0, longest)
    recorded = DayRecord(np.zeros(shape, MINUTE), np.zeros(shape), np.zeros((*shape, cluster.nodes), np.int8))
    _replay_days(model, new_arena(model, 2), chosen, actions, results, recorded)
    return results, recorded


@kernel()
def _replay_days(model, arena, rules, actions, results, record):
    """Simulate all days of a model under a rule, on one cluster, and write their results.

    Minutes in which nothing can happen are skipped, unless the days are recorded.

    Parameters
    ----------
    model, arena
        The days on a platform, and memory for two clusters.
    rules
        Shape (1,), `RULE`.
    actions
        Under the rule `RECORDED`: shape (n, minutes), int64. Else anything of two dimensions.
    results
        The `DayResults` to fill in, a row for each day.
    record
        The `DayRecord` to fill in, of shape (n, minutes, …), or with n = 0 for none.
    """
    cluster, rule = cluster_at(model, arena, 0), rules[0]
    state, guesses = cluster.state, np.zeros(model.first[-1] + 1, np.int64)
    recording = record.minutes.shape[0] > 0
    for day in range(model.minutes.size):
        jobs, horizon = jobs_of(model, day), model.minutes[day]
        reset_cluster(cluster, jobs, day)
        while not is_over(cluster, jobs, horizon):
            # No rule can do anything before that.
            until = -1 if recording else quiet_until(cluster, jobs, horizon)
            if until > state.now:
                add_minutes(cluster, until - state.now)
            now = state.now
            if rule.kind == RECORDED:
                action = actions[day, now]
            elif rule.kind == LOOKAHEAD:
                action = lookahead_reservation(model, arena, jobs, bare(guesses), rule, horizon)
            else:
                action = decide(cluster, jobs, rule)
            reward = act(cluster, jobs, action)
            if recording:
                record.rewards[day, now] = reward
                for node in range(cluster.nodes):
                    computing = cluster.busy[node] > 0
                    record.states[day, now, node] = COMPUTING if computing else cluster.power[node]
            pass_minute(cluster, jobs, horizon)
            if recording:
                _record_minute(cluster, action, record.minutes[day, now])
        _write_results(cluster, jobs, model.first[day], results, day)


@kernel()
def _record_minute(cluster, action, minute):
    state, in_state, idle = cluster.state, cluster.in_state, 0
    for node in range(cluster.nodes):
        if cluster.power[node] == ON and cluster.busy[node] == 0:
            idle += 1
    minute.action, minute.reserved = action, state.reserved
    minute.idle, minute.computing = idle, in_state[ON] - idle
    minute.switching_on, minute.sleeping = in_state[SWITCHING_ON], in_state[SLEEPING]
    minute.switching_off = in_state[SWITCHING_OFF]
    minute.waiting, minute.promise = state.waiting, state.promise


@kernel()
def _write_results(cluster, jobs, first, results, day):
    results.totals[day] = cluster.totals
    results.score[day] = cluster.state.score
    results.minutes[day] = cluster.state.now
    for job in range(jobs.number):
        results.start[first + job] = cluster.start[job]
