"""Lower bounds of the mean response time and the mean tardiness that any dispatcher can reach.

Nothing here is online: a bound knows all jobs and how long they run.
"""

from __future__ import annotations

import heapq

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.site import FAILURE, SPEED
from gridtune.types import IntArray

#: Of at most this many jobs the best schedule is computed.
EXACT = 10
#: Partial sequences of the same jobs that are kept; where more are needed, the bound of many jobs stands.
_LABELS = 400
_TINY = 1e-6


def lower_bounds(jobs: DispatchJobs, machines: Machines) -> tuple[float, float]:
    """Return lower bounds of the mean response time and the mean tardiness of the jobs of all batches.

    In seconds; NaN without jobs.

    Of at most ten jobs on machines that do not change, the optimum itself, by dynamic programming over sets
    of jobs. Else the k-th job to end, ends no earlier than the k-th on a single preemptive machine as fast
    as all together that always runs the job with the shortest remaining time (which never has more jobs ended
    than it could have, Schrage 1968), and no earlier than if every job began at once on the fastest machine.
    Tardiness pairs the k-th end with the k-th due date, which is the least that any pairing comes to.

    Sources: Schrage, "A proof of the optimality of the shortest remaining processing time discipline",
    Operations Research 16, 1968; Chu, "A branch-and-bound algorithm to minimize total tardiness with
    different release dates", Naval Research Logistics 39, 1992.
    """
    jobs = jobs.take(jobs.batch >= 0)
    count = len(jobs)
    if count == 0:
        return float("nan"), float("nan")
    response, tardiness = _relaxed(jobs, machines)
    if count <= EXACT and len(machines.changes.time) == 0:
        # Response time is tardiness where every job is due when it comes.
        response = float(np.fmax(response, _optimum(jobs, machines, jobs.submit)))
        tardiness = float(np.fmax(tardiness, _optimum(jobs, machines, jobs.deadline)))
    return response / count, tardiness / count


def _relaxed(jobs: DispatchJobs, machines: Machines) -> tuple[float, float]:
    """Return bounds of the sums of response times and of tardiness."""
    changes = machines.changes
    # The speeds of all machines together, between the seconds at which they change.
    factor, down = machines.factor.copy(), np.zeros(len(machines), np.int64)
    pool = [float((machines.cpus / factor).sum())]
    for machine, kind, value in zip(changes.machine, changes.kind, changes.value, strict=True):
        if kind == SPEED:
            factor[machine] = value
        else:
            down[machine] += 1 if kind == FAILURE else -1
        pool.append(float(np.where(down == 0, machines.cpus / factor, 0.0).sum()))
    speeds = changes.value[changes.kind == SPEED]
    fastest = min(machines.factor.min(), speeds.min(initial=np.inf))
    length = jobs.length.astype(np.float64)
    if len(speeds):
        # Run times are rounded to seconds when a job starts and when its machine changes.
        rounds = 1 + np.bincount(changes.machine[changes.kind == SPEED]).max()
        work = np.maximum(0.0, length - 0.5 * rounds / fastest)
        shortest = np.maximum(1.0, np.floor(work * fastest))
    else:
        seconds = np.maximum(1.0, np.rint(length[:, None] * machines.factor))
        work, shortest = (seconds / machines.factor).min(axis=1), seconds.min(axis=1)
    pooled = np.empty(len(jobs))
    _shortest_remaining_first(
        jobs.submit.astype(np.float64), work, changes.time.astype(np.float64), np.array(pool), pooled
    )
    alone = jobs.submit + shortest
    ends = np.maximum(np.ceil(pooled - _TINY), np.sort(alone))
    response = float((ends - np.sort(jobs.submit)).sum())
    late = np.maximum(0.0, ends - np.sort(jobs.deadline)).sum()
    return response, float(max(late, np.maximum(0.0, alone - jobs.deadline).sum()))


@kernel()
def _shortest_remaining_first(submit, work, times, speed, ends):
    """Fill in when the first, second, … job ends on one preemptive machine, the shortest remaining first.

    Parameters
    ----------
    submit, work
        Shape (n,), float64, in order of submission.
    times, speed
        Shapes (c,) and (c + 1,): work done in a second until, between and after these times.
    ends
        Shape (n,): filled in.
    """
    heap = [0.0]
    heap.pop()
    now, coming, part, ended = 0.0, 0, 0, 0
    while ended < submit.size:
        if len(heap) == 0:
            now = max(now, submit[coming])
        while coming < submit.size and submit[coming] <= now:
            heapq.heappush(heap, work[coming])
            coming += 1
        while part < times.size and times[part] <= now:
            part += 1
        until = submit[coming] if coming < submit.size else np.inf
        if part < times.size:
            until = min(until, times[part])
        if heap[0] <= speed[part] * (until - now):
            now += heap[0] / speed[part] if heap[0] > 0.0 else 0.0
            ends[ended] = now
            heapq.heappop(heap)
            ended += 1
        else:
            heap[0] -= speed[part] * (until - now)
            now = until


def _optimum(jobs: DispatchJobs, machines: Machines, due: IntArray) -> float:
    """Return the least Σ max(0, C − due); NaN where it takes too many partial sequences."""
    best = np.zeros(1 << len(jobs))
    best[1:] = np.inf
    for factor in np.unique(machines.factor):
        seconds = np.maximum(1, np.rint(jobs.length * factor)).astype(np.int64)
        alone = np.empty(len(best))
        if not _best_sequences(jobs.submit, seconds, due, alone):
            return float("nan")
        for _ in range(machines.cpus[machines.factor == factor].sum()):
            best = _shared_out(best, alone)
    return float(best[-1])


@kernel()
def _best_sequences(submit, seconds, due, best):
    """Fill in the least Σ max(0, C − due) of every set of jobs on one processor; tell whether it is exact.

    Sets grow by one job at the end; of the sequences of a set only those are kept than which none ends sooner
    and is as little late.
    """
    sets, count = best.size, submit.size
    kept = np.zeros(sets, np.int64)
    ends, late = np.zeros((sets, _LABELS), np.int64), np.zeros((sets, _LABELS), np.int64)
    kept[0] = 1
    best[0] = 0.0
    for subset in range(sets):
        for label in range(kept[subset]):
            for job in range(count):
                larger = subset | (1 << job)
                if larger == subset:
                    continue
                end = max(ends[subset, label], submit[job]) + seconds[job]
                cost = late[subset, label] + max(0, end - due[job])
                size = _keep(end, cost, ends[larger], late[larger], kept[larger])
                if size > _LABELS - 1:
                    return False
                kept[larger] = size
    for subset in range(1, sets):
        best[subset] = late[subset, : kept[subset]].min()
    return True


@kernel()
def _keep(end, cost, ends, late, count):
    """Add a sequence to those kept, unless one is as good; drop those that it beats; return how many."""
    for label in range(count):
        if ends[label] <= end and late[label] <= cost:
            return count
    size = 0
    for label in range(count):
        if ends[label] < end or late[label] < cost:
            ends[size], late[size] = ends[label], late[label]
            size += 1
    ends[size], late[size] = end, cost
    return size + 1


@kernel()
def _shared_out(before, alone):
    """Return the least cost of every set of jobs if one more processor takes some of them."""
    best = before.copy()
    for subset in range(1, before.size):
        part = subset
        while part > 0:
            best[subset] = min(best[subset], before[subset ^ part] + alone[part])
            part = (part - 1) & subset
    return best
