"""The events of a site, compiled: completions, submissions, and the decisions between them.

Events come by (time, kind, job), completions before submissions. All events of an instant happen before its
decisions, and a decision is due as long as a core is free and a job waits:

    while advance_until_decision(site):
        start_job(site, place, size)

If terminations resize the pool too, one that leaves the queue empty is a decision of its own (`tick_due`),
for `resize_pool`.

*The pool of an event-driven site*: cores that boot, work, idle and are released.
A rule or an agent sets the size to keep, `target`. Cores that are missing are ordered and are up after `boot`
seconds; they are paid for from the order on. Cores beyond the target are released once they have been idle
for `idle` seconds, the longest idle first; a job starts on the core that became idle last. No job is ever
preempted, and no core is released that a waiting job is about to take.

At one instant: completions, then submissions, boots, the rule, orders, releases, and at last the decisions.

With r running and q waiting jobs, `DEMAND` asks for headroom · (r + q) cores and `QUEUE` for (r + q) / jobs
per core, both rounded up; under `AGENT` an agent asks for sizes. `QUEUE` is KEDA's rule for a queue of
messages, of which those in work count.
"""

from __future__ import annotations

import math

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.core.rows import pop_row, push_row
from gridtune.systems.responsive.simulator.state import (
    MEMORY,
    NEVER,
    VO,
    VO_CLASS,
    service_of,
    total_service,
)

DEMAND, QUEUE, AGENT = range(1, 4)
#: Weight of the jobs of a VO and class before the last one, relative to its own.
_FORGETTING = 0.98


@kernel()
def _fairness_now(site):
    """Return F of a decision taken now: 1 − maxₖ (wₖ − Sₖ)₊ / maxₖ wₖ; 1 before any service."""
    shares, total = site.shares, total_service(site)
    if total == 0:
        return 1.0
    worst = 0.0
    for vo in range(shares.size):
        worst = max(worst, shares[vo] - service_of(site, vo) / total)
    return 1.0 - worst / site.model[0].largest_share


@kernel()
def _pool_area(site):
    """Return the core-seconds of the pool since the first submission."""
    memory = site.state.memory[0]
    return memory.area + memory.pool * (memory.now - memory.booked)


@kernel()
def _utilisation_of(site, finished):
    """Return run time of completed jobs / core-seconds of the pool so far; 0 at first."""
    area = _pool_area(site)
    return finished / area if area > 0 else 0.0


@kernel()
def _book_pool(site):
    """Count the pool's core-seconds up to now; due before each change of its size."""
    memory = site.state.memory[0]
    memory.area, memory.booked = _pool_area(site), memory.now


@kernel()
def _next_pool_event(site):
    """Return the second of the next boot, tick or release."""
    state, model = site.state, site.model[0]
    memory = state.memory[0]
    moment = memory.next_tick
    if memory.booting > 0:
        moment = min(moment, state.booting[memory.boot_head])
    if _releasable(site) > 0:
        moment = min(moment, max(memory.now, state.idle[memory.idle_head] + model.idle))
    return moment


@kernel()
def _update_pool(site, happened):
    """Carry out what is due to the pool at this instant; `happened`: a job was submitted or completed."""
    state, model = site.state, site.model[0]
    memory = state.memory[0]
    while memory.booting > 0 and state.booting[memory.boot_head] <= memory.now:
        memory.boot_head = (memory.boot_head + 1) % state.booting.size
        memory.booting -= 1
        memory.up += 1
        _mark_idle(site)
        happened = True
    tick = memory.now == memory.next_tick
    if tick:
        memory.next_tick += model.timer
        memory.ticks += 1
    if model.scaler == AGENT:
        if tick and memory.arrived == site.jobs.submit.size and memory.head == memory.tail:
            # Without jobs to come or waiting, there is nothing to decide: what is idle goes.
            memory.target = model.floor
        elif tick:
            memory.tick_due = True
    elif tick or (happened and model.at_events):
        present = memory.running + memory.tail - memory.head
        wish = model.headroom * present if model.scaler == DEMAND else present / model.jobs_per_core
        memory.target = _limited(site, _largest_wish(site, math.ceil(wish), tick))
    _order_and_release(site)
    if tick:
        _track(site)


@kernel()
def request_size(site, size):
    """Carry out an agent's request for a pool size, and its tick, if one is due."""
    memory = site.state.memory[0]
    memory.tick_due = False
    memory.target = _limited(site, size)
    _order_and_release(site)


@kernel()
def _mark_idle(site):
    """Note the instant at which a core became idle, which the numbers of cores already tell."""
    memory, idle = site.state.memory[0], site.state.idle
    idle[(memory.idle_head + memory.up - memory.running - 1) % idle.size] = memory.now


@kernel(inline="always")
def _limited(site, size):
    return max(min(size, site.model[0].largest), site.model[0].floor)


