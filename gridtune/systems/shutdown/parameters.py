"""The `shutdown` system's parameters: which days, which policy, which cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gridtune.core.log_parameters import LogParameters, Window
from gridtune.errors import GridtuneError
from gridtune.systems.shutdown.simulator.platform import NodePower, Platform, read_platform
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.references import USUAL_UNITS, WorkloadReference

__all__ = ["CLUSTERS", "ShutdownParameters"]

#: The paper's clusters: nodes × cores of each.
CLUSTERS = {"taurus": (14, 12), "orion": (4, 12), "graphite": (4, 16), "econome": (22, 16)}
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
#: Policies that a parameter is for, where that is not all of them.
_FOR = {
    "timeout": ("timeout", "adaptive"),
    "max_stretch": ("oracle", "adaptive"),
    **dict.fromkeys(
        ("max_wait", "eagerness", "max_queue", "rush_timeout", "rush_jobs", "rush_minutes"), ("adaptive",)
    ),
    **dict.fromkeys(("pool", "pool_from", "pool_until"), ("adaptive",)),
}

Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
Minutes = Annotated[int, Field(ge=1)] | None
Whole = Annotated[int, Field(ge=0)]
Hour = Annotated[int, Field(ge=0, le=24)]


class ShutdownParameters(LogParameters):
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
        USUAL_UNITS[0], description="seconds in the unit of time of Batsim and platform files"
    )
    speed: Annotated[float, Field(gt=0)] = Field(
        USUAL_UNITS[1], description="Batsim files: flops a processor does in that unit"
    )

    policy: Literal["timeout", "adaptive", "oracle", "random", "always_on", "ppo"] = Field(
        "timeout",
        description="timeout: switch off after so many idle minutes; adaptive: let jobs wait for nodes that "
        "are on; oracle: the paper's OR*, which knows run times; random: any reservation, each minute anew; "
        "always_on: switch nothing off; ppo: a trained network",
    )
    timeout: Whole | None = Field(
        None,
        description="with policy=timeout and adaptive: whole idle minutes before switching off; default 1, "
        "adaptive 0",
    )
    checkpoint: str | None = Field(
        None, description="with policy=ppo: file of the trained policy", examples=["results/taurus/best.pt"]
    )
    greedy: bool = Field(
        False, description="with policy=ppo: always the likeliest action, instead of drawing by probability"
    )
    max_stretch: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="with policy=oracle and adaptive: share of its walltime a job is let wait; default: tau",
    )
    max_wait: Whole | None = Field(
        None, description="with policy=adaptive: minutes that any job is let wait at most; default 60"
    )
    eagerness: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None,
        description="with policy=adaptive: who could wait starts if no larger share of his cores than this "
        "has to be switched on; default 0.6",
    )
    max_queue: Whole | None = Field(
        None,
        description="with policy=adaptive: with more jobs waiting, nobody is let wait; default: none",
    )
    rush_timeout: Whole | None = Field(
        None, description="with policy=adaptive: timeout in a rush, where that is longer; default 0"
    )
    rush_jobs: Whole | None = Field(
        None, description="with policy=adaptive: a rush is when so many jobs came …; default: never"
    )
    rush_minutes: Whole | None = Field(
        None, description="with policy=adaptive: … in so many minutes; default 10"
    )
    pool: Whole | None = Field(
        None, description="with policy=adaptive: idle nodes that are kept on, at certain hours; default 0"
    )
    pool_from: Hour | None = Field(None, description="with policy=adaptive: … from this hour; default 0")
    pool_until: Hour | None = Field(None, description="with policy=adaptive: … until this hour; default 24")
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

    @property
    def reference(self) -> WorkloadReference:
        """The days, with the units of Batsim files where they are not the usual ones."""
        rules = None if self.clean == ("default",) else self.rules
        return WorkloadReference(self.trace, rules, days=True, units=(self.time_unit, self.speed))

    @model_validator(mode="after")
    def _belong_together(self) -> ShutdownParameters:
        for name, policies in _FOR.items():
            value = getattr(self, name)
            if value is not None and self.policy not in policies:
                raise ValueError(f"{name}={value} has no effect with policy={self.policy}")
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
