"""A system whose cells say on which node they ran and what was compiled there. Loaded as a plug-in."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from gridtune.core.compiled import kernel
from gridtune.core.measures import Measure
from gridtune.core.system import (
    CellResources,
    Outcome,
    Streams,
    System,
    SystemParameters,
    WorkloadLoader,
    register_system,
)

GIB = 2**30


@kernel()
def double(value: float) -> float:
    """Is compiled once for each node."""
    return 2.0 * value


class NodeParameters(SystemParameters):
    trace: str
    x: int = 0
    hungry: int | None = None
    helpers: int = 0


class NodeSystem(System):
    """Loads a log, takes memory, and measures where it is."""

    name: ClassVar[str] = "toy-nodes"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = NodeParameters
    metrics: ClassVar[Mapping[str, Measure]] = {
        "node": Measure("1", "none", "number of the node", source="gridtune"),
        "worker": Measure("1", "none", "process number of the worker", source="gridtune"),
        "compiled": Measure("1", "none", "kernels that the worker compiled", source="gridtune"),
        "copied": Measure("1", "none", "columns of the log that are copies", source="gridtune"),
        "apart": Measure("1", "none", "helpers in another placement group than the cell", source="gridtune"),
        "cost": Measure("1", "min", "2 x", source="gridtune"),
    }

    def traces(self, parameters: NodeParameters) -> Iterable[str]:
        return (parameters.trace,)

    def resources(self, parameters: NodeParameters) -> CellResources:
        return CellResources(helpers=parameters.helpers)

    def prepare(self, parameters: Sequence[NodeParameters]) -> None:
        double(1.0)

    def run(
        self, parameters: NodeParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        log = load(parameters.trace)
        hoard = bytearray(GIB if parameters.x == parameters.hungry else 0)
        # Long enough for every worker to get some.
        time.sleep(0.5)
        del hoard
        columns = [log.columns[name] for name in ("submit_time", "run_time")]
        metrics = {
            "node": float(os.environ["NODE"]),
            "worker": float(os.getpid()),
            "compiled": float(sum(double.stats.cache_misses.values())),
            "copied": float(sum(column.flags.owndata for column in columns)),
            "apart": float(helpers_apart(parameters.helpers)),
            "cost": double(float(parameters.x)),
        }
        return Outcome(metrics, {})


def helpers_apart(count: int) -> int:
    """Start helpers as RLlib starts its runners; return how many are not in this cell's placement group."""
    if not count:
        return 0
    import ray  # noqa: PLC0415
    from ray.util import get_current_placement_group  # noqa: PLC0415

    def group() -> str:
        return str(get_current_placement_group().id.hex())

    own = group()
    groups = ray.get([ray.remote(num_cpus=1)(group).remote() for _ in range(count)])
    return sum(one != own for one in groups)


register_system(NodeSystem())
