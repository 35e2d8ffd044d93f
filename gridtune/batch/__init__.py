"""Simulation: compiled kernels, their plain-Python twins, and the schedules they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gridtune.core.schedule import JobState, Schedule, StepFunction, step_function, validate_schedule

if TYPE_CHECKING:
    from gridtune.batch.allocation import allocate_processors
    from gridtune.batch.replay import simulate

__all__ = [
    "JobState",
    "Schedule",
    "StepFunction",
    "allocate_processors",
    "simulate",
    "step_function",
    "validate_schedule",
]


def __getattr__(name: str) -> Any:
    # numba is slow to import: schedules and their metrics do without it.
    if name == "simulate":
        from gridtune.batch.replay import simulate  # noqa: PLC0415

        return simulate
    if name == "allocate_processors":
        from gridtune.batch.allocation import allocate_processors  # noqa: PLC0415

        return allocate_processors
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
