"""Jobs with deadlines: drawn in batches, or taken from a log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.simulator.model import DispatchJobs

__all__ = ["BatchPlan", "Chance", "batch_starts", "draw_jobs", "log_jobs"]

Int64s = npt.NDArray[np.int64]

#: A batch takes so many times as long as its jobs come, the rest is for running them; more under more load.
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
    load
        Work that comes in a second over what the machines do, while jobs of a batch come.
    learning_load
        The same for the learning jobs; None: they are spread over the whole of their batch's time.
    mean_length
        Seconds; lengths are uniform from a fifth to nine fifths of it.
    capacity
        Work that the machines do in a second: Σ cpus/factor.
    """

    batches: int
    jobs: int
    learning_jobs: int
    load: float
    learning_load: float | None
    mean_length: float
    capacity: float

    def span(self, jobs: int, load: float) -> float:
        """Return the seconds over which so many jobs come."""
        return jobs * self.mean_length / (self.capacity * load)

    def period(self, jobs: int, load: float) -> int:
        """Return the seconds after which the next batch may come."""
        return round(self.span(jobs, load) * max(_STRETCH, _RESERVE * load))


@dataclass(frozen=True)
class Chance:
    """Streams of random numbers, one for each aspect, so that one can change without the others."""

    arrivals: np.random.Generator
    lengths: np.random.Generator
    estimates: np.random.Generator
    deadlines: np.random.Generator


def batch_starts(plan: BatchPlan) -> Int64s:
    """Return the second at which each batch begins: shape (batches,)."""
    first = 0
    if plan.learning_jobs:
        load = plan.load if plan.learning_load is None else plan.learning_load
        first = plan.period(plan.learning_jobs, load)
    return first + np.arange(plan.batches, dtype=np.int64) * plan.period(plan.jobs, plan.load)


def draw_jobs(plan: BatchPlan, *, slack: float, error: float, chance: Chance) -> DispatchJobs:
    """Return jobs in batches, each of which comes within the first part of its batch's time.

    A job is to end at submission + estimate + slack · U(0, 1) · estimate. Its estimate is its length, times
    a lognormal error of mean logarithm 0.

    Parameters
    ----------
    plan
        How many, and how fast.
    slack
        Largest spare time over the estimate (the paper's ⅓).
    error
        Standard deviation of the logarithm of estimate over length; 0 for exact estimates.
    chance
        Where random numbers come from.

    Notes
    -----
    The rule for deadlines is of Vladušič, section 2.2.2. Jobs come within the first third of a batch's time
    there; under a load above 2 the time is made longer, for the machines to become empty before the next.
    """
    submit, batch = [], []
    if plan.learning_jobs:
        load = plan.load if plan.learning_load is None else plan.learning_load
        span = plan.span(plan.learning_jobs, load) * (_STRETCH if plan.learning_load is None else 1.0)
        submit.append(_arrivals(plan.learning_jobs, span, chance))
        batch.append(np.full(plan.learning_jobs, -1, np.int64))
    for number, start in enumerate(batch_starts(plan).tolist()):
        submit.append(start + _arrivals(plan.jobs, plan.span(plan.jobs, plan.load), chance))
        batch.append(np.full(plan.jobs, number, np.int64))
    come = np.concatenate(submit)
    low, high = (max(1, round(part * plan.mean_length)) for part in (_SHORTEST, _LONGEST))
    length = chance.lengths.integers(low, high, len(come), endpoint=True)
    return _with_deadlines(come, length, np.concatenate(batch), None, slack, error, chance)


def _arrivals(count: int, span: float, chance: Chance) -> Int64s:
    return np.sort(chance.arrivals.integers(0, max(1, round(span)), count))


def log_jobs(
    submit: Int64s,
    length: Int64s,
    estimate: Int64s,
    plan: BatchPlan,
    *,
    slack: float,
    error: float,
    chance: Chance,
) -> DispatchJobs:
    """Return a log's jobs: its arrivals, scaled to the plan's load, its lengths and estimates.

    The first `learning_jobs` jobs are to learn from, then every `jobs` jobs are a batch, without a pause
    between them; what is left over at the end stays away, and at most `batches` batches come.

    Parameters
    ----------
    submit, length, estimate
        Shape (n,), int64, in order of submission: seconds of the log's columns; an estimate below 1 is
        unknown.
    plan, slack, error, chance
        As in `draw_jobs`; the plan's mean length and learning load are not used. Where an estimate is
        unknown, it is the length times the error, as for drawn jobs.

    Raises
    ------
    SimulationError
        If the jobs are too few; or if estimates are unknown and there is no error: the broker would be told
        how long these jobs really take.
    """
    count = min(plan.batches, (len(submit) - plan.learning_jobs) // plan.jobs)
    if count < 1:
        raise SimulationError(
            f"{len(submit)} jobs are too few: {plan.learning_jobs} to learn from and a batch of {plan.jobs}"
        )
    kept = slice(0, plan.learning_jobs + count * plan.jobs)
    submit, length = submit[kept] - submit[0], np.maximum(1, length[kept])
    span = length.sum() / (plan.capacity * plan.load)
    submit = np.rint(submit * (span / max(1, submit[-1]))).astype(np.int64)
    batch = np.concatenate([np.full(plan.learning_jobs, -1), np.repeat(np.arange(count), plan.jobs)])
    told = estimate[kept]
    unknown = told < 1
    if unknown.any() and not error:
        raise SimulationError(
            f"{unknown.sum()} of {len(told)} jobs have no requested time, and their run times are not "
            "for the broker to know",
            field="requested_time",
            hint="the cleaning rule missing_walltime, one of the default ones, gives them the log's largest; "
            "or make estimates of their run times with estimate_error=0.5",
        )
    told = np.where(unknown, length, told)
    return _with_deadlines(submit, length, batch.astype(np.int64), told, slack, error, chance)


def _with_deadlines(
    submit: Int64s,
    length: Int64s,
    batch: Int64s,
    estimate: Int64s | None,
    slack: float,
    error: float,
    chance: Chance,
) -> DispatchJobs:
    """Add estimates and deadlines; these go by what is known when the job comes, not by its true length."""
    if not 0 <= error <= _WORST or slack < 0:
        raise SimulationError(f"slack must be 0 or more and error from 0 to {_WORST:g}: {slack}, {error}")
    told = length if estimate is None else estimate
    if error:
        told = np.rint(told * np.exp(error * chance.estimates.standard_normal(len(told))))
    told = np.maximum(1, told).astype(np.int64)
    spare = np.rint(slack * chance.deadlines.random(len(told)) * told).astype(np.int64)
    return DispatchJobs(submit, length.astype(np.int64), told, submit + told + spare, batch)
