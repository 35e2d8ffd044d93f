"""The free processors of a machine from now on, and the reservations that may move up, compiled.

The free processors are a list of slots that follows its reservations. A slot lasts from its time to that of
the slot after it; the last one lasts for ever. A slot begins only where a reservation begins or ends: `uses`
counts them, and a slot without any is joined to the one before it. So the list is as short as it can be, and
who has a slot at hand changes the list there without a search.

The slots are also in *stretches* of at most 32 in a row, each with a bound of its greatest number of free
processors, so that a search skips those that are full.

A waiting job holds a reservation from its slot on. It can move up in two ways only:

- It *slides*: its processors are free just before its reservation, so that it needs no others at its end.
  Only the jobs that start where a slot's free processors have grown can do that from then on.
- It finds a *hole* that ends before its reservation begins: a run of slots with enough free processors that
  is long enough. Only runs that contain a slot which has grown are new. They are the maximal rectangles under
  the free processors there, which one sweep with a stack finds.

The processors and the length of a job are its *shape*. For each shape that waits there is a bound: no
hole for it begins earlier. Jobs that may move are marked; all others cannot. Under an order that changes they
are listed too, so that nobody else is scored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.tournament import number_rows
from gridtune.core.compiled import kernel
from gridtune.core.marks import Marks, is_marked, mark, new_marks, next_marked, unmark
from gridtune.types import Int32Array, IntArray

#: Profile of a stretch.
_LONGEST = 32
#: What counts as a use of the first slot by the present.
_PRESENT = 1 << 30
_ENDLESS = np.int64(2**31 - 1)
#: The state: the first slot; the first of the slots and stretches that can be used again (-1: none), and how
#: many of each have ever been in use.
_STATE = np.dtype(
    [(name, np.int64) for name in ("head", "spare_slot", "slots", "spare_stretch", "stretches")]
)


class Profile(NamedTuple):
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
        The first slot, and what can be used again: see `_STATE`.
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
    state: Any


def new_profile(reservations: int, machine: int, now: int) -> Profile:
    """Return the slots of a machine that is free from `now` on, with room for so many reservations."""
    room = 2 * reservations + 4
    columns = [np.empty(room, np.int32) for _ in range(11)]
    slots = Profile._make([np.empty(room, np.int64), *columns, np.array((0, -1, 1, -1, 1), _STATE)])
    slots.time[0], slots.free[0], slots.uses[0] = now, machine, _PRESENT
    slots.first[0], slots.size[0], slots.highest[0] = 0, 1, machine
    slots.stretch[0] = 0
    for ends in (slots.before, slots.after, slots.starter, slots.following, slots.preceding):
        ends[0] = -1
    return slots


@kernel()
def _split(slots, stretch):
    """Make two of a stretch that is too long."""
    state, first, size, highest = slots.state, slots.first, slots.size, slots.highest
    new = state.spare_stretch
    if new >= 0:
        state.spare_stretch = slots.following[new]
    else:
        new = state.stretches
        state.stretches += 1
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
    new = state.spare_slot
    if new >= 0:
        state.spare_slot = after[new]
    else:
        new = state.slots
        state.slots += 1
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
        slots.following[stretch] = state.spare_stretch
        state.spare_stretch = stretch
    elif slots.first[stretch] == slot:
        slots.first[stretch] = after
    if before >= 0:
        slots.after[before] = after
    if after >= 0:
        slots.before[after] = before
    slots.after[slot] = state.spare_slot
    state.spare_slot = slot


@kernel()
def disuse(slots, slot):
    """Take note that a reservation begins or ends no more at a slot."""
    slots.uses[slot] -= 1
    if slots.uses[slot] == 0:
        _drop(slots, slot)


@kernel()
def move_to(slots, now):
    """Forget what is before `now`, and let the first slot begin there."""
    head = slots.state.head
    while slots.after[head] >= 0 and slots.time[slots.after[head]] <= now:
        past, head = head, np.int64(slots.after[head])
        slots.uses[head] += _PRESENT
        _drop(slots, past)
    slots.state.head = head
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
    stretch = slots.stretch[slots.state.head]
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


_NEVER = np.int64(2**63 - 1)
#: The state: the number of widths that wait, whether they have changed, the shortest length that waits, and
#: the number of jobs that are listed.
_WIDTHS = np.dtype([(name, np.int64) for name in ("widths", "changed", "shortest", "listed")])


class Movers(NamedTuple):
    """The waiting jobs by where they start and by their shapes, and which of them may move.

    Attributes
    ----------
    position, marked
        The number by which a job is marked, and the marks of the jobs that may move.
    listed
        Under an order that changes, the first `state.listed` are the jobs that have been marked, among others
        that have left; else None.
    width, shape, start, nearer, further
        Of each job: its processors, its shape, the slot where its reservation begins, and its neighbours
        among the jobs that start there (-1: none).
    member, older, newer
        The newest job that waits of each shape, and of each job its neighbours of the same shape.
    processors, length, wider
        Of each shape, in the order of both; `wider` is the first shape with more processors.
    bound, waiting
        Of each shape that waits: no hole for it begins before `bound` seconds. And the marks of these shapes.
    widths, shortest, narrow
        The different processors that wait, rising; for each the shortest length, and its first shape.
    longest
        The longest length of all jobs.
    level, since
        The stack of the sweep: rectangles that are open, by free processors and begin.
    state
        The widths that wait: see `_WIDTHS`.
    """

    position: IntArray
    marked: Marks
    listed: Any
    width: IntArray
    shape: Int32Array
    start: Int32Array
    nearer: Int32Array
    further: Int32Array
    member: Int32Array
    older: Int32Array
    newer: Int32Array
    processors: IntArray
    length: IntArray
    wider: Int32Array
    bound: IntArray
    waiting: Marks
    widths: IntArray
    shortest: IntArray
    narrow: IntArray
    longest: int
    level: IntArray
    since: IntArray
    state: Any


def new_movers(
    position: IntArray, processors: IntArray, length: IntArray, room: int, *, listing: bool
) -> Movers:
    """Return the structure for some jobs, none of which waits yet; `room` is how many slots there may be.

    Where it is `listing` the jobs that may move, `position` must be their own numbers.
    """
    jobs = len(position)
    numbers, firsts = number_rows([processors, length])
    width, longs = processors[firsts], length[firsts]
    order = np.lexsort((longs, width))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    width, longs = width[order], longs[order]
    wider = np.searchsorted(width, width, side="right").astype(np.int32)
    widths = len(np.unique(width)) + 1
    columns = [np.zeros(widths, np.int64) for _ in range(3)]
    links = [np.full(jobs, -1, np.int32) for _ in range(5)]
    listed = np.empty(jobs, np.int32) if listing else None
    return Movers(
        position, new_marks(jobs), listed, processors, rank[numbers], links[0], links[1], links[2],
        np.full(len(order), -1, np.int32), links[3], links[4], width, longs, wider,
        np.zeros(len(order), np.int64), new_marks(len(order)),
        columns[0], columns[1], columns[2], int(longs.max(initial=0)),
        np.empty(room, np.int64), np.empty(room, np.int64), np.zeros((), _WIDTHS),
    )  # fmt: skip


@kernel()
def place(movers, slots, job, slot):
    """Begin a waiting job's reservation at a slot."""
    further = slots.starter[slot]
    movers.nearer[job], movers.further[job] = -1, further
    if further >= 0:
        movers.nearer[further] = job
    slots.starter[slot], movers.start[job] = job, slot
    slots.uses[slot] += 1


