"""The four schedulers, compiled, and the evaluation of plans with them.

Sources: H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002, section 4 (HEFT); A. Mandal et al., "Scheduling strategies
for mapping application workflows onto the grid", HPDC 2005 (Min-Min and Max-Min, level by level); G. Singh,
C. Kesselman, E. Deelman, HPDC 2007, sections 3 and 5 (Greedy; slots, several slots for a task, extension).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.provisioning.planning.placement import (
    INFINITE,
    TOGETHER,
    columns_of,
    earliest_fit,
    place,
    take,
)

HEFT, GREEDY, MIN_MIN, MAX_MIN = range(4)
#: Schedulers by name.
SCHEDULERS: Mapping[str, int] = {"heft": HEFT, "greedy": GREEDY, "min-min": MIN_MIN, "max-min": MAX_MIN}
#: The value of a place that must be searched again.
_STALE = -1.0


@kernel()
def _open_slots(work, slots, plan):
    """Begin a plan with the slots where `plan` is true, all free."""
    for site in range(work.sites + 1):
        work.site_first[site], work.capacity[site] = 0, 0
    count = 0
    for number in range(work.slots):
        slot = slots.sequence[number]
        work.used[slot], work.until[slot], work.taken[slot] = 0.0, -INFINITE, 0
        if not plan[slot]:
            continue
        work.plan_slots[count] = slot
        work.first[slot] = work.hint_node[slot] = count
        work.node_time[count], work.node_free[count] = slots.start[slot], slots.processors[slot]
        work.node_next[count] = -1
        # The empty query: every other query asks for more.
        work.hint_ready[slot] = work.hint_start[slot] = -INFINITE
        work.hint_run[slot], work.hint_processors[slot] = -1.0, 0
        work.site_first[slots.site[slot] + 1] += 1
        work.capacity[slots.site[slot]] += slots.processors[slot]
        count += 1
    work.nodes[0], work.pieces[0], work.opened[0] = count, 0, count
    for site in range(work.sites):
        work.site_first[site + 1] += work.site_first[site]
    for number in range(count - 1, -1, -1):
        slot = work.plan_slots[number]
        work.site_first[slots.site[slot] + 1] -= 1
        work.by_site[work.site_first[slots.site[slot] + 1]] = slot
    for site in range(work.sites):  # entry s + 1 holds where the slots of site s begin
        work.site_first[site] = work.site_first[site + 1]
    work.site_first[work.sites] = count


@kernel()
def _find_ready(work, graph, task, problem):
    """Note the earliest start of a task at each site: when its parents have ended and their data arrived."""
    sites = work.sites
    base = task * sites
    for site in range(sites):
        work.ready[base + site] = problem.now
    for edge in range(graph.parents[task], graph.parents[task + 1]):
        parent = graph.parent[edge]
        origin, finish = work.at[parent], work.finish[parent]
        for site in range(sites):
            arrival = finish
            if site != origin:
                arrival = finish + (problem.latency + graph.volume[edge] / problem.bandwidth)
            work.ready[base + site] = max(work.ready[base + site], arrival)


@kernel()
def upward_ranks(order, children, child, volume, mean_run, latency, seconds_per_byte):
    """Return each task's upward rank: its mean run time, and the longest path from there to the end.

    Topcuoglu et al., equation 8: rank(i) = w̄(i) + max over children j of (c̄(i, j) + rank(j)).

    Parameters
    ----------
    order
        The tasks, parents before children.
    children, child, volume
        Compressed rows of children and of the bytes sent to them.
    mean_run
        Seconds, over the sites.
    latency, seconds_per_byte
        Means over the pairs of different sites.
    """
    rank = np.zeros(order.size)
    for index in range(order.size - 1, -1, -1):
        task = order[index]
        longest = 0.0
        for edge in range(children[task], children[task + 1]):
            sending = latency + volume[edge] * seconds_per_byte
            longest = max(longest, sending + rank[child[edge]])
        rank[task] = mean_run[task] + longest
    return rank


@kernel()
def _by_list(work, graph, slots, problem):
    """Place the tasks in their order, each where it ends first or where the makespan grows least."""
    now, cross, mind_makespan = problem.now, problem.cross, problem.scheduler == GREEDY
    last, before, value, slot, site, start = now, -1, INFINITE, -1, -1, INFINITE
    for index in range(work.tasks):
        task = graph.order[index]
        _find_ready(work, graph, task, problem)
        floor = last if mind_makespan else now
        # Room only shrinks: if a task like the previous one ends as early in the same slot, that is best.
        again = before >= 0 and slot != TOGETHER and _alike(work, graph, task, before)
        if again:
            base, ready = task * work.sites + site, work.ready[task * work.sites + site]
            start = earliest_fit(work, slots, slot, graph.processors[task], graph.run[base], ready)
            again = max(start + graph.run[base], floor) == value
        if not again:
            value, slot, site, start = place(work, graph, slots, task, floor, cross)
        if value == INFINITE:
            return INFINITE
        take(work, graph, slots, task, slot, site, start)
        last, before = max(last, work.finish[task]), task
    return last


@kernel()
def _by_level(work, graph, slots, problem):
    """Level by level, place the task whose earliest end is first (Min-Min) or last (Max-Min)."""
    now, cross, longest_first = problem.now, problem.cross, problem.scheduler == MAX_MIN
    last, begin, level = now, 0, 0
    while begin < work.tasks:
        level += 1
        end = graph.levels[level]
        work.queued[0] = end - begin
        for index in range(begin, end):
            task = graph.by_level[index]
            _find_ready(work, graph, task, problem)
            work.queue[index - begin], work.value[task] = task, _STALE
        begin = end
        while work.queued[0] > 0:
            if not _find_places(work, graph, slots, cross, now):
                return INFINITE
            next_up = 0
            for index in range(1, work.queued[0]):
                value, best = work.value[work.queue[index]], work.value[work.queue[next_up]]
                if (value > best) if longest_first else (value < best):
                    next_up = index
            task = work.queue[next_up]
            slot, site = work.best_slot[task], work.at[task]
            take(work, graph, slots, task, slot, site, work.start[task])
            last = max(last, work.finish[task])
            _dequeue(work, next_up, slot, site)
    return last


@kernel()
def _find_places(work, graph, slots, cross, now):
    """Search again for the stale places of queued tasks; return whether all tasks have one.

    A task like the previous one gets the same place.
    """
    before = -1
    for index in range(work.queued[0]):
        task = work.queue[index]
        if work.value[task] != _STALE:
            continue
        if before >= 0 and _alike(work, graph, task, before):
            work.value[task], work.best_slot[task] = work.value[before], work.best_slot[before]
            work.at[task], work.start[task] = work.at[before], work.start[before]
            continue
        value, slot, site, start = place(work, graph, slots, task, now, cross)
        if value == INFINITE:
            return False
        work.value[task], work.best_slot[task] = value, slot
        work.at[task], work.start[task] = site, start
        before = task
    return True


@kernel()
def _alike(work, graph, task, other):
    if graph.processors[task] != graph.processors[other]:
        return False
    sites = work.sites
    for site in range(sites):
        a, b = task * sites + site, other * sites + site
        if graph.run[a] != graph.run[b] or work.ready[a] != work.ready[b]:
            return False
    return True


@kernel()
def _dequeue(work, position, slot, site):
    """Remove a placed task from the queue, and mark as stale the places in the slots it took.

    Room only shrinks: a place in other slots stays the best one.
    """
    work.queued[0] -= 1
    for index in range(work.queued[0]):
        if index >= position:
            work.queue[index] = work.queue[index + 1]
        other = work.queue[index]
        together = slot == TOGETHER or work.best_slot[other] == TOGETHER
        if work.best_slot[other] == slot or (together and work.at[other] == site):
            work.value[other] = _STALE


@kernel()
def payment(work, slots, slot):
    """Return the price of a slot of the plan: price × processors × seconds paid + fixed.

    Of a divisible slot what tasks hold is paid, of any other slot all of it, to the end of its last task
    where that is later than the slot's own end. A divisible slot that no task uses costs nothing.
    """
    if slots.divisible[slot] == 1:
        return work.used[slot] * slots.price[slot] + slots.fixed[slot] if work.taken[slot] == 1 else 0.0
    seconds = max(work.until[slot], slots.offered[slot]) - slots.start[slot]
    return slots.processors[slot] * seconds * slots.price[slot] + slots.fixed[slot]


@kernel()
def make_plan(problem, memory, plan):
    """Place a workflow on slots.

    Parameters
    ----------
    problem
        An `Instance`.
    memory
        Handles of `new_workspace`.
    plan
        Shape (slots,), bool: the slots that may be used.

    Returns
    -------
    work, slots
        The `Workspace` that holds the plan, and the columns of the slots.
    last
        The end of the last task; infinite if the plan is infeasible.
    """
    work, graph, slots = columns_of(problem, memory)
    _open_slots(work, slots, plan)
    if problem.scheduler in (HEFT, GREEDY):
        last = _by_list(work, graph, slots, problem)
    else:
        last = _by_level(work, graph, slots, problem)
    return work, slots, last
