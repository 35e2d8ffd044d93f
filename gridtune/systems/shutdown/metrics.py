"""Measures of clusters whose nodes are switched off: energy by node state, switches, and what jobs suffer.

Energy is in watt minutes, a node counted once whatever its cores (the paper writes J). It is summed from
whole node-minutes, so nothing is lost on the way; only the figures named `reported` repeat what the paper's
own monitor reports, which takes some idle nodes for computing ones (see `docs/shutdown.md`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gridtune.core.measure import Measure

if TYPE_CHECKING:
    from gridtune.systems.shutdown.simulator.days import Days
    from gridtune.systems.shutdown.simulator.outcome import Outcome
    from gridtune.systems.shutdown.simulator.platform import Platform

__all__ = ["SHUTDOWN_METRICS", "ShutdownMeasure", "measure_days", "sum_up"]

Floats = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[np.float64] | npt.NDArray[np.int64]]


@dataclass(frozen=True)
class ShutdownMeasure(Measure):
    """A measure of a set of days.

    Attributes
    ----------
    over_days
        How the days' values become one: `sum`, `mean` (of the days that have one), `max`.
    of
        The day's measure it is made of, where that is called otherwise.
    """

    over_days: str
    of: str | None = None


def _table() -> dict[str, ShutdownMeasure]:
    energy, switch, minute = "W·min", "switches", "min"
    waste = "P_idle·idle + P_on·switching on + P_off·switching off node-minutes"
    return {
        "energy_waste_total": ShutdownMeasure(energy, "min", waste, "sum", "energy_waste"),
        "energy_waste_per_day": ShutdownMeasure(
            energy, "min", f"mean over days of {waste}", "mean", "energy_waste"
        ),
        "energy_waste_reported": ShutdownMeasure(
            energy, "none", f"{waste}, with idle minutes as the paper's monitor counts them", "sum"
        ),
        "waste_bound_starts": ShutdownMeasure(
            energy,
            "none",
            "mean over days of the least that any waste can be with the starts that jobs had",
            "mean",
        ),
        "waste_bound_within_tau": ShutdownMeasure(
            energy,
            "none",
            "mean over days of the least that any waste can be if every job starts before it has waited "
            "τ·walltime, or no later than it did where that was later",
            "mean",
        ),
        "energy_total": ShutdownMeasure(
            energy, "min", "waste + energy of computing and of sleeping nodes", "sum"
        ),
        "energy_total_reported": ShutdownMeasure(
            energy,
            "none",
            "waste as the paper's monitor reports it + energy of sleeping nodes + "
            "P_computing·busy cores/cores per node",
            "sum",
        ),
        "energy_idle": ShutdownMeasure(energy, "min", "P_idle·node-minutes on with no busy core", "sum"),
        "energy_switching_on": ShutdownMeasure(energy, "min", "P_on·node-minutes switching on", "sum"),
        "energy_switching_off": ShutdownMeasure(energy, "min", "P_off·node-minutes switching off", "sum"),
        "energy_computing": ShutdownMeasure(
            energy,
            "none",
            "P_idle·node-minutes computing + (P_computing − P_idle)·busy share of their cores",
            "sum",
        ),
        "energy_sleeping": ShutdownMeasure(energy, "none", "P_sleeping·node-minutes asleep", "sum"),
        "switches_total": ShutdownMeasure(
            switch, "min", "nodes switched off + nodes switched on", "sum", "switches"
        ),
        "switches_per_day": ShutdownMeasure(
            switch, "min", "mean over days of nodes switched off + nodes switched on", "mean", "switches"
        ),
        "switches_on_total": ShutdownMeasure(switch, "min", "nodes switched on", "sum", "switches_on"),
        "switches_off_total": ShutdownMeasure(switch, "min", "nodes switched off", "sum", "switches_off"),
        "node_wear_max": ShutdownMeasure(
            switch, "min", "most switches of one node in a day", "max", "wear_max"
        ),
        "node_wear_mean": ShutdownMeasure(switch, "min", "switches per node and day", "mean", "wear_mean"),
        "mean_stretch": ShutdownMeasure(
            "1", "min", "mean over days of the day's mean wait/walltime of finished jobs", "mean"
        ),
        "max_stretch": ShutdownMeasure("1", "min", "largest wait/walltime of a finished job", "max"),
        "stretch_beyond_tau": ShutdownMeasure(
            "1",
            "min",
            "mean over days of the day's mean max(0, wait/walltime − τ), of jobs that never started too",
            "mean",
        ),
        "mean_wait": ShutdownMeasure(minute, "min", "mean over days of the day's mean wait", "mean"),
        "mean_slowdown": ShutdownMeasure(
            "1", "min", "mean over days of the day's mean (wait + run)/run of finished jobs", "mean"
        ),
        "qos_violations": ShutdownMeasure("jobs", "min", "jobs started with wait/walltime ≥ τ", "sum"),
        "mean_qos_delay": ShutdownMeasure(
            minute,
            "min",
            "mean over days of the mean wait − τ·walltime of jobs started with wait/walltime ≥ τ, 0 if none",
            "mean",
        ),
        "qos_violations_all": ShutdownMeasure(
            "jobs",
            "min",
            "jobs with wait/walltime ≥ τ, also those that never started, as if they did at the day's end",
            "sum",
        ),
        "mean_qos_delay_all": ShutdownMeasure(
            minute,
            "min",
            "mean over days of the mean wait − τ·walltime of jobs with wait/walltime ≥ τ, also of those that "
            "never started, as if they did at the day's end; 0 if none",
            "mean",
        ),
        "utilisation": ShutdownMeasure("1", "none", "busy core-minutes/(cores·minutes)", "mean"),
        "score": ShutdownMeasure("1", "max", "sum of the rewards of all minutes and days", "sum"),
        "score_per_day": ShutdownMeasure("1", "max", "mean over days of the sum of rewards", "mean", "score"),
        "jobs": ShutdownMeasure("jobs", "none", "jobs submitted before the day's end, or at it", "sum"),
        "jobs_started": ShutdownMeasure("jobs", "max", "jobs started", "sum"),
        "jobs_finished": ShutdownMeasure("jobs", "max", "jobs ended within their day", "sum"),
        "jobs_rejected": ShutdownMeasure("jobs", "none", "jobs wider than the cluster", "sum"),
        "days": ShutdownMeasure("days", "none", "days lived through", "sum"),
    }


#: Every measure of a set of days, by name.
SHUTDOWN_METRICS: Mapping[str, ShutdownMeasure] = MappingProxyType(_table())


def measure_days(days: Days, outcome: Outcome, platform: Platform, *, tau: float = 0.5) -> Columns:
    """Return each day's measures: name to an array of shape (days,).

    Parameters
    ----------
    days, outcome
        What was lived through, and what it came to (`gridtune.systems.shutdown.simulator.replay.replay`).
    platform
        The cluster.
    tau
        Share of its walltime from which on a wait counts as a violation.
    """
    from gridtune.systems.shutdown.simulator.bounds import (  # noqa: PLC0415
        least_waste_of_starts,
        least_waste_within,
    )

    return {
        **_energies(outcome, platform),
        "waste_bound_starts": least_waste_of_starts(days, outcome, platform),
        "waste_bound_within_tau": least_waste_within(days, outcome, platform, tau),
        **_switches(outcome, platform),
        **_waits(days, outcome, platform, tau),
        "utilisation": outcome.totals[:, 6] / (platform.cores * np.maximum(outcome.minutes, 1)),
        "score": outcome.score,
        "days": np.ones(len(days), np.int64),
    }


def sum_up(measures: Columns) -> dict[str, float]:
    """Return the measures of all days together; NaN where no day has one."""
    summed = {}
    for name, metric in SHUTDOWN_METRICS.items():
        column = measures[metric.of or name]
        known = column[~np.isnan(column)] if column.dtype.kind == "f" else column
        if len(known) == 0:
            summed[name] = np.nan if metric.over_days != "sum" else 0.0
        else:
            summed[name] = float(getattr(known, metric.over_days)())
    return summed


def _energies(outcome: Outcome, platform: Platform) -> Columns:
    power = platform.power
    idle, switching_on, sleeping, switching_off, computing, reported_idle, busy = outcome.totals.T[:7]
    share = busy / platform.cores_per_node
    columns = {
        "energy_idle": power.idle * idle,
        "energy_switching_on": power.switching_on * switching_on,
        "energy_switching_off": power.switching_off * switching_off,
        "energy_computing": power.idle * computing + (power.computing - power.idle) * share,
        "energy_sleeping": power.off * sleeping,
    }
    switching = columns["energy_switching_on"] + columns["energy_switching_off"]
    waste = columns["energy_idle"] + switching
    reported = power.idle * reported_idle + switching
    return {
        **columns,
        "energy_waste": waste,
        "energy_waste_reported": reported,
        "energy_total": waste + columns["energy_computing"] + columns["energy_sleeping"],
        "energy_total_reported": reported + columns["energy_sleeping"] + power.computing * share,
    }


def _switches(outcome: Outcome, platform: Platform) -> Columns:
    by_node = outcome.switched_on + outcome.switched_off
    return {
        "switches": outcome.totals[:, 7] + outcome.totals[:, 8],
        "switches_on": outcome.totals[:, 7],
        "switches_off": outcome.totals[:, 8],
        "wear_max": by_node.max(axis=1),
        "wear_mean": by_node.sum(axis=1) / platform.nodes,
    }


def _waits(days: Days, outcome: Outcome, platform: Platform, tau: float) -> Columns:
    day, count = days.day_of_job, len(days)
    horizon = outcome.minutes[day]
    known = days.submit <= horizon
    fits = days.cores <= platform.cores
    run = np.minimum(days.run, days.walltime)
    started = outcome.start >= 0
    finished = started & (outcome.start + run <= horizon)
    wait = np.where(started, outcome.start, horizon) - days.submit
    stretch = wait / days.walltime
    # Whoever is submitted with the day's last event never takes part.
    waiting = ~started & fits & (days.submit < horizon)
    late, late_all = started & (stretch >= tau), (started | waiting) & (stretch >= tau)
    excess = wait - tau * days.walltime

    def counted(chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        return np.bincount(day[chosen], minlength=count).astype(np.int64)

    def mean(values: Floats, chosen: npt.NDArray[np.bool_], empty: float = np.nan) -> Floats:
        sums, jobs = np.bincount(day[chosen], values[chosen], count), counted(chosen)
        return np.where(jobs > 0, sums / np.maximum(jobs, 1), empty)

    largest = np.full(count, -np.inf)
    np.maximum.at(largest, day[finished], stretch[finished])
    return {
        "mean_stretch": mean(stretch, finished),
        "max_stretch": np.where(np.isfinite(largest), largest, np.nan),
        "stretch_beyond_tau": mean(np.maximum(stretch - tau, 0), started | waiting),
        "mean_wait": mean(wait.astype(np.float64), finished),
        "mean_slowdown": mean((wait + run) / run, finished),
        "qos_violations": counted(late),
        "mean_qos_delay": mean(excess, late, 0.0),
        "qos_violations_all": counted(late_all),
        "mean_qos_delay_all": mean(excess, late_all, 0.0),
        "jobs": counted(known),
        "jobs_started": counted(started),
        "jobs_finished": counted(finished),
        "jobs_rejected": counted(known & ~fits),
    }
