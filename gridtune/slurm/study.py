"""The first search over a cluster's settings: the present ones against their neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gridtune.core.system import SuggestedSpace
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.comparison import logged_jobs
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.effective import Effective
from gridtune.workload.workload import Workload

__all__ = ["FOLDER", "SETTINGS", "SYSTEM", "configured", "suggest_study"]

#: The system whose parameters they are.
SYSTEM = "slurm"
#: Its parameter that names the folder of a slurm.conf.
FOLDER = "slurm"

#: The settings that are searched, by the names of parameters: those of `SchedulerParameters` are Slurm's own.
SETTINGS = {
    "bf_interval": "bf_interval",
    "bf_window": "bf_window",
    "bf_resolution": "bf_resolution",
    "bf_max_job_test": "bf_max_job_test",
    "bf_max_job_user": "bf_max_job_user",
    "sched_interval": "sched_interval",
    "default_queue_depth": "default_queue_depth",
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


def configured(cluster: SlurmCluster) -> dict[str, Any]:
    """Return the value of each of `SETTINGS` in a cluster's configuration; no weights of priority/basic."""
    values: dict[str, Any] = {
        name: getattr(cluster.clocks, name) for name in SETTINGS if hasattr(cluster.clocks, name)
    }
    values["scheduler"] = "sched/backfill" if cluster.backfill else "sched/builtin"
    if cluster.priorities.multifactor:
        values |= {name: getattr(cluster.priorities, key) for name, key in _WEIGHTS.items()}
    return values


def suggest_study(folder: Path, workload: Workload, works: Effective) -> SuggestedSpace:
    """Return the search over intervals, depths and windows, and the weights of age and size where they count.

    The baseline is the configuration in the folder, on the cluster as it `works`. Each setting has its
    present value, and others below and above it.

    Raises
    ------
    WorkloadError
        Naming file and line of what is wrong with the configuration; or if no job of the log can run on it.
    """
    cluster = read_cluster(folder)
    works.applied(cluster, logged_jobs(workload, cluster).requests)
    now = configured(cluster)
    dimensions: dict[str, list[int]] = {}
    if cluster.backfill:
        dimensions["bf_interval"] = _around(now["bf_interval"], 2)
        # A window should reach over the longest job.
        dimensions["bf_window"] = _around(now["bf_window"], 4)
    dimensions["default_queue_depth"] = _around(now["default_queue_depth"], 4)
    for name in ("weight_age", "weight_job_size"):
        if now.get(name):
            dimensions[name] = [0, now[name], 4 * now[name]]
    return SuggestedSpace(
        question=f"Which settings of Slurm are best for {workload.name}?",
        dimensions=dimensions,
        baseline={name: now[name] for name in dimensions},
        objective=("wait_mean", "bounded_slowdown_mean", "wait_max"),
        fixed={FOLDER: str(folder.resolve()), **({} if works == Effective() else works.settings)},
        needs_size=False,
        subject_to={"wait_max": "<= 1.2 x baseline"},
    )


def _around(value: int, factor: int) -> list[int]:
    return sorted({max(1, value // factor), value, max(1, value) * factor})
