"""Metrics of clusters whose nodes are switched off, and the tables of days, jobs, queue lengths and nodes.

Energy is in watt minutes, a node counted once whatever its cores (the paper writes J). It is summed from
whole node-minutes, so it is exact. Only the metrics named `reported` repeat the values of the paper's own
monitor, which takes some idle nodes for computing ones (see `docs/shutdown.md`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gridtune.core.system import Direction, Measure, RenamedMetric
from gridtune.systems.shutdown.simulator.bounds import waste_bounds
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import DayResults
from gridtune.types import BoolArray, FloatArray, IntArray

#: The publication.
_PAPER = (
    "Casagrande, Koslovski, Miers, Pillon and Gonzalez, “Don't hurry be green: scheduling servers shutdown "
    "in grid computing with deep reinforcement learning”, International Journal of Grid and Utility "
    "Computing 13, 2022, doi 10.1504/IJGUC.2022.128303"
)
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


_SECONDS = 60.0
_REPORTED = f"the authors' code of: {_PAPER}"
_WASTE = "P_idle·idle + P_on·switching on + P_off·switching off node-minutes"
_TOTAL = "waste + energy of computing and of sleeping nodes"
_SWITCHES = "nodes switched off + nodes switched on"
_LATE = "started with wait/walltime ≥ τ"
_LATE_ALL = "with wait/walltime ≥ τ; a job that never started waits until the end of the day"


def _measure(
    unit: str,
    direction: Direction,
    over_days: str,
    formula: str,
    source: str = "gridtune",
    column: str | None = None,
    factor: float = 1.0,
) -> _ShutdownMeasure:
    """Return a measure; where days are averaged, the formula is a day's."""
    text = f"mean over days of {formula}" if over_days == "mean" else formula
    return _ShutdownMeasure(unit, direction, text, over_days, column, factor, source=source)


