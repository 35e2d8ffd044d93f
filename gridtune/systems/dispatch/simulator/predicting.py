"""What a broker believes: how fast machines are, when a job would end, and how late jobs will be.

A prediction is a list schedule of a queue on its machine's processors by the estimates of its jobs and the
speed factor that the broker believes in, which it either knows or learns from the jobs that have ended.
Nothing here looks at a job's length or at the end of one that runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import bare, kernel
from gridtune.systems.dispatch.simulator.state import FINISHED, MACHINES, NOBODY, NOW, Site

__all__ = [
    "Belief",
    "bare_belief",
    "chance_in_time",
    "learn",
    "new_belief",
    "predicted_finish",
    "queue_tardiness",
]

#: Where the speed factors come from: told by the machines, learned, or taken to be 1.
KNOWN, LEARNED, NOMINAL = range(3)
#: Orders of a queue into which a job is put: last; before later due dates; before longer estimates.
RELEASE, DUE_DATE, SHORTEST = range(3)
#: By how much the logarithms of machines' speed factors are expected to differ.
SPREAD = 0.25
#: Ended jobs whose predictions are remembered.
REMEMBERED = 200


class Belief(NamedTuple):
    """What the broker believes of `m` machines, and has predicted of `n` jobs.

    Attributes
    ----------
    factor
        Shape (m,), float64: seconds per estimated second.
    weight, logs, squares
        Shape (m,), float64: of the logarithms of run time over estimate of ended jobs, each counting
        `forget` times as much as the next on its machine, the sum of weights, the sum and that of squares.
    predicted
        Shape (n,), int64: seconds from the placing of a job to its predicted end; 0 where none was predicted
        when it was last placed.
    ratio
        Shape (`REMEMBERED`,), float64: seconds from placing to end over those predicted, of the last jobs.
    free
        Shape (p,), int64: scratch, when each processor falls free.
    counts
        Shape (3,), int64: where factors come from; ended jobs learned from; ratios known.
    forget
        Shape (1,), float64.
    """

    factor: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    logs: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]
    predicted: npt.NDArray[np.int64]
    ratio: npt.NDArray[np.float64]
    free: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    forget: npt.NDArray[np.float64]


def new_belief(site: Site, speeds: int, forget: float) -> Belief:
    """Return the belief before the first job: every machine has the factor 1."""
    machines = len(site.factor)
    weight, logs, squares = np.zeros((3, machines))
    return Belief(
        np.ones(machines),
        weight,
        logs,
        squares,
        np.zeros(len(site.submit), np.int64),
        np.zeros(REMEMBERED),
        np.zeros(len(site.slot), np.int64),
        np.array([speeds, 0, 0], np.int64),
        np.array([forget]),
    )


@kernel()
def bare_belief(belief):
    """Return the same belief with bare columns."""
    return Belief(
        bare(belief.factor),
        bare(belief.weight),
        bare(belief.logs),
        bare(belief.squares),
        bare(belief.predicted),
        bare(belief.ratio),
        bare(belief.free),
        bare(belief.counts),
        bare(belief.forget),
    )


@kernel()
def learn(site, belief):
    """Learn from the jobs that have ended since; known factors are looked up."""
    counts, first = belief.counts, belief.counts[1]
    while counts[1] < site.memory[FINISHED]:
        job = site.ended[counts[1]]
        machine = site.machine[job]
        if belief.predicted[job] > 0:
            took = site.finish[job] - site.placed[job]
            belief.ratio[counts[2] % REMEMBERED] = took / belief.predicted[job]
            counts[2] += 1
        if counts[0] == LEARNED:
            kept = np.log((site.finish[job] - site.start[job]) / site.estimate[job])
            belief.weight[machine] = belief.forget[0] * belief.weight[machine] + 1.0
            belief.logs[machine] = belief.forget[0] * belief.logs[machine] + kept
            belief.squares[machine] = belief.forget[0] * belief.squares[machine] + kept * kept
        counts[1] += 1
    if counts[0] == LEARNED and counts[1] > first:
        _estimate_factors(site, belief)
    if counts[0] == KNOWN:
        for machine in range(site.memory[MACHINES]):
            belief.factor[machine] = site.factor[machine]


@kernel()
def _estimate_factors(site, belief):
    """Estimate each machine's factor from what its jobs took over their estimates.

    Normal-normal shrinkage of the logarithms: a machine's mean is drawn towards that of all by as much as
    the scatter of its jobs makes it unsure, given how much machines are expected to differ (`SPREAD`). Where
    estimates are exact there is no scatter, and one job tells a machine's speed; where they are far off, it
    takes many to tell machines apart. Half the scatter's variance turns the mean logarithm into a mean.
    """
    weight, total, scatter, seen = 0.0, 0.0, 0.0, 0.0
    for machine in range(site.memory[MACHINES]):
        own = belief.weight[machine]
        if own > 0.0:
            weight += own
            total += belief.logs[machine]
            scatter += belief.squares[machine] - belief.logs[machine] * belief.logs[machine] / own
            seen += 1.0
    overall = total / weight
    variance = max(0.0, scatter) / max(1.0, weight - seen)
    for machine in range(site.memory[MACHINES]):
        own, apart = belief.weight[machine], 0.0
        if own > 0.0:
            apart = belief.logs[machine] / own - overall
            apart *= SPREAD * SPREAD / (SPREAD * SPREAD + variance / own)
        belief.factor[machine] = np.exp(overall + apart + 0.5 * variance)


@kernel()
def _seconds(site, belief, machine, job):
    return max(1, int(np.rint(site.estimate[job] * belief.factor[machine])))


@kernel()
def _free_processors(site, belief, machine):
    """Write down when each processor is expected to fall free: overdue jobs are expected to end now."""
    now = site.memory[NOW]
    for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
        job = site.slot[slot]
        if job == NOBODY:
            belief.free[slot] = now
        else:
            belief.free[slot] = max(now, site.start[job] + _seconds(site, belief, machine, job))


@kernel()
def _next_free(site, belief, machine):
    best = site.first_slot[machine]
    for slot in range(best + 1, site.first_slot[machine + 1]):
        if belief.free[slot] < belief.free[best]:
            best = slot
    return best


@kernel()
def predicted_finish(site, belief, machine, job, follower):
    """Return when a job would end if it stood before `follower` (NOBODY: last) in a machine's queue."""
    _free_processors(site, belief, machine)
    waiting = site.head[machine]
    while waiting != follower:
        slot = _next_free(site, belief, machine)
        belief.free[slot] += _seconds(site, belief, machine, waiting)
        waiting = site.after[waiting]
    return belief.free[_next_free(site, belief, machine)] + _seconds(site, belief, machine, job)


