"""The batch kernel for orders that change while jobs wait: WFP3, fair share, users' own.

The waiting jobs are in a list while they are few, which is scored and looked through in every pass; where
many wait, in tournaments (`tournament`), which keep the result of a comparison for as long as it is sure to
hold. The list is faster for tens of jobs, and the only way where nothing bounds the scores. Between the two
lengths at which the jobs move to the tournaments and back, so many come or go that moving costs little. The
rules are those of `ranked`, and on static orders both kernels agree to the second.

A rollout is such an order, too: in each pass in which some but not all waiting jobs fit, an order of a
portfolio is chosen (`portfolio`), and the score of a job is its place in it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.rollout import Rollout
from gridtune.batch.predictors.replayed import PredictedReplay
from gridtune.batch.simulator.events import (
    BACKFILL,
    FROZEN,
    JobLog,
    advance,
    in_time,
    launch,
    new_replay,
    read_requests,
    reserve_for_head,
    window,
    with_queue,
)
from gridtune.batch.simulator.grouping import group_jobs, nobody
from gridtune.batch.simulator.nodes import PoweredNodes, start_of
from gridtune.batch.simulator.portfolio import (
    Waiting,
    choose_sequence,
    new_waiting,
    note_predicted,
    note_running,
)
from gridtune.batch.simulator.scores import (
    ScoreInputs,
    Undefined,
    charge,
    check_scores,
    compile_score,
    note_run_time,
    note_submission,
    score_jobs,
)
from gridtune.batch.simulator.tournament import (
    Classes,
    Shapes,
    Tournament,
    add_shape,
    best_fit,
    can_start,
    drop_shape,
    foremost,
    refresh,
    replay_account,
    replay_class,
    something_fits,
    within_bounds,
)
from gridtune.core.compiled import bare, kernel
from gridtune.core.rows import insert_row, remove_row, some_within
from gridtune.types import FloatArray, Int32Array, IntArray

#: The longest list that is scanned if there are tournaments; of a third of that in these, all move back.
_MOST = 128
_IN_TREES = -1
_LENGTH = np.dtype([("length", np.int64), ("most", np.int64), ("prepared", np.int64)])


class _Listed(NamedTuple):
    """The list: its first `state.length` rows, by submission; if that is -1, tournaments have the jobs.

    `state.most` is the most that it should have, `state.prepared` whether the tournaments are prepared. The
    scores are those of the last pass.
    """

    state: Any
    job: Int32Array
    processors: IntArray
    walltime: IntArray
    score: FloatArray
    fill_score: FloatArray


class _ScoredQueue(NamedTuple):
    """The waiting jobs: `listed`, or the tournaments `first` and `fill` over `classes`.

    `fill`, in backfilling order, is the same as `first` where `shared`. `ahead` is the portfolio of a
    rollout.
    """

    shared: bool
    inputs: ScoreInputs
    listed: _Listed
    classes: Classes
    shapes: Shapes
    first: Tournament
    fill: Tournament
    ahead: Waiting | None


def _empty_list(jobs: int, short: bool, ahead: Waiting | None = None) -> _Listed:
    """Return the columns of an empty list with room for `jobs`; `short` tells whether to keep it short.

    Under a rollout the first columns are those that it orders.
    """
    state = np.array((0, _MOST if short else jobs, 0), _LENGTH)
    if ahead is not None:
        columns = ahead.job, ahead.processors, ahead.walltime
    else:
        columns = np.empty(jobs, np.int32), np.empty(jobs, np.int64), np.empty(jobs, np.int64)
    return _Listed(state, *columns, np.empty(jobs), np.empty(jobs))


@kernel()
def _front_changes(queue, place, now):
    replay_class(queue.first, place, now)
    if not queue.shared:
        replay_class(queue.fill, place, now)


@kernel()
def _enter_trees(queue, job, now):
    classes = queue.classes
    place = classes.of[job]
    add_shape(queue.shapes, classes.shape[place])
    if classes.front[place] >= 0:
        classes.behind[classes.last[place]] = job
        classes.last[place] = job
        return
    classes.front[place] = classes.last[place] = job
    _front_changes(queue, place, now)


@kernel()
def _leave_trees(queue, job, now):
    """Remove the front job of a class."""
    classes = queue.classes
    place = classes.of[job]
    drop_shape(queue.shapes, classes.shape[place])
    classes.front[place] = classes.behind[job]
    _front_changes(queue, place, now)


@kernel(forceinline=True)
def _list(queue, job):
    listed = queue.listed
    count = listed.state.length
    listed.state.length = count + 1
    width, walltime = queue.inputs.processors[job], queue.inputs.walltime[job]
    insert_row(listed.job, listed.processors, listed.walltime, count, job, width, walltime)


@kernel(apart=True)
def _move_to_trees(queue, now):
    count = queue.listed.state.length
    queue.listed.state.length = _IN_TREES
    for place in range(count):
        _enter_trees(queue, np.int64(queue.listed.job[place]), now)


@kernel(apart=True)
def _move_to_list(queue, now):
    queue.listed.state.length = 0
    job = foremost(queue.first)
    while job >= 0:
        _leave_trees(queue, job, now)
        _list(queue, job)
        job = foremost(queue.first)


@kernel(forceinline=True)
def _enter(queue, job, now):
    """Add a job to the waiting jobs."""
    if queue.listed.state.length == _IN_TREES:
        _enter_trees(queue, job, now)
    else:
        _list(queue, job)


@kernel(forceinline=True)
def _leave(queue, job, now):
    """Remove a job that `_head_of` or `_best_candidate` has returned from the waiting jobs."""
    listed = queue.listed
    count = listed.state.length
    if count == _IN_TREES:
        _leave_trees(queue, job, now)
        return
    place, beyond = 0, count
    while listed.job[place] != job:
        middle = (place + beyond) >> 1
        if listed.job[middle] <= job:
            place = middle
        else:
            beyond = middle
    listed.state.length = count - 1
    remove_row(listed.job, listed.processors, listed.walltime, count, place)
    for later in range(place, count - 1):
        listed.score[later] = listed.score[later + 1]
        listed.fill_score[later] = listed.fill_score[later + 1]


@kernel(forceinline=True)
def _note_charge(queue, job, now):
    """Take note that the use by a job's accounts grows at another rate from now on."""
    if queue.listed.state.length == _IN_TREES:
        replay_account(queue.first, job, now)
        if not queue.shared:
            replay_account(queue.fill, job, now)


