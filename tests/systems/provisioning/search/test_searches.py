"""What all searches promise: the truth on small problems, the same again, and nothing lost by stopping."""

from __future__ import annotations

from typing import Any

import moocore
import numpy as np
import pytest

from gridtune.statistics.pareto import Scale, hypervolume
from gridtune.systems.provisioning.parameters import SEARCHES, ProvisioningParameters
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.fronts import enumerate_front, heuristic_plans
from gridtune.systems.provisioning.search.genetic import KINDS, _random_plans
from gridtune.systems.provisioning.simulator.slots import Slots
from tests.systems.provisioning.search.problems import small_problem

SMALL: dict[str, dict[str, Any]] = {
    "moga": {"population": 20},
    "memetic": {"population": 20, "offspring": 10},
    "nsga2": {"population": 20},
    "nsga3": {"population": 20},
    "random": {"population": 20},
}


def test_every_algorithm_is_tested() -> None:
    assert set(SMALL) == set(SEARCHES)


@pytest.mark.parametrize("algorithm", SMALL)
def test_no_search_finds_what_is_not_there(algorithm: str) -> None:
    """Each comes near the exact front of ten slots, and never beyond it."""
    problem = small_problem(4)
    truth = enumerate_front(problem)
    front = KINDS[algorithm](problem, np.random.default_rng(1), **SMALL[algorithm]).run(400)
    assert np.array_equal(problem.evaluate(front.plans), front.costs)
    scale = Scale.of([truth.costs, front.costs])
    assert hypervolume(front.costs, scale) <= hypervolume(truth.costs, scale) + 1e-12
    assert moocore.igd_plus(scale.apply(front.costs), ref=scale.apply(truth.costs)) < 0.1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_memetic_search_finds_the_whole_truth(seed: int) -> None:
    problem = small_problem(seed)
    truth = enumerate_front(problem)
    front = KINDS["memetic"](problem, np.random.default_rng(seed), **SMALL["memetic"]).run(800)
    assert front.costs.tolist() == truth.costs.tolist()


@pytest.mark.parametrize("algorithm", SMALL)
def test_the_budget_is_kept_to_the_plan(algorithm: str) -> None:
    batches = []

    class Counting:
        def __init__(self) -> None:
            self.inner = small_problem(6, slots=16)
            self.workflow, self.slots = self.inner.workflow, self.inner.slots

        def __len__(self) -> int:
            return len(self.inner)

        def evaluate(self, population):
            batches.append(len(population))
            return self.inner.evaluate(population)

        def evaluate_released(self, population):
            batches.append(len(population))
            return self.inner.evaluate_released(population)

    KINDS[algorithm](Counting(), np.random.default_rng(1), **SMALL[algorithm]).run(137)
    assert sum(batches) == 137


def test_seeds_come_first_and_only_if_asked_for() -> None:
    problem = small_problem(7, slots=16)
    plain = KINDS["moga"](problem, np.random.default_rng(1), population=20)
    seeded = KINDS["moga"](problem, np.random.default_rng(1), population=20, seeding=True)
    assert not plain._propose().all(axis=1).any()
    rules = heuristic_plans(problem, 5)  # a quarter at the most; some rules give the same plan
    others = _random_plans(20 - len(rules), 16, np.random.default_rng(1))
    assert np.array_equal(seeded._propose(), np.concatenate([rules, others]))


def test_a_problem_without_a_plan_ends_without_one() -> None:
    problem = small_problem(1)
    nothing = PlanProblem(problem.workflow, Slots.of([0, 1, 2, 9, 9], 5, 8))
    for algorithm, parameters in SMALL.items():
        search = KINDS[algorithm](nothing, np.random.default_rng(1), **parameters)
        assert len(search.run(60)) == 0
        assert 0 < search.evaluations <= 60


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        (
            {"search": "moga", "crossover_points": 1, "crossover_rate": 0.5, "mutation": 2.0, "seeded": True},
            {"crossover_points": 1, "crossover_rate": 0.5, "mutation_rate": 2 / 16, "seeding": True},
        ),
        ({"search": "moga", "mutation": 40.0, "release": True}, {"mutation_rate": 1.0, "release": True}),
        ({"search": "memetic", "release": False}, {"offspring": 12, "release": False}),
        ({"search": "nsga2", "seeded": True}, {"seeding": True}),
    ],
)
def test_a_cells_parameters_are_those_of_its_search(
    settings: dict[str, Any], arguments: dict[str, Any]
) -> None:
    problem = small_problem(8, slots=16)
    parameters = ProvisioningParameters.model_validate(
        {"offers": "poisson", "population": 12, "iterations": 5, **settings}
    )
    front = parameters.run_search(problem, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    expected = KINDS[settings["search"]](problem, rng, population=12, **arguments).run(60)
    assert front.evaluations == expected.evaluations == 60
    assert np.array_equal(front.plans, expected.plans)
