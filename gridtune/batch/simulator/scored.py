"""The batch kernel for orders that change while jobs wait: WFP3, fair share, users' own.

The waiting jobs are in a list that is scored in every pass or, where many wait, in a tournament, which
keeps the result of a comparison for as long as it is sure to hold (`scored_queue`). The rules are those of
`ranked`, and on static orders both kernels agree to the second.

A rollout is such an order, too: in each pass in which some but not all waiting jobs fit, an order of a
portfolio is chosen (`portfolio`), and the score of a job is its place in it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.rollout import Rollout
from gridtune.batch.predictors.replayed import PredictedReplay
from gridtune.batch.simulator.events import (
    JobLog,
    advance,
    launch,
    new_replay,
    with_queue,
)
from gridtune.batch.simulator.forward import note_predicted, note_running
from gridtune.batch.simulator.nodes import PoweredNodes
from gridtune.batch.simulator.portfolio import choose_sequence, new_waiting
from gridtune.batch.simulator.queues.grouping import group_jobs, nobody
from gridtune.batch.simulator.queues.scored_queue import (
    ScoredQueue,
    any_fits,
    begin_filling,
    begin_pass,
    best_candidate,
    empty_list,
    enter,
    head_of,
    is_overfull,
    leave,
    may_fill,
    note_charge,
    prepare,
    surely_best,
    with_references,
)
from gridtune.batch.simulator.reservations import (
    BACKFILL,
    FROZEN,
    in_time,
    reserve_for_head,
    window,
)
from gridtune.batch.simulator.running import (
    read_requests,
)
from gridtune.batch.simulator.scores import (
    ScoreInputs,
    Undefined,
    charge,
    check_scores,
    compile_score,
    note_run_time,
    note_submission,
)
from gridtune.core.compiled import bare, kernel

__all__ = ["scored_schedule"]


@kernel(forceinline=True)
def _enqueue(replay, job, now):
    note_submission(replay.queue.inputs, job, now)
    replay.state.waiting += 1
    enter(replay.queue, job, now)


@kernel(forceinline=True)
def _launch(replay, job, now):
    """Start a job, which waits no more, and charge its accounts."""
    launch(replay, job, now)
    charge(replay.queue.inputs, job, replay.log.processors[job], now)
    note_charge(replay.queue, job, now)


@kernel(forceinline=True)
def _note_end(replay, job, now):
    """End the charge of a job's accounts, and note how long it has run."""
    queue, log = replay.queue, replay.log
    charge(queue.inputs, job, -log.processors[job], now)
    note_charge(queue, job, now)
    note_run_time(queue.inputs, job, log.run[job], now)


@kernel(inline="always")
def _is_overfull(replay):
    return is_overfull(replay.queue)


@kernel(forceinline=True)
def _start(replay, job, now):
    """Start a job that the queue has returned."""
    if not surely_best(replay.queue, job, now):
        replay.state.astray = 1
    replay.state.waiting -= 1
    leave(replay.queue, job, now)
    _launch(replay, job, now)


@kernel(forceinline=True)
def _arrive(replay, job, now):
    """Let one job arrive at an instant of its own; it takes a pass, unless it starts at once."""
    if replay.state.waiting == 0 and replay.log.processors[job] <= replay.state.free:
        note_submission(replay.queue.inputs, job, now)
        _launch(replay, job, now)
    else:
        _enqueue(replay, job, now)
    return replay.state.waiting > 0


@kernel()
def _look_ahead(ahead, replay, now):
    """Under a rollout, score the waiting jobs by their places in the best order; return whether it is one."""
    if ahead is None:
        return False
    listed, state, log = replay.queue.listed, replay.state, replay.log
    count, needed = listed.state.length, 0
    for row in range(count):
        listed.score[row] = row
        needed += listed.processors[row]
    if count == 1 or needed <= state.free:
        return True
    read_requests(replay.running, log)
    if ahead.state.predicted:
        expected = ahead.inputs.predicted
        note_predicted(ahead.window, replay.running, state.free, log.start, expected, now)
    else:
        note_running(ahead.window, replay.running, state.free, now)
    ahead.state.length = count
    choose_sequence(ahead, now)
    for rank in range(count):
        ahead.score[ahead.sequence[rank]] = rank
    for row in range(count):
        listed.score[row] = ahead.score[listed.job[row]]
    return True


