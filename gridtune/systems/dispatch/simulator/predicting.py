"""A broker's predictions: machines' speeds, ends and tardiness of jobs, and the attributes that learners get.

A prediction is a list schedule of a queue on its machine's processors by the estimates of its jobs and the
speed factor that the broker believes in, which it either knows or learns from the jobs that have ended.
Nothing here looks at a job's length or at the end of one that runs.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.simulator.site import NOBODY, Site, follower_of
from gridtune.types import FloatArray, IntArray

__all__ = [
    "ATTRIBUTES",
    "LEFT",
    "MACHINE",
    "PREDICTED",
    "AttributeSet",
    "chance_in_time",
    "correct_estimate",
    "describe",
    "describe_waiting",
    "learn",
    "new_broker_state",
    "predicted_finish",
    "queue_tardiness",
]

#: Sources of speed factors: the machines themselves, ended jobs, or none (all are 1).
KNOWN, LEARNED, NOMINAL = range(3)
#: By how much the logarithms of machines' speed factors are expected to differ.
SPREAD = 0.25
#: Ended jobs whose predictions are remembered.
REMEMBERED = 200


#: `speeds`: where the speed factors come from; `seen`: ended jobs learned from; `ratios`: ratios recorded;
#: `corrects`: whether estimates are corrected; `published`: whether `clock` holds; `forget`: see `weight`.
LEARNING = np.dtype(
    [
        *(("speeds", "i8"), ("seen", "i8"), ("ratios", "i8")),
        *(("corrects", "?"), ("published", "?"), ("forget", "f8")),
    ],
    align=True,
)


class BrokerState(NamedTuple):
    """The broker's estimates of `m` machines' speeds, and its predictions for `n` jobs.

    Attributes
    ----------
    factor
        Shape (m,), float64: seconds per estimated second; the site's `believed` itself.
    weight, logs, squares
        Shape (m,), float64: of the logarithms of run time over estimate of ended jobs, each counting
        `forget` times as much as the next on its machine, the sum of weights, the sum and that of squares.
    predicted
        Shape (n,), int64: seconds from the placing of a job to its predicted end; 0 where none was predicted
        when it was last placed.
    ratio
        Shape (`REMEMBERED`,), float64: seconds from placing to end over those predicted, of the last jobs.
    free
        Shape (p,), int64: scratch, when each processor becomes free.
    learning
        Shape (), `LEARNING`.
    user
        Shape (n,), int64: whose jobs they are; empty if estimates are not corrected.
    recent
        Shape (2 · users,), float64: seconds at factor 1 of each user's last two ended jobs, the last one
        first; 0 for none.
    clock
        Shape (n,), int64: deadlines on the clock of each batch, as published attributes; empty for others.
    late, barred_machine, barred_job
        Shapes (m,), (m,), (n,), int64: scratch of the tabu search; the last is 0 between searches.
    """

    factor: FloatArray
    weight: FloatArray
    logs: FloatArray
    squares: FloatArray
    predicted: IntArray
    ratio: FloatArray
    free: IntArray
    learning: npt.NDArray[np.void]
    user: IntArray
    recent: FloatArray
    clock: IntArray
    late: IntArray
    barred_machine: IntArray
    barred_job: IntArray


def new_broker_state(
    site: Site, speeds: int, forget: float, user: IntArray | None = None, clock: IntArray | None = None
) -> BrokerState:
    """Return the state before the first job: every machine has the factor 1.

    Parameters
    ----------
    site
        The site that the broker observes.
    speeds
        The source of speed factors.
    forget
        See `gridtune.systems.dispatch.simulator.replay.dispatch`.
    user
        Shape (n,): whose jobs they are, if estimates are to be corrected by the last jobs of the same user.
    clock
        Shape (n,): deadlines on the clock of each batch, if attributes are to be the published ones.
    """
    corrects = user is not None
    user = np.zeros(0, np.int64) if user is None else user
    machines = len(site.factor)
    weight, logs, squares = np.zeros((3, machines))
    return BrokerState(
        site.believed,
        weight,
        logs,
        squares,
        np.zeros(len(site.submit), np.int64),
        np.zeros(REMEMBERED),
        np.zeros(len(site.slot), np.int64),
        np.array((speeds, 0, 0, corrects, clock is not None, forget), LEARNING),
        user,
        np.zeros(2 * (int(user.max(initial=-1)) + 1)),
        np.zeros(0, np.int64) if clock is None else clock,
        np.zeros(machines, np.int64),
        np.zeros(machines, np.int64),
        np.zeros(len(site.submit), np.int64),
    )


@kernel()
def learn(site, broker):
    """Learn from the jobs that have ended since the last call; known factors are looked up."""
    learning, first = broker.learning, broker.learning.seen
    while learning.seen < site.state.finished:
        job = site.ended[learning.seen]
        machine = site.machine[job]
        if broker.predicted[job] > 0:
            took = site.finish[job] - site.placed[job]
            broker.ratio[learning.ratios % REMEMBERED] = took / broker.predicted[job]
            learning.ratios += 1
        if learning.corrects:
            place = 2 * broker.user[job]
            broker.recent[place + 1] = broker.recent[place]
            broker.recent[place] = (site.finish[job] - site.start[job]) / broker.factor[machine]
        if learning.speeds == LEARNED:
            log_factor = np.log((site.finish[job] - site.start[job]) / site.estimate[job])
            broker.weight[machine] = learning.forget * broker.weight[machine] + 1.0
            broker.logs[machine] = learning.forget * broker.logs[machine] + log_factor
            broker.squares[machine] = learning.forget * broker.squares[machine] + log_factor * log_factor
        learning.seen += 1
    if learning.speeds == LEARNED and learning.seen > first:
        _estimate_factors(site, broker)
    if learning.speeds == KNOWN:
        for machine in range(site.state.machines):
            broker.factor[machine] = site.factor[machine]


@kernel()
def correct_estimate(site, broker, job):
    """Replace an arriving job's estimate by the mean of its user's last two ended jobs, if that is less.

    Source: Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than user
    runtime estimates", IEEE TPDS 18, 2007.
    """
    if not broker.learning.corrects:
        return
    place = 2 * broker.user[job]
    last, other = broker.recent[place], broker.recent[place + 1]
    if last > 0.0:
        mean = 0.5 * (last + other) if other > 0.0 else last
        site.estimate[job] = max(1, min(site.estimate[job], int(np.rint(mean))))


@kernel()
def _estimate_factors(site, broker):
    """Estimate each machine's factor from what its jobs took over their estimates.

    Normal-normal shrinkage of the logarithms: a machine's mean is drawn towards that of all by as much as
    the scatter of its jobs makes it unsure, given how much machines are expected to differ (`SPREAD`). Where
    estimates are exact there is no scatter, and one job tells a machine's speed; where they are far off, it
    takes many to tell machines apart. Half the scatter's variance turns the mean logarithm into a mean.
    """
    weight, total, scatter, machines = 0.0, 0.0, 0.0, 0.0
    for machine in range(site.state.machines):
        own = broker.weight[machine]
        if own > 0.0:
            weight += own
            total += broker.logs[machine]
            scatter += broker.squares[machine] - broker.logs[machine] * broker.logs[machine] / own
            machines += 1.0
    overall = total / weight
    variance = max(0.0, scatter) / max(1.0, weight - machines)
    for machine in range(site.state.machines):
        own, apart = broker.weight[machine], 0.0
        if own > 0.0:
            apart = broker.logs[machine] / own - overall
            apart *= SPREAD * SPREAD / (SPREAD * SPREAD + variance / own)
        broker.factor[machine] = np.exp(overall + apart + 0.5 * variance)


@kernel()
def _seconds(site, broker, machine, job):
    return max(1, int(np.rint(site.estimate[job] * broker.factor[machine])))


@kernel()
def _free_processors(site, broker, machine):
    """Fill in when each processor is expected to become free: overdue jobs are expected to end now."""
    now = site.state.now
    for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
        job = site.slot[slot]
        if job == NOBODY:
            broker.free[slot] = now
        else:
            broker.free[slot] = max(now, site.start[job] + _seconds(site, broker, machine, job))


@kernel()
def _next_free(site, broker, machine):
    best = site.first_slot[machine]
    for slot in range(best + 1, site.first_slot[machine + 1]):
        if broker.free[slot] < broker.free[best]:
            best = slot
    return best


@kernel()
def predicted_finish(site, broker, machine, job, follower):
    """Return when a job would end if it stood before `follower` (NOBODY: last) in a machine's queue."""
    _free_processors(site, broker, machine)
    waiting = site.head[machine]
    while waiting != follower:
        slot = _next_free(site, broker, machine)
        broker.free[slot] += _seconds(site, broker, machine, waiting)
        waiting = site.after[waiting]
    return broker.free[_next_free(site, broker, machine)] + _seconds(site, broker, machine, job)


