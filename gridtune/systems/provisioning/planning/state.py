"""What the compiled planners work on: a workflow, offers of slots, and the timelines of what is still free.

A slot's timeline is a linked list of nodes (time, processors free from then on). Capacity is counted, not
named: intervals on a line can always be dealt out to so many processors as overlap at most, so a count that
is never exceeded is all that insertion needs. Nothing is ever given back while a plan is made. So the
earliest fit of a query is a lower bound for every later query that asks for no less, and each slot keeps its
last one as a place to start from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import bare, kernel, section

__all__ = [
    "CHOSEN",
    "GIVEN",
    "INFINITE",
    "PIECES",
    "Graph",
    "Offers",
    "Outcome",
    "Size",
    "Work",
    "bare_graph",
    "bare_offers",
    "cut",
    "earliest_fit",
    "open_slots",
    "reserve",
    "size_of",
    "work_at",
    "work_size",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

INFINITE = np.inf
#: What `Work.counters` counts: nodes, pieces, slots chosen, and tasks in `Work.queue`.
NODES, PIECES, CHOSEN, GIVEN, COUNTS = range(5)


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

    processors: Ints
    run: Floats
    parents: Ints
    parent: Ints
    volume: Floats
    order: Ints
    levels: Ints
    by_level: Ints
    latency: Floats
    bandwidth: Floats


class Offers(NamedTuple):
    """Slots as the planners see them: N of them; `end` is infinite where a slot may be extended.

    `sequence` holds their numbers in the order that settles ties: which ends first, then which comes first.
    `offered` is the end it was offered with; `divisible` is 0 or 1.
    """

    site: Ints
    processors: Ints
    start: Floats
    end: Floats
    offered: Floats
    price: Floats
    fixed: Floats
    divisible: Ints
    sequence: Ints


class Work(NamedTuple):
    """Bare columns in which one plan is made.

    `N` slots, `n` tasks, `S` sites: counters; slots chosen in sequence, and those by site; by slot: first
    node, hint; by node; by task; by piece (so many processors of a slot that a task holds).
    """

    tasks: int
    slots: int
    sites: int
    counters: Ints
    chosen: Ints
    by_site: Ints
    site_first: Ints
    capacity: Ints
    first: Ints
    hint_node: Ints
    hint_processors: Ints
    least: Ints
    cursor: Ints
    taken: Ints
    node_free: Ints
    node_next: Ints
    at: Ints
    piece_first: Ints
    best_slot: Ints
    queue: Ints
    piece_slot: Ints
    piece_processors: Ints
    hint_ready: Floats
    hint_run: Floats
    hint_start: Floats
    rise: Floats
    looked: Floats
    used: Floats
    until: Floats
    node_time: Floats
    start: Floats
    finish: Floats
    value: Floats
    ready: Floats


class Outcome(NamedTuple):
    """Where a plan is written down: by task (n,), site, start, finish, first piece (n + 1,); by piece."""

    site: Ints
    start: Floats
    finish: Floats
    first: Ints
    slot: Ints
    processors: Ints


class Size(NamedTuple):
    """How large a `Work` is: tasks, slots, sites, and the most nodes and pieces there can be."""

    tasks: int
    slots: int
    sites: int
    nodes: int
    pieces: int


def size_of(processors: Ints, slots: int, sites: int, *, together: bool) -> Size:
    """Return the size of work on tasks that hold so many processors; `together`: of several slots."""
    pieces = int(np.minimum(processors, slots).sum()) if together else len(processors)
    return Size(len(processors), slots, sites, slots + 2 * pieces, pieces)


def work_size(size: Size) -> tuple[int, int]:
    """Return how many whole and how many real numbers `work_at` lays out."""
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
def bare_offers(offers):
    """Return the offers as bare columns."""
    return Offers(
        bare(offers.site),
        bare(offers.processors),
        bare(offers.start),
        bare(offers.end),
        bare(offers.offered),
        bare(offers.price),
        bare(offers.fixed),
        bare(offers.divisible),
        bare(offers.sequence),
    )


@kernel()
def work_at(size, whole, real):
    """Lay the columns of a `Work` out in two arrays of `work_size`; whoever calls holds on to them."""
    n, slots, sites, nodes, pieces = size
    a = COUNTS + 8 * slots
    b = a + 2 * (sites + 1)
    c = b + 2 * nodes
    d = c + 4 * (n + 1)
    e = 7 * slots
    f = e + nodes
    return Work(
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
def open_slots(work, offers, plan):
    """Begin a plan: take the slots of which `plan` is true, each free throughout."""
    for site in range(work.sites + 1):
        work.site_first[site], work.capacity[site] = 0, 0
    chosen = 0
    for place in range(work.slots):
        slot = offers.sequence[place]
        work.used[slot], work.until[slot], work.taken[slot] = 0.0, -INFINITE, 0
        if not plan[slot]:
            continue
        work.chosen[chosen] = slot
        work.first[slot] = work.hint_node[slot] = chosen
        work.node_time[chosen], work.node_free[chosen] = offers.start[slot], offers.processors[slot]
        work.node_next[chosen] = -1
        # A query of nothing at all, which every other one asks more than.
        work.hint_ready[slot] = work.hint_start[slot] = -INFINITE
        work.hint_run[slot], work.hint_processors[slot] = -1.0, 0
        work.site_first[offers.site[slot] + 1] += 1
        work.capacity[offers.site[slot]] += offers.processors[slot]
        chosen += 1
    work.counters[NODES], work.counters[PIECES], work.counters[CHOSEN] = chosen, 0, chosen
    for site in range(work.sites):
        work.site_first[site + 1] += work.site_first[site]
    for place in range(chosen - 1, -1, -1):
        slot = work.chosen[place]
        work.site_first[offers.site[slot] + 1] -= 1
        work.by_site[work.site_first[offers.site[slot] + 1]] = slot
    for site in range(work.sites):  # each stands where its own slots begin: one place too far to the right
        work.site_first[site] = work.site_first[site + 1]
    work.site_first[work.sites] = chosen


@kernel()
def cut(work, node, time):
    """Return the node at `time`, made if there is none; `node` is one before or at it in the same slot."""
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
    """Take processors of a slot for a while."""
    node = work.hint_node[slot] if work.hint_start[slot] <= start else work.first[slot]
    node = cut(work, node, start)
    last = cut(work, node, finish)
    while node != last:
        work.node_free[node] -= processors
        node = work.node_next[node]


@kernel()
def earliest_fit(work, offers, slot, processors, run, ready):
    """Return a task's earliest start in one slot, not before `ready`; infinite where it has no room.

    A task of no length needs its processors at its instant.
    """
    node, start, end = work.first[slot], ready, offers.end[slot]
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
