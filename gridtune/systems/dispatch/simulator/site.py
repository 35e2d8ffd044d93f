"""The compiled dispatch simulator: the state of jobs, machines and queues, and its events.

A queue is a doubly linked list through the jobs' columns, so that a broker can put a job before any other
and take it out again at no cost that grows with the queue. Each machine has one; behind theirs stands the
shared queue, from which machines pull where the broker binds late.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, IntArray

#: An instant that never comes, and the number of no job.
NEVER = np.iinfo(np.int64).max
NOBODY = -1

#: The single numbers of a site.
#:
#: `jobs`, `machines`, `slots`, `changes`: numbers of jobs, machines, processors of all machines and changes
#: of machines; `now`: the current second; `arrived`, `finished`: jobs that have arrived, that have ended;
#: `changed`: changes made; `deciding`: the job that waits for a decision, or NOBODY; `restarts`: jobs
#: restarted after a failure; `moves`: moves of jobs to other machines' queues; `lookahead`: k of the apparent
#: tardiness cost, by which the next job is taken, 0 to take the first of the queue; `shared`: whether
#: machines pull from the shared queue; `offering`: whether its jobs are decided on again, if they do not.
STATE = np.dtype(
    [
        *((name, "i8") for name in ("jobs", "machines", "slots", "changes", "now", "arrived", "finished")),
        *((name, "i8") for name in ("changed", "deciding", "restarts", "moves")),
        ("lookahead", "f8"),
        *((name, "?") for name in ("shared", "offering")),
    ],
    align=True,
)

#: Kinds of changes: a new speed factor, a failure, a repair.
SPEED, FAILURE, REPAIR = range(3)


class MachineQueues(NamedTuple):
    """Machines with their queues, and jobs with their progress.

    Columns of `n` jobs in order of submission, `m` machines, `p` processors of all machines. Times are in
    whole seconds; -1 where something has not happened.

    Attributes
    ----------
    submit, length, estimate, deadline
        Shape (n,), int64: when the job arrives; seconds it needs on a machine of factor 1; the broker's
        estimate of that; when it is due.
    factor
        Shape (m,), float64: a job of length L runs for L × factor seconds.
    believed
        Shape (m,), float64: the speed factor that the broker believes in.
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
    state
        Shape (), `STATE`.
    """

    submit: IntArray
    length: IntArray
    estimate: IntArray
    deadline: IntArray
    factor: FloatArray
    believed: FloatArray
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
    state: npt.NDArray[np.void]


def new_site(jobs: Any, machines: Any, *, shared: bool = False, lookahead: float = 0.0) -> MachineQueues:
    """Return a site before its first job.

    Parameters
    ----------
    jobs, machines
        The `DispatchJobs` and `Machines` of the model.
    shared
        Whether machines pull from the shared queue.
    lookahead
        See `STATE`.
    """
    n, m, changes = len(jobs.submit), len(machines.factor), machines.changes
    nothing = np.full((8, n), -1, np.int64)
    none = np.zeros((2, m), np.int64)
    queued, empty = np.zeros((2, m + 1), np.int64), np.full((2, m + 1), -1, np.int64)
    first_slot = np.concatenate([[0], np.cumsum(machines.cpus)]).astype(np.int64)
    slots = int(first_slot[-1])
    state = np.array(
        (n, m, slots, len(changes.time), 0, 0, 0, 0, NOBODY, 0, 0, lookahead, shared, False), STATE
    )
    columns: tuple[Any, ...] = (
        *(np.array(column, np.int64) for column in (jobs.submit, jobs.length, jobs.estimate, jobs.deadline)),
        np.array(machines.factor, np.float64),
        np.ones(m),
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
        state,
    )
    return MachineQueues(*columns)


#: Orders of a queue into which a job is put: last; before later due dates; before longer estimates; before
#: jobs of a smaller apparent tardiness cost.
RELEASE, DUE_DATE, SHORTEST, ATC = range(4)


@kernel()
def follower_of(site, job, queue, order):
    """Return the waiting job before which a job belongs in a queue of that order; NOBODY for the end.

    Apparent tardiness costs change with time, so that a place by them only says what to predict;
    `_next_waiting` takes by the cost at that time. In the shared queue, of which nothing is predicted, a job
    goes to the end.
    """
    waiting = site.head[queue]
    if order == ATC:
        if queue == site.state.machines:
            return NOBODY
        total = site.backlog[queue] + site.estimate[job]
        mean = total / (site.waiting[queue] + 1) * site.believed[queue]
        cost = _urgency(site, job, queue, mean)
        while waiting != NOBODY and (waiting == job or _urgency(site, waiting, queue, mean) >= cost):
            waiting = site.after[waiting]
        return waiting
    if order == RELEASE:
        # Later arrivals stand behind; only a job that is moved has any.
        own, keys = site.submit[job], site.submit
    elif order == DUE_DATE:
        own, keys = site.deadline[job], site.deadline
    else:
        own, keys = site.estimate[job], site.estimate
    while waiting != NOBODY and (waiting == job or keys[waiting] <= own):
        waiting = site.after[waiting]
    return waiting


@kernel()
def _next_waiting(site, queue, machine):
    """Return the job of a queue that a machine takes next; the queue is not empty.

    The first; or, with a look-ahead, the one of the largest apparent tardiness cost, of several the first.
    """
    best = site.head[queue]
    if site.state.lookahead <= 0.0 or site.after[best] == NOBODY:
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
def _urgency(site, job, machine, mean):
    """Return the logarithm of the apparent tardiness cost, log(exp(−max(0, d − p − t)/(k·p̄))/p).

    p is the job's run time on that machine by its estimate, p̄ the mean of the waiting jobs, d its deadline.
    Source: Vepsalainen and Morton, "Priority rules for job shops with weighted tardiness costs", Management
    Science 33, 1987.
    """
    seconds = site.estimate[job] * site.believed[machine]
    slack = max(0.0, site.deadline[job] - seconds - site.state.now)
    return -slack / (site.state.lookahead * mean) - np.log(seconds)


@kernel()
def advance(site):
    """Advance to the next decision; return the job's number, or NOBODY once every job has ended.

    Within one second jobs end first (the lower number first), then machines change, then queues move up, then
    jobs that are held are decided on until one is held again, then jobs arrive. Each arrival is decided on
    before the next one is seen.
    """
    state = site.state
    while state.deciding == NOBODY and state.finished < state.jobs:
        if state.offering and site.head[state.machines] != NOBODY:
            state.deciding = site.head[state.machines]
            take_out(site, state.deciding)
            break
        slot, ending = _next_end(site)
        changing = site.change_time[state.changed] if state.changed < state.changes else NEVER
        coming = site.submit[state.arrived] if state.arrived < state.jobs else NEVER
        state.now = min(ending, changing, coming)
        moved = False
        while ending == state.now:
            job = site.slot[slot]
            site.slot[slot] = NOBODY
            site.finish[job] = state.now
            site.running[site.machine[job]] -= 1
            site.ended[state.finished] = job
            state.finished += 1
            slot, ending = _next_end(site)
            moved = True
        while state.changed < state.changes and site.change_time[state.changed] == state.now:
            _change(site, state.changed)
            state.changed += 1
            moved = True
        if moved and state.shared:
            _pull(site)
        elif moved:
            state.offering = True
            for machine in range(state.machines):
                _start_waiting(site, machine)
            continue
        if coming == state.now:
            state.deciding = state.arrived
            state.arrived += 1
    return state.deciding


@kernel()
def _next_end(site):
    """Return the processor whose job ends next, and when: of several the lowest job."""
    best, ending = NOBODY, NEVER
    for slot in range(site.state.slots):
        job = site.slot[slot]
        if job != NOBODY and (site.end[job] < ending or (site.end[job] == ending and job < site.slot[best])):
            best, ending = slot, site.end[job]
    return best, ending


@kernel()
def _change(site, change):
    """Change a speed and scale the rest of running jobs by it, or let a machine fail or recover."""
    state, machine = site.state, site.change_machine[change]
    kind, value = site.change_kind[change], site.change_value[change]
    if kind == SPEED:
        for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
            job = site.slot[slot]
            if job != NOBODY:
                left = (site.end[job] - state.now) * (value / site.factor[machine])
                site.end[job] = state.now + max(1, int(np.rint(left)))
        site.factor[machine] = value
    elif kind == FAILURE:
        site.down[machine] += 1
        # Its jobs go back to the front of the queue, the lowest number first.
        queue = site.state.machines if site.state.shared else machine
        while site.running[machine] > 0:
            last = NOBODY
            for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
                if site.slot[slot] != NOBODY and (last == NOBODY or site.slot[slot] > site.slot[last]):
                    last = slot
            job = site.slot[last]
            site.slot[last] = NOBODY
            site.running[machine] -= 1
            site.start[job] = -1
            site.state.restarts += 1
            _enqueue(site, job, queue, site.head[queue])
    else:
        site.down[machine] -= 1


@kernel()
def _start_waiting(site, machine):
    """Start jobs from a machine's queue while it has free processors."""
    if site.down[machine] > 0:
        return
    while site.running[machine] < site.cpus[machine] and site.head[machine] != NOBODY:
        _start(site, _next_waiting(site, machine, machine), machine)


