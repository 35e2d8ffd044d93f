"""A cluster as it works, and a first search over its settings: the present ones against their neighbours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml
from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from gridtune.batch.metrics.classes import default_classes
from gridtune.core.remarks import TrustLevel
from gridtune.core.system import SuggestedSpace
from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import Outage, SlurmCluster
from gridtune.slurm.comparison import logged_jobs
from gridtune.slurm.requests import Request
from gridtune.workload.workload import Workload

#: The system whose parameters they are.
SYSTEM = "slurm"
#: Its parameter that names the folder of a slurm.conf.
FOLDER = "slurm"

#: The settings that are searched, by the names of parameters: those of `SchedulerParameters` are Slurm's own.
SETTINGS = {
    **{name: name for name in ("bf_interval", "bf_window", "bf_resolution", "bf_max_job_test")},
    **{name: name for name in ("bf_max_job_user", "sched_interval", "default_queue_depth")},
    "scheduler": "SchedulerType",
    "weight_age": "PriorityWeightAge",
    "weight_fair_share": "PriorityWeightFairshare",
    "weight_job_size": "PriorityWeightJobSize",
    "weight_partition": "PriorityWeightPartition",
    "weight_qos": "PriorityWeightQOS",
}
_WEIGHTS = {
    "weight_age": "age",
    "weight_fair_share": "fair_share",
    "weight_job_size": "size",
    "weight_partition": "partition",
    "weight_qos": "qos",
}


def _configured(cluster: SlurmCluster) -> dict[str, Any]:
    """Return the value of each of `SETTINGS` in a cluster's configuration; no weights of priority/basic."""
    values: dict[str, Any] = {
        name: getattr(cluster.clocks, name) for name in SETTINGS if hasattr(cluster.clocks, name)
    }
    values["scheduler"] = "sched/backfill" if cluster.backfill else "sched/builtin"
    if cluster.priorities.multifactor:
        values |= {name: getattr(cluster.priorities, key) for name, key in _WEIGHTS.items()}
    return values


