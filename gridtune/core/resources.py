"""`CellResources`: what a cell occupies of a machine while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

__all__ = ["CellResources"]


@dataclass(frozen=True)
class CellResources:
    """What a cell occupies while it runs; a system says it, and a search space can say otherwise.

    Attributes
    ----------
    cpus, gpus
        Processors and GPUs of the process that runs it.
    memory
        Bytes that the cell may take beside what its process has when it starts; 0 for no limit.
    helpers
        Further processes of one processor each that the cell starts on Ray, such as RLlib's runners.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    memory: float = 0.0
    helpers: int = 0

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The same as the bundles of a placement group, the cell's own first."""
        own = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(round(self.memory))}
        return [{name: amount for name, amount in own.items() if amount}, *[{"CPU": 1.0}] * self.helpers]

    @classmethod
    def largest(cls, needs: Iterable[Self]) -> Self:
        """Return what is enough for each of several cells, as a worker runs them one after another."""
        every = list(needs) or [cls()]
        return cls(
            max(one.cpus for one in every),
            max(one.gpus for one in every),
            max(one.memory for one in every),
            max(one.helpers for one in every),
        )
