"""The parameters of the `placement` system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from gridtune.core.system import Count, SystemParameters
from gridtune.systems.placement.simulator import Rule

__all__ = ["PlacementParameters"]


class PlacementParameters(SystemParameters):
    """A cluster with GPUs, the pods that arrive, and the rule that places them."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Common": ("rule", "nodes", "pods", "demand"),
        "Scores": ("whole_scores", "typical_share"),
        "Drawn cluster": ("drawn_nodes", "drawn_pods"),
    }

    rule: Rule = Field(
        "fgd",
        description="node of a pod: random; first_fit; best_fit, least processors and GPUs left; "
        "least_waste, fewest GPUs left; dot_product, smallest product of free and requested; clustering, "
        "with pods of as many GPUs; packing, GPUs in use first; fgd, where fragmentation grows least",
    )
    nodes: str | None = Field(
        None,
        description="CSV file with the columns cpu_milli, memory_mib, gpu, model; default: drawn nodes",
        examples=["openb_node_list_gpu_node.csv"],
    )
    pods: str | None = Field(
        None,
        description="CSV file with the columns cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec; "
        "default: drawn pods",
        examples=["openb_pod_list_default.csv"],
    )
    demand: Annotated[float, Field(gt=0, le=10)] = Field(
        1.3,
        description="GPUs that all pods ask for, over those of the cluster; pods are repeated or left out",
    )
    whole_scores: bool = Field(
        True, description="nodes' scores are rounded down to whole numbers of 0 to 100, as in Kubernetes"
    )
    typical_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.95, description="fgd expects the most frequent requests that make up this share of the pods"
    )
    drawn_nodes: Count = Field(60, description="nodes of a drawn cluster")
    drawn_pods: Count = Field(400, description="pods to draw, before they are repeated or left out")

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
