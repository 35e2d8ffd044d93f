"""The parts of the searches, one by one."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from gridtune.errors import SimulationError
from gridtune.statistics.pareto import Scale, hypervolume
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.fronts import (
    Archive,
    enumerate_front,
    heuristic_plans,
    non_dominated,
    select_plan,
)
from gridtune.systems.provisioning.search.genetic import (
    KINDS,
    Memetic,
    Moga,
    Search,
    _cross,
    _crowding_order,
    _sample_universally,
    _shared_fitness,
)
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.workflows import Workflow
from tests.systems.provisioning.search.problems import small_problem

INF = np.inf


def test_fitness_falls_with_rank_and_with_crowding() -> None:
    """Three on the first front, two of them close together; one dominated; one that cannot be.

    By place 2, 1.5, 1, 0.5, 0: the front's mean is 1.5, dealt out by 1 / niche count, 1 for each of the rest.
    """
    costs = np.array([[0, 10], [1, 9], [10, 0], [10, 10], [INF, INF]], float)
    close = 2 - 0.1 / 0.5  # of σ = 2 / 4; they are a tenth apart in both
    weight = np.array([1 / close, 1 / close, 1])
    assert _shared_fitness(costs) == pytest.approx([*(1.5 * weight / weight.mean()), 0.5, 0.0])
    assert _shared_fitness(costs[:1]).tolist() == [1.0]
    assert _shared_fitness(np.full((4, 2), INF)).tolist() == [1.0] * 4


@pytest.mark.parametrize("points", [1, 2, 3, 50])
def test_crossover_swaps_between_cuts(points: int) -> None:
    slots = 12
    parents = np.tile(np.array([[True] * slots, [False] * slots]), (100, 1))
    children = _cross(parents, points, 1.0, np.random.default_rng(1))
    changes = (np.diff(children.astype(int), axis=1) != 0).sum(axis=1)
    assert (changes == min(points, slots - 1)).all()
    assert (children[::2] ^ children[1::2]).all()  # what one has lost the other has
    assert children[::2, 0].all()
    untouched = _cross(parents, points, 0.0, np.random.default_rng(1))
    assert np.array_equal(untouched, parents)


def test_an_odd_one_out_is_copied() -> None:
    parents = np.eye(3, dtype=bool)
    assert np.array_equal(_cross(parents, 2, 1.0, np.random.default_rng(1))[2], parents[2])


def test_mutation_flips_as_many_bits_as_it_should() -> None:
    problem = small_problem(1, slots=50)
    search = Moga(problem, np.random.default_rng(1), population=400, crossover_rate=0)
    search.step()
    first, children = search._plans, search._propose()
    assert abs(first.mean() - 0.5) < 0.02
    # Without crossover each child is one of the parents with some bits flipped.
    flipped = [(first ^ child).sum(axis=1).min() for child in children]
    assert abs(np.mean(flipped) - 1) < 0.15


def test_selection_is_as_fair_as_whole_numbers_can_be() -> None:
    sample = _sample_universally(np.array([3.0, 0.0, 1.0]), 8, np.random.default_rng(1))
    assert np.bincount(sample, minlength=3).tolist() == [6, 0, 2]
    first = [_sample_universally(np.ones(2), 1, np.random.default_rng(seed))[0] for seed in range(40)]
    assert set(first) == {0, 1}
    fitness = np.random.default_rng(2).random(20)
    counts = np.bincount(_sample_universally(fitness, 57, np.random.default_rng(3)), minlength=20)
    assert (np.abs(counts - 57 * fitness / fitness.sum()) < 1).all()


def test_the_archive_keeps_what_nothing_dominates() -> None:
    rng = np.random.default_rng(1)
    costs = rng.integers(0, 30, (200, 2)).astype(float)
    costs[rng.random(200) < 0.1] = INF
    plans = rng.random((200, 9)) < 0.5
    archive = Archive(9)
    for part in np.array_split(np.arange(200), 13):
        archive.add(costs[part], plans[part])
    feasible = costs[np.isfinite(costs).all(axis=1)].tolist()
    best = sorted(
        {(a, b) for a, b in feasible if not any(c <= a and d <= b and (c, d) != (a, b) for c, d in feasible)}
    )
    assert archive.costs.tolist() == [list(point) for point in best]
    for cost, plan in zip(archive.costs, archive.plans, strict=True):
        first = np.flatnonzero((costs == cost).all(axis=1))[0]
        assert np.array_equal(plan, plans[first])
    assert archive.add(costs, plans) == 0
    assert non_dominated(np.full((3, 2), INF)).tolist() == []


def test_crowding_prefers_fronts_then_lonely_points() -> None:
    costs = np.array([[0, 10], [1, 9], [5, 5], [10, 0], [6, 6], [INF, INF]], float)
    order = _crowding_order(costs).tolist()
    assert set(order[:2]) == {0, 3}
    assert order[2:] == [2, 1, 4, 5]


def test_crowding_distances_by_hand() -> None:
    """Costs are divided by their ranges, 0.1 and 0.5: 0.2 + 0.7, 0.5 + 0.7, 0.8 + 0.3 between the ends."""
    costs = np.array([[0, 50], [1, 45], [2, 15], [6, 10], [10, 0]]) / 100
    assert _crowding_order(costs).tolist() == [0, 4, 2, 3, 1]
    # Equal points stand on different fronts.
    assert _crowding_order(np.array([[1.0, 1], [2, 2], [1, 1]])).tolist() == [0, 2, 1]


def test_the_trade_off_chooses_from_the_front() -> None:
    costs = np.array([[10.0, 900], [12, 500], [20, 400], [30, 390]])
    assert [select_plan(costs, alpha) for alpha in (0, 0.3, 1)] == [3, 2, 0]
    # 0.5: sums of 0.5, 0.158, 0.260, 0.5.
    assert select_plan(costs, 0.5) == 1
    assert select_plan(np.array([[0.0, 10], [10, 0]]), 0.5) == 1  # a tie goes to the least makespan
    assert select_plan(np.array([[10.0, 7], [20, 7]]), 0.0) == 0  # all alike in makespan: the cheapest
    with pytest.raises(SimulationError, match=r"between 0 and 1, but got 1\.5"):
        select_plan(costs, 1.5)
    with pytest.raises(SimulationError, match="no feasible plan"):
        select_plan(np.empty((0, 2)), 0.5)


def test_the_exact_front_is_what_every_plan_says() -> None:
    problem = small_problem(1, slots=8)
    front = enumerate_front(problem)
    every = [[bool(number >> bit & 1) for bit in range(8)] for number in range(256)]
    costs = np.concatenate([problem.evaluate([plan]) for plan in every]).tolist()
    best = sorted(
        {
            (a, b)
            for a, b in costs
            if a < INF and not any(c <= a and d <= b and (c, d) != (a, b) for c, d in costs)
        }
    )
    assert front.costs.tolist() == [list(point) for point in best]
    assert len(front) > 2
    assert np.array_equal(problem.evaluate(front.plans), front.costs)
    with pytest.raises(SimulationError, match=r"2\^21 plans"):
        enumerate_front(small_problem(1, slots=21))


def test_simple_rules_give_distinct_plans_and_everything_first() -> None:
    problem = small_problem(2)
    plans = heuristic_plans(problem, 12)
    assert plans[0].all()
    assert len(np.unique(plans, axis=0)) == len(plans) <= 12
    assert np.array_equal(plans[1], problem.slots.divisible)
    assert len(heuristic_plans(problem, 1)) == 1


def test_the_rectangle_of_the_hypervolume_by_hand() -> None:
    """Two tasks in a row, 4 + 6 s on 2 processors: 20 processor-seconds and 10 s at the least.

    All slots cost 2 × 30 + 1 × 40 and take 10 s, so 1 is a cost of 100 and a makespan of 30.
    """
    workflow = Workflow(("a", "b"), np.array([4.0, 6.0]), np.array([2, 2]), np.array([0]), np.array([1]))
    problem = PlanProblem(workflow, Slots.of([0, 0], [30, 40], [2, 1]), cross_slot="never")
    scale = problem.scale()
    assert scale == Scale((20.0, 10.0), (100.0, 30.0))
    # Half of what is between the bounds in either cost: a quarter is left beyond.
    assert hypervolume([[60.0, 20.0]], scale, reference=1.0) == pytest.approx(0.25)
    assert hypervolume(np.empty((0, 2)), scale, reference=1.0) == 0
    divisible = PlanProblem(workflow, Slots.of([0], 30, 2, divisible=True))
    assert divisible.scale() is None


def test_expensive_slots_are_dropped_more_often() -> None:
    """A slot is dropped in proportion to its price + the mean price; a divisible one has no price."""
    workflow = Workflow(("a",), np.array([1.0]), np.array([1]))
    divisible = np.arange(5) == 4
    slots = Slots.of(0, 10, 1, price=[0.1, 0.2, 0.3, 0.6, 0.6], divisible=divisible)
    search = Memetic(PlanProblem(workflow, slots), np.random.default_rng(1))
    search.crossover_rate, search.drop_rate, search.swap_rate = 0, 1, 0
    search._plans = np.ones((1, 5), np.bool_)
    children = np.array([search._child() for _ in range(6000)])
    dropped = ~children[children.sum(axis=1) == 4]
    # The slots cost 1, 2, 3, 6 and, being divisible, 0: 2.4 in the mean.
    weight = np.array([1, 2, 3, 6, 0]) + 2.4
    assert dropped.mean(axis=0) == pytest.approx(weight / weight.sum(), abs=0.02)
    # A change goes no further than one slot with probability 0.6.
    assert len(dropped) / 6000 == pytest.approx(0.6, abs=0.02)
    free = Slots.of(0, 10, 1, price=[0.0, 0.0])
    assert Memetic(PlanProblem(workflow, free), np.random.default_rng(1))._weight.tolist() == [1, 1]


def test_simple_rules_by_hand() -> None:
    """All slots, the divisible one, each site; then from many early slots to few, with the divisible one."""
    workflow = Workflow(("a",), np.array([1.0]), np.array([1]))
    slots = Slots.of([0, 5, 9], 10, 1, site=[0, 1, 1], divisible=[False, False, True])
    plans = heuristic_plans(PlanProblem(workflow, slots), 10).astype(int).tolist()
    assert plans == [[1, 1, 1], [0, 0, 1], [1, 0, 0], [0, 1, 1], [1, 1, 0], [1, 0, 1]]


def test_an_exchange_gives_up_exactly_one_slot() -> None:
    search = Memetic(small_problem(3), np.random.default_rng(1))
    search.crossover_rate, search.drop_rate, search.swap_rate = 0, 0, 1
    plan = np.arange(10) < 5
    search._plans = plan[None]
    children = np.array([search._child() for _ in range(200)])
    assert ((plan & ~children).sum(axis=1) == 1).all()
    added = (children & ~plan).sum(axis=1)
    assert added.min() == 1 < added.max()


def test_a_batch_has_as_many_new_plans_as_offspring() -> None:
    problem = small_problem(3)
    search = Memetic(problem, np.random.default_rng(1), population=6, offspring=4)
    search.seeds = 3
    assert search.step() == 3
    evaluated = {plan.tobytes() for plan in heuristic_plans(problem, 3)}
    for _ in range(5):
        plans = search._propose()
        search._learn(problem.evaluate(plans), plans)
        new = {plan.tobytes() for plan in plans}
        assert len(plans) == len(new) == 4
        assert not new & evaluated
        evaluated |= new
    # Two slots make four plans, so there is nothing new in the end.
    few = Memetic(small_problem(3, slots=2), np.random.default_rng(1), offspring=4)
    few.run(100)
    assert few.evaluations <= 4
    assert few._propose().shape == (0, 2)


def keywords(search: type[Search]) -> list[inspect.Parameter]:
    """The keywords of a search, and those of `Search` where it passes options on."""
    own = list(inspect.signature(search).parameters.values())
    if own[-1].kind is inspect.Parameter.VAR_KEYWORD:
        own += inspect.signature(Search).parameters.values()
    return [parameter for parameter in own if parameter.kind is inspect.Parameter.KEYWORD_ONLY]


def test_defaults_are_those_of_the_page_on_planning(repository: Path) -> None:
    """The table `Choose a search` names every parameter with its default."""
    text = (repository / "docs" / "planning.md").read_text(encoding="utf-8")
    words = {"off": False, "on": True, "1/n": None}
    for algorithm, search in KINDS.items():
        (row,) = (line for line in text.splitlines() if line.startswith("|") and f"`{algorithm}`" in line)
        pairs = re.findall(r"`(\w+)` \(([^)]*)\)", row.rsplit("|", 2)[1])
        defaults = {name: words[value] if value in words else float(value) for name, value in pairs}
        assert defaults == {parameter.name: parameter.default for parameter in keywords(search)}


@pytest.mark.parametrize(
    "parameters",
    [
        {"population": 1, "offspring": 1, "seeds": 1},
        {"crossover_rate": 0.0, "drop_rate": 0.0, "swap_rate": 0.0},
        {"crossover_rate": 1.0, "drop_rate": 1.0},
        {"swap_rate": 1.0, "drop_rate": 0.0},
    ],
)
def test_extreme_settings_are_allowed(parameters: dict[str, float]) -> None:
    search = Memetic(small_problem(1), np.random.default_rng(1))
    for name, value in parameters.items():
        setattr(search, name, value)
    assert len(search.run(30))
