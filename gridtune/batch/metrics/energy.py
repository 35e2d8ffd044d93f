"""Lower bounds, and metrics of energy of schedules whose nodes have power states.

No policy can beat the bound of the area-weighted response on these jobs and this machine, not even one that
knows the future. In a schedule without preemption, a job's processors are busy at the mean time eᵢ − rᵢ / 2.
So the area-weighted sum of the responses eᵢ − qᵢ is the work left to do, integrated over time, plus Σ aᵢ rᵢ /
2; and a relaxation says how small the former can be.

Metrics of energy are about the window (see `gridtune.batch.metrics.columns`), and count every node in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from gridtune.batch.metrics.columns import JobColumns
from gridtune.batch.metrics.per_system import busy
from gridtune.batch.metrics.registry import (
    GOEMANS_2002,
    PINEDO_2016,
    SHUTDOWN_2022,
    MetricFunction,
    metric,
)
from gridtune.core.system import Direction
from gridtune.core.usage import NodeState, NodeStates

__all__ = []


@metric(
    "area_weighted_response_bound",
    unit="s",
    direction="none",
    formula="(∫ least work left at t dt + Σ aᵢ rᵢ / 2) / Σ aᵢ, under preemptive LRPT of single processors",
    source=f"{GOEMANS_2002}; {PINEDO_2016}",
    family="Bounds",
)
def _area_weighted_response_bound(jobs: JobColumns) -> float:
    """Lower bound of the area-weighted response of these jobs under any policy, whatever it knows."""
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


#: Joules in a kilowatt hour, seconds in an hour and in a day.
_KWH, _HOUR, _DAY = 3.6e6, 3600, 86_400


#: Registers a metric that is defined where nodes have power states.
_energy_metric = partial(
    metric, unit="kWh", direction="min", source="gridtune, 2026", family="Energy", needs_nodes=True
)


def _of_nodes(jobs: JobColumns, compute: Callable[[NodeStates, int, int], float]) -> float:
    """Return a number that follows from the nodes' states in the window; NaN without either."""
    nodes, (opens, closes) = jobs.schedule.nodes, jobs.window
    return math.nan if nodes is None or closes <= opens else compute(nodes, opens, closes)


def _seconds(jobs: JobColumns) -> dict[NodeState, int]:
    """Return the node-seconds in each state in the window; nothing without power states."""
    nodes, (opens, closes) = jobs.schedule.nodes, jobs.window
    if nodes is None or closes <= opens:
        return {}
    return {state: nodes.node_seconds(state, opens, closes) for state in NodeState}


def _energies(jobs: JobColumns) -> dict[str, float]:
    """Return the kWh spent in each state in the window; nothing without power states."""
    nodes = jobs.schedule.nodes
    if nodes is None or not jobs.once(_seconds):
        return {}
    seconds = {state.name.lower(): spent for state, spent in jobs.once(_seconds).items()}
    spent = nodes.power.energy(**seconds, busy=busy(jobs, jobs.window) / nodes.cores_per_node)
    return {state: joules / _KWH for state, joules in spent.items()}


def _spent(jobs: JobColumns, *states: str) -> float:
    energies = jobs.once(_energies)
    return math.fsum(energies[state] for state in states) if energies else math.nan


_WASTING = ("idle", "switching_on", "switching_off")
_EVERY = (*_WASTING, "computing", "sleeping")


#: Energy by states: metric, states, direction, formula, source, description.
_BY_STATE: tuple[tuple[str, tuple[str, ...], Direction, str, str, str], ...] = (
    (
        "energy_total", _EVERY, "min", "∫ P(t) dt, over [t₀, t₁); P: power of all nodes", SHUTDOWN_2022,
        "Energy of the whole machine over the window.",
    ),
    (
        "energy_waste", _WASTING, "min",
        "P_idle·idle + P_on·switching on + P_off·switching off node-hours, over [t₀, t₁)",
        f"{SHUTDOWN_2022}, equation 4", "Energy of nodes that are on without computing, or switch.",
    ),
    (
        "energy_idle", ("idle",), "min", "P_idle·node-hours on with no busy core, over [t₀, t₁)",
        SHUTDOWN_2022,
        "Energy of nodes that are on without computing, also while their job waits for others to boot.",
    ),
    (
        "energy_switching_on", ("switching_on",), "min", "P_on·node-hours switching on, over [t₀, t₁)",
        SHUTDOWN_2022, "Energy of nodes that are being switched on.",
    ),
    (
        "energy_switching_off", ("switching_off",), "min", "P_off·node-hours switching off, over [t₀, t₁)",
        SHUTDOWN_2022, "Energy of nodes that are being switched off.",
    ),
    (
        "energy_computing", ("computing",), "none",
        "P_idle·node-hours computing + (P_computing − P_idle)·busy core-hours/cores per node, "
        "over [t₀, t₁)",
        SHUTDOWN_2022,
        "Energy of nodes that compute; on nodes of one core every policy needs the same for the same jobs.",
    ),
    (
        "energy_sleeping", ("sleeping",), "none", "P_sleeping·node-hours asleep, over [t₀, t₁)",
        SHUTDOWN_2022,
        "Energy of nodes that are off.",
    ),
)  # fmt: skip


