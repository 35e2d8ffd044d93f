"""What has become free since waiting jobs were looked at: which of them can move, and not before when."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.profile import NEVER, Profile, locate
from gridtune.core.compiled import bare, kernel

__all__ = ["Gains", "bare_gains", "forget_gains", "no_gains", "note_gain"]

IntArray = npt.NDArray[np.int64]


class Gains(NamedTuple):
    """The times from which waiting jobs may find room that they did not find at the last compression.

    A waiting job can move only if its width has become free at some second before its reserved start. Widths
    are distinguished up to `width >> shift`.

    Attributes
    ----------
    soonest, before
        Shape (widths,), int64 seconds: the first such second or an earlier one, by what has been freed since
        the last pass, and by what was freed before or in it (when some jobs had been looked at already).
    widths, shift
        How many widths are distinguished; keeps the columns short on wide machines.
    """

    soonest: IntArray
    before: IntArray
    widths: int
    shift: int


@kernel()
def no_gains(machine: int) -> Gains:
    """Return empty gains for widths up to `machine`."""
    shift = 0
    while machine >> shift >= 512:
        shift += 1
    widths = (machine >> shift) + 1
    return Gains(np.full(widths, NEVER), np.full(widths, NEVER), widths, shift)


@kernel()
def bare_gains(gains: Gains) -> Gains:
    """Return the gains as bare columns."""
    return Gains(bare(gains.soonest), bare(gains.before), gains.widths, gains.shift)


@kernel()
def forget_gains(gains: Gains) -> None:
    """Forget all gains: no waiting job can move."""
    for bucket in range(gains.widths):
        gains.soonest[bucket] = gains.before[bucket] = NEVER


@kernel()
def note_gain(profile: Profile, gains: Gains, begin: int, end: int, width: int) -> None:
    """Record the changes that `release(profile, begin, end, width)` is about to make."""
    k, i = locate(profile, begin)
    times, free, soonest, shift = profile.time, profile.free, gains.soonest, gains.shift
    noted, beyond = 0, 0  # the widths noted last, by an earlier second
    for b in range(k, profile.blocks[0]):
        base = profile.base[b]
        for j in range(base + (i if b == k else 0), base + profile.size[b]):
            t = max(begin, times[j])
            if t >= end:
                return
            before = max(free[j], 0)
            low, high = (before + 1) >> shift, ((before + width) >> shift) + 1
            if noted <= low and high <= beyond:
                continue
            noted, beyond = low, high
            for bucket in range(low, high):
                soonest[bucket] = min(soonest[bucket], t)
