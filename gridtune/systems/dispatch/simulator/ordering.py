"""The order of a queue: which job stands before which, and which is taken next."""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.simulator.state import MACHINES, NOBODY, NOW

__all__ = ["ATC", "DUE_DATE", "RELEASE", "SHORTEST", "follower_of", "next_waiting"]

#: Orders of a queue into which a job is put: last; before later due dates; before longer estimates; before
#: jobs of a smaller apparent tardiness cost.
RELEASE, DUE_DATE, SHORTEST, ATC = range(4)


@kernel()
def follower_of(site, job, queue, order):
    """Return the waiting job before which a job belongs in a queue of that order; NOBODY for the end."""
    if order == ATC:
        return _less_urgent(site, job, queue)
    if order == RELEASE:
        # Later arrivals stand behind; only a job that is moved has any.
        own, keys = site.submit[job], site.submit
    elif order == DUE_DATE:
        own, keys = site.deadline[job], site.deadline
    else:
        own, keys = site.estimate[job], site.estimate
    waiting = site.head[queue]
    while waiting != NOBODY and (waiting == job or keys[waiting] <= own):
        waiting = site.after[waiting]
    return waiting


@kernel()
def next_waiting(site, queue, machine):
    """Return the job of a queue that a machine takes next; the queue is not empty.

    The first; or, with a look-ahead, the one of the largest apparent tardiness cost, of several the first.
    """
    best = site.head[queue]
    if site.lookahead[0] <= 0.0 or site.after[best] == NOBODY:
        return best
    mean = site.backlog[queue] / site.waiting[queue] * site.believed[machine]
    highest, waiting = -np.inf, best
    while waiting != NOBODY:
        urgency = _urgency(site, waiting, machine, mean)
        if urgency > highest:
            best, highest = waiting, urgency
        waiting = site.after[waiting]
    return best


@kernel()
def _less_urgent(site, job, queue):
    """Return the first waiting job of a smaller apparent tardiness cost than this one has now.

    Costs change with time, so that this place only says what to predict; `next_waiting` takes by the cost at
    that time. In the shared queue, of which nothing is predicted, a job goes to the end.
    """
    if queue == site.memory[MACHINES]:
        return NOBODY
    total = site.backlog[queue] + site.estimate[job]
    mean = total / (site.waiting[queue] + 1) * site.believed[queue]
    own, waiting = _urgency(site, job, queue, mean), site.head[queue]
    while waiting != NOBODY and (waiting == job or _urgency(site, waiting, queue, mean) >= own):
        waiting = site.after[waiting]
    return waiting


@kernel()
def _urgency(site, job, machine, mean):
    """Return the logarithm of the apparent tardiness cost, log(exp(−max(0, d − p − t)/(k·p̄))/p).

    p is the job's run time on that machine by its estimate, p̄ the mean of the waiting jobs, d its deadline.
    Source: Vepsalainen and Morton, "Priority rules for job shops with weighted tardiness costs", Management
    Science 33, 1987.
    """
    seconds = site.estimate[job] * site.believed[machine]
    slack = max(0.0, site.deadline[job] - seconds - site.memory[NOW])
    return -slack / (site.lookahead[0] * mean) - np.log(seconds)
