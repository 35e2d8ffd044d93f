"""The events of a site, compiled: completions, submissions, and the decisions between them.

Events come by (time, kind, job), completions before submissions. All events of an instant happen before its
decisions, and a decision is due as long as a core is free and a job waits:

    while advance_until_decision(site):
        start_job(site, place, size)
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.pool import (
    AGENT,
    mark_idle,
    next_pool_event,
    request_size,
    reset_pool,
    update_pool,
)
from gridtune.systems.responsive.simulator.state import (
    AREA_AT_LAST,
    ARRIVED,
    BOOKED,
    CEILING,
    CHANGED,
    CORES,
    DECIDED,
    DONE,
    ELASTIC,
    FINISHED,
    FLOOR,
    HEAD,
    LATENCY,
    MEMORY,
    NEVER,
    NOW,
    PERIOD,
    POOL,
    PRESENT_INTERACTIVE,
    RUNNING,
    SCALER,
    TAIL,
    TICK_DUE,
    UP,
    WAITING_INTERACTIVE,
    book_pool,
    fairness_now,
    pool_area,
    remember_run_time,
    utilisation_now,
)

__all__ = ["advance_instant", "advance_until_decision", "reset_site", "start_job"]


@kernel()
def reset_site(site):
    """Reset a site to its start: no jobs, the pool at its initial size."""
    state = site.state
    memory = state.memory
    for place in range(MEMORY):
        memory[place] = 0
    for vo in range(state.service.size):
        state.service[vo] = state.running[vo] = state.begun[vo] = state.queued[vo] = 0
    state.logs[:] = 0.0
    state.weights[:] = 0.0
    state.seen[:] = 0
    state.busy[:] = 0
    for job in range(state.start.size):
        state.start[job] = state.number[job] = -1
    memory[POOL] = memory[UP] = site.settings.whole[CORES]
    if site.jobs.submit.size > 0:
        memory[NOW] = memory[BOOKED] = site.jobs.submit[0]
    # The pool may change at the first decision.
    memory[CHANGED] = memory[NOW] - site.settings.whole[PERIOD]
    reset_pool(site)


@kernel()
def advance_until_decision(site):
    """Advance until a decision is due; return False once every job is completed.

    If an agent sizes the pool, a tick of its timer is a decision, too: `TICK_DUE` is then 1.
    """
    memory = site.state.memory
    while memory[TICK_DUE] == 0 and (memory[HEAD] == memory[TAIL] or memory[RUNNING] >= memory[UP]):
        if not advance_instant(site):
            return False
    return True


@kernel()
def advance_instant(site):
    """Advance to the next event, and through all events of its instant; return False if there is none."""
    jobs, state = site.jobs, site.state
    memory, event_driven = state.memory, site.settings.whole[SCALER] != 0
    ends = submits = NEVER
    if memory[RUNNING] > 0:
        ends = _end(site, state.heap[0])
    if memory[ARRIVED] < jobs.submit.size:
        submits = jobs.submit[memory[ARRIVED]]
    now = min(ends, submits)
    if now == NEVER and (memory[HEAD] == memory[TAIL] or not event_driven):
        return False
    if event_driven:
        now = min(now, next_pool_event(site))
    memory[NOW] = now
    happened = now in (ends, submits)
    while memory[RUNNING] > 0 and _end(site, state.heap[0]) == now:
        _complete(site)
    while memory[ARRIVED] < jobs.submit.size and jobs.submit[memory[ARRIVED]] == now:
        _arrive(site)
    if event_driven:
        update_pool(site, happened)
    return True


@kernel()
def start_job(site, place, size):
    """Start a waiting job on a free core, and request a pool size.

    Parameters
    ----------
    site
        A decision is due on it.
    place
        The place of the waiting job, in order of submission: 0 ≤ place < `TAIL` − `HEAD`.
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
    memory = state.memory
    job, decision = state.waiting[memory[HEAD] + place], memory[DECIDED]
    state.decided[decision], state.time[decision], state.number[job] = job, memory[NOW], decision
    state.fairness[decision], state.utilisation[decision] = fairness_now(site), utilisation_now(site)
    _leave_queue(site, place)
    vo = site.jobs.vo[job]
    state.start[job] = memory[NOW] + site.settings.whole[LATENCY]
    state.queued[vo] -= 1
    state.running[vo] += 1
    state.begun[vo] += memory[NOW]
    state.busy[site.jobs.user[job]] += 1
    memory[WAITING_INTERACTIVE] -= site.jobs.interactive[job]
    _push(site, job)
    if site.settings.whole[SCALER] == 0:
        _resize(site, size)
    elif site.settings.whole[SCALER] == AGENT:
        request_size(site, size)
    state.pool[decision] = memory[POOL]
    memory[DECIDED] = decision + 1
    return job


