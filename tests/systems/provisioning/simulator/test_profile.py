"""The free-slot view against a dense array with one entry a second."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.systems.provisioning.simulator.profile import (
    NEVER,
    earliest_fit,
    lowest_free,
    new_profile,
    release,
    reserve,
    with_room,
)

HORIZON = 600


def dense_fit(free, width, length, since, latest):
    """Everything beyond the horizon is free."""
    padded = np.append(free, np.full(length + 1, width))
    for t in range(since, min(latest, len(free) + 1)):
        if (padded[t : min(t + length, latest)] >= width).all():
            return t
    return latest


@pytest.mark.parametrize("seed", range(6))
def test_equals_a_dense_array(seed):
    rng = np.random.default_rng(seed)
    machine, now = 12, 0
    free = np.full(HORIZON, machine)
    profile = new_profile(machine, now)
    reservations = []
    for _ in range(500):
        width, length = int(rng.integers(1, machine + 1)), int(rng.integers(1, 40))
        begin = earliest_fit(profile, width, length, now, NEVER)
        assert begin == dense_fit(free, width, length, now, NEVER)
        if begin + length < HORIZON and rng.random() < 0.6:
            profile = with_room(profile, now)
            reserve(profile, begin, begin + length, width)
            free[begin : begin + length] -= width
            reservations.append((begin, begin + length, width))
        elif reservations:
            begin, end, width = reservations.pop(int(rng.integers(len(reservations))))
            begin = max(begin, now)
            profile = with_room(profile, now)
            release(profile, begin, end, width)
            free[begin : max(begin, end)] += width
        low, high = sorted(rng.choice(np.arange(now, HORIZON), 2, replace=False))
        assert lowest_free(profile, low, high) == free[low:high].min()
        now += int(rng.random() < 0.2)
    assert len(reservations) > 5, "the trial should leave something reserved"


def test_latest_is_where_the_search_ends():
    profile = new_profile(4, 0)
    reserve(profile, 0, 10, 3)
    reserve(profile, 10, 20, 4)
    # Held from 10 on, a job of width 1 may start at once: what it holds it may use.
    assert earliest_fit(profile, 1, 15, 0, 10) == 0
    assert earliest_fit(profile, 1, 15, 0, NEVER) == 20
    assert earliest_fit(profile, 2, 1, 0, 10) == 10


def test_memory_does_not_grow_with_the_past():
    profile = new_profile(4, 0)
    for now in range(20_000):
        profile = with_room(profile, now)
        reserve(profile, now + 3, now + 5, 1 + now % 2)
    assert len(profile.size) <= 32


def test_a_reservation_given_back_leaves_no_trace():
    profile = new_profile(4, 0)
    for turn in range(20_000):
        begin = 17 * turn % 1000
        profile = with_room(profile, 0)
        reserve(profile, begin, begin + 50, 2)
        release(profile, begin, begin + 50, 2)
    assert earliest_fit(profile, 4, 10_000, 0, NEVER) == 0
    assert len(profile.size) <= 32
