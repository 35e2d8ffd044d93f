"""The adaptive rule, compiled: it lets jobs wait for nodes that are on, and knows no run times.

A job that finds no free cores on nodes that are on costs a boot and, later, a shutdown. While it has patience
left, jobs that run may end and leave it theirs. So each minute every possible reservation is tried in a dry
pass of the scheduler, and one is taken that, in this order,

1. starts the most cores of jobs whose patience is at its end,
2. is best by `eagerness` · cores started − cores of nodes that have to be switched on for them,
3. starts the most cores,
4. reserves the most.

Unlike the oracle OR* it thus never keeps a node on for a job that the scheduler would not start, and never
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
from gridtune.systems.shutdown.simulator.scheduling import choose
from gridtune.systems.shutdown.simulator.state import (
    ARRIVED,
    CANDIDATES,
    CHOSEN,
    HEAD,
    NOW,
    ON,
    PROMISE,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    WAITING,
)

__all__ = ["adaptive_reservation"]

MINUTES_AN_HOUR, HOURS_A_DAY = 60, 24


@kernel()
def adaptive_reservation(cluster, jobs, numbers):
    """Return how many nodes to keep off in the coming minute."""
    vacant = cluster.vacant
    unheld = vacant[ON] + vacant[SWITCHING_ON] + vacant[SLEEPING] + vacant[SWITCHING_OFF]
    reserved = unheld
    if cluster.memory[CANDIDATES] > 0:
        reserved = _best(cluster, jobs, numbers, unheld)
    return min(reserved, unheld - _kept(cluster, jobs, numbers))


@kernel()
def _best(cluster, jobs, numbers, unheld):
    memory, size = cluster.memory, cluster.cores
    awake, pressing = _free_awake(cluster), _pressing(cluster, jobs, numbers)
    most = unheld
    if memory[PROMISE] == 0:
        # The cluster does not reserve what the oldest job has been promised.
        most = min(most, cluster.nodes - (jobs.cores[memory[HEAD]] + size - 1) // size)
    best, best_urgent, best_value, best_started = 0, -1, 0.0, 0
    for reserved in range(most, -1, -1):
        choose(cluster, jobs, reserved)
        started, urgent = 0, 0
        for place in range(memory[CHOSEN]):
            job = cluster.chosen[place]
            started += jobs.cores[job]
            if pressing >> _seat(cluster, job) & 1:
                urgent += jobs.cores[job]
        woken = (max(started - awake, 0) + size - 1) // size
        value = numbers[EAGERNESS] * started - woken * size
        better = urgent > best_urgent
        if urgent == best_urgent:
            better = value > best_value or (value == best_value and started > best_started)
        if better:
            best, best_urgent, best_value, best_started = reserved, urgent, value, started
        if memory[CHOSEN] == memory[CANDIDATES]:
            # Whoever waits starts: nothing more comes of smaller reservations.
            break
    return best


@kernel()
def _seat(cluster, job):
    """Return a job's place among the candidates."""
    seat = 0
    while cluster.seen[seat] != job:
        seat += 1
    return seat


@kernel()
def _free_awake(cluster):
    """Return the free cores of nodes that are on or about to be."""
    cores = 0
    for node in range(cluster.nodes):
        if cluster.state[node] in (ON, SWITCHING_ON):
            cores += cluster.free[node]
    return cores


@kernel()
def _pressing(cluster, jobs, numbers):
    """Return as bits which candidates would be at their limit if they waited another minute, then booted."""
    memory, marks = cluster.memory, 0
    crowded = memory[WAITING] > numbers[MAX_QUEUE]
    for place in range(memory[CANDIDATES]):
        job = cluster.seen[place]
        limit = min(numbers[MAX_STRETCH] * jobs.walltime[job], numbers[MAX_WAIT])
        if crowded or memory[NOW] - jobs.submit[job] + 1 + cluster.on_minutes >= limit:
            marks |= 1 << place
    return marks


@kernel()
def _kept(cluster, jobs, numbers):
    """Return how many idle nodes to keep on: those idle for too short a time, and the pool."""
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