@kernel()
def unplace(movers, slots, job):
    """Take a job from the slot where its reservation begins; the caller calls `disuse`."""
    nearer, further = movers.nearer[job], movers.further[job]
    if nearer >= 0:
        movers.further[nearer] = further
    else:
        slots.starter[movers.start[job]] = further
    if further >= 0:
        movers.nearer[further] = nearer


@kernel()
def enter(movers, job):
    """Add a waiting job; return whether it is the only one of its shape."""
    shape = movers.shape[job]
    older = movers.member[shape]
    movers.older[job], movers.newer[job], movers.member[shape] = older, -1, job
    if older >= 0:
        movers.newer[older] = job
        return False
    mark(movers.waiting, shape)
    movers.state.changed = 1
    return True


@kernel()
def leave(movers, job):
    """Remove a job from the waiting jobs."""
    shape, older, newer = movers.shape[job], movers.older[job], movers.newer[job]
    if older >= 0:
        movers.newer[older] = newer
    if newer >= 0:
        movers.older[newer] = older
    else:
        movers.member[shape] = older
        if older < 0:
            unmark(movers.waiting, shape)
            movers.state.changed = 1
    unmark(movers.marked, movers.position[job])


@kernel()
def refresh(movers):
    """List the widths that wait, if others do than before; to be called before `note_growth`."""
    state = movers.state
    if not state.changed:
        return
    count, shortest = 0, _NEVER
    shape = next_marked(movers.waiting, 0)
    while shape >= 0:
        movers.widths[count], movers.narrow[count] = movers.processors[shape], shape
        movers.shortest[count] = movers.length[shape]
        shortest = min(shortest, movers.length[shape])
        count += 1
        shape = next_marked(movers.waiting, movers.wider[shape])
    state.widths, state.changed, state.shortest = count, 0, shortest


