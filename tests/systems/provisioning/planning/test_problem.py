"""What a planning problem refuses, and what its results must not depend on."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from gridtune.errors import SimulationError
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.workflows import Workflow
from tests.systems.provisioning.planning.twins import crowded_problem

WIDE = Workflow(("small", "huge"), np.array([1.0, 1.0]), np.array([1, 9]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workflow": WIDE}, r"task 'huge' needs 9 processors, and all slots of site 1 offer 7 at once"),
        ({"workflow": WIDE, "cross_slot": "never"}, r"'huge' needs 9 .* offer 4 at once"),
        ({"slots": Slots.of([], [], [])}, "there are no slots"),
        ({"scheduler": "hefty"}, "no scheduler is named 'hefty'\n.*one of heft, greedy"),
        ({"cross_slot": "perhaps"}, "no cross_slot is named 'perhaps'"),
        ({"now": -1}, "not at -1"),
        ({"latency": -1.0}, "a latency of -1.0 s"),
        ({"bandwidth": 0.0}, "a bandwidth of 0.0 bytes/s"),
    ],
)
def test_what_cannot_be_is_refused_and_named(arguments: dict, message: str) -> None:
    slots = Slots.of([0, 0, 0, 5], [10, 10, 10, 10], [2, 3, 4, 3], site=[0, 0, 1, 1])
    small = Workflow(("small",), np.array([1.0]), np.array([1]))
    with pytest.raises(SimulationError, match=message):
        PlanProblem(**{"workflow": small, "slots": slots, **arguments})


def test_slots_that_do_not_overlap_do_not_add_up() -> None:
    slots = Slots.of([0, 10], [10, 10], [5, 5])
    with pytest.raises(SimulationError, match="offer 5 at once"):
        PlanProblem(WIDE, slots)
    PlanProblem(WIDE, Slots.of([0, 9], [10, 10], [5, 5]))


def test_slots_are_of_sites_with_run_times() -> None:
    workflow = Workflow(("a",), np.array([[1.0, 2.0]]), np.array([1]))
    with pytest.raises(SimulationError, match="slot 2 of 2 is of site 2, but there are only 2 sites"):
        PlanProblem(workflow, Slots.of([0, 0], 9, 1, site=[0, 2]))


def test_a_plan_has_a_bit_for_each_slot() -> None:
    problem = crowded_problem(1)
    with pytest.raises(SimulationError, match="a bit for each of 7 slots"):
        problem.evaluate(np.ones((2, 6), bool))


def test_a_problem_can_be_sent_to_another_process() -> None:
    problem = crowded_problem(2)
    full = np.ones(len(problem), bool)
    before = problem.evaluate(full)
    assert np.array_equal(pickle.loads(pickle.dumps(problem)).evaluate(full), before)
