"""`Platform`: a homogeneous cluster of nodes with power states; and the clusters of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from gridtune.arguments import require_fields
from gridtune.core.usage import NodePower
from gridtune.errors import SimulationError

__all__ = ["TRACES", "Platform", "Trace"]


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
