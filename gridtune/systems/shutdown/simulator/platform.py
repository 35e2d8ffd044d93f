"""`Platform`: a homogeneous cluster of nodes with power states, as numbers or from a Batsim platform file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from gridtune.arguments import require_fields
from gridtune.core.usage import NodePower
from gridtune.errors import SimulationError

#: Platform files beyond this many bytes are refused.
_LARGEST_FILE = 64 * 2**20
#: Clusters with more hosts are refused.
_MOST_HOSTS = 10**6
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_SPEED = re.compile(r"([0-9.eE+-]+?)\s*([kKMGTPE]?)(?:f|flops)?")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


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

    The hosts are those of all zones: each `host`, and those of each `cluster` or `cabinet`, numbered by its
    `radical` (`0-3,7,9-12`). Hosts are cores if the property `cores_per_node` is set, else nodes, and their
    attribute `core` is their number of cores. Each host has the power of its states (`watt_per_state` or
    `wattage_per_state`, pairs `idle:full`) and its sleep states (`sleep_pstates`, `asleep:switching
    off:switching on`); a switch takes 1/speed of its state. Hosts that are named master, or have the `role`
    master or storage, are left out. Power is that of a node, whether hosts are nodes or cores.

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
    platform = _PlatformFile(file)
    hosts = list(platform.hosts())
    if not hosts:
        raise SimulationError("has no hosts", path=file)
    kinds = {kind for kind, _ in hosts}
    if len(kinds) > 1:
        differ = [name for name in _Kind._fields if len({getattr(kind, name) for kind in kinds}) > 1]
        message = f"hosts differ ({len(kinds)} kinds), but a cluster is homogeneous"
        raise SimulationError(message, path=file, hint=f"they differ in {', '.join(differ)}")
    kind = kinds.pop()
    nodes, cores = platform.shape(sum(count for _, count in hosts), kind.cores)
    power = kind.power(time_unit / step, file)
    return Platform(nodes, cores, power)


class _Kind(NamedTuple):
    """The attributes and properties of a host that make its power and shape, as texts without blanks."""

    speeds: str
    cores: str
    watts: str
    sleep: str

    def power(self, steps: float, file: Path) -> NodePower:
        """Return the power profile; a switch's duration in units of time × `steps`."""
        if not self.watts or not self.sleep:
            missing = "sleep_pstates" if self.watts else "watt_per_state"
            hint = "power and the state asleep are properties of a host: <prop id=… value=…/>"
            raise SimulationError("hosts do not have it", path=file, field=missing, hint=hint)
        try:
            watts = [[float(watt) for watt in pair.split(":")] for pair in self.watts.split(",")]
            asleep, down, up = (int(state) for state in self.sleep.split(",")[0].split(":"))
            pace = [self._flops(text) for text in self.speeds.split(",")]
            computing = next(state for state in range(len(watts)) if state not in {asleep, down, up})
            return NodePower(
                idle=watts[computing][0],
                computing=watts[computing][-1],
                off=watts[asleep][0],
                switching_off=watts[down][-1],
                switching_on=watts[up][-1],
                switch_off_time=self._whole_steps(steps / pace[down]),
                switch_on_time=self._whole_steps(steps / pace[up]),
            )
        except (ValueError, IndexError, StopIteration, ZeroDivisionError) as error:
            raise SimulationError(
                "power states, sleep states and speeds do not match",
                path=file,
                hint="watt_per_state and speed need an entry for every state that sleep_pstates names",
            ) from error

    @staticmethod
    def _flops(text: str) -> float:
        match = _SPEED.fullmatch(text.strip())
        if match is None:
            raise ValueError(text)
        return float(match[1]) * _UNITS[match[2].lower()]

    @staticmethod
    def _whole_steps(steps: float) -> int:
        # Speeds such as 1/3 are rounded to 16 digits in files: do not round up for that.
        return max(1, math.ceil(steps - 1e-9 * max(1.0, steps)))


class _PlatformFile:
    """A platform file."""

    def __init__(self, file: Path) -> None:
        self._file, self._root = file, self._parsed(file)

    @staticmethod
    def _parsed(file: Path) -> ElementTree.Element:
        try:
            if file.stat().st_size > _LARGEST_FILE:
                raise SimulationError("is too large for a platform file", path=file)
            content = file.read_bytes()
        except OSError as error:
            raise SimulationError(f"cannot be read: {error.strerror}", path=file) from error
        try:
            # Files in use begin with blank lines, which XML does not allow.
            return ElementTree.fromstring(content.lstrip())
        except ElementTree.ParseError as error:
            blank = content[: len(content) - len(content.lstrip())]
            message, line = (
                f"is not XML: {expat.ErrorString(error.code)}",
                error.position[0] + blank.count(b"\n"),
            )
            raise SimulationError(message, path=file, line=line) from error

    def hosts(self) -> Iterator[tuple[_Kind, int]]:
        """Yield the kind and the number of the hosts of each element that compute."""
        for element in self._root.iter():
            if element.tag not in ("host", "cluster", "cabinet"):
                continue
            of = {prop.get("id", ""): prop.get("value", "") for prop in element.iter("prop")}
            name = element.get("id" if element.tag == "host" else "prefix", "")
            if name.startswith("master") or of.get("role") in ("master", "storage"):
                continue
            watts = of.get("watt_per_state") or of.get("wattage_per_state", "")
            texts = (element.get("speed", ""), element.get("core", "1"), watts, of.get("sleep_pstates", ""))
            speeds, *others = ("".join(text.split()) for text in texts)
            # The unit may be left out: flops.
            speeds = ",".join(speed.removesuffix("f") for speed in speeds.split(","))
            count = 1 if element.tag == "host" else self._count(element.get("radical", ""))
            yield _Kind(speeds, *others), count

    def _count(self, radical: str) -> int:
        """Return the number of hosts that a radical such as `0-3,7,9-12` numbers."""
        parts = [_RANGE.fullmatch(part.strip()) for part in radical.split(",")]
        ranges = sorted((int(part[1]), int(part[2] or part[1])) for part in parts if part)
        overlap = any(end >= start for (_, end), (start, _) in pairwise(ranges))
        if None in parts or overlap or any(first > last for first, last in ranges):
            message, hint = f"{radical[:40]!r} does not number hosts", "such as 0-3,7,9-12, each number once"
            raise SimulationError(message, path=self._file, field="radical", hint=hint)
        count = sum(last - first + 1 for first, last in ranges)
        if count > _MOST_HOSTS:
            raise SimulationError(f"{count} hosts are too many", path=self._file, field="radical")
        return count

    def shape(self, hosts: int, cores_of_host: str) -> tuple[int, int]:
        """Return nodes, and the cores of each."""
        properties = [prop for prop in self._root.iter("prop") if prop.get("id") == "cores_per_node"]
        try:
            if not properties:
                return hosts, int(cores_of_host)
            cores = int(properties[0].get("value", ""))
        except ValueError as error:
            raise SimulationError("the number of cores is not an integer", path=self._file) from error
        if cores < 1 or hosts % cores:
            raise SimulationError(f"{hosts} cores do not make whole nodes of {cores}", path=self._file)
        return hosts // cores, cores