@kernel()
def _list_unmarked(listed, movers, job):
    """List a job that is about to be marked, unless it has been marked before."""
    if listed is None:
        return
    if not is_marked(movers.marked, job):
        listed[movers.state.listed] = job
        movers.state.listed += 1


@kernel()
def _mark(movers, job):
    """Take note that a job may move."""
    _list_unmarked(movers.listed, movers, job)
    mark(movers.marked, movers.position[job])


@kernel()
def note_growth(movers, slots, begin, end, width):
    """Mark the jobs that may move since `width` more processors are free from slot `begin` to slot `end`."""
    state, free, after = movers.state, slots.free, slots.after
    slot, most, least = np.int64(begin), np.int64(0), _NEVER
    while slot != end:
        grown = np.int64(free[slot])
        most, least = max(most, grown), min(least, grown)
        slot = np.int64(after[slot])
        job = np.int64(slots.starter[slot])
        while job >= 0:
            if movers.width[job] <= grown:
                _mark(movers, job)
            job = np.int64(movers.further[job])
    floor = max(least - width, 0)
    widths = state.widths
    if widths > 0 and most >= movers.widths[0] and floor < movers.widths[widths - 1]:
        _sweep(movers, slots, begin, end, floor)


@kernel()
def _sweep(movers, slots, begin, end, floor):
    """Look for holes among the maximal runs with more than `floor` free that have slots before `end`."""
    time, free, before, after = slots.time, slots.free, slots.before, slots.after
    level, since, shortest = movers.level, movers.since, movers.state.shortest
    starts, ends = time[begin], time[end]
    slot, too_far = np.int64(begin), starts - movers.longest
    while before[slot] >= 0 and free[before[slot]] > floor and time[slot] > too_far:
        slot = np.int64(before[slot])
    top = 0
    while True:
        t, height = _NEVER, floor
        if slot >= 0:
            t, height = time[slot], max(floor, free[slot])
            if t >= ends and t >= ends + movers.longest:
                height = floor
        opens = t
        while top > 0 and level[top - 1] > height:
            top -= 1
            opens = since[top]
            if t > starts and opens < ends and t - opens >= shortest:
                _offer(movers, slots, max(height, level[top - 1] if top > 0 else floor), level[top], opens, t)
        if t >= ends and (height == floor or (top == 0 and opens >= ends)):
            return
        if height > floor and opens < ends and (top == 0 or level[top - 1] < height):
            level[top], since[top] = height, opens
            top += 1
        slot = np.int64(after[slot])


@kernel()
def _offer(movers, slots, below, height, opens, closes):
    """Offer a hole to the shapes with more than `below` processors, up to `height`."""
    low, high = 0, movers.state.widths
    while low < high:
        middle = (low + high) >> 1
        if movers.widths[middle] <= below:
            low = middle + 1
        else:
            high = middle
    length = closes - opens
    while low < movers.state.widths and movers.widths[low] <= height:
        if movers.shortest[low] <= length:
            _offer_width(movers, slots, movers.narrow[low], opens, length)
        low += 1


@kernel()
def _offer_width(movers, slots, shape, opens, length):
    """Offer a hole to the shapes of as many processors as `shape` has, which is the first of them."""
    beyond = movers.wider[shape]
    while 0 <= shape < beyond and movers.length[shape] <= length:
        if opens < movers.bound[shape]:
            movers.bound[shape] = opens
            job = np.int64(movers.member[shape])
            while job >= 0:
                if slots.time[movers.start[job]] > opens:
                    _mark(movers, job)
                job = np.int64(movers.older[job])
        shape = next_marked(movers.waiting, shape + 1)
