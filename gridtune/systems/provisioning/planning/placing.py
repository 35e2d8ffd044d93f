"""The placement of one task: in one slot, or in several slots of a site at once."""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.provisioning.planning.state import INFINITE, PIECES, PLAN_SLOTS, earliest_fit, reserve

__all__ = ["ALWAYS", "NARROW", "NEVER", "TOGETHER", "find_ready", "place", "take"]

#: When a task may use several slots of a site: never; only if no single slot can hold it; whenever it ends
#: earlier than in any single slot.
NEVER, NARROW, ALWAYS = range(3)
#: In place of a slot: several slots of the site.
TOGETHER = -2


@kernel()
def find_ready(work, graph, task, now):
    """Note the earliest start of a task at each site: when its parents have ended and their data arrived."""
    sites = work.sites
    base = task * sites
    for site in range(sites):
        work.ready[base + site] = now
    for edge in range(graph.parents[task], graph.parents[task + 1]):
        parent = graph.parent[edge]
        origin, finish = work.at[parent], work.finish[parent]
        for site in range(sites):
            arrival = finish
            if site != origin:
                pair = origin * sites + site
                arrival = finish + (graph.latency[pair] + graph.volume[edge] / graph.bandwidth[pair])
            work.ready[base + site] = max(work.ready[base + site], arrival)


@kernel()
def _least_free(work, slot, start, finish):
    """Note how many processors of a slot are free over [start, finish), and when that may next be more.

    Starts come in ascending order. The least cannot grow before the last node that has it is past.
    """
    node = work.cursor[slot]
    after = work.node_next[node]
    while after >= 0 and work.node_time[after] <= start:
        node, after = after, work.node_next[after]
    work.cursor[slot] = node
    least, last = work.node_free[node], after
    while after >= 0 and work.node_time[after] < finish:
        free = work.node_free[after]
        after = work.node_next[after]
        if free <= least:
            least, last = free, after
    work.least[slot] = least
    work.rise[slot] = INFINITE if last < 0 else work.node_time[last]
    work.looked[slot] = start


@kernel()
def _fit_together(work, slots, site, processors, run, ready, floor, best):
    """Return the earliest start at which slots of a site together hold a task; infinite if none beats `best`.

    Until some slot's least may grow, the leasts found before are upper bounds. Exact values are computed only
    where these bounds suffice.
    """
    begin, end = work.site_first[site], work.site_first[site + 1]
    for place in range(begin, end):
        slot = work.by_site[place]
        work.cursor[slot], work.least[slot] = work.first[slot], slots.processors[slot]
        work.rise[slot] = work.looked[slot] = -INFINITE
    start = ready
    while max(start + run, floor) < best:
        bound, later = 0, INFINITE
        for place in range(begin, end):
            slot = work.by_site[place]
            if slots.start[slot] > start:
                later = min(later, slots.start[slot])
            elif start + run <= slots.end[slot]:
                if work.rise[slot] <= start:
                    _least_free(work, slot, start, start + run)
                bound += work.least[slot]
                later = min(later, work.rise[slot])
        if bound >= processors:
            bound, later = 0, INFINITE
            for place in range(begin, end):
                slot = work.by_site[place]
                if slots.start[slot] > start:
                    later = min(later, slots.start[slot])
                elif start + run <= slots.end[slot]:
                    if work.looked[slot] != start:
                        _least_free(work, slot, start, start + run)
                    bound += work.least[slot]
                    later = min(later, work.rise[slot])
            if bound >= processors:
                return start
        start = later
    return INFINITE


@kernel()
def place(work, graph, slots, task, floor, cross):
    """Find where a task ends first; ties go to the first slot in sequence, and to one slot before several.

    Parameters
    ----------
    work, graph, slots
        The plan so far; `find_ready` has been called for the task.
    task
        Its number.
    floor
        No end counts as earlier than this: the makespan so far, where only what lengthens it counts.
    cross
        `NEVER`, `NARROW` or `ALWAYS`.

    Returns
    -------
    value, slot, site, start
        The value that is minimised (infinite if there is no room), slot or `TOGETHER`, site and start.
    """
    sites = work.sites
    base, processors = task * sites, graph.processors[task]
    best, best_slot, best_site, best_start = INFINITE, -1, -1, INFINITE
    for index in range(work.counters[PLAN_SLOTS]):
        slot = work.plan_slots[index]
        if processors > slots.processors[slot]:
            continue
        site = slots.site[slot]
        run, ready = graph.run[base + site], work.ready[base + site]
        if max(max(ready, slots.start[slot]) + run, floor) >= best:
            continue
        start = earliest_fit(work, slots, slot, processors, run, ready)
        value = max(start + run, floor)
        if value < best:
            best, best_slot, best_site, best_start = value, slot, site, start
    if cross == NEVER or processors == 1 or (cross == NARROW and best < INFINITE):
        return best, best_slot, best_site, best_start
    for site in range(sites):
        if processors > work.capacity[site]:
            continue
        run, ready = graph.run[base + site], work.ready[base + site]
        start = _fit_together(work, slots, site, processors, run, ready, floor, best)
        if start < INFINITE:
            best, best_slot, best_site, best_start = max(start + run, floor), TOGETHER, site, start
    return best, best_slot, best_site, best_start


@kernel()
def take(work, graph, slots, task, slot, site, start):
    """Place a task; of several slots each is used in sequence, as far as it has free processors."""
    run, left = graph.run[task * work.sites + site], graph.processors[task]
    finish = start + run
    work.at[task], work.start[task], work.finish[task] = site, start, finish
    work.piece_first[task] = work.counters[PIECES]
    if slot != TOGETHER:
        _take_piece(work, slot, start, finish, left, run)
        return
    for index in range(work.site_first[site], work.site_first[site + 1]):
        slot = work.by_site[index]
        if left == 0 or slots.start[slot] > start or finish > slots.end[slot]:
            continue
        # The least found during placement may be of another task by now.
        work.cursor[slot] = work.first[slot]
        _least_free(work, slot, start, finish)
        if work.least[slot] > 0:
            piece = min(left, work.least[slot])
            _take_piece(work, slot, start, finish, piece, run)
            left -= piece


@kernel()
def _take_piece(work, slot, start, finish, processors, run):
    piece = work.counters[PIECES]
    work.counters[PIECES] = piece + 1
    work.piece_slot[piece], work.piece_processors[piece] = slot, processors
    work.taken[slot] = 1
    work.used[slot] += run * processors
    work.until[slot] = max(work.until[slot], finish)
    reserve(work, slot, start, finish, processors)
