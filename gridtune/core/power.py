"""`NodePower`: what a node draws in each of its power states."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from gridtune.errors import SimulationError

__all__ = ["NodePower"]

#: Node-seconds, or node-minutes, of one period or of several.
Amount = npt.NDArray[Any] | float


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
