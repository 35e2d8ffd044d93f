"""How many processors are free, from now on, as a list of slots that follows its reservations, compiled.

A slot lasts from its time to that of the slot after it; the last one lasts for ever. A slot begins only where
a reservation begins or ends: `uses` counts them, and a slot without any is joined to the one before it. So
the list is as short as it can be, and who has a slot at hand changes the list there without a search.

The slots are also in *stretches* of at most 32 in a row, each with a bound of its greatest number of free
processors, so that a search skips those that are full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.types import Int32Array, IntArray

__all__ = [
    "HEAD",
    "Slots",
    "bare_slots",
    "change",
    "cut",
    "disuse",
    "earliest_slot",
    "last_slot",
    "move_to",
    "new_slots",
]


#: Slots of a stretch.
_LONGEST = 32
#: What counts as a use of the first slot by the present.
_PRESENT = 1 << 30
_ENDLESS = np.int64(2**31 - 1)
#: The state: the first slot; the first of the slots and stretches that can be used again (-1: none), and how
#: many of each have ever been in use.
HEAD, _SPARE_SLOT, _SLOTS, _SPARE_STRETCH, _STRETCHES = range(5)


class Slots(NamedTuple):
    """The list.

    Attributes
    ----------
    time, free, before, after, uses
        Of each slot: its begin in seconds, the processors that are free, the slots around it (-1: none), and
        how many reservations begin or end where it begins.
    starter
        The first of the waiting jobs that are to start there, -1 if there is none. The list leaves it alone.
    stretch
        The stretch that a slot is in.
    first, size, highest, following, preceding
        Of each stretch: its first slot, its number of slots, a bound of their `free`, the stretches around.
    state
        Shape (5,): see `HEAD`.
    """

    time: IntArray
    free: Int32Array
    before: Int32Array
    after: Int32Array
    uses: Int32Array
    starter: Int32Array
    stretch: Int32Array
    first: Int32Array
    size: Int32Array
    highest: Int32Array
    following: Int32Array
    preceding: Int32Array
    state: IntArray


def new_slots(reservations: int, machine: int, now: int) -> Slots:
    """Return the slots of a machine that is free from `now` on, with room for so many reservations."""
    room = 2 * reservations + 4
    columns = [np.empty(room, np.int32) for _ in range(11)]
    slots = Slots._make([np.empty(room, np.int64), *columns, np.zeros(5, np.int64)])
    slots.time[0], slots.free[0], slots.uses[0] = now, machine, _PRESENT
    slots.first[0], slots.size[0], slots.highest[0] = 0, 1, machine
    slots.stretch[0] = 0
    for ends in (slots.before, slots.after, slots.starter, slots.following, slots.preceding):
        ends[0] = -1
    slots.state[:] = 0, -1, 1, -1, 1
    return slots


@kernel()
def bare_slots(slots):
    """Return the same as bare columns."""
    return Slots(
        bare(slots.time), bare(slots.free), bare(slots.before), bare(slots.after), bare(slots.uses),
        bare(slots.starter), bare(slots.stretch), bare(slots.first), bare(slots.size), bare(slots.highest),
        bare(slots.following), bare(slots.preceding), bare(slots.state),
    )  # fmt: skip


@kernel()
def _split(slots, stretch):
    """Make two of a stretch that is too long."""
    state, first, size, highest = slots.state, slots.first, slots.size, slots.highest
    new = state[_SPARE_STRETCH]
    if new >= 0:
        state[_SPARE_STRETCH] = slots.following[new]
    else:
        new = state[_STRETCHES]
        state[_STRETCHES] += 1
    following = slots.following[stretch]
    slots.following[new], slots.preceding[new], slots.following[stretch] = following, stretch, new
    if following >= 0:
        slots.preceding[following] = new
    slot = first[stretch]
    for _ in range(_LONGEST // 2):
        slot = slots.after[slot]
    first[new], size[new], highest[new] = slot, size[stretch] - _LONGEST // 2, highest[stretch]
    size[stretch] = _LONGEST // 2
    for _ in range(size[new]):
        slots.stretch[slot] = new
        slot = slots.after[slot]


@kernel()
def cut(slots, near, t):
    """Return the slot that begins at t, making one if there is none; `near` is a slot close by."""
    time, after, state = slots.time, slots.after, slots.state
    slot = np.int64(near)
    while time[slot] > t:
        slot = slots.before[slot]
    while after[slot] >= 0 and time[after[slot]] <= t:
        slot = after[slot]
    if time[slot] == t:
        return slot
    new = state[_SPARE_SLOT]
    if new >= 0:
        state[_SPARE_SLOT] = after[new]
    else:
        new = state[_SLOTS]
        state[_SLOTS] += 1
    time[new], slots.free[new], slots.starter[new], slots.uses[new] = t, slots.free[slot], -1, 0
    following, stretch = after[slot], slots.stretch[slot]
    slots.before[new], after[new], after[slot] = slot, following, new
    if following >= 0:
        slots.before[following] = new
    slots.stretch[new] = stretch
    slots.size[stretch] += 1
    if slots.size[stretch] > _LONGEST:
        _split(slots, stretch)
    return new


@kernel()
def _drop(slots, slot):
    """Take a slot out of the list."""
    state, stretch = slots.state, slots.stretch[slot]
    before, after = slots.before[slot], slots.after[slot]
    slots.size[stretch] -= 1
    if slots.size[stretch] == 0:
        preceding, following = slots.preceding[stretch], slots.following[stretch]
        if preceding >= 0:
            slots.following[preceding] = following
        if following >= 0:
            slots.preceding[following] = preceding
        slots.following[stretch] = state[_SPARE_STRETCH]
        state[_SPARE_STRETCH] = stretch
    elif slots.first[stretch] == slot:
        slots.first[stretch] = after
    if before >= 0:
        slots.after[before] = after
    if after >= 0:
        slots.before[after] = before
    slots.after[slot] = state[_SPARE_SLOT]
    state[_SPARE_SLOT] = slot


@kernel()
def disuse(slots, slot):
    """Take note that a reservation begins or ends no more at a slot."""
    slots.uses[slot] -= 1
    if slots.uses[slot] == 0:
        _drop(slots, slot)


@kernel()
def move_to(slots, now):
    """Forget what is before `now`, and let the first slot begin there."""
    head = slots.state[HEAD]
    while slots.after[head] >= 0 and slots.time[slots.after[head]] <= now:
        past, head = head, np.int64(slots.after[head])
        slots.uses[head] += _PRESENT
        _drop(slots, past)
    slots.state[HEAD] = head
    slots.time[head] = now


@kernel()
def change(slots, begin, end, width):
    """Add to the free processors from slot `begin` to slot `end`; a negative width takes them."""
    slot = np.int64(begin)
    while slot != end:
        free = slots.free[slot] + width
        slots.free[slot] = free
        slots.highest[slots.stretch[slot]] = max(slots.highest[slots.stretch[slot]], free)
        slot = slots.after[slot]


@kernel()
def last_slot(slots, t):
    """Return the last slot that begins at t or before; t is not in the past."""
    stretch = slots.stretch[slots.state[HEAD]]
    following = slots.following[stretch]
    while following >= 0 and slots.time[slots.first[following]] <= t:
        stretch = following
        following = slots.following[stretch]
    slot = np.int64(slots.first[stretch])
    while slots.after[slot] >= 0 and slots.time[slots.after[slot]] <= t:
        slot = slots.after[slot]
    return slot


@kernel()
def earliest_slot(slots, since, width, length, latest):
    """Return the first slot from which `width` processors are free for `length` seconds.

    The search begins at slot `since`; if there is none before slot `latest`, that is returned. With -1 the
    search goes on: for a width up to the machine's there is always a slot.
    """
    time, free, after = slots.time, slots.free, slots.after
    limit = time[latest] if latest >= 0 else np.int64(2**63 - 1)
    slot = np.int64(since)
    while slot != latest:
        if free[slot] < width:
            slot = _next_room(slots, slot, width, limit)
            if slot < 0:
                return np.int64(latest)
        begin, until = slot, time[slot] + length
        slot = np.int64(after[slot])
        while slot >= 0 and time[slot] < until and free[slot] >= width and slot != latest:
            slot = after[slot]
        if slot < 0 or time[slot] >= until:
            return begin
    return np.int64(latest)


@kernel()
def _next_room(slots, slot, width, limit):
    """Return the next slot with room that begins before `limit`, or -1; improve the bounds on the way."""
    free, after, highest = slots.free, slots.after, slots.highest
    stretch = slots.stretch[slot]
    most = np.int64(0) if slots.first[stretch] == slot else _ENDLESS
    while free[slot] < width:
        most = max(most, free[slot])
        slot = np.int64(after[slot])
        if slot < 0:
            return slot
        if slots.stretch[slot] != stretch:
            highest[stretch] = min(highest[stretch], most)
            stretch, most = slots.stretch[slot], np.int64(0)
            while highest[stretch] < width:
                stretch = slots.following[stretch]
                if stretch < 0:
                    return np.int64(-1)
                slot = np.int64(slots.first[stretch])
        if slots.time[slot] >= limit:
            return np.int64(-1)
    return slot
