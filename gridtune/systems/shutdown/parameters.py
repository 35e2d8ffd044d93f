"""The `shutdown` system's parameters: which days, which policy, which cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from gridtune.core.system import Count, LogParameters, Window
from gridtune.core.usage import POWER_OPTIONS
from gridtune.errors import GridtuneError
from gridtune.systems.shutdown.simulator.platform import TRACES, Platform, read_platform
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.files import USUAL_UNITS, WorkloadReference

#: The paper's clusters: nodes × cores of each.
CLUSTERS = {name: trace[:2] for name, trace in TRACES.items()}
#: Parameters of a node's power, and the fields of `NodePower`.
_POWER = {
    **POWER_OPTIONS,
    "switch_off_minutes": "switch_off_time",
    "switch_on_minutes": "switch_on_time",
}
#: The policies that a parameter belongs to, where that is not all of them.
_POLICIES_OF = {
    "timeout": ("timeout", "adaptive", "lookahead"),
    "max_stretch": ("oracle", "adaptive", "lookahead"),
    "max_wait": ("adaptive", "lookahead"),
    "eagerness": ("adaptive", "lookahead"),
}

#: Policies that are networks.
_NETWORKS = ("ppo", "deepshutdown")

Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
Minutes = Annotated[int, Field(ge=1)] | None
Whole = Annotated[int, Field(ge=0)]


class ShutdownParameters(LogParameters):
    """The parameters of one run over a set of days."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Common": ("trace", "policy", "timeout", "cluster", "tau", "checkpoint", "weights"),
        "Days": (
            *("clean", "first", "subset", "sequential_group", "part", "cut", "minutes", "time_unit"),
            *("speed",),
        ),
        "Cluster": (
            *("platform", "nodes", "cores_per_node", "idle_watts", "computing_watts", "sleeping_watts"),
            *("switching_off_watts", "switching_on_watts", "switch_off_minutes", "switch_on_minutes"),
            *("variant",),
        ),
        "Rules": ("max_stretch", "max_wait", "eagerness"),
        "Trained policy": ("greedy",),
    }

    renamed_parameters: ClassVar[Mapping[str, str]] = {"group": "sequential_group", "window": "part"}
    window_parameter: ClassVar[str] = "part"

    trace: str = Field(
        description="the days: a folder or tar archive of logs, each a day; one Batsim file; or a long log, "
        "which is cut into days",
        examples=["taurus-days.tar.xz", "kth-sp2"],
    )
    subset: Literal["all", "train", "test"] = Field(
        "all",
        description="only the days of the folders train or test; without such folders, every fifth day is "
        "a test day",
    )
    sequential_group: Annotated[int, Field(ge=1, le=5)] | None = Field(
        None,
        serialization_alias="group",
        description="only the days of this group by share of sequential submissions: below 25, 50, 75, "
        "100 %, and 100 %",
    )
    part: Window | None = Field(
        None,
        serialization_alias="window",
        description="`i/n`: only every n-th of these days, starting with the i-th",
        examples=["3/10"],
    )
    first: Count | None = Field(None, description="only the first N of these days", examples=[100])
    cut: Literal["auto", "days", "whole"] = Field(
        "auto",
        description="auto: each log of a folder is a day, a single log is cut at midnight; days: cut every "
        "log; whole: simulate each log until all its jobs have ended",
    )
    minutes: Count = Field(1440, description="length of a day, in minutes")
    time_unit: Annotated[float, Field(gt=0)] = Field(
        USUAL_UNITS[0], description="seconds in the time unit of Batsim and platform files"
    )
    speed: Annotated[float, Field(gt=0)] = Field(
        USUAL_UNITS[1], description="Batsim files: flops that a processor computes per time unit"
    )

    policy: Literal[
        "timeout", "adaptive", "lookahead", "oracle", "random", "always_on", "ppo", "deepshutdown"
    ] = Field(
        "timeout",
        description="timeout: switch nodes off after some idle minutes; adaptive: let jobs wait for nodes "
        "that are on; lookahead: adaptive, unless a simulation of what is known finds something cheaper; "
        "oracle: the paper's OR*, which knows run times; random: a random reservation every minute; "
        "always_on: switch nothing off; ppo: a trained network; deepshutdown: the network that the paper's "
        "authors trained",
    )
    timeout: Whole | None = Field(
        None,
        description="with policy=timeout, adaptive and lookahead: idle minutes before a node is switched "
        "off; default 1, with adaptive and lookahead 0",
    )
    checkpoint: str | None = Field(
        None,
        description="with policy=ppo: the trained policy: the folder of a training, a file, an MLflow run "
        "(its id, or runs:/ID/PATH), or the bundled taurus-lstm, which wastes more than policy=adaptive",
        examples=["results/taurus", "taurus-lstm"],
    )
    weights: str | None = Field(
        None,
        description="with policy=deepshutdown: the weights that the authors published, as an .npz file, see "
        "docs/shutdown.md",
    )
    greedy: bool = Field(
        False,
        description="with policy=ppo and deepshutdown: always take the likeliest action instead of sampling",
    )
    max_stretch: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="with policy=oracle, adaptive and lookahead: longest wait of a job, as a share of its "
        "walltime; default: tau",
    )
    max_wait: Whole | None = Field(
        None,
        description="with policy=adaptive and lookahead: longest wait of a job, in minutes; default 60, with "
        "lookahead no limit",
    )
    eagerness: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None,
        description="with policy=adaptive and lookahead: a job that could wait starts anyway if at most this "
        "share of its cores has to be switched on; default 0.6",
    )
    tau: Annotated[float, Field(ge=0)] = Field(
        0.5, description="a job is late once it has waited this share of its walltime (the paper's τ)"
    )
    variant: Literal["paper", "exact"] = Field(
        "paper",
        description="late jobs that the reward counts: paper: as the authors' code, only those that the "
        "reservation holds back; exact: as the paper's equation 5, every late job in the queue",
    )

    cluster: Literal["taurus", "orion", "graphite", "econome"] = Field(
        "taurus", description="shape: 14 × 12, 4 × 12, 4 × 16 or 22 × 16 nodes × cores"
    )
    platform: str | None = Field(
        None, description="Batsim platform file with shape, power and switching times, instead of cluster"
    )
    nodes: Count | None = Field(None, description="number of nodes")
    cores_per_node: Count | None = Field(None, description="cores of each node")
    idle_watts: Watts = Field(None, description="power of a node without work; default 95")
    computing_watts: Watts = Field(None, description="power of a node with all cores busy; default 190")
    sleeping_watts: Watts = Field(None, description="power of a node that is off; default 9")
    switching_off_watts: Watts = Field(None, description="power while switching off; default 101")
    switching_on_watts: Watts = Field(None, description="power while switching on; default 125")
    switch_off_minutes: Minutes = Field(None, description="how long switching off takes; default 3")
    switch_on_minutes: Minutes = Field(None, description="how long switching on takes; default 1")

    @property
    def reference(self) -> WorkloadReference:
        """The days, with the units of Batsim files where they are not the default ones."""
        rules = None if self.clean == ("default",) else self.rules
        return WorkloadReference(self.trace, rules, days=True, units=(self.time_unit, self.speed))

    @model_validator(mode="after")
    def _check_combinations(self) -> ShutdownParameters:
        for name, policies in _POLICIES_OF.items():
            value = getattr(self, name)
            if value is not None and self.policy not in policies:
                raise ValueError(f"{name}={value} has no effect with policy={self.policy}")
        if self.policy in ("random", *_NETWORKS) and self.cut == "whole":
            raise ValueError(f"policy={self.policy} needs days of a fixed length: not cut=whole")
        self._check_checkpoint("ppo")
        if (self.weights is None) == (self.policy == "deepshutdown"):
            raise ValueError(
                f"policy={self.policy} {'needs' if self.weights is None else 'takes no'} weights"
            )
        if self.greedy and self.policy not in _NETWORKS:
            raise ValueError(f"greedy=true has no effect with policy={self.policy}")
        if "?" in self.trace:
            raise ValueError("a trace's name has no question mark")
        return self

    @model_validator(mode="after")
    def _check_platform(self) -> ShutdownParameters:
        try:
            self.cluster_model()
        except GridtuneError as error:
            raise ValueError(str(error)) from None
        return self

    def cluster_model(self) -> Platform:
        """Return the cluster: that of the platform file or the name, with the parameters that are set."""
        base = Platform(*CLUSTERS[self.cluster])
        if self.platform is not None:
            base = read_platform(resolve_trace(self.platform), time_unit=self.time_unit, step=60)
        values = {field: getattr(self, parameter) for parameter, field in _POWER.items()}
        power = {name: value for name, value in values.items() if value is not None}
        shape = (self.nodes or base.nodes, self.cores_per_node or base.cores_per_node)
        return Platform(*shape, replace(base.power, **power))