@kernel()
def _resize(site, size):
    memory, whole = site.state.memory, site.settings.whole
    if whole[ELASTIC] == 0 or memory[NOW] - memory[CHANGED] < whole[PERIOD]:
        return
    granted = max(min(size, whole[CEILING]), whole[FLOOR], memory[RUNNING])
    if granted == memory[POOL]:
        return
    book_pool(site)
    memory[CHANGED] = memory[NOW]
    memory[POOL] = memory[UP] = granted


@kernel()
def _arrive(site):
    memory, job = site.state.memory, site.state.memory[ARRIVED]
    site.state.waiting[memory[TAIL]] = job
    site.state.queued[site.jobs.vo[job]] += 1
    memory[WAITING_INTERACTIVE] += site.jobs.interactive[job]
    memory[PRESENT_INTERACTIVE] += site.jobs.interactive[job]
    memory[TAIL] += 1
    memory[ARRIVED] += 1
    if memory[ARRIVED] == site.jobs.submit.size:
        memory[AREA_AT_LAST] = pool_area(site)


@kernel()
def _leave_queue(site, place):
    """Close the gap from the shorter side: removing the first or the last job moves no other."""
    memory, waiting = site.state.memory, site.state.waiting
    head, tail = memory[HEAD], memory[TAIL]
    at = head + place
    if 2 * place < tail - head:
        for other in range(at, head, -1):
            waiting[other] = waiting[other - 1]
        memory[HEAD] = head + 1
    else:
        for other in range(at, tail - 1):
            waiting[other] = waiting[other + 1]
        memory[TAIL] = tail - 1


@kernel()
def _complete(site):
    state, jobs = site.state, site.jobs
    memory, job = state.memory, state.heap[0]
    _pop(site)
    if site.settings.whole[SCALER] != 0:
        mark_idle(site)
    vo, run = jobs.vo[job], jobs.run[job]
    state.running[vo] -= 1
    state.begun[vo] -= state.start[job] - site.settings.whole[LATENCY]
    state.busy[jobs.user[job]] -= 1
    state.service[vo] += run
    memory[FINISHED] += run
    memory[PRESENT_INTERACTIVE] -= jobs.interactive[job]
    state.completed[memory[DONE]] = state.number[job]
    memory[DONE] += 1
    remember_run_time(site, job)


@kernel(inline="always")
def _end(site, job):
    return site.state.start[job] + site.jobs.run[job]


@kernel()
def _earlier(site, one, other):
    """Tell whether the first of two running jobs completes before the second; ties go by job."""
    mine, theirs = _end(site, one), _end(site, other)
    return mine < theirs or (mine == theirs and one < other)


@kernel()
def _push(site, job):
    heap, memory = site.state.heap, site.state.memory
    place = memory[RUNNING]
    memory[RUNNING] = place + 1
    while place > 0:
        above = (place - 1) // 2
        if not _earlier(site, job, heap[above]):
            break
        heap[place] = heap[above]
        place = above
    heap[place] = job


@kernel()
def _pop(site):
    heap, memory = site.state.heap, site.state.memory
    count = memory[RUNNING] - 1
    memory[RUNNING] = count
    job, place = heap[count], 0
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count and _earlier(site, heap[below + 1], heap[below]):
            below += 1
        if not _earlier(site, heap[below], job):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = job
