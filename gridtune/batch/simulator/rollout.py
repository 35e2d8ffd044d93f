"""The batch kernel that looks ahead: EASY backfilling in the order that is best when played forward.

In each pass in which some but not all waiting jobs fit, an order of a portfolio is chosen (`portfolio`).
Nothing is known of the jobs but what they request and for how long they have waited or run.
"""

from __future__ import annotations

import numpy as np

from gridtune.batch.policies.rollout import Rollout
from gridtune.batch.predictors.replayed import PredictedReplay
from gridtune.batch.simulator.events import (
    FROZEN,
    JobLog,
    advance,
    in_time,
    launch,
    new_replay,
    reserve_for_head,
)
from gridtune.batch.simulator.forward import note_predicted, note_running
from gridtune.batch.simulator.nodes import Nodes
from gridtune.batch.simulator.portfolio import choose_sequence, new_waiting
from gridtune.batch.simulator.running import insert_row, read_requests, remove_row, some_within
from gridtune.batch.simulator.scores import (
    Facts,
    charge,
    check_scores,
    note_run_time,
    note_submission,
    score_inputs,
)
from gridtune.core.compiled import bare, kernel
from gridtune.types import IntArray

__all__ = ["rollout_schedule"]


@kernel(forceinline=True)
def _enqueue(replay, job, now):
    waiting, log = replay.queue, replay.log
    note_submission(waiting.inputs, job, now)
    count = waiting.state.length
    waiting.state.length = count + 1
    replay.state.waiting += 1
    insert_row(
        waiting.job, waiting.processors, waiting.walltime, count, job, log.processors[job], log.walltime[job]
    )


@kernel(forceinline=True)
def _arrive(replay, job, now):
    _enqueue(replay, job, now)
    return True


@kernel(forceinline=True)
def _start(replay, job, now):
    """Start a job that waits."""
    waiting = replay.queue
    count = waiting.state.length
    place, beyond = 0, count
    while waiting.job[place] != job:
        middle = (place + beyond) >> 1
        if waiting.job[middle] <= job:
            place = middle
        else:
            beyond = middle
    remove_row(waiting.job, waiting.processors, waiting.walltime, count, place)
    waiting.state.length = count - 1
    replay.state.waiting -= 1
    launch(replay, job, now)
    charge(waiting.inputs, job, replay.log.processors[job], now)


@kernel(forceinline=True)
def _note_end(replay, job, now):
    log, inputs = replay.log, replay.queue.inputs
    charge(inputs, job, -log.processors[job], now)
    note_run_time(inputs, job, log.run[job], now)


@kernel(inline="always")
def _is_overfull(replay):
    """Return False: the list has room for all jobs."""
    return False


@kernel()
def _decide(replay, now):
    """Put the waiting jobs in order."""
    waiting, state = replay.queue, replay.state
    count, needed = waiting.state.length, 0
    for row in range(count):
        waiting.sequence[row] = waiting.job[row]
        needed += waiting.processors[row]
    if count == 1 or needed <= state.free:
        return
    waiting.state.decisions += 1
    read_requests(replay.running, replay.log)
    if waiting.state.predicted:
        expected = waiting.inputs.predicted
        note_predicted(waiting.window, replay.running, state.free, replay.log.start, expected, now)
    else:
        note_running(waiting.window, replay.running, state.free, now)
    choose_sequence(waiting, now)


@kernel(forceinline=True)
def _pass(replay, newest, now):
    """One scheduling pass: choose an order, start its head while it fits, then backfill behind it."""
    waiting, state, width = replay.queue, replay.state, replay.log.processors
    frozen, count = replay.flags & FROZEN != 0, waiting.state.length
    if count == 0 or (not frozen and not some_within(waiting.processors, count, state.free)):
        return
    _decide(replay, now)
    rank = 0
    while rank < count and width[waiting.sequence[rank]] <= state.free:
        _start(replay, np.int64(waiting.sequence[rank]), now)
        rank += 1
        if not frozen:  # the job just started may use processors that the reservation counts on
            state.head = -1
    if rank == count:
        return
    head = np.int64(waiting.sequence[rank])
    reserve_for_head(replay, head, head, now)
    for place in range(rank + 1, count):
        job = np.int64(waiting.sequence[place])
        if width[job] > state.free:
            continue
        ends_in_time = in_time(replay, job, now)
        if ends_in_time or width[job] <= state.spare:
            state.spare -= 0 if ends_in_time else width[job]
            _start(replay, job, now)


@kernel()
def _run(replay):
    """Replay the log, by the bare columns of the caller's arrays."""
    return advance(bare(replay), _arrive, _enqueue, _pass, _note_end, _is_overfull)


def rollout_schedule(
    submit: IntArray,
    run: IntArray,
    walltime: IntArray,
    processors: IntArray,
    facts: Facts,
    policy: Rollout,
    machine: int,
    flags: int,
    half_life: float,
    nodes: Nodes | None = None,
    guard: int | None = None,
    predictions: PredictedReplay | None = None,
) -> tuple[IntArray, int]:
    """Replay a log under rollouts; return the start times, shape (n,), int64, and the number of decisions.

    Parameters
    ----------
    submit, run, walltime, processors, facts, machine, flags, half_life, nodes, guard
        As for `scored_schedule`; backfilling is EASY.
    policy
        The portfolio and how it is used.
    predictions
        Those of a predictor, if the policy reads any.
    """
    jobs = len(submit)
    predictions = PredictedReplay(jobs) if predictions is None else predictions
    inputs = score_inputs(submit, walltime, processors, facts, half_life, guard, predictions)
    waiting, orders = new_waiting(policy, inputs, jobs, min(machine, jobs) + 1)
    log = JobLog(submit, run, walltime, processors, np.empty(jobs, np.int64))
    _run(new_replay(log, machine, flags, nodes, waiting))
    predictions.check()
    check_scores(orders, inputs, "last")
    return log.start, int(waiting.state["decisions"])
