"""The waiting jobs under an order that changes, compiled: a list while they are few, tournaments when many.

The list is scored and looked through in every pass. That is the faster way for tens of jobs, and the only one
where nothing bounds the scores. Between the two lengths at which the jobs move to the tournaments and back,
so many come or go that moving costs little.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.nodes import start_of
from gridtune.batch.simulator.portfolio import Waiting
from gridtune.batch.simulator.queues.tournament import (
    Classes,
    Shapes,
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
from gridtune.batch.simulator.running import insert_row, remove_row, some_within
from gridtune.batch.simulator.scores import ScoreInputs, score_jobs
from gridtune.core.compiled import dereference, kernel, reference
from gridtune.types import FloatArray, Int32Array, IntArray

__all__ = [
    "ScoredQueue",
    "any_fits",
    "begin_filling",
    "begin_pass",
    "best_candidate",
    "empty_list",
    "enter",
    "head_of",
    "is_overfull",
    "leave",
    "may_fill",
    "note_charge",
    "prepare",
    "surely_best",
    "with_references",
]

#: The longest list that is scanned if there are tournaments; of a third of that in these, all move back.
MOST = 128
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


class ScoredQueue(NamedTuple):
    """The waiting jobs: `listed`, or the tournaments `first` and `fill` over `classes`.

    `fill`, in backfilling order, is the same as `first` where `shared`. Kernels get both as references.
    `ahead` is the portfolio of a rollout.
    """

    shared: bool
    inputs: ScoreInputs
    listed: _Listed
    classes: Classes
    shapes: Shapes
    first: Any
    fill: Any
    ahead: Waiting | None


def empty_list(jobs: int, short: bool, ahead: Waiting | None = None) -> _Listed:
    """Return the columns of an empty list with room for `jobs`; `short` tells whether to keep it short.

    Under a rollout the first columns are those that it orders.
    """
    state = np.array((0, MOST if short else jobs, 0), _LENGTH)
    if ahead is not None:
        columns = ahead.job, ahead.processors, ahead.walltime
    else:
        columns = np.empty(jobs, np.int32), np.empty(jobs, np.int64), np.empty(jobs, np.int64)
    return _Listed(state, *columns, np.empty(jobs), np.empty(jobs))


def prepare(listed: _Listed, possible: bool) -> None:
    """Note that there are tournaments now, or that there will be none, so that the list may be long."""
    listed.state["most"] = MOST if possible else len(listed.job)
    listed.state["prepared"] = possible


@kernel(inline="always")
def with_references(queue):
    """Return a bare queue as the functions below take it."""
    first, fill = reference(queue.first), reference(queue.fill)
    listed, classes, shapes = queue.listed, queue.classes, queue.shapes
    return ScoredQueue(queue.shared, queue.inputs, listed, classes, shapes, first, fill, queue.ahead)


@kernel(forceinline=True)
def is_overfull(queue):
    """Tell whether more wait than the list should have, and tournaments have to be prepared."""
    state = queue.listed.state
    return state.length > state.most and not state.prepared


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
def enter(queue, job, now):
    """Let a job wait."""
    if queue.listed.state.length == _IN_TREES:
        _enter_trees(queue, job, now)
    else:
        _list(queue, job)


@kernel(forceinline=True)
def leave(queue, job, now):
    """Let a job that `head_of` or `best_candidate` has returned wait no more."""
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
def note_charge(queue, job, now):
    """Take note that the use by a job's accounts grows at another rate from now on."""
    if queue.listed.state.length == _IN_TREES:
        replay_account(queue.first, job, now)
        if not queue.shared:
            replay_account(queue.fill, job, now)


@kernel(forceinline=True)
def any_fits(queue, free):
    """Tell whether a job waits that needs no more than `free` processors."""
    listed = queue.listed
    if listed.state.length == _IN_TREES:
        return something_fits(queue.shapes, free)
    return some_within(listed.processors, listed.state.length, free)


@kernel(forceinline=True)
def begin_pass(queue, waiting, now):
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
        score_jobs(
            dereference(queue.first).score, queue.inputs, listed.job, listed.state.length, now, listed.score
        )


@kernel(forceinline=True)
def head_of(queue):
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
def begin_filling(queue, now):
    """Bring the backfilling order up to date, in a pass that has begun."""
    if queue.shared:
        return
    if queue.listed.state.length == _IN_TREES:
        refresh(queue.fill, now)
    else:
        listed = queue.listed
        score_jobs(
            dereference(queue.fill).score,
            queue.inputs,
            listed.job,
            listed.state.length,
            now,
            listed.fill_score,
        )


@kernel(forceinline=True)
def may_fill(queue, free, extra, window):
    """Tell whether a job waits that might be backfilled: see `best_candidate`."""
    listed = queue.listed
    if listed.state.length == _IN_TREES:
        return can_start(queue.shapes, free, extra, window)
    possible = False
    for place in range(listed.state.length):
        width = listed.processors[place]
        possible |= (width <= free) & ((width <= extra) | (listed.walltime[place] <= window))
    return possible


@kernel(forceinline=True)
def best_candidate(queue, now, free, extra, window, nodes):
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
def surely_best(queue, job, now):
    """Tell whether a job has been chosen by scores, or by bounds that these are within."""
    if queue.listed.state.length != _IN_TREES:
        return True
    return within_bounds(queue.first, job, now) and within_bounds(queue.fill, job, now)
