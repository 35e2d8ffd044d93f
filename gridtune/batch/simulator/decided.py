"""The batch kernel for policies that decide: it asks a Python object for the jobs to start in each pass.

Events are those of all other orders (`events`). A policy gets copies of columns, and of jobs that wait or run
none that tells when they will end.
"""

from __future__ import annotations

from collections.abc import Callable
from traceback import walk_tb
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.policy import JobTable, State
from gridtune.batch.predictors.replayed import JobError, PredictedReplay, Told
from gridtune.batch.simulator.events import JobLog, advance, launch, new_replay
from gridtune.batch.simulator.scores import (
    Facts,
    ScoreInputs,
    charge,
    note_run_time,
    note_submission,
    used,
)
from gridtune.core.compiled import address, bare, kernel
from gridtune.errors import GridtuneError, PolicyError
from gridtune.types import Int32Array, IntArray

#: Jobs that have ended, rows that the policy has chosen, and whether it has failed.
_COUNTS = np.dtype([("ended", np.int64), ("chosen", np.int64), ("failed", np.int64)])
_HINT = "decide(state) returns rows of state.waiting: each at most once, of jobs that fit together"


class _DecidedQueue(NamedTuple):
    """The waiting jobs by submission, those that have ended, by job its run time, and the rows chosen."""

    counts: Any
    inputs: ScoreInputs
    waiting: Int32Array
    ended: Int32Array
    run_time: IntArray
    chosen: IntArray
    ask: Any


@kernel(forceinline=True)
def _enqueue(replay, job, now):
    queue, state = replay.queue, replay.state
    note_submission(queue.inputs, job, now)
    queue.waiting[state.waiting] = job
    state.waiting += 1


@kernel(forceinline=True)
def _arrive(replay, job, now):
    _enqueue(replay, job, now)
    return True


@kernel(forceinline=True)
def _note_end(replay, job, now):
    queue, log = replay.queue, replay.log
    charge(queue.inputs, job, -log.processors[job], now)
    note_run_time(queue.inputs, job, log.run[job], now)
    queue.ended[queue.counts.ended] = job
    queue.run_time[job] = log.run[job]
    queue.counts.ended += 1


@kernel(inline="always")
def _has_failed(replay):
    return replay.queue.counts.failed != 0


@kernel()
def _pass(replay, _, now):
    """Ask the policy if some waiting job fits, and start what it chooses."""
    queue, state, width, fits = replay.queue, replay.state, replay.log.processors, False
    for row in range(state.waiting):
        fits |= width[queue.waiting[row]] <= state.free
    if not fits:
        return
    queue.counts.chosen = 0
    queue.ask(address(queue.inputs.handles), 0, 0, 0, now)
    for place in range(queue.counts.chosen):
        row = queue.chosen[place]
        job = np.int64(queue.waiting[row])
        launch(replay, job, now)
        charge(queue.inputs, job, width[job], now)
        queue.waiting[row] = -1
    left = 0
    for row in range(state.waiting):
        if queue.waiting[row] >= 0:
            queue.waiting[left] = queue.waiting[row]
            left += 1
    state.waiting = left


@kernel()
def _run(replay):
    return advance(bare(replay), _arrive, _enqueue, _pass, _note_end, _has_failed)


