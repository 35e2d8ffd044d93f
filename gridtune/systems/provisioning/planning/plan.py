"""`Plan`: where and when each task of a workflow runs, on which slots, and at what cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gridtune.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from gridtune.systems.provisioning.simulator.slots import Slots

__all__ = ["Plan", "Reservations"]


@dataclass(frozen=True, eq=False)
class Reservations:
    """What a site must reserve for a plan, in columns of shape (r,): processors of a slot in [start, end)."""

    slot: IntArray
    start: FloatArray
    end: FloatArray
    processors: IntArray

    def __len__(self) -> int:
        return len(self.slot)


@dataclass(frozen=True, eq=False)
class Plan:
    """A workflow placed on slots.

    Attributes
    ----------
    slots
        The slots on offer.
    taken
        Shape (slots,), bool: the slots of the plan.
    site, start, finish
        Shape (n,), int64 and float64 seconds: where and when each task runs; empty if the plan is
        infeasible.
    pieces
        Shape (n + 1,), int64: task i holds the pieces `pieces[i] : pieces[i + 1]`.
    piece_slot, piece_processors
        Shape (p,), int64: the slot and the number of processors of a piece, held while the task runs.
    allocation_cost
        Σ price × processors × seconds paid + fixed price; infinite if the plan is infeasible.
    makespan
        Seconds from `now` to the end of the last task (the scheduling cost); infinite if infeasible.
    now
        The second at which the plan is made; no task starts earlier.
    """

    slots: Slots
    taken: BoolArray
    site: IntArray
    start: FloatArray
    finish: FloatArray
    pieces: IntArray
    piece_slot: IntArray
    piece_processors: IntArray
    allocation_cost: float
    makespan: float
    now: float

    @property
    def feasible(self) -> bool:
        """Whether every task has a place."""
        return math.isfinite(self.makespan)

    @property
    def piece_task(self) -> IntArray:
        """Shape (p,), int64: the task of each piece."""
        return np.repeat(np.arange(len(self.start)), np.diff(self.pieces))

    @property
    def used(self) -> BoolArray:
        """Shape (slots,), bool: slots that some task uses."""
        used = np.zeros(len(self.slots), bool)
        used[self.piece_slot] = True
        return used

    def reservations(self) -> Reservations:
        """Return what must be reserved and paid for: the used parts of divisible slots, all of the others.

        A slot that cannot be divided is held from its start to its end, or to the end of the last task on it
        if that is later. Tasks of no length hold nothing.
        """
        owner, divisible = self.piece_task, self.slots.divisible[self.piece_slot]
        lasting = self.finish[owner] > self.start[owner]
        parts = divisible & lasting
        whole = np.flatnonzero(self.taken & ~self.slots.divisible)
        until = self.slots.end.astype(np.float64)
        np.maximum.at(until, self.piece_slot, self.finish[owner])
        return Reservations(
            np.concatenate([whole, self.piece_slot[parts]]),
            np.concatenate([self.slots.start[whole].astype(np.float64), self.start[owner[parts]]]),
            np.concatenate([until[whole], self.finish[owner[parts]]]),
            np.concatenate([self.slots.processors[whole], self.piece_processors[parts]]),
        )
