"""`Platform`: a homogeneous cluster of nodes with power states, as numbers or from a Batsim platform file."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from gridtune.arguments import require_fields
from gridtune.core.usage import NodePower
from gridtune.errors import SimulationError

__all__ = ["TRACES", "Platform", "Trace", "read_platform"]

#: Platform files beyond this many bytes are refused.
_LARGEST_FILE = 64 * 2**20
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_SPEED = re.compile(r"([0-9.eE+-]+?)\s*([kKMGTP]?)f?")


class Trace(NamedTuple):
    """A cluster of the paper, from its tables 1 and 2, and its days in each group by sequential submissions.

    Sequential submissions and utilisation are in per cent.
    """

    nodes: int
    cores_per_node: int
    jobs: int
    sequential: float
    utilisation: float
    days: tuple[int, ...]

    @property
    def cores(self) -> int:
        """All cores of the cluster."""
        return self.nodes * self.cores_per_node


#: The four clusters of the study.
TRACES = {
    "taurus": Trace(14, 12, 81_925, 54.1, 51.7, (441, 947, 612, 130, 22)),
    "orion": Trace(4, 12, 66_005, 39.7, 62.7, (659, 777, 496, 129, 28)),
    "graphite": Trace(4, 16, 60_786, 56.0, 47.3, (487, 705, 427, 149, 24)),
    "econome": Trace(22, 16, 66_557, 66.8, 57.6, (259, 520, 504, 271, 39)),
}


@dataclass(frozen=True)
class Platform:
    """A homogeneous cluster without a network.

    Attributes
    ----------
    nodes, cores_per_node
        Its shape; whole nodes are switched, cores are allocated.
    power
        Power of each node, and how many minutes switching takes.
    """

    nodes: int = 14
    cores_per_node: int = 12
    power: NodePower = field(default_factory=NodePower)

    def __post_init__(self) -> None:
        require = partial(require_fields, error=SimulationError)
        require(self, "at least 1", lambda number: number >= 1, "nodes", "cores_per_node")
        times = ("switch_off_time", "switch_on_time")
        require(self.power, "at least one step", lambda steps: steps >= 1, *times)
        if self.power.wasteful_peak <= 0:
            raise SimulationError("a node without power while idle or switching wastes nothing")

    @property
    def cores(self) -> int:
        """All cores of the cluster."""
        return self.nodes * self.cores_per_node


def read_platform(path: str | Path, *, time_unit: float = 1, step: float = 1) -> Platform:
    """Read a cluster from a Batsim platform file (SimGrid XML).

    Hosts are cores if the property `cores_per_node` is set, else nodes whose attribute `core` is their number
    of cores. Each host has the power of its states (`watt_per_state` or `wattage_per_state`, pairs
    `idle:full`) and its sleep states (`sleep_pstates`, `asleep:switching off:switching on`); a switch takes
    1/speed of its state. Hosts named master are ignored. Power is that of a node, whether hosts are nodes or
    cores.

    Parameters
    ----------
    path
        The file.
    time_unit
        Seconds in the file's unit of time: 60 for files in minutes.
    step
        Seconds in a step of the simulation; switching times are rounded up to whole steps.

    Raises
    ------
    SimulationError
        If the file is not a platform, or its hosts differ or have no sleep state.
    """
    file = Path(path)
    root = _parsed(file)
    hosts = [host for host in root.iter("host") if not host.get("id", "").startswith("master")]
    if not hosts:
        raise SimulationError("has no hosts", path=file)
    kinds = {_description(host) for host in hosts}
    if len(kinds) > 1:
        raise SimulationError(f"hosts differ ({len(kinds)} kinds), but a cluster is homogeneous", path=file)
    properties = {prop.get("id", ""): prop.get("value", "") for prop in hosts[0].iter("prop")}
    nodes, cores = _shape(root, hosts, file)
    power = _power(properties, hosts[0].get("speed", ""), time_unit / step, file)
    return Platform(nodes, cores, power)


def _parsed(file: Path) -> ElementTree.Element:
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise SimulationError("is too large for a platform file", path=file)
        return ElementTree.fromstring(file.read_bytes())
    except OSError as error:
        raise SimulationError(f"cannot be read: {error.strerror}", path=file) from error
    except ElementTree.ParseError as error:
        line = error.position[0]
        raise SimulationError(f"is not XML: {error.msg}", path=file, line=line) from error


def _description(host: ElementTree.Element) -> tuple[object, ...]:
    properties = sorted((prop.get("id", ""), prop.get("value", "")) for prop in host.iter("prop"))
    return host.get("speed"), host.get("core", "1"), tuple(properties)


def _shape(root: ElementTree.Element, hosts: list[ElementTree.Element], file: Path) -> tuple[int, int]:
    properties = [prop for prop in root.iter("prop") if prop.get("id") == "cores_per_node"]
    try:
        if not properties:
            return len(hosts), int(hosts[0].get("core", "1"))
        cores = int(properties[0].get("value", ""))
    except ValueError as error:
        raise SimulationError("the number of cores is not an integer", path=file) from error
    if cores < 1 or len(hosts) % cores:
        raise SimulationError(f"{len(hosts)} cores do not make whole nodes of {cores}", path=file)
    return len(hosts) // cores, cores


def _power(properties: dict[str, str], speeds: str, steps: float, file: Path) -> NodePower:
    """Return the power profile; a switch's duration in units of time × `steps`."""
    power = properties.get("watt_per_state") or properties.get("wattage_per_state")
    sleep = properties.get("sleep_pstates")
    if not power or not sleep:
        missing = "watt_per_state" if not power else "sleep_pstates"
        raise SimulationError("hosts do not have it", path=file, field=missing)
    try:
        watts = [[float(watt) for watt in pair.split(":")] for pair in power.split(",")]
        asleep, down, up = (int(state) for state in sleep.split(",")[0].split(":"))
        pace = [_flops(text) for text in speeds.split(",")]
        computing = next(state for state in range(len(watts)) if state not in {asleep, down, up})
        return NodePower(
            idle=watts[computing][0],
            computing=watts[computing][-1],
            off=watts[asleep][0],
            switching_off=watts[down][-1],
            switching_on=watts[up][-1],
            switch_off_time=_whole_steps(steps / pace[down]),
            switch_on_time=_whole_steps(steps / pace[up]),
        )
    except (ValueError, IndexError, StopIteration, ZeroDivisionError) as error:
        raise SimulationError(
            "power states, sleep states and speeds do not match",
            path=file,
            hint="watt_per_state and speed need an entry for every state that sleep_pstates names",
        ) from error


def _flops(text: str) -> float:
    match = _SPEED.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return float(match[1]) * _UNITS[match[2].lower()]


def _whole_steps(steps: float) -> int:
    # Speeds such as 1/3 are rounded to 16 digits in files: do not round up for that.
    return max(1, math.ceil(steps - 1e-9 * max(1.0, steps)))
