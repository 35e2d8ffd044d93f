"""Rules that choose a machine: simple selectors, insertion in several orders; and tabu search.

Source of selectors, insertion and tabu search: Vladušič, "Using the black-box approach with machine learning
methods in order to improve job scheduling in GRID environments", sections 2.2.2 and 2.3; Klusáček, Matyska,
Rudová, "Alea: grid scheduling simulation environment", PPAM 2007.
"""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.simulator.predicting import (
    any_up,
    most_tardy_job,
    predicted_finish,
    queue_tardiness,
)
from gridtune.systems.dispatch.simulator.site import (
    ATC,
    DUE_DATE,
    NEVER,
    NOBODY,
    RELEASE,
    SHORTEST,
    follower_of,
    place,
    take_out,
)

__all__ = ["insertion", "select_simply", "tabu_search"]

#: Rules: the first three look at queues only, the next four insert, the last lets machines pull.
RANDOM, ROUND_ROBIN, FIRST_AVAILABLE, EDD, ERD, SPT, APPARENT_COST, SHARED_QUEUE = range(8)
#: The order of the queue into which each of the rules but the last puts a job.
ORDERS = (RELEASE, RELEASE, RELEASE, DUE_DATE, RELEASE, SHORTEST, ATC)


@kernel()
def select_simply(site, job, rule, draw):
    """Return a machine by one of the simple selectors.

    Parameters
    ----------
    site, job
        The job to send.
    rule
        `RANDOM`; `ROUND_ROBIN`, by the job's number; or `FIRST_AVAILABLE`: from a random machine on the
        first idle one, else the first of those with the fewest waiting jobs; machines that are down are
        left out while others are up.
    draw
        Random number from [0, 1), for the random machine.
    """
    machines = site.state.machines
    if rule == ROUND_ROBIN:
        return job % machines
    first = int(draw * machines)
    if rule == RANDOM:
        return first
    up, best = any_up(site), NOBODY
    for step in range(machines):
        machine = (first + step) % machines
        if up and site.down[machine] > 0:
            continue
        if site.down[machine] == 0 and site.running[machine] < site.cpus[machine]:
            return machine
        if best == NOBODY or site.waiting[machine] < site.waiting[best]:
            best = machine
    return best


@kernel()
def insertion(site, broker, job, rule):
    """Return the machine whose predicted tardiness grows least by a job, the job it goes before, and its end.

    Of several machines the one where the job ends first. Under `SPT` the growth is estimated: the job's own
    tardiness, and its share of a processor's time for each job that it goes before.
    Machines that are down are left out while others are up.
    """
    up, best, before = any_up(site), NOBODY, NOBODY
    least, earliest = NEVER, NEVER
    for machine in range(site.state.machines):
        if up and site.down[machine] > 0:
            continue
        behind = 0
        if rule == SPT:
            follower, behind = site.head[machine], site.waiting[machine]
            while follower != NOBODY and site.estimate[follower] <= site.estimate[job]:
                follower, behind = site.after[follower], behind - 1
        elif rule == ERD:
            follower = NOBODY
        else:
            follower = follower_of(site, job, machine, ORDERS[rule])
        ending = predicted_finish(site, broker, machine, job, follower)
        growth = max(0, ending - site.deadline[job])
        if rule == SPT:
            seconds = max(1, int(np.rint(site.estimate[job] * broker.factor[machine])))
            growth += behind * seconds // site.cpus[machine]
        elif follower != NOBODY:
            growth = queue_tardiness(site, broker, machine, job, follower, NOBODY)
            growth -= queue_tardiness(site, broker, machine, NOBODY, NOBODY, NOBODY)
        if growth < least or (growth == least and ending < earliest):
            best, before, least, earliest = machine, follower, growth, ending
    return best, before, earliest


@kernel()
def tabu_search(site, broker, steps):
    """Move waiting jobs between machines while that lessens the predicted tardiness of all.

    A step takes the most tardy machine that is not barred, its most tardy job that is not barred, and puts
    it by due date into the queue of the machine of least tardiness. If the tardiness of all falls, the job
    stays there and is barred; else it goes back and its machine is barred, as is one without such a job.
    A moved job has no prediction.

    Parameters
    ----------
    site, broker
        The queues, and what to predict by; `broker.predicted` of moved jobs becomes 0.
    steps
        At most this many.

    Returns
    -------
    int
        Jobs that were moved.
    """
    late, barred_machine, barred_job = broker.late, broker.barred_machine, broker.barred_job
    moved, up = 0, any_up(site)
    for machine in range(site.state.machines):
        late[machine] = queue_tardiness(site, broker, machine, NOBODY, NOBODY, NOBODY)
        barred_machine[machine] = 0
    for _ in range(steps):
        source, target = _most_and_least(site, late, barred_machine, up)
        if source == NOBODY or late[source] == 0:
            break
        job = most_tardy_job(site, broker, source)
        if NOBODY in (job, target):
            barred_machine[source] = 1
            continue
        follower = follower_of(site, job, target, DUE_DATE)
        left = queue_tardiness(site, broker, source, NOBODY, NOBODY, job)
        grown = queue_tardiness(site, broker, target, job, follower, NOBODY)
        if left + grown < late[source] + late[target]:
            take_out(site, job)
            place(site, job, target, follower)
            # A prediction for its old place says nothing about how good predictions are here.
            broker.predicted[job] = 0
            late[source] = left
            late[target] = queue_tardiness(site, broker, target, NOBODY, NOBODY, NOBODY)
            barred_job[job] = 1
            moved += 1
        else:
            barred_machine[source] = 1
    if moved > 0:
        _unbar(site, barred_job)
    return moved


@kernel()
def _most_and_least(site, late, barred, up):
    """Return the most tardy machine that is not barred, and the least tardy of the others that is up."""
    source, target = NOBODY, NOBODY
    for machine in range(site.state.machines):
        if barred[machine] == 0 and (source == NOBODY or late[machine] > late[source]):
            source = machine
    for machine in range(site.state.machines):
        if machine == source or (up and site.down[machine] > 0):
            continue
        if target == NOBODY or late[machine] < late[target]:
            target = machine
    return source, target


@kernel()
def _unbar(site, barred_job):
    """Clear the entries of waiting jobs, and of running ones: a barred job may just have started."""
    for machine in range(site.state.machines):
        waiting = site.head[machine]
        while waiting != NOBODY:
            barred_job[waiting] = 0
            waiting = site.after[waiting]
        for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
            if site.slot[slot] != NOBODY:
                barred_job[site.slot[slot]] = 0
