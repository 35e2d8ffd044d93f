"""The batch simulator in plain Python: slow, short, and the specification of the kernels.

It shares no code with them: it has lists instead of heaps, indices and bare columns, and every pass is a full
scan. Property tests compare both to the second, on every order and backfilling variant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from gridtune.batch.policies import Backfilling, JobView
from tests.batch.simulator.nodes_twin import NodesTwin
from tests.batch.simulator.prediction_twin import PredictionTwin
from tests.batch.simulator.rollout_twin import RolloutTwin

__all__ = ["ReferenceJob", "ReferenceOrder", "reference_schedule"]

Order = Callable[[JobView], float]


@dataclass
class ReferenceJob:
    """One job; `run` is its real run time, `walltime` the estimate that the scheduler gets."""

    number: int
    submit: int
    run: int
    walltime: int
    processors: int
    user: int = -1
    group: int = -1
    queue: int = -1
    partition: int = -1
    lot: float = 0.0
    requested: int = 0
    start: int = -1
    turn: int = -1


@dataclass
class _Account:
    """Processor-seconds used by one user or group, brought up to date whenever its rate changes."""

    used: float = 0.0
    since: int = 0
    rate: int = 0

    def at(self, now: int, half_life: float) -> float:
        seconds = now - self.since
        if half_life <= 0:
            return self.used + self.rate * seconds
        fading = math.log(2.0) / half_life
        remaining = math.exp(-fading * seconds)
        return self.used * remaining + self.rate * (1.0 - remaining) / fading

    def change(self, now: int, width: int, half_life: float) -> None:
        self.used, self.since = self.at(now, half_life), now
        self.rate += width


@dataclass
class _Accounts:
    """The use by every user and group, and the view of a job that depends on it."""

    half_life: float
    users: dict[int, _Account] = field(default_factory=dict)
    groups: dict[int, _Account] = field(default_factory=dict)
    #: Run times of each user's jobs that have ended, in that order.
    runs: dict[int, list[int]] = field(default_factory=dict)

    #: Says what is predicted, in place of the last two run times.
    predictions: PredictionTwin | None = None

    def view(self, job: ReferenceJob, now: int) -> JobView:
        said = None if self.predictions is None else self.predictions.latest[job.number]
        return JobView(
            submit_time=job.submit,
            walltime=job.walltime,
            processors=job.processors,
            user=job.user,
            group=job.group,
            queue=job.queue,
            partition=job.partition,
            wait=now - job.submit,
            now=now,
            user_usage=self.users.setdefault(job.user, _Account()).at(now, self.half_life),
            group_usage=self.groups.setdefault(job.group, _Account()).at(now, self.half_life),
            lot=job.lot,
            prediction=self.prediction(job) if said is None else min(said.mean, job.walltime),
            early_end=self.early_end(job) if said is None else said.early_end,
        )

    def prediction(self, job: ReferenceJob) -> float:
        last = self.runs.get(job.user, [])[-2:]
        return float(min(job.walltime, sum(last) / len(last))) if last else float(job.walltime)

    def early_end(self, job: ReferenceJob) -> float:
        last = self.runs.get(job.user, [])[-2:]
        return sum(min(run, job.walltime) < job.walltime / 10 for run in last) / len(last) if last else 0.0

    def end(self, job: ReferenceJob, now: int) -> None:
        self.charge(job, now, -job.processors)
        if self.predictions is not None:
            self.predictions.ended(job, now)
        self.runs.setdefault(job.user, []).append(job.run)

    def charge(self, job: ReferenceJob, now: int, width: int) -> None:
        self.users.setdefault(job.user, _Account()).change(now, width, self.half_life)
        self.groups.setdefault(job.group, _Account()).change(now, width, self.half_life)


class ReferenceOrder:
    """A queue order that scores job by job, for the twin of conservative backfilling."""

    def __init__(self, jobs: list[ReferenceJob], order: Order, half_life: float = 0.0) -> None:
        self._jobs, self._order, self._accounts = jobs, order, _Accounts(half_life)

    def key(self, job: int, now: int) -> float:
        """Return the job's score now."""
        return self._order(self._accounts.view(self._jobs[job], now))

    def started(self, job: int, now: int) -> None:
        """Let the job use its processors from now on."""
        self._accounts.charge(self._jobs[job], now, self._jobs[job].processors)

    def ended(self, job: int, now: int) -> None:
        """Let the job use them no more."""
        self._accounts.end(self._jobs[job], now)


