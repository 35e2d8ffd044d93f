"""The batch kernel for orders that change while jobs wait: WFP3, fair share, users' own.

The waiting jobs are in a list that is scored in every pass or, where many wait, in a tournament, which
keeps the result of a comparison for as long as it is sure to hold (`scored_queue`). The rules are those of
`ranked`, and on static orders both kernels agree to the second.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.simulator.grouping import group_jobs, nobody
from gridtune.batch.simulator.nodes import NEVER, Nodes, claim, start_of, vacate
from gridtune.batch.simulator.ranked import BACKFILL, EXTRA, FROZEN, PASS_PER_EVENT, RANKED_STATE, STRICT
from gridtune.batch.simulator.running import (
    Running,
    add_running,
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
from gridtune.batch.simulator.tournament import Tournament
from gridtune.core.compiled import bare, kernel
from gridtune.types import IntArray

__all__ = ["scored_schedule"]

#: As in `ranked`, but `head` is a job, not a rank; and whether a score has been out of its bounds.
_STATE = np.dtype([*RANKED_STATE.descr, ("astray", np.int64)])


class Replay(NamedTuple):
    """The data of a run."""

    jobs: int
    flags: int
    run: IntArray
    inputs: ScoreInputs
    start: IntArray
    queue: ScoredQueue
    running: Running
    state: Any
    nodes: Nodes | None


@kernel(forceinline=True)
def _charge(replay, job, width, now):
    charge(replay.inputs, job, width, now)
    charged(replay.queue, job, now)


@kernel(forceinline=True)
def _enqueue(replay, job, now):
    replay.state.waiting += 1
    enter(replay.queue, job, now)


@kernel(forceinline=True)
def _launch(replay, job, now):
    """Start a job, which waits no more."""
    state, width = replay.state, replay.inputs.processors[job]
    start = claim(replay.nodes, job, width, now)
    replay.start[job] = start
    state.free -= width
    state.turn += 1
    requested_end = start + replay.inputs.walltime[job]
    add_running(replay.running, start + replay.run[job], state.turn, requested_end, job, width)
    _charge(replay, job, width, now)


@kernel(forceinline=True)
def _start(replay, job, now):
    """Start a job that the queue has returned."""
    if not surely_best(replay.queue, job, now):
        replay.state.astray = 1
    replay.state.waiting -= 1
    leave(replay.queue, job, now)
    _launch(replay, job, now)


@kernel(forceinline=True)
def _pass(replay, newest, now):
    """One scheduling pass: start the queue's head while it fits, then backfill behind it.

    If nothing but the arrival of a job has happened since the last pass, `newest` is that job, else -1: while
    the head's reservation holds, no other job can be backfilled.
    """
    state, flags, inputs = replay.state, replay.flags, replay.inputs
    frozen, width = flags & FROZEN != 0, inputs.processors
    if state.waiting == 0 or (not frozen and not any_fits(replay.queue, state.free)):
        return
    begin_pass(replay.queue, state.waiting, now)
    head = head_of(replay.queue)
    while head >= 0 and width[head] <= state.free:
        _start(replay, head, now)
        newest = -1
        if not frozen:  # the job just started may use processors that the reservation counts on
            state.head = -1
        head = head_of(replay.queue)
    if head < 0 or not flags & BACKFILL:
        return
    if not frozen and not any_fits(replay.queue, state.free):
        return
    if head != state.head or (not frozen and overstayed(replay.running, inputs, replay.start, now)):
        newest = -1
        read_requests(replay.running, inputs, replay.start)
        shadow, spare = reservation(replay.running, now, state.free, width[head])
        state.head, state.shadow = head, shadow
        state.spare = spare if flags & EXTRA else 0
    _backfill(replay, newest, now)


@kernel(forceinline=True)
def _window(replay, now):
    return replay.state.shadow - now - (1 if replay.flags & STRICT else 0)


@kernel(forceinline=True)
def _in_time(replay, job, now):
    """Tell whether a job that fits would end by the head's reservation, were it started now."""
    start = start_of(replay.nodes, replay.inputs.processors[job], now)
    return replay.inputs.walltime[job] <= _window(replay, start)


