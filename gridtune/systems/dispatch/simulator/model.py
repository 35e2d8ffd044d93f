"""Jobs with deadlines, drawn or taken from a log, and machines of different speed with their changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.simulator.site import FAILURE, REPAIR, SPEED
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = [
    "BatchPlan",
    "Changes",
    "DispatchJobs",
    "JobStreams",
    "Machines",
    "batch_starts",
    "draw_jobs",
    "failures",
    "log_jobs",
    "no_changes",
    "speed_changes",
]

#: A factor beyond these would leave int64 seconds, or run jobs in no time.
_FACTORS = (1e-3, 1e3)


@dataclass(frozen=True)
class DispatchJobs:
    """Jobs in order of submission, each for one processor; times in whole seconds.

    Attributes
    ----------
    submit
        Shape (n,), int64: when the job comes.
    length
        Shape (n,), int64: seconds it needs on a machine of factor 1, at least 1. No policy sees it.
    estimate
        Shape (n,), int64: the broker's estimate of that, at least 1.
    deadline
        Shape (n,), int64: when it is due.
    batch
        Shape (n,), int64: which batch it belongs to; -1 for learning jobs.
    user
        Shape (n,), int64: whose it is, users numbered from 0 on; None where nobody knows.
    """

    submit: IntArray
    length: IntArray
    estimate: IntArray
    deadline: IntArray
    batch: IntArray
    user: IntArray | None = None

    def __post_init__(self) -> None:
        if len({len(column) for column in (self.submit, self.length, self.estimate, self.deadline)}) > 1:
            raise SimulationError("the columns of jobs differ in length")
        if len(self.batch) != len(self.submit):
            raise SimulationError("every job needs a batch", field="batch")
        if len(self) and (np.diff(self.submit) < 0).any():
            raise SimulationError("jobs must be in order of submission", field="submit")
        for name in ("length", "estimate"):
            if len(self) and getattr(self, name).min() < 1:
                raise SimulationError("every job takes at least 1 s", field=name)

    def __len__(self) -> int:
        return len(self.submit)

    def take(self, mask: BoolArray) -> DispatchJobs:
        """Return the jobs that a mask selects."""
        user = None if self.user is None else self.user[mask]
        return DispatchJobs(
            self.submit[mask],
            self.length[mask],
            self.estimate[mask],
            self.deadline[mask],
            self.batch[mask],
            user,
        )


@dataclass(frozen=True)
class Changes:
    """Changes of machines, in order of time; kinds are `SPEED`, `FAILURE`, `REPAIR` of `state`."""

    time: IntArray
    machine: IntArray
    kind: IntArray
    value: FloatArray

    def __add__(self, other: Changes) -> Changes:
        """Return both, in order of time; at the same second these come before the others."""
        time = np.concatenate([self.time, other.time])
        order = np.argsort(time, kind="stable")
        joined = (
            np.concatenate([self.machine, other.machine]),
            np.concatenate([self.kind, other.kind]),
            np.concatenate([self.value, other.value]),
        )
        return Changes(time[order], *(column[order] for column in joined))


def no_changes() -> Changes:
    """Return changes for machines that never change."""
    nothing = np.zeros(0, np.int64)
    return Changes(nothing, nothing, nothing, np.zeros(0))


def speed_changes(time: int, factors: Sequence[float]) -> Changes:
    """Return a change of every machine's speed factor at one second."""
    count = len(factors)
    kind = np.full(count, SPEED, np.int64)
    return Changes(np.full(count, time, np.int64), np.arange(count), kind, np.array(factors, np.float64))


def failures(
    machines: int, horizon: int, mean_up: float, mean_down: float, rng: np.random.Generator
) -> Changes:
    """Return failures and repairs of each machine until a second.

    Times up and down are exponential and independent (an alternating renewal process), rounded to whole
    seconds, at least 1.

    Parameters
    ----------
    machines
        Number of machines.
    horizon
        No failure after this second.
    mean_up, mean_down
        Mean seconds between a repair and the next failure, and between a failure and its repair.
    rng
        One generator for each machine is spawned from it.
    """
    parts = no_changes()
    for machine, own in enumerate(rng.spawn(machines)):
        now, times, kinds = 0, [], []
        while now <= horizon:
            up, down = own.exponential([mean_up, mean_down])
            failed = now + max(1, round(up))
            now = failed + max(1, round(down))
            if failed <= horizon:
                times += [failed, now]
                kinds += [FAILURE, REPAIR]
        column = np.full(len(times), machine, np.int64)
        parts += Changes(np.array(times, np.int64), column, np.array(kinds, np.int64), np.zeros(len(times)))
    return parts


