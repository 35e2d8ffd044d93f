"""The scheduler, compiled: the oldest job, then smallest area first, with backfilling.

A pass looks at ten candidates: the oldest waiting job, then the others by requested area. It takes them
in order while they fit. The first that does not fit is promised a start; those behind it may start if by
their walltimes they end before that.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.state import (
    CANDIDATES,
    FREE,
    HEAD,
    MAX_CANDIDATES,
    NOW,
    PROMISE,
    READY,
    RUNNING,
    SELECTED,
    WAITING,
)

__all__ = [
    "candidate_index",
    "dequeue",
    "enqueue",
    "insert_release",
    "refresh_candidates",
    "refresh_promise",
    "select_jobs",
]


@kernel()
def enqueue(cluster, jobs, job):
    """Insert a job into the queue, which is ordered by area."""
    queue, memory, rank = cluster.queue, cluster.memory, jobs.rank
    place = memory[WAITING]
    memory[WAITING] = place + 1
    while place > 0 and rank[queue[place - 1]] > rank[job]:
        queue[place] = queue[place - 1]
        place -= 1
    queue[place] = job
    cluster.waits[job] = 1
    if memory[WAITING] == 1:
        memory[HEAD] = job


@kernel()
def dequeue(cluster, jobs, job):
    """Take a waiting job out of the queue."""
    queue, memory = cluster.queue, cluster.memory
    count = memory[WAITING] - 1
    memory[WAITING] = count
    place = 0
    while queue[place] != job:
        place += 1
    for later in range(place, count):
        queue[later] = queue[later + 1]
    cluster.waits[job] = 0
    if count > 0:
        # Jobs before the oldest waiting one have left the queue for good.
        while cluster.waits[memory[HEAD]] == 0:
            memory[HEAD] += 1


@kernel()
def refresh_candidates(cluster):
    """List the candidates again after the queue has changed."""
    memory, queue, candidates = cluster.memory, cluster.queue, cluster.candidates
    memory[CANDIDATES] = 0
    if memory[WAITING] == 0:
        return
    head = memory[HEAD]
    candidates[0] = head
    count, place = 1, 0
    while count < MAX_CANDIDATES and place < memory[WAITING]:
        if queue[place] != head:
            candidates[count] = queue[place]
            count += 1
        place += 1
    memory[CANDIDATES] = count


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
    memory = cluster.memory
    extra = 0
    for place in range(memory[READY]):
        job = cluster.ready[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    for place in range(selected):
        job = cluster.selected[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    have, promise, one, other = zeros, 0, 0, 0
    while have < needed and (one < extra or other < memory[RUNNING]):
        left = 0
        if other < memory[RUNNING]:
            job = cluster.by_request[other]
            left = cluster.start[job] + jobs.walltime[job] - memory[NOW]
        if other == memory[RUNNING] or (one < extra and cluster.release_minutes[one] <= left):
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
    memory, candidates, cores = cluster.memory, cluster.candidates, jobs.cores
    zeros = memory[FREE] - cluster.cores * reserved
    waiting = memory[CANDIDATES]
    count = 0
    while count < waiting and cores[candidates[count]] <= zeros:
        cluster.selected[count] = candidates[count]
        zeros -= cores[candidates[count]]
        count += 1
    memory[SELECTED] = count
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
        memory[SELECTED] = count
    return promise if blocked == 0 else 0


@kernel()
def refresh_promise(cluster, jobs, reserved):
    """Run a pass that starts no job, for the promise to the oldest one."""
    refresh_candidates(cluster)
    if cluster.memory[CANDIDATES] > 0:
        cluster.memory[PROMISE] = select_jobs(cluster, jobs, reserved)
    else:
        cluster.memory[PROMISE] = -1
