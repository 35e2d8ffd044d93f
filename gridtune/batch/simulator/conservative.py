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

A compression looks only at the jobs that may move (`profile.Movers`), which gives the same plan as to
look at all; under an order that changes only these are scored.

References: D. A. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; A. W. Mu'alem and D. G. Feitelson,
IEEE TPDS 12(6), 2001, doi:10.1109/71.932708.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.events import JobLog
from gridtune.batch.simulator.nodes import PoweredNodes, boot_wait, claim, vacate
from gridtune.batch.simulator.profile import (
    Movers,
    Profile,
    change,
    cut,
    disuse,
    earliest_slot,
    enter,
    last_slot,
    leave,
    move_to,
    new_movers,
    new_profile,
    note_growth,
    place,
    refresh,
    unplace,
)
from gridtune.batch.simulator.scores import ScoreInputs, charge, note_run_time, note_submission, score_job
from gridtune.core.compiled import bare, kernel
from gridtune.core.marks import is_marked, next_marked, unmark
from gridtune.core.rows import pop_row, push_row, sort_rows
from gridtune.types import FloatArray, IntArray

#: A time after all others.
NEVER = int(np.iinfo(np.int64).max)
#: The state: how many jobs wait, the first second at which one is to start (`NEVER`: none), and the events.
_STATE = np.dtype([(name, np.int64) for name in ("waiting", "soonest", "events")])


class _Plan(NamedTuple):
    """The jobs in columns of shape (n,), and their reservations.

    Attributes
    ----------
    run, length, processors
        Seconds that a job runs, seconds that it reserves, and processors.
    start
        The start of a job that has started.
    last
        The slot at which a job's reservation ends.
    slots, movers
        The free processors over time; the waiting jobs by what lets them move.
    compress
        Whether reservations move up.
    queue
        The jobs in their order, where it does not change.
    keys, jobs, later
        Scratch: jobs to be put in order, with their keys, and jobs to be listed.
    event, ending
        A heap of when jobs end or are expected to, and of these jobs. The last one is -1, at `NEVER`.
    nodes
        The nodes and their power states, if any. Then a job has its processors from `start` on, and begins
        when its nodes are on.
    state
        Who waits, and what is to come: see `_STATE`.
    """

    run: IntArray
    length: IntArray
    processors: IntArray
    start: IntArray
    last: IntArray
    slots: Profile
    movers: Movers
    compress: bool
    queue: IntArray
    keys: FloatArray
    jobs: IntArray
    later: IntArray
    event: IntArray
    ending: IntArray
    nodes: PoweredNodes | None
    state: Any


@kernel()
def _sort_queue(plan: _Plan, count: int, score: Any, inputs: ScoreInputs | None, now: int) -> None:
    """Sort the first `count` of `plan.jobs` in queue order, ties by submission."""
    for i in range(count):
        if inputs is None:
            plan.keys[i] = plan.movers.position[plan.jobs[i]]
        else:
            plan.keys[i] = score_job(score, inputs, plan.jobs[i], now)
    sort_rows(plan.keys, plan.jobs, count)


@kernel()
def _starters(plan: _Plan, slot: int, count: int) -> int:
    """Add the jobs that are to start at a slot to `count` that are in `plan.jobs`; return how many are."""
    job = np.int64(plan.slots.starter[slot])
    while job >= 0:
        plan.jobs[count] = job
        count += 1
        job = np.int64(plan.movers.further[job])
    return count


@kernel()
def _book(plan: _Plan, job: int, alone: bool, now: int) -> None:
    """Reserve for a job at the earliest time; `alone` says that the bound of its shape is not kept."""
    movers, slots, shape = plan.movers, plan.slots, plan.movers.shape[job]
    since = np.int64(slots.state.head)
    if not alone and movers.bound[shape] > now:
        since = last_slot(slots, movers.bound[shape])
    begin = earliest_slot(slots, since, plan.processors[job], plan.length[job], -1)
    t = slots.time[begin]
    movers.bound[shape] = t
    place(movers, slots, job, begin)
    end = cut(slots, begin, t + plan.length[job])
    slots.uses[end] += 1
    plan.last[job] = end
    change(slots, begin, end, -plan.processors[job])
    plan.state.soonest = min(plan.state.soonest, t)


