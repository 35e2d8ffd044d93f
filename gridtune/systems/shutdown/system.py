"""The `shutdown` system: days of jobs on a cluster whose idle nodes are switched off by a policy."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from cachetools import LRUCache

from gridtune.core.measures import Measure
from gridtune.core.remarks import WALLTIMES, kill_remarks, lost_work
from gridtune.core.sources import file_checksums
from gridtune.core.system import Outcome, Streams, System, SystemParameters, WorkloadLoader
from gridtune.errors import SimulationError, require_module
from gridtune.systems.shutdown.metrics import (
    SHUTDOWN_METRICS,
    combine_days,
    day_tables,
    measure_days,
)
from gridtune.systems.shutdown.parameters import NETWORKS, ShutdownParameters
from gridtune.systems.shutdown.simulator.bounds import waste_bounds
from gridtune.systems.shutdown.simulator.days import Days, build_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.systems.shutdown.training import find_policy, load_published, play_days
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.workload import Workload

#: Metrics as the paper's own monitor reports them.
_REPORTED = ("energy_waste_reported", "energy_total_reported")


class ShutdownSystem(System):
    """Nodes that are switched off while idle, decided on once a minute.

    Every day begins with all nodes asleep. Each minute the policy says how many nodes to reserve. Idle nodes
    among them are switched off; the scheduler (the oldest job, then smallest requested area first, with
    backfilling) starts jobs on the rest and wakes sleeping nodes where it has to.
    """

    name: ClassVar[str] = "shutdown"
    version: ClassVar[str] = "1"
    environments: ClassVar[Mapping[str, str]] = {
        "Shutdown-v0": "gridtune.systems.shutdown.environment:ShutdownEnv"
    }
    trainings: ClassVar[Mapping[str, str]] = {"ppo": "gridtune.systems.shutdown.training:ShutdownPPO"}
    Parameters: ClassVar[type[SystemParameters]] = ShutdownParameters
    metrics: ClassVar[Mapping[str, Measure]] = SHUTDOWN_METRICS
    papers: ClassVar[tuple[Path, ...]] = (Path(__file__).with_name("paper.yaml"),)

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, Days] = LRUCache(8)

    def file_checksums(self, parameters: ShutdownParameters) -> Mapping[str, str]:
        """Return the checksums of the platform file and of the trained policy or its weights."""
        files: dict[str, Path] = {}
        if parameters.platform is not None:
            files["platform"] = resolve_trace(parameters.platform)
        if parameters.checkpoint is not None:
            files["checkpoint"] = find_policy(parameters.checkpoint)
        if parameters.weights is not None:
            files["weights"] = Path(parameters.weights)
        return file_checksums(files)

    def modelled_features(self, parameters: ShutdownParameters) -> Collection[str]:
        """Return what the simulator models: walltimes; where logs are days, they stand as partitions."""
        return (WALLTIMES, "partitions")

    def prepare(self, parameters: Iterable[ShutdownParameters]) -> None:
        """Compile the simulator: run one minute without jobs."""
        no_jobs = np.zeros(0, np.int64)
        first, minutes = np.zeros(2, np.int64), np.ones(1, np.int64)
        days, platform = Days(("none",), first, minutes, *[no_jobs] * 6), Platform()
        results, _ = replay(days, platform)
        waste_bounds(days, results, platform)

    def preflight(self, parameters: ShutdownParameters, load: WorkloadLoader) -> None:
        """Refuse a log without days to simulate, and a learned policy where torch is missing."""
        if parameters.policy in NETWORKS:
            require_module("torch", user=f"policy={parameters.policy}", extra="agents")
        self._days(parameters, load)

    def run(
        self, parameters: ShutdownParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Simulate the days and measure them; `tables` adds those of `day_tables`."""
        platform = parameters.cluster_model()
        days, log = self._days(parameters, load), load(*self.traces(parameters))
        whole = parameters.cut == "whole"
        p = parameters
        results, _ = replay(
            days,
            platform,
            rule=_rule(p, days, platform, streams),
            timeout=p.timeout,
            max_stretch=p.tau if p.max_stretch is None else p.max_stretch,
            max_wait=p.max_wait,
            eagerness=0.6 if p.eagerness is None else p.eagerness,
            tau=parameters.tau,
            variant=parameters.variant,
            until_done=whole,
        )
        measures = measure_days(days, results, platform, tau=parameters.tau)
        metrics = combine_days(measures)
        if parameters.variant != "paper":
            metrics = {name: value for name, value in metrics.items() if name not in _REPORTED}
        notes = {
            "days": len(days),
            "cluster": f"{platform.nodes} × {platform.cores_per_node}",
            "cleaning": dict(log.cleaning),
            **kill_remarks(log.contents, killing=True),
            **lost_work(days.run, np.minimum(days.run, days.walltime), days.cores),
        }
        return Outcome(metrics, notes, day_tables(days, measures, results) if tables else {})

    def _days(self, parameters: ShutdownParameters, load: WorkloadLoader) -> Days:
        """Return the selected days; the last few selections are cached, since a sweep's cells share them."""
        workload = load(*self.traces(parameters))
        p = parameters
        key = (workload.checksum, p.cut, p.minutes, p.subset, p.sequential_group, p.part, p.first)
        if key not in self._selections:
            self._selections[key] = _select(workload, parameters)
        return self._selections[key]


def _rule(parameters: ShutdownParameters, days: Days, platform: Platform, streams: Streams) -> Any:
    """Return the rule as `replay` takes it: a name, or the actions themselves."""
    if parameters.policy == "random":
        shape = (len(days), parameters.minutes)
        return streams("reservations").integers(0, platform.nodes, shape, endpoint=True)
    if parameters.policy in NETWORKS:
        from gridtune.training.networks import load_policy  # noqa: PLC0415 (torch)

        if parameters.weights is not None:
            network = load_published(parameters.weights)
        else:
            network = load_policy(find_policy(str(parameters.checkpoint)))
        rng = None if parameters.greedy else streams("actions")
        return play_days(network, days, platform, rng=rng, tau=parameters.tau)
    return parameters.policy


def _select(workload: Workload, parameters: ShutdownParameters) -> Days:
    p = parameters
    days = build_days(workload, cut=p.cut, minutes=p.minutes)
    if p.subset != "all":
        days = days.take(days.subset(p.subset))
    if p.sequential_group is not None:
        days = days.take(days.group == p.sequential_group)
    if p.part is not None:
        part, parts = map(int, p.part.split("/"))
        days = days.take(np.arange(part - 1, len(days), parts))
    if p.first is not None:
        days = days.take(np.arange(min(p.first, len(days))))
    if len(days) == 0:
        raise SimulationError(f"the selection leaves no day of {workload.name}")
    return days
