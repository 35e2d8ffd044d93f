"""What is said of a measure: its unit, which way is better, and how it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

__all__ = ["Direction", "Measure", "MetricInfo"]

#: Which way is better; "none" where it is no goal.
Direction = Literal["min", "max", "none"]


class MetricInfo(Protocol):
    """Anything that says this much of a measure: a `Measure`, a registered `Metric`."""

    @property
    def unit(self) -> str:
        """Its unit; "1" for a ratio."""
        ...

    @property
    def direction(self) -> Direction:
        """Which way is better."""
        ...

    @property
    def formula(self) -> str:
        """How it is made, in plain text."""
        ...

    @property
    def source(self) -> str:
        """The publication that defines it, or "gridtune" where it is our own."""
        ...


@dataclass(frozen=True)
class Measure:
    """A measure of a system.

    Attributes
    ----------
    unit
        "s", "1" (a ratio), "jobs".
    direction
        The better one.
    formula
        In plain text.
    source
        The publication that defines it, with its equation or section; "gridtune" for our own.
    """

    unit: str
    direction: Direction
    formula: str
    source: str = field(kw_only=True)
