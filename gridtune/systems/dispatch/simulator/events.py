"""What happens at a site, second by second; one kernel goes on to the next decision."""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.dispatch.simulator.ordering import next_waiting
from gridtune.systems.dispatch.simulator.state import (
    ARRIVED,
    CHANGED,
    CHANGES,
    DECIDING,
    FAILURE,
    FINISHED,
    JOBS,
    MACHINES,
    MOVES,
    NEVER,
    NOBODY,
    NOW,
    RESTARTS,
    SHARED,
    SLOTS,
    SPEED,
)

__all__ = ["advance", "enqueue", "place", "take_out"]


@kernel()
def advance(site):
    """Advance to the next arrival; return the job's number, or NOBODY once every job has ended.

    Within one second jobs end first (the lower number first), then machines change, then queues move up, then
    jobs arrive. Each arrival is decided on before the next one is seen.
    """
    memory = site.memory
    while memory[DECIDING] == NOBODY and memory[FINISHED] < memory[JOBS]:
        slot, ending = _next_end(site)
        changing = site.change_time[memory[CHANGED]] if memory[CHANGED] < memory[CHANGES] else NEVER
        coming = site.submit[memory[ARRIVED]] if memory[ARRIVED] < memory[JOBS] else NEVER
        memory[NOW] = min(ending, changing, coming)
        moved = False
        while ending == memory[NOW]:
            _end(site, slot)
            slot, ending = _next_end(site)
            moved = True
        while memory[CHANGED] < memory[CHANGES] and site.change_time[memory[CHANGED]] == memory[NOW]:
            _change(site, memory[CHANGED])
            memory[CHANGED] += 1
            moved = True
        if moved and memory[SHARED]:
            _pull(site)
        elif moved:
            for machine in range(memory[MACHINES]):
                _start_waiting(site, machine)
        if coming == memory[NOW]:
            memory[DECIDING] = memory[ARRIVED]
            memory[ARRIVED] += 1
    return memory[DECIDING]


@kernel()
def _next_end(site):
    """Return the processor whose job ends next, and when: of several the lowest job."""
    best, ending = NOBODY, NEVER
    for slot in range(site.memory[SLOTS]):
        job = site.slot[slot]
        if job != NOBODY and (site.end[job] < ending or (site.end[job] == ending and job < site.slot[best])):
            best, ending = slot, site.end[job]
    return best, ending


@kernel()
def _end(site, slot):
    memory, job = site.memory, site.slot[slot]
    site.slot[slot] = NOBODY
    site.finish[job] = memory[NOW]
    site.running[site.machine[job]] -= 1
    site.ended[memory[FINISHED]] = job
    memory[FINISHED] += 1


@kernel()
def _change(site, change):
    """Change a speed: what is left of a running job scales with it. Or let a machine fail or recover."""
    memory, machine = site.memory, site.change_machine[change]
    kind, value = site.change_kind[change], site.change_value[change]
    if kind == SPEED:
        for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
            job = site.slot[slot]
            if job != NOBODY:
                left = (site.end[job] - memory[NOW]) * (value / site.factor[machine])
                site.end[job] = memory[NOW] + max(1, int(np.rint(left)))
        site.factor[machine] = value
    elif kind == FAILURE:
        site.down[machine] += 1
        _throw_back(site, machine)
    else:
        site.down[machine] -= 1


@kernel()
def _throw_back(site, machine):
    """Put the running jobs of a machine back to the front of the queue, the lowest number first."""
    queue = site.memory[MACHINES] if site.memory[SHARED] else machine
    while site.running[machine] > 0:
        last = NOBODY
        for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
            if site.slot[slot] != NOBODY and (last == NOBODY or site.slot[slot] > site.slot[last]):
                last = slot
        job = site.slot[last]
        site.slot[last] = NOBODY
        site.running[machine] -= 1
        site.start[job] = -1
        site.memory[RESTARTS] += 1
        enqueue(site, job, queue, site.head[queue])


@kernel()
def _start_waiting(site, machine):
    """Start jobs from a machine's queue while it has free processors."""
    if site.down[machine] > 0:
        return
    while site.running[machine] < site.cpus[machine] and site.head[machine] != NOBODY:
        _start(site, next_waiting(site, machine, machine), machine)


@kernel()
def _pull(site):
    """Start jobs from the shared queue while processors are free.

    Of several machines with a free processor the one pulls first that the broker believes to be fastest, of
    those as fast the first.
    """
    shared = site.memory[MACHINES]
    while site.head[shared] != NOBODY:
        machine = _fastest_idle(site)
        if machine == NOBODY:
            return
        job = next_waiting(site, shared, machine)
        _start(site, job, machine)
        site.placed[job] = site.memory[NOW]


@kernel()
def _fastest_idle(site):
    best = NOBODY
    for machine in range(site.memory[MACHINES]):
        if site.down[machine] > 0 or site.running[machine] == site.cpus[machine]:
            continue
        if best == NOBODY or site.believed[machine] < site.believed[best]:
            best = machine
    return best


@kernel()
def _start(site, job, machine):
    """Start a waiting job on a free processor of a machine."""
    now = site.memory[NOW]
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
def enqueue(site, job, queue, follower):
    """Put a job into a queue before another one, or at its end where that is NOBODY."""
    leader = site.tail[queue] if follower == NOBODY else site.before[follower]
    site.before[job], site.after[job] = leader, follower
    if leader == NOBODY:
        site.head[queue] = job
    else:
        site.after[leader] = job
    if follower == NOBODY:
        site.tail[queue] = job
    else:
        site.before[follower] = job
    site.machine[job] = queue
    site.waiting[queue] += 1
    site.backlog[queue] += site.estimate[job]


@kernel()
def take_out(site, job):
    """Take a waiting job out of its queue; `machine` keeps where it was."""
    queue, leader, follower = site.machine[job], site.before[job], site.after[job]
    if leader == NOBODY:
        site.head[queue] = follower
    else:
        site.after[leader] = follower
    if follower == NOBODY:
        site.tail[queue] = leader
    else:
        site.before[follower] = leader
    site.before[job] = site.after[job] = NOBODY
    site.waiting[queue] -= 1
    site.backlog[queue] -= site.estimate[job]


@kernel()
def place(site, job, machine, follower):
    """Send a job that is in no queue to a machine, before a waiting job or (NOBODY) at the queue's end.

    Where machines pull, all jobs go to the shared queue, whose number is the number of machines. A job starts
    at once if it stands first and a processor is free. A job that comes is decided by this; one
    that was taken out counts as moved if it goes to another machine.
    """
    if site.memory[DECIDING] == job:
        site.memory[DECIDING] = NOBODY
    elif site.machine[job] != machine:
        site.memory[MOVES] += 1
    site.placed[job] = site.memory[NOW]
    enqueue(site, job, machine, follower)
    if site.memory[SHARED]:
        _pull(site)
    else:
        _start_waiting(site, machine)