@kernel()
def _largest_wish(site, size, tick):
    """Return the largest size that the rule has asked for in the last `window` ticks, now included."""
    wishes, ticks = site.state.wishes, site.state.memory[0].ticks
    slot = ticks % wishes.size
    wishes[slot] = size if tick else max(size, wishes[slot])
    largest = wishes[slot]
    for other in range(min(ticks, site.model[0].window)):
        largest = max(largest, wishes[other])
    return largest if wishes.size > 1 else size


@kernel()
def _releasable(site):
    """Return how many cores may be released once they have been idle for long enough."""
    memory = site.state.memory[0]
    surplus = memory.pool - max(memory.target, site.model[0].floor)
    idle = memory.up - memory.running - (memory.tail - memory.head)
    return min(surplus, idle)


@kernel()
def _order_and_release(site):
    state, model = site.state, site.model[0]
    memory = state.memory[0]
    missing = memory.target - memory.pool
    if missing > 0:
        _book_pool(site)
        for order in range(missing):
            place = (memory.boot_head + memory.booting + order) % state.booting.size
            state.booting[place] = memory.now + model.boot
        memory.booting += missing
        memory.pool += missing
        memory.boots += missing
    while _releasable(site) > 0 and state.idle[memory.idle_head] + model.idle <= memory.now:
        _book_pool(site)
        memory.idle_head = (memory.idle_head + 1) % state.idle.size
        memory.pool -= 1
        memory.up -= 1


@kernel()
def _track(site):
    """Write the rows of `State.track` that are due; jobs about to start count as running."""
    state, submit, spacing = site.state, site.jobs.submit, site.model[0].spacing
    memory = state.memory[0]
    while memory.tracked < state.track.shape[0]:
        if memory.now < submit[0] + memory.tracked * spacing or memory.now > submit[submit.size - 1]:
            return
        row = state.track[memory.tracked]
        present = memory.running + memory.tail - memory.head
        row[0], row[1], row[2] = memory.now, memory.pool, memory.up
        row[3] = min(present, memory.up)
        row[4] = present - row[3]
        memory.tracked += 1


#: Records of zeros, as constants of the compiled code.
_NO_MEMORY, _NO_VO, _NO_CLASS = np.zeros(1, MEMORY), np.zeros(1, VO), np.zeros(1, VO_CLASS)


@kernel()
def reset_site(site):
    """Reset a site to its start: no jobs, the pool at its initial size."""
    state = site.state
    state.memory[:] = _NO_MEMORY[0]
    state.vos[:] = _NO_VO[0]
    state.classes[:] = _NO_CLASS[0]
    state.completed_of[:] = 0
    state.busy[:] = 0
    for job in range(state.start.size):
        state.start[job] = state.number[job] = -1
    memory = state.memory[0]
    memory.pool = memory.up = site.model[0].cores
    if site.jobs.submit.size > 0:
        memory.now = memory.booked = site.jobs.submit[0]
    # The pool may change at the first decision.
    memory.changed = memory.now - site.model[0].period
    if site.model[0].scaler != 0:
        # The first cores are up and idle; the timer's first tick is at the first submission.
        memory.target, memory.next_tick = memory.pool, memory.now
        state.wishes[:] = 0
        state.idle[: memory.pool] = memory.now


@kernel()
def advance_until_decision(site):
    """Advance until a decision is due; return False once every job is completed.

    If an agent sizes the pool, a tick of its timer is a decision, too, and where terminations resize it one
    that leaves the queue empty, if the pool may change: `tick_due` is then 1.
    """
    memory = site.state.memory[0]
    while not memory.tick_due and (memory.head == memory.tail or memory.running >= memory.up):
        if not advance_instant(site):
            return False
    return True


@kernel()
def advance_instant(site):
    """Advance to the next event, and through all events of its instant; return False if there is none."""
    jobs, state = site.jobs, site.state
    memory, event_driven = state.memory[0], site.model[0].scaler != 0
    ends = submits = NEVER
    if memory.running > 0:
        ends = state.ends[0]
    if memory.arrived < jobs.submit.size:
        submits = jobs.submit[memory.arrived]
    now = min(ends, submits)
    if now == NEVER and (memory.head == memory.tail or not event_driven):
        return False
    if event_driven:
        now = min(now, _next_pool_event(site))
    memory.now = now
    happened = now in (ends, submits)
    while memory.running > 0 and state.ends[0] == now:
        _complete(site)
    while memory.arrived < jobs.submit.size and jobs.submit[memory.arrived] == now:
        _arrive(site)
    if event_driven:
        _update_pool(site, happened)
    elif site.model[0].resized_at_ends and site.model[0].elastic and ends == now:
        waited = now - memory.changed >= site.model[0].period
        memory.tick_due = waited and memory.head == memory.tail
    return True


