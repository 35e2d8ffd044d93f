"""The `shutdown` system: days of jobs on a cluster whose idle nodes a rule reserves and switches off."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from cachetools import LRUCache

from gridtune.core.system import (
    EnvironmentSpec,
    FinishedSweep,
    Outcome,
    Streams,
    System,
    SystemParameters,
    WorkloadLoader,
)
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.metrics import SHUTDOWN_METRICS, measure_days, sum_up
from gridtune.systems.shutdown.parameters import CLUSTERS, ShutdownParameters
from gridtune.systems.shutdown.simulator.bounds import least_waste_of_starts
from gridtune.systems.shutdown.simulator.days import Days, build_days
from gridtune.systems.shutdown.simulator.parameters import AdaptiveRule
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.systems.shutdown.tables import day_tables
from gridtune.systems.shutdown.trained import find_policy
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.workload import Workload

__all__ = ["CLUSTERS", "ShutdownParameters", "ShutdownSystem"]

#: Metrics as the paper's own monitor has them, and other parameters that the adaptive rule takes as they are.
_REPORTED = ("energy_waste_reported", "energy_total_reported")
_ADAPTIVE = (
    *("timeout", "max_wait", "eagerness", "max_queue"),
    *("rush_timeout", "rush_jobs", "rush_minutes", "pool", "pool_from", "pool_until"),
)


class ShutdownSystem(System):
    """Nodes that are switched off while idle, decided on once a minute.

    Every day begins with all nodes asleep. Each minute the policy says how many nodes to keep reserved;
    those of them that idle are switched off, and the scheduler (smallest requested area first behind the
    oldest job, with backfilling) starts jobs on the rest, waking sleeping nodes where it must.
    """

    name: ClassVar[str] = "shutdown"
    version: ClassVar[str] = "1"
    environments: ClassVar[Mapping[str, EnvironmentSpec]] = {
        "Shutdown-v0": EnvironmentSpec(
            "gridtune.systems.shutdown.environment:ShutdownEnv",
            "gridtune.systems.shutdown.environment:ShutdownVectorEnv",
        )
    }
    Parameters: ClassVar[type[SystemParameters]] = ShutdownParameters

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, Days] = LRUCache(8)

    metrics = SHUTDOWN_METRICS

    def traces(self, parameters: ShutdownParameters) -> Iterable[str]:
        """Return the one reference: the days and, where they are not the usual, rules and units."""
        return (str(parameters.reference),)

    def code(self, parameters: ShutdownParameters) -> Mapping[str, str]:
        """Return the checksums of the files that are part of what runs: platform and trained policy."""
        files: dict[str, Path] = {}
        if parameters.platform is not None:
            files["platform"] = resolve_trace(parameters.platform)
        if parameters.checkpoint is not None:
            files["checkpoint"] = find_policy(parameters.checkpoint)
        try:
            return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}
        except OSError as error:
            raise SimulationError(f"cannot be read: {error.strerror}", path=error.filename) from error

    def prepare(self, parameters: Iterable[ShutdownParameters]) -> None:
        """Compile the simulator, by living through a minute without jobs."""
        nothing = np.zeros(0, np.int64)
        first, minutes = np.zeros(2, np.int64), np.ones(1, np.int64)
        days, platform = Days(("none",), first, minutes, *[nothing] * 6), Platform()
        outcome, _ = replay(days, platform)
        least_waste_of_starts(days, outcome, platform)

    def run(
        self, parameters: ShutdownParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Live through the days and measure them; `tables` are those of `day_tables`."""
        platform = parameters.cluster_model()
        days = self._days(parameters, load)
        whole = parameters.cut == "whole"
        outcome, record = replay(
            days,
            platform,
            rule=_rule(parameters, days, platform, streams),
            timeout=1 if parameters.timeout is None else parameters.timeout,
            max_stretch=_patience(parameters),
            tau=parameters.tau,
            variant=parameters.variant,
            until_done=whole,
            record=tables and not whole,
        )
        measures = measure_days(days, outcome, platform, tau=parameters.tau)
        metrics = sum_up(measures)
        if parameters.variant != "paper":
            metrics = {name: value for name, value in metrics.items() if name not in _REPORTED}
        notes = {
            "days": len(days),
            "cluster": f"{platform.nodes} × {platform.cores_per_node}",
            "cleaning": dict(load(*self.traces(parameters)).cleaning),
        }
        return Outcome(metrics, notes, day_tables(days, measures, outcome, record) if tables else {})

    def _days(self, parameters: ShutdownParameters, load: WorkloadLoader) -> Days:
        """Return the selected days; the last few are kept, for a block's cells share them."""
        workload = load(*self.traces(parameters))
        p = parameters
        key = (workload.checksum, p.cut, p.minutes, p.subset, p.group, p.window, p.first)
        if key not in self._selections:
            self._selections[key] = _select(workload, parameters)
        return self._selections[key]

    def report(self, sweep: FinishedSweep) -> list[Path]:
        """Write the publication's tables and figures, with the published numbers beside ours."""
        from gridtune.systems.shutdown.report import write  # noqa: PLC0415 (matplotlib)

        return write(sweep)


def _patience(parameters: ShutdownParameters) -> float:
    return parameters.tau if parameters.max_stretch is None else parameters.max_stretch


def _rule(parameters: ShutdownParameters, days: Days, platform: Platform, streams: Streams) -> Any:
    """Return the rule as `replay` takes it: a name, a rule with its numbers, or the actions themselves."""
    if parameters.policy == "adaptive":
        given = {name: getattr(parameters, name) for name in _ADAPTIVE}
        stated = {name: value for name, value in given.items() if value is not None}
        return AdaptiveRule(max_stretch=_patience(parameters), **stated)
    if parameters.policy == "random":
        shape = (len(days), parameters.minutes)
        return streams("reservations").integers(0, platform.nodes, shape, endpoint=True)
    if parameters.policy == "ppo":
        from gridtune.systems.shutdown.learners.playing import play_days  # noqa: PLC0415
        from gridtune.training.checkpoints import load_policy  # noqa: PLC0415

        network = load_policy(find_policy(str(parameters.checkpoint)))
        rng = None if parameters.greedy else streams("actions")
        return play_days(network, days, platform, rng=rng, tau=parameters.tau)
    return parameters.policy


def _select(workload: Workload, parameters: ShutdownParameters) -> Days:

    p = parameters
    days = build_days(workload, cut=p.cut, minutes=p.minutes)
    if p.subset != "all":
        days = days.take(days.subset(p.subset))
    if p.group is not None:
        days = days.take(days.group == p.group)
    if p.window is not None:
        part, parts = map(int, p.window.split("/"))
        days = days.take(np.arange(part - 1, len(days), parts))
    if p.first is not None:
        days = days.take(np.arange(min(p.first, len(days))))
    if len(days) == 0:
        raise SimulationError(f"no day of {workload.name} is left by the selection")
    return days
