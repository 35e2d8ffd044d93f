"""The batch kernel for orders that change while jobs wait: WFP3, fair share, users' own.

The waiting jobs are in a list that is scored in every pass or, where many wait, in a tournament, which
keeps the result of a comparison for as long as it is sure to hold (`scored_queue`). The rules are those of
`ranked`, and on static orders both kernels agree to the second.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.simulator.grouping import group_jobs, nobody
from gridtune.batch.simulator.nodes import NEVER, Nodes, bare_nodes, claim, start_of, vacate
from gridtune.batch.simulator.ranked import BACKFILL, EXTRA, FROZEN, PASS_PER_EVENT, STRICT
from gridtune.batch.simulator.running import (
    Running,
    add_running,
    bare_running,
    empty_running,
    overstayed,
    pop_ended,
    read_requests,
    release_request,
    reservation,
)
from gridtune.batch.simulator.scored_queue import (
    ScoredQueue,
    any_fits,
    bare_queue,
    begin_filling,
    begin_pass,
    best_candidate,
    charged,
    empty_list,
    enter,
    head_of,
    leave,
    may_fill,
    prepare,
    surely_best,
    too_many,
)
from gridtune.batch.simulator.scores import (
    Facts,
    ScoreInputs,
    charge,
    compile_score,
    note_end,
    score_inputs,
)
from gridtune.core.compiled import bare, kernel
from gridtune.types import IntArray

__all__ = ["scored_schedule"]

#: As in `ranked`, but `HEAD` is a job, not a rank; and whether a score has been out of its bounds.
FREE, WAITING, HEAD, SHADOW, SPARE, RELEASED, TURN, ARRIVED, ASTRAY, MEMORY = range(10)


class Replay(NamedTuple):
    """The data of a run, as bare columns."""

    jobs: int
    flags: int
    run: IntArray
    inputs: ScoreInputs
    start: IntArray
    queue: ScoredQueue
    running: Running
    memory: IntArray
    nodes: Nodes | None


@kernel(forceinline=True)
def _charge(replay, job, width, now):
    charge(replay.inputs, job, width, now)
    charged(replay.queue, job, now)


@kernel(forceinline=True)
def _enqueue(replay, job, now):
    replay.memory[WAITING] += 1
    enter(replay.queue, job, now)


@kernel(forceinline=True)
def _launch(replay, job, now):
    """Start a job, which waits no more."""
    memory, width = replay.memory, replay.inputs.processors[job]
    start = claim(replay.nodes, job, width, now)
    replay.start[job] = start
    memory[FREE] -= width
    memory[TURN] += 1
    requested_end = start + replay.inputs.walltime[job]
    add_running(replay.running, start + replay.run[job], memory[TURN], requested_end, job, width)
    _charge(replay, job, width, now)


@kernel(forceinline=True)
def _start(replay, job, now):
    """Start a job that the queue has returned."""
    if not surely_best(replay.queue, job, now):
        replay.memory[ASTRAY] = 1
    replay.memory[WAITING] -= 1
    leave(replay.queue, job, now)
    _launch(replay, job, now)


@kernel(forceinline=True)
def _pass(replay, newest, now):
    """One scheduling pass: start the queue's head while it fits, then backfill behind it.

    If nothing but the arrival of a job has happened since the last pass, `newest` is that job, else -1: while
    the head's reservation holds, no other job can be backfilled.
    """
    memory, flags, inputs = replay.memory, replay.flags, replay.inputs
    frozen, width = flags & FROZEN != 0, inputs.processors
    if memory[WAITING] == 0 or (not frozen and not any_fits(replay.queue, memory[FREE])):
        return
    begin_pass(replay.queue, memory[WAITING], now)
    head = head_of(replay.queue)
    while head >= 0 and width[head] <= memory[FREE]:
        _start(replay, head, now)
        newest = -1
        if not frozen:  # the job just started may use processors that the reservation counts on
            memory[HEAD] = -1
        head = head_of(replay.queue)
    if head < 0 or not flags & BACKFILL:
        return
    if not frozen and not any_fits(replay.queue, memory[FREE]):
        return
    if head != memory[HEAD] or (not frozen and overstayed(replay.running, inputs, replay.start, now)):
        newest = -1
        read_requests(replay.running, inputs, replay.start)
        shadow, spare = reservation(replay.running, now, memory[FREE], width[head])
        memory[HEAD], memory[SHADOW] = head, shadow
        memory[SPARE] = spare if flags & EXTRA else 0
    _backfill(replay, newest, now)


@kernel(forceinline=True)
def _window(replay, now):
    return replay.memory[SHADOW] - now - (1 if replay.flags & STRICT else 0)


@kernel(forceinline=True)
def _in_time(replay, job, now):
    """Tell whether a job that fits would end by the head's reservation, were it started now."""
    start = start_of(replay.nodes, replay.inputs.processors[job], now)
    return replay.inputs.walltime[job] <= _window(replay, start)


@kernel(forceinline=True)
def _backfill(replay, newest, now):
    """Start what may be backfilled, or only the newest job if one is given."""
    memory, width, window, queue = replay.memory, replay.inputs.processors, _window(replay, now), replay.queue
    if newest < 0 and may_fill(queue, memory[FREE], memory[SPARE], window):
        begin_filling(queue, now)
    elif newest < 0:
        return
    while True:
        job = newest
        if newest < 0:
            job = best_candidate(queue, now, memory[FREE], memory[SPARE], window, replay.nodes)
        elif width[job] > memory[FREE]:
            return
        in_time = job >= 0 and _in_time(replay, job, now)
        if job < 0 or not (in_time or width[job] <= memory[SPARE]):
            return
        if not in_time:
            memory[SPARE] -= width[job]
        _start(replay, job, now)
        if newest >= 0:
            return