@kernel()
def queue_tardiness(site, broker, machine, job, follower, without):
    """Return the predicted seconds that a queue's waiting jobs end after their deadlines, added up.

    Parameters
    ----------
    site, broker, machine
        The queue.
    job, follower
        As if `job` stood before `follower`; NOBODY for the queue as it is.
    without
        As if this job were not in the queue; NOBODY for none.
    """
    _free_processors(site, broker, machine)
    late, waiting, pending = 0, site.head[machine], job
    while waiting != NOBODY or pending != NOBODY:
        if pending != NOBODY and waiting == follower:
            current, pending = pending, NOBODY
        else:
            current, waiting = waiting, site.after[waiting]
        if current == without:
            continue
        slot = _next_free(site, broker, machine)
        broker.free[slot] += _seconds(site, broker, machine, current)
        late += max(0, broker.free[slot] - site.deadline[current])
    return late


@kernel()
def most_tardy_job(site, broker, machine):
    """Return the waiting job that is predicted to be latest, the first of several; NOBODY if all are in time.

    Jobs whose entry in `broker.barred_job` is not 0 are left out.
    """
    _free_processors(site, broker, machine)
    best, latest, waiting = NOBODY, 0, site.head[machine]
    while waiting != NOBODY:
        slot = _next_free(site, broker, machine)
        broker.free[slot] += _seconds(site, broker, machine, waiting)
        late = broker.free[slot] - site.deadline[waiting]
        if late > latest and broker.barred_job[waiting] == 0:
            best, latest = waiting, late
        waiting = site.after[waiting]
    return best


