"""The metrics of schedules that come with gridtune, registered by `metrics.toml` in its order.

*Jobs.* Means of slowdowns depend on a few short jobs. So every quantity also has its median and its tail, and
there are means in which a job counts by the processor-seconds it uses. Splitting a job into many, or joining
many into one, hardly changes these. So they cannot be improved by favouring many small jobs over a few large
ones, as plain means can.

*The system.* All metrics but the makespan are about the window (see `gridtune.batch.metrics.columns`) and
count every job in it, kept or not.

*Fairness.* Jobs without a user number are left out. Means are first taken over each user's jobs, so that
every user counts once, however many jobs they have.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from gridtune.batch.metrics.columns import JobColumns, Summary, share
from gridtune.batch.metrics.energy import ENERGY
from gridtune.batch.metrics.registry import Metric, MetricFunction, register
from gridtune.types import AnyArray

_DEFINITIONS = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8"))
#: Publications by author and year.
SOURCES: Mapping[str, str] = _DEFINITIONS["sources"]


def _delay_index(jobs: JobColumns) -> float:
    if not len(jobs):
        return math.nan
    slowdown, wait = jobs.bounded_slowdown.mean(), jobs.wait.mean()
    return float(np.cbrt(slowdown * jobs.weighted(jobs.area, jobs.response) * wait))


def _recorded_misfit(jobs: JobColumns) -> float:
    recorded = jobs.kept(jobs.schedule.workload.wait_time)
    stated = recorded >= 0
    if not stated.any():
        return math.nan
    error = jobs.wait[stated] - recorded[stated]
    return share(float(abs(error.sum()) + np.abs(error).sum()), float(recorded[stated].sum()))


_JOBS: Mapping[str, MetricFunction] = {
    "jobs": lambda jobs: float(len(jobs)),
    "jobs_without_run_time": lambda jobs: float(np.count_nonzero(jobs.run <= 0)),
    "jobs_without_walltime": lambda jobs: float(np.count_nonzero(jobs.requested <= 0)),
    "killed_jobs": lambda jobs: float(np.count_nonzero(jobs.killed)) if len(jobs) else math.nan,
    "killed_fraction": lambda jobs: share(float(np.count_nonzero(jobs.killed)), len(jobs)),
    "killed_work_fraction": lambda jobs: share(float(jobs.area[jobs.killed].sum()), float(jobs.area.sum())),
    "area_weighted_response": lambda jobs: jobs.weighted(jobs.area, jobs.response),
    "area_weighted_slowdown": lambda jobs: jobs.weighted(
        np.where(jobs.run > 0, jobs.processors, 0), jobs.response
    ),
    "area_weighted_bounded_slowdown": lambda jobs: jobs.weighted(jobs.area, jobs.bounded_slowdown),
    "delay_index": _delay_index,
    "recorded_misfit": _recorded_misfit,
}


def _throughput(jobs: JobColumns) -> float:
    opens, closes = jobs.window
    ended = np.count_nonzero((jobs.all_end >= opens) & (jobs.all_end <= closes))
    return share(ended * 3600.0, closes - opens)


def _backlog_mean(jobs: JobColumns) -> float:
    opens, closes = jobs.window
    # In floating point, as processor-seconds times seconds may overflow int64.
    work = float(np.multiply(jobs.all_area, jobs.waited_within(jobs.window), dtype=np.float64).sum())
    return share(work, jobs.schedule.processors * (closes - opens))


def _backlog_end(jobs: JobColumns) -> float:
    if not len(jobs):
        return math.nan
    last = jobs.submit[-1]
    waits = (jobs.all_submit <= last) & (jobs.all_start > last)
    return float(jobs.all_area[waits].sum()) / jobs.schedule.processors


_SYSTEM: Mapping[str, MetricFunction] = {
    "makespan": lambda jobs: float(jobs.end.max() - jobs.submit[0]) if len(jobs) else math.nan,
    "utilisation": lambda jobs: jobs.busy_share(jobs.window),
    "utilisation_while_arriving": lambda jobs: (
        jobs.busy_share((int(jobs.submit[0]), int(jobs.submit[-1]))) if len(jobs) else math.nan
    ),
    "throughput": _throughput,
    "queue_length_mean": lambda jobs: share(
        int(jobs.waited_within(jobs.window).sum()), jobs.window[1] - jobs.window[0]
    ),
    "queue_length_max": lambda jobs: jobs.most_waiting[0],
    "backlog_mean": _backlog_mean,
    "backlog_max": lambda jobs: jobs.most_waiting[1] / jobs.schedule.processors,
    "backlog_end": _backlog_end,
}


def _statistics(
    values: Callable[[JobColumns], AnyArray], **statistics: Callable[[AnyArray], Any]
) -> dict[str, MetricFunction]:
    """Return metrics that are statistics of some values; NaN where there are none."""

    def metric_of(statistic: Callable[[AnyArray], Any]) -> MetricFunction:
        def function(jobs: JobColumns) -> float:
            numbers = values(jobs)
            return float(statistic(numbers)) if len(numbers) else math.nan

        return function

    return {name: metric_of(statistic) for name, statistic in statistics.items()}


_FAIRNESS: Mapping[str, MetricFunction] = {
    "users": lambda jobs: float(len(jobs.user_means[0])),
    **_statistics(lambda jobs: jobs.user_means[0], user_wait_mean=np.mean, user_wait_max=np.max),
    **_statistics(
        lambda jobs: jobs.user_means[1],
        user_bounded_slowdown_mean=np.mean,
        user_bounded_slowdown_max=np.max,
        user_bounded_slowdown_std=np.std,
        user_bounded_slowdown_jain=lambda values: values.sum() ** 2 / (len(values) * (values**2).sum()),
    ),
    **_statistics(
        lambda jobs: jobs.overtaken_time,
        overtaken_fraction=lambda values: np.count_nonzero(values) / len(values),
        overtaken_time_mean=np.mean,
        overtaken_time_max=np.max,
    ),
}


def _summarised(quantity: str, statistic: str) -> MetricFunction:
    def function(jobs: JobColumns) -> float:
        value: float = getattr(jobs.summary(quantity), statistic)
        return value

    return function


def _register_all() -> None:
    functions = {**_JOBS, **_SYSTEM, **_FAIRNESS, **ENERGY}
    definitions: dict[str, Mapping[str, Any]] = {}
    for quantity, entry in _DEFINITIONS["quantities"].items():
        for statistic in (field.name for field in fields(Summary)):
            name, formula = f"{quantity}_{statistic}", f"{statistic} over i of {entry['formula']}"
            functions[name] = _summarised(quantity, statistic)
            definitions[name] = {**entry, "formula": formula, "direction": "min", "family": "Jobs"}
    definitions |= _DEFINITIONS["metrics"]
    for name, entry in definitions.items():
        source, needs_nodes = entry["source"].format_map(SOURCES), entry["family"] == "Energy"
        described = {**entry, "source": source, "needs_nodes": needs_nodes}
        register(Metric(name=name, function=functions[name], **described))


_register_all()
