"""What is said of a measure: its unit, which way is better, and how it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["Described", "Direction", "Measure"]

#: Which way is better; "none" where it is no goal.
Direction = Literal["min", "max", "none"]


class Described(Protocol):
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
    """

    unit: str
    direction: Direction
    formula: str
