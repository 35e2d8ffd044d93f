"""The jobs and the machines of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridtune.systems.dispatch.parameters import DispatchParameters
from gridtune.systems.dispatch.simulator.generating import (
    BatchPlan,
    JobStreams,
    batch_starts,
    draw_jobs,
    log_jobs,
)
from gridtune.systems.dispatch.simulator.model import (
    Changes,
    DispatchJobs,
    Machines,
    failures,
    no_changes,
    speed_changes,
)
from gridtune.workload.cleaning import clean
from gridtune.workload.workload import Workload

__all__ = ["log_part", "make_jobs", "make_machines"]


def log_part(p: DispatchParameters, log: Workload) -> Workload:
    """Return the part of a log that is run, in order of submission."""
    workload, _ = clean(log, ("sort_submits",))
    if p.window is None:
        return workload
    number, count = map(int, p.window.split("/"))
    return workload.windows(count)[number - 1]


def make_jobs(
    p: DispatchParameters, streams: list[np.random.Generator], log: Workload | None
) -> DispatchJobs:
    """Return the jobs, drawn or those of a log's part; `streams` are four, see `JobStreams`."""
    plan = _plan(p)
    options: dict[str, Any] = {"slack": p.slack, "error": p.estimate_error, "streams": JobStreams(*streams)}
    if log is None:
        jobs = draw_jobs(plan, **options)
    else:
        jobs = log_jobs(log.submit_time, log.run_time, log.requested_time, plan, user=log.user, **options)
    if p.first is not None:
        jobs = jobs.take(np.arange(len(jobs)) < (jobs.batch < 0).sum() + p.first)
    return jobs


def _plan(p: DispatchParameters) -> BatchPlan:
    capacity = sum(p.cpus / factor for factor in p.factors)
    return BatchPlan(
        p.batches,
        p.batch_jobs,
        p.learning_jobs,
        p.offered_load,
        p.learning_offered_load,
        p.mean_length,
        capacity,
    )


def make_machines(p: DispatchParameters, jobs: DispatchJobs, rng: np.random.Generator) -> Machines:
    """Return the machines, with their changes; `rng` draws failures."""
    changes: Changes = no_changes()
    if p.change_after and p.changed_factors is not None:
        changes += speed_changes(int(batch_starts(_plan(p))[p.change_after]), p.changed_factors)
    if p.mean_up is not None and p.mean_down is not None:
        horizon = int(jobs.submit.max(initial=0))
        changes += failures(len(p.factors), horizon, p.mean_up, p.mean_down, rng)
    return Machines(np.array(p.factors), np.full(len(p.factors), p.cpus), changes)
