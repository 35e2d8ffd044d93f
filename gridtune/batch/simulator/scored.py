"""The batch kernel for orders that change while jobs wait: WFP3, fair share, users' own.

The waiting jobs are in a tournament (`tournament`), which keeps the result of a comparison for as long as it
is sure to hold. The rules are those of `ranked`, and on static orders both kernels agree to the second.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.policies import QueueOrder
from gridtune.batch.simulator.accounts import (
    Facts,
    ScoreInputs,
    bare_inputs,
    charge,
    note_end,
    score_inputs,
)
from gridtune.batch.simulator.classes import Classes, bare_classes
from gridtune.batch.simulator.grouping import group_jobs
from gridtune.batch.simulator.nodes import Nodes, bare_nodes, claim, start_of, vacate
from gridtune.batch.simulator.ranked import BACKFILL, EXTRA, FROZEN, PASS_PER_EVENT, STRICT
from gridtune.batch.simulator.running import (
    Running,
    add_running,
    bare_running,
    drop_request,
    empty_running,
    overstayed,
    pop_ended,
    reservation,
)
from gridtune.batch.simulator.scores import compile_score
from gridtune.batch.simulator.shapes import (
    Shapes,
    add_shape,
    bare_shapes,
    can_start,
    drop_shape,
    something_fits,
)
from gridtune.batch.simulator.tournament import (
    Tournament,
    best_fit,
    foremost,
    make_tournament,
    refresh,
    replay_account,
    replay_class,
    within_bounds,
)
from gridtune.batch.simulator.waiting import NEVER
from gridtune.core.compiled import bare, kernel

__all__ = ["scored_schedule"]

#: As in `ranked`, but `HEAD` is a job, not a rank; and whether a score has been out of its bounds.
FREE, WAITING, HEAD, SHADOW, SPARE, RELEASED, TURN, ARRIVED, ASTRAY, MEMORY = range(10)

Int64s = npt.NDArray[np.int64]


class Replay(NamedTuple):
    """The data of a run, as bare columns. `fill` is the same tournament as `queue` where `shared`."""

    jobs: int
    flags: int
    shared: bool
    run: Int64s
    inputs: ScoreInputs
    start: Int64s
    classes: Classes
    shapes: Shapes
    queue: Tournament
    fill: Tournament
    running: Running
    memory: Int64s
    nodes: Nodes | None


@kernel()
def _front_changes(replay, place, now):
    replay_class(replay.queue, place, now)
    if not replay.shared:
        replay_class(replay.fill, place, now)


@kernel()
def _charge(replay, job, width, now):
    charge(replay.inputs, job, width, now)
    replay_account(replay.queue, job, now)
    if not replay.shared:
        replay_account(replay.fill, job, now)


@kernel()
def _enqueue(replay, job, now):
    classes = replay.classes
    place = classes.of[job]
    replay.memory[WAITING] += 1
    add_shape(replay.shapes, classes.shape[place])
    if classes.front[place] >= 0:
        classes.behind[classes.last[place]] = job
        classes.last[place] = job
        return
    classes.front[place] = classes.last[place] = job
    _front_changes(replay, place, now)


@kernel()
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


@kernel()
def _start(replay, job, now):
    """Start the front job of a class."""
    classes = replay.classes
    place = classes.of[job]
    if not (within_bounds(replay.queue, job, now) and within_bounds(replay.fill, job, now)):
        replay.memory[ASTRAY] = 1
    replay.memory[WAITING] -= 1
    drop_shape(replay.shapes, classes.shape[place])
    classes.front[place] = classes.behind[job]
    _front_changes(replay, place, now)
    _launch(replay, job, now)


@kernel()
def _pass(replay, newest, now):
    """One scheduling pass: start the queue's head while it fits, then backfill behind it.

    If nothing but the arrival of a job has happened since the last pass, `newest` is that job, else -1: while
    the head's reservation holds, no other job can be backfilled.
    """
    memory, flags, width = replay.memory, replay.flags, replay.inputs.processors
    frozen = flags & FROZEN != 0
    if memory[WAITING] == 0 or (not frozen and not something_fits(replay.shapes, memory[FREE])):
        return
    refresh(replay.queue, now)
    head = foremost(replay.queue)
    while head >= 0 and width[head] <= memory[FREE]:
        _start(replay, head, now)
        newest = -1
        if not frozen:  # the job just started may use processors that the reservation counts on
            memory[HEAD] = -1
        head = foremost(replay.queue)
    if head < 0 or not flags & BACKFILL:
        return
    if not frozen and not something_fits(replay.shapes, memory[FREE]):
        return
    if head != memory[HEAD] or (not frozen and overstayed(replay.running, now)):
        shadow, spare = reservation(replay.running, now, memory[FREE], width[head])
        memory[HEAD], memory[SHADOW] = head, shadow
        memory[SPARE] = spare if flags & EXTRA else 0
    elif newest >= 0:
        _backfill_newest(replay, newest, now)
        return
    _backfill(replay, now)


@kernel()
def _window(replay, now):
    return replay.memory[SHADOW] - now - (1 if replay.flags & STRICT else 0)


@kernel()
def _in_time(replay, job, now):
    """Tell whether a job that fits would end by the head's reservation, were it started now."""
    start = start_of(replay.nodes, replay.inputs.processors[job], now)
    return replay.inputs.walltime[job] <= _window(replay, start)


