"""The compiled entry points: a minute of many clusters, and whole days under a rule."""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import array_at, bare, kernel, section
from gridtune.systems.shutdown.simulator.effects import has_choice, observe_effects
from gridtune.systems.shutdown.simulator.lookahead import lookahead_reservation
from gridtune.systems.shutdown.simulator.observing import Scales, observe
from gridtune.systems.shutdown.simulator.rule_parameters import LOOKAHEAD, RECORDED_ACTIONS
from gridtune.systems.shutdown.simulator.rules import decide
from gridtune.systems.shutdown.simulator.state import (
    COMPUTING,
    DAY,
    DECISIONS,
    EFFECTS,
    FLAGS,
    NOW,
    ON,
    PROMISE,
    RESERVED,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    TOTALS,
    WAITING,
    Arena,
    Settings,
    Table,
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
    step_cluster,
)

__all__ = ["RECORDED", "replay_days", "step_batch"]

#: What a recorded minute holds: action, nodes reserved; then, at the minute's end, nodes idle, switching on,
#: sleeping, switching off and computing, waiting jobs and the oldest one's promise.
RECORDED = 9


@kernel()
def step_batch(handles):
    """Step each cluster by a minute, or to its next decision, or begin another day on it.

    Parameters
    ----------
    handles
        Of the arrays (`handles_of`) of the settings, the table, the scales and the arena; of `actions`, nodes
        to keep reserved, int64; `restart`, whether to begin another day instead, bool; `days`, which, int64;
        `observations`, float32, and `where`, int64: the where[2] features of cluster i are written from
        where[0] + i · where[1] on; `rewards`, float64, and `over`, bool: filled in, 0 and False for
        clusters that begin a day.
    """
    settings = Settings(
        array_at(handles, 0, np.int64), array_at(handles, 1, np.float64), array_at(handles, 2, np.int64)
    )
    table = Table(
        array_at(handles, 3, np.int64), array_at(handles, 4, np.int64), array_at(handles, 5, np.int64)
    )
    scale = Scales(
        bare(array_at(handles, 6, np.float32)),
        bare(array_at(handles, 7, np.float32)),
        bare(array_at(handles, 8, np.float32)),
    )
    arena = Arena(array_at(handles, 9, np.int64), array_at(handles, 10, np.float64))
    actions, restart = array_at(handles, 11, np.int64), array_at(handles, 12, np.bool_)
    days, observations = array_at(handles, 13, np.int64), array_at(handles, 14, np.float32)
    where, rewards = array_at(handles, 15, np.int64), array_at(handles, 16, np.float64)
    over = array_at(handles, 17, np.bool_)
    for index in range(actions.size):
        cluster = cluster_at(settings, arena, index)
        day = days[index] if restart[index] else cluster.memory[DAY]
        jobs, horizon = jobs_of(table, day), table.minutes[day]
        if restart[index]:
            reset_cluster(cluster, jobs, day)
            rewards[index], over[index] = 0.0, False
        else:
            rewards[index] = step_cluster(cluster, jobs, horizon, actions[index])
            if settings.whole[FLAGS] & DECISIONS:
                rewards[index] += _pass_time(cluster, jobs, horizon)
            over[index] = is_over(cluster, jobs, horizon)
        row = section(observations, where[0] + index * where[1], where[2])
        if settings.whole[FLAGS] & EFFECTS:
            observe_effects(cluster, jobs, row)
        else:
            observe(cluster, jobs, scale, row)


@kernel()
def _pass_time(cluster, jobs, horizon):
    """Let minutes pass in which every reservation does the same; return the sum of their rewards."""
    memory, rewards = cluster.memory, 0.0
    while not is_over(cluster, jobs, horizon) and not has_choice(cluster, jobs):
        until = quiet_until(cluster, jobs, horizon)
        if until > memory[NOW]:
            add_minutes(cluster, until - memory[NOW])
        rewards += step_cluster(cluster, jobs, horizon, cluster.nodes)
    return rewards


@kernel()
def replay_days(settings, table, arena, days, rule, numbers, actions, outcome, record):
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
    outcome
        An `Outcome` to fill in, a row for each day.
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
        _write_outcome(cluster, jobs, table.first[day], outcome, row)


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
def _write_outcome(cluster, jobs, first, outcome, row):
    """Write the results of a day."""
    for place in range(TOTALS):
        outcome.totals[row, place] = cluster.totals[place]
    outcome.score[row] = cluster.score[0]
    outcome.minutes[row] = cluster.memory[NOW]
    for node in range(cluster.nodes):
        outcome.switched_on[row, node] = cluster.switched_on[node]
        outcome.switched_off[row, node] = cluster.switched_off[node]
    for job in range(jobs.number):
        outcome.start[first + job] = cluster.start[job]