@dataclass(frozen=True)
class Machines:
    """The machines.

    Attributes
    ----------
    factor
        Shape (m,): a job of length L runs for L × factor seconds, so above 1 is slower.
    cpus
        Shape (m,): processors of each; every job takes one.
    changes
        When they change speed, fail and recover.
    """

    factor: FloatArray
    cpus: IntArray
    changes: Changes = field(default_factory=no_changes)

    def __post_init__(self) -> None:
        low, high = _FACTORS
        if len(self.factor) == 0 or len(self.factor) != len(self.cpus):
            raise SimulationError(f"{len(self.factor)} factors and {len(self.cpus)} numbers of processors")
        speeds = self.changes.value[self.changes.kind == SPEED]
        for factors in (self.factor, speeds):
            if not ((factors >= low) & (factors <= high)).all():
                raise SimulationError(f"a speed factor must be from {low:g} to {high:g}", field="factor")
        if (self.cpus < 1).any():
            raise SimulationError("a machine needs a processor", field="cpus")
        machine = self.changes.machine
        if len(machine) and not (machine.min() >= 0 and machine.max() < len(self.factor)):
            raise SimulationError("a change names a machine that is not there", field="changes")

    def __len__(self) -> int:
        return len(self.factor)


#: A batch lasts this many times as long as its arrivals, to run the jobs; the second is per unit of load.
_STRETCH, _RESERVE = 3.0, 1.5
#: Shortest and longest job over the mean.
_SHORTEST, _LONGEST = 0.2, 1.8
#: Standard deviation of the logarithm beyond which estimates would leave int64 seconds.
_WORST = 5.0


@dataclass(frozen=True)
class BatchPlan:
    """How many jobs come, and how fast.

    Attributes
    ----------
    batches, jobs
        Batches, and jobs of each.
    learning_jobs
        Jobs to learn from, before the first batch.
    offered_load
        Work that arrives in a second over what the machines do, during arrivals.
    learning_offered_load
        The same for the learning jobs; None: they are spread over the whole of their batch's time.
    mean_length
        Seconds; lengths are uniform from a fifth to nine fifths of it.
    capacity
        Work that the machines do in a second: Σ cpus/factor.
    """

    batches: int
    jobs: int
    learning_jobs: int
    offered_load: float
    learning_offered_load: float | None
    mean_length: float
    capacity: float

    def span(self, jobs: int, load: float) -> float:
        """Return the seconds over which that many jobs arrive."""
        return jobs * self.mean_length / (self.capacity * load)

    def period(self, jobs: int, load: float) -> int:
        """Return the seconds after which the next batch may begin."""
        return round(self.span(jobs, load) * max(_STRETCH, _RESERVE * load))


@dataclass(frozen=True)
class JobStreams:
    """Streams of random numbers, one for each aspect, so that one can change without the others."""

    arrivals: np.random.Generator
    lengths: np.random.Generator
    estimates: np.random.Generator
    deadlines: np.random.Generator


def batch_starts(plan: BatchPlan) -> IntArray:
    """Return the second at which each batch begins: shape (batches,)."""
    first = 0
    if plan.learning_jobs:
        load = plan.offered_load if plan.learning_offered_load is None else plan.learning_offered_load
        first = plan.period(plan.learning_jobs, load)
    return first + np.arange(plan.batches, dtype=np.int64) * plan.period(plan.jobs, plan.offered_load)