@kernel(forceinline=True)
def _backfill(replay, newest, now):
    """Start what may be backfilled, or only the newest job if one is given."""
    state, width, window, queue = replay.state, replay.inputs.processors, _window(replay, now), replay.queue
    if newest < 0 and may_fill(queue, state.free, state.spare, window):
        begin_filling(queue, now)
    elif newest < 0:
        return
    while True:
        job = newest
        if newest < 0:
            job = best_candidate(queue, now, state.free, state.spare, window, replay.nodes)
        elif width[job] > state.free:
            return
        in_time = job >= 0 and _in_time(replay, job, now)
        if job < 0 or not (in_time or width[job] <= state.spare):
            return
        if not in_time:
            state.spare -= width[job]
        _start(replay, job, now)
        if newest >= 0:
            return


@kernel(forceinline=True)
def _release(replay, job, now):
    keep = replay.flags & PASS_PER_EVENT != 0  # as in `ranked`
    release_request(replay.running, replay.start[job] + replay.inputs.walltime[job], job, keep)
    width = replay.inputs.processors[job]
    replay.state.free += width
    _charge(replay, job, -width, now)
    note_end(replay.inputs, job, replay.run[job])
    vacate(replay.nodes, job, now)


@kernel(forceinline=True)
def _release_expected(replay, now):
    """Let the jobs that end now, exactly when requested, release their processors, as in `ranked`."""
    running, state = replay.running, replay.state
    if state.released == now or running.state.count == 0 or running.end[0] != now:
        return
    state.released, state.head = now, -1
    for place in range(running.state.count):
        job = running.job[place]
        if running.end[place] == now and replay.run[job] == replay.inputs.walltime[job]:
            _release(replay, job, now)


@kernel(forceinline=True)
def _complete(replay, now):
    """Take the completions of an instant, as `ranked._complete` does."""
    running = replay.running
    if not replay.flags & FROZEN:
        replay.state.head = -1
    if not replay.flags & PASS_PER_EVENT:
        while running.state.count > 0 and running.end[0] == now:
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
    submit, running, state = replay.inputs.submit, replay.running, replay.state
    per_event = replay.flags & PASS_PER_EVENT != 0
    submits_first = per_event and replay.flags & FROZEN == 0
    while state.arrived < replay.jobs or running.state.count > 0:
        if too_many(replay.queue):
            return False
        following = state.arrived
        arrival = submit[following] if following < replay.jobs else NEVER
        newest = -1
        if running.state.count > 0 and running.end[0] <= arrival - submits_first:
            now = running.end[0]
            _complete(replay, now)
            alone = per_event or arrival != now
        else:
            now = arrival
            if submits_first:
                _release_expected(replay, now)
            alone = per_event or following + 1 == replay.jobs or submit[following + 1] != now
            if alone:
                state.arrived += 1
                newest = following
                if state.waiting == 0 and replay.inputs.processors[newest] <= state.free:
                    _launch(replay, newest, now)
                else:
                    _enqueue(replay, newest, now)
        while not alone and state.arrived < replay.jobs and submit[state.arrived] == now:
            _enqueue(replay, state.arrived, now)
            state.arrived += 1
        _pass(replay, newest, now)
    return True


@kernel()
def _run(replay):
    """Replay the log as far as it goes, by the bare columns of the caller's arrays."""
    return _advance(bare(replay))


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
    start, shared = np.empty(len(submit), np.int64), len(orders) == 1
    for bounded in (True, False):
        state = np.array((machine, 0, -1, 0, 0, -1, 0, 0, 0), _STATE)
        inputs = score_inputs(submit, walltime, processors, facts, half_life)
        listed, entrants = empty_list(len(submit), bounded), nobody()
        running, states = empty_running(min(machine, len(submit)) + 1), deepcopy(nodes)
        while True:
            classes, shapes, rules = entrants
            first, fill = (
                Tournament(
                    len(rule.columns.kind),
                    machine,
                    rule.basis,
                    rule.root,
                    score,
                    inputs,
                    classes,
                    rule.columns,
                )
                for rule, score in zip((rules[0], rules[-1]), (scores[0], scores[-1]), strict=True)
            )
            queue = ScoredQueue(shared, inputs, listed, classes, shapes, first, fill)
            if _run(Replay(len(submit), flags, run, inputs, start, queue, running, state, states)):
                break
            entrants = group_jobs(orders, inputs) or entrants
            prepare(listed, entrants is not nobody())
        if not state["astray"]:
            break
    if nodes is not None and states is not None:
        for field, column in zip(nodes, states, strict=True):
            field[...] = column
    return start
