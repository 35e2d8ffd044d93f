"""The `shutdown` system: days of jobs on a cluster whose idle nodes a rule reserves and switches off."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from gridtune.errors import GridtuneError, SimulationError
from gridtune.simulation.platform import NodePower, Platform, read_platform
from gridtune.systems.logs import CleanRules, Kept, Window, as_read
from gridtune.systems.system import (
    DAYS_MARK,
    Outcome,
    Streams,
    SystemParameters,
    WorkloadLoader,
    register_system,
)
from gridtune.workload.catalogue import resolve_trace

if TYPE_CHECKING:
    import pyarrow as pa

    from gridtune.simulation.shutdown.days import Days
    from gridtune.workload.workload import Workload

__all__ = ["CLUSTERS", "ShutdownParameters", "ShutdownSystem"]

#: The paper's clusters: nodes × cores of each.
CLUSTERS = {"taurus": (14, 12), "orion": (4, 12), "graphite": (4, 16), "econome": (22, 16)}
#: Units that Batsim files are taken to be in: seconds in theirs of time, flops a processor does in one.
_UNITS = (60.0, 1e6)
#: Parameters of a node's power, and what `NodePower` calls them.
_POWER = {
    "idle_watts": "idle",
    "computing_watts": "computing",
    "sleeping_watts": "off",
    "switching_off_watts": "switching_off",
    "switching_on_watts": "switching_on",
    "switch_off_minutes": "switch_off_time",
    "switch_on_minutes": "switch_on_time",
}
_REPORTED = ("energy_waste_reported", "energy_total_reported")

Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
Minutes = Annotated[int, Field(ge=1)] | None


class ShutdownParameters(SystemParameters):
    """The parameters of one run over a set of days."""

    trace: str = Field(
        description="the days: a folder or tar archive of logs, each a day; one Batsim file; or a long log, "
        "which is cut into days",
        examples=["taurus-days.tar.xz", "kth-sp2"],
    )
    subset: Literal["all", "train", "test"] = Field(
        "all", description="days of the folders train or test; where there are none, every fifth is for test"
    )
    group: Annotated[int, Field(ge=1, le=5)] | None = Field(
        None,
        description="only days of this group by their share of sequential submissions: below 25, 50, 75, "
        "100 %, and 100 %",
    )
    window: Window | None = Field(
        None, description="only every n-th of these days, from the i-th on: n alike parts", examples=["3/10"]
    )
    first: Annotated[int, Field(gt=0)] | None = Field(
        None, description="only the first so many of these days", examples=[100]
    )
    cut: Literal["auto", "days", "whole"] = Field(
        "auto",
        description="auto: each log of a folder is a day, a single log is cut at its midnights; days: cut "
        "every log; whole: live through each log until its jobs have ended",
    )
    minutes: Annotated[int, Field(gt=0)] = Field(1440, description="length of a day")
    time_unit: Annotated[float, Field(gt=0)] = Field(
        _UNITS[0], description="seconds in the unit of time of Batsim and platform files"
    )
    speed: Annotated[float, Field(gt=0)] = Field(
        _UNITS[1], description="Batsim files: flops a processor does in that unit"
    )
    clean: CleanRules = Field(
        ("default",),
        description="cleaning rules in order; `default` stands for the default ones, `none` for no rule",
    )

    policy: Literal["timeout", "oracle", "random", "always_on", "ppo"] = Field(
        "timeout",
        description="timeout: switch off after so many idle minutes; oracle: the paper's OR*, which knows "
        "run times; random: any reservation, each minute anew; always_on: switch nothing off",
    )
    timeout: Annotated[int, Field(ge=0)] | None = Field(
        None, description="with policy=timeout: whole idle minutes before switching off; default 1"
    )
    checkpoint: str | None = Field(
        None, description="with policy=ppo: file of the trained policy", examples=["results/taurus/best.pt"]
    )
    greedy: bool = Field(
        False, description="with policy=ppo: always the likeliest action, instead of drawing by probability"
    )
    max_stretch: Annotated[float, Field(ge=0)] | None = Field(
        None, description="with policy=oracle: share of its walltime it lets a job wait; default: tau"
    )
    tau: Annotated[float, Field(ge=0)] = Field(
        0.5, description="share of its walltime from which on a job that waits is late (the paper's τ)"
    )
    variant: Literal["paper", "exact"] = Field(
        "paper",
        description="whom the reward calls late: paper, as its authors' code, only jobs that the "
        "reservation holds back; exact, as the paper's equation 5, every late job in the queue",
    )

    cluster: Literal["taurus", "orion", "graphite", "econome"] = Field(
        "taurus", description="shape: 14 × 12, 4 × 12, 4 × 16 or 22 × 16 nodes × cores"
    )
    platform: str | None = Field(
        None, description="Batsim platform file that gives shape, power and switching times instead"
    )
    nodes: Annotated[int, Field(gt=0)] | None = Field(None, description="number of nodes")
    cores_per_node: Annotated[int, Field(gt=0)] | None = Field(None, description="cores of each node")
    idle_watts: Watts = Field(None, description="power of a node without work; default 95")
    computing_watts: Watts = Field(None, description="power of a node with all cores busy; default 190")
    sleeping_watts: Watts = Field(None, description="power of a node that is off; default 9")
    switching_off_watts: Watts = Field(None, description="power while switching off; default 101")
    switching_on_watts: Watts = Field(None, description="power while switching on; default 125")
    switch_off_minutes: Minutes = Field(None, description="how long switching off takes; default 3")
    switch_on_minutes: Minutes = Field(None, description="how long switching on takes; default 1")

    @model_validator(mode="after")
    def _belong_together(self) -> ShutdownParameters:
        if self.timeout is not None and self.policy != "timeout":
            raise ValueError(f"timeout={self.timeout} has no effect with policy={self.policy}")
        if self.max_stretch is not None and self.policy != "oracle":
            raise ValueError(f"max_stretch={self.max_stretch} has no effect with policy={self.policy}")
        if self.policy in ("random", "ppo") and self.cut == "whole":
            raise ValueError(f"policy={self.policy} needs days of a known length, so not cut=whole")
        if (self.checkpoint is None) == (self.policy == "ppo"):
            missing = "needs a checkpoint" if self.checkpoint is None else "takes no checkpoint"
            raise ValueError(f"policy={self.policy} {missing}")
        if self.greedy and self.policy != "ppo":
            raise ValueError(f"greedy=true has no effect with policy={self.policy}")
        if "?" in self.trace:
            raise ValueError("a trace's name has no question mark")
        return self

    @model_validator(mode="after")
    def _platform_is_sound(self) -> ShutdownParameters:
        try:
            self.cluster_model()
        except GridtuneError as fault:
            raise ValueError(str(fault)) from None
        return self

    def cluster_model(self) -> Platform:
        """Return the cluster: that of the platform file or the name, with what is given besides."""
        base = Platform(*CLUSTERS[self.cluster])
        if self.platform is not None:
            base = read_platform(resolve_trace(self.platform), time_unit=self.time_unit, step=60)
        given = {theirs: getattr(self, ours) for ours, theirs in _POWER.items()}
        power = {name: getattr(base.power, name) if value is None else value for name, value in given.items()}
        return Platform(
            base.nodes if self.nodes is None else self.nodes,
            base.cores_per_node if self.cores_per_node is None else self.cores_per_node,
            NodePower(**power),
        )


class ShutdownSystem:
    """Nodes that are switched off while idle, decided on once a minute.

    Every day begins with all nodes asleep. Each minute the policy says how many nodes to keep reserved;
    those of them that idle are switched off, and the scheduler (smallest requested area first behind the
    oldest job, with backfilling) starts jobs on the rest, waking sleeping nodes where it must.
    """

    name: ClassVar[str] = "shutdown"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = ShutdownParameters

    def __init__(self) -> None:
        self._kept: Kept[Days] = Kept()

    @property
    def directions(self) -> Mapping[str, str]:
        """Every metric's better direction."""
        from gridtune.metrics.shutdown import SHUTDOWN_METRICS  # noqa: PLC0415

        return {name: metric.direction for name, metric in SHUTDOWN_METRICS.items()}

    @property
    def units(self) -> Mapping[str, str]:
        """Every metric's unit."""
        from gridtune.metrics.shutdown import SHUTDOWN_METRICS  # noqa: PLC0415

        return {name: metric.unit for name, metric in SHUTDOWN_METRICS.items()}

    def traces(self, parameters: ShutdownParameters) -> Iterable[str]:
        """Return the one reference: the days and, where they are not the usual, rules and units."""
        usual = parameters.clean == ("default",)
        reference = parameters.trace if usual else as_read(parameters.trace, parameters.clean)
        units = (parameters.time_unit, parameters.speed)
        return (reference + DAYS_MARK + ("" if units == _UNITS else f"={units[0]!r},{units[1]!r}"),)

    def code(self, parameters: ShutdownParameters) -> Mapping[str, str]:
        """Return the checksums of the files that are part of what runs: platform and trained policy."""
        files: dict[str, Path] = {}
        if parameters.platform is not None:
            files["platform"] = resolve_trace(parameters.platform)
        if parameters.checkpoint is not None:
            files["checkpoint"] = Path(parameters.checkpoint)
        try:
            return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}
        except OSError as error:
            raise SimulationError(f"cannot be read: {error.strerror}", path=error.filename) from error

    def prepare(self, parameters: Iterable[ShutdownParameters]) -> None:
        """Compile the simulator, by living through a minute without jobs."""
        from gridtune.simulation.shutdown.days import Days  # noqa: PLC0415
        from gridtune.simulation.shutdown.replay import replay  # noqa: PLC0415

        nothing = np.zeros(0, np.int64)
        first, minutes = np.zeros(2, np.int64), np.ones(1, np.int64)
        replay(Days(("none",), first, minutes, *[nothing] * 6))

    def run(
        self, parameters: ShutdownParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Live through the days and measure them; `tables` adds a row for each day."""
        from gridtune.metrics.shutdown import measure_days, sum_up  # noqa: PLC0415
        from gridtune.simulation.shutdown.replay import replay  # noqa: PLC0415

        platform = parameters.cluster_model()
        days = self._days(parameters, load)
        rule: Any = parameters.policy
        if rule == "random":
            shape = (len(days), parameters.minutes)
            rule = streams("reservations").integers(0, platform.nodes, shape, endpoint=True)
        elif rule == "ppo":
            from gridtune.agents.checkpoints import load_policy  # noqa: PLC0415
            from gridtune.agents.playing import play_days  # noqa: PLC0415

            network = load_policy(str(parameters.checkpoint))
            rng = None if parameters.greedy else streams("actions")
            rule = play_days(network, days, platform, rng=rng, tau=parameters.tau)
        stretch = parameters.tau if parameters.max_stretch is None else parameters.max_stretch
        outcome, _ = replay(
            days,
            platform,
            rule=rule,
            timeout=1 if parameters.timeout is None else parameters.timeout,
            max_stretch=stretch,
            tau=parameters.tau,
            variant=parameters.variant,
            until_done=parameters.cut == "whole",
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
        return Outcome(metrics, notes, {"days": _day_table(days, measures)} if tables else {})

    def _days(self, parameters: ShutdownParameters, load: WorkloadLoader) -> Days:
        """Return the selected days; the last few are kept, for a block's cells share them."""
        workload = load(*self.traces(parameters))
        p = parameters
        key = (workload.checksum, p.cut, p.minutes, p.subset, p.group, p.window, p.first)
        return self._kept.get(key, lambda: _select(workload, parameters))


def _select(workload: Workload, parameters: ShutdownParameters) -> Days:
    from gridtune.simulation.shutdown.days import build_days  # noqa: PLC0415

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


def _day_table(days: Days, measures: Mapping[str, Any]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415

    columns = {name: column for name, column in measures.items() if name != "days"}
    return pa.table({"day": list(days.names), "group": days.group, **columns})


register_system(ShutdownSystem())