@kernel()
def start_job(site, place, size):
    """Start a waiting job on a free core, and request a pool size.

    Parameters
    ----------
    site
        A decision is due on it.
    place
        The place of the waiting job, in order of submission: 0 ≤ place < `tail` − `head`.
    size
        The requested size of the pool, cores. A rigid site ignores it; so does an elastic one whose pool has
        changed within the period, and an event-driven one unless an agent sizes the pool. Otherwise the pool
        takes this size, but at most the ceiling, and at least the floor and the number of running jobs,
        including this one; an event-driven pool gets there by boots and releases.

    Returns
    -------
    int
        The job.
    """
    state = site.state
    memory = state.memory[0]
    job, decision = state.waiting[memory.head + place], memory.decided
    if site.model[0].charged_after and decision > 0:
        before = state.decisions[decision - 1]
        before.utilisation = _utilisation_of(site, before.finished)
    state.number[job] = decision
    taken = state.decisions[decision]
    taken.job, taken.time, taken.finished = job, memory.now, memory.finished
    taken.fairness, taken.utilisation = _fairness_now(site), _utilisation_of(site, memory.finished)
    _leave_queue(site, place)
    state.start[job] = memory.now + site.model[0].start_latency
    mine = state.vos[site.jobs.vo[job]]
    mine.queued -= 1
    mine.running += 1
    mine.begun += memory.now
    state.busy[site.jobs.user[job]] += 1
    memory.waiting_interactive -= site.jobs.interactive[job]
    push_row(state.ends, state.heap, memory.running, state.start[job] + site.jobs.run[job], job)
    memory.running += 1
    if site.model[0].scaler == 0:
        _resize(site, size)
    elif site.model[0].scaler == AGENT:
        request_size(site, size)
    taken.pool = memory.pool
    memory.decided = decision + 1
    return job


@kernel()
def resize_pool(site, size):
    """Request a pool size at a termination that `tick_due` names; it is granted as `start_job` does."""
    site.state.memory[0].tick_due = False
    _resize(site, size)


@kernel()
def _resize(site, size):
    memory, model = site.state.memory[0], site.model[0]
    if not model.elastic or memory.now - memory.changed < model.period:
        return
    granted = max(min(size, model.largest), model.floor, memory.running)
    if granted == memory.pool:
        return
    _book_pool(site)
    memory.changed = memory.now
    memory.pool = memory.up = granted


@kernel()
def _arrive(site):
    memory, job = site.state.memory[0], site.state.memory[0].arrived
    site.state.waiting[memory.tail] = job
    site.state.vos[site.jobs.vo[job]].queued += 1
    memory.waiting_interactive += site.jobs.interactive[job]
    memory.tail += 1
    memory.arrived += 1
    if memory.arrived == site.jobs.submit.size:
        memory.area_at_last = _pool_area(site)


@kernel()
def _leave_queue(site, place):
    """Close the gap from the shorter side: removing the first or the last job moves no other."""
    memory, waiting = site.state.memory[0], site.state.waiting
    head, tail = memory.head, memory.tail
    at = head + place
    if 2 * place < tail - head:
        for other in range(at, head, -1):
            waiting[other] = waiting[other - 1]
        memory.head = head + 1
    else:
        for other in range(at, tail - 1):
            waiting[other] = waiting[other + 1]
        memory.tail = tail - 1


@kernel()
def _complete(site):
    state, jobs = site.state, site.jobs
    memory, job = state.memory[0], state.heap[0]
    pop_row(state.ends, state.heap, memory.running)
    memory.running -= 1
    if site.model[0].scaler != 0:
        _mark_idle(site)
    mine, run = state.vos[jobs.vo[job]], jobs.run[job]
    mine.running -= 1
    mine.begun -= state.start[job] - site.model[0].start_latency
    state.busy[jobs.user[job]] -= 1
    mine.service += run
    memory.finished += run
    state.completed[memory.done] = state.number[job]
    memory.done += 1
    past = state.classes[jobs.vo[job], jobs.interactive[job]]
    past.log = _FORGETTING * past.log + math.log(run)
    past.weight = _FORGETTING * past.weight + 1.0
    _insert(site, jobs.interactive[job], run)


@kernel()
def _insert(site, kind, value):
    """Add a run time to the sorted ones of a class; the oldest one of a full list leaves."""
    state, size = site.state, site.model[0].median_of
    recent, ordered = state.recent[kind], state.ordered[kind]
    completed = state.completed_of[kind]
    stored = min(completed, size)
    slot = completed % size
    if completed >= size:
        # Close the gap of the oldest one: larger ones move down.
        oldest, place = recent[slot], 0
        while ordered[place] != oldest:
            place += 1
        for later in range(place, stored - 1):
            ordered[later] = ordered[later + 1]
        stored -= 1
    place = stored
    while place > 0 and ordered[place - 1] > value:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = value
    recent[slot] = value
    state.completed_of[kind] = completed + 1
