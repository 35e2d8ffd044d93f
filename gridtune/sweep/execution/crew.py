"""The workers for which a Ray cluster has room, while nodes join and leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gridtune.core.system import CellResources
from gridtune.errors import SweepError

__all__ = ["Crew"]

#: Seconds between two looks at a cluster whose nodes may come and go.
_LOOK_SECONDS = 2.0

#: The amount of each resource of a node, by Ray's names.
Node = Mapping[str, float]
#: Ray's name of a resource, the search space's, and the words of messages.
_RESOURCES = (
    ("CPU", "cpus", "processors", 1.0),
    ("GPU", "gpus", "GPUs", 1.0),
    ("memory", "memory", "GiB", 2.0**30),
)
#: 0.5 processors have room for five workers of 0.1, whatever the rounding.
_ROUNDING = 1e-9


def _nodes_now() -> list[Node]:
    """Return the resources of each living node of the connected cluster."""
    import ray  # noqa: PLC0415

    nodes: list[dict[str, Any]] = ray.nodes()
    return [node["Resources"] for node in nodes if node["Alive"]]


class Crew:
    """The number of workers of a sweep, while nodes join and leave.

    Parameters
    ----------
    wanted
        Workers wanted at once; 0 for as many as there is room for.
    needs
        The resources of a worker.
    nodes
        Returns the resources of each living node.

    Raises
    ------
    SweepError
        If there is no room for a single worker.

    Attributes
    ----------
    workers
        Workers to run now.
    room
        Workers for which the cluster has room now.
    most
        The largest number of workers so far.
    """

    def __init__(
        self, wanted: int, needs: CellResources, nodes: Callable[[], Sequence[Node]] = _nodes_now
    ) -> None:
        self._wanted, self.needs, self._nodes = wanted, needs, nodes
        self.workers = self.room = self.most = 0
        self._look()
        if not self.room:
            raise self._refusal()
        self._looked = time.monotonic()

    def follow(self) -> bool:
        """Look at the cluster, if it is time; return whether the number of workers has changed.

        A cluster that has lost all its nodes is waited for: one worker is still wanted.
        """
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return False
        before = self.workers
        self._look()
        self.workers, self.room = max(1, self.workers), max(1, self.room)
        self._looked = time.monotonic()
        return self.workers != before

    def _look(self) -> None:
        """Count the workers that fit on the nodes at once; those of one cell may be on different nodes."""
        own, *helpers = self.needs.bundles
        left = [dict(node) for node in self._nodes()]
        if helpers:
            self.room = 0
            while all(_take(left, bundle) for bundle in (own, *helpers)):
                self.room += 1
        else:
            self.room = sum(_fit(node, own) for node in left)
        self.workers = min(self._wanted, self.room) if self._wanted else self.room
        self.most = max(self.most, self.workers)

    def _refusal(self) -> SweepError:
        own, *helpers = self.needs.bundles
        nodes = self._nodes()
        for name, key, words, unit in _RESOURCES:
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if own.get(name, 0.0) > most:
                whose = "it" if len(nodes) == 1 else "its largest node"
                return SweepError(
                    f"the cluster has no room for a worker of {own[name] / unit:g} {words}: "
                    f"{whose} has {most / unit:g}",
                    hint=f"lower `resources: {{{key}: …}}` or join a larger cluster with --address",
                )
        what = f"{own.get('CPU', 0.0):g} processors"
        what += f" with {own['GPU']:g} GPUs" if "GPU" in own else ""
        what += f" and {len(helpers)} helpers of one processor each" if helpers else ""
        return SweepError(
            f"the cluster has no room for a worker of {what}",
            hint="lower what `resources` and the parameters ask for, or join a larger cluster with --address",
        )


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