def suggest_study(
    folder: Path,
    cluster: SlurmCluster,
    workload: Workload,
    works: Effective,
    version: str,
    *,
    adaptive: bool = False,
) -> SuggestedSpace:
    """Return the search over intervals, depths and windows, and the weights of age and size where they count.

    The baseline is the cluster that was read from the folder, as it `works`. Each setting has its
    present value, and others below and above it. An adaptive search has all `SETTINGS`: weights that are 0
    now only of age and size, and backfill.

    Raises
    ------
    WorkloadError
        If no job of the log can run on the cluster.
    """

    def around(name: str, factor: int) -> list[int]:
        return sorted({max(1, now[name] // factor), now[name], max(1, now[name]) * factor})

    works.applied(cluster, logged_jobs(workload, cluster).requests)
    now = _configured(cluster)
    dimensions: dict[str, list[Any]] = {}
    if cluster.backfill:
        dimensions["bf_interval"] = around("bf_interval", 2)
        # A window should reach over the longest job.
        dimensions["bf_window"] = around("bf_window", 4)
    dimensions["default_queue_depth"] = around("default_queue_depth", 4)
    for name in ("weight_age", "weight_job_size"):
        if now.get(name):
            dimensions[name] = [0, now[name], 4 * now[name]]
    if adaptive:
        largest = max([value for name, value in now.items() if name in _WEIGHTS] or [0]) or 1000
        for name, value in now.items():
            if name == "scheduler":
                dimensions[name] = ["sched/backfill", "sched/builtin"]
            elif name == "bf_max_job_user":
                dimensions[name] = sorted({0, 10, 50, value})
            elif name not in _WEIGHTS:
                dimensions[name] = sorted({*around(name, 2), *around(name, 4)})
            elif value or name in {"weight_age", "weight_job_size"}:
                dimensions[name] = sorted({0, value, value // 4 or largest // 4, 4 * value or largest})
    wide = {"wait_mean[wide]": "<= 1.05 x baseline"} if "wide" in default_classes(workload) else {}
    return SuggestedSpace(
        question=f"Which settings of Slurm are best for {workload.name}?",
        dimensions=dimensions,
        baseline={name: now[name] for name in dimensions},
        objective=("wait_mean", "bounded_slowdown_mean", "wait_max"),
        fixed={
            **{FOLDER: str(folder.resolve()), "slurm_version": version, "window_mode": "continuous"},
            **({} if works == Effective() else works.settings),
        },
        needs_size=False,
        subject_to={"wait_max": "<= 1.2 x baseline", **wide},
    )


#: The end of an outage that never ends.
_NEVER = 1 << 59


_Share = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True, config={"extra": "forbid"})
class Effective:
    """A cluster as it works, beside its configuration.

    Attributes
    ----------
    nodes_in_service
        The share of nodes that jobs get, of each kind of node: above 0, at most 1.
    release_delay
        Seconds for which nodes are still busy after a job has ended.
    """

    nodes_in_service: _Share = 1.0
    release_delay: Annotated[int, Field(ge=0, lt=_NEVER)] = 0

    @staticmethod
    def of(values: Mapping[str, Any]) -> Effective:
        """Return those of a mapping; other keys are ignored."""
        return Effective(**{one.name: values[one.name] for one in fields(Effective) if one.name in values})

    @staticmethod
    def read(path: Path) -> Effective:
        """Read the file that `gridtune slurm fit` writes.

        Raises
        ------
        WorkloadError
            If it cannot be read, or a value is invalid.
        """
        hint = "`gridtune slurm fit LOG --slurm FOLDER` writes such a file"
        try:
            return Effective(**yaml.safe_load(path.read_text(encoding="utf-8"))["settings"])
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0])
            raise WorkloadError(first["msg"], path=path, field=field, hint=hint) from None
        except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            raise WorkloadError(f"is no fit: {error}", path=path, hint=hint) from None

    @staticmethod
    def trust_in(path: Path) -> TrustLevel:
        """Return the trust that `gridtune slurm fit` wrote into its file, which `read` has read."""
        found = yaml.safe_load(path.read_text(encoding="utf-8")).get("trust")
        return found if found in {"yes", "signs only", "no"} else "not graded"

    @property
    def settings(self) -> dict[str, Any]:
        """By name."""
        return asdict(self)

    def applied(
        self, cluster: SlurmCluster, requests: Sequence[Request]
    ) -> tuple[SlurmCluster, Sequence[Request]]:
        """Return the cluster and the jobs as they work; none is too large for it afterwards."""
        if self.nodes_in_service < 1:
            outage = Outage(0, _NEVER, _out_of_service(cluster, requests, self.nodes_in_service))
            cluster = replace(cluster, outages=(*cluster.outages, outage))
        if self.release_delay:
            requests = [replace(one, run_time=one.run_time + self.release_delay) for one in requests]
        return cluster, requests


def _out_of_service(cluster: SlurmCluster, requests: Sequence[Request], share: float) -> tuple[int, ...]:
    """Return nodes of each kind, so many that the share is left; all of a kind stay that a job needs."""
    inside: dict[int, list[str]] = defaultdict(list)
    for name, partition in cluster.partitions.items():
        for number in partition.nodes:
            inside[number].append(name)
    kinds: dict[Any, list[int]] = defaultdict(list)
    for number, node in enumerate(cluster.nodes):
        key = (node.cpus, node.memory, tuple(node.gpus.items()), node.features, tuple(inside[number]))
        kinds[key].append(number)
    out: set[int] = set()
    for members in kinds.values():
        # Evenly spread; one stays at least.
        count = min(len(members) - 1, round((1 - share) * len(members)))
        out.update(members[k] for k in np.linspace(0, len(members) - 1, count).astype(int) if count)
    shapes = {(one.partitions, one.least_nodes, one.cpus, *one.shape): one for one in requests}
    for request in shapes.values():
        for name in request.partitions:
            partition = cluster.partitions[name]
            able = [
                number
                for number in partition.nodes
                if request.suits(cluster.nodes[number], partition) and request.has_gpus(cluster.nodes[number])
            ]
            left = [cluster.nodes[number].cpus for number in able if number not in out]
            if len(left) < request.least_nodes or sum(left) < request.cpus:
                out -= set(able)
    return tuple(sorted(out))
