"""`PowerPolicy`: when a machine switches idle nodes off, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gridtune.arguments import require_number
from gridtune.batch.policies import Backfilling
from gridtune.batch.simulator.nodes import PoweredNodes, new_nodes
from gridtune.core.usage import POWER_OPTIONS, NodePower, NodeStates
from gridtune.errors import SimulationError

#: Options of a node's power, and the fields of `NodePower`.
_NODE_POWER = {**POWER_OPTIONS, "shutdown": "switch_off_time", "boot": "switch_on_time"}
#: Seconds after which idle nodes are switched off where nothing else is said.
_IDLE_TIMEOUT = 600


@dataclass(frozen=True)
class PowerPolicy:
    """Nodes of a machine, their power, and the rule by which idle ones are switched off.

    Attributes
    ----------
    cores_per_node
        Processors of a node. Jobs get processors of any nodes; nodes are switched as a whole.
    idle_timeout
        Seconds after which an idle node is switched off (Slurm's SuspendTime); None: never.
    power
        Power of a node in each state; its switches take seconds.

    Raises
    ------
    SimulationError
        If a number is out of its range.
    """

    cores_per_node: int = 1
    idle_timeout: int | None = None
    power: NodePower = field(default_factory=lambda: NodePower(switch_off_time=180, switch_on_time=60))

    def __post_init__(self) -> None:
        require_number(self.cores_per_node, "cores_per_node", whole=True, least=1, error=SimulationError)
        if self.idle_timeout is not None:
            require_number(self.idle_timeout, "idle_timeout", whole=True, least=0, error=SimulationError)

    def node_count(self, processors: int) -> int:
        """Return the number of nodes of a machine.

        Raises
        ------
        SimulationError
            If the processors do not make whole nodes.
        """
        cores = self.cores_per_node
        if processors % cores:
            raise SimulationError(
                f"{processors} processors do not make whole nodes of {cores}",
                field="cores_per_node",
                hint=f"set processors to a multiple, such as {processors + cores - processors % cores}",
            )
        return processors // cores

    def machine_nodes(
        self, processors: int | Mapping[int, int], rule: Backfilling | None, jobs: int
    ) -> PoweredNodes:
        """Return the nodes of a machine, all on and idle.

        Parameters
        ----------
        processors
            The machine's size, or those of separate partitions.
        rule
            The backfilling.
        jobs
            How many are to come.

        Raises
        ------
        SimulationError
            If the processors do not make whole nodes, or power states do not go with the partitions or the
            backfilling.
        """
        if not isinstance(processors, int):
            raise SimulationError(
                "power states go with partitions='pooled', not with 'separate'",
                field="power",
                hint="run a partition by itself: partition=NAME, with its processors",
            )
        if rule is not None and rule.pass_per_event:
            raise SimulationError(
                "power states go with one pass per instant, not with a pass per event",
                field="power",
                hint="backfill='easy'",
            )
        return new_nodes(
            self.node_count(processors),
            self.cores_per_node,
            jobs,
            timeout=self.idle_timeout,
            boot=self.power.switch_on_time,
            shutdown=self.power.switch_off_time,
        )

    def states_of(self, nodes: PoweredNodes, origin: int) -> NodeStates:
        """Return what the nodes went through in a simulation whose clock began at `origin`."""
        rows = int(nodes.state["rows"])
        return NodeStates(
            len(nodes.free),
            self.cores_per_node,
            self.power,
            origin,
            nodes.time[:rows] + origin,
            nodes.before[:rows].copy(),
            nodes.after[:rows].copy(),
            nodes.number[:rows].copy(),
            nodes.boot_wait,
        )

    @classmethod
    def of(cls, power: str | None, **options: Any) -> PowerPolicy | None:
        """Return a policy from options that may be None, which stands for the default.

        Parameters
        ----------
        power
            "timeout" or "always_on"; None: no power states.
        options
            Fields of `PowerPolicy`; `boot` and `shutdown`, the seconds of switches; and powers, `idle_watts`,
            `computing_watts`, `sleeping_watts`, `switching_off_watts` and `switching_on_watts`.

        Raises
        ------
        SimulationError
            If an option would have no effect, or is out of its range.
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name, value in given.items():
            if power is None or (power == "always_on" and name == "idle_timeout"):
                state = "without power states" if power is None else f"with power={power}"
                raise SimulationError(f"{name}={value} has no effect {state}", hint="set power=timeout")
        if power is None:
            return None
        states = {_NODE_POWER[name]: given.pop(name) for name in list(given) if name in _NODE_POWER}
        if power == "timeout":
            given.setdefault("idle_timeout", _IDLE_TIMEOUT)
        standard = cls(**given)
        return replace(standard, power=replace(standard.power, **states))
