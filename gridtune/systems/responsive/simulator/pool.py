"""The pool of an event-driven site, compiled: cores that boot, work, idle and are released.

A rule or an agent sets the size to keep, `TARGET`. Cores that are missing are ordered and are up after `BOOT`
seconds; they are paid for from the order on. Cores beyond the target are released once they have been idle
for `IDLE` seconds, the longest idle first; a job starts on the core that became idle last. Orders and
releases may be limited to a number in each tick. No job is ever preempted, and no core is released that a
waiting job is about to take.

At one instant: completions, then submissions, boots, the rule, orders, releases, and at last the decisions.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.accounts import book_pool
from gridtune.systems.responsive.simulator.autoscalers import AGENT, desired_size
from gridtune.systems.responsive.simulator.state import (
    ARRIVED,
    AT_EVENTS,
    BOOT,
    BOOT_HEAD,
    BOOTING,
    BOOTS,
    CEILING,
    FLOOR,
    HEAD,
    IDLE,
    IDLE_HEAD,
    NEXT_TICK,
    NOW,
    ORDERS,
    ORDERS_LEFT,
    POOL,
    RELEASES,
    RELEASES_LEFT,
    RUNNING,
    SCALER,
    SPACING,
    TAIL,
    TARGET,
    TICK_DUE,
    TICKS,
    TIMER,
    TRACKED,
    UP,
    WINDOW,
)

__all__ = ["mark_idle", "next_pool_event", "request_size", "reset_pool", "update_pool"]


@kernel()
def reset_pool(site):
    """Let the first cores be up and idle; the timer's first tick is at the first submission."""
    memory = site.state.memory
    if site.settings.whole[SCALER] == 0:
        return
    memory[TARGET], memory[NEXT_TICK] = memory[POOL], memory[NOW]
    site.state.wishes[:] = 0
    for core in range(memory[POOL]):
        site.state.idle[core] = memory[NOW]


@kernel()
def next_pool_event(site):
    """Return the second of the next boot, tick or release."""
    state, whole = site.state, site.settings.whole
    memory = state.memory
    moment = memory[NEXT_TICK]
    if memory[BOOTING] > 0:
        moment = min(moment, state.booting[memory[BOOT_HEAD]])
    if _releasable(site) > 0:
        moment = min(moment, max(memory[NOW], state.idle[memory[IDLE_HEAD]] + whole[IDLE]))
    return moment


@kernel()
def update_pool(site, happened):
    """Carry out what is due to the pool at this instant; `happened`: a job was submitted or completed."""
    state, whole = site.state, site.settings.whole
    memory = state.memory
    while memory[BOOTING] > 0 and state.booting[memory[BOOT_HEAD]] <= memory[NOW]:
        memory[BOOT_HEAD] = (memory[BOOT_HEAD] + 1) % state.booting.size
        memory[BOOTING] -= 1
        memory[UP] += 1
        mark_idle(site)
        happened = True
    tick = memory[NOW] == memory[NEXT_TICK]
    if tick:
        memory[NEXT_TICK] += whole[TIMER]
        memory[TICKS] += 1
        memory[ORDERS_LEFT], memory[RELEASES_LEFT] = whole[ORDERS], whole[RELEASES]
    if whole[SCALER] == AGENT:
        if tick and memory[ARRIVED] == site.jobs.submit.size and memory[HEAD] == memory[TAIL]:
            # Without jobs to come or waiting, there is nothing to decide: what is idle goes.
            memory[TARGET] = whole[FLOOR]
        elif tick:
            memory[TICK_DUE] = 1
    elif tick or (happened and whole[AT_EVENTS] == 1):
        memory[TARGET] = _limited(site, _largest_wish(site, desired_size(site), tick))
    _order_and_release(site)
    if tick:
        _track(site)


@kernel()
def request_size(site, size):
    """Carry out an agent's request for a pool size, and its tick, if one is due."""
    memory = site.state.memory
    memory[TICK_DUE] = 0
    memory[TARGET] = _limited(site, size)
    _order_and_release(site)


@kernel()
def mark_idle(site):
    """Note the instant at which a core became idle, which the numbers of cores already tell."""
    memory, idle = site.state.memory, site.state.idle
    idle[(memory[IDLE_HEAD] + memory[UP] - memory[RUNNING] - 1) % idle.size] = memory[NOW]


@kernel(inline="always")
def _limited(site, size):
    return max(min(size, site.settings.whole[CEILING]), site.settings.whole[FLOOR])


@kernel()
def _largest_wish(site, size, tick):
    """Return the largest size that the rule has asked for in the last `WINDOW` ticks, now included."""
    wishes, ticks = site.state.wishes, site.state.memory[TICKS]
    slot = ticks % wishes.size
    wishes[slot] = size if tick else max(size, wishes[slot])
    largest = wishes[slot]
    for other in range(min(ticks, site.settings.whole[WINDOW])):
        largest = max(largest, wishes[other])
    return largest if wishes.size > 1 else size


@kernel()
def _releasable(site):
    """Return how many cores may be released once they have been idle for long enough."""
    memory = site.state.memory
    surplus = memory[POOL] - max(memory[TARGET], site.settings.whole[FLOOR])
    idle = memory[UP] - memory[RUNNING] - (memory[TAIL] - memory[HEAD])
    return min(surplus, idle, memory[RELEASES_LEFT])


@kernel()
def _order_and_release(site):
    state, whole = site.state, site.settings.whole
    memory = state.memory
    missing = min(memory[TARGET] - memory[POOL], memory[ORDERS_LEFT])
    if missing > 0:
        book_pool(site)
        for order in range(missing):
            place = (memory[BOOT_HEAD] + memory[BOOTING] + order) % state.booting.size
            state.booting[place] = memory[NOW] + whole[BOOT]
        memory[BOOTING] += missing
        memory[POOL] += missing
        memory[BOOTS] += missing
        memory[ORDERS_LEFT] -= missing
    while _releasable(site) > 0 and state.idle[memory[IDLE_HEAD]] + whole[IDLE] <= memory[NOW]:
        book_pool(site)
        memory[IDLE_HEAD] = (memory[IDLE_HEAD] + 1) % state.idle.size
        memory[POOL] -= 1
        memory[UP] -= 1
        memory[RELEASES_LEFT] -= 1


@kernel()
def _track(site):
    """Write the rows of `State.track` that are due; jobs about to start count as running."""
    state, submit, spacing = site.state, site.jobs.submit, site.settings.whole[SPACING]
    memory = state.memory
    while memory[TRACKED] < state.track.shape[0]:
        if memory[NOW] < submit[0] + memory[TRACKED] * spacing or memory[NOW] > submit[submit.size - 1]:
            return
        row = state.track[memory[TRACKED]]
        present = memory[RUNNING] + memory[TAIL] - memory[HEAD]
        row[0], row[1], row[2] = memory[NOW], memory[POOL], memory[UP]
        row[3] = min(present, memory[UP])
        row[4] = present - row[3]
        memory[TRACKED] += 1
