"""The `placement` system: pods arrive at a cluster of shared GPUs until it is full."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Self

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from pydantic import Field, model_validator

from gridtune.core.measures import Measure, read_metrics
from gridtune.core.sources import file_checksums
from gridtune.core.system import Count, Outcome, Streams, System, SystemParameters, WorkloadLoader, described
from gridtune.errors import SimulationError
from gridtune.systems.placement.cluster import GpuNodes, Pods
from gridtune.systems.placement.simulator import Placement, Rule, fragmentation, place
from gridtune.types import FloatArray
from gridtune.workload.catalogue import resolve_trace


@described(__file__)
class _PlacementParameters(SystemParameters):
    """A cluster with GPUs, the pods that arrive, and the rule that places them."""

    rule: Rule = "fgd"
    nodes: str | None = None
    pods: str | None = None
    demand: Annotated[float, Field(gt=0, le=10)] = 1.3
    whole_scores: bool = True
    typical_share: Annotated[float, Field(gt=0, le=1)] = 0.95
    drawn_nodes: Count = 60
    drawn_pods: Count = 400

    @model_validator(mode="after")
    def _check(self) -> Self:
        files = ("nodes", self.nodes), ("pods", self.pods)
        if (self.nodes is None) != (self.pods is None):
            missing, given = (name for name, _ in sorted(files, key=lambda file: file[1] is not None))
            raise ValueError(f"{given} is a file, so {missing} must be one too")
        if self.nodes is not None:
            self._refuse_idle([(("drawn_nodes", "drawn_pods"), "files of nodes and pods")])
        if self.rule == "random":
            self._refuse_idle([(("whole_scores",), "rule=random")])
        return self


class PlacementSystem(System):
    """Pods on the nodes of a cluster whose GPUs can be shared.

    Pods arrive in random order until they have asked for more GPUs than there are; none leaves. The
    result is the number of GPUs given to pods in the end: the rest is stranded in parts that nobody can use.
    """

    name: ClassVar[str] = "placement"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = _PlacementParameters
    metrics = read_metrics(__file__, Measure)

    def __init__(self) -> None:
        self._clusters: LRUCache[tuple[str, ...], tuple[GpuNodes, Pods]] = LRUCache(4)

    def file_checksums(self, parameters: _PlacementParameters) -> Mapping[str, str]:
        """Return the checksums of the files of nodes and pods."""
        files = {"nodes": parameters.nodes, "pods": parameters.pods}
        return file_checksums({name: resolve_trace(file) for name, file in files.items() if file is not None})

    def preflight(self, parameters: _PlacementParameters, load: WorkloadLoader) -> None:
        """Refuse files with faults, and clusters and pods without GPUs."""
        if parameters.nodes is not None:
            nodes, pods = self._read(parameters)
            for name, gpus in {"nodes": nodes.gpus, "pods": pods.gpus}.items():
                if not gpus.any():
                    raise SimulationError(f"{getattr(parameters, name)}: there is no GPU in it", field=name)

    def prepare(self, parameters: Iterable[_PlacementParameters]) -> None:
        """Compile the rules, by placing a few pods."""
        rng = np.random.default_rng(0)
        pods = Pods.drawn(20, rng)
        place(GpuNodes.drawn(2), pods, "fgd", rng, pods.typical(0.95))

    def run(
        self, parameters: _PlacementParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Place the pods in an order of the replicate; `tables` adds a row for each pod."""
        p = parameters
        if p.nodes is None:
            nodes, pods = GpuNodes.drawn(p.drawn_nodes), Pods.drawn(p.drawn_pods, streams("pods"))
        else:
            nodes, pods = self._read(p)
        order = pods.arrivals(p.demand * nodes.gpu_capacity, streams("arrivals"))
        arrivals, typical = pods.take(order), pods.typical(p.typical_share)
        placement = place(nodes, arrivals, p.rule, streams("choices"), typical, whole_scores=p.whole_scores)
        rows = {}
        if tables:
            rows["pods"] = pa.table({"pod": order, "node": placement.node, "gpus": placement.gpus})
        return Outcome(_measure(nodes, arrivals, placement, typical), {}, rows)

    def _read(self, p: _PlacementParameters) -> tuple[GpuNodes, Pods]:
        key = tuple(self.file_checksums(p).values())
        if key not in self._clusters:
            nodes = GpuNodes.read(resolve_trace(str(p.nodes)))
            self._clusters[key] = nodes, Pods.read(resolve_trace(str(p.pods)), nodes.models)
        return self._clusters[key]


def _measure(
    nodes: GpuNodes, pods: Pods, placement: Placement, typical: tuple[Pods, FloatArray]
) -> Mapping[str, float]:
    """Return the metrics of a placement of pods, given in order of arrival."""
    capacity, placed = nodes.gpu_capacity, placement.node >= 0
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
