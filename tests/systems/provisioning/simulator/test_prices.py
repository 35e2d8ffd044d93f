"""The six slots of figure 4, and their prices: per processor-second and fixed."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.errors import SimulationError, SweepError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.simulator.site import DAY, SiteState, _Arrivals, _reserved_profile
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.workflows import Workflow

HOUR = 3600
#: A unit of the figure's time: the horizon is the end of the sixth, and a whole day from now.
UNIT = DAY // 6
#: Reservations A, B and C: start and end in hours, nodes. The text says that three are on five nodes, that
#: C ends last, at the end of time 4, and that six slots are free; the hours of A and B are ours.
RESERVATIONS = ((4, 13, 1), (8, 14, 2), (12, 16, 2))


def figure_4():
    begin, end, nodes = np.array(RESERVATIONS, np.int64).T
    none = _Arrivals(*np.zeros((3, 0), np.int64))
    profile = _reserved_profile(5, 0, begin * HOUR, end * HOUR, nodes)
    return SiteState(5, none, 0, 0, profile)


def test_three_reservations_leave_the_six_slots_of_figure_4():
    state = figure_4()
    assert max(end for _, end, _ in RESERVATIONS) * HOUR == 4 * UNIT
    assert state.horizon == 6 * UNIT
    slots = state.slots()
    rows = zip(slots.start // HOUR, slots.end // HOUR, slots.processors, strict=True)
    assert sorted(tuple(map(int, row)) for row in rows) == [
        *((0, 4, 1), (0, 8, 2), (0, 12, 2)),
        *((13, 24, 1), (14, 24, 2), (16, 24, 2)),
    ]
    # Slots that a reservation follows are taken as a whole; others can be divided and extended.
    at_the_horizon = slots.end == state.horizon
    np.testing.assert_array_equal(slots.divisible, at_the_horizon)
    np.testing.assert_array_equal(slots.extensible, at_the_horizon)
    free = (slots.processors * slots.duration).sum()
    reserved = sum((end - begin) * HOUR * nodes for begin, end, nodes in RESERVATIONS)
    assert free + reserved == 5 * DAY


def test_a_slot_costs_its_time_and_a_fixed_price():
    """Equations 1 and 4: n·d·c + f of a whole slot, and of a divisible one only what tasks hold, and f."""
    slots = figure_4().slots(price=0.5, fixed=100.0)
    np.testing.assert_allclose(slots.cost, slots.processors * slots.duration * 0.5 + 100)
    # Tasks of an hour on one node: one in a whole slot of four hours, one in a slot at the horizon.
    task = Workflow(("a",), np.array([3600.0]), np.array([1]), np.zeros(0, int), np.zeros(0, int))
    problem = PlanProblem(task, slots)
    whole, divided = (int(np.argmax(slots.start == hour * HOUR)) for hour in (0, 13))
    paid = [problem.evaluate(np.arange(6)[None] == slot)[0, 0] for slot in (whole, divided)]
    assert paid == [4 * HOUR * 0.5 + 100, HOUR * 0.5 + 100]


def test_each_site_has_its_price():
    slots = Slots.of([0, 0, 5], [10, 10, 10], 1, site=[0, 1, 1])
    priced = slots.priced((1.0, 2.0), (7.0,))
    assert priced.price.tolist() == [1, 2, 2]
    assert priced.fixed.tolist() == [7, 7, 7]
    with pytest.raises(SimulationError, match="price"):
        slots.priced((1.0, -2.0), (0.0,))


RANDOM = {"offers": "poisson", "run_time": 100, "task_processors": 1, "tasks": 20, "depth": 4}


def test_prices_are_parameters():
    plain = run_cell("provisioning", {**RANDOM, "search": "all"}, tables=True)
    same = run_cell("provisioning", {**RANDOM, "search": "all", "slot_price": 1, "slot_fixed_price": "0"})
    assert same.cell.cell_id == plain.cell.cell_id
    priced = {**RANDOM, "search": "all", "slot_price": "2", "slot_fixed_price": 3600}
    dear = run_cell("provisioning", priced, tables=True).outcome
    slots, before = (outcome.tables["slots"] for outcome in (dear, plain.outcome))
    assert set(slots["price"].to_pylist()) == {2.0}
    assert set(slots["fixed"].to_pylist()) == {3600.0}
    # An hour's processor is 3,600 processor-seconds: the fixed price of a slot is one service unit.
    wanted = 2 * plain.outcome.metrics["allocation_cost"] + len(before)
    assert dear.metrics["allocation_cost"] == pytest.approx(wanted)


def test_a_dear_site_is_left_to_the_cheap_ones():
    """Of two sites alike the cost alone takes the one that is half as dear."""
    sites = {**RANDOM, "slot_sites": "20,20", "search": "moga", "alpha": 1, "slot_until": 4000}
    used = []
    for prices in ("1,8", "8,1"):
        outcome = run_cell("provisioning", {**sites, "slot_price": prices}, tables=True).outcome
        slots = outcome.tables["slots"].to_pandas()
        used.append(slots[slots.taken].groupby("site").size().reindex([0, 1], fill_value=0).tolist())
    assert used[0][0] > used[0][1]
    assert used[1][0] < used[1][1]


def test_a_site_charges_best_effort_the_same_price():
    site = {"trace": "quickstart", "tasks": 10, "depth": 2, "task_processors": 2, "search": "all"}
    plain, dear = (
        run_cell("provisioning", {**site, **more}).outcome.metrics for more in ({}, {"slot_price": 3})
    )
    for metric in ("allocation_cost", "allocation_cost_best_effort", "allocation_cost_bound"):
        assert dear[metric] == pytest.approx(3 * plain[metric])
    assert dear["allocation_cost_change"] == pytest.approx(plain["allocation_cost_change"])


def test_a_pilot_is_charged_as_a_slot():
    site = {
        "trace": "quickstart",
        "tasks": 10,
        "depth": 2,
        "task_processors": 2,
        "search": "pilot",
        "alpha": 0,
    }
    plain, fixed = (
        run_cell("provisioning", {**site, **more}).outcome.metrics
        for more in ({}, {"slot_fixed_price": 7200})
    )
    assert fixed["allocation_cost"] == pytest.approx(plain["allocation_cost"] + 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"slot_price": "1,2"}, "slot_price has 2 values for 4 sites"),
        ({"slot_fixed_price": -1}, "slot_fixed_price.0: must be at least 0"),
    ],
)
def test_prices_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(SweepError, match=message):
        run_cell("provisioning", {**RANDOM, **wrong})
