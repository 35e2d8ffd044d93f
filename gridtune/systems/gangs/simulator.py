"""Training jobs that get their GPUs together, round by round, and may lose them again.

Decisions are made at rounds, every so many seconds from the first submission. A round ranks the jobs that
have been submitted and have not ended, by the policy; among equals the first to be submitted goes first. In
this order each job gets its GPUs, as a gang, where nodes have enough of them that no job before it has got:

- A job that runs stays where it is if it can. Else it is moved, or, where nothing is left for it, preempted.
- A job of fewer GPUs than a node has goes to one node. A wider one takes whole nodes and the rest on another.
- It takes GPUs that nobody holds: of the node with the fewest of them that are enough. If there is none, it
  takes from jobs that come after it: on the node where it must take the fewest.
- A job that does not fit is passed over; under `fifo` nothing starts after it.

GPUs of a job that ends within a round are idle until the next one. A job that is preempted or moved keeps its
progress, and its GPUs do nothing for the seconds of a restart when it goes on.

Sources: D. Narayanan et al., "Heterogeneity-aware cluster scheduling policies for deep learning workloads"
(Gavel), OSDI 2020, section 5 (rounds of 360 s); J. Gu et al., "Tiresias: a GPU cluster manager for
distributed deep learning", NSDI 2019, section 3 (attained service in GPU time, queues; srtf, srsf).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal, get_args

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.types import IntArray

Policy = Literal["fifo", "backfill", "sjf", "las", "srtf", "srsf"]
_CODES: Mapping[str, int] = {name: code for code, name in enumerate(get_args(Policy))}
_FIFO, _BACKFILL, _SJF, _LAS, _SRTF, _SRSF = range(6)
#: A time that has not come; a node that there is not.
_NONE = -1
_FOREVER = np.iinfo(np.int64).max
#: A job in kernels: what it asks for, its first start, its end, seconds with GPUs, how often it started,
#: seconds left of its work and of a restart, since when it runs (-1 while it does not), and its rank.
_JOB = np.dtype(
    [
        (name, np.int64)
        for name in (
            "submit",
            "run_time",
            "gpus",
            "start",
            "end",
            "held",
            "starts",
            "left",
            "debt",
            "since",
            "key",
        )
    ]
)


@dataclass(frozen=True)
class GpuPool:
    """GPUs in nodes, and the clock of their policy.

    Attributes
    ----------
    nodes, gpus_per_node
        How many nodes there are, and the GPUs of each.
    round
        Seconds from one decision to the next.
    restart
        Seconds without work after a job was preempted or moved; shorter than a round.
    """

    nodes: int
    gpus_per_node: int
    round: int
    restart: int


@dataclass(frozen=True)
class Gangs:
    """When jobs ran, and where.

    Attributes
    ----------
    start, end
        Shape (jobs,), int64: the first second with GPUs, and the end; seconds.
    held
        Shape (jobs,), int64: seconds with GPUs, restarts included.
    starts
        Shape (jobs,), int64: number of its starts: one, and again after each preemption or move.
    used
        GPU-seconds that jobs held up to the last submission.
    spans
        Shape (spans, 5), int64, where asked for: job, node, GPUs on it, from, to; in order of their ends.
    """

    start: IntArray
    end: IntArray
    held: IntArray
    starts: IntArray
    used: int
    spans: IntArray


def simulate(
    submit: IntArray,
    run_time: IntArray,
    gpus: IntArray,
    policy: Policy,
    pool: GpuPool,
    *,
    queues: Sequence[int] = (),
    spans: bool = False,
) -> Gangs:
    """Run jobs to their ends.

    Parameters
    ----------
    submit, run_time, gpus
        Shape (jobs,), int64: seconds, from 0 and in order; seconds of work; GPUs, at most those of the pool.
    policy
        What goes first: `fifo`, `backfill`: the first submission; `sjf`: the shortest run time; `las`: the
        fewest GPU-seconds held; `srtf`: the least remaining time; `srsf`: the fewest remaining GPU-seconds.
        The first three never preempt.
    pool
        GPUs and rounds.
    queues
        Under `las`: GPU-seconds, ascending; jobs that have held as many are equal.
    spans
        Whether to say which GPUs each job had when.
    """
    widest = -(-int(gpus.max(initial=1)) // pool.gpus_per_node)
    rows = 0
    for _ in range(2 if spans else 1):  # once to count the rows of the table, once to fill them
        table = np.zeros((rows, 5), np.int64)
        jobs = np.zeros(len(submit), _JOB)
        for name, column in (("submit", submit), ("run_time", run_time), ("left", run_time), ("gpus", gpus)):
            jobs[name] = column
        for name in ("start", "end", "since"):
            jobs[name] = _NONE
        places = np.zeros((len(submit), widest), np.int64)
        rows, used = _simulate(_CODES[policy], jobs, places, astuple(pool), np.array(queues, np.int64), table)
    start, end, held, starts = (jobs[name].copy() for name in ("start", "end", "held", "starts"))
    return Gangs(start, end, held, starts, used, table)


@kernel()
def _simulate(policy, jobs, places, pool, limits, table):
    """Fill in what becomes of jobs; return the rows that the table has, or needs, and GPU-seconds used."""
    nodes, size, period, restart = pool
    # Ranks of waiting jobs stay as they are, so those are kept in order: before and after a decision.
    waiting, running = np.empty((2, len(jobs)), np.int64), np.empty((2, len(jobs)), np.int64)
    amounts = np.zeros((2, nodes), np.int64)
    counts = np.zeros(2, np.int64)
    waits, runs, arrived, now = 0, 0, 0, 0
    while arrived < len(jobs) or waits + runs > 0:
        if waits + runs == 0:
            now = max(now, _round_from(jobs[arrived].submit, period))
        while arrived < len(jobs) and jobs[arrived].submit <= now:
            waiting[0, waits] = arrived
            _rank(policy, waiting[0], waits, jobs, limits)
            waits += 1
            arrived += 1
        for place in range(runs):
            _rank(policy, running[0], place, jobs, limits)
        waits, runs = _give(
            policy, now, waiting, waits, running, runs, jobs, places, size, restart, amounts, table, counts
        )
        until = now + period
        if waits == 0 or policy <= _SJF:  # nothing changes before a job arrives or ends
            event = jobs[arrived].submit if arrived < len(jobs) else _FOREVER
            for place in range(runs):
                job = jobs[running[0, place]]
                event = min(event, now + job.debt + job.left)
            until = max(until, _round_from(event, period))
        runs = _work(now, until, running[0], runs, jobs, places, size, table, counts)
        now = until
    return counts[0], counts[1]


@kernel()
def _round_from(time, period):
    """Return the first round that is not before a time."""
    return -(-time // period) * period


@kernel()
def _rank(policy, order, place, jobs, limits):
    """Move a job towards the front of those before it, which are in order, to where it belongs.

    The smallest key goes first, of several the first to be submitted.
    """
    index = order[place]
    job = jobs[index]
    key = 0
    if policy <= _SJF and job.since != _NONE:
        key = _NONE  # without preemption, what runs goes on
    elif policy == _SJF:
        key = job.run_time
    elif policy == _SRTF:
        key = job.left
    elif policy == _SRSF:
        key = job.left * job.gpus
    elif policy == _LAS:
        attained = job.held * job.gpus
        key = attained if len(limits) == 0 else 0
        while key < len(limits) and attained >= limits[key]:
            key += 1
    job.key = key
    while place > 0 and _before(index, order[place - 1], jobs):
        order[place] = order[place - 1]
        place -= 1
    order[place] = index


@kernel()
def _before(index, other, jobs):
    key, others = jobs[index].key, jobs[other].key
    return key < others or (key == others and index < other)


@kernel()
def _give(policy, now, waiting, waits, running, runs, jobs, places, size, restart, amounts, table, counts):
    """Give GPUs in order of rank; return how many jobs wait and how many run then.

    Of a node, GPUs are claimed by the jobs that have had their turn, and reserved by those that run and have
    yet to have it.
    """
    claimed, reserved = amounts[0], amounts[1]
    claimed[:] = 0
    reserved[:] = 0
    for place in range(runs):
        index = running[0, place]
        _add(reserved, places[index], jobs[index].gpus, size, 1)
    refused, waited, ran, left, go = _FOREVER, 0, 0, 0, 0
    while waited < waits or ran < runs:
        if ran < runs and (waited == waits or _before(running[0, ran], waiting[0, waited], jobs)):
            index = running[0, ran]
            ran += 1
            _add(reserved, places[index], jobs[index].gpus, size, -1)
            if _can_stay(claimed, places[index], jobs[index].gpus, size):
                _add(claimed, places[index], jobs[index].gpus, size, 1)
                running[1, go] = index
                go += 1
                continue
            _stop(index, now, jobs, places, size, table, counts)
        else:
            index = waiting[0, waited]
            waited += 1
        # What is too wide for one is too wide for those as wide that come after it.
        if jobs[index].gpus < refused and _place(claimed, reserved, places[index], jobs[index].gpus, size):
            _start(jobs[index], now, restart)
            running[1, go] = index
            go += 1
        else:
            refused = 1 if policy == _FIFO else min(refused, jobs[index].gpus)
            waiting[1, left] = index
            left += 1
    for place in range(left):
        waiting[0, place] = waiting[1, place]
    for place in range(go):
        running[0, place] = running[1, place]
    return left, go


@kernel()
def _start(job, now, restart):
    if job.starts == 0:
        job.start = now
    else:
        job.debt = restart
    job.starts += 1
    job.since = now


@kernel()
def _add(amounts, places, width, size, sign):
    """Add a job's GPUs to the amounts of its nodes, or take them away."""
    for part in range(-(-width // size)):
        amounts[places[part]] += sign * min(size, width - part * size)


@kernel()
def _can_stay(claimed, places, width, size):
    for part in range(-(-width // size)):
        if claimed[places[part]] + min(size, width - part * size) > size:
            return False
    return True


@kernel()
def _place(claimed, reserved, places, width, size):
    """Claim GPUs for a job and say where; nothing if nodes have not enough of them."""
    for part in range(-(-width // size)):
        wanted = min(size, width - part * size)
        node = _node_for(claimed, reserved, wanted, size)
        if node == _NONE:
            for earlier in range(part):
                claimed[places[earlier]] -= size
            return False
        claimed[node] += wanted
        places[part] = node
    return True


@kernel()
def _node_for(claimed, reserved, wanted, size):
    """Return the node with the fewest free GPUs that are enough; else the one with most; -1 for none."""
    best, fewest = _NONE, 0
    for node in range(len(claimed)):
        if claimed[node] + wanted > size:
            continue
        free = size - claimed[node] - reserved[node]
        if best != _NONE:
            better = free < fewest if free >= wanted and fewest >= wanted else free > fewest
            if not better or (free < wanted <= fewest):
                continue
        best, fewest = node, free
    return best


@kernel()
def _work(now, until, running, runs, jobs, places, size, table, counts):
    """Let jobs work until the next decision, and return how many of them have not ended."""
    last, kept = jobs[-1].submit, 0
    for place in range(runs):
        index = running[place]
        job = jobs[index]
        need = job.debt + job.left
        span = min(need, until - now)
        job.held += span
        counts[1] += job.gpus * max(0, min(now + span, last) - now)
        job.left -= max(0, span - job.debt)
        job.debt = max(0, job.debt - span)
        if need <= until - now:
            job.end = now + need
            _stop(index, job.end, jobs, places, size, table, counts)
        else:
            running[kept] = index
            kept += 1
    return kept


@kernel()
def _stop(index, now, jobs, places, size, table, counts):
    """Stop a job, and note where it ran; without room in the table, count the rows."""
    job = jobs[index]
    for part in range(-(-job.gpus // size)):
        if counts[0] < len(table):
            row = table[counts[0]]
            row[0], row[1], row[2] = index, places[index, part], min(size, job.gpus - part * size)
            row[3], row[4] = job.since, now
        counts[0] += 1
    job.since = _NONE
