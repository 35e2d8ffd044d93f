"""Lower bounds, and metrics of energy of schedules whose nodes have power states.

No policy can beat the bound of the area-weighted response on these jobs and this machine, not even one that
knows the future. In a schedule without preemption, a job's processors are busy at the mean time eᵢ − rᵢ / 2.
So the area-weighted sum of the responses eᵢ − qᵢ is the work left to do, integrated over time, plus Σ aᵢ rᵢ /
2; and a relaxation says how small the former can be.

Metrics of energy are about the window (see `gridtune.batch.metrics.columns`), and count every node in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gridtune.batch.metrics.columns import KWH, JobColumns
from gridtune.batch.metrics.registry import MetricFunction
from gridtune.core.usage import NodeState


def _area_weighted_response_bound(jobs: JobColumns) -> float:
    total = float(jobs.area.sum())
    if not total > 0:
        return math.nan
    # Here, because importing metrics imports no compiler.
    from gridtune.batch.metrics.compiled import least_backlog  # noqa: PLC0415

    submit, run, processors = (
        np.ascontiguousarray(column) for column in (jobs.submit, jobs.run, jobs.processors)
    )
    backlog = least_backlog(submit, run, processors, jobs.schedule.processors)
    return (backlog + float(np.multiply(jobs.area, jobs.run, dtype=np.float64).sum()) / 2.0) / total


#: Seconds in an hour and in a day.
_HOUR, _DAY = 3600, 86_400


_WASTING = ("idle", "switching_on", "switching_off")
_EVERY = (*_WASTING, "computing", "sleeping")


def _energy_to_always_on(jobs: JobColumns) -> float:
    nodes, (opens, closes) = jobs.nodes, jobs.window
    if nodes is None:
        return math.nan
    used, power = jobs.busy(jobs.window) / nodes.cores_per_node, nodes.power
    on = power.idle * nodes.nodes * (closes - opens) + (power.computing - power.idle) * used
    return jobs.spent(*_EVERY) * KWH / on if on > 0 else math.nan


def _energy_total_bound(jobs: JobColumns) -> float:
    nodes, (opens, closes) = jobs.nodes, jobs.window
    if nodes is None or len(jobs) < len(jobs.schedule):
        return math.nan
    from gridtune.batch.metrics.compiled import least_gap_energy  # noqa: PLC0415 (numba)

    power, use = nodes.power, jobs.schedule.use
    needed = -(-use.values // nodes.cores_per_node)
    watts = (power.idle, power.off, power.switching_on, power.switching_off)
    seconds = (float(power.switch_on_time), float(power.switch_off_time))
    gaps = least_gap_energy(use.times, needed, nodes.nodes, opens, closes, (*map(float, watts), *seconds))
    edges = np.clip(np.append(use.times, closes), opens, closes)
    on = int((needed * np.diff(edges)).sum())
    used = jobs.busy(jobs.window) / nodes.cores_per_node
    return (gaps + power.idle * on + (power.computing - power.idle) * used) / KWH


def _switches_per_node_day(jobs: JobColumns) -> float:
    nodes, (opens, closes) = jobs.nodes, jobs.window
    if nodes is None:
        return math.nan
    states = NodeState.SWITCHING_ON, NodeState.SWITCHING_OFF
    begun = sum(nodes.switches(state, opens, closes) for state in states)
    return begun * _DAY / (nodes.nodes * (closes - opens))


def _hours(jobs: JobColumns, *states: NodeState) -> float:
    seconds = jobs.node_seconds
    return sum(seconds[state] for state in states) / _HOUR if seconds else math.nan


#: Bounds and metrics of energy, by the names of `metrics.toml`.
ENERGY: Mapping[str, MetricFunction] = {
    "area_weighted_response_bound": _area_weighted_response_bound,
    "energy_total": lambda jobs: jobs.spent(*_EVERY),
    "energy_waste": lambda jobs: jobs.spent(*_WASTING),
    "energy_idle": lambda jobs: jobs.spent("idle"),
    "energy_switching_on": lambda jobs: jobs.spent("switching_on"),
    "energy_switching_off": lambda jobs: jobs.spent("switching_off"),
    "energy_computing": lambda jobs: jobs.spent("computing"),
    "energy_sleeping": lambda jobs: jobs.spent("sleeping"),
    "energy_to_always_on": _energy_to_always_on,
    "energy_total_bound": _energy_total_bound,
    "switches_per_node_day": _switches_per_node_day,
    "node_hours_on": lambda jobs: _hours(jobs, NodeState.IDLE, NodeState.COMPUTING),
    "node_hours_off": lambda jobs: _hours(jobs, NodeState.SLEEPING),
    "boot_wait_mean": lambda jobs: (
        float(jobs.kept(jobs.schedule.nodes.boot_wait).mean())
        if jobs.schedule.nodes is not None and len(jobs)
        else math.nan
    ),
}
