"""The list of slots against a dense array with one entry a second, and the marks against a set."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.batch.simulator.profile import (
    change,
    cut,
    disuse,
    earliest_slot,
    last_slot,
    move_to,
    new_profile,
)
from gridtune.core.marks import is_marked, mark, new_marks, next_marked, unmark

HORIZON, MACHINE = 600, 12


def _slots(*given):
    """Return slots as kernels take them: their state is a record."""
    slots = new_profile(*given)
    return slots._replace(state=slots.state[()])


def dense_fit(free, width, length, since):
    """Everything beyond the horizon is free."""
    padded = np.append(free, np.full(length + 1, MACHINE))
    return next(t for t in range(since, len(free) + 1) if (padded[t : t + length] >= width).all())


@pytest.mark.parametrize("seed", range(4))
def test_slots_equal_a_dense_array(seed):
    rng = np.random.default_rng(seed)
    slots, free, now = _slots(500, MACHINE, 0), np.full(HORIZON, MACHINE), 0
    reservations = []
    for _ in range(500):
        width, length = int(rng.integers(1, MACHINE + 1)), int(rng.integers(1, 40))
        begin = earliest_slot(slots, slots.state["head"], width, length, -1)
        t = int(slots.time[begin])
        assert t == dense_fit(free, width, length, now)
        if t + length < HORIZON and rng.random() < 0.6:
            end = cut(slots, begin, t + length)
            slots.uses[[begin, end]] += 1
            change(slots, begin, end, -width)
            free[t : t + length] -= width
            reservations.append((begin, end, width))
        elif reservations:
            begin, end, width = reservations.pop(int(rng.integers(len(reservations))))
            change(slots, begin, end, width)
            free[slots.time[begin] : slots.time[end]] += width
            disuse(slots, begin)
            disuse(slots, end)
        t = int(rng.integers(now, HORIZON))
        assert slots.free[last_slot(slots, t)] == free[t]
        # As far as no reservation begins: the present only passes what has been dealt with.
        begins = [int(slots.time[begin]) for begin, _, _ in reservations]
        now = min([now + int(rng.random() < 0.2), *begins])
        move_to(slots, now)
    assert len(reservations) > 5, "the trial should leave something reserved"


def test_reservations_given_back_leave_one_slot():
    slots = _slots(100, MACHINE, 0)
    ends = []
    for turn in range(100):
        begin = cut(slots, slots.state["head"], 17 * turn % 1000)
        end = cut(slots, begin, 17 * turn % 1000 + 50)
        slots.uses[[begin, end]] += 1
        ends += [begin, end]
    for slot in ends:
        disuse(slots, slot)
    head = slots.state["head"]
    assert (slots.after[head], slots.free[head], slots.following[slots.stretch[head]]) == (-1, MACHINE, -1)


def test_marks_equal_a_set():
    rng = np.random.default_rng(1)
    numbers = 300_000
    marks, expected = new_marks(numbers), set()
    for _ in range(2000):
        number = int(rng.choice([rng.integers(numbers), rng.integers(200)]))
        if rng.random() < 0.6:
            mark(marks, number)
            expected.add(number)
        else:
            unmark(marks, number)
            expected.discard(number)
        start = int(rng.choice([rng.integers(numbers), rng.integers(200)]))
        assert next_marked(marks, start) == min((one for one in expected if one >= start), default=-1)
        assert is_marked(marks, start) == (start in expected)