@kernel()
def _admit(plan: _Plan, job: int, now: int) -> int:
    """Reserve for a job that arrives; return the start that it is promised."""
    alone = enter(plan.movers, job) or not plan.compress
    plan.state.waiting += 1
    _book(plan, job, alone, now)
    start: int = plan.slots.time[plan.movers.start[job]]
    return start


@kernel()
def _extend(plan: _Plan, job: int, now: int) -> int:
    """Extend the reservation of a job that runs on now that it ends; return its new end."""
    slots, head = plan.slots, plan.slots.state.head
    extended = plan.start[job] + 2 * (now - plan.start[job])
    end = cut(slots, head, extended)
    slots.uses[end] += 1
    change(slots, head, end, -plan.processors[job])
    disuse(slots, plan.last[job])
    plan.last[job] = end
    return extended


@kernel()
def _lowest_free(slots: Profile, until: int) -> int:
    slot = np.int64(slots.state.head)
    low: int = slots.free[slot]
    while slot >= 0 and slots.time[slot] < until:
        low = min(low, slots.free[slot])
        slot = np.int64(slots.after[slot])
    return low


@kernel()
def _expect(plan: _Plan, job: int, time: int) -> None:
    """Take note of when to look at a running job."""
    push_row(plan.event, plan.ending, plan.state.events, time, job)
    plan.state.events += 1


@kernel()
def _complete(plan: _Plan, inputs: ScoreInputs | None, now: int) -> tuple[bool, bool]:
    """End the jobs that end now, and extend those that reach their requested end.

    Returns
    -------
    early, conflict
        True if a job ended before its requested end; true if reservations are in the way of an extension
        (somewhere less than no processor is free).
    """
    slots, noting = plan.slots, plan.compress and plan.state.waiting > 0
    early, overrun = False, now
    if noting:
        refresh(plan.movers)
    while plan.event[0] == now:
        job = plan.ending[0]
        pop_row(plan.event, plan.ending, plan.state.events)
        plan.state.events -= 1
        ends = plan.start[job] + boot_wait(plan.nodes, job) + plan.run[job]
        if ends > now:
            extended = _extend(plan, job, now)
            overrun = max(overrun, extended)
            _expect(plan, job, min(extended, ends))
            continue
        width, head, end = plan.processors[job], slots.state.head, plan.last[job]
        charge(inputs, job, -width, now)
        note_run_time(inputs, job, plan.run[job], now)
        vacate(plan.nodes, job, now)
        if end != head:
            early = True
            change(slots, head, end, width)
            if noting:
                note_growth(plan.movers, slots, head, end, width)
        disuse(slots, end)
    return early, overrun > now and _lowest_free(slots, overrun) < 0


@kernel()
def _move_up(plan: _Plan, job: int, now: int) -> None:
    """Move a job to the earliest time, if that is before its reservation."""
    slots, movers = plan.slots, plan.movers
    time, free, before = slots.time, slots.free, slots.before
    width, length, start = plan.processors[job], plan.length[job], np.int64(movers.start[job])
    begin = start
    while before[begin] >= 0 and free[before[begin]] >= width:
        begin = np.int64(before[begin])
    shape = movers.shape[job]
    since = max(now, movers.bound[shape])
    if since < time[begin]:
        begin = earliest_slot(slots, last_slot(slots, since), width, length, begin)
        movers.bound[shape] = time[begin]
    if begin == start:
        return
    end, ends = plan.last[job], time[begin] + length
    unplace(movers, slots, job)
    place(movers, slots, job, begin)
    freed = cut(slots, begin if ends <= time[start] else end, ends)
    slots.uses[freed] += 1
    plan.last[job] = freed
    plan.state.soonest = min(plan.state.soonest, time[begin])
    if ends <= time[start]:
        change(slots, begin, freed, -width)
        freed = start
    else:
        change(slots, begin, start, -width)
    change(slots, freed, end, width)
    note_growth(movers, slots, freed, end, width)
    disuse(slots, start)
    disuse(slots, end)


