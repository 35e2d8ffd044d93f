"""A broker's predictions: machines' speeds, and ends and tardiness of jobs.

A prediction is a list schedule of a queue on its machine's processors by the estimates of its jobs and the
speed factor that the broker believes in, which it either knows or learns from the jobs that have ended.
Nothing here looks at a job's length or at the end of one that runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.simulator.site import NOBODY, MachineQueues
from gridtune.types import FloatArray, IntArray

#: Sources of speed factors: the machines themselves, ended jobs, or none (all are 1).
KNOWN, LEARNED, NOMINAL = range(3)
#: By how much the logarithms of machines' speed factors are expected to differ.
SPREAD = 0.25
#: Ended jobs whose predictions are remembered.
REMEMBERED = 200


#: `speeds`: where the speed factors come from; `seen`: ended jobs learned from; `ratios`: ratios recorded;
#: `forget`: see `weight`.
LEARNING = np.dtype(
    [
        *(("speeds", "i8"), ("seen", "i8"), ("ratios", "i8")),
        ("forget", "f8"),
    ],
    align=True,
)


class _BrokerState(NamedTuple):
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
    late: IntArray
    barred_machine: IntArray
    barred_job: IntArray


def new_broker_state(site: MachineQueues, speeds: int, forget: float) -> _BrokerState:
    """Return the state before the first job: every machine has the factor 1.

    Parameters
    ----------
    site
        The site that the broker observes.
    speeds
        The source of speed factors.
    forget
        See `gridtune.systems.dispatch.simulator.replay.dispatch`.
    """
    machines = len(site.factor)
    weight, logs, squares = np.zeros((3, machines))
    return _BrokerState(
        site.believed,
        weight,
        logs,
        squares,
        np.zeros(len(site.submit), np.int64),
        np.zeros(REMEMBERED),
        np.zeros(len(site.slot), np.int64),
        np.array((speeds, 0, 0, forget), LEARNING),
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
