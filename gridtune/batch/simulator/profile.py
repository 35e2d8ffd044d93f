"""The free-slot view of a machine: how many of its processors are free, from now on, at every instant.

It is a step function of time: a sorted list of breakpoints in blocks of at most 32, each with its smallest
and largest value, so that a search skips blocks that are full or free throughout. When the blocks run out,
the profile is packed again without past breakpoints and those at which nothing changes: its size depends on
what is reserved, not on how long the machine has run.

    profile = new_profile(338, now)
    begin = earliest_fit(profile, width, length, now, NEVER)
    profile = with_room(profile, now)
    reserve(profile, begin, begin + length, width)

Times are int64 seconds and intervals half-open.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel

__all__ = [
    "NEVER",
    "Gains",
    "Profile",
    "earliest_fit",
    "lowest_free",
    "new_profile",
    "no_gains",
    "note_gain",
    "release",
    "reserve",
    "with_room",
]

IntArray = npt.NDArray[np.int64]
SmallArray = npt.NDArray[np.int32]

#: A time after all others.
NEVER = int(np.iinfo(np.int64).max)
_BLOCK = 32
_HALF = _BLOCK // 2


class Profile(NamedTuple):
    """Processors free from now on: blocks (rows) of breakpoints, and their directory in time order.

    Attributes
    ----------
    time, free
        Shape (rows, 32): `free[r, i]` processors are free from second `time[r, i]` to the next breakpoint,
        and after the last one for ever.
    row, first, size, lowest, highest
        Shape (rows,): for the k-th block its row, first breakpoint, number of breakpoints, and its smallest
        and largest value.
    blocks
        Shape (1,): the number of blocks.
    """

    time: IntArray
    free: SmallArray
    row: SmallArray
    first: IntArray
    size: SmallArray
    lowest: SmallArray
    highest: SmallArray
    blocks: IntArray


class Gains(NamedTuple):
    """The times from which waiting jobs may find room that they did not find at the last compression.

    A waiting job can move only if its width has become free at some second before its reserved start. Widths
    are distinguished up to `width >> shift`.

    Attributes
    ----------
    soonest, before
        Shape (widths,), int64 seconds: the first such second or an earlier one, by what has been freed since
        the last pass, and by what was freed before or in it (when some jobs had been looked at already).
    shift
        Keeps the columns short on wide machines.
    """

    soonest: IntArray
    before: IntArray
    shift: int


@kernel()
def _empty_profile(rows: int) -> Profile:
    times, free = np.empty((rows, _BLOCK), np.int64), np.empty((rows, _BLOCK), np.int32)
    row, first = np.empty(rows, np.int32), np.empty(rows, np.int64)
    size, lowest, highest = np.empty(rows, np.int32), np.empty(rows, np.int32), np.empty(rows, np.int32)
    return Profile(times, free, row, first, size, lowest, highest, np.zeros(1, np.int64))


@kernel()
def _append(profile: Profile, t: int, free: int) -> None:
    """Add a breakpoint after all others, leaving room in each block for those to come."""
    k = profile.blocks[0] - 1
    if k < 0 or profile.size[k] == _HALF:
        k += 1
        profile.blocks[0] = k + 1
        profile.row[k], profile.first[k], profile.size[k] = k, t, 0
        profile.lowest[k] = profile.highest[k] = free
    row, i = profile.row[k], profile.size[k]
    profile.time[row, i], profile.free[row, i], profile.size[k] = t, free, i + 1
    profile.lowest[k] = min(profile.lowest[k], free)
    profile.highest[k] = max(profile.highest[k], free)


@kernel()
def new_profile(machine: int, now: int) -> Profile:
    """Return the profile of a machine with every processor free from `now` on."""
    profile = _empty_profile(16)
    _append(profile, now, machine)
    return profile


@kernel()
def with_room(profile: Profile, now: int) -> Profile:
    """Return a profile with room for two changes (`reserve`, `release`), the same from `now` on.

    Call it before changing a profile, and use what it returns: where blocks have run out, that is a new
    profile without the past and without breakpoints at which nothing changes.
    """
    if profile.blocks[0] + 4 <= len(profile.row):  # each end of an interval may split a block
        return profile
    head, i = _locate(profile, now)
    most = profile.size[head : profile.blocks[0]].sum()
    times, free, count = np.empty(most, np.int64), np.empty(most, np.int32), 0
    for k in range(head, profile.blocks[0]):
        row = profile.row[k]
        for m in range(i if k == head else 0, profile.size[k]):
            if count == 0 or profile.free[row, m] != free[count - 1]:
                times[count], free[count] = profile.time[row, m], profile.free[row, m]
                count += 1
    packed = _empty_profile(max(16, 2 * (count // _HALF + 1) + 4))
    for m in range(count):
        _append(packed, times[m], free[m])
    return packed


@kernel()
def _locate(profile: Profile, t: int) -> tuple[int, int]:
    """Return block and entry of the last breakpoint not after t."""
    first, times = profile.first, profile.time
    k, beyond = 0, profile.blocks[0]
    while beyond - k > 1:
        middle = (k + beyond) >> 1
        if first[middle] <= t:
            k = middle
        else:
            beyond = middle
    row = profile.row[k]
    i, beyond = 0, profile.size[k]
    while beyond - i > 1:
        middle = (i + beyond) >> 1
        if times[row, middle] <= t:
            i = middle
        else:
            beyond = middle
    return k, i


@kernel()
def _summarise(profile: Profile, k: int) -> None:
    free, row = profile.free, profile.row[k]
    low = high = free[row, 0]
    for i in range(1, profile.size[k]):
        low = min(low, free[row, i])
        high = max(high, free[row, i])
    profile.lowest[k], profile.highest[k] = low, high


@kernel()
def _split(profile: Profile, k: int) -> None:
    """Move the upper half of a full block to a new one after it."""
    new = profile.blocks[0]
    for b in range(new - 1, k, -1):
        profile.row[b + 1], profile.first[b + 1] = profile.row[b], profile.first[b]
        profile.size[b + 1] = profile.size[b]
        profile.lowest[b + 1], profile.highest[b + 1] = profile.lowest[b], profile.highest[b]
    old = profile.row[k]
    profile.time[new, :_HALF] = profile.time[old, _HALF:]
    profile.free[new, :_HALF] = profile.free[old, _HALF:]
    profile.row[k + 1], profile.first[k + 1] = new, profile.time[new, 0]
    profile.size[k] = profile.size[k + 1] = _HALF
    profile.blocks[0] = new + 1
    _summarise(profile, k)
    _summarise(profile, k + 1)


@kernel()
def _cut(profile: Profile, t: int) -> tuple[int, int]:
    """Make t a breakpoint; return its block and entry."""
    k, i = _locate(profile, t)
    times, free = profile.time, profile.free
    if times[profile.row[k], i] == t:
        return k, i
    if profile.size[k] == _BLOCK:
        _split(profile, k)
        if i >= _HALF:
            k, i = k + 1, i - _HALF
    row = profile.row[k]
    for m in range(profile.size[k], i + 1, -1):
        times[row, m], free[row, m] = times[row, m - 1], free[row, m - 1]
    times[row, i + 1], free[row, i + 1] = t, free[row, i]
    profile.size[k] += 1
    return k, i + 1


@kernel()
def release(profile: Profile, begin: int, end: int, width: int) -> None:
    """Add `width` free processors over [begin, end)."""
    if begin >= end:
        return
    k, i = _cut(profile, begin)
    blocks = profile.blocks[0]
    last, stop = _cut(profile, end)
    if profile.blocks[0] != blocks:
        k, i = _locate(profile, begin)
    free = profile.free
    for b in range(k, last + 1):
        row = profile.row[b]
        for m in range(i if b == k else 0, stop if b == last else profile.size[b]):
            free[row, m] += width
        _summarise(profile, b)


@kernel()
def reserve(profile: Profile, begin: int, end: int, width: int) -> None:
    """Take `width` processors over [begin, end), without a check that they are free."""
    release(profile, begin, end, -width)


@kernel()
def lowest_free(profile: Profile, begin: int, end: int) -> int:
    """Return the least number of processors free at any time in [begin, end); end > begin."""
    k, i = _locate(profile, begin)
    times, free = profile.time, profile.free
    low = free[profile.row[k], i]
    for b in range(k, profile.blocks[0]):
        row = profile.row[b]
        for m in range(i if b == k else 0, profile.size[b]):
            if times[row, m] >= end:
                return low
            low = min(low, free[row, m])
    return low


@kernel()
def earliest_fit(profile: Profile, width: int, length: int, since: int, latest: int) -> int:
    """Return the earliest time in [since, latest) at which `width` processors are free for `length` seconds.

    If there is none, `latest` (or `NEVER`) is returned. Nothing at or after `latest` is considered, so a job
    that is reserved there need not be removed to look for something earlier: it may use its own processors.
    """
    # Each access to the tuple costs a reference count.
    times, first, lowest, highest = profile.time, profile.first, profile.lowest, profile.highest
    free, rows, sizes, blocks = profile.free, profile.row, profile.size, profile.blocks[0]
    k, i = _locate(profile, since)
    while True:
        while True:  # to the next breakpoint with room
            if highest[k] >= width:
                row, size = rows[k], sizes[k]
                while i < size and free[row, i] < width:
                    i += 1
                if i < size:
                    break
            k, i = k + 1, 0
            if k == blocks:
                return latest
        begin = min(max(since, times[rows[k], i]), latest)
        until = min(begin + length, latest)
        while True:  # to the next one without
            if lowest[k] < width:
                row, size = rows[k], sizes[k]
                while i < size and free[row, i] >= width:
                    i += 1
                if i < size:
                    break
            k, i = k + 1, 0
            if k == blocks or first[k] >= until:
                return begin
        if times[rows[k], i] >= until:
            return begin


@kernel()
def no_gains(machine: int) -> Gains:
    """Return empty gains for widths up to `machine`."""
    shift = 0
    while machine >> shift >= 512:
        shift += 1
    widths = (machine >> shift) + 1
    return Gains(np.full(widths, NEVER), np.full(widths, NEVER), shift)


@kernel()
def note_gain(profile: Profile, gains: Gains, begin: int, end: int, width: int) -> None:
    """Record the changes that `release(profile, begin, end, width)` is about to make."""
    k, i = _locate(profile, begin)
    times, free, soonest, shift = profile.time, profile.free, gains.soonest, gains.shift
    for b in range(k, profile.blocks[0]):
        row = profile.row[b]
        for m in range(i if b == k else 0, profile.size[b]):
            t = max(begin, times[row, m])
            if t >= end:
                return
            before = max(free[row, m], 0)
            for bucket in range((before + 1) >> shift, ((before + width) >> shift) + 1):
                soonest[bucket] = min(soonest[bucket], t)
