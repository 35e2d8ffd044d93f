"""`Slots`: the free slots of sites, in columns; and random ones, from Poisson processes.

Source: G. Singh, C. Kesselman, E. Deelman, "A provisioning model and its comparison with best-effort for
performance-cost optimization in grids", HPDC 2007, sections 2 (slots) and 3 (random ones).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.errors import SimulationError
from gridtune.types import BoolArray, FloatArray, IntArray
from gridtune.workload.fields import LARGEST_TIME

_DTYPES: Mapping[str, type] = {
    "site": np.int64,
    "start": np.int64,
    "duration": np.int64,
    "processors": np.int64,
    "price": np.float64,
    "fixed": np.float64,
    "divisible": np.bool_,
    "extensible": np.bool_,
}


@dataclass(frozen=True, eq=False)
class Slots:
    """Slots that sites offer: processors, from a start, for a duration, at a price.

    Attributes
    ----------
    site
        Shape (n,), int64, ≥ 0: the site of each slot.
    start, duration
        Shape (n,), int64 seconds: the slot is [start, start + duration).
    processors
        Shape (n,), int64, ≥ 1.
    price
        Shape (n,), float64 per processor-second, ≥ 0.
    fixed
        Shape (n,), float64, ≥ 0: the fixed price of a slot.
    divisible
        Shape (n,), bool: true if parts of it can be taken; otherwise all of it is paid for.
    extensible
        Shape (n,), bool: true if it can be extended: its processors stay free after its end.

    Raises
    ------
    SimulationError
        Naming the slot at fault.
    """

    site: IntArray
    start: IntArray
    duration: IntArray
    processors: IntArray
    price: FloatArray
    fixed: FloatArray
    divisible: BoolArray
    extensible: BoolArray

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            column: npt.NDArray[Any] = np.array(getattr(self, name), dtype=dtype, ndmin=1)
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        lengths = {name: getattr(self, name).shape for name in _DTYPES}
        if set(lengths.values()) != {(len(self.start),)}:
            raise SimulationError(f"columns of slots differ in length: {lengths}")
        self._check("site", self.site >= 0)
        self._check("start", (self.start >= 0) & (self.start <= LARGEST_TIME))
        self._check("duration", (self.duration > 0) & (self.duration <= LARGEST_TIME))
        self._check("processors", self.processors > 0)
        self._check("price", (self.price >= 0) & (self.price < math.inf))
        self._check("fixed", (self.fixed >= 0) & (self.fixed < math.inf))

    def _check(self, name: str, valid: BoolArray) -> None:
        if not valid.all():
            slot = int(np.argmin(valid))
            message = f"slot {slot + 1} of {len(self)}: {name} cannot be {getattr(self, name)[slot]}"
            raise SimulationError(message, field=name)

    @classmethod
    def of(
        cls,
        start: npt.ArrayLike,
        duration: npt.ArrayLike,
        processors: npt.ArrayLike,
        *,
        site: npt.ArrayLike = 0,
        price: npt.ArrayLike = 1.0,
        fixed: npt.ArrayLike = 0.0,
        divisible: npt.ArrayLike = False,
        extensible: npt.ArrayLike = False,
    ) -> Slots:
        """Return slots from columns, each an array or one value for all slots; see the attributes."""
        columns: tuple[Any, ...] = (site, start, duration, processors, price, fixed, divisible, extensible)
        return cls(*np.broadcast_arrays(*map(np.atleast_1d, columns)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Slots, tuple(getattr(self, name) for name in _DTYPES))

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        sites = len(np.unique(self.site))
        return f"Slots({len(self):,} slots of {sites} site{'' if sites == 1 else 's'})"

    @property
    def end(self) -> IntArray:
        """Shape (n,), int64 seconds: the end of each, unless it is extended."""
        return self.start + self.duration

    @property
    def cost(self) -> FloatArray:
        """Shape (n,), float64: the cost of each as a whole (equation 4)."""
        return self.processors * self.duration * self.price + self.fixed

    def priced(self, price: Sequence[float], fixed: Sequence[float]) -> Slots:
        """Return the slots at other prices: one for all sites, or one for each."""
        sites = int(self.site.max(initial=0)) + 1
        of_sites = (np.resize(prices, max(sites, len(prices))) for prices in (price, fixed))
        of_slots = dict(zip(("price", "fixed"), (prices[self.site] for prices in of_sites), strict=True))
        return replace(self, **of_slots)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name, for a table."""
        return {name: getattr(self, name) for name in _DTYPES}

    def free_processors(self, now: float = 0.0) -> tuple[FloatArray, IntArray]:
        """Return instants (k,), the first of them now, and the free processors of each site from each on."""
        start = np.maximum(self.start.astype(np.float64), now)
        end = np.where(self.extensible, np.inf, np.maximum(self.end.astype(np.float64), now))
        time = np.unique(np.concatenate([[now], start, end[np.isfinite(end)]]))
        free = np.zeros((int(self.site.max(initial=-1)) + 1, len(time) + 1), np.int64)
        np.add.at(free, (self.site, np.searchsorted(time, start)), self.processors)
        np.add.at(free, (self.site, np.searchsorted(time, end)), -self.processors)
        return time, np.cumsum(free, axis=1)[:, :-1]

    def most_at_once(self, *, together: bool) -> IntArray:
        """Return the most processors of each site that a task could hold at some time: shape (sites,)."""
        if together:
            return self.free_processors()[1].max(axis=1)
        most = np.zeros(int(self.site.max(initial=-1)) + 1, np.int64)
        np.maximum.at(most, self.site, self.processors)
        return most


def poisson_slots(
    rng: np.random.Generator,
    *,
    processors: Sequence[int] = (10, 20, 30, 40),
    length: float = 1000.0,
    gap: float = 1000.0,
    until: int = 30_000,
) -> Slots:
    """Return slots of several sites, none of them divisible or extensible, by site and start.

    On each site the first slot starts at 0, and the others after exponential gaps; lengths are exponential
    too. Both are rounded up to whole seconds. Processors of a slot are uniform from 1 to those of its site.

    Parameters
    ----------
    rng
        The source of random numbers.
    processors
        The processors of each site.
    length, gap
        Means, seconds.
    until
        No slot starts later, seconds.
    """
    if not (length > 0 and gap > 0 and until >= 0 and len(processors) and min(processors) > 0):
        parameters = f"{processors=}, {length=}, {gap=}, {until=}"
        raise SimulationError(f"slots need sites with processors and times above 0, but got {parameters}")
    columns = []
    for site, most in enumerate(processors):
        start = 0
        while start <= until:
            duration = max(1, int(np.ceil(rng.exponential(length))))
            columns.append((site, start, duration, int(rng.integers(1, most, endpoint=True))))
            start += max(1, int(np.ceil(rng.exponential(gap))))
    sites, starts, durations, widths = np.array(columns, np.int64).T
    return Slots.of(starts, durations, widths, site=sites)
