"""The adaptive rule, compiled: it lets jobs wait for nodes that are on, without knowing run times.

A job that finds no free cores on nodes that are on costs a boot and, later, a shutdown. While it waits, a
running job may end and free its cores. So each minute the rule tries every reservation in a dry pass of the
scheduler and takes the one that, in this order,

1. starts the most cores of jobs that may not wait any longer,
2. has the largest `eagerness` · cores started − cores of nodes that have to be switched on for them,
3. starts the most cores,
4. reserves the most nodes.

Unlike the oracle OR* it never keeps a node on for a job that the scheduler would not start, and never
switches one off that a waiting job could use.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.rule_parameters import (
    EAGERNESS,
    MAX_QUEUE,
    MAX_STRETCH,
    MAX_WAIT,
    POOL,
    POOL_FROM,
    POOL_UNTIL,
    RUSH_JOBS,
    RUSH_MINUTES,
    RUSH_TIMEOUT,
    TIMEOUT_MINUTES,
)
from gridtune.systems.shutdown.simulator.scheduling import candidate_index, select_jobs
from gridtune.systems.shutdown.simulator.state import (
    ARRIVED,
    CANDIDATES,
    HEAD,
    NOW,
    ON,
    PROMISE,
    SELECTED,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    WAITING,
)

__all__ = ["adaptive_reservation", "best_reservation", "kept_on", "pressing_jobs"]

MINUTES_AN_HOUR, HOURS_A_DAY = 60, 24


@kernel()
def adaptive_reservation(cluster, jobs, numbers):
    """Return how many nodes to reserve in the coming minute."""
    vacant = cluster.vacant
    unallocated = vacant[ON] + vacant[SWITCHING_ON] + vacant[SLEEPING] + vacant[SWITCHING_OFF]
    reserved = unallocated
    if cluster.memory[CANDIDATES] > 0:
        reserved = best_reservation(cluster, jobs, numbers, unallocated)
    return min(reserved, unallocated - kept_on(cluster, jobs, numbers))


@kernel()
def best_reservation(cluster, jobs, numbers, unallocated):
    """Return the best reservation while jobs wait, without regard to nodes that are kept on."""
    memory, size = cluster.memory, cluster.cores
    awake, pressing = _free_awake(cluster), pressing_jobs(cluster, jobs, numbers)
    most = unallocated
    if memory[PROMISE] == 0:
        # Nodes promised to the oldest job cannot be reserved.
        most = min(most, cluster.nodes - (jobs.cores[memory[HEAD]] + size - 1) // size)
    best, best_urgent, best_value, best_started = 0, -1, 0.0, 0
    for reserved in range(most, -1, -1):
        select_jobs(cluster, jobs, reserved)
        started, urgent = 0, 0
        for place in range(memory[SELECTED]):
            job = cluster.selected[place]
            started += jobs.cores[job]
            if pressing >> candidate_index(cluster, job) & 1:
                urgent += jobs.cores[job]
        woken = (max(started - awake, 0) + size - 1) // size
        value = numbers[EAGERNESS] * started - woken * size
        better = urgent > best_urgent
        if urgent == best_urgent:
            better = value > best_value or (value == best_value and started > best_started)
        if better:
            best, best_urgent, best_value, best_started = reserved, urgent, value, started
        if memory[SELECTED] == memory[CANDIDATES]:
            # Every candidate starts: smaller reservations are no better.
            break
    return best


@kernel()
def _free_awake(cluster):
    """Return the free cores of nodes that are on or about to be."""
    cores = 0
    for node in range(cluster.nodes):
        if cluster.state[node] in (ON, SWITCHING_ON):
            cores += cluster.free[node]
    return cores


@kernel()
def pressing_jobs(cluster, jobs, numbers):
    """Return as bits which candidates would reach their limit if they waited another minute and a boot."""
    memory, marks = cluster.memory, 0
    crowded = memory[WAITING] > numbers[MAX_QUEUE]
    for place in range(memory[CANDIDATES]):
        job = cluster.candidates[place]
        limit = min(numbers[MAX_STRETCH] * jobs.walltime[job], numbers[MAX_WAIT])
        if crowded or memory[NOW] - jobs.submit[job] + 1 + cluster.on_minutes >= limit:
            marks |= 1 << place
    return marks


@kernel()
def kept_on(cluster, jobs, numbers):
    """Return how many idle nodes to keep on: those that have not reached the timeout, and the pool."""
    memory = cluster.memory
    timeout = numbers[TIMEOUT_MINUTES]
    longer = numbers[RUSH_TIMEOUT]
    if longer > timeout and _recent(cluster, jobs, numbers[RUSH_MINUTES]) >= numbers[RUSH_JOBS]:
        timeout = longer
    idle, kept = 0, 0
    for node in range(cluster.nodes):
        if cluster.state[node] == ON and cluster.free[node] == cluster.cores:
            idle += 1
            cluster.idle_minutes[node] += 1
            kept += cluster.idle_minutes[node] < timeout
        else:
            cluster.idle_minutes[node] = -1
    hour = memory[NOW] // MINUTES_AN_HOUR % HOURS_A_DAY
    if numbers[POOL_FROM] <= hour < numbers[POOL_UNTIL]:
        kept = max(kept, min(int(numbers[POOL]), idle))
    return kept


@kernel()
def _recent(cluster, jobs, minutes):
    """Return how many jobs were submitted in the last minutes."""
    count, job = 0, cluster.memory[ARRIVED] - 1
    while job >= 0 and jobs.submit[job] > cluster.memory[NOW] - minutes:
        count += 1
        job -= 1
    return count