def _energy_of(states: Sequence[str], description: str) -> MetricFunction:
    def function(jobs: JobColumns) -> float:
        return _spent(jobs, *states)

    function.__doc__ = description
    return function


for _name, _states, _direction, _formula, _source, _description in _BY_STATE:
    _energy_metric(_name, direction=_direction, formula=_formula, source=_source)(
        _energy_of(_states, _description)
    )


@_energy_metric(
    "energy_to_always_on",
    formula="energy_total / (P_idle·N·(t₁ − t₀) + (P_computing − P_idle)·busy core-hours/cores per node)",
    unit="1",
)
def _energy_to_always_on(jobs: JobColumns) -> float:
    """Energy as a share of what the same schedule takes on nodes that are never switched off."""

    def share(nodes: NodeStates, opens: int, closes: int) -> float:
        used, power = busy(jobs, jobs.window) / nodes.cores_per_node, nodes.power
        on = power.idle * nodes.nodes * (closes - opens) + (power.computing - power.idle) * used
        return _spent(jobs, *_EVERY) * _KWH / on if on > 0 else math.nan

    return _of_nodes(jobs, share)


@_energy_metric(
    "energy_total_bound",
    formula="least energy of any switching with these starts: Σ over levels and their gaps of the cheaper of "
    "idling and switching off and on again; level k is on while k nodes are needed",
    direction="none",
)
def _energy_total_bound(jobs: JobColumns) -> float:
    """Least energy with the same starts, of any placement and of switching that knows the future.

    Nodes are on when they are needed, so no job waits for a boot. Of a schedule on nodes that are always on,
    it is what perfect foresight could reach without delaying anyone. Not defined where jobs are left out: at
    the edges of a part of the time, nodes may be in any state.
    """
    if len(jobs) < len(jobs.schedule):
        return math.nan
    from gridtune.batch.metrics.compiled import least_gap_energy  # noqa: PLC0415 (numba)

    def least(nodes: NodeStates, opens: int, closes: int) -> float:
        power, use = nodes.power, jobs.schedule.use
        needed = -(-use.values // nodes.cores_per_node)
        watts = (power.idle, power.off, power.switching_on, power.switching_off)
        seconds = (float(power.switch_on_time), float(power.switch_off_time))
        gaps = least_gap_energy(use.times, needed, nodes.nodes, opens, closes, (*map(float, watts), *seconds))
        edges = np.clip(np.append(use.times, closes), opens, closes)
        on = int((needed * np.diff(edges)).sum())
        used = busy(jobs, jobs.window) / nodes.cores_per_node
        return (gaps + power.idle * on + (power.computing - power.idle) * used) / _KWH

    return _of_nodes(jobs, least)


@_energy_metric(
    "switches_per_node_day",
    formula="(nodes switched on + nodes switched off in [t₀, t₁)) / (N·(t₁ − t₀)), per day",
    unit="switches",
    source=f"{SHUTDOWN_2022}, section 5.1, “on-off cycles per node”",
)
def _switches_per_node_day(jobs: JobColumns) -> float:
    """Switches of a node on or off, per day, which wear it."""

    def rate(nodes: NodeStates, opens: int, closes: int) -> float:
        begun = (
            nodes.switches(state, opens, closes)
            for state in (NodeState.SWITCHING_ON, NodeState.SWITCHING_OFF)
        )
        return sum(begun) * _DAY / (nodes.nodes * (closes - opens))

    return _of_nodes(jobs, rate)


def _hours(jobs: JobColumns, *states: NodeState) -> float:
    seconds = jobs.once(_seconds)
    return sum(seconds[state] for state in states) / _HOUR if seconds else math.nan


@_energy_metric("node_hours_on", formula="node-hours idle or computing, over [t₀, t₁)", unit="h")
def _node_hours_on(jobs: JobColumns) -> float:
    """Hours that nodes are on, with work or without."""
    return _hours(jobs, NodeState.IDLE, NodeState.COMPUTING)


@_energy_metric("node_hours_off", formula="node-hours asleep, over [t₀, t₁)", unit="h", direction="max")
def _node_hours_off(jobs: JobColumns) -> float:
    """Hours that nodes are off; the rest of the time they switch."""
    return _hours(jobs, NodeState.SLEEPING)


@_energy_metric("boot_wait_mean", formula="(1/n) Σ (sᵢ − gᵢ), gᵢ: when job i gets its processors", unit="s")
def _boot_wait_mean(jobs: JobColumns) -> float:
    """Mean time for which jobs hold processors before they start, because nodes are being switched.

    It is a part of the wait.
    """
    nodes = jobs.schedule.nodes
    return math.nan if nodes is None or not len(jobs) else float(jobs.kept(nodes.boot_wait).mean())
