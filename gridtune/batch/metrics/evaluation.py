"""`evaluate`: the metrics of a schedule."""

from __future__ import annotations

from collections.abc import Iterable

from gridtune.arguments import require
from gridtune.batch.metrics.columns import JobColumns
from gridtune.batch.metrics.registry import METRICS, get_metric
from gridtune.core.schedule import Schedule
from gridtune.errors import MetricError

__all__ = ["evaluate"]


def evaluate(
    schedule: Schedule,
    *,
    warmup: float = 0.0,
    cooldown: float = 0.0,
    only: Iterable[str] | None = None,
) -> dict[str, float]:
    """Return the metrics of a schedule, by name.

    Parameters
    ----------
    schedule
        The result of a simulation.
    warmup, cooldown
        How many jobs to leave out at the beginning and at the end, in order of submission: a `float` in
        [0, 1) is a fraction of all jobs, rounded down; an `int` is a number of jobs. Metrics of jobs are
        about the other jobs, metrics of the system about the time window they span (see `JobColumns`).
    only
        Names of the metrics to compute; by default all there are, those of installed packages included, but
        those of energy only if the schedule's nodes have power states.

    Returns
    -------
    dict
        Metric name to value, in the order of `only` or of registration. Not rounded. NaN where a metric
        is not defined: for no jobs, an empty window, no user number. The metrics "jobs",
        "jobs_without_run_time", "jobs_without_walltime" and "users" are the counts behind the others.

    Raises
    ------
    MetricError
        For an unknown metric, a warm-up or cool-down that is neither a fraction nor a number of jobs, or two
        fractions that leave out every job.

    Examples
    --------
    ``evaluate(schedule, warmup=0.1, cooldown=0.1, only=["wait_mean", "bounded_slowdown_p95"])``
    """
    require(schedule, Schedule, "schedule", error=MetricError, hint="simulate(workload) makes one")
    jobs = JobColumns.trimmed(schedule, warmup, cooldown)
    selected = [entry for entry in METRICS.values() if schedule.nodes is not None or not entry.needs_nodes]
    if only is not None:
        selected = [get_metric(name) for name in only]
    return {metric.name: float(metric.function(jobs)) for metric in selected}
