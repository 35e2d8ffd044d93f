"""The nodes of a machine and their power states, compiled: which cores a job gets, and when they are on.

A node whose cores are all free is switched off once it has idled for the timeout, after the scheduling pass
of that second. A job gets its cores, any free ones, at the instant the scheduler starts it, from nodes in
this order: partly used; idle, first those used last; partly used and still switching on; asleep; switching
off, which have to finish and are then switched on. It starts when all its nodes are on, and
holds its cores from the beginning.

Without power states, `nodes` is None everywhere: the functions then do nothing, and cost nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.core.usage import NodeState
from gridtune.types import Int8Array, Int32Array, IntArray

NEVER = np.int64(2**62)

#: The lists of nodes with free cores, in the order in which jobs take them. Their heads follow the nodes in
#: the columns `following` and `preceding`; the node of which something changed last is first.
PARTLY_USED, IDLE, WARMING, ASLEEP, STOPPING, LISTS = range(6)

#: The settings, and what changes: number of nodes; cores of each; seconds until an idle one is switched off,
#: to switch on, to switch off. First unused piece; jobs that wait for nodes, and the first of their starts;
#: rows of the changes of state.
_SETTINGS = ("nodes", "cores", "timeout", "boot", "shutdown")
_STATE = np.dtype([(name, np.int64) for name in (*_SETTINGS, "unused", "pending", "next_start", "rows")])

#: Changes of state that a job can cause, at most: its nodes begin and end to idle, to switch and to sleep.
_ROWS_PER_JOB = 10

_IDLE, _SWITCHING_ON = int(NodeState.IDLE), int(NodeState.SWITCHING_ON)
_SLEEPING, _SWITCHING_OFF = int(NodeState.SLEEPING), int(NodeState.SWITCHING_OFF)
_COMPUTING = int(NodeState.COMPUTING)


class PoweredNodes(NamedTuple):
    """The nodes, the cores that jobs hold, and the changes of state so far.

    Of a node: `free` cores, `busy` ones, when it is `ready` to compute, and `since` when it has been idle or,
    while it switches off, when it will sleep. `cores_in[l]` are the free cores of list l.

    A job's cores are pieces, one for each of its nodes: a list that begins at `first_piece`. It starts at
    `start`, `boot_wait` seconds after it got them; `pending` are the jobs that hold cores and wait.

    `time`, `before`, `after` and `number` are those of `NodeStates`.
    """

    state: Any
    free: IntArray
    busy: IntArray
    ready: IntArray
    since: IntArray
    following: Int32Array
    preceding: Int32Array
    cores_in: IntArray
    first_piece: Int32Array
    piece_node: Int32Array
    piece_cores: Int32Array
    next_piece: Int32Array
    start: IntArray
    boot_wait: IntArray
    pending: Int32Array
    time: IntArray
    before: Int8Array
    after: Int8Array
    number: Int32Array


def new_nodes(
    nodes: int, cores: int, jobs: int, *, timeout: int | None, boot: int, shutdown: int
) -> PoweredNodes:
    """Return nodes that are all on and idle since second 0.

    Parameters
    ----------
    nodes, cores
        Their number, and the cores of each.
    jobs
        The number of jobs to come.
    timeout
        Seconds after which an idle node is switched off; None: never.
    boot, shutdown
        Seconds to switch on and off.
    """
    pieces = nodes * cores
    patience = NEVER if timeout is None else timeout
    state = np.array((nodes, cores, patience, boot, shutdown, 0, 0, NEVER, 0), _STATE)
    columns = PoweredNodes(
        state=state,
        free=np.full(nodes, cores),
        busy=np.zeros(nodes, np.int64),
        ready=np.zeros(nodes, np.int64),
        since=np.zeros(nodes, np.int64),
        following=np.arange(nodes + LISTS, dtype=np.int32),
        preceding=np.arange(nodes + LISTS, dtype=np.int32),
        cores_in=np.zeros(LISTS, np.int64),
        first_piece=np.full(jobs, -1, np.int32),
        piece_node=np.empty(pieces, np.int32),
        piece_cores=np.empty(pieces, np.int32),
        next_piece=np.arange(1, pieces + 1, dtype=np.int32),
        start=np.empty(jobs, np.int64),
        boot_wait=np.zeros(jobs, np.int64),
        pending=np.empty(min(jobs, pieces) + 1, np.int32),
        time=np.empty(_ROWS_PER_JOB * jobs + 16, np.int64),
        before=np.empty(_ROWS_PER_JOB * jobs + 16, np.int8),
        after=np.empty(_ROWS_PER_JOB * jobs + 16, np.int8),
        number=np.empty(_ROWS_PER_JOB * jobs + 16, np.int32),
    )
    _link_all(columns)
    return columns


@kernel()
def _link_all(nodes):
    nodes = bare(nodes)
    for node in range(nodes.state.nodes):
        _link(nodes, node, IDLE)


@kernel()
def boot_wait(nodes, job):
    """Return for how many seconds a job has held cores before its start."""
    if nodes is None:
        return 0
    return nodes.boot_wait[job]


@kernel(inline="always")
def _link(nodes, node, line):
    """Insert a node in front of a list."""
    head = nodes.state.nodes + line
    second = nodes.following[head]
    nodes.following[node], nodes.preceding[node] = second, head
    nodes.following[head] = nodes.preceding[second] = node
    nodes.cores_in[line] += nodes.free[node]


@kernel(inline="always")
def _unlink(nodes, node, line):
    before, after = nodes.preceding[node], nodes.following[node]
    nodes.following[before], nodes.preceding[after] = after, before
    nodes.cores_in[line] -= nodes.free[node]


@kernel(inline="always")
def _last(nodes, line):
    """Return the last node of a list, or a number beyond all nodes."""
    return nodes.preceding[nodes.state.nodes + line]


@kernel()
def _note(nodes, time, before, after):
    """Note that a node changes its state; nodes that do so together share a row."""
    rows = nodes.state.rows
    for row in range(max(rows - 2, 0), rows):
        if nodes.time[row] == time and nodes.before[row] == before and nodes.after[row] == after:
            nodes.number[row] += 1
            return
    nodes.time[rows], nodes.before[rows], nodes.after[rows], nodes.number[rows] = time, before, after, 1
    nodes.state.rows = rows + 1


@kernel()
def _expire(nodes, now):
    """Switch off the nodes whose timeout has passed."""
    state, since = nodes.state, nodes.since
    timeout, shutdown = state.timeout, state.shutdown
    node = _last(nodes, IDLE)
    while node < state.nodes and since[node] + timeout < now:
        _note(nodes, since[node] + timeout, _IDLE, _SWITCHING_OFF)
        _unlink(nodes, node, IDLE)
        since[node] += timeout + shutdown
        _link(nodes, node, STOPPING)
        node = _last(nodes, IDLE)
    node = _last(nodes, STOPPING)
    while node < state.nodes and since[node] <= now:
        _note(nodes, since[node], _SWITCHING_OFF, _SLEEPING)
        _unlink(nodes, node, STOPPING)
        _link(nodes, node, ASLEEP)
        node = _last(nodes, STOPPING)


@kernel()
def _settle(nodes, now):
    """Bring the nodes up to date: start jobs, end switches, switch off."""
    state = nodes.state
    while state.next_start <= now:
        _begin_next(nodes)
    head = state.nodes + WARMING
    node = nodes.following[head]
    while node != head:
        following = nodes.following[node]
        if nodes.ready[node] <= now:
            _unlink(nodes, node, WARMING)
            _link(nodes, node, PARTLY_USED)
        node = following
    _expire(nodes, now)


@kernel()
def _begin_next(nodes):
    """Start the jobs that start next of those that wait for nodes."""
    state, left, following = nodes.state, 0, NEVER
    at = state.next_start
    for place in range(state.pending):
        job = nodes.pending[place]
        if nodes.start[job] == at:
            _begin(nodes, job, at)
            continue
        nodes.pending[left] = job
        left += 1
        following = min(following, nodes.start[job])
    state.pending, state.next_start = left, following


@kernel()
def _begin(nodes, job, at):
    piece = nodes.first_piece[job]
    while piece >= 0:
        node = nodes.piece_node[piece]
        if nodes.busy[node] == 0:
            _note(nodes, at, _IDLE, _COMPUTING)
        nodes.busy[node] += nodes.piece_cores[piece]
        piece = nodes.next_piece[piece]


@kernel()
def claim(nodes, job, width, now):
    """Assign cores to a job from now on; return its start: now, or when its nodes are on."""
    if nodes is None:
        return now
    _settle(nodes, now)
    state, left, start = nodes.state, width, now
    for line in range(LISTS):
        while left > 0 and nodes.cores_in[line] > 0:
            node = _last(nodes, line) if line == STOPPING else nodes.following[state.nodes + line]
            if line >= ASLEEP:
                _wake(nodes, node, line, now)
            start = max(start, nodes.ready[node])
            taken = min(left, nodes.free[node])
            left -= taken
            _unlink(nodes, node, line)
            nodes.free[node] -= taken
            if nodes.free[node] > 0:
                _link(nodes, node, WARMING if nodes.ready[node] > now else PARTLY_USED)
            piece = state.unused
            state.unused = nodes.next_piece[piece]
            nodes.piece_node[piece], nodes.piece_cores[piece] = node, taken
            nodes.next_piece[piece] = nodes.first_piece[job]
            nodes.first_piece[job] = piece
    nodes.start[job], nodes.boot_wait[job] = start, start - now
    if start == now:
        _begin(nodes, job, now)
    else:
        nodes.pending[state.pending] = job
        state.pending += 1
        state.next_start = min(state.next_start, start)
    return start


@kernel()
def _wake(nodes, node, line, now):
    """Switch on a node that sleeps, or that is switching off, as soon as that is done."""
    begins, before = now, _SLEEPING
    if line == STOPPING:
        begins, before = nodes.since[node], _SWITCHING_OFF
    nodes.ready[node] = begins + nodes.state.boot
    _note(nodes, begins, before, _SWITCHING_ON)
    _note(nodes, nodes.ready[node], _SWITCHING_ON, _IDLE)


@kernel()
def vacate(nodes, job, now):
    """Free the cores of a job that ends now."""
    if nodes is None:
        return
    _settle(nodes, now)
    state = nodes.state
    piece = nodes.first_piece[job]
    while piece >= 0:
        node, cores = nodes.piece_node[piece], nodes.piece_cores[piece]
        nodes.busy[node] -= cores
        if nodes.busy[node] == 0:
            _note(nodes, now, _COMPUTING, _IDLE)
        if nodes.free[node] > 0:
            _unlink(nodes, node, PARTLY_USED)
        nodes.free[node] += cores
        if nodes.free[node] < state.cores:
            _link(nodes, node, PARTLY_USED)
        else:
            nodes.since[node] = now
            _link(nodes, node, IDLE)
        following = nodes.next_piece[piece]
        nodes.next_piece[piece] = state.unused
        state.unused = piece
        piece = following


@kernel()
def start_of(nodes, width, now):
    """Return when a job that gets `width` cores now starts; so many are free."""
    if nodes is None:
        return now
    _expire(nodes, now)
    state, cores_in = nodes.state, nodes.cores_in
    left = width - cores_in[PARTLY_USED] - cores_in[IDLE]
    if left <= 0:
        return now
    start, head = now, state.nodes + WARMING
    for ready in (True, False):  # nodes that are ready by now are taken first
        node = nodes.following[head]
        while left > 0 and node != head:
            if (nodes.ready[node] <= now) == ready:
                start = max(start, nodes.ready[node])
                left -= nodes.free[node]
            node = nodes.following[node]
    if left > 0 and cores_in[ASLEEP] > 0:
        start = max(start, now + state.boot)
        left -= cores_in[ASLEEP]
    node = _last(nodes, STOPPING)
    while left > 0:
        start = nodes.since[node] + state.boot
        left -= state.cores
        node = nodes.preceding[node]
    return start
