"""The data of the compiled planners, and the placement of one task in one or several slots of a site.

A slot's timeline is a linked list of nodes (time, processors free from then on). Processors are counted, not
identified: intervals can always be assigned to as many processors as overlap at most, so insertion needs only
a count that is never exceeded. Nothing is released while a plan is made. So the earliest fit of a query is a
lower bound for every later query that asks for no less, and each slot keeps its last one to start from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel, section
from gridtune.types import FloatArray, IntArray

__all__ = [
    "ALWAYS",
    "INFINITE",
    "NARROW",
    "NEVER",
    "PIECES",
    "PLAN_SLOTS",
    "QUEUED",
    "TOGETHER",
    "Graph",
    "Outcome",
    "Size",
    "SlotColumns",
    "Workspace",
    "bare_graph",
    "bare_slots",
    "cut",
    "earliest_fit",
    "find_ready",
    "open_slots",
    "place",
    "reserve",
    "size_of",
    "take",
    "workspace_at",
    "workspace_size",
]

INFINITE = np.inf
#: What `Workspace.counters` counts: nodes, pieces, slots of the plan, and tasks in `Workspace.queue`.
NODES, PIECES, PLAN_SLOTS, QUEUED, COUNTS = range(5)


class Graph(NamedTuple):
    """A workflow of n tasks on S sites, and the network between them; every array has one dimension.

    Attributes
    ----------
    processors
        (n,): what each task holds.
    run
        (n · S,): seconds of task i on site s at `i * S + s`.
    parents, parent, volume
        (n + 1,), (m,), (m,): compressed rows of parents and of the bytes they send.
    order
        (n,): the order in which list schedulers take the tasks.
    levels, by_level
        (depth + 1,), (n,): tasks by level, and where each level begins.
    latency, bandwidth
        (S · S,): from site a to site b at `a * S + b`.
    """

    processors: IntArray
    run: FloatArray
    parents: IntArray
    parent: IntArray
    volume: FloatArray
    order: IntArray
    levels: IntArray
    by_level: IntArray
    latency: FloatArray
    bandwidth: FloatArray


class SlotColumns(NamedTuple):
    """The N slots as the planners use them; `end` is infinite where a slot may be extended.

    `sequence` holds their numbers in the order that decides ties: by end, then by number. `offered` is the
    slot's own end; `divisible` is 0 or 1.
    """

    site: IntArray
    processors: IntArray
    start: FloatArray
    end: FloatArray
    offered: FloatArray
    price: FloatArray
    fixed: FloatArray
    divisible: IntArray
    sequence: IntArray


class Workspace(NamedTuple):
    """The working memory of one plan, in bare columns.

    `N` slots, `n` tasks, `S` sites: counters; the plan's slots in sequence, and by site; by slot: first node,
    hint; by node; by task; by piece (the processors of one slot that a task holds).
    """

    tasks: int
    slots: int
    sites: int
    counters: IntArray
    plan_slots: IntArray
    by_site: IntArray
    site_first: IntArray
    capacity: IntArray
    first: IntArray
    hint_node: IntArray
    hint_processors: IntArray
    least: IntArray
    cursor: IntArray
    taken: IntArray
    node_free: IntArray
    node_next: IntArray
    at: IntArray
    piece_first: IntArray
    best_slot: IntArray
    queue: IntArray
    piece_slot: IntArray
    piece_processors: IntArray
    hint_ready: FloatArray
    hint_run: FloatArray
    hint_start: FloatArray
    rise: FloatArray
    looked: FloatArray
    used: FloatArray
    until: FloatArray
    node_time: FloatArray
    start: FloatArray
    finish: FloatArray
    value: FloatArray
    ready: FloatArray


class Outcome(NamedTuple):
    """The columns of a plan: by task (n,), site, start, finish, first piece (n + 1,); by piece."""

    site: IntArray
    start: FloatArray
    finish: FloatArray
    first: IntArray
    slot: IntArray
    processors: IntArray


class Size(NamedTuple):
    """The size of a `Workspace`: tasks, slots, sites, and the most nodes and pieces."""

    tasks: int
    slots: int
    sites: int
    nodes: int
    pieces: int


def size_of(processors: IntArray, slots: int, sites: int, *, together: bool) -> Size:
    """Return the size for tasks of these processors; `together`: whether tasks may use several slots."""
    pieces = int(np.minimum(processors, slots).sum()) if together else len(processors)
    return Size(len(processors), slots, sites, slots + 2 * pieces, pieces)


def workspace_size(size: Size) -> tuple[int, int]:
    """Return the numbers of integers and of floats in a `Workspace`."""
    n, slots, sites, nodes, pieces = size
    whole = COUNTS + 8 * slots + 2 * (sites + 1) + 2 * nodes + 4 * (n + 1) + 2 * pieces
    real = 7 * slots + nodes + 3 * n + n * sites
    return whole, real


@kernel()
def bare_graph(graph):
    """Return the graph as bare columns."""
    return Graph(
        bare(graph.processors),
        bare(graph.run),
        bare(graph.parents),
        bare(graph.parent),
        bare(graph.volume),
        bare(graph.order),
        bare(graph.levels),
        bare(graph.by_level),
        bare(graph.latency),
        bare(graph.bandwidth),
    )


@kernel()
def bare_slots(slots):
    """Return the slots as bare columns."""
    return SlotColumns(
        bare(slots.site),
        bare(slots.processors),
        bare(slots.start),
        bare(slots.end),
        bare(slots.offered),
        bare(slots.price),
        bare(slots.fixed),
        bare(slots.divisible),
        bare(slots.sequence),
    )


@kernel()
def workspace_at(size, whole, real):
    """Return a `Workspace` in two arrays of `workspace_size`, which the caller must keep alive."""
    n, slots, sites, nodes, pieces = size
    a = COUNTS + 8 * slots
    b = a + 2 * (sites + 1)
    c = b + 2 * nodes
    d = c + 4 * (n + 1)
    e = 7 * slots
    f = e + nodes
    return Workspace(
        n,
        slots,
        sites,
        section(whole, 0, COUNTS),
        section(whole, COUNTS, slots),
        section(whole, COUNTS + slots, slots),
        section(whole, a, sites + 1),
        section(whole, a + sites + 1, sites + 1),
        section(whole, COUNTS + 2 * slots, slots),
        section(whole, COUNTS + 3 * slots, slots),
        section(whole, COUNTS + 4 * slots, slots),
        section(whole, COUNTS + 5 * slots, slots),
        section(whole, COUNTS + 6 * slots, slots),
        section(whole, COUNTS + 7 * slots, slots),
        section(whole, b, nodes),
        section(whole, b + nodes, nodes),
        section(whole, c, n + 1),
        section(whole, c + n + 1, n + 1),
        section(whole, c + 2 * (n + 1), n + 1),
        section(whole, c + 3 * (n + 1), n + 1),
        section(whole, d, pieces),
        section(whole, d + pieces, pieces),
        section(real, 0, slots),
        section(real, slots, slots),
        section(real, 2 * slots, slots),
        section(real, 3 * slots, slots),
        section(real, 4 * slots, slots),
        section(real, 5 * slots, slots),
        section(real, 6 * slots, slots),
        section(real, e, nodes),
        section(real, f, n),
        section(real, f + n, n),
        section(real, f + 2 * n, n),
        section(real, f + 3 * n, n * sites),
    )


@kernel()
def open_slots(work, slots, plan):
    """Begin a plan with the slots where `plan` is true, all free."""
    for site in range(work.sites + 1):
        work.site_first[site], work.capacity[site] = 0, 0
    count = 0
    for place in range(work.slots):
        slot = slots.sequence[place]
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
    work.counters[NODES], work.counters[PIECES], work.counters[PLAN_SLOTS] = count, 0, count
    for site in range(work.sites):
        work.site_first[site + 1] += work.site_first[site]
    for place in range(count - 1, -1, -1):
        slot = work.plan_slots[place]
        work.site_first[slots.site[slot] + 1] -= 1
        work.by_site[work.site_first[slots.site[slot] + 1]] = slot
    for site in range(work.sites):  # entry s + 1 holds where the slots of site s begin
        work.site_first[site] = work.site_first[site + 1]
    work.site_first[work.sites] = count


@kernel()
def cut(work, node, time):
    """Return the node at `time`, a new one if there is none; `node` is a node of the slot at or before it."""
    after = work.node_next[node]
    while after >= 0 and work.node_time[after] <= time:
        node, after = after, work.node_next[after]
    if work.node_time[node] == time:
        return node
    new = work.counters[NODES]
    work.counters[NODES] = new + 1
    work.node_time[new], work.node_free[new], work.node_next[new] = time, work.node_free[node], after
    work.node_next[node] = new
    return new


@kernel()
def reserve(work, slot, start, finish, processors):
    """Reserve processors of a slot in [start, finish)."""
    node = work.hint_node[slot] if work.hint_start[slot] <= start else work.first[slot]
    node = cut(work, node, start)
    last = cut(work, node, finish)
    while node != last:
        work.node_free[node] -= processors
        node = work.node_next[node]


@kernel()
def earliest_fit(work, slots, slot, processors, run, ready):
    """Return a task's earliest start in one slot, not before `ready`; infinite if it does not fit.

    A task of zero length needs its processors at its start.
    """
    node, start, end = work.first[slot], ready, slots.end[slot]
    if (
        ready >= work.hint_ready[slot]
        and processors >= work.hint_processors[slot]
        and run >= work.hint_run[slot]
    ):
        if work.hint_start[slot] == INFINITE:
            return INFINITE
        start, node = max(start, work.hint_start[slot]), work.hint_node[slot]
    start = max(start, work.node_time[node])
    while True:
        after = work.node_next[node]
        while after >= 0 and work.node_time[after] <= start:
            node, after = after, work.node_next[after]
        if start + run > end:
            start = INFINITE
            break
        if work.node_free[node] < processors:
            start = work.node_time[after]
            continue
        finish = start + run
        while after >= 0 and work.node_time[after] < finish and work.node_free[after] >= processors:
            after = work.node_next[after]
        if after < 0 or work.node_time[after] >= finish:
            break
        node, start = after, work.node_time[after]
    work.hint_ready[slot], work.hint_processors[slot], work.hint_run[slot] = ready, processors, run
    work.hint_start[slot], work.hint_node[slot] = start, node
    return start


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
