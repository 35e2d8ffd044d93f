"""The scheduler, compiled: the oldest job, then smallest area first, with backfilling.

A pass looks at ten candidates: the oldest waiting job, then the others by requested area. It takes them
in order while they fit. The first that does not fit is promised a start; those behind it may start if by
their walltimes they end before that.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel, record_of
from gridtune.systems.shutdown.simulator.state import (
    MAX_CANDIDATES,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
)

__all__ = [
    "candidate_index",
    "dequeue",
    "enqueue",
    "insert_release",
    "most_reserved",
    "refresh_candidates",
    "refresh_promise",
    "select_jobs",
    "unheld_nodes",
]


@kernel()
def enqueue(cluster, jobs, job):
    """Insert a job into the queue, which is ordered by area."""
    queue, memory, rank = cluster.queue, record_of(cluster.memory), jobs.rank
    place = memory.waiting
    memory.waiting = place + 1
    while place > 0 and rank[queue[place - 1]] > rank[job]:
        queue[place] = queue[place - 1]
        place -= 1
    queue[place] = job
    cluster.waits[job] = 1
    if memory.waiting == 1:
        memory.head = job


@kernel()
def dequeue(cluster, jobs, job):
    """Take a waiting job out of the queue."""
    queue, memory = cluster.queue, record_of(cluster.memory)
    count = memory.waiting - 1
    memory.waiting = count
    place = 0
    while queue[place] != job:
        place += 1
    for later in range(place, count):
        queue[later] = queue[later + 1]
    cluster.waits[job] = 0
    if count > 0:
        # Jobs before the oldest waiting one have left the queue for good.
        while cluster.waits[memory.head] == 0:
            memory.head += 1


@kernel()
def refresh_candidates(cluster):
    """List the candidates again after the queue has changed."""
    memory, queue, candidates = record_of(cluster.memory), cluster.queue, cluster.candidates
    memory.candidates = 0
    if memory.waiting == 0:
        return
    head = memory.head
    candidates[0] = head
    count, place = 1, 0
    while count < MAX_CANDIDATES and place < memory.waiting:
        if queue[place] != head:
            candidates[count] = queue[place]
            count += 1
        place += 1
    memory.candidates = count


@kernel()
def candidate_index(cluster, job):
    """Return a job's index among the candidates."""
    index = 0
    while cluster.candidates[index] != job:
        index += 1
    return index


@kernel()
def insert_release(cluster, count, minutes, cores):
    """Insert a release of cores into the `count` sorted pairs of the scratch columns."""
    place = count
    while place > 0 and cluster.release_minutes[place - 1] > minutes:
        cluster.release_minutes[place] = cluster.release_minutes[place - 1]
        cluster.release_cores[place] = cluster.release_cores[place - 1]
        place -= 1
    cluster.release_minutes[place] = minutes
    cluster.release_cores[place] = cores
    return count + 1


@kernel()
def _promised(cluster, jobs, needed, zeros, selected):
    """Return after how many minutes `needed` visible cores are free by the jobs' walltimes.

    If there are fewer visible cores: after how many minutes all of them are free.
    """
    memory = record_of(cluster.memory)
    extra = 0
    for place in range(memory.ready):
        job = cluster.ready[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    for place in range(selected):
        job = cluster.selected[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    have, promise, one, other = zeros, 0, 0, 0
    while have < needed and (one < extra or other < memory.running):
        left = 0
        if other < memory.running:
            job = cluster.by_request[other]
            left = cluster.start[job] + jobs.walltime[job] - memory.now
        if other == memory.running or (one < extra and cluster.release_minutes[one] <= left):
            promise = cluster.release_minutes[one]
            have += cluster.release_cores[one]
            one += 1
        else:
            promise = left
            have += jobs.cores[job]
            other += 1
    return promise


@kernel()
def select_jobs(cluster, jobs, reserved):
    """Run a pass without the reserved nodes: list the jobs it starts, return the oldest job's promise.

    Reserved cores are free ones: a reservation is never larger than the nodes that no job holds.
    """
    memory, candidates, cores = record_of(cluster.memory), cluster.candidates, jobs.cores
    zeros = memory.free - cluster.cores * reserved
    waiting = memory.candidates
    count = 0
    while count < waiting and cores[candidates[count]] <= zeros:
        cluster.selected[count] = candidates[count]
        zeros -= cores[candidates[count]]
        count += 1
    memory.selected = count
    if count == waiting:
        return 0
    blocked = count
    promise = _promised(cluster, jobs, cores[candidates[blocked]], zeros, count)
    if promise > 0:
        for place in range(blocked + 1, waiting):
            job = candidates[place]
            if zeros == 0:
                break
            if cores[job] <= zeros and jobs.walltime[job] <= promise:
                cluster.selected[count] = job
                zeros -= cores[job]
                count += 1
        memory.selected = count
    return promise if blocked == 0 else 0


@kernel()
def unheld_nodes(cluster):
    """Return the number of nodes that no job holds."""
    vacant = cluster.vacant
    return vacant[ON] + vacant[SWITCHING_ON] + vacant[SLEEPING] + vacant[SWITCHING_OFF]


@kernel()
def most_reserved(cluster, jobs):
    """Return the maximum that larger reservations are cut to: the oldest job keeps the promised nodes."""
    memory, most = record_of(cluster.memory), unheld_nodes(cluster)
    if memory.waiting > 0 and memory.promise == 0:
        needed = (jobs.cores[memory.head] + cluster.cores - 1) // cluster.cores
        most = min(most, cluster.nodes - needed)
    return most


@kernel()
def refresh_promise(cluster, jobs):
    """Run a pass that starts no job, for the promise to the oldest one."""
    memory = record_of(cluster.memory)
    refresh_candidates(cluster)
    memory.promise = select_jobs(cluster, jobs, memory.reserved) if memory.candidates > 0 else -1
