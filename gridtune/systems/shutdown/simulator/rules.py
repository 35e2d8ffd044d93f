"""Reservation rules, compiled: how many nodes to reserve in the coming minute."""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.adaptive import adaptive_reservation
from gridtune.systems.shutdown.simulator.rule_parameters import (
    ADAPTIVE,
    ALWAYS_ON,
    MAX_STRETCH,
    ORACLE,
    TIMEOUT_MINUTES,
)
from gridtune.systems.shutdown.simulator.scheduling import insert_release
from gridtune.systems.shutdown.simulator.state import (
    CANDIDATES,
    FREE,
    NOW,
    ON,
    PROMISE,
    RUNNING,
    SLEEPING,
    SWITCHING_OFF,
)

__all__ = ["decide"]


@kernel()
def decide(cluster, jobs, rule, numbers):
    """Return the action of a rule other than `RECORDED_ACTIONS`."""
    if rule == ALWAYS_ON:
        return 0
    if rule == ADAPTIVE:
        return adaptive_reservation(cluster, jobs, numbers)
    free = cluster.memory[FREE]
    if rule == ORACLE:
        return _reservation(cluster, _free_beside_urgent(cluster, jobs, free, numbers[MAX_STRETCH]), 0)
    return _reservation(cluster, _free_beside_starting(cluster, jobs, free), numbers[TIMEOUT_MINUTES])


@kernel()
def _free_beside_starting(cluster, jobs, free):
    """Return the free cores that are left after the candidates that can start have started."""
    memory, candidates = cluster.memory, cluster.candidates
    opened = True
    for place in range(memory[CANDIDATES]):
        job = candidates[place]
        width = jobs.cores[job]
        if place == 0:
            opened = memory[PROMISE] == 0 or width <= free
            if opened:
                free -= width
        elif width <= free and (opened or jobs.walltime[job] <= memory[PROMISE]):
            free -= width
    return free


@kernel()
def _free_beside_urgent(cluster, jobs, free, max_stretch):
    """Return the same, but jobs that can wait for running ones to end claim no cores."""
    memory, candidates = cluster.memory, cluster.candidates
    opened, releases = True, 0
    if memory[CANDIDATES] > 0:
        releases = _list_releases(cluster, jobs)
    for place in range(memory[CANDIDATES]):
        job = candidates[place]
        width = jobs.cores[job]
        if place == 0:
            forced = memory[PROMISE] == 0
            opened = forced or width <= free
            claims = forced or (opened and not _can_wait(cluster, jobs, job, releases, max_stretch))
        else:
            fits = width <= free and (opened or jobs.walltime[job] <= memory[PROMISE])
            claims = fits and not _can_wait(cluster, jobs, job, releases, max_stretch)
        if claims:
            free -= width
            releases = insert_release(cluster, releases, jobs.walltime[job], width)
    return free


@kernel()
def _list_releases(cluster, jobs):
    """List after how many minutes the running jobs end by their actual run times, if none is killed."""
    count = 0
    for place in range(cluster.memory[RUNNING]):
        job = cluster.running[place]
        left = cluster.start[job] + jobs.run[job] - cluster.memory[NOW]
        count = insert_release(cluster, count, left, jobs.cores[job])
    return count


@kernel()
def _can_wait(cluster, jobs, job, releases, max_stretch):
    """Return whether a job can wait until the cores it needs are free, or all of them."""
    waited, walltime = cluster.memory[NOW] - jobs.submit[job], jobs.walltime[job]
    if releases == 0 or waited / walltime >= max_stretch:
        return False
    place, have = 0, cluster.release_cores[0]
    while have < jobs.cores[job] and place + 1 < releases:
        place += 1
        have += cluster.release_cores[place]
    return (waited + cluster.release_minutes[place]) / walltime < max_stretch


@kernel()
def _reservation(cluster, free, timeout):
    """Count nodes that are off or have idled for the timeout, as long as free cores are left.

    As in the authors' code, nodes are visited only while free cores are left; the others keep their count of
    idle minutes.
    """
    reserved = 0
    for node in range(cluster.nodes):
        if free < cluster.cores:
            break
        state = cluster.state[node]
        if state == ON and cluster.busy[node] == 0:
            cluster.idle_minutes[node] += 1
        else:
            cluster.idle_minutes[node] = -1
        if cluster.idle_minutes[node] >= timeout or state in (SLEEPING, SWITCHING_OFF):
            reserved += 1
            free -= cluster.cores
    return reserved
