"""The batch system's parameters of energy: power states of nodes, and when idle ones are switched off."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gridtune.batch.power import PowerPolicy, power_policy
from gridtune.core.log_parameters import LogParameters
from gridtune.errors import SimulationError

__all__ = ["PowerParameters"]

Whole = Annotated[int, Field(ge=0)] | None
Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None

_OPTIONS = (
    *("idle_timeout", "reserve", "cores_per_node", "placement", "boot", "shutdown"),
    *("idle_watts", "computing_watts", "sleeping_watts", "switching_off_watts", "switching_on_watts"),
)


class PowerParameters(LogParameters):
    """Parameters of a machine whose nodes have power states."""

    power: Literal["always_on", "timeout"] | None = Field(
        None,
        description="measure energy: always_on: no node is ever switched off; timeout: idle nodes are "
        "switched off after idle_timeout; default: no power states",
        examples=["timeout"],
    )
    idle_timeout: Whole = Field(
        None,
        description="with power=timeout: seconds after which an idle node is switched off (Slurm's "
        "SuspendTime); default 600",
        examples=[300],
    )
    reserve: Whole = Field(
        None, description="with power=timeout: nodes that are never switched off; default 0"
    )
    cores_per_node: Annotated[int, Field(ge=1)] | None = Field(
        None, description="with power: processors of a node, which is switched as a whole; default 1"
    )
    placement: Literal["recent", "longest"] | None = Field(
        None,
        description="with power: of idle nodes a job gets those used last (recent, the default) or those "
        "that have idled longest",
    )
    boot: Whole = Field(None, description="with power: seconds to switch a node on; default 60")
    shutdown: Whole = Field(None, description="with power: seconds to switch a node off; default 180")
    idle_watts: Watts = Field(None, description="with power: power of a node without work; default 95")
    computing_watts: Watts = Field(
        None, description="with power: power of a node with all cores busy; default 190"
    )
    sleeping_watts: Watts = Field(None, description="with power: power of a node that is off; default 9")
    switching_off_watts: Watts = Field(None, description="with power: power while switching off; default 101")
    switching_on_watts: Watts = Field(None, description="with power: power while switching on; default 125")

    @model_validator(mode="after")
    def _check_power(self) -> PowerParameters:
        try:
            self.power_policy()
        except SimulationError as error:
            raise ValueError(f"{error.message} ({error.hint})" if error.hint else error.message) from None
        return self

    def power_policy(self) -> PowerPolicy | None:
        """Return the power states of nodes and their rule; None without power states."""
        return power_policy(self.power, **{name: getattr(self, name) for name in _OPTIONS})