def draw_jobs(plan: BatchPlan, *, slack: float, error: float, streams: JobStreams) -> DispatchJobs:
    """Return jobs in batches, each of which arrives within the first part of its batch's time.

    A job's deadline is submission + estimate + slack · U(0, 1) · estimate. Its estimate is its length, times
    a lognormal error of mean logarithm 0.

    Parameters
    ----------
    plan
        How many, and how fast.
    slack
        Largest spare time over the estimate (the paper's ⅓).
    error
        Standard deviation of the logarithm of estimate over length; 0 for exact estimates.
    streams
        Where random numbers come from.

    Notes
    -----
    The rule for deadlines is of Vladušič, section 2.2.2. There, jobs arrive within the first third of a
    batch's time; under a load above 2 the time is longer, so that the machines are empty before the next.
    """
    submit, batch = [], []
    if plan.learning_jobs:
        load = plan.offered_load if plan.learning_offered_load is None else plan.learning_offered_load
        span = plan.span(plan.learning_jobs, load) * (_STRETCH if plan.learning_offered_load is None else 1.0)
        submit.append(_arrivals(plan.learning_jobs, span, streams))
        batch.append(np.full(plan.learning_jobs, -1, np.int64))
    for number, start in enumerate(batch_starts(plan).tolist()):
        submit.append(start + _arrivals(plan.jobs, plan.span(plan.jobs, plan.offered_load), streams))
        batch.append(np.full(plan.jobs, number, np.int64))
    arrival = np.concatenate(submit)
    low, high = (max(1, round(part * plan.mean_length)) for part in (_SHORTEST, _LONGEST))
    length = streams.lengths.integers(low, high, len(arrival), endpoint=True)
    return _with_deadlines(arrival, length, np.concatenate(batch), None, slack, error, streams)


def _arrivals(count: int, span: float, streams: JobStreams) -> IntArray:
    return np.sort(streams.arrivals.integers(0, max(1, round(span)), count))


def log_jobs(
    submit: IntArray,
    length: IntArray,
    estimate: IntArray,
    plan: BatchPlan,
    *,
    slack: float,
    error: float,
    streams: JobStreams,
    user: IntArray | None = None,
) -> DispatchJobs:
    """Return a log's jobs: its arrivals, scaled to the plan's load, its lengths and estimates.

    The first `learning_jobs` jobs are for learning, then every `jobs` jobs are a batch, without a pause
    between them. There are at most `batches` batches; jobs left over at the end are dropped.

    Parameters
    ----------
    submit, length, estimate
        Shape (n,), int64, in order of submission: seconds of the log's columns; an estimate below 1 is
        unknown.
    plan, slack, error, streams
        As in `draw_jobs`; the plan's mean length and learning load are not used. Where an estimate is
        unknown, it is the length times the error, as for drawn jobs.
    user
        Shape (n,): whose jobs they are, any numbers.

    Raises
    ------
    SimulationError
        If there are too few jobs; or if estimates are unknown and there is no error: the broker would know
        how long these jobs really take.
    """
    count = min(plan.batches, (len(submit) - plan.learning_jobs) // plan.jobs)
    if count < 1:
        raise SimulationError(
            f"{len(submit)} jobs are too few: {plan.learning_jobs} to learn from and a batch of {plan.jobs}"
        )
    used = slice(0, plan.learning_jobs + count * plan.jobs)
    submit, length = submit[used] - submit[0], np.maximum(1, length[used])
    span = length.sum() / (plan.capacity * plan.offered_load)
    submit = np.rint(submit * (span / max(1, submit[-1]))).astype(np.int64)
    batch = np.concatenate([np.full(plan.learning_jobs, -1), np.repeat(np.arange(count), plan.jobs)])
    requested = estimate[used]
    unknown = requested < 1
    if unknown.any() and not error:
        raise SimulationError(
            f"{unknown.sum()} of {len(requested)} jobs have no requested time, and the broker must "
            "not know their run times",
            field="requested_time",
            hint="the cleaning rule missing_walltime, one of the default ones, gives them the log's largest; "
            "or make estimates of their run times with estimate_error=0.5",
        )
    requested = np.where(unknown, length, requested)
    jobs = _with_deadlines(submit, length, batch.astype(np.int64), requested, slack, error, streams)
    if user is None:
        return jobs
    return replace(jobs, user=np.unique(user[used], return_inverse=True)[1].astype(np.int64))


def _with_deadlines(
    submit: IntArray,
    length: IntArray,
    batch: IntArray,
    estimate: IntArray | None,
    slack: float,
    error: float,
    streams: JobStreams,
) -> DispatchJobs:
    """Add estimates and deadlines; these go by what is known when the job comes, not by its true length."""
    if not 0 <= error <= _WORST or slack < 0:
        raise SimulationError(f"slack must be 0 or more and error from 0 to {_WORST:g}: {slack}, {error}")
    estimate = length if estimate is None else estimate
    if error:
        estimate = np.rint(estimate * np.exp(error * streams.estimates.standard_normal(len(estimate))))
    estimate = np.maximum(1, estimate).astype(np.int64)
    spare = np.rint(slack * streams.deadlines.random(len(estimate)) * estimate).astype(np.int64)
    return DispatchJobs(submit, length.astype(np.int64), estimate, submit + estimate + spare, batch)