@kernel()
def chance_in_time(site, broker, job, predicted):
    """Return the chance that a job placed now ends in time, if it is predicted to end in that many seconds.

    The share of remembered jobs that would have: those whose seconds over predicted seconds was at most
    what the deadline leaves this one, with one half added to either side (Krichevsky and Trofimov).
    """
    ratios = min(broker.learning.ratios, REMEMBERED)
    allowed, in_time = (site.deadline[job] - site.state.now) / predicted, 0
    for place in range(ratios):
        if broker.ratio[place] <= allowed:
            in_time += 1
    return (in_time + 0.5) / (ratios + 1.0)


@kernel()
def any_up(site):
    """Tell whether a machine is up."""
    up = 0
    for machine in range(site.state.machines):
        if site.down[machine] == 0:
            up += 1
    return up > 0


#: `published`: the paper's: estimate, deadline, queue length, machine. `observed`: the same four, but the
#: seconds left to the deadline, and jobs waiting and running. `informed`: besides, all that can be seen.
AttributeSet = Literal["published", "observed", "informed"]

#: Every attribute in the order of a row's columns; the first four are the observed set.
ATTRIBUTES = (
    "estimated run time",
    "seconds to the deadline",
    "jobs at the machine",
    "machine",
    "estimated seconds waiting before it",
    "estimated seconds left of running jobs",
    "learned speed factor",
    "predicted seconds to its end",
    "predicted slack over the estimate",
)
#: Columns: seconds that the deadline leaves; the machine, the only name; predicted seconds to the end.
LEFT, MACHINE, PREDICTED = 1, 3, 7
#: Number of columns of each set.
ATTRIBUTE_COUNTS: dict[AttributeSet, int] = {"published": 4, "observed": 4, "informed": len(ATTRIBUTES)}
_OBSERVED = ATTRIBUTE_COUNTS["observed"]


@kernel()
def describe(site, broker, job, order, rows):
    """Write a row for each machine: the job's attributes if it went there now.

    Parameters
    ----------
    site, broker
        The observed site, and the broker's state.
    job
        The job; it stands in no queue.
    order
        Of the queue into which the job would be put.
    rows
        Shape (m, 4 or all attributes), float64: filled in.
    """
    for machine in range(site.state.machines):
        follower = follower_of(site, job, machine, order)
        _fill(site, broker, job, machine, follower, rows, machine)


@kernel()
def describe_waiting(site, broker, job, rows, row):
    """Write a row for a job that stands in a queue already, as if it had just been put there."""
    _fill(site, broker, job, site.machine[job], job, rows, row)
    rows[row, 2] -= 1


@kernel()
def _fill(site, broker, job, machine, follower, rows, row):
    now, estimate = site.state.now, site.estimate[job]
    rows[row, 0] = estimate
    rows[row, 1] = site.deadline[job] - now
    rows[row, 2] = site.waiting[machine] + site.running[machine]
    rows[row, 3] = machine
    if broker.learning.published:
        rows[row, 1] = broker.clock[job]
        rows[row, 2] = site.waiting[machine]
    if rows.shape[1] <= _OBSERVED:
        return
    ending = predicted_finish(site, broker, machine, job, follower)
    before, waiting = 0, site.head[machine]
    if follower == NOBODY:
        before = site.backlog[machine]
    else:
        while waiting != follower:
            before += site.estimate[waiting]
            waiting = site.after[waiting]
    # The seconds, at factor 1, that running jobs still have by their estimates.
    left = 0.0
    for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
        running = site.slot[slot]
        if running != NOBODY:
            elapsed = (now - site.start[running]) / broker.factor[machine]
            left += max(0.0, site.estimate[running] - elapsed)
    rows[row, 4] = before
    rows[row, 5] = left
    rows[row, 6] = broker.factor[machine]
    rows[row, 7] = ending - now
    rows[row, 8] = (site.deadline[job] - ending) / estimate
