"""What a system is, and the registry of systems.

A system is one of the published set-ups gridtune can run: a simulator with its policies, its parameters
and its metrics. Registered once, it can be run as a single cell, swept, tracked and reported.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from gridtune.errors import SweepError
from gridtune.workload.workload import Workload

__all__ = ["Outcome", "System", "SystemParameters", "get_system", "register_system", "system_names"]


class SystemParameters(BaseModel):
    """The parameters of one cell: validated, frozen, and refused when a name is unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Outcome:
    """What one cell came to.

    Attributes
    ----------
    metrics
        Metric name to value; NaN where it is not defined.
    notes
        Facts worth keeping beside them (the cleaning report, counts): JSON-serialisable.
    tables
        Larger artefacts by name (the schedule), made only when asked for.
    """

    metrics: Mapping[str, float]
    notes: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)


#: Gives the stream of random numbers for a purpose: same replicate and purpose, same numbers.
Streams = Callable[[str], np.random.Generator]
#: Gives the workload a reference names; loaded once per process and kept.
WorkloadLoader = Callable[[str], Workload]


@runtime_checkable
class System(Protocol):
    """A simulator with its parameters and metrics, as cells see it."""

    name: ClassVar[str]
    #: Part of every cell's id: raise it when results change, so that old cells are not taken for new.
    version: ClassVar[str]
    Parameters: ClassVar[type[SystemParameters]]
    #: Metric names to the direction that is better, "min" or "max".
    directions: Mapping[str, str]

    def traces(self, parameters: Any) -> Iterable[str]:
        """Return the trace references that a cell with these parameters reads."""
        ...

    def run(self, parameters: Any, *, streams: Streams, load: WorkloadLoader, tables: bool) -> Outcome:
        """Run one cell; make `Outcome.tables` only when `tables` is true."""
        ...


_SYSTEMS: dict[str, System] = {}


def register_system(system: System) -> System:
    """Add a system under its name; a name is never overwritten."""
    if system.name in _SYSTEMS:
        raise SweepError(f"a system named {system.name!r} is registered already")
    _SYSTEMS[system.name] = system
    return system


def get_system(name: str) -> System:
    """Return the system of that name."""
    if name not in _SYSTEMS:
        near = difflib.get_close_matches(name, _SYSTEMS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(sorted(_SYSTEMS))}"
        raise SweepError(f"no system is named {name!r}", hint=hint)
    return _SYSTEMS[name]


def system_names() -> list[str]:
    """Return the names of all registered systems, sorted."""
    return sorted(_SYSTEMS)
