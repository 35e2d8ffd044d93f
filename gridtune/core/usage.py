"""Use of a machine over time: step functions, and the states of its nodes with the power they draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.types import FloatArray, Int8Array, Int32Array, IntArray


@dataclass(frozen=True)
class StepFunction:
    """A right-continuous step function of time.

    Attributes
    ----------
    times
        Shape (k,), int64 seconds, strictly increasing: where the value changes.
    values
        Shape (k,), int64: the value from `times[i]` until `times[i + 1]`; 0 before the first.
    """

    times: IntArray
    values: IntArray

    def integral(self, start: int, end: int) -> int:
        """Return the integral over [start, end), exact in integers."""
        if end <= start or len(self.times) == 0:
            return 0
        edges = np.concatenate([self.times, [max(end, int(self.times[-1]))]])
        widths = np.clip(np.diff(np.clip(edges, start, end)), 0, None)
        return int((widths * self.values).sum())

    def mean(self, start: int, end: int) -> float:
        """Return the time average over [start, end); NaN when that is empty."""
        return self.integral(start, end) / (end - start) if end > start else float("nan")

    def means(self, edges: IntArray) -> FloatArray:
        """Return the time averages between consecutive edges (seconds), shape (k - 1,)."""
        if len(self.times) == 0:
            return np.zeros(len(edges) - 1)
        # The running integral is linear between the steps, so interpolation is exact.
        widths = np.diff(self.times, append=max(int(edges[-1]), int(self.times[-1])))
        areas = np.concatenate([[0], np.cumsum(widths * self.values)])
        times = np.concatenate([self.times, [self.times[-1] + widths[-1]]])
        running = np.interp(edges, times, areas, left=0.0)
        means: FloatArray = np.diff(running) / np.diff(edges)
        return means

    def at(self, times: npt.ArrayLike) -> IntArray:
        """Return the values at the given times."""
        index = np.searchsorted(self.times, np.asarray(times, dtype=np.int64), side="right") - 1
        if len(self.times) == 0:
            return np.zeros_like(index)
        return np.where(index >= 0, self.values[np.maximum(index, 0)], 0)


def step_function(up: IntArray, down: IntArray, weight: IntArray) -> StepFunction:
    """Return the sum of `weight[i]` over the intervals [up[i], down[i])."""
    return _summed(np.concatenate([up, down]), np.concatenate([weight, -weight]))


def paused_seconds(pauses: IntArray, count: int) -> IntArray:
    """Return the sum of each job's pauses, shape (count,); a pause is its place, from when and until when."""
    seconds = np.zeros(count, dtype=np.int64)
    np.add.at(seconds, pauses[:, 0], pauses[:, 2] - pauses[:, 1])
    return seconds


def _summed(times: IntArray, changes: IntArray) -> StepFunction:
    """Return the function that begins at 0 and changes by so much at each time, in any order."""
    order = np.argsort(times, kind="stable")
    times, values = times[order], np.cumsum(changes[order], dtype=np.int64)
    last = np.flatnonzero(np.diff(times, append=times[-1:] + 1) != 0) if len(times) else np.array([], int)
    times, values = times[last], values[last]
    keep = np.diff(values, prepend=0) != 0
    return StepFunction(times[keep], values[keep])


#: Node-seconds, or node-minutes, of one period or of several.
Amount = npt.NDArray[Any] | float


#: Options of a node's power, and the fields of `NodePower`.
POWER_OPTIONS = {
    "idle_watts": "idle",
    "computing_watts": "computing",
    "sleeping_watts": "off",
    "switching_off_watts": "switching_off",
    "switching_on_watts": "switching_on",
}


