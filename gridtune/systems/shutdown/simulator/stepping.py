"""One minute of a cluster, compiled: reservation, scheduling pass, starts, reward, events."""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.nodes import allocate, events, start_ready, switch_off_first
from gridtune.systems.shutdown.simulator.scheduling import refresh_candidates, refresh_promise, select_jobs
from gridtune.systems.shutdown.simulator.state import (
    ARRIVED,
    BOOKED,
    BUSY,
    CANDIDATES,
    COMPUTERS,
    COMPUTING,
    CORE_MINUTES,
    DAY,
    DONE,
    EVERY_LATE_JOB,
    FREE,
    HEAD,
    MEMORY,
    NEVER,
    NEXT_END,
    NEXT_SWITCH,
    NOW,
    ON,
    PROMISE,
    READY,
    REPORTED_IDLE,
    RESERVED,
    SELECTED,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    TAU,
    TOTALS,
    UNTIL_DONE,
    WAITING,
)

__all__ = [
    "act",
    "add_minutes",
    "apply",
    "is_over",
    "pass_minute",
    "quiet_until",
    "reset_cluster",
    "step_cluster",
]


@kernel()
def reset_cluster(cluster, jobs, day):
    """Begin a day: every node asleep, no jobs."""
    memory = cluster.memory
    for place in range(MEMORY):
        memory[place] = 0
    for place in range(TOTALS):
        cluster.totals[place] = 0
    for state in range(4):
        cluster.in_state[state] = cluster.vacant[state] = cluster.nodes if state == SLEEPING else 0
    for node in range(cluster.nodes):
        cluster.state[node] = SLEEPING
        cluster.until[node] = NEVER
        cluster.free[node] = cluster.cores
        cluster.busy[node] = cluster.idle_minutes[node] = 0
        cluster.switched_on[node] = cluster.switched_off[node] = 0
        cluster.load[node] = 0.0
    pieces = cluster.nodes * cluster.cores
    for piece in range(pieces):
        cluster.piece_next[piece] = piece + 1
    for job in range(jobs.number):
        cluster.waits[job] = 0
        cluster.start[job] = cluster.piece[job] = -1
        cluster.users[jobs.user[job]] = 0
        cluster.last_run[jobs.user[job]] = -1
    cluster.score[0] = 0.0
    memory[DAY] = day
    memory[PROMISE] = -1
    memory[FREE] = pieces
    memory[NEXT_END] = memory[NEXT_SWITCH] = NEVER


@kernel()
def step_cluster(cluster, jobs, horizon, action):
    """Reserve `action` nodes for the next minute; return the reward."""
    reward = act(cluster, jobs, action)
    pass_minute(cluster, jobs, horizon)
    return reward


@kernel()
def act(cluster, jobs, action):
    """Take the decisions of the minute: reserve, schedule, start; return the reward."""
    apply(cluster, jobs, action)
    reward = _reward(cluster, jobs)
    cluster.score[0] += reward
    return reward


@kernel()
def apply(cluster, jobs, action):
    """Reserve, schedule and start, without the reward."""
    memory = cluster.memory
    _reserve(cluster, jobs, action)
    if memory[CANDIDATES] > 0:
        select_jobs(cluster, jobs, memory[RESERVED])
        if memory[SELECTED] > 0:
            for place in range(memory[SELECTED]):
                allocate(cluster, jobs, cluster.selected[place])
            start_ready(cluster, jobs)
            refresh_candidates(cluster)


@kernel()
def pass_minute(cluster, jobs, horizon):
    """Advance the clock by a minute and process the events at its end."""
    memory = cluster.memory
    add_minutes(cluster, 1)
    events(cluster, jobs)
    # No job starts after the end of the day.
    if memory[READY] > 0 and memory[NOW] < horizon:
        start_ready(cluster, jobs)
    refresh_promise(cluster, jobs, memory[RESERVED])


@kernel()
def _reserve(cluster, jobs, action):
    memory, vacant = cluster.memory, cluster.vacant
    memory[RESERVED] = action
    if action <= 0:
        return
    reserved = min(action, vacant[ON] + vacant[SWITCHING_ON] + vacant[SLEEPING] + vacant[SWITCHING_OFF])
    if memory[WAITING] > 0 and memory[PROMISE] == 0:
        needed = (jobs.cores[memory[HEAD]] + cluster.cores - 1) // cluster.cores
        reserved = min(reserved, cluster.nodes - needed)
    memory[RESERVED] = reserved
    switch_off_first(cluster, reserved - vacant[SLEEPING] - vacant[SWITCHING_OFF])


@kernel()
def _reward(cluster, jobs):
    """Return minus the minute's waste, as a share of the largest possible, minus the late requests.

    Summed node by node in the authors' order: the last bits depend on it.
    """
    share, wasted = cluster.share, 0.0
    if cluster.in_state[SLEEPING] + cluster.memory[COMPUTERS] < cluster.nodes:
        for node in range(cluster.nodes):
            if cluster.busy[node] == 0:
                wasted += share[cluster.state[node]]
    return -(wasted / cluster.nodes + _lateness(cluster, jobs))


@kernel()
def _lateness(cluster, jobs):
    memory, tau, late = cluster.memory, cluster.share[TAU], 0.0
    if memory[CANDIDATES] == 0:
        return late
    total = cluster.nodes * cluster.cores
    if cluster.flags & EVERY_LATE_JOB:
        requests = 0
        for place in range(memory[WAITING]):
            job = cluster.queue[place]
            if (memory[NOW] - jobs.submit[job]) / jobs.walltime[job] >= tau:
                requests += jobs.cores[job]
        return requests / total
    if memory[RESERVED] > 0:
        select_jobs(cluster, jobs, 0)
        for place in range(memory[SELECTED]):
            job = cluster.selected[place]
            if (memory[NOW] - jobs.submit[job]) / jobs.walltime[job] >= tau:
                late += jobs.cores[job] / total
    return late


@kernel()
def add_minutes(cluster, minutes):
    """Advance the clock by minutes without events, and account for them."""
    memory, totals, in_state = cluster.memory, cluster.totals, cluster.in_state
    memory[NOW] += minutes
    totals[ON] += minutes * (in_state[ON] - memory[COMPUTERS])
    totals[SWITCHING_ON] += minutes * in_state[SWITCHING_ON]
    totals[SLEEPING] += minutes * in_state[SLEEPING]
    totals[SWITCHING_OFF] += minutes * in_state[SWITCHING_OFF]
    totals[COMPUTING] += minutes * memory[COMPUTERS]
    totals[REPORTED_IDLE] += minutes * (in_state[ON] - memory[BOOKED])
    totals[CORE_MINUTES] += minutes * memory[BUSY]


@kernel()
def quiet_until(cluster, jobs, horizon):
    """Return the minute before the next event if nothing can change until then, else -1.

    That is so if no job waits and every node sleeps or computes: nothing to switch, to start or to waste.
    """
    memory = cluster.memory
    if memory[WAITING] + memory[READY] > 0 or cluster.in_state[SLEEPING] + memory[COMPUTERS] < cluster.nodes:
        return -1
    following = memory[NEXT_END]
    if memory[ARRIVED] < jobs.number:
        following = min(following, jobs.submit[memory[ARRIVED]])
    return min(following, horizon) - 1


@kernel()
def is_over(cluster, jobs, horizon):
    """Return whether the day has ended."""
    memory = cluster.memory
    if memory[NOW] >= horizon:
        return True
    return cluster.flags & UNTIL_DONE != 0 and memory[DONE] == jobs.number
