"""The free-slot view against a dense array with one entry a second."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.systems.provisioning.simulator.reservations import (
    earliest_fit,
    lowest_free,
    new_profile,
    reserve,
)

HORIZON = 600


def dense_fit(free, width, length, since):
    """Return the earliest fit; everything beyond the horizon is free."""
    padded = np.append(free, np.full(length + 1, width))
    fits = (t for t in range(since, len(free) + 1) if (padded[t : t + length] >= width).all())
    return next(fits)


@pytest.mark.parametrize("seed", range(6))
def test_equals_a_dense_array(seed):
    rng = np.random.default_rng(seed)
    machine, now = 12, 0
    free = np.full(HORIZON, machine)
    profile = new_profile(machine, now)
    reservations = []
    for _ in range(500):
        width, length = int(rng.integers(1, machine + 1)), int(rng.integers(1, 40))
        begin = earliest_fit(profile, width, length, now)
        assert begin == dense_fit(free, width, length, now)
        if begin + length < HORIZON and rng.random() < 0.6:
            profile = reserve(profile, now, begin, begin + length, width)
            free[begin : begin + length] -= width
            reservations.append((begin, begin + length, width))
        elif reservations:
            begin, end, width = reservations.pop(int(rng.integers(len(reservations))))
            begin = max(begin, now)
            profile = reserve(profile, now, begin, end, -width)
            free[begin : max(begin, end)] += width
        low, high = sorted(rng.choice(np.arange(now, HORIZON), 2, replace=False))
        assert lowest_free(profile, low, high) == free[low:high].min()
        now += int(rng.random() < 0.2)
    assert len(reservations) > 5, "the trial should leave something reserved"


def test_memory_does_not_grow_with_the_past():
    profile = new_profile(4, 0)
    for now in range(20_000):
        profile = reserve(profile, now, now + 3, now + 5, 1 + now % 2)
    assert len(profile.size) <= 32


def test_a_reservation_given_back_leaves_no_trace():
    profile = new_profile(4, 0)
    for turn in range(20_000):
        begin = 17 * turn % 1000
        profile = reserve(profile, 0, begin, begin + 50, 2)
        profile = reserve(profile, 0, begin, begin + 50, -2)
    assert earliest_fit(profile, 4, 10_000, 0) == 0
    assert len(profile.size) <= 32
