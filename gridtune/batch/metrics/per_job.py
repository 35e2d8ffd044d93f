"""Metrics of jobs: wait, response, slowdowns and stretch, each with its mean and its tail.

Means of slowdowns depend on a few short jobs. So every quantity also has its median and its tail, and there
are means in which a job counts by the processor-seconds it uses. Splitting a job into many, or joining many
into one, hardly changes these. So they cannot be improved by favouring many small jobs over a few large ones,
as plain means can.
"""

from __future__ import annotations

import math
from dataclasses import fields
from functools import partial

import numpy as np

from gridtune.batch.metrics.columns import TAU, JobColumns, Summary, share
from gridtune.batch.metrics.registry import (
    FEITELSON_1997,
    FEITELSON_1998,
    FEITELSON_2001,
    KRALLMANN_1999,
    SHUTDOWN_2022,
    STREIT_2004,
    ZOTKIN_1999,
    MetricFunction,
    metric,
)
from gridtune.types import FloatArray, IntArray

__all__ = []

_count = partial(metric, family="Counts", unit="jobs", direction="none")
_killed = partial(metric, family="Killed jobs", direction="min")


#: The columns of `JobColumns` that six metrics summarise, `name_mean` and so on; less is better for all. Each
#: with its unit, the formula for one job, source and description.
_QUANTITIES = (
    ("wait", "s", "wᵢ = sᵢ − qᵢ", FEITELSON_1998, "Time between submission and start."),
    (
        "response",
        "s",
        "wᵢ + rᵢ = eᵢ − qᵢ",
        FEITELSON_1998,
        "Time between submission and end (also called turnaround or flow time).",
    ),
    (
        "slowdown",
        "1",
        "(wᵢ + rᵢ) / rᵢ",
        FEITELSON_1998,
        "Response over run time. Jobs without run time have none and are left out; "
        "`jobs_without_run_time` counts them. Very short jobs dominate it.",
    ),
    (
        "bounded_slowdown",
        "1",
        f"max(1, (wᵢ + rᵢ) / max(rᵢ, τ)), τ = {TAU} s",
        FEITELSON_1997,
        "Slowdown in which a job shorter than τ counts as if it ran for τ, and none counts below 1.",
    ),
    (
        "processor_slowdown",
        "1",
        "(wᵢ + rᵢ) / (pᵢ rᵢ)",
        ZOTKIN_1999,
        "Slowdown over processors: a job that would have run for long on one processor is given "
        "more patience. Jobs without run time are left out.",
    ),
    (
        "processor_bounded_slowdown",
        "1",
        f"max(1, (wᵢ + rᵢ) / (pᵢ max(rᵢ, τ))), τ = {TAU} s",
        f"{ZOTKIN_1999}; {FEITELSON_2001}",
        "Bounded slowdown over processors, not below 1.",
    ),
    (
        "stretch",
        "1",
        "wᵢ / uᵢ",
        SHUTDOWN_2022,
        "Wait over the walltime that the user requested, whatever estimate the scheduler got, so "
        "that treatments of walltimes are compared by the same measure. Jobs without one are left "
        "out; `jobs_without_walltime` counts them. (Elsewhere “stretch” often means slowdown.)",
    ),
)


def _summarised(quantity: str, statistic: str, description: str) -> MetricFunction:
    def function(jobs: JobColumns) -> float:
        value: float = getattr(jobs.summary(quantity), statistic)
        return value

    function.__name__, function.__doc__ = f"{quantity}_{statistic}", description
    return function


for _name, _unit, _formula, _source, _description in _QUANTITIES:
    for _statistic in (field.name for field in fields(Summary)):
        metric(
            f"{_name}_{_statistic}",
            unit=_unit,
            direction="min",
            formula=f"{_statistic} over i of {_formula}",
            source=_source,
            family="Jobs",
        )(_summarised(_name, _statistic, _description))


@_count("jobs", formula="n", source=FEITELSON_1998)
def _jobs_kept(jobs: JobColumns) -> float:
    """Jobs that warm-up and cool-down leave; the metrics of jobs are about these."""
    return float(len(jobs))


@_count("jobs_without_run_time", formula="#{i : rᵢ = 0}", source=FEITELSON_1998)
def _jobs_without_run_time(jobs: JobColumns) -> float:
    """Jobs with a run time of 0, which are left out of the plain slowdowns."""
    return float(np.count_nonzero(jobs.run <= 0))


