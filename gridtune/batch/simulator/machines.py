"""Machines side by side, each with a window of a log's jobs: their settings and their memory, compiled.

`gridtune.batch.simulator.decisions` steps and observes them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.events import BACKFILL, EXTRA, RUNNING, STATE_FIELDS, JobLog, Running
from gridtune.core.compiled import bare, kernel, record_at, section
from gridtune.types import AnyArray, Float32Array, FloatArray, Int8Array, IntArray

#: The state of a machine: that of every replay; the window's first job; the clock; whether a decision is
#: asked for; candidates shown, and rows of the observation that are filled; processor-seconds requested by
#: waiting jobs. Then cost of the started jobs; cost that rewards have been given for; factors on costs (one
#: over the number of jobs, or over their area) and on rewards; the cost of the rule compared with.
_WHOLE = (*STATE_FIELDS, "first", "now", "open", "shown", "filled", "queued")
_REAL = ("settled", "paid", "share", "scale", "base")
_STATES = np.dtype([(name, np.int64) for name in _WHOLE] + [(name, np.float64) for name in _REAL])

#: Flags: jobs are chosen to be backfilled, not to be the head; backfilling behind a chosen head; a backfilled
#: job may not delay the head; the environment's own order is that of submission; candidates show predictions.
BACKFILL_MODE, EASY, PROTECT, BY_SUBMISSION, PREDICT = 1, 2, 4, 8, 16


#: Numbers of the state, of a candidate's row, and of its prediction. The first is 1 where a slot is filled.
STATE, ROW, PREDICTED = 11, 10, 3


class Settings(NamedTuple):
    """Settings of all machines: processors, flags, jobs of a window, candidates, room for running jobs.

    The first `warm` jobs of a window are submitted before the agent decides. Of so many `users` the last two
    run times are remembered.
    """

    processors: int
    flags: int
    jobs: int
    candidates: int
    room: int
    warm: int
    users: int


class Columns(NamedTuple):
    """The jobs that windows are taken from, in submit order; times in seconds from the first submission.

    `run` is the time a job really takes, already cut where it is killed. `long` and `large` are the features
    of walltime and of area. A job that waits w seconds costs `weight` · max(`floor`, w + `offset`), over
    Σ `part`.
    """

    submit: IntArray
    run: IntArray
    walltime: IntArray
    processors: IntArray
    user: IntArray
    long: Float32Array
    large: Float32Array
    weight: FloatArray
    offset: FloatArray
    floor: FloatArray
    part: FloatArray


class Machines(NamedTuple):
    """Machines side by side: the state and the running jobs' state of each, and `whole_length` integers.

    `observed`, `mask` and `rewards` have a row for each machine.
    """

    settings: Settings
    columns: Columns
    states: AnyArray
    running: AnyArray
    whole: IntArray
    observed: Float32Array
    mask: Int8Array
    rewards: FloatArray


class _Window(NamedTuple):
    """The jobs of a machine's window beside what every replay has, as bare columns.

    `rank[j]` is the place of job j in the order that the environment uses itself, `waiting` are the waiting
    jobs by submission, `shown` the places among these of the candidates. `available[i]` is scratch:
    processors that are free once i + 1 running jobs have ended. `past` has the last two run times of each
    user, the latest first; -1: none.
    """

    settings: Settings
    columns: Columns
    rank: IntArray
    waiting: IntArray
    shown: IntArray
    available: IntArray
    past: IntArray


class _Machine(NamedTuple):
    """One machine: a replay as `advance` takes it; its queue is the window."""

    jobs: int
    flags: int
    log: JobLog
    running: Running
    state: Any
    nodes: None
    queue: _Window


def row_width(flags: int) -> int:
    """Return the numbers of a candidate."""
    return ROW + (PREDICTED if flags & PREDICT else 0)


def new_machines(settings: Settings, columns: Columns, count: int, actions: int) -> Machines:
    """Return some machines, each with so many actions."""
    return Machines(
        settings,
        columns,
        np.zeros(count, _STATES),
        np.zeros(count, RUNNING),
        np.zeros(count * int(whole_length(settings)), np.int64),
        np.zeros((count, STATE + actions * row_width(settings.flags)), np.float32),
        np.zeros((count, actions), np.int8),
        np.zeros(count),
    )


@kernel()
def whole_length(settings):
    """Return the number of integers of a machine, beside its state."""
    return 3 * settings.jobs + settings.candidates + 7 * settings.room + 2 * settings.users


@kernel(inline="always")
def machine_at(machines, index):
    """Return the machine with that index, with the window that its state names; its columns are bare."""
    settings, columns, whole = machines.settings, machines.columns, machines.whole
    state = record_at(bare(machines.states), index)
    jobs, room, first = settings.jobs, settings.room, state.first
    start = index * whole_length(settings)
    shown = start + 3 * jobs
    ends = shown + settings.candidates
    log = JobLog(
        section(columns.submit, first, jobs),
        section(columns.run, first, jobs),
        section(columns.walltime, first, jobs),
        section(columns.processors, first, jobs),
        section(whole, start, jobs),
    )
    running = Running(
        record_at(bare(machines.running), index),
        section(whole, ends, room),
        section(whole, ends + room, room),
        section(whole, ends + 2 * room, room),
        section(whole, ends + 3 * room, room),
        section(whole, ends + 4 * room, room),
        section(whole, ends + 5 * room, room),
    )
    window = _Window(
        settings,
        Columns(
            log.submit,
            log.run,
            log.walltime,
            log.processors,
            section(columns.user, first, jobs),
            section(columns.long, first, jobs),
            section(columns.large, first, jobs),
            section(columns.weight, first, jobs),
            section(columns.offset, first, jobs),
            section(columns.floor, first, jobs),
            section(columns.part, first, jobs),
        ),
        section(whole, start + jobs, jobs),
        section(whole, start + 2 * jobs, jobs),
        section(whole, shown, settings.candidates),
        section(whole, ends + 6 * room, room),
        section(whole, ends + 7 * room, 2 * settings.users),
    )
    return _Machine(jobs, BACKFILL | EXTRA, log, running, state, None, window)
