"""Systems: the published set-ups that cells run, by name."""

from __future__ import annotations

from gridtune.systems.system import (
    Outcome,
    Streams,
    System,
    SystemParameters,
    WorkloadLoader,
    get_system,
    register_system,
    system_names,
)

__all__ = [
    "Outcome",
    "Streams",
    "System",
    "SystemParameters",
    "WorkloadLoader",
    "get_system",
    "register_system",
    "system_names",
]