@kernel()
def queue_tardiness(site, belief, machine, job, follower, without):
    """Return the predicted seconds that a queue's waiting jobs end after their deadlines, added up.

    Parameters
    ----------
    site, belief, machine
        Which queue.
    job, follower
        As if `job` stood before `follower`; NOBODY for the queue as it is.
    without
        As if this job were not in the queue; NOBODY for none.
    """
    _free_processors(site, belief, machine)
    late, waiting, pending = 0, site.head[machine], job
    while waiting != NOBODY or pending != NOBODY:
        if pending != NOBODY and waiting == follower:
            chosen, pending = pending, NOBODY
        else:
            chosen, waiting = waiting, site.after[waiting]
        if chosen == without:
            continue
        slot = _next_free(site, belief, machine)
        belief.free[slot] += _seconds(site, belief, machine, chosen)
        late += max(0, belief.free[slot] - site.deadline[chosen])
    return late


@kernel()
def follower_of(site, job, machine, order):
    """Return the waiting job before which a job belongs in a queue of that order; NOBODY for the end."""
    if order == RELEASE:
        # Whoever came later stands behind; only a job that is moved has such.
        own, keys = site.submit[job], site.submit
    elif order == DUE_DATE:
        own, keys = site.deadline[job], site.deadline
    else:
        own, keys = site.estimate[job], site.estimate
    waiting = site.head[machine]
    while waiting != NOBODY and (waiting == job or keys[waiting] <= own):
        waiting = site.after[waiting]
    return waiting


@kernel()
def most_tardy_job(site, belief, machine, barred):
    """Return the waiting job that is predicted to be latest, the first of several; NOBODY if all are in time.

    `barred`, shape (n,): jobs that may not be chosen are those whose entry is not 0.
    """
    _free_processors(site, belief, machine)
    best, latest, waiting = NOBODY, 0, site.head[machine]
    while waiting != NOBODY:
        slot = _next_free(site, belief, machine)
        belief.free[slot] += _seconds(site, belief, machine, waiting)
        late = belief.free[slot] - site.deadline[waiting]
        if late > latest and barred[waiting] == 0:
            best, latest = waiting, late
        waiting = site.after[waiting]
    return best


@kernel()
def chance_in_time(site, belief, job, predicted):
    """Return how probably a job placed now ends in time, if it is predicted to end in so many seconds.

    The share of remembered jobs that would have: those whose seconds over predicted seconds was at most
    what the deadline leaves this one, with one half added to either side (Krichevsky and Trofimov).
    """
    known = min(belief.counts[2], REMEMBERED)
    allowed, kept = (site.deadline[job] - site.memory[NOW]) / predicted, 0
    for place in range(known):
        if belief.ratio[place] <= allowed:
            kept += 1
    return (kept + 0.5) / (known + 1.0)


@kernel()
def any_up(site):
    """Tell whether a machine is up."""
    up = 0
    for machine in range(site.memory[MACHINES]):
        if site.down[machine] == 0:
            up += 1
    return up > 0