@kernel()
def _pull(site):
    """Start jobs from the shared queue while processors are free.

    Of several machines with a free processor the one pulls first that the broker believes to be fastest, of
    those as fast the first.
    """
    shared = site.state.machines
    while site.head[shared] != NOBODY:
        machine = NOBODY
        for other in range(shared):
            idle = site.down[other] == 0 and site.running[other] < site.cpus[other]
            if idle and (machine == NOBODY or site.believed[other] < site.believed[machine]):
                machine = other
        if machine == NOBODY:
            return
        job = _next_waiting(site, shared, machine)
        _start(site, job, machine)
        site.placed[job] = site.state.now


@kernel()
def _start(site, job, machine):
    """Start a waiting job on a free processor of a machine."""
    now = site.state.now
    take_out(site, job)
    slot = site.first_slot[machine]
    while site.slot[slot] != NOBODY:
        slot += 1
    site.slot[slot] = job
    site.machine[job] = machine
    site.running[machine] += 1
    site.start[job] = now
    site.end[job] = now + max(1, int(np.rint(site.length[job] * site.factor[machine])))


@kernel()
def _link(site, queue, leader, follower, behind, ahead):
    """Put `behind` after a leader and `ahead` before a follower; NOBODY stands for an end of the queue."""
    if leader == NOBODY:
        site.head[queue] = behind
    else:
        site.after[leader] = behind
    if follower == NOBODY:
        site.tail[queue] = ahead
    else:
        site.before[follower] = ahead


