"""The `placement` system: pods arrive at a cluster of shared GPUs until it is full."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from gridtune.core.sources import file_checksums
from gridtune.core.system import Measure, Outcome, Streams, System, SystemParameters, WorkloadLoader
from gridtune.errors import SimulationError
from gridtune.systems.placement.cluster import Nodes, Pods, draw_nodes, draw_pods, read_nodes, read_pods
from gridtune.systems.placement.parameters import PlacementParameters
from gridtune.systems.placement.simulator import Placement, fragmentation, place
from gridtune.types import FloatArray, IntArray
from gridtune.workload.catalogue import resolve_trace

__all__ = ["PlacementSystem"]

_PAPER = "Weng et al., ATC 2023"


class PlacementSystem(System):
    """Pods on the nodes of a cluster whose GPUs can be shared.

    Pods arrive in random order until they have asked for more GPUs than there are; none leaves. What counts
    is how many GPUs have been given to pods in the end: the rest is stranded in parts that nobody can use.
    """

    name: ClassVar[str] = "placement"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = PlacementParameters
    metrics: ClassVar[Mapping[str, Measure]] = {
        "gpu_allocation": Measure(
            "1",
            "max",
            "GPUs given to pods over those of the cluster, at the end",
            source=f"{_PAPER} figure 9",
        ),
        "gpu_allocation_at_capacity": Measure.own(
            "1",
            "max",
            "GPUs given to pods over those of the cluster, once pods have asked for as many GPUs as it has",
        ),
        "gpu_fragmentation": Measure(
            "1",
            "min",
            "Σ over nodes and typical pods of p · free GPUs that such a pod cannot use, over all GPUs",
            source=f"{_PAPER} section 4.1",
        ),
        "first_refusal": Measure.own(
            "1",
            "max",
            "GPUs asked for, over those of the cluster, when no node held a pod for the first time",
        ),
        "pods_refused": Measure.own("1", "min", "pods that no node could hold, over all pods"),
        "cpu_allocation": Measure.own("1", "none", "processors given to pods over those of the cluster"),
        "gpus": Measure.own("GPUs", "none", "GPUs of the cluster"),
        "pods": Measure.own("pods", "none", "pods that arrived"),
    }

    def __init__(self) -> None:
        self._clusters: LRUCache[tuple[str, ...], tuple[Nodes, Pods]] = LRUCache(4)

    def file_checksums(self, parameters: PlacementParameters) -> Mapping[str, str]:
        """Return the checksums of the files of nodes and pods."""
        files = {"nodes": parameters.nodes, "pods": parameters.pods}
        return file_checksums({name: resolve_trace(file) for name, file in files.items() if file is not None})

    def preflight(self, parameters: PlacementParameters, load: WorkloadLoader) -> None:
        """Refuse files with faults, and clusters and pods without GPUs."""
        if parameters.nodes is not None:
            nodes, pods = self._read(parameters)
            for name, file, gpus in (
                ("nodes", parameters.nodes, nodes.gpus),
                ("pods", parameters.pods, pods.gpus),
            ):
                if not gpus.any():
                    raise SimulationError(f"{file}: there is no GPU in it", field=name)

    def prepare(self, parameters: Iterable[PlacementParameters]) -> None:
        """Compile the rules, by placing a few pods."""
        rng = np.random.default_rng(0)
        pods = draw_pods(20, rng)
        place(draw_nodes(2), pods, "fgd", rng, _typical(pods, 0.95))

    def run(
        self, parameters: PlacementParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Place the pods in an order of the replicate; `tables` adds a row for each pod."""
        p = parameters
        if p.nodes is None:
            nodes, pods = draw_nodes(p.drawn_nodes), draw_pods(p.drawn_pods, streams("pods"))
        else:
            nodes, pods = self._read(p)
        order = _arrivals(pods, p.demand * _capacity(nodes), streams("arrivals"))
        arrivals, typical = pods.take(order), _typical(pods, p.typical_share)
        placement = place(nodes, arrivals, p.rule, streams("choices"), typical, whole_scores=p.whole_scores)
        rows = {}
        if tables:
            rows["pods"] = pa.table({"pod": order, "node": placement.node, "gpus": placement.gpus})
        return Outcome(_measure(nodes, arrivals, placement, typical), {}, rows)

    def _read(self, p: PlacementParameters) -> tuple[Nodes, Pods]:
        key = tuple(self.file_checksums(p).values())
        if key not in self._clusters:
            nodes = read_nodes(resolve_trace(str(p.nodes)))
            self._clusters[key] = nodes, read_pods(resolve_trace(str(p.pods)), nodes.models)
        return self._clusters[key]


def _capacity(nodes: Nodes) -> int:
    return int(nodes.gpu_capacity.sum())


def _arrivals(pods: Pods, demand: float, rng: np.random.Generator) -> IntArray:
    """Return the indices of pods in order of arrival, as many as ask for that many thousandths of GPUs.

    All pods come once in random order; if that is not enough, drawn ones follow; if it is too much, the last
    ones are left out.
    """
    order = rng.permutation(len(pods))
    while pods.demand[order].sum() < demand:
        order = np.concatenate([order, rng.integers(len(pods), size=len(pods))])
    enough = np.searchsorted(np.cumsum(pods.demand[order]), demand)
    return order[: enough + 1].astype(np.int64)


def _typical(pods: Pods, share: float) -> tuple[Pods, FloatArray]:
    """Return the most frequent requests that make up that share of pods, and how frequent each of them is."""
    requests, of = pods.without_memory().classes()
    counts = np.bincount(of)
    order = np.argsort(-counts, kind="stable")
    kept = order[: np.searchsorted(np.cumsum(counts[order]), share * len(pods)) + 1]
    return requests.take(kept), counts[kept] / counts[kept].sum()


def _measure(
    nodes: Nodes, pods: Pods, placement: Placement, typical: tuple[Pods, FloatArray]
) -> Mapping[str, float]:
    """Return the metrics of a placement of pods, given in order of arrival."""
    capacity, placed = _capacity(nodes), placement.node >= 0
    asked, given = np.cumsum(pods.demand), np.cumsum(np.where(placed, pods.demand, 0))
    full = min(int(np.searchsorted(asked, capacity)), len(pods) - 1)
    refused = np.flatnonzero(~placed)
    first = asked[refused[0]] if len(refused) else asked[-1]
    return {
        "gpu_allocation": given[-1] / capacity,
        "gpu_allocation_at_capacity": given[full] / capacity,
        "gpu_fragmentation": fragmentation(nodes, placement, typical).sum() / capacity,
        "first_refusal": first / capacity,
        "pods_refused": 1 - placed.mean(),
        "cpu_allocation": pods.cpus[placed].sum() / nodes.cpus.sum(),
        "gpus": capacity / 1000,
        "pods": len(pods),
    }
