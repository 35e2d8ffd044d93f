"""The batch kernel for policies that decide: it asks a Python object for the jobs to start in each pass.

Events are those of all other orders (`events`). A policy gets copies of columns, and of jobs that wait or run
none that tells when they will end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.policy import Decision, JobTable, State, named_rows
from gridtune.batch.predictors.replayed import JobError, PredictedReplay, Told
from gridtune.batch.simulator.events import JobLog, advance, launch, new_replay
from gridtune.batch.simulator.nodes import NEVER
from gridtune.batch.simulator.scores import Facts, ScoreInputs, charge, note_run_time, note_submission, used
from gridtune.core.compiled import address, bare, kernel
from gridtune.errors import GridtuneError, PolicyError
from gridtune.types import Int32Array, IntArray

#: Jobs that have ended, rows that the policy has chosen, whether it has failed, and when the next reservation
#: is due, `NEVER` without one.
_COUNTS = np.dtype([(name, np.int64) for name in ("ended", "chosen", "failed", "due")])
#: In place of the job that has just arrived: a reservation is due.
_DUE = -2
_HINT = "decide(state) returns rows of jobs that fit together, beside those with reservations"


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


@kernel()
def _pass(replay, newest, now):
    """Ask the policy if some waiting job fits or a reservation is due, and start what it chooses."""
    queue, state, width, fits = replay.queue, replay.state, replay.log.processors, newest == _DUE
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
def _keep_reservations(replay):
    """Pass at the reservations that are due before the next event; tell whether the policy has failed."""
    counts, state, running = replay.queue.counts, replay.state, replay.running
    while counts.failed == 0 and counts.due < NEVER:
        following = replay.log.submit[state.arrived] if state.arrived < replay.jobs else NEVER
        if running.state.count > 0:
            following = min(following, running.end[0])
        if counts.due >= following:
            break
        _pass(replay, _DUE, counts.due)
    return counts.failed != 0


@kernel()
def _run(columns):
    replay = bare(columns)
    while True:
        advance(replay, _arrive, _enqueue, _pass, _note_end, _keep_reservations)
        if replay.queue.counts.due == NEVER or _keep_reservations(replay):
            return


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
        #: When jobs with reservations start.
        self._reserved: dict[int, int] = {}
        counts = np.array((0, 0, 0, NEVER), _COUNTS)
        queue = _DecidedQueue(counts, inputs, *room, Told(self._ask))
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
        guarded = int(np.count_nonzero(now - self._log.submit[waiting] > self._inputs.guard[0]))
        tables = JobTable(waiting, self._waiting), JobTable(runs, self._running), JobTable(ended, self._ended)
        shown = State(now, self._machine, free, *tables, guarded)
        chosen: Any = self._policy.decide(shown) if (self._log.processors[waiting] <= free).any() else []
        start, reservations = chosen if isinstance(chosen, Decision) else (chosen, {})
        rows = named_rows(self._label, start, len(waiting), now)
        if reservations or self._reserved:
            rows = self._with_reserved(rows, reservations, waiting, runs)
        over = np.flatnonzero(np.cumsum(self._log.processors[waiting[rows]]) > free)
        if len(over):
            width = self._log.processors[waiting[rows[: over[0] + 1]]]
            reason = f"starts {width[-1]} processors while {free - int(width[:-1].sum())} are free"
            raise self._fault(int(waiting[rows[over[0]]]), reason)
        # Behind jobs that a guard puts first, others start as far as they do not delay them.
        return np.array(shown.easy(rows), np.int64) if guarded else rows

    def _with_reserved(
        self, rows: IntArray, reservations: Mapping[int, int], waiting: Int32Array, runs: Int32Array
    ) -> IntArray:
        """Take reservations over; return the rows to start with those that are due, if none is delayed."""
        if self._inputs.guard[0] < NEVER:
            reason = f"{self._label!r} makes reservations, which jobs that a guard puts first would delay"
            raise PolicyError(reason, hint="leave out the guard or the reservations")
        now, reserved, log = self._now, self._reserved, self._log
        named = named_rows(self._label, [*reservations], len(waiting), now)
        for job, time in zip(waiting[named].tolist(), reservations.values(), strict=True):
            if not now < time <= reserved.get(job, NEVER - 1) or time != int(time):
                reason = f"reserves second {time:,}, no whole one after this and up to an earlier promise,"
                raise self._fault(job, reason)
            reserved[job] = int(time)
        left = int(self.replay.state["free"]) - int(log.processors[waiting[rows]].sum())
        new, due = {*waiting[rows].tolist(), *waiting[named].tolist()}, []
        for row, job in enumerate(waiting.tolist()):
            if reserved.get(job, NEVER) <= now and row not in rows and log.processors[job] <= left:
                due.append(row)
                left -= int(log.processors[job])
        rows = np.array([*rows, *due], np.int64)
        for job in waiting[rows].tolist():
            reserved.pop(job, None)
        jobs = np.concatenate([runs, waiting[rows], np.array([*reserved], np.int32)])
        begin = np.maximum([*[0] * len(runs), *[0] * len(rows), *reserved.values()], now)
        end = begin + log.walltime[jobs]
        end[: len(runs)] = np.maximum(log.start[runs] + log.walltime[runs], now)
        for job, time in reserved.items():
            there = (begin <= max(time, now)) & (max(time, now) < end)
            if log.processors[jobs[there]].sum() > self._machine and new.intersection(jobs[there].tolist()):
                raise self._fault(job, f"delays the reservation at second {time:,} by its decision")
        later = [time for time in reserved.values() if time > now]
        self.replay.queue.counts["due"] = min(later, default=NEVER)
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
        job, who = int(queue.waiting[0]), f"policy {self._label!r}"
        raise JobError.of(fault, who, job, self._now, _HINT) from fault


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