@dataclass(frozen=True)
class NodePower:
    """Power of a node in each state, in watts, and how long it takes to switch.

    The defaults are those measured on GRID'5000's cluster Taurus.

    Attributes
    ----------
    idle, computing, off
        On without work; every core at work; asleep.
    switching_off, switching_on
        While it switches.
    switch_off_time, switch_on_time
        Duration of a switch, in steps of the simulation (seconds or minutes).

    References
    ----------
    M. Poquet, "Simulation approach for resource management", Université Grenoble Alpes 2017, p. 68.
    """

    idle: float = 95.0
    computing: float = 190.0
    off: float = 9.0
    switching_off: float = 101.0
    switching_on: float = 125.0
    switch_off_time: int = 3
    switch_on_time: int = 1

    def __post_init__(self) -> None:
        for name in ("idle", "computing", "off", "switching_off", "switching_on"):
            watts = getattr(self, name)
            if not (math.isfinite(watts) and watts >= 0):
                raise SimulationError(f"power must be a finite number of watts, but got {watts}", field=name)
        for name in ("switch_off_time", "switch_on_time"):
            if getattr(self, name) < 0:
                raise SimulationError(f"must be at least 0, but got {getattr(self, name)}", field=name)

    @property
    def wasteful_peak(self) -> float:
        """The largest power of a node that does not compute, in watts: the reward's unit of waste."""
        return max(self.idle, self.switching_off, self.switching_on)

    def energy(
        self,
        idle: Amount,
        switching_on: Amount,
        switching_off: Amount,
        sleeping: Amount,
        computing: Amount,
        busy: Amount,
    ) -> dict[str, Any]:
        """Return the energy spent in each state, by its name, in watts times the unit of the amounts.

        Parameters
        ----------
        idle, switching_on, switching_off, sleeping, computing
            Node-seconds (or node-minutes) in each state.
        busy
            Core-seconds of jobs over the cores of a node: a computing node draws idle power, and the rest by
            the share of its busy cores.
        """
        return {
            "idle": self.idle * idle,
            "switching_on": self.switching_on * switching_on,
            "switching_off": self.switching_off * switching_off,
            "computing": self.idle * computing + (self.computing - self.idle) * busy,
            "sleeping": self.off * sleeping,
        }


class NodeState(IntEnum):
    """The state of a node; one that is on computes if at least one of its cores does, else it idles."""

    IDLE = 0
    SWITCHING_ON = 1
    SLEEPING = 2
    SWITCHING_OFF = 3
    COMPUTING = 4


@dataclass(frozen=True, eq=False)
class NodeStates:
    """The changes of state of a machine's nodes, all of which are on and idle at first.

    Attributes
    ----------
    nodes, cores_per_node
        The machine's shape.
    power
        Power of a node; its switches take seconds.
    opens
        Second of the first submission: before it nothing counts.
    time, before, after, number
        Shape (k,), in no order: at second `time[i]`, `number[i]` nodes went from the state `before[i]` to
        `after[i]`.
    boot_wait
        Shape (jobs,), int64 seconds: for each job the time that it held its processors before it started,
        because nodes were being switched.
    """

    nodes: int
    cores_per_node: int
    power: NodePower
    opens: int
    time: IntArray
    before: Int8Array
    after: Int8Array
    number: Int32Array
    boot_wait: IntArray

    def node_seconds(self, state: NodeState, start: int, end: int) -> int:
        """Return the node-seconds in a state over [start, end), exact."""
        return self.count(state).integral(start, end)

    def count(self, state: NodeState) -> StepFunction:
        """Return the number of nodes in a state over time."""
        left, entered = self.before == state, self.after == state
        changed = left | entered
        change = (self.number * (entered.astype(np.int64) - left))[changed]
        first = self.nodes if state is NodeState.IDLE else 0
        return _summed(np.append(self.time[changed], self.opens), np.append(change, first))

    def switches(self, state: NodeState, start: int, end: int) -> int:
        """Return how many nodes began to switch in [start, end): `state` is `SWITCHING_ON` or `_OFF`."""
        begun = (self.after == state) & (self.time >= start) & (self.time < end)
        return int(self.number[begun].sum())
