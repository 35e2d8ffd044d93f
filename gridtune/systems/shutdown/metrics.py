"""Metrics of clusters whose nodes are switched off, and the tables of days, jobs, queue lengths and nodes.

Energy is in watt minutes, a node counted once whatever its cores (the paper writes J). It is summed from
whole node-minutes, so it is exact. Only the metrics named `reported` repeat the values of the paper's own
monitor, which takes some idle nodes for computing ones (see `docs/shutdown.md`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gridtune.core.measures import Measure, read_metrics
from gridtune.systems.shutdown.simulator.bounds import waste_bounds
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import DayResults
from gridtune.types import BoolArray, FloatArray, IntArray

Columns = dict[str, FloatArray | IntArray]


@dataclass(frozen=True)
class _ShutdownMeasure(Measure):
    """A measure of a set of days.

    Attributes
    ----------
    over_days
        How the days' values are combined: `sum`, `mean` (over the days that have a value) or `max`.
    column
        The day's measure that is combined; by default the one of the same name.
    factor
        What the combined value is multiplied by: 60 turns minutes into seconds.
    """

    over_days: str
    column: str | None = None
    factor: float = 1.0


#: Every measure of a set of days, by name.
SHUTDOWN_METRICS = read_metrics(__file__, _ShutdownMeasure)


def measure_days(days: Days, results: DayResults, platform: Platform, *, tau: float = 0.5) -> Columns:
    """Return each day's measures: name to an array of shape (days,), times in minutes.

    Parameters
    ----------
    days, results
        The days, and the result of simulating them (`gridtune.systems.shutdown.simulator.replay.replay`).
    platform
        The cluster.
    tau
        Share of its walltime from which on a wait counts as a violation.
    """
    return {
        **_energies(results, platform),
        **waste_bounds(days, results, platform, tau),
        "switches": results.totals["switched_on"] + results.totals["switched_off"],
        "switches_on": results.totals["switched_on"],
        "switches_off": results.totals["switched_off"],
        **_waits(days, results, platform, tau),
        "utilisation": results.totals["core_minutes"] / (platform.cores * np.maximum(results.minutes, 1)),
        "score": results.score,
        "days": np.ones(len(days), np.int64),
    }


def combine_days(measures: Columns) -> dict[str, float]:
    """Return the metrics of all days together; NaN where no day has a value."""
    metrics = {}
    for name, measure in SHUTDOWN_METRICS.items():
        column = measures[measure.column or name]
        values = column[~np.isnan(column)] if column.dtype.kind == "f" else column
        if len(values) == 0:
            metrics[name] = np.nan if measure.over_days != "sum" else 0.0
        else:
            metrics[name] = float(getattr(values, measure.over_days)()) * measure.factor
    return metrics


def _energies(results: DayResults, platform: Platform) -> Columns:
    power = platform.power
    totals = results.totals
    share = totals["core_minutes"] / platform.cores_per_node
    states = ("idle", "switching_on", "switching_off", "sleeping", "computing")
    energy = power.energy(**{state: totals[state] for state in states}, busy=share)
    switching = energy["switching_on"] + energy["switching_off"]
    waste = energy["idle"] + switching
    reported = power.idle * totals["reported_idle"] + switching
    return {
        **{f"energy_{state}": spent for state, spent in energy.items()},
        "energy_waste": waste,
        "energy_waste_reported": reported,
        "energy_total": waste + energy["computing"] + energy["sleeping"],
        "energy_total_reported": reported + energy["sleeping"] + power.computing * share,
    }


def _waits(days: Days, results: DayResults, platform: Platform, tau: float) -> Columns:
    day, count = days.day_of_job, len(days)
    horizon = results.minutes[day]
    submitted = days.submit <= horizon
    fits = days.cores <= platform.cores
    run = np.minimum(days.run, days.walltime)
    started = results.start >= 0
    finished = started & (results.start + run <= horizon)
    wait = np.where(started, results.start, horizon) - days.submit
    stretch = wait / days.walltime
    # A job submitted with the day's last event never takes part.
    waiting = ~started & fits & (days.submit < horizon)
    late, late_all = started & (stretch >= tau), (started | waiting) & (stretch >= tau)
    excess = wait - tau * days.walltime

    def counted(jobs: BoolArray) -> IntArray:
        return np.bincount(day[jobs], minlength=count).astype(np.int64)

    def mean(values: FloatArray, jobs: BoolArray, empty: float = np.nan) -> FloatArray:
        sums, number = np.bincount(day[jobs], values[jobs], count), counted(jobs)
        return np.where(number > 0, sums / np.maximum(number, 1), empty)

    largest = np.full(count, -np.inf)
    np.maximum.at(largest, day[finished], stretch[finished])
    return {
        "stretch_mean": mean(stretch, finished),
        "stretch_max": np.where(np.isfinite(largest), largest, np.nan),
        "stretch_beyond_tau": mean(np.maximum(stretch - tau, 0), started | waiting),
        "wait_minutes": mean(wait.astype(np.float64), finished),
        "slowdown_mean": mean((wait + run) / run, finished),
        "qos_violations": counted(late),
        "qos_delay_minutes": mean(excess, late, 0.0),
        "qos_violations_all": counted(late_all),
        "qos_delay_all_minutes": mean(excess, late_all, 0.0),
        "jobs": counted(submitted),
        "jobs_started": counted(started),
        "jobs_never_started": counted(waiting),
        "jobs_finished": counted(finished),
        "jobs_rejected": counted(submitted & ~fits),
    }


def day_tables(
    days: Days, measures: Mapping[str, npt.NDArray[Any]], results: DayResults
) -> dict[str, pa.Table]:
    """Return tables by name; times in minutes.

    Returns
    -------
    dict
        `days`: the measures of each day. `jobs`: of each job its day, submission, start (null: never), time
        since the previous submission of that day, cores, walltime, run time and slowdown.
    """
    day = days.day_of_job
    gap = np.diff(days.submit, prepend=0)
    run = np.minimum(days.run, days.walltime)
    opens = np.zeros(len(day), bool)
    opens[days.first[:-1][np.diff(days.first) > 0]] = True
    jobs = pa.table(
        {
            "day": day,
            "job_id": days.job_id,
            "submit": days.submit,
            "start": pa.array(results.start, mask=results.start < 0),
            "gap": pa.array(gap, mask=opens),
            "cores": days.cores,
            "walltime": days.walltime,
            "run": run,
            "slowdown": pa.array((results.start - days.submit + run) / run, mask=results.start < 0),
        }
    )
    columns = {name: column for name, column in measures.items() if name != "days"}
    return {"days": pa.table({"day": list(days.names), "group": days.group, **columns}), "jobs": jobs}
