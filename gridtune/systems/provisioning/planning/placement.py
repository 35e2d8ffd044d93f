"""The data of the compiled planners, and the placement of one task in one or several slots of a site.

A slot's timeline is a linked list of nodes (time, processors free from then on). Processors are counted, not
identified: intervals can always be assigned to as many processors as overlap at most, so insertion needs only
a count that is never exceeded. Nothing is released while a plan is made. So the earliest fit of a query is a
lower bound for every later query that asks for no less, and each slot keeps its last one to start from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import columns_at, handles_within, kernel
from gridtune.types import FloatArray, IntArray

INFINITE = np.inf


class Graph(NamedTuple):
    """A workflow of n tasks on S sites, as columns of one dimension.

    Attributes
    ----------
    processors
        (n,): processors of each task.
    run
        (n · S,): seconds of task i on site s at `i * S + s`.
    parents, parent, volume
        (n + 1,), (m,), (m,): compressed rows of parents and of the bytes they send.
    order
        (n,): the order in which list schedulers take the tasks.
    levels, by_level
        (depth + 1,), (n,): tasks by level, and where each level begins.
    """

    processors: IntArray
    run: FloatArray
    parents: IntArray
    parent: IntArray
    volume: FloatArray
    order: IntArray
    levels: IntArray
    by_level: IntArray


_GRAPH = len(Graph._fields)


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


class _Workspace(NamedTuple):
    """The working memory of one plan, in bare columns.

    `N` slots, `n` tasks, `S` sites. Numbers of nodes, pieces, slots of the plan and tasks in `queue`, in
    columns of one element; the plan's slots in sequence, and by site; by slot: first node, hint; by site; by
    node; by task; by piece (the processors of one slot that a task holds); and by task and site.
    """

    tasks: int
    slots: int
    sites: int
    nodes: IntArray
    pieces: IntArray
    opened: IntArray
    queued: IntArray
    plan_slots: IntArray
    by_site: IntArray
    first: IntArray
    hint_node: IntArray
    hint_processors: IntArray
    least: IntArray
    cursor: IntArray
    taken: IntArray
    hint_ready: FloatArray
    hint_run: FloatArray
    hint_start: FloatArray
    rise: FloatArray
    looked: FloatArray
    used: FloatArray
    until: FloatArray
    site_first: IntArray
    capacity: IntArray
    node_free: IntArray
    node_next: IntArray
    node_time: FloatArray
    at: IntArray
    piece_first: IntArray
    best_slot: IntArray
    queue: IntArray
    start: FloatArray
    finish: FloatArray
    value: FloatArray
    piece_slot: IntArray
    piece_processors: IntArray
    ready: FloatArray


class Instance(NamedTuple):
    """A planning problem as the kernels take it.

    Attributes
    ----------
    handles
        Handles of the arrays of its `Graph` and its `SlotColumns`, which the caller keeps alive.
    tasks, slots, sites
        Their numbers.
    scheduler, cross
        The number of the scheduler, and of the rule for tasks that use several slots.
    now
        No task starts before that second.
    latency, bandwidth
        Of transfers between sites.
    """

    handles: IntArray
    tasks: int
    slots: int
    sites: int
    scheduler: int
    cross: int
    now: float
    latency: float
    bandwidth: float


def new_workspace(size: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the memory of a plan, and its handles.

    Parameters
    ----------
    size
        The most tasks, slots, sites, nodes and pieces.
    """
    tasks, slots, sites, nodes, pieces = size
    lengths = [1] * 4 + [slots] * 15 + [sites + 1] * 2 + [nodes] * 3 + [tasks + 1] * 7
    lengths += [pieces] * 2 + [tasks * sites]
    words = np.empty((1, sum(lengths)), np.int64)
    return words, handles_within(words, lengths)[0]


@kernel()
def columns_of(problem, memory):
    """Return the `_Workspace`, `Graph` and `SlotColumns` of an `Instance` and of a workspace's handles."""
    work = columns_at(_Workspace, (problem.tasks, problem.slots, problem.sites), memory, 0)
    graph = columns_at(Graph, (), problem.handles, 0)
    return work, graph, columns_at(SlotColumns, (), problem.handles, _GRAPH)


@kernel()
def _cut(work, node, time):
    """Return the node at `time`, a new one if there is none; `node` is a node of the slot at or before it."""
    after = work.node_next[node]
    while after >= 0 and work.node_time[after] <= time:
        node, after = after, work.node_next[after]
    if work.node_time[node] == time:
        return node
    new = work.nodes[0]
    work.nodes[0] = new + 1
    work.node_time[new], work.node_free[new], work.node_next[new] = time, work.node_free[node], after
    work.node_next[node] = new
    return new


@kernel()
def _reserve(work, slot, start, finish, processors):
    """Reserve processors of a slot in [start, finish)."""
    node = work.hint_node[slot] if work.hint_start[slot] <= start else work.first[slot]
    node = _cut(work, node, start)
    last = _cut(work, node, finish)
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
CROSS_SLOT: Mapping[str, int] = {"never": NEVER, "narrow": NARROW, "always": ALWAYS}
#: In place of a slot: several slots of the site.
TOGETHER = -2


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
def _fit_together(work, graph, slots, task, site, floor, best):
    """Return the earliest start at which slots of a site together hold a task; infinite if none beats `best`.

    Until some slot's least may grow, the leasts found before are upper bounds. Exact values are computed only
    where these bounds suffice.
    """
    processors, run = graph.processors[task], graph.run[task * work.sites + site]
    begin, end = work.site_first[site], work.site_first[site + 1]
    for place in range(begin, end):
        slot = work.by_site[place]
        work.cursor[slot], work.least[slot] = work.first[slot], slots.processors[slot]
        work.rise[slot] = work.looked[slot] = -INFINITE
    start = work.ready[task * work.sites + site]
    while max(start + run, floor) < best:
        bound, later = processors, INFINITE
        for exact in range(2):
            if bound < processors:
                break
            bound, later = 0, INFINITE
            for place in range(begin, end):
                slot = work.by_site[place]
                if slots.start[slot] > start:
                    later = min(later, slots.start[slot])
                elif start + run <= slots.end[slot]:
                    if work.rise[slot] <= start or (exact == 1 and work.looked[slot] != start):
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
        The plan so far; the time at which the task is ready is known.
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
    for index in range(work.opened[0]):
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
        start = _fit_together(work, graph, slots, task, site, floor, best)
        if start < INFINITE:
            best, best_slot = max(start + graph.run[base + site], floor), TOGETHER
            best_site, best_start = site, start
    return best, best_slot, best_site, best_start


@kernel()
def take(work, graph, slots, task, slot, site, start):
    """Place a task; of several slots each is used in sequence, as far as it has free processors."""
    run, left = graph.run[task * work.sites + site], graph.processors[task]
    finish = start + run
    work.at[task], work.start[task], work.finish[task] = site, start, finish
    work.piece_first[task] = work.pieces[0]
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
    piece = work.pieces[0]
    work.pieces[0] = piece + 1
    work.piece_slot[piece], work.piece_processors[piece] = slot, processors
    work.taken[slot] = 1
    work.used[slot] += run * processors
    work.until[slot] = max(work.until[slot], finish)
    _reserve(work, slot, start, finish, processors)
