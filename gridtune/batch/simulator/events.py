"""Plain queueing and EASY backfilling from event to event, compiled: the common part of all queue orders.

A kernel (`ranked`, `scored`) hands `advance` its queue's part: the arrival of a job, the begin of its wait,
a scheduling pass and the end of a job's use. The rules (EASY: Lifka 1995; Mu'alem and Feitelson 2001) are
stated in `docs/simulation.md`, and in plain Python in `tests/batch/simulator/reference.py`, which shares no
code with this file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.nodes import NEVER, PoweredNodes, claim, vacate
from gridtune.batch.simulator.reservations import FROZEN, PASS_PER_EVENT
from gridtune.batch.simulator.running import (
    Running,
    add_running,
    empty_running,
    pop_ended,
    release_request,
)
from gridtune.core.compiled import kernel
from gridtune.types import IntArray

__all__ = [
    "STATE_FIELDS",
    "JobLog",
    "advance",
    "launch",
    "new_replay",
    "with_queue",
]

#: The state of a run: free processors; waiting jobs; the head, a rank or a job (-1: none valid), with its
#: reservation's shadow time and extra; the instant whose expected ends have been released (see `_complete`);
#: starts so far; submissions so far; whether a score has been out of its bounds.
STATE_FIELDS = ("free", "waiting", "head", "shadow", "spare", "released", "turn", "arrived", "astray")
_STATE = np.dtype([(name, np.int64) for name in STATE_FIELDS])


class JobLog(NamedTuple):
    """The jobs in submit order, shape (n,) each. A run fills in `start`.

    `run` is the time a job really takes, already cut where it is killed, `walltime` the scheduler's estimate.
    """

    submit: IntArray
    run: IntArray
    walltime: IntArray
    processors: IntArray
    start: IntArray


class _Simulation(NamedTuple):
    """The data of a run. The jobs wait in `queue`, which is the kernel's own."""

    jobs: int
    flags: int
    log: JobLog
    running: Running
    state: Any
    nodes: PoweredNodes | None
    queue: Any


def new_replay(log: JobLog, machine: int, flags: int, nodes: PoweredNodes | None, queue: Any) -> _Simulation:
    """Return a run of which nothing has happened yet."""
    jobs = len(log.submit)
    state = np.array((machine, 0, -1, 0, 0, -1, 0, 0, 0), _STATE)
    return _Simulation(jobs, flags, log, empty_running(min(machine, jobs) + 1), state, nodes, queue)


@kernel(inline="always")
def with_queue(replay, queue):
    """Return a run with another queue."""
    log, running, state = replay.log, replay.running, replay.state
    return _Simulation(replay.jobs, replay.flags, log, running, state, replay.nodes, queue)


@kernel(forceinline=True)
def launch(replay, job, now):
    """Start a job, which waits no more."""
    log, state, width = replay.log, replay.state, replay.log.processors[job]
    start = claim(replay.nodes, job, width, now)
    log.start[job] = start
    state.free -= width
    state.turn += 1
    add_running(replay.running, start + log.run[job], state.turn, start + log.walltime[job], job, width)


@kernel(forceinline=True)
def _release(replay, job, now, note_end):
    log, width = replay.log, replay.log.processors[job]
    keep = replay.flags & PASS_PER_EVENT != 0  # jobs that are expected to end now are not in it
    release_request(replay.running, log.start[job] + log.walltime[job], job, keep)
    replay.state.free += width
    note_end(replay, job, now)
    vacate(replay.nodes, job, now)


@kernel(forceinline=True)
def _release_expected(replay, now, note_end):
    """Let the jobs that end now, exactly when requested, release their processors.

    With a pass per event, unless the shadow is frozen, this comes before the first pass of the instant;
    `state.released` is the last instant so treated.
    """
    running, state = replay.running, replay.state
    if state.released == now or running.state.count == 0 or running.end[0] != now:
        return
    state.released = now
    state.head = -1
    for place in range(running.state.count):
        job = np.int64(running.job[place])
        if running.end[place] == now and replay.log.run[job] == replay.log.walltime[job]:
            _release(replay, job, now, note_end)


@kernel(forceinline=True)
def _complete(replay, now, note_end):
    """Take the completions of an instant; with a pass per event, the first one only."""
    log, running = replay.log, replay.running
    if not replay.flags & FROZEN:
        replay.state.head = -1
    if not replay.flags & PASS_PER_EVENT:
        while running.state.count > 0 and running.end[0] == now:
            _release(replay, pop_ended(running), now, note_end)
        return
    if replay.flags & FROZEN:
        _release(replay, pop_ended(running), now, note_end)
        return
    _release_expected(replay, now, note_end)
    job = pop_ended(running)
    if log.run[job] != log.walltime[job] or log.start[job] == now:
        _release(replay, job, now, note_end)


@kernel(inline="always")
def advance(replay, arrive, enqueue, run_pass, note_end, is_overfull):
    """Run the log: at an instant all completions, then all submissions, then one pass.

    With a pass per event, unless the shadow is frozen, submissions come before completions.

    Parameters
    ----------
    replay
        The data of the run.
    arrive, enqueue
        Called with the run, a job and the time: let a job arrive at an instant of its own, and return whether
        it takes a pass; let a job wait.
    run_pass
        Called with the run, the job that has just arrived by itself (-1: none), and the time.
    note_end
        Called with the run, a job that has released its processors, and the time.
    is_overfull
        Called with the run: tell whether the queue must be prepared for so many waiting jobs.

    Returns
    -------
    Whether the log has come to its end. It has not where the queue is overfull.
    """
    submit, running, state = replay.log.submit, replay.running, replay.state
    per_event = replay.flags & PASS_PER_EVENT != 0
    submits_first = per_event and replay.flags & FROZEN == 0
    while (state.arrived < replay.jobs or running.state.count > 0) and not is_overfull(replay):
        following = state.arrived
        arrival = submit[following] if following < replay.jobs else NEVER
        newest = -1
        if running.state.count > 0 and running.end[0] <= arrival - submits_first:
            now = running.end[0]
            _complete(replay, now, note_end)
            alone = per_event or arrival != now
            full = not alone or state.waiting > 0
        else:
            now = arrival
            if submits_first:
                _release_expected(replay, now, note_end)
            alone = per_event or following + 1 == replay.jobs or submit[following + 1] != now
            full = True
            if alone:
                state.arrived += 1
                newest = following
                full = arrive(replay, newest, now)
        while not alone and state.arrived < replay.jobs and submit[state.arrived] == now:
            enqueue(replay, state.arrived, now)
            state.arrived += 1
        if full:
            run_pass(replay, newest, now)
    return state.arrived == replay.jobs and running.state.count == 0
