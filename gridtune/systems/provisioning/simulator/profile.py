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

from gridtune.core.compiled import kernel
from gridtune.types import Int32Array, IntArray

__all__ = [
    "NEVER",
    "Profile",
    "earliest_fit",
    "empty_profile",
    "locate",
    "lowest_free",
    "new_profile",
    "release",
    "reserve",
    "with_room",
]


#: A time after all others.
NEVER = int(np.iinfo(np.int64).max)
BLOCK = 32
HALF = BLOCK // 2


class Profile(NamedTuple):
    """Processors free from now on: blocks of breakpoints, and their directory in time order.

    Attributes
    ----------
    time, free
        Shape (32 rows,): `free[j]` processors are free from second `time[j]` to the next breakpoint, and
        after the last one for ever.
    base, first, size, lowest, highest
        Shape (rows,): for the k-th block where it begins in `time` and `free`, its first breakpoint, number
        of breakpoints, and its smallest and largest value.
    blocks
        Shape (1,): the number of blocks.
    """

    time: IntArray
    free: Int32Array
    base: IntArray
    first: IntArray
    size: Int32Array
    lowest: Int32Array
    highest: Int32Array
    blocks: IntArray


@kernel()
def empty_profile(rows: int) -> Profile:
    """Return a profile without a breakpoint, with room for so many blocks."""
    times, free = np.empty(rows * BLOCK, np.int64), np.empty(rows * BLOCK, np.int32)
    base, first = np.empty(rows, np.int64), np.empty(rows, np.int64)
    size, lowest, highest = np.empty(rows, np.int32), np.empty(rows, np.int32), np.empty(rows, np.int32)
    return Profile(times, free, base, first, size, lowest, highest, np.zeros(1, np.int64))


@kernel()
def _append(profile: Profile, t: int, free: int) -> None:
    """Add a breakpoint after all others, leaving room in each block for those to come."""
    k = profile.blocks[0] - 1
    if k < 0 or profile.size[k] == HALF:
        k += 1
        profile.blocks[0] = k + 1
        profile.base[k], profile.first[k], profile.size[k] = k * BLOCK, t, 0
        profile.lowest[k] = profile.highest[k] = free
    j = profile.base[k] + profile.size[k]
    profile.time[j], profile.free[j] = t, free
    profile.size[k] += 1
    profile.lowest[k] = min(profile.lowest[k], free)
    profile.highest[k] = max(profile.highest[k], free)


@kernel()
def new_profile(machine: int, now: int) -> Profile:
    """Return the profile of a machine with every processor free from `now` on."""
    profile = empty_profile(16)
    _append(profile, now, machine)
    return profile


@kernel()
def _live(profile: Profile, now: int, times: IntArray, free: Int32Array) -> int:
    """Copy the breakpoints from `now` on at which something changes; return their number."""
    head, i = locate(profile, now)
    count = 0
    for k in range(head, profile.blocks[0]):
        base = profile.base[k]
        for j in range(base + (i if k == head else 0), base + profile.size[k]):
            if count == 0 or profile.free[j] != free[count - 1]:
                times[count], free[count] = profile.time[j], profile.free[j]
                count += 1
    return count


