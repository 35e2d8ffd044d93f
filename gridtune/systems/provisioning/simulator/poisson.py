"""Random slots: the free time of sites as Poisson processes.

Source: G. Singh, C. Kesselman, E. Deelman, HPDC 2007, section 3, "MOGA experiments".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.simulator.slots import Slots

__all__ = ["poisson_slots"]


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