@kernel(forceinline=True)
def _any_fits(queue, free):
    """Tell whether a job waits that needs no more than `free` processors."""
    listed = queue.listed
    if listed.state.length == _IN_TREES:
        return something_fits(queue.shapes, free)
    return some_within(listed.processors, listed.state.length, free)


@kernel(forceinline=True)
def _begin_pass(queue, waiting, now):
    """Bring the order up to date for a pass; `waiting` jobs wait."""
    if queue.listed.state.length == _IN_TREES:
        if 3 * waiting <= queue.listed.state.most:
            _move_to_list(queue, now)
    elif queue.listed.state.prepared and queue.listed.state.length > queue.listed.state.most:
        _move_to_trees(queue, now)
    if queue.listed.state.length == _IN_TREES:
        refresh(queue.first, now)
    else:
        listed = queue.listed
        score_jobs(queue.first.score, queue.inputs, listed.job, listed.state.length, now, listed.score)


@kernel(forceinline=True)
def _head_of(queue):
    """Return the first job, -1 if nobody waits."""
    listed = queue.listed
    if listed.state.length == _IN_TREES:
        return foremost(queue.first)
    if listed.state.length == 0:
        return -1
    best = 0
    for place in range(1, listed.state.length):
        if listed.score[place] < listed.score[best]:
            best = place
    return np.int64(listed.job[best])


@kernel(forceinline=True)
def _begin_filling(queue, now):
    """Bring the backfilling order up to date, in a pass that has begun."""
    if queue.shared:
        return
    if queue.listed.state.length == _IN_TREES:
        refresh(queue.fill, now)
    else:
        listed = queue.listed
        score_jobs(
            queue.fill.score,
            queue.inputs,
            listed.job,
            listed.state.length,
            now,
            listed.fill_score,
        )


@kernel(forceinline=True)
def _may_fill(queue, free, extra, window):
    """Tell whether a job waits that might be backfilled: see `_best_candidate`."""
    listed = queue.listed
    if listed.state.length == _IN_TREES:
        return can_start(queue.shapes, free, extra, window)
    possible = False
    for place in range(listed.state.length):
        width = listed.processors[place]
        possible |= (width <= free) & ((width <= extra) | (listed.walltime[place] <= window))
    return possible


@kernel(forceinline=True)
def _best_candidate(queue, now, free, extra, window, nodes):
    """Return the first job, in the order, that may be backfilled, or -1.

    A job may if it needs at most `free` processors, and at most `extra` or at most `window` seconds; with
    power states of nodes, from the time when its own are on.
    """
    listed = queue.listed
    if listed.state.length == _IN_TREES:
        return best_fit(queue.fill, now, free, extra, window, nodes)
    scores = listed.score if queue.shared else listed.fill_score
    best = -1
    for place in range(listed.state.length):
        width = listed.processors[place]
        if width > free or (best >= 0 and scores[place] >= scores[best]):
            continue
        if width <= extra or listed.walltime[place] <= window - (start_of(nodes, width, now) - now):
            best = place
    return np.int64(listed.job[best]) if best >= 0 else -1