@_count("jobs_without_walltime", formula="#{i : uᵢ unknown or 0}", source=SHUTDOWN_2022)
def _jobs_without_walltime(jobs: JobColumns) -> float:
    """Jobs without a requested walltime, which are left out of the stretch."""
    return float(np.count_nonzero(jobs.requested <= 0))


@_killed("killed_jobs", unit="jobs", formula="#{i : i killed}", source=FEITELSON_1998)
def _killed_jobs(jobs: JobColumns) -> float:
    """Jobs that are killed at their walltime. They shorten the queue without having finished."""
    return float(np.count_nonzero(jobs.killed)) if len(jobs) else float("nan")


@_killed("killed_fraction", unit="1", formula="#{i : i killed} / n", source=FEITELSON_1998)
def _killed_fraction(jobs: JobColumns) -> float:
    """Share of the jobs that were killed at their walltime."""
    return share(float(np.count_nonzero(jobs.killed)), len(jobs))


@_killed("killed_work_fraction", unit="1", formula="Σ{aᵢ : i killed} / Σ aᵢ", source=FEITELSON_1998)
def _killed_work_fraction(jobs: JobColumns) -> float:
    """Share of the used processor-seconds that went to jobs which were killed."""
    return share(float(jobs.area[jobs.killed].sum()), float(jobs.area.sum()))


_weighted_metric = partial(metric, family="Weighted by area", direction="min")


def _weighted(jobs: JobColumns, weights: IntArray, values: IntArray | FloatArray) -> float:
    # In floating point, as the products of long runs on large machines leave int64; and not as a dot
    # product, whose last bits depend on how many threads the linear algebra library may use.
    return share(float(np.multiply(weights, values, dtype=np.float64).sum()), float(jobs.area.sum()))


@_weighted_metric(
    "area_weighted_response",
    unit="s",
    formula="Σ aᵢ (wᵢ + rᵢ) / Σ aᵢ",
    source=KRALLMANN_1999,
)
def _area_weighted_response(jobs: JobColumns) -> float:
    """Mean response in which a job counts by its processor-seconds; NaN if none used any."""
    return _weighted(jobs, jobs.area, jobs.response)


@_weighted_metric(
    "area_weighted_slowdown",
    unit="1",
    formula="Σ aᵢ (wᵢ + rᵢ) / rᵢ / Σ aᵢ = Σ pᵢ (wᵢ + rᵢ) / Σ aᵢ",
    source=STREIT_2004,
)
def _area_weighted_slowdown(jobs: JobColumns) -> float:
    """Mean slowdown in which a job counts by its processor-seconds; jobs without run time weigh nothing."""
    return _weighted(jobs, np.where(jobs.run > 0, jobs.processors, 0), jobs.response)


@_weighted_metric(
    "area_weighted_bounded_slowdown",
    unit="1",
    formula=f"Σ aᵢ max(1, (wᵢ + rᵢ) / max(rᵢ, τ)) / Σ aᵢ, τ = {TAU} s",
    source=STREIT_2004,
)
def _area_weighted_bounded_slowdown(jobs: JobColumns) -> float:
    """Mean bounded slowdown in which a job counts by its processor-seconds."""
    return _weighted(jobs, jobs.area, jobs.bounded_slowdown)


@metric(
    "delay_index",
    unit="s^(2/3)",
    direction="min",
    family="Several at once",
    formula="∛(bounded_slowdown_mean · area_weighted_response · wait_mean)",
    source="gridtune, 2026",
)
def _delay_index(jobs: JobColumns) -> float:
    """Geometric mean of slowdown, area-weighted response and mean wait.

    An order that lowers one of them by a tenth and raises another by as much leaves it nearly as it is. It is
    to compare policies on one log; the number by itself says nothing.
    """
    if not len(jobs):
        return math.nan
    slowdown, wait = jobs.bounded_slowdown.mean(), jobs.wait.mean()
    return float(np.cbrt(slowdown * _area_weighted_response(jobs) * wait))


@metric(
    "recorded_misfit",
    unit="1",
    direction="min",
    family="Against the record",
    formula="(|Σ (wᵢ − oᵢ)| + Σ |wᵢ − oᵢ|) / Σ oᵢ; oᵢ: the recorded wait",
    source="gridtune, 2026",
)
def _recorded_misfit(jobs: JobColumns) -> float:
    """Errors of single waits and of their mean, against those that the log records; NaN where it has none."""
    recorded = jobs.kept(jobs.schedule.workload.wait_time)
    stated = recorded >= 0
    if not stated.any():
        return math.nan
    error = jobs.wait[stated] - recorded[stated]
    return share(float(abs(error.sum()) + np.abs(error).sum()), float(recorded[stated].sum()))
