"""Whom the scheduler starts, compiled: smallest area first behind the oldest job, with backfilling.

A pass looks at ten candidates: the oldest waiting job, then the others by requested area. It takes them
in order while they fit; the first that does not is promised a start, and those behind it may go ahead if
by their walltimes they end before that.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.state import (
    CANDIDATES,
    CHOSEN,
    FREE,
    HEAD,
    NOW,
    PROMISE,
    READY,
    RUNNING,
    SEEN,
    WAITING,
)

__all__ = ["choose", "dequeue", "enqueue", "insert_release", "refresh_candidates", "refresh_promise"]


@kernel()
def enqueue(cluster, jobs, job):
    """Let a job wait: into the queue by area."""
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
        # Whoever is older than the oldest has left the queue for good.
        while cluster.waits[memory[HEAD]] == 0:
            memory[HEAD] += 1


@kernel()
def refresh_candidates(cluster):
    """List the candidates: whoever else is needed after the queue has changed."""
    memory, queue, seen = cluster.memory, cluster.queue, cluster.seen
    memory[CANDIDATES] = 0
    if memory[WAITING] == 0:
        return
    head = memory[HEAD]
    seen[0] = head
    count, place = 1, 0
    while count < SEEN and place < memory[WAITING]:
        if queue[place] != head:
            seen[count] = queue[place]
            count += 1
        place += 1
    memory[CANDIDATES] = count


@kernel()
def insert_release(cluster, count, minutes, cores):
    """Put cores that become free after so many minutes into the `count` pairs of the scratch columns."""
    place = count
    while place > 0 and cluster.minutes[place - 1] > minutes:
        cluster.minutes[place] = cluster.minutes[place - 1]
        cluster.held[place] = cluster.held[place - 1]
        place -= 1
    cluster.minutes[place] = minutes
    cluster.held[place] = cores
    return count + 1


@kernel()
def _promised(cluster, jobs, needed, zeros, chosen):
    """Return after how many minutes `needed` of the visible cores are free by the jobs' walltimes.

    Where there are not so many visible cores: after how many the last of them is.
    """
    memory = cluster.memory
    extra = 0
    for place in range(memory[READY]):
        job = cluster.ready[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    for place in range(chosen):
        job = cluster.chosen[place]
        extra = insert_release(cluster, extra, jobs.walltime[job], jobs.cores[job])
    have, promise, one, other = zeros, 0, 0, 0
    while have < needed and (one < extra or other < memory[RUNNING]):
        left = 0
        if other < memory[RUNNING]:
            job = cluster.by_request[other]
            left = cluster.start[job] + jobs.walltime[job] - memory[NOW]
        if other == memory[RUNNING] or (one < extra and cluster.minutes[one] <= left):
            promise = cluster.minutes[one]
            have += cluster.held[one]
            one += 1
        else:
            promise = left
            have += jobs.cores[job]
            other += 1
    return promise


@kernel()
def choose(cluster, jobs, reserved):
    """Run a pass with that many nodes hidden: list whom it starts, return the oldest job's promise.

    The hidden cores are free ones: a reservation is never larger than the nodes that no job holds.
    """
    memory, seen, cores = cluster.memory, cluster.seen, jobs.cores
    zeros = memory[FREE] - cluster.cores * reserved
    candidates = memory[CANDIDATES]
    count = 0
    while count < candidates and cores[seen[count]] <= zeros:
        cluster.chosen[count] = seen[count]
        zeros -= cores[seen[count]]
        count += 1
    memory[CHOSEN] = count
    if count == candidates:
        return 0
    blocked = count
    promise = _promised(cluster, jobs, cores[seen[blocked]], zeros, count)
    if promise > 0:
        for place in range(blocked + 1, candidates):
            job = seen[place]
            if zeros == 0:
                break
            if cores[job] <= zeros and jobs.walltime[job] <= promise:
                cluster.chosen[count] = job
                zeros -= cores[job]
                count += 1
        memory[CHOSEN] = count
    return promise if blocked == 0 else 0


@kernel()
def refresh_promise(cluster, jobs, reserved):
    """Run a pass that starts nobody, for the promise to the oldest job."""
    refresh_candidates(cluster)
    if cluster.memory[CANDIDATES] > 0:
        cluster.memory[PROMISE] = choose(cluster, jobs, reserved)
    else:
        cluster.memory[PROMISE] = -1
