"""The planners' specification: the same schedulers in plain Python, without code of the compiled ones.

Slow, and written to be read. Each slot has a list of reservations, and each question is answered by trying
every instant at which its answer can change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["ReferencePlanner", "ReferenceSlot", "ReferenceTask"]


@dataclass
class ReferenceTask:
    """A task: seconds on each site, processors, and for each parent its number and the bytes it sends."""

    run: list[float]
    processors: int
    parents: dict[int, float] = field(default_factory=dict)


class Reservation(NamedTuple):
    """Processors of a slot that a task holds; the run time is kept apart, so that sums are exact."""

    start: float
    finish: float
    width: int
    run: float


@dataclass
class ReferenceSlot:
    """A slot on offer with its reservations; `end` is infinite if it may be extended."""

    site: int
    start: float
    offered: float
    end: float
    processors: int
    price: float
    fixed: float
    divisible: bool
    reservations: list[Reservation] = field(default_factory=list)

    def free(self, start: float, finish: float) -> int:
        """Return how many processors are free at `start` and stay so until `finish`; 0 outside the slot."""
        if start < self.start or finish > self.end:
            return 0
        instants = [start, *(one.start for one in self.reservations if start < one.start < finish)]
        return self.processors - max(
            sum(one.width for one in self.reservations if one.start <= instant < one.finish)
            for instant in instants
        )

    def cost(self) -> float:
        """Return its cost in a plan that has it."""
        if self.divisible and not self.reservations:
            return 0.0
        if self.divisible:
            area = 0.0
            for one in self.reservations:
                area += one.run * one.width
            return area * self.price + self.fixed
        until = max([self.offered, *(one.finish for one in self.reservations)])
        return self.processors * (until - self.start) * self.price + self.fixed


class Placement(NamedTuple):
    """Where a task can run: the value that is minimised, site, start, and the pieces (slot, processors)."""

    value: float
    site: int
    start: float
    pieces: list[tuple[int, int]]


class ReferencePlanner:
    """Makes one plan.

    Parameters
    ----------
    tasks
        In any order; parents are named by position.
    slots
        The slots that may be used, by number.
    transfer
        Seconds to send a volume of bytes from one site to another.
    mean_transfer
        The same over all pairs of different sites, for ranks.
    cross_slot
        `never`, `narrow` or `always`: when a task may use several slots.
    now
        No task starts earlier.
    """

    def __init__(
        self,
        tasks: list[ReferenceTask],
        slots: dict[int, ReferenceSlot],
        *,
        transfer: Callable[[float, int, int], float],
        mean_transfer: Callable[[float], float],
        cross_slot: str,
        now: float,
    ) -> None:
        self.tasks, self.slots, self.now = tasks, slots, now
        self.transfer, self.mean_transfer, self.cross_slot = transfer, mean_transfer, cross_slot
        self.sites = range(len(tasks[0].run))
        self.in_turn = sorted(slots, key=lambda number: (slots[number].end, number))
        self.placed: dict[int, Placement] = {}
        self.finish: dict[int, float] = {}

    def run(self, scheduler: str) -> bool:
        """Place all tasks; return whether each has a place."""
        if scheduler == "heft":
            return self._in_order(self._by_rank(), minding_makespan=False)
        if scheduler == "greedy":
            return self._in_order(self._by_level(), minding_makespan=True)
        return self._level_wise(latest_first=scheduler == "max-min")

    @property
    def makespan(self) -> float:
        """Seconds from `now` to the last end."""
        return max(self.now, *self.finish.values()) - self.now

    @property
    def allocation_cost(self) -> float:
        """The cost of all slots together."""
        total = 0.0
        for number in sorted(self.slots):
            total += self.slots[number].cost()
        return total

    def _children(self, task: int) -> list[int]:
        return [other for other, one in enumerate(self.tasks) if task in one.parents]

    def _level(self, task: int) -> int:
        return max((1 + self._level(parent) for parent in self.tasks[task].parents), default=0)

    def _by_level(self) -> list[int]:
        return sorted(range(len(self.tasks)), key=lambda task: (self._level(task), task))

    def _rank(self, task: int) -> float:
        below = [
            self.mean_transfer(self.tasks[child].parents[task]) + self._rank(child)
            for child in self._children(task)
        ]
        return sum(self.tasks[task].run) / len(self.sites) + max(below, default=0.0)

    def _by_rank(self) -> list[int]:
        """Return the tasks by falling rank; ranks are compared to the microsecond."""
        return sorted(self._by_level(), key=lambda task: -math.floor(self._rank(task) * 1e6 + 0.5))

    def _ready(self, task: int, site: int) -> float:
        arrivals = [
            self.finish[parent] + self.transfer(volume, self.placed[parent].site, site)
            for parent, volume in self.tasks[task].parents.items()
        ]
        return max([self.now, *arrivals])

    def _starts(self, numbers: Iterable[int], ready: float) -> list[float]:
        """Return the instants at which room may appear."""
        instants = {ready}
        for number in numbers:
            slot = self.slots[number]
            instants |= {slot.start, *(one.finish for one in slot.reservations)}
        return sorted(instant for instant in instants if instant >= ready)

    def _place(self, task: int, floor: float) -> Placement | None:
        """Return the place whose end is first, nothing before `floor` counting as earlier."""
        one, best = self.tasks[task], None
        for number in self.in_turn:
            slot = self.slots[number]
            run, ready = one.run[slot.site], self._ready(task, slot.site)
            for start in self._starts([number], ready):
                if one.processors <= slot.processors and slot.free(start, start + run) >= one.processors:
                    value = max(start + run, floor)
                    if best is None or value < best.value:
                        best = Placement(value, slot.site, start, [(number, one.processors)])
                    break
        if self.cross_slot == "never" or (self.cross_slot == "narrow" and best is not None):
            return best
        for site in self.sites:
            together = self._place_together(task, site, floor)
            if together is not None and (best is None or together.value < best.value):
                best = together
        return best

    def _place_together(self, task: int, site: int, floor: float) -> Placement | None:
        one = self.tasks[task]
        here = [number for number in self.in_turn if self.slots[number].site == site]
        for start in self._starts(here, self._ready(task, site)):
            finish = start + one.run[site]
            left, pieces = one.processors, []
            for number in here:
                width = min(left, self.slots[number].free(start, finish))
                if width > 0:
                    pieces.append((number, width))
                    left -= width
            if left == 0:
                return Placement(max(finish, floor), site, start, pieces)
        return None

    def _take(self, task: int, place: Placement) -> None:
        run = self.tasks[task].run[place.site]
        self.placed[task], self.finish[task] = place, place.start + run
        for number, width in place.pieces:
            self.slots[number].reservations.append(Reservation(place.start, place.start + run, width, run))

    def _in_order(self, order: list[int], *, minding_makespan: bool) -> bool:
        for task in order:
            floor = max([self.now, *self.finish.values()]) if minding_makespan else self.now
            place = self._place(task, floor)
            if place is None:
                return False
            self._take(task, place)
        return True

    def _level_wise(self, *, latest_first: bool) -> bool:
        levels = [self._level(task) for task in range(len(self.tasks))]
        for level in range(max(levels) + 1):
            waiting = [task for task, at in enumerate(levels) if at == level]
            while waiting:
                places = [(task, self._place(task, self.now)) for task in waiting]
                placements = [(task, place) for task, place in places if place is not None]
                if len(placements) < len(waiting):
                    return False
                pick = max if latest_first else min
                task, place = pick(placements, key=lambda placement: placement[1].value)
                self._take(task, place)
                waiting.remove(task)
        return True