class _Decisions:
    """A policy that is asked in a replay, and the tables that it sees."""

    def __init__(self, order: QueueOrder, log: JobLog, machine: int, inputs: ScoreInputs) -> None:
        self._label, self._policy = order.label, order.score(**order.parameters)
        self._inputs, self._log, self._machine, self._now = inputs, log, machine, 0
        self.fault: BaseException | None = None
        columns = dict(zip(Facts._fields[:4], inputs.facts, strict=False))
        columns |= {"submit_time": log.submit, "walltime": log.walltime, "processors": log.processors}
        columns |= {"prediction": inputs.predicted, "early_end": inputs.early}
        taken: dict[str, Any] = {name: column.take for name, column in columns.items()}
        taken |= {f"{name}_usage": self._usage_by(name) for name in ("user", "group")}
        begun = {**taken, "start_time": log.start.take}
        self._waiting = {**taken, "wait": lambda jobs: self._now - log.submit[jobs]}
        self._running = {**begun, "requested_end": lambda jobs: log.start[jobs] + log.walltime[jobs]}
        jobs = len(log.submit)
        known = np.full(jobs, -1)
        self._ended = {**begun, "run_time": known.take}
        room = np.empty(jobs, np.int32), np.empty(jobs, np.int32), known, np.empty(jobs, np.int64)
        queue = _DecidedQueue(np.zeros((), _COUNTS), inputs, *room, Told(self._ask))
        self.replay = new_replay(log, machine, 0, None, queue)

    def _usage_by(self, owner: str) -> Callable[[Int32Array], Any]:
        usage, half_life = getattr(self._inputs, f"{owner}s"), float(self._inputs.half_life[0])

        def usage_of(jobs: Int32Array) -> Any:
            now, accounts = self._now, usage.account[jobs].tolist()
            return np.array([used.py_func(usage, one, now, half_life) for one in accounts], np.float64)

        return usage_of

    def _ask(self, _: int, __: int, ___: int, ____: int, now: int) -> None:
        queue, self._now = self.replay.queue, now
        try:
            rows = self._chosen(now)
        except BaseException as fault:  # it cannot pass through the kernel: `check` raises it
            self.fault, queue.counts["failed"] = fault, 1
            return
        queue.chosen[: len(rows)] = rows
        queue.counts["chosen"] = len(rows)

    def _chosen(self, now: int) -> IntArray:
        """Return the rows that the policy starts; raise an error for a decision that cannot be taken."""
        queue, state, running = self.replay.queue, self.replay.state, self.replay.running
        waiting, free = queue.waiting[: int(state["waiting"])].copy(), int(state["free"])
        runs = np.sort(running.job[: int(running.state["count"])])  # the heap is by ends to come
        ended = queue.ended[: int(queue.counts["ended"])].copy()
        tables = zip((waiting, runs, ended), (self._waiting, self._running, self._ended), strict=True)
        chosen = self._policy.decide(State(now, self._machine, free, *(JobTable(*one) for one in tables)))
        rows = np.asarray(chosen)
        if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
            raise PolicyError(f"{self._label!r} decides {chosen!r} at second {now:,}", hint=_HINT)
        rows = rows.astype(np.int64)
        wrong = rows[(rows < 0) | (rows >= len(waiting))]
        if len(wrong):
            reason = f"{self._label!r} starts row {wrong[0]} of {len(waiting)} waiting jobs at second {now:,}"
            raise PolicyError(reason, hint=_HINT)
        width = self._log.processors[waiting[rows]]
        twice, over = np.flatnonzero(np.bincount(rows) > 1), np.flatnonzero(np.cumsum(width) > free)
        if len(twice):
            raise self._fault(int(waiting[twice[0]]), "starts the job twice")
        if len(over):
            left = free - int(width[: over[0]].sum())
            reason = f"starts {width[over[0]]} processors while {left} are free"
            raise self._fault(int(waiting[rows[over[0]]]), reason)
        return rows

    def _fault(self, job: int, reason: str) -> JobError:
        return JobError(job, f"policy {self._label!r} {reason} at second {self._now:,}", _HINT)

    def check(self) -> None:
        """Raise the error by which the policy has failed; nothing without one."""
        fault, state, queue = self.fault, self.replay.state, self.replay.queue
        if fault is None and state["waiting"]:
            reason = f"starts nothing, nothing runs and {state['waiting']} jobs wait"
            raise self._fault(int(queue.waiting[0]), reason)
        if fault is None:
            return
        if isinstance(fault, GridtuneError | KeyboardInterrupt):
            raise fault
        lines = [f"{frame.f_code.co_filename}, line {line}" for frame, line in walk_tb(fault.__traceback__)]
        reason = f"fails: {fault or type(fault).__name__} ({lines[-1]})"
        raise self._fault(int(queue.waiting[0]), reason) from fault


def decided_schedule(
    log: JobLog,
    machine: int,
    order: QueueOrder,
    new_inputs: Callable[[], tuple[ScoreInputs, PredictedReplay]],
) -> None:
    """Replay a log under a policy that decides, and fill in the start times.

    Parameters
    ----------
    log, machine, new_inputs
        As for `scored_schedule`.
    order
        The policy.

    Raises
    ------
    PolicyError
        If the policy fails, or decides what cannot be done; the message names the instant and the job.
    """
    inputs, predictions = new_inputs()
    decisions = _Decisions(order, log, machine, inputs)
    _run(decisions.replay)
    predictions.check()
    decisions.check()