@kernel(forceinline=True)
def _surely_best(queue, job, now):
    """Tell whether a job has been chosen by scores, or by bounds that these are within."""
    if queue.listed.state.length != _IN_TREES:
        return True
    return within_bounds(queue.first, job, now) and within_bounds(queue.fill, job, now)


@kernel(forceinline=True)
def _enqueue(replay, job, now):
    note_submission(replay.queue.inputs, job, now)
    replay.state.waiting += 1
    _enter(replay.queue, job, now)


@kernel(forceinline=True)
def _launch(replay, job, now):
    """Start a job, which waits no more, and charge its accounts."""
    launch(replay, job, now)
    charge(replay.queue.inputs, job, replay.log.processors[job], now)
    _note_charge(replay.queue, job, now)


@kernel(forceinline=True)
def _note_end(replay, job, now):
    """End the charge of a job's accounts, and note how long it has run."""
    queue, log = replay.queue, replay.log
    charge(queue.inputs, job, -log.processors[job], now)
    _note_charge(queue, job, now)
    note_run_time(queue.inputs, job, log.run[job], now)


@kernel(inline="always")
def _is_overfull(replay):
    """Tell whether more wait than the list should have, and tournaments have to be prepared."""
    state = replay.queue.listed.state
    return state.length > state.most and not state.prepared


@kernel(forceinline=True)
def _start(replay, job, now):
    """Start a job that the queue has returned."""
    if not _surely_best(replay.queue, job, now):
        replay.state.astray = 1
    replay.state.waiting -= 1
    _leave(replay.queue, job, now)
    _launch(replay, job, now)


@kernel(forceinline=True)
def _arrive(replay, job, now):
    """Handle a job that arrives alone at an instant; it takes a pass, unless it starts at once."""
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
    if state.waiting == 0 or (not frozen and not _any_fits(queue, state.free)):
        return
    if not _look_ahead(queue.ahead, replay, now):
        _begin_pass(queue, state.waiting, now)
    head = _head_of(queue)
    while head >= 0 and width[head] <= state.free:
        _start(replay, head, now)
        newest = -1
        if not frozen:  # the job just started may use processors that the reservation counts on
            state.head = -1
        head = _head_of(queue)
    if head < 0 or not flags & BACKFILL:
        return
    if not frozen and not _any_fits(queue, state.free):
        return
    if not reserve_for_head(replay, head, head, now):
        newest = -1
    _backfill(replay, newest, now)


@kernel(forceinline=True)
def _backfill(replay, newest, now):
    """Start what may be backfilled, or only the newest job if one is given."""
    state, width, queue = replay.state, replay.log.processors, replay.queue
    seconds = window(replay, now)
    if newest < 0 and _may_fill(queue, state.free, state.spare, seconds):
        _begin_filling(queue, now)
    elif newest < 0:
        return
    while True:
        job = newest
        if newest < 0:
            job = _best_candidate(queue, now, state.free, state.spare, seconds, replay.nodes)
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
    columns = with_queue(columns, _ScoredQueue(*columns.queue))
    return advance(columns, _arrive, _enqueue, _pass, _note_end, _is_overfull)


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
        listed = _empty_list(len(log.submit), False, ahead)
        entrants = nobody([compile_score(order.portfolio[0])], inputs, machine)
        _run(new_replay(log, machine, flags, nodes, _ScoredQueue(True, inputs, listed, *entrants, ahead)))
        predictions.check()
        check_scores(orders, inputs, "last")
        return
    orders = [order] if fill_order is None else [order, fill_order]
    scores = [compile_score(one) for one in orders]
    shared = fill_order is None
    for short in (bounded, False):
        inputs, predictions = new_inputs()
        listed, entrants = _empty_list(len(log.submit), short), nobody(scores, inputs, machine)
        queue = _ScoredQueue(shared, inputs, listed, *entrants, None)
        replay = new_replay(log, machine, flags, deepcopy(nodes), queue)
        while not _run(replay):
            grouped = group_jobs(orders, scores, inputs, machine)
            # Without tournaments the list may be long.
            listed.state["most"] = len(log.submit) if grouped is None else _MOST
            listed.state["prepared"] = grouped is not None
            replay = replay._replace(queue=_ScoredQueue(shared, inputs, listed, *(grouped or entrants), None))
        if not replay.state["astray"]:
            break
    predictions.check()
    check_scores(orders, inputs, undefined)
    if nodes is not None and replay.nodes is not None:
        for field, column in zip(nodes, replay.nodes, strict=True):
            field[...] = column
