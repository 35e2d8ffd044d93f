"""Where workers fit: how many a cluster has room for, now and while its nodes come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridtune.core.system import CellResources
from gridtune.errors import SweepError

__all__ = [
    "Crew",
    "check_room_for",
    "nodes_now",
    "room_for",
    "waiting_text",
]

#: Seconds between two looks at a cluster whose nodes may come and go.
_LOOK_SECONDS = 2.0

#: What a node has of each resource, by Ray's names.
Node = Mapping[str, float]
#: Ray's name of a resource, the search space's, and the words of messages.
_RESOURCES = (
    ("CPU", "cpus", "processors", 1.0),
    ("GPU", "gpus", "GPUs", 1.0),
    ("memory", "memory", "GiB", 2.0**30),
)
#: 0.5 processors have room for five workers of 0.1, whatever the rounding.
_ROUNDING = 1e-9


def nodes_now() -> list[Node]:
    """Return what each node of the connected cluster has that is alive."""
    import ray  # noqa: PLC0415

    nodes: list[dict[str, Any]] = ray.nodes()
    return [node["Resources"] for node in nodes if node["Alive"]]


def room_for(nodes: Sequence[Node], needs: CellResources) -> int:
    """Return how many workers fit on some nodes at once; a worker's processes may be on different nodes."""
    own, *helpers = needs.bundles
    if not helpers:
        return sum(_fit(node, own) for node in nodes)
    left = [dict(node) for node in nodes]
    count = 0
    while all(_take(left, bundle) for bundle in (own, *helpers)):
        count += 1
    return count


def _fit(node: Node, bundle: Mapping[str, float]) -> int:
    return min(int(node.get(name, 0.0) / amount + _ROUNDING) for name, amount in bundle.items())


def _take(nodes: Sequence[dict[str, float]], bundle: Mapping[str, float]) -> bool:
    """Take a bundle from the first node that has it; return whether there is one."""
    for node in nodes:
        if _fit(node, bundle):
            for name, amount in bundle.items():
                node[name] -= amount
            return True
    return False


def check_room_for(nodes: Sequence[Node], needs: CellResources) -> int:
    """Return how many workers fit.

    Raises
    ------
    SweepError
        If there is no room for a single one.
    """
    room = room_for(nodes, needs)
    if room:
        return room
    (own, *helpers) = needs.bundles
    for name, key, words, unit in _RESOURCES:
        most = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if own.get(name, 0.0) > most:
            raise SweepError(
                f"the cluster has no room for a worker of {own[name] / unit:g} {words}: "
                + (f"it has {most / unit:g}" if len(nodes) == 1 else f"its largest node has {most / unit:g}"),
                hint=f"lower `resources: {{{key}: …}}` or join a larger cluster with --address",
            )
    what = f"{own.get('CPU', 0.0):g} processors"
    what += f" with {own['GPU']:g} GPUs" if "GPU" in own else ""
    what += f" and {len(helpers)} helpers of one processor each" if helpers else ""
    raise SweepError(
        f"the cluster has no room for a worker of {what}",
        hint="lower what `resources` and the parameters ask for, or join a larger cluster with --address",
    )


def waiting_text(where: str, total: Node, free: Node, cpus: float) -> str | None:
    """Return the message about a cluster that has no room for a worker now; None where there is room.

    Parameters
    ----------
    where
        The cluster's address.
    total, free
        Its resources, and those that are not in use, by Ray's names.
    cpus
        Processors a worker needs.
    """
    # Ray leaves out what is used up.
    every, left = total.get("CPU", 0.0), free.get("CPU", 0.0)
    if left >= cpus:
        return None
    return f"waiting for free processors at {where} ({every - left:g} of {every:g} in use)"


@dataclass
class Crew:
    """The workers of a sweep: how many there are to be, while nodes join and leave.

    Attributes
    ----------
    workers
        How many there are to be now.
    room
        How many the cluster has room for now.
    needs
        What each occupies.
    look
        Returns both numbers as the cluster is now; None where they stay as they are.
    """

    workers: int
    room: int
    needs: CellResources = field(default_factory=CellResources)
    look: Callable[[], tuple[int, int]] | None = None
    _looked: float = field(default_factory=time.monotonic, init=False)

    def __post_init__(self) -> None:
        #: The most workers there ever were to be.
        self.most = self.workers

    def trials(self, workers: int) -> int:
        """Return how many trials of Tune there are at most for so many workers.

        One waits for each worker, so that none is idle between two, and starts on a node that joins. Where
        the cluster has room for more workers than are wanted, Ray would start one for a waiting trial.
        """
        return workers if workers < self.room else 2 * workers

    def follow(self) -> bool:
        """Look at the cluster, if it is time; return whether the number of workers has changed.

        A cluster that has lost all its nodes is waited for: one worker is still to be.
        """
        if self.look is None or time.monotonic() - self._looked < _LOOK_SECONDS:
            return False
        before = self.workers
        workers, room = self.look()
        self.workers, self.room = max(1, workers), max(1, room)
        self.most = max(self.most, self.workers)
        self._looked = time.monotonic()
        return self.workers != before
