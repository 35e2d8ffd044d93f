"""What a slot may be, and slots made at random."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.simulator.slots import Slots, poisson_slots


def test_columns_and_costs():
    slots = Slots.of([0, 10], [5, 20], [2, 3], price=[1, 2], fixed=[0, 7], divisible=[False, True], site=1)
    assert slots.end.tolist() == [5, 30]
    assert slots.cost.tolist() == [10, 20 * 3 * 2 + 7]
    assert slots.site.tolist() == [1, 1]
    other = pickle.loads(pickle.dumps(slots))
    assert {name: column.tolist() for name, column in other.columns().items()} == {
        "site": [1, 1],
        "start": [0, 10],
        "duration": [5, 20],
        "processors": [2, 3],
        "price": [1, 2],
        "fixed": [0, 7],
        "divisible": [False, True],
        "extensible": [False, False],
    }
    with pytest.raises(ValueError, match="read-only"):
        slots.start[0] = 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("start", [0, -1], "slot 2 of 2: start cannot be -1"),
        ("duration", [0, 5], "slot 1 of 2: duration cannot be 0"),
        ("processors", [1, 0], "slot 2 of 2: processors cannot be 0"),
        ("price", [1, np.nan], "slot 2 of 2: price cannot be nan"),
        ("fixed", [-1, 0], "slot 1 of 2: fixed cannot be -1"),
        ("site", [0, -3], "slot 2 of 2: site cannot be -3"),
    ],
)
def test_what_a_slot_may_not_be(name, value, message):
    columns = {"start": [0, 0], "duration": [1, 1], "processors": [1, 1], name: value}
    with pytest.raises(SimulationError, match=message):
        Slots.of(**columns)


def test_random_slots_have_the_asked_means():
    many = [poisson_slots(np.random.default_rng(seed)) for seed in range(60)]
    assert np.mean([len(slots) for slots in many]) == pytest.approx(124, rel=0.05)
    assert np.mean(np.concatenate([slots.duration for slots in many])) == pytest.approx(1000, rel=0.03)
    for site, most in enumerate((10, 20, 30, 40)):
        here = np.concatenate([slots.processors[slots.site == site] for slots in many])
        assert set(np.unique(here)) == set(range(1, most + 1))
        starts = many[0].start[many[0].site == site]
        assert starts[0] == 0
        assert (np.diff(starts) > 0).all()
        assert starts[-1] <= 30_000
    assert not many[0].divisible.any()
    assert not many[0].extensible.any()


def test_random_slots_need_sites():
    with pytest.raises(SimulationError, match="slots need sites with processors"):
        poisson_slots(np.random.default_rng(0), processors=())
