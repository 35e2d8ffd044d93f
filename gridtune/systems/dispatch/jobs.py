"""The jobs and the machines of a run: drawn in batches, or jobs of a log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.parameters import STRETCH, DispatchParameters
from gridtune.systems.dispatch.simulator.model import Changes, DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.site import FAILURE, REPAIR
from gridtune.types import IntArray
from gridtune.workload.workload import Workload

#: Shortest and longest job over the mean.
_SHORTEST, _LONGEST = 0.2, 1.8


def _failures(
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
    parts = Changes()
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


def make_jobs(
    p: DispatchParameters, streams: Sequence[np.random.Generator], log: Workload | None
) -> DispatchJobs:
    """Return the jobs, drawn or those of a log's part.

    A job's deadline is submission + estimate + slack · U(0, 1) · estimate. Its estimate is its length, or a
    log's requested time, times a lognormal error of mean logarithm 0. Both go by what is known when the job
    comes, not by its true length.

    Parameters
    ----------
    p
        The number of jobs, the load and the machines.
    streams
        Four streams of random numbers: of arrivals, lengths, estimates and deadlines, so that one can change
        without the others.
    log
        The log's part, in order of submission; None to draw jobs.

    Raises
    ------
    SimulationError
        If a log has too few jobs; or if it lacks requested times and there is no error of estimates: the
        broker would know how long these jobs really take.

    Notes
    -----
    The rule for deadlines is of Vladušič, section 2.2.2.
    """
    arrivals, lengths, errors, deadlines = streams
    if log is None:
        submit, length, batch = _drawn(p, arrivals, lengths)
        estimate = length
    else:
        submit, length, batch, estimate = _of_log(p, log)
    if p.estimate_error:
        factor = np.exp(p.estimate_error * errors.standard_normal(len(estimate)))
        estimate = np.rint(estimate * factor)
    estimate = np.maximum(1, estimate).astype(np.int64)
    spare = np.rint(p.slack * deadlines.random(len(estimate)) * estimate).astype(np.int64)
    jobs = DispatchJobs(submit, length, estimate, submit + estimate + spare, batch)
    if p.first is not None:
        jobs = jobs.take(np.arange(len(jobs)) < (batch < 0).sum() + p.first)
    return jobs


def make_machines(p: DispatchParameters, jobs: DispatchJobs, rng: np.random.Generator) -> Machines:
    """Return the machines, with their changes; `rng` draws failures."""
    changes = Changes()
    if p.change_after and p.changed_factors is not None:
        changes += Changes.of_speeds(int(p.batch_starts()[p.change_after]), p.changed_factors)
    if p.mean_up is not None and p.mean_down is not None:
        horizon = int(jobs.submit.max(initial=0))
        changes += _failures(len(p.factors), horizon, p.mean_up, p.mean_down, rng)
    return Machines(np.array(p.factors), np.full(len(p.factors), p.cpus), changes)


def _drawn(
    p: DispatchParameters, arrivals: np.random.Generator, lengths: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Return submission, length and batch of drawn jobs.

    The jobs of a batch arrive within the first part of its time, those to learn from within all of it unless
    a load is given.
    """
    learning = p.span(p.learning_jobs, p.learning_offered_load or p.offered_load)
    parts = [(0, p.learning_jobs, learning if p.learning_offered_load else learning * STRETCH)]
    own = p.span(p.batch_jobs, p.offered_load)
    parts += [(start, p.batch_jobs, own) for start in p.batch_starts().tolist()]
    submit = np.concatenate(
        [start + np.sort(arrivals.integers(0, max(1, round(span)), jobs)) for start, jobs, span in parts]
    )
    batch = np.repeat(np.arange(-1, p.batches), [jobs for _, jobs, _ in parts])
    low, high = (max(1, round(part * p.mean_length)) for part in (_SHORTEST, _LONGEST))
    return submit, lengths.integers(low, high, len(submit), endpoint=True), batch


def _of_log(p: DispatchParameters, log: Workload) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return submission, length, batch and estimate of a log's jobs, the arrivals scaled to the load.

    The first `learning_jobs` jobs are for learning, then every `batch_jobs` jobs are a batch, without a pause
    between them. There are at most `batches` batches; jobs left over at the end are dropped. The estimate is
    the requested time; where it is unknown, the length if estimates have errors.
    """
    count = min(p.batches, (len(log) - p.learning_jobs) // p.batch_jobs)
    if count < 1:
        raise SimulationError(
            f"{len(log)} jobs are too few: {p.learning_jobs} to learn from and a batch of {p.batch_jobs}"
        )
    batch = np.concatenate([np.full(p.learning_jobs, -1), np.repeat(np.arange(count), p.batch_jobs)])
    submit = log.submit_time[: len(batch)] - log.submit_time[0]
    length = np.maximum(1, log.run_time[: len(batch)])
    span = length.sum() / (p.capacity * p.offered_load)
    submit = np.rint(submit * (span / max(1, submit[-1]))).astype(np.int64)
    requested = log.requested_time[: len(batch)]
    unknown = requested < 1
    if unknown.any() and not p.estimate_error:
        raise SimulationError(
            f"{unknown.sum()} of {len(requested)} jobs have no requested time, and the broker must "
            "not know their run times",
            field="requested_time",
            hint="the cleaning rule missing_walltime, one of the default ones, gives them the log's largest; "
            "or make estimates of their run times with estimate_error=0.5",
        )
    return submit, length, batch, np.where(unknown, length, requested)
