"""The compiled planners and their plain-Python twin come to the same plans, to the last bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from gridtune.systems.provisioning.planning.problem import PlanProblem
from tests.conftest import examples
from tests.systems.provisioning.planning.twins import crowded_problem, plain_plan, problems

Case = tuple[PlanProblem, npt.NDArray[np.bool_]]


@given(case=problems())
@examples(300)
def test_compiled_and_plain_plans_are_equal(case: Case) -> None:
    problem, population = case
    costs = problem.evaluate(population)
    for mask, cost in zip(population, costs, strict=True):
        assert_equal_plans(problem, mask, cost)


@given(seed=st.integers(0, 2**32 - 1))
@examples(100)
def test_plans_that_combine_slots_are_equal(seed: int) -> None:
    problem = crowded_problem(seed)
    mask = np.ones(len(problem), bool)
    assert_equal_plans(problem, mask, problem.evaluate(mask)[0])


def assert_equal_plans(
    problem: PlanProblem, mask: npt.NDArray[np.bool_], cost: npt.NDArray[np.float64]
) -> None:
    compiled, plain = problem.plan(mask), plain_plan(problem, mask)
    if plain is None:
        assert not compiled.feasible
        assert np.isposinf(cost).all()
        return
    assert cost.tolist() == [plain.allocation_cost, plain.makespan]
    assert (compiled.allocation_cost, compiled.makespan) == tuple(cost)
    for task in range(len(problem.workflow)):
        place = plain.placed[task]
        part = slice(*compiled.pieces[task : task + 2])
        pieces = zip(compiled.piece_slot[part], compiled.piece_processors[part], strict=True)
        assert (compiled.site[task], compiled.start[task]) == (place.site, place.start)
        assert compiled.finish[task] == plain.finish[task]
        assert list(pieces) == place.pieces


@given(case=problems())
@examples(150)
def test_what_nobody_uses_can_be_given_back(case: Case) -> None:
    """A plan without the slots that no task uses is the same schedule, and costs what was said."""
    problem, population = case
    costs, used = problem.evaluate_released(population)
    feasible = np.isfinite(costs[:, 1])
    assert np.array_equal(costs[feasible], problem.evaluate(used)[feasible])
    assert not used[~feasible].any()
    assert (used <= population).all()
    strict = problem.evaluate(population)
    assert np.array_equal(costs[:, 1], strict[:, 1])
    assert (costs[:, 0] <= strict[:, 0]).all()


@given(case=problems())
@examples(100)
def test_no_plan_takes_more_than_there_is(case: Case) -> None:
    """Precedence holds, slots are not overdrawn, and every task has all its processors on one site."""
    problem, population = case
    workflow, slots = problem.workflow, problem.slots
    for mask in population:
        plan = problem.plan(mask)
        if not plan.feasible:
            continue
        owner = plan.piece_task
        assert np.array_equal(np.bincount(owner, plan.piece_processors), workflow.processors)
        assert (plan.start >= problem.now).all()
        assert mask[plan.piece_slot].all()
        assert np.array_equal(slots.site[plan.piece_slot], plan.site[owner])
        assert (plan.start[owner] >= slots.start[plan.piece_slot]).all()
        open_ended = slots.extensible[plan.piece_slot]
        assert (open_ended | (plan.finish[owner] <= slots.end[plan.piece_slot])).all()
        for instant in np.unique(plan.start):
            running = (plan.start[owner] <= instant) & (instant < plan.finish[owner])
            used = np.bincount(plan.piece_slot, running * plan.piece_processors, len(slots))
            assert (used <= slots.processors).all()
        for parent, child, volume in zip(workflow.parent, workflow.child, workflow.volume, strict=True):
            apart = plan.site[parent] != plan.site[child]
            sent = problem.latency + volume / problem.bandwidth if apart else 0.0
            assert plan.start[child] >= plan.finish[parent] + sent
        _check_reservations(plan, slots)


def _check_reservations(plan, slots) -> None:
    reserved = plan.reservations()
    cost = (reserved.processors * (reserved.end - reserved.start) * slots.price[reserved.slot]).sum()
    fixed = slots.fixed[np.unique(np.concatenate([reserved.slot, plan.piece_slot]))].sum()
    assert np.isclose(cost + fixed, plan.allocation_cost)