@kernel()
def _backfill_newest(replay, job, now):
    memory, width = replay.memory, replay.inputs.processors[job]
    fits = width <= memory[FREE]
    in_time = fits and _in_time(replay, job, now)
    if in_time or (fits and width <= memory[SPARE]):
        if not in_time:
            memory[SPARE] -= width
        _start(replay, job, now)


@kernel()
def _backfill(replay, now):
    memory, window = replay.memory, _window(replay, now)
    if not can_start(replay.shapes, memory[FREE], memory[SPARE], window):
        return
    if not replay.shared:
        refresh(replay.fill, now)
    while can_start(replay.shapes, memory[FREE], memory[SPARE], window):
        job = best_fit(replay.fill, now, memory[FREE], memory[SPARE], window, replay.nodes)
        if job < 0:  # nodes that are off make all of them too late
            return
        if not _in_time(replay, job, now):
            memory[SPARE] -= replay.inputs.processors[job]
        _start(replay, job, now)


@kernel()
def _release(replay, job, now):
    drop_request(replay.running, replay.start[job] + replay.inputs.walltime[job], job)
    width = replay.inputs.processors[job]
    replay.memory[FREE] += width
    _charge(replay, job, -width, now)
    note_end(replay.inputs, job, replay.run[job])
    vacate(replay.nodes, job, now)


@kernel()
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


@kernel()
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


@kernel()
def _arrive(replay, job, now):
    """Let one job arrive at an instant of its own."""
    memory = replay.memory
    if memory[WAITING] == 0 and replay.inputs.processors[job] <= memory[FREE]:
        _launch(replay, job, now)
        return
    _enqueue(replay, job, now)
    _pass(replay, job, now)


@kernel()
def _advance(replay):
    """Run the whole log: the events of an instant as in `ranked`."""
    submit, running, memory = replay.inputs.submit, replay.running, replay.memory
    per_event = replay.flags & PASS_PER_EVENT != 0
    submits_first = per_event and replay.flags & FROZEN == 0
    while memory[ARRIVED] < replay.jobs or running.n[0] > 0:
        following = memory[ARRIVED]
        arrival = submit[following] if following < replay.jobs else NEVER
        if running.n[0] > 0 and running.end[0] <= arrival - submits_first:
            now = running.end[0]
            _complete(replay, now)
            if per_event or arrival != now:
                _pass(replay, -1, now)
                continue
        else:
            now = arrival
            if submits_first:
                _release_expected(replay, now)
            if per_event or following + 1 == replay.jobs or submit[following + 1] != now:
                memory[ARRIVED] += 1
                _arrive(replay, following, now)
                continue
        while memory[ARRIVED] < replay.jobs and submit[memory[ARRIVED]] == now:
            _enqueue(replay, memory[ARRIVED], now)
            memory[ARRIVED] += 1
        _pass(replay, -1, now)


@kernel()
def _run(flags, run, start, inputs, classes, shapes, scores, bases, roots, columns, slots, memory, nodes):
    """Wrap the caller's arrays into bare columns and replay the log."""
    read, groups = bare_inputs(inputs), bare_classes(classes)
    queue = make_tournament(memory[FREE], bases[0], roots[0], scores[0], read, groups, columns[0])
    fill = make_tournament(memory[FREE], bases[1], roots[1], scores[1], read, groups, columns[1])
    shared = columns[0].nodes.ctypes.data == columns[1].nodes.ctypes.data
    replay = Replay(
        inputs.submit.size, flags, shared, bare(run), read, bare(start), groups, bare_shapes(shapes), queue,
        fill, bare_running(slots), bare(memory), bare_nodes(nodes),
    )  # fmt: skip
    _advance(replay)


def scored_schedule(
    submit: Int64s,
    run: Int64s,
    walltime: Int64s,
    processors: Int64s,
    facts: Facts,
    order: QueueOrder,
    fill_order: QueueOrder | None,
    machine: int,
    flags: int,
    half_life: float,
    nodes: Nodes | None = None,
) -> Int64s:
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
        classes, shapes, rules = group_jobs(orders, inputs, bounded)
        bases, roots, columns = zip(rules[0], rules[-1], strict=True)
        slots = empty_running(min(machine, len(submit)) + 1)
        states = deepcopy(nodes)
        _run(
            flags, run, start, inputs, classes, shapes, (scores[0], scores[-1]), bases, roots, columns, slots,
            memory, states,
        )  # fmt: skip
        if not memory[ASTRAY]:
            break
    if nodes is not None and states is not None:
        for name in Nodes._fields:
            getattr(nodes, name)[:] = getattr(states, name)
    return start