def _measures() -> dict[str, _ShutdownMeasure]:
    waste, cycles = f"{_PAPER}, equation 4", f"{_PAPER}, section 5.1, “on-off cycles per node”"
    stretch, slowdown, delay = (f"{_PAPER}, equation {number}" for number in (2, 9, 10))
    reward, model = f"{_PAPER}, equation 3", f"{_PAPER}, section 3.3"
    energy, switches = partial(_measure, "W·min"), partial(_measure, "switches", "min")
    jobs, ratio, wait = (
        partial(_measure, "jobs"),
        partial(_measure, "1"),
        partial(_measure, "s", "min", "mean"),
    )
    late = "the mean wait − τ·walltime of jobs {}; 0 if none"
    return {
        "energy_waste_total": energy("min", "sum", _WASTE, waste, "energy_waste"),
        "energy_waste_per_day": energy("min", "mean", _WASTE, waste, "energy_waste"),
        "energy_waste_reported": energy(
            "none", "sum", f"{_WASTE}, with idle minutes as the paper's monitor counts them", _REPORTED
        ),
        "waste_bound_starts": energy(
            "none", "mean", "the least waste of any policy with the same job starts"
        ),
        "waste_bound_within_tau": energy(
            "none",
            "mean",
            "the least waste of any policy that starts every job before it has waited τ·walltime, or no "
            "later than it did where that was later",
        ),
        "energy_waste_per_day_bound": energy(
            "none",
            "mean",
            "the least waste of any policy of this system, which cannot let jobs wait while no job holds "
            "cores",
        ),
        "energy_total": energy("min", "sum", _TOTAL, model),
        "energy_total_per_day": energy("min", "mean", _TOTAL, model, "energy_total"),
        "energy_total_reported": energy(
            "none",
            "sum",
            "waste as the paper's monitor reports it + energy of sleeping nodes + "
            "P_computing·busy cores/cores per node",
            _REPORTED,
        ),
        "energy_idle": energy("min", "sum", "P_idle·node-minutes on with no busy core", model),
        "energy_switching_on": energy("min", "sum", "P_on·node-minutes switching on", model),
        "energy_switching_off": energy("min", "sum", "P_off·node-minutes switching off", model),
        "energy_computing": energy(
            "none",
            "sum",
            "P_idle·node-minutes computing + (P_computing − P_idle)·busy share of their cores",
            model,
        ),
        "energy_sleeping": energy("none", "sum", "P_sleeping·node-minutes asleep", model),
        "switches_total": switches("sum", _SWITCHES, cycles, "switches"),
        "switches_per_day": switches("mean", _SWITCHES, cycles, "switches"),
        "switches_on_total": switches("sum", "nodes switched on", cycles, "switches_on"),
        "switches_off_total": switches("sum", "nodes switched off", cycles, "switches_off"),
        "stretch_mean": ratio("min", "mean", "the day's mean wait/walltime of finished jobs", stretch),
        "stretch_max": ratio("min", "max", "largest wait/walltime of a finished job", stretch),
        "stretch_beyond_tau": ratio(
            "min", "mean", "the day's mean max(0, wait/walltime − τ), jobs that never started included"
        ),
        "wait_mean": wait(
            "the day's mean wait of finished jobs",
            f"{_PAPER}, section 5.1, “Slowdown”",
            "wait_minutes",
            _SECONDS,
        ),
        "slowdown_mean": ratio("min", "mean", "the day's mean (wait + run)/run of finished jobs", slowdown),
        "qos_violations": jobs("min", "sum", f"jobs {_LATE}", f"{_PAPER}, equation 5"),
        "qos_delay_mean": wait(late.format(_LATE), delay, "qos_delay_minutes", _SECONDS),
        "qos_violations_all": jobs("min", "sum", f"jobs {_LATE_ALL}"),
        "qos_delay_all_mean": wait(late.format(_LATE_ALL), column="qos_delay_all_minutes", factor=_SECONDS),
        "utilisation": ratio("none", "mean", "busy core-minutes/(cores·minutes)", f"{_PAPER}, table 1"),
        "score": ratio("max", "sum", "sum of the rewards of all minutes and days", reward),
        "score_per_day": ratio("max", "mean", "the sum of rewards", reward, "score"),
        "jobs": jobs("none", "sum", "jobs submitted by the end of the day"),
        "jobs_started": jobs("max", "sum", "jobs started"),
        "jobs_never_started": jobs(
            "min", "sum", "jobs submitted before the end of the day that did not start"
        ),
        "jobs_finished": jobs("max", "sum", "jobs that ended within their day"),
        "jobs_rejected": jobs("none", "sum", "jobs wider than the cluster"),
        "days": _measure("days", "none", "sum", "days simulated"),
    }


#: Every measure of a set of days, by name.
SHUTDOWN_METRICS: Mapping[str, _ShutdownMeasure] = MappingProxyType(_measures())
#: Old names of metrics: means were called `mean_…`, and times were in minutes.
RENAMED_METRICS: Mapping[str, RenamedMetric] = MappingProxyType(
    {
        "mean_stretch": RenamedMetric("stretch_mean"),
        "max_stretch": RenamedMetric("stretch_max"),
        "mean_slowdown": RenamedMetric("slowdown_mean"),
        "mean_wait": RenamedMetric("wait_mean", _SECONDS),
        "mean_qos_delay": RenamedMetric("qos_delay_mean", _SECONDS),
        "mean_qos_delay_all": RenamedMetric("qos_delay_all_mean", _SECONDS),
    }
)


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
    energy = power.energy(
        totals["idle"],
        totals["switching_on"],
        totals["switching_off"],
        totals["sleeping"],
        totals["computing"],
        share,
    )
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
    columns = {name: column for name, column in measures.items() if name != "days"}
    return {
        "days": pa.table({"day": list(days.names), "group": days.group, **columns}),
        "jobs": _jobs(days, results),
    }


def _jobs(days: Days, results: DayResults) -> pa.Table:
    day = days.day_of_job
    gap = np.diff(days.submit, prepend=0)
    run = np.minimum(days.run, days.walltime)
    opens = np.zeros(len(day), bool)
    opens[days.first[:-1][np.diff(days.first) > 0]] = True
    return pa.table(
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
