"""What a system is, and the registry of systems.

A system is one of the published set-ups gridtune can run: a simulator with its policies, its parameters
and its metrics. Registered once, it can be run as a single cell, swept, tracked and reported.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from gridtune.errors import SweepError
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from gridtune.metrics.measure import Described

__all__ = [
    "CLEANED_MARK",
    "DAYS_MARK",
    "Outcome",
    "Streams",
    "System",
    "SystemParameters",
    "WorkloadLoader",
    "get_system",
    "register_system",
    "system_names",
]


class SystemParameters(BaseModel):
    """The parameters of one cell: validated, frozen, and refused when a name is unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def _refuse_idle(self, idle: Iterable[tuple[Iterable[str], str]]) -> None:
        """Refuse parameters that are set and decide nothing: one would make new cells for the same results.

        Parameters
        ----------
        idle
            Names of parameters, and the choice that leaves them without effect.
        """
        for names, choice in idle:
            for name in names:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name} has no effect with {choice}")


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
#: Between a trace's name and the cleaning rules it is to be read with, in a reference.
CLEANED_MARK = "?clean="
#: Ends a reference to days: a folder or archive of logs, or one log, read as a single workload, by default
#: with the default rules. May be followed by `=` and two numbers for Batsim files: seconds in their unit of
#: time, by default 60, and flops that a processor does in one, by default 10⁶.
DAYS_MARK = "?days"
#: Gives the workload a reference names; loaded once per process and kept.
WorkloadLoader = Callable[[str], Workload]


@runtime_checkable
class System(Protocol):
    """A simulator with its parameters and metrics, as cells see it."""

    name: ClassVar[str]
    #: Part of every cell's id: raise it when results change, so that old cells are not taken for new.
    version: ClassVar[str]
    Parameters: ClassVar[type[SystemParameters]]

    @property
    def metrics(self) -> Mapping[str, Described]:
        """Every metric by name: its unit, the direction that is better, its formula."""
        ...

    def traces(self, parameters: Any) -> Iterable[str]:
        """Return the trace references that a cell with these parameters reads."""
        ...

    def code(self, parameters: Any) -> Mapping[str, str]:
        """Return name and SHA-256 of every piece of user code a cell with these parameters runs.

        It becomes part of the cell's id: a policy that was edited makes new cells. Empty where all code
        is the system's own, which `version` stands for.
        """
        ...

    def prepare(self, parameters: Iterable[Any]) -> None:
        """Compile what cells with these parameters need, so that the first of them starts warm."""
        ...

    def run(self, parameters: Any, *, streams: Streams, load: WorkloadLoader, tables: bool) -> Outcome:
        """Run one cell; make `Outcome.tables` only when `tables` is true."""
        ...


_SYSTEMS: dict[str, System] = {}
#: Systems that come with gridtune and the modules that register them, imported when first asked for.
_BUNDLED = {
    "batch": "gridtune.systems.batch",
    "dispatch": "gridtune.systems.dispatch",
    "provisioning": "gridtune.systems.provisioning",
    "responsive": "gridtune.systems.responsive",
    "shutdown": "gridtune.systems.shutdown",
    "shutdown_training": "gridtune.systems.shutdown_training",
}


def register_system(system: System) -> System:
    """Add a system under its name; a name is never overwritten."""
    bundled = _BUNDLED.get(system.name, type(system).__module__)
    if system.name in _SYSTEMS or type(system).__module__ != bundled:
        raise SweepError(f"a system named {system.name!r} is registered already")
    _SYSTEMS[system.name] = system
    return system


def get_system(name: str) -> System:
    """Return the system of that name."""
    if name not in _SYSTEMS and name in _BUNDLED:
        importlib.import_module(_BUNDLED[name])
    if name not in _SYSTEMS:
        near = difflib.get_close_matches(name, system_names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(system_names())}"
        raise SweepError(f"no system is named {name!r}", hint=hint)
    return _SYSTEMS[name]


def system_names() -> list[str]:
    """Return the names of all systems, bundled and registered, sorted."""
    return sorted({*_SYSTEMS, *_BUNDLED})