@kernel()
def _enqueue(site, job, queue, follower):
    """Put a job into a queue before another one, or at its end where that is NOBODY."""
    leader = site.tail[queue] if follower == NOBODY else site.before[follower]
    site.before[job], site.after[job] = leader, follower
    _link(site, queue, leader, follower, job, job)
    site.machine[job] = queue
    site.waiting[queue] += 1
    site.backlog[queue] += site.estimate[job]


@kernel()
def take_out(site, job):
    """Take a waiting job out of its queue; `machine` keeps where it was."""
    queue, leader, follower = site.machine[job], site.before[job], site.after[job]
    _link(site, queue, leader, follower, follower, leader)
    site.before[job] = site.after[job] = NOBODY
    site.waiting[queue] -= 1
    site.backlog[queue] -= site.estimate[job]


@kernel()
def place(site, job, machine, follower):
    """Send a job that is in no queue to a machine, before a waiting job or (NOBODY) at the queue's end.

    Where machines pull, all jobs go to the shared queue; its number is the number of machines. Elsewhere a
    job that goes there is held. A job starts at once if it stands first and a processor is free. A job that
    comes is decided by this; one that was taken out counts as moved if it goes to another machine.
    """
    if site.state.deciding == job:
        site.state.deciding = NOBODY
    elif site.machine[job] != machine:
        site.state.moves += 1
    site.placed[job] = site.state.now
    _enqueue(site, job, machine, follower)
    if site.state.shared:
        _pull(site)
    elif machine < site.state.machines:
        _start_waiting(site, machine)
    else:
        site.state.offering = False