@kernel(forceinline=True)
def _pass(replay, newest, now):
    """One scheduling pass: start the queue's head while it fits, then backfill behind it.

    If nothing but the arrival of a job has happened since the last pass, `newest` is that job, else -1: while
    the head's reservation holds, no other job can be backfilled.
    """
    queue, state, flags, width = replay.queue, replay.state, replay.flags, replay.log.processors
    frozen = flags & FROZEN != 0
    if state.waiting == 0 or (not frozen and not any_fits(queue, state.free)):
        return
    if not _look_ahead(queue.ahead, replay, now):
        begin_pass(queue, state.waiting, now)
    head = head_of(queue)
    while head >= 0 and width[head] <= state.free:
        _start(replay, head, now)
        newest = -1
        if not frozen:  # the job just started may use processors that the reservation counts on
            state.head = -1
        head = head_of(queue)
    if head < 0 or not flags & BACKFILL:
        return
    if not frozen and not any_fits(queue, state.free):
        return
    if not reserve_for_head(replay, head, head, now):
        newest = -1
    _backfill(replay, newest, now)


@kernel(forceinline=True)
def _backfill(replay, newest, now):
    """Start what may be backfilled, or only the newest job if one is given."""
    state, width, queue = replay.state, replay.log.processors, replay.queue
    seconds = window(replay, now)
    if newest < 0 and may_fill(queue, state.free, state.spare, seconds):
        begin_filling(queue, now)
    elif newest < 0:
        return
    while True:
        job = newest
        if newest < 0:
            job = best_candidate(queue, now, state.free, state.spare, seconds, replay.nodes)
        elif width[job] > state.free:
            return
        ends_in_time = job >= 0 and in_time(replay, job, now)
        if job < 0 or not (ends_in_time or width[job] <= state.spare):
            return
        if not ends_in_time:
            state.spare -= width[job]
        _start(replay, job, now)
        if newest >= 0:
            return


@kernel()
def _run(replay):
    """Replay the log as far as it goes, by the bare columns of the caller's arrays."""
    columns = bare(replay)
    return advance(
        with_queue(columns, with_references(columns.queue)), _arrive, _enqueue, _pass, _note_end, _is_overfull
    )


def scored_schedule(
    log: JobLog,
    machine: int,
    flags: int,
    nodes: PoweredNodes | None,
    order: QueueOrder | Rollout,
    fill_order: QueueOrder | None,
    new_inputs: Callable[[], tuple[ScoreInputs, PredictedReplay]],
    *,
    undefined: Undefined = "fail",
    bounded: bool = True,
) -> None:
    """Replay a log under orders that may change, and fill in the start times.

    Parameters
    ----------
    log, machine, flags, nodes
        As for `ranked_schedule`; submit times count from the log's first.
    order, fill_order
        The queue's and the backfilling's order (None: the same), or a rollout.
    new_inputs
        Returns what scores depend on, before the first job arrives, and the predictions among it.
    undefined
        What an infinite score, or one that is not a number, does; under a rollout such jobs go last.
    bounded
        Whether scores keep to the bounds that their formulas have. A guard lets them leave these, and so do
        walltimes that a predictor enters when jobs are submitted.

    Raises
    ------
    PolicyError
        If an order of the user's, or an expression, does not score a job.
    """
    if isinstance(order, Rollout):
        inputs, predictions = new_inputs()
        ahead, orders = new_waiting(order, inputs, len(log.submit), min(machine, len(log.submit)) + 1)
        listed = empty_list(len(log.submit), False, ahead)
        entrants = nobody([compile_score(order.portfolio[0])], inputs, machine)
        _run(new_replay(log, machine, flags, nodes, ScoredQueue(True, inputs, listed, *entrants, ahead)))
        predictions.check()
        check_scores(orders, inputs, "last")
        return
    orders = [order] if fill_order is None else [order, fill_order]
    scores = [compile_score(one) for one in orders]
    shared = fill_order is None
    for short in (bounded, False):
        inputs, predictions = new_inputs()
        listed, entrants = empty_list(len(log.submit), short), nobody(scores, inputs, machine)
        queue = ScoredQueue(shared, inputs, listed, *entrants, None)
        replay = new_replay(log, machine, flags, deepcopy(nodes), queue)
        while not _run(replay):
            grouped = group_jobs(orders, scores, inputs, machine)
            prepare(listed, grouped is not None)
            replay = replay._replace(queue=ScoredQueue(shared, inputs, listed, *(grouped or entrants), None))
        if not replay.state["astray"]:
            break
    predictions.check()
    check_scores(orders, inputs, undefined)
    if nodes is not None and replay.nodes is not None:
        for field, column in zip(nodes, replay.nodes, strict=True):
            field[...] = column
