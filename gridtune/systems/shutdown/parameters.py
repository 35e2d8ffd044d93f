"""The `shutdown` system's parameters: which days, which policy, which cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from gridtune.core.system import Count, LogParameters, Window, described
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
NETWORKS = ("ppo", "deepshutdown")

Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
Minutes = Annotated[int, Field(ge=1)] | None
Whole = Annotated[int, Field(ge=0)]


@described(__file__)
class ShutdownParameters(LogParameters):
    """The parameters of one run over a set of days."""

    renamed_parameters: ClassVar[Mapping[str, str]] = {"group": "sequential_group", "window": "part"}
    window_parameter: ClassVar[str] = "part"

    trace: str
    subset: Literal["all", "train", "test"] = "all"
    sequential_group: Annotated[int, Field(ge=1, le=5)] | None = Field(None, serialization_alias="group")
    part: Window | None = Field(None, serialization_alias="window")
    first: Count | None = None
    cut: Literal["auto", "days", "whole"] = "auto"
    minutes: Count = 1440
    time_unit: Annotated[float, Field(gt=0)] = USUAL_UNITS[0]
    speed: Annotated[float, Field(gt=0)] = USUAL_UNITS[1]

    policy: Literal[
        "timeout", "adaptive", "lookahead", "oracle", "random", "always_on", "ppo", "deepshutdown"
    ] = "timeout"
    timeout: Whole | None = None
    checkpoint: str | None = None
    weights: str | None = None
    greedy: bool = False
    max_stretch: Annotated[float, Field(ge=0)] | None = None
    max_wait: Whole | None = None
    eagerness: Annotated[float, Field(ge=0, le=1)] | None = None
    tau: Annotated[float, Field(ge=0)] = 0.5
    variant: Literal["paper", "exact"] = "paper"

    cluster: Literal["taurus", "orion", "graphite", "econome"] = "taurus"
    platform: str | None = None
    nodes: Count | None = None
    cores_per_node: Count | None = None
    idle_watts: Watts = None
    computing_watts: Watts = None
    sleeping_watts: Watts = None
    switching_off_watts: Watts = None
    switching_on_watts: Watts = None
    switch_off_minutes: Minutes = None
    switch_on_minutes: Minutes = None

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
        if self.policy in ("random", *NETWORKS) and self.cut == "whole":
            raise ValueError(f"policy={self.policy} needs days of a fixed length: not cut=whole")
        self._check_checkpoint("ppo")
        if (self.weights is None) == (self.policy == "deepshutdown"):
            raise ValueError(
                f"policy={self.policy} {'needs' if self.weights is None else 'takes no'} weights"
            )
        if self.greedy and self.policy not in NETWORKS:
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