@kernel()
def _compress_changing(plan: _Plan, score: Any, inputs: ScoreInputs, now: int) -> None:
    """Move each job that may move to the earliest time, in an order that changes.

    A move may let others move: those behind in the order follow, the others stay on the list until later.
    """
    listed, marked, state = plan.movers.listed, plan.movers.marked, plan.movers.state
    keys, jobs, count, later = plan.keys, plan.jobs, 0, 0
    for i in range(state.listed):
        job = np.int64(listed[i])
        if is_marked(marked, job):
            push_row(keys, jobs, count, score_job(score, inputs, job, now), job)
            count += 1
    while count > 0:
        key, job = keys[0], jobs[0]
        pop_row(keys, jobs, count)
        count -= 1
        unmark(marked, job)
        state.listed = 0
        _move_up(plan, job, now)
        for i in range(state.listed):
            other = np.int64(listed[i])
            its = score_job(score, inputs, other, now)
            if its > key or (its == key and other > job):
                push_row(keys, jobs, count, its, other)
                count += 1
            else:
                plan.later[later], later = other, later + 1
    for i in range(later):
        listed[i] = plan.later[i]
    state.listed = later


@kernel()
def _compress_plan(plan: _Plan, score: Any, inputs: ScoreInputs | None, now: int) -> None:
    """Move each job that waits, in queue order, to the earliest time."""
    if inputs is not None:
        _compress_changing(plan, score, inputs, now)
        return
    place = next_marked(plan.movers.marked, 0)
    while place >= 0:
        unmark(plan.movers.marked, place)
        _move_up(plan, plan.queue[place], now)
        place = next_marked(plan.movers.marked, place + 1)


@kernel()
def _replan(plan: _Plan, score: Any, inputs: ScoreInputs | None, now: int) -> None:
    """Plan the jobs that wait again, in queue order, around the running ones; no job can move up then."""
    slots, movers = plan.slots, plan.movers
    count, slot = 0, np.int64(slots.state.head)
    while slot >= 0:
        count = _starters(plan, slot, count)
        slot = np.int64(slots.after[slot])
    _sort_queue(plan, count, score, inputs, now)
    for i in range(plan.state.waiting):
        job = plan.jobs[i]
        change(slots, movers.start[job], plan.last[job], plan.processors[job])
        unplace(movers, slots, job)
        disuse(slots, movers.start[job])
        disuse(slots, plan.last[job])
        movers.bound[movers.shape[job]] = now
        unmark(movers.marked, movers.position[job])
    plan.state.soonest, movers.state.listed = NEVER, 0
    for i in range(plan.state.waiting):
        _book(plan, plan.jobs[i], False, now)


@kernel()
def _start_due(plan: _Plan, inputs: ScoreInputs | None, now: int) -> None:
    """Start the jobs whose reserved time has come, in order of submission."""
    if plan.state.soonest != now:
        return
    slots, head = plan.slots, plan.slots.state.head
    due = _starters(plan, head, 0)
    for i in range(due):
        plan.keys[i] = plan.jobs[i]
    sort_rows(plan.keys, plan.jobs, due)
    for i in range(due):
        job = plan.jobs[i]
        leave(plan.movers, job)
        slots.uses[head] -= 1
        plan.start[job] = now
        charge(inputs, job, plan.processors[job], now)
        begin = claim(plan.nodes, job, plan.processors[job], now)
        _expect(plan, job, min(now + plan.length[job], begin + plan.run[job]))
        plan.state.waiting -= 1
    slots.starter[head] = -1
    plan.state.soonest, slot = NEVER, np.int64(head)
    if plan.state.waiting > 0:
        while slots.starter[slot] < 0:
            slot = np.int64(slots.after[slot])
        plan.state.soonest = slots.time[slot]