@kernel()
def _rows_after_packing(count: int) -> int:
    return max(16, 2 * (count // HALF + 1) + 4)


@kernel()
def with_room(profile: Profile, now: int) -> Profile:
    """Return a profile with room for two changes (`reserve`, `release`), the same from `now` on.

    Call it before changing a profile, and use what it returns: where blocks have run out, that is a new
    profile without the past and without breakpoints at which nothing changes.
    """
    if profile.blocks[0] + 4 <= len(profile.size):  # each end of an interval may split a block
        return profile
    most = profile.size[: profile.blocks[0]].sum()
    times, free = np.empty(most, np.int64), np.empty(most, np.int32)
    count = _live(profile, now, times, free)
    packed = empty_profile(_rows_after_packing(count))
    for j in range(count):
        _append(packed, times[j], free[j])
    return packed


@kernel()
def locate(profile: Profile, t: int) -> tuple[int, int]:
    """Return block and entry of the last breakpoint not after t."""
    first, times = profile.first, profile.time
    k, beyond = 0, profile.blocks[0]
    while beyond - k > 1:
        middle = (k + beyond) >> 1
        if first[middle] <= t:
            k = middle
        else:
            beyond = middle
    base = profile.base[k]
    i, beyond = 0, profile.size[k]
    while beyond - i > 1:
        middle = (i + beyond) >> 1
        if times[base + middle] <= t:
            i = middle
        else:
            beyond = middle
    return k, i


@kernel()
def _summarise(profile: Profile, k: int) -> None:
    free, base = profile.free, profile.base[k]
    low = high = free[base]
    for j in range(base + 1, base + profile.size[k]):
        low = min(low, free[j])
        high = max(high, free[j])
    profile.lowest[k], profile.highest[k] = low, high


@kernel()
def _split(profile: Profile, k: int) -> None:
    """Move the upper half of a full block to a new one after it."""
    blocks = profile.blocks[0]
    for b in range(blocks - 1, k, -1):
        profile.base[b + 1], profile.first[b + 1] = profile.base[b], profile.first[b]
        profile.size[b + 1] = profile.size[b]
        profile.lowest[b + 1], profile.highest[b + 1] = profile.lowest[b], profile.highest[b]
    old, new = profile.base[k] + HALF, blocks * BLOCK
    for j in range(HALF):
        profile.time[new + j], profile.free[new + j] = profile.time[old + j], profile.free[old + j]
    profile.base[k + 1], profile.first[k + 1] = new, profile.time[new]
    profile.size[k] = profile.size[k + 1] = HALF
    profile.blocks[0] = blocks + 1
    _summarise(profile, k)
    _summarise(profile, k + 1)


@kernel()
def _cut(profile: Profile, t: int) -> tuple[int, int]:
    """Make t a breakpoint; return its block and entry."""
    k, i = locate(profile, t)
    times, free = profile.time, profile.free
    if times[profile.base[k] + i] == t:
        return k, i
    if profile.size[k] == BLOCK:
        _split(profile, k)
        if i >= HALF:
            k, i = k + 1, i - HALF
    base = profile.base[k]
    for j in range(base + profile.size[k], base + i + 1, -1):
        times[j], free[j] = times[j - 1], free[j - 1]
    times[base + i + 1], free[base + i + 1] = t, free[base + i]
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
        k, i = locate(profile, begin)
    free = profile.free
    for b in range(k, last + 1):
        base, size = profile.base[b], profile.size[b]
        if k < b < last:
            profile.lowest[b] += width
            profile.highest[b] += width
        for j in range(base + (i if b == k else 0), base + (stop if b == last else size)):
            free[j] += width
    _summarise(profile, k)
    if last > k:
        _summarise(profile, last)


@kernel()
def reserve(profile: Profile, begin: int, end: int, width: int) -> None:
    """Take `width` processors over [begin, end), without a check that they are free."""
    release(profile, begin, end, -width)


@kernel()
def lowest_free(profile: Profile, begin: int, end: int) -> int:
    """Return the least number of processors free at any time in [begin, end); end > begin."""
    k, i = locate(profile, begin)
    times, free = profile.time, profile.free
    low = free[profile.base[k] + i]
    for b in range(k, profile.blocks[0]):
        base = profile.base[b]
        for j in range(base + (i if b == k else 0), base + profile.size[b]):
            if times[j] >= end:
                return low
            low = min(low, free[j])
    return low


@kernel()
def earliest_fit(profile: Profile, width: int, length: int, since: int, latest: int) -> int:
    """Return the earliest time in [since, latest) at which `width` processors are free for `length` seconds.

    If there is none, `latest` (or `NEVER`) is returned. Nothing at or after `latest` is considered, so a job
    that is reserved there need not be removed to look for something earlier: it may use its own processors.
    """
    k, i = locate(profile, since)
    times, first, lowest, highest = profile.time, profile.first, profile.lowest, profile.highest
    free, bases, sizes, blocks = profile.free, profile.base, profile.size, profile.blocks[0]
    while True:
        while True:  # to the next breakpoint with room
            if highest[k] >= width:
                base, size = bases[k], sizes[k]
                while i < size and free[base + i] < width:
                    i += 1
                if i < size:
                    break
            k, i = k + 1, 0
            if k == blocks or first[k] >= latest:
                return latest
        begin = min(max(since, times[bases[k] + i]), latest)
        until = min(begin + length, latest)
        while True:  # to the next one without
            if lowest[k] < width:
                base, size = bases[k], sizes[k]
                while i < size and free[base + i] >= width:
                    i += 1
                if i < size:
                    break
            k, i = k + 1, 0
            if k == blocks or first[k] >= until:
                return begin
        if times[bases[k] + i] >= until:
            return begin
