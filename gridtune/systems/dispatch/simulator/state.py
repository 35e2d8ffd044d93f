"""The state of the compiled dispatch simulator: jobs, machines and their queues, in columns.

A queue is a doubly linked list through the jobs' columns, so that a broker can put a job before any other
and take it out again at no cost that grows with the queue. Each machine has one; behind theirs stands the
shared queue, from which machines pull where the broker binds late.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.types import FloatArray, IntArray

__all__ = ["Site", "bare_site", "new_site"]


#: An instant that never comes, and the number of no job.
NEVER = np.iinfo(np.int64).max
NOBODY = -1

#: Places in `Site.memory`. Its size: jobs, machines, processors of all machines, changes.
#: Then the current second; jobs that have arrived, that have ended; changes made; the job that waits for a
#: decision (or NOBODY); jobs restarted after a failure; moves of jobs to other machines' queues; whether
#: machines pull from the shared queue.
(
    JOBS,
    MACHINES,
    SLOTS,
    CHANGES,
    NOW,
    ARRIVED,
    FINISHED,
    CHANGED,
    DECIDING,
    RESTARTS,
    MOVES,
    SHARED,
    MEMORY,
) = range(13)

#: Kinds of changes: a new speed factor, a failure, a repair.
SPEED, FAILURE, REPAIR = range(3)


class Site(NamedTuple):
    """Machines with their queues, and jobs with their progress.

    Every field is a column; `n` jobs in order of submission, `m` machines, `p` processors of all machines.
    Times in whole seconds; what has not happened is -1.

    Attributes
    ----------
    submit, length, estimate, deadline
        Shape (n,), int64: when the job arrives; seconds it needs on a machine of factor 1; the broker's
        estimate of that; when it is due.
    factor
        Shape (m,), float64: a job of length L runs for L × factor seconds.
    believed
        Shape (m,), float64: the speed factor that the broker believes in.
    lookahead
        Shape (1,), float64: k of the apparent tardiness cost, by which the next job is taken; 0 to take the
        first of the queue.
    cpus, down, running
        Shape (m,), int64: processors; failures not yet repaired; jobs that run.
    waiting, backlog
        Shape (m + 1,), int64: jobs that wait, and the sum of their estimates; the last entry is the shared
        queue's.
    head, tail
        Shape (m + 1,), int64: first and last job of the queue.
    first_slot
        Shape (m + 1,), int64: where in `slot` the machine's processors begin.
    slot
        Shape (p,), int64: the job a processor runs.
    after, before
        Shape (n,), int64: neighbours of a waiting job in its queue.
    machine, placed, start, finish
        Shape (n,), int64: where a job was sent (m: to the shared queue), when that was decided last, when it
        started last and ended.
    end
        Shape (n,), int64: when a running job will end; no broker may look at it.
    ended
        Shape (n,), int64: jobs in the order in which they ended.
    change_time, change_machine, change_kind
        Shape (changes,), int64, by time.
    change_value
        Shape (changes,), float64: the new factor of a `SPEED` change.
    memory
        Shape (13,), int64: single numbers, see the constants above.
    """

    submit: IntArray
    length: IntArray
    estimate: IntArray
    deadline: IntArray
    factor: FloatArray
    believed: FloatArray
    lookahead: FloatArray
    cpus: IntArray
    down: IntArray
    running: IntArray
    waiting: IntArray
    backlog: IntArray
    head: IntArray
    tail: IntArray
    first_slot: IntArray
    slot: IntArray
    after: IntArray
    before: IntArray
    machine: IntArray
    placed: IntArray
    start: IntArray
    finish: IntArray
    end: IntArray
    ended: IntArray
    change_time: IntArray
    change_machine: IntArray
    change_kind: IntArray
    change_value: FloatArray
    memory: IntArray


def new_site(jobs: Any, machines: Any, *, shared: bool = False, lookahead: float = 0.0) -> Site:
    """Return a site before its first job.

    Parameters
    ----------
    jobs, machines
        The `DispatchJobs` and `Machines` of the model.
    shared
        Whether machines pull from the shared queue.
    lookahead
        See `Site.lookahead`.
    """
    n, m, changes = len(jobs.submit), len(machines.factor), machines.changes
    nothing = np.full((8, n), -1, np.int64)
    none = np.zeros((2, m), np.int64)
    queued, empty = np.zeros((2, m + 1), np.int64), np.full((2, m + 1), -1, np.int64)
    first_slot = np.concatenate([[0], np.cumsum(machines.cpus)]).astype(np.int64)
    slots = int(first_slot[-1])
    memory = np.zeros(MEMORY, np.int64)
    memory[[JOBS, MACHINES, SLOTS, CHANGES, DECIDING]] = n, m, slots, len(changes.time), NOBODY
    memory[SHARED] = shared
    columns: tuple[Any, ...] = (
        *(np.array(column, np.int64) for column in (jobs.submit, jobs.length, jobs.estimate, jobs.deadline)),
        np.array(machines.factor, np.float64),
        np.ones(m),
        np.array([lookahead], np.float64),
        np.array(machines.cpus, np.int64),
        *none,
        *queued,
        *empty,
        first_slot,
        np.full(slots, NOBODY, np.int64),
        *nothing,
        np.array(changes.time, np.int64),
        np.array(changes.machine, np.int64),
        np.array(changes.kind, np.int64),
        np.array(changes.value, np.float64),
        memory,
    )
    return Site(*columns)


@kernel()
def bare_site(site):
    """Return the same site with bare columns; whoever calls holds the arrays meanwhile."""
    return Site(
        bare(site.submit),
        bare(site.length),
        bare(site.estimate),
        bare(site.deadline),
        bare(site.factor),
        bare(site.believed),
        bare(site.lookahead),
        bare(site.cpus),
        bare(site.down),
        bare(site.running),
        bare(site.waiting),
        bare(site.backlog),
        bare(site.head),
        bare(site.tail),
        bare(site.first_slot),
        bare(site.slot),
        bare(site.after),
        bare(site.before),
        bare(site.machine),
        bare(site.placed),
        bare(site.start),
        bare(site.finish),
        bare(site.end),
        bare(site.ended),
        bare(site.change_time),
        bare(site.change_machine),
        bare(site.change_kind),
        bare(site.change_value),
        bare(site.memory),
    )