@dataclass
class _Machine:
    """The state of the reference simulation."""

    free: int
    rule: Backfilling
    order: Order
    fill_order: Order
    accounts: _Accounts
    nodes: NodesTwin | None = None
    rollout: RolloutTwin | None = None
    waiting: list[ReferenceJob] = field(default_factory=list)
    running: list[ReferenceJob] = field(default_factory=list)
    starts: int = 0
    blocked: tuple[ReferenceJob, int, int] | None = None
    released: set[int] = field(default_factory=set)

    def start(self, job: ReferenceJob, now: int) -> None:
        self.waiting.remove(job)
        self.running.append(job)
        self.starts += 1
        job.start, job.turn = now, self.starts
        if self.nodes is not None:
            job.start = self.nodes.claim(job.number, job.processors, job.run, now)
        self.free -= job.processors
        self.accounts.charge(job, now, job.processors)
        if self.accounts.predictions is not None:
            self.accounts.predictions.started(job, now)

    def submit(self, job: ReferenceJob, now: int) -> None:
        self.waiting.append(job)
        if self.accounts.predictions is not None:
            self.accounts.predictions.submitted(job, now)

    def give_back(self, job: ReferenceJob, now: int) -> None:
        """Free a job's processors; it may still be among the running (see `release_expected`)."""
        self.released.add(job.number)
        if self.nodes is not None:
            self.nodes.vacate(job.number, now)
        self.free += job.processors
        self.accounts.end(job, now)

    def complete(self, now: int) -> None:
        """All completions of an instant."""
        for job in sorted(self.running, key=lambda job: job.turn):
            if job.start + job.run == now:
                self.running.remove(job)
                self.give_back(job, now)

    def release_expected(self, now: int) -> None:
        """Free the processors of the jobs that end now, just as they were expected to."""
        for job in self.running:
            expected = job.start + job.run == now and job.run == job.walltime and job.start < now
            if expected and job.number not in self.released:
                self.give_back(job, now)

    def complete_one(self, now: int) -> None:
        """One completion: the job started first."""
        ending = [job for job in self.running if job.start + job.run == now]
        first = min(ending, key=lambda job: job.turn)
        self.running.remove(first)
        if first.number not in self.released:
            self.give_back(first, now)

    def reservation(self, head: ReferenceJob, now: int) -> tuple[int, int]:
        """Return the head's shadow time and the extra processors beside it."""
        holders = [job for job in self.running if job.number not in self.released]
        releases = sorted({max(now, job.start + job.walltime) for job in holders})
        for shadow in [now, *releases]:
            released = sum(job.processors for job in holders if max(now, job.start + job.walltime) <= shadow)
            if self.free + released >= head.processors:
                return shadow, self.free + released - head.processors
        raise AssertionError("a job wider than the machine")

    def schedule(self, now: int) -> None:
        """One scheduling pass."""
        if self.rollout is None:
            keys = {job.number: self.order(self.accounts.view(job, now)) for job in self.waiting}
            fill_keys = {job.number: self.fill_order(self.accounts.view(job, now)) for job in self.waiting}
        else:
            keys = fill_keys = self.rollout.keys(self, now)
        head = None
        for job in sorted(self.waiting, key=lambda job: (keys[job.number], job.number)):
            if job.processors > self.free:
                head = job
                break
            self.start(job, now)
        if head is None or self.rule.kind == "none":
            return
        if self.blocked is None or self.blocked[0] is not head or not self.rule.frozen:
            shadow, extra = self.reservation(head, now)
            self.blocked = (head, shadow, extra if self.rule.extra else 0)
        head, shadow, extra = self.blocked
        for job in sorted(self.waiting, key=lambda job: (fill_keys[job.number], job.number)):
            if job is head or job.processors > self.free:
                continue
            start = now if self.nodes is None else self.nodes.start_of(job.processors, now)
            end = start + job.walltime
            in_time = end < shadow if self.rule.strict else end <= shadow
            if not (in_time or job.processors <= extra):
                continue
            self.start(job, now)
            extra -= 0 if in_time else job.processors
        self.blocked = (head, shadow, extra)


def reference_schedule(
    jobs: list[ReferenceJob],
    machine: int,
    rule: Backfilling,
    order: Order,
    fill_order: Order | None = None,
    half_life: float = 0.0,
    nodes: NodesTwin | None = None,
    rollout: RolloutTwin | None = None,
    predictions: PredictionTwin | None = None,
) -> list[int]:
    """Return the start times of jobs given in submit order (times from the first submission).

    At an instant all completions come first, then all submissions, then one scheduling pass. With
    `rule.pass_per_event`, a pass follows each of them; unless the shadow is frozen, submissions come first,
    and before them jobs that end as expected release their processors.
    """
    accounts = _Accounts(half_life, predictions=predictions)
    state = _Machine(machine, rule, order, fill_order or order, accounts, nodes, rollout)
    coming = list(jobs)
    while coming or state.running:
        ends = [job.start + job.run for job in state.running]
        now = min(ends + [job.submit for job in coming[:1]])
        if rule.pass_per_event:
            submits = bool(coming) and coming[0].submit == now
            if not rule.frozen:
                state.release_expected(now)
            if submits and not (rule.frozen and now in ends):
                state.submit(coming.pop(0), now)
            else:
                state.complete_one(now)
            state.schedule(now)
            continue
        state.complete(now)
        while coming and coming[0].submit == now:
            state.submit(coming.pop(0), now)
        state.schedule(now)
    return [job.start for job in jobs]
