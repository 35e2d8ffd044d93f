"""`NodeStates`: in which power states the nodes of a machine were over time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gridtune.core.power import NodePower
from gridtune.core.step_function import StepFunction
from gridtune.types import Int8Array, Int32Array, IntArray

__all__ = ["NodeState", "NodeStates"]


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
        Shape (jobs,), int64 seconds: how long each job held its processors before it started, because nodes
        were being switched.
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

    def _changes(self, state: NodeState) -> tuple[IntArray, IntArray]:
        """Return when the number of nodes in a state changes, and by how many."""
        left, entered = self.before == state, self.after == state
        changed = left | entered
        return self.time[changed], (self.number * (entered.astype(np.int64) - left))[changed]

    def _first(self, state: NodeState) -> int:
        return self.nodes if state is NodeState.IDLE else 0

    def node_seconds(self, state: NodeState, start: int, end: int) -> int:
        """Return the node-seconds in a state over [start, end), exact."""
        if end <= start:
            return 0
        time, change = self._changes(state)
        first = self._first(state) * (end - max(start, self.opens))
        return int((change * (end - np.clip(time, start, end))).sum()) + first

    def count(self, state: NodeState) -> StepFunction:
        """Return the number of nodes in a state over time."""
        time, change = self._changes(state)
        times, place = np.unique(np.concatenate([[self.opens], time]), return_inverse=True)
        changes = np.bincount(place, np.concatenate([[self._first(state)], change])).astype(np.int64)
        values = np.cumsum(changes)
        keep = np.diff(values, prepend=0) != 0
        return StepFunction(times[keep], values[keep])

    def switches(self, state: NodeState, start: int, end: int) -> int:
        """Return how many nodes began to switch in [start, end): `state` is `SWITCHING_ON` or `_OFF`."""
        begun = (self.after == state) & (self.time >= start) & (self.time < end)
        return int(self.number[begun].sum())