@kernel()
def _run(submit: IntArray, promise: IntArray, columns: _Plan, score: Any, inputs: ScoreInputs | None) -> int:
    """Replay the log: fill in `columns.start` and `promise`, and return the number of replans."""
    plan, inputs, n = bare(columns), bare(inputs), len(submit)
    arrived = replans = 0
    while True:
        nodes_compute = columns.nodes is not None and plan.state.events > 1
        if plan.state.waiting == 0 and arrived == n and not nodes_compute:
            return replans
        arrival = submit[arrived] if arrived < n else NEVER
        now = min(plan.state.soonest, plan.event[0], arrival)
        move_to(plan.slots, now)
        early, conflict = _complete(plan, inputs, now)
        if conflict:
            replans += 1
            _replan(plan, score, inputs, now)
        elif early and plan.compress and plan.state.waiting > 0:
            _compress_plan(plan, score, inputs, now)

        first = arrived
        while arrived < n and submit[arrived] == now:
            note_submission(inputs, arrived, now)
            arrived += 1
        if arrived == first + 1:
            promise[first] = _admit(plan, first, now)
        elif arrived > first:
            for i in range(arrived - first):
                plan.jobs[i] = first + i
            _sort_queue(plan, arrived - first, score, inputs, now)
            for i in range(arrived - first):
                promise[plan.jobs[i]] = _admit(plan, plan.jobs[i], now)

        _start_due(plan, inputs, now)


def conservative_schedule(
    log: JobLog,
    machine: int,
    nodes: PoweredNodes | None,
    rank: npt.NDArray[np.integer[Any]],
    compress: bool,
    score: Any = None,
    inputs: ScoreInputs | None = None,
) -> tuple[IntArray, int]:
    """Schedule rigid jobs by conservative backfilling, as defined above, and fill in the start times.

    Parameters
    ----------
    log
        The jobs, with 1 <= processors <= machine. `start` becomes the time at which a job gets its
        processors.
    machine
        The number of processors.
    nodes
        The nodes and their power states, if any. Walltimes then include the longest wait for nodes.
    rank
        Shape (n,), distinct: the queue's order, smallest first.
    compress
        Whether early completions move reservations up.
    score, inputs
        For an order that changes while jobs wait, instead of `rank`: its compiled score and the inputs of it.
        Scores are computed when jobs arrive together, in a compression and before a replan.

    Returns
    -------
    promise
        Shape (n,), int64 seconds: the start each job was promised on arrival; never before `start` unless
        there were replans.
    replans
        How often an overrun led to a replan.
    """
    n, length = len(log.submit), np.maximum(log.walltime, 1)
    queue = np.argsort(rank).astype(np.int64)
    position = np.arange(n)
    if inputs is None:
        position[queue] = np.arange(n)
    slots = new_profile(n, machine, int(log.submit[:1].sum()))
    movers = new_movers(position, log.processors, length, len(slots.time), listing=inputs is not None)
    jobs, later, last, promise = (np.empty(n, np.int64) for _ in range(4))
    log.start[:] = NEVER
    plan = _Plan(
        run=log.run,
        length=length,
        processors=log.processors,
        start=log.start,
        last=last,
        slots=slots,
        movers=movers,
        compress=compress,
        queue=queue,
        keys=np.empty(n),
        jobs=jobs,
        later=later,
        event=np.full(n + 1, NEVER),
        ending=np.full(n + 1, -1),
        nodes=nodes,
        state=np.array((0, NEVER, 1), _STATE),
    )
    return promise, _run(log.submit, promise, plan, score, inputs)
