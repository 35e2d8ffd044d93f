"""Where a task goes next: in one slot, or in several of a site at once; and how that is taken."""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.provisioning.planning.state import CHOSEN, INFINITE, PIECES, earliest_fit, reserve

__all__ = ["ALWAYS", "NARROW", "NEVER", "TOGETHER", "find_ready", "place", "take"]

#: When a task may take processors of several slots of a site: never; only if no single slot can hold it;
#: whenever it comes out earlier than in any single slot.
NEVER, NARROW, ALWAYS = range(3)
#: In place of a slot: several slots of the site.
TOGETHER = -2


@kernel()
def find_ready(work, graph, task, now):
    """Write down from when on a task could start at each site: its parents' ends and what they send."""
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

    Starts are asked for in ascending order. The least cannot grow before the last node that has it is past.
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
def _fit_together(work, offers, site, processors, run, ready, floor, best):
    """Return the earliest start at which slots of a site together hold a task; infinite for none below best.

    Between the instants at which some slot's least may grow, those found before are upper bounds, and only
    where these would do is the present looked at.
    """
    begin, end = work.site_first[site], work.site_first[site + 1]
    for place in range(begin, end):
        slot = work.by_site[place]
        work.cursor[slot], work.least[slot] = work.first[slot], offers.processors[slot]
        work.rise[slot] = work.looked[slot] = -INFINITE
    start = ready
    while max(start + run, floor) < best:
        bound, later = 0, INFINITE
        for place in range(begin, end):
            slot = work.by_site[place]
            if offers.start[slot] > start:
                later = min(later, offers.start[slot])
            elif start + run <= offers.end[slot]:
                if work.rise[slot] <= start:
                    _least_free(work, slot, start, start + run)
                bound += work.least[slot]
                later = min(later, work.rise[slot])
        if bound >= processors:
            bound, later = 0, INFINITE
            for place in range(begin, end):
                slot = work.by_site[place]
                if offers.start[slot] > start:
                    later = min(later, offers.start[slot])
                elif start + run <= offers.end[slot]:
                    if work.looked[slot] != start:
                        _least_free(work, slot, start, start + run)
                    bound += work.least[slot]
                    later = min(later, work.rise[slot])
            if bound >= processors:
                return start
        start = later
    return INFINITE


@kernel()
def place(work, graph, offers, task, floor, cross):
    """Find where a task ends first; of equals the first slot in sequence, and one slot before several.

    Parameters
    ----------
    work, graph, offers
        The plan so far; `find_ready` was asked about the task.
    task
        Which.
    floor
        No end counts as earlier than this: the makespan so far, for those who only mind what lengthens it.
    cross
        `NEVER`, `NARROW` or `ALWAYS`.

    Returns
    -------
    value, slot, site, start
        What is made smallest (infinite: there is no room), slot or `TOGETHER`, site and start.
    """
    sites = work.sites
    base, processors = task * sites, graph.processors[task]
    best, best_slot, best_site, best_start = INFINITE, -1, -1, INFINITE
    for index in range(work.counters[CHOSEN]):
        slot = work.chosen[index]
        if processors > offers.processors[slot]:
            continue
        site = offers.site[slot]
        run, ready = graph.run[base + site], work.ready[base + site]
        if max(max(ready, offers.start[slot]) + run, floor) >= best:
            continue
        start = earliest_fit(work, offers, slot, processors, run, ready)
        value = max(start + run, floor)
        if value < best:
            best, best_slot, best_site, best_start = value, slot, site, start
    if cross == NEVER or processors == 1 or (cross == NARROW and best < INFINITE):
        return best, best_slot, best_site, best_start
    for site in range(sites):
        if processors > work.capacity[site]:
            continue
        run, ready = graph.run[base + site], work.ready[base + site]
        start = _fit_together(work, offers, site, processors, run, ready, floor, best)
        if start < INFINITE:
            best, best_slot, best_site, best_start = max(start + run, floor), TOGETHER, site, start
    return best, best_slot, best_site, best_start


@kernel()
def take(work, graph, offers, task, slot, site, start):
    """Give a task its place; several slots are drawn on in sequence, each for all it has."""
    run, left = graph.run[task * work.sites + site], graph.processors[task]
    finish = start + run
    work.at[task], work.start[task], work.finish[task] = site, start, finish
    work.piece_first[task] = work.counters[PIECES]
    if slot != TOGETHER:
        _take_piece(work, slot, start, finish, left, run)
        return
    for index in range(work.site_first[site], work.site_first[site + 1]):
        one = work.by_site[index]
        if left == 0 or offers.start[one] > start or finish > offers.end[one]:
            continue
        # What was found when the place was looked for may be of another task by now.
        work.cursor[one] = work.first[one]
        _least_free(work, one, start, finish)
        if work.least[one] > 0:
            piece = min(left, work.least[one])
            _take_piece(work, one, start, finish, piece, run)
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
