"""Conservative backfilling: every job holds a reservation from the moment it arrives.

At an instant all completions come first, then all submissions, then one pass:

1. The requested ends of running jobs that reach them without ending are extended (*overrun*).
2. With compression, if a job ended before its requested end: each waiting job, in queue order, is removed
   from the profile and put back at the earliest time.
3. The jobs submitted now are reserved, in queue order: each gets [start, start + walltime) at the earliest
   time at which its processors are free throughout, given the requested ends of the running jobs and every
   reservation made before. That first reservation is its promise.
4. Every job whose reserved start is now starts.

Without compression a reservation never moves, and only later arrivals can use the processors that early
completions free. As walltimes are often several times the run times, the queue of a moderately loaded machine
can then grow without bound. With compression a reservation moves earlier or not at all.

*No length.* A walltime of 0 is planned as one second: another job could be planned over a reservation without
length. A job that runs for 0 s ends at the instant it starts, after the pass that started it, and its
completion opens another round (completions, pass) of the same instant.

*Overrun.* Where jobs may run longer than their walltime, a job that reaches its requested end has it moved to
start + 2 × (now - start). If the reservations leave no room for that, all waiting jobs are planned again, in
queue order, around the running ones: a *replan*, the only case in which a reservation may move later.

*Advance reservations.* Processors may be reserved over an interval for something that is no job of the log.
Such a reservation is made at a given instant, after the submissions of that instant, and never moves. Jobs
are planned around it; none may run longer than its walltime then.

References: D. A. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; A. W. Mu'alem and D. G. Feitelson,
IEEE TPDS 12(6), 2001, doi:10.1109/71.932708.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.accounts import ScoreInputs
from gridtune.batch.simulator.movers import bare_movers, new_movers
from gridtune.batch.simulator.nodes import Nodes, bare_nodes
from gridtune.batch.simulator.plan import (
    NEVER,
    SOONEST,
    WAITING,
    Plan,
    admit,
    arrivals,
    complete,
    compress_plan,
    replan,
    reserve,
    start_due,
)
from gridtune.batch.simulator.slots import bare_slots, move_to, new_slots
from gridtune.core.compiled import bare, kernel
from gridtune.types import IntArray

__all__ = ["Advance", "conservative_schedule"]


class Advance(NamedTuple):
    """Advance reservations, in columns of shape (n,), int64.

    Attributes
    ----------
    made
        Seconds, ascending: when each is made.
    begin, end
        Seconds: it covers [begin, end), with made ≤ begin < end.
    processors
        How many it reserves.
    """

    made: IntArray
    begin: IntArray
    end: IntArray
    processors: IntArray


@kernel()
def _reserve_in_advance(plan: Plan, advance: Advance, first: int, now: int) -> int:
    """Make the advance reservations of this instant; return the number made so far."""
    while first < len(advance.made) and advance.made[first] == now:
        reserve(plan, advance.begin[first], advance.end[first], advance.processors[first], now)
        first += 1
    return first


@kernel()
def _bare_plan(plan: Plan) -> Plan:
    return Plan(
        bare(plan.run), bare(plan.length), bare(plan.processors), bare(plan.start), bare(plan.last),
        bare_slots(plan.slots), bare_movers(plan.movers), plan.compress, bare(plan.queue),
        bare_nodes(plan.nodes), bare(plan.state),
    )  # fmt: skip


@kernel()
def _run(
    submit: IntArray,
    promise: IntArray,
    rank: IntArray,
    columns: Plan,
    score: Any,
    inputs: ScoreInputs | None,
    advance: Advance | None,
) -> int:
    """Replay the log: fill in `columns.start` and `promise`, and return the number of replans."""
    plan, n = _bare_plan(columns), len(submit)
    running = [(NEVER, -1)]
    arrived = replans = agreements = 0
    while True:
        agreement = NEVER
        if advance is not None and agreements < len(advance.made):
            agreement = advance.made[agreements]
        nodes_compute = columns.nodes is not None and running[0][1] >= 0
        if plan.state[WAITING] == 0 and arrived == n and agreement == NEVER and not nodes_compute:
            return replans
        arrival = submit[arrived] if arrived < n else NEVER
        now = min(plan.state[SOONEST], running[0][0], arrival, agreement)
        move_to(plan.slots, now)
        early, conflict = complete(plan, running, inputs, now)
        if conflict:
            replans += 1
            replan(plan, score, inputs, now)
        elif early and plan.compress and plan.state[WAITING] > 0:
            compress_plan(plan, score, inputs, now)

        first = arrived
        while arrived < n and submit[arrived] == now:
            arrived += 1
        if arrived == first + 1:
            promise[first] = admit(plan, first, now)
        elif arrived > first:
            for job in arrivals(first, rank[first:arrived], score, inputs, now):
                promise[job] = admit(plan, job, now)
        if advance is not None:
            agreements = _reserve_in_advance(plan, advance, agreements, now)

        start_due(plan, running, inputs, now)


def conservative_schedule(
    submit: IntArray,
    run: IntArray,
    walltime: IntArray,
    processors: IntArray,
    rank: npt.NDArray[np.integer[Any]],
    machine: int,
    compress: bool,
    score: Any = None,
    inputs: ScoreInputs | None = None,
    advance: Advance | None = None,
    nodes: Nodes | None = None,
) -> tuple[IntArray, IntArray, int]:
    """Schedule rigid jobs by conservative backfilling, as defined above.

    Parameters
    ----------
    submit
        Shape (n,), int64 seconds, ascending.
    run
        Shape (n,), int64 seconds, ≥ 0: how long each job runs (its walltime at most, where it is killed).
    walltime
        Shape (n,), int64 seconds, ≥ 0: how long it asks for.
    processors
        Shape (n,), int64, from 1 to `machine`.
    rank
        Shape (n,), distinct: the queue's order, smallest first.
    score, inputs
        For an order that changes while jobs wait, instead of `rank`: its compiled score and the inputs of it.
        Scores are computed when jobs arrive together, and before a compression or a replan.
    machine
        The number of processors.
    compress
        Whether early completions move reservations up.
    advance
        Advance reservations, if any.
    nodes
        The nodes and their power states, if any. `walltime` then includes the longest wait for nodes, and
        `start` is when a job gets its processors.

    Returns
    -------
    start
        Shape (n,), int64 seconds.
    promise
        Shape (n,), int64 seconds: the start each job was promised on arrival; never before `start` unless
        there were replans.
    replans
        How often an overrun led to a replan.

    Raises
    ------
    ValueError
        If a job is wider than the machine, there is no room for an advance reservation, or there are advance
        reservations and a job runs longer than its walltime.
    """
    n = len(submit)
    if n > 0 and processors.max() > machine:
        raise ValueError("a job is wider than the machine")
    origins, intervals = submit[:1].tolist(), n
    if advance is not None:
        if (run > np.maximum(walltime, 1)).any():
            raise ValueError("beside advance reservations no job may run longer than its walltime")
        origins += advance.made[:1].tolist()
        intervals += len(advance.made)
    length = np.maximum(walltime, 1)
    queue = np.argsort(rank).astype(np.int64)
    position = np.arange(n)
    if inputs is None:
        position[queue] = np.arange(n)
    slots = new_slots(intervals, machine, min(origins, default=0))
    start, promise = np.full(n, NEVER), np.empty(n, np.int64)
    movers = new_movers(position, processors, length, len(slots.time))
    plan = Plan(
        run, length, processors, start, np.empty(n, np.int64), slots, movers, compress, queue, nodes,
        np.array([0, NEVER]),
    )  # fmt: skip
    replans = _run(submit, promise, rank.astype(np.int64), plan, score, inputs, advance)
    return start, promise, replans