@kernel(forceinline=True)
def _release(replay, job, now):
    keep = replay.flags & PASS_PER_EVENT != 0  # as in `ranked`
    release_request(replay.running, replay.start[job] + replay.inputs.walltime[job], job, keep)
    width = replay.inputs.processors[job]
    replay.memory[FREE] += width
    _charge(replay, job, -width, now)
    note_end(replay.inputs, job, replay.run[job])
    vacate(replay.nodes, job, now)


@kernel(forceinline=True)
def _release_expected(replay, now):
    """Let the jobs that end now, exactly when requested, release their processors, as in `ranked`."""
    running, memory = replay.running, replay.memory
    if memory[RELEASED] == now or running.n[0] == 0 or running.end[0] != now:
        return
    memory[RELEASED], memory[HEAD] = now, -1
    for place in range(running.n[0]):
        job = running.job[place]
        if running.end[place] == now and replay.run[job] == replay.inputs.walltime[job]:
            _release(replay, job, now)


@kernel(forceinline=True)
def _complete(replay, now):
    """Take the completions of an instant, as `ranked._complete` does."""
    running = replay.running
    if not replay.flags & FROZEN:
        replay.memory[HEAD] = -1
    if not replay.flags & PASS_PER_EVENT:
        while running.n[0] > 0 and running.end[0] == now:
            _release(replay, pop_ended(running), now)
        return
    if replay.flags & FROZEN:
        _release(replay, pop_ended(running), now)
        return
    _release_expected(replay, now)
    job = pop_ended(running)
    if replay.run[job] != replay.inputs.walltime[job] or replay.start[job] == now:
        _release(replay, job, now)


@kernel(forceinline=True)
def _advance(replay):
    """Run the log to its end, the events of an instant as in `ranked`; return whether it has come to it.

    It has not where too many wait for the list, and tournaments have to be prepared.
    """
    submit, running, memory = replay.inputs.submit, replay.running, replay.memory
    per_event = replay.flags & PASS_PER_EVENT != 0
    submits_first = per_event and replay.flags & FROZEN == 0
    while memory[ARRIVED] < replay.jobs or running.n[0] > 0:
        if too_many(replay.queue):
            return False
        following = memory[ARRIVED]
        arrival = submit[following] if following < replay.jobs else NEVER
        newest = -1
        if running.n[0] > 0 and running.end[0] <= arrival - submits_first:
            now = running.end[0]
            _complete(replay, now)
            alone = per_event or arrival != now
        else:
            now = arrival
            if submits_first:
                _release_expected(replay, now)
            alone = per_event or following + 1 == replay.jobs or submit[following + 1] != now
            if alone:
                memory[ARRIVED] += 1
                newest = following
                if memory[WAITING] == 0 and replay.inputs.processors[newest] <= memory[FREE]:
                    _launch(replay, newest, now)
                else:
                    _enqueue(replay, newest, now)
        while not alone and memory[ARRIVED] < replay.jobs and submit[memory[ARRIVED]] == now:
            _enqueue(replay, memory[ARRIVED], now)
            memory[ARRIVED] += 1
        _pass(replay, newest, now)
    return True


@kernel()
def _run(flags, run, start, inputs, parts, slots, memory, nodes):
    """Wrap the caller's arrays into bare columns and replay the log as far as it goes."""
    queue = bare_queue(inputs, *parts)
    replay = Replay(
        inputs.submit.size, flags, bare(run), queue.inputs, bare(start), queue, bare_running(slots),
        bare(memory), bare_nodes(nodes),
    )  # fmt: skip
    return _advance(replay)


def scored_schedule(
    submit: IntArray,
    run: IntArray,
    walltime: IntArray,
    processors: IntArray,
    facts: Facts,
    order: QueueOrder,
    fill_order: QueueOrder | None,
    machine: int,
    flags: int,
    half_life: float,
    nodes: Nodes | None = None,
) -> IntArray:
    """Replay a log under orders that may change, and return the start times, shape (n,), int64.

    Parameters
    ----------
    submit, run, walltime, processors, machine, flags
        As for `ranked_schedule`; submit times count from the log's first.
    facts
        The other columns that orders may read.
    order, fill_order
        The queue's and the backfilling's order (None: the same).
    half_life
        Seconds in which past use counts half for fair share; 0: use never fades.
    nodes
        The nodes and their power states; None: every processor is on.
    """
    orders = [order] if fill_order is None else [order, fill_order]
    scores = [compile_score(one) for one in orders]
    start = np.empty(len(submit), np.int64)
    for bounded in (True, False):
        memory = np.zeros(MEMORY, np.int64)
        memory[[FREE, HEAD, RELEASED]] = machine, -1, -1
        inputs = score_inputs(submit, walltime, processors, facts, half_life)
        listed, entrants = empty_list(len(submit), bounded), nobody()
        slots, states = empty_running(min(machine, len(submit)) + 1), deepcopy(nodes)
        parts = machine, len(orders) == 1, (scores[0], scores[-1]), listed
        while not _run(flags, run, start, inputs, (*parts, entrants), slots, memory, states):
            entrants = group_jobs(orders, inputs) or entrants
            prepare(listed, entrants is not nobody())
        if not memory[ASTRAY]:
            break
    if nodes is not None and states is not None:
        for name in Nodes._fields:
            getattr(nodes, name)[:] = getattr(states, name)
    return start
