"""What all searches promise: the truth on small problems, the same again, and nothing lost by stopping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridtune.core.array_files import read_arrays, write_arrays
from gridtune.errors import SimulationError
from gridtune.statistics.pareto import Scale, hypervolume, igd_plus
from gridtune.systems.provisioning.parameters import SEARCHES, ProvisioningParameters
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.algorithms import (
    find_front,
    new_search,
    run_search,
    search_arguments,
)
from gridtune.systems.provisioning.search.fronts import (
    enumerate_front,
    front_hypervolume,
    plan_scale,
    select_plan,
)
from gridtune.systems.provisioning.search.rules import heuristic_plans, random_plans
from gridtune.systems.provisioning.search.trainable import PlanSearch
from gridtune.systems.provisioning.simulator.slots import Slots
from tests.systems.provisioning.search.problems import small_problem

SMALL: dict[str, dict[str, Any]] = {
    "moga": {"population": 20},
    "memetic": {"population": 20, "offspring": 10, "seeds": 6},
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
    front = find_front(algorithm, problem, np.random.default_rng(1), evaluations=400, **SMALL[algorithm])
    assert np.array_equal(problem.evaluate(front.plans), front.costs)
    scale = Scale.of([truth.costs, front.costs])
    assert hypervolume(front.costs, scale) <= hypervolume(truth.costs, scale) + 1e-12
    assert igd_plus(front.costs, truth.costs, scale) < 0.1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_memetic_search_finds_the_whole_truth(seed: int) -> None:
    problem = small_problem(seed)
    truth = enumerate_front(problem)
    front = find_front("memetic", problem, np.random.default_rng(seed), evaluations=800, **SMALL["memetic"])
    assert front.costs.tolist() == truth.costs.tolist()


@pytest.mark.parametrize("algorithm", SMALL)
@pytest.mark.parametrize("release", [False, True])
def test_stopping_and_going_on_changes_nothing(algorithm: str, release: bool, tmp_path: Path) -> None:
    problem = small_problem(5, slots=16)
    parameters = {**SMALL[algorithm], "release": release}
    through = new_search(algorithm, problem, np.random.default_rng(9), **parameters)
    stopped = new_search(algorithm, problem, np.random.default_rng(9), **parameters)
    for _ in range(3):
        through.step()
        stopped.step()
    write_arrays(tmp_path / "search.npz", *stopped.state())
    resumed = new_search(algorithm, problem, np.random.default_rng(123), **parameters)
    resumed.restore(*read_arrays(tmp_path / "search.npz", "search", error=SimulationError))
    for _ in range(3):
        through.step()
        resumed.step()
    assert (through.evaluations, through.iterations) == (resumed.evaluations, resumed.iterations)
    assert np.array_equal(through.archive.costs, resumed.archive.costs)
    assert np.array_equal(through.archive.plans, resumed.archive.plans)
    assert through.rng.random() == resumed.rng.random()


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

    find_front(algorithm, Counting(), np.random.default_rng(1), evaluations=137, **SMALL[algorithm])
    assert sum(batches) == 137


def test_seeds_come_first_and_only_if_asked_for() -> None:
    problem = small_problem(7, slots=16)
    plain = new_search("moga", problem, np.random.default_rng(1), population=20)
    seeded = new_search("moga", problem, np.random.default_rng(1), population=20, seeding=True)
    assert not plain._propose().all(axis=1).any()
    rules = heuristic_plans(problem, 5)  # a quarter at the most; some rules give the same plan
    others = random_plans(20 - len(rules), 16, np.random.default_rng(1))
    assert np.array_equal(seeded._propose(), np.concatenate([rules, others]))


def test_states_of_other_searches_are_refused() -> None:
    problem = small_problem(1)
    moga = new_search("moga", problem, np.random.default_rng(1))
    with pytest.raises(SimulationError, match="of Memetic, not of Moga"):
        moga.restore(*new_search("memetic", problem, np.random.default_rng(1)).state())
    with pytest.raises(SimulationError, match="of 12 slots, the problem has 10"):
        moga.restore(*new_search("moga", small_problem(1, slots=12), np.random.default_rng(1)).state())


@pytest.mark.parametrize(
    ("algorithm", "parameters", "message"),
    [
        ("annealing", {}, "no algorithm is named 'annealing'"),
        ("moga", {"population": 0}, "population cannot be 0"),
        ("moga", {"mutation_rate": 1.5}, "mutation_rate cannot be 1.5"),
        ("moga", {"crossover_points": 0}, "crossover_points cannot be 0"),
        ("memetic", {"drop_rate": -0.1}, "drop_rate cannot be -0.1"),
        ("memetic", {"offspring": 0}, "offspring cannot be 0"),
        ("nsga2", {"population": 1}, "population cannot be 1"),
    ],
)
def test_parameters_that_cannot_be(algorithm: str, parameters: dict, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        new_search(algorithm, small_problem(1), np.random.default_rng(1), **parameters)


def test_a_problem_without_a_plan_ends_without_one() -> None:
    problem = small_problem(1)
    nothing = PlanProblem(problem.workflow, Slots.of([0, 1, 2, 9, 9], 5, 8))
    for algorithm, parameters in SMALL.items():
        search = new_search(algorithm, nothing, np.random.default_rng(1), **parameters)
        assert len(search.run(60)) == 0
        assert 0 < search.evaluations <= 60


def test_a_trainable_goes_on_from_its_checkpoint(tmp_path) -> None:
    config = {"problem": small_problem(8, slots=16), "seed": 3, "evaluations": 100, **SMALL["memetic"]}
    through, stopped = PlanSearch(config), PlanSearch(config)
    stopped.train()
    stopped.save_checkpoint(str(tmp_path))
    resumed = PlanSearch({**config, "seed": 99})
    resumed.load_checkpoint(str(tmp_path))
    expected: dict[str, Any] = {"done": False}
    while not expected["done"]:
        expected = through.train()
    last: dict[str, Any] = {"done": False}
    while not last["done"]:
        last = resumed.train()
    names = ("evaluations", "front", "hypervolume", "allocation_cost", "workflow_makespan")
    names += ("allocation_cost_min", "workflow_makespan_min")
    assert [last[name] for name in names] == [expected[name] for name in names]
    assert last["evaluations"] == 100
    assert np.isfinite(last["workflow_makespan"])


def trained(config: dict[str, Any]) -> dict[str, Any]:
    """Return the last report of a search."""
    search, report = PlanSearch(config), dict[str, Any](done=False)
    while not report["done"]:
        report = search.train()
    return report


@pytest.mark.parametrize(
    "settings",
    [
        {"search": "moga", "crossover_points": 1, "crossover_rate": 0.5, "mutation": 2.0, "seeded": True},
        {"search": "moga", "mutation": 0.0, "release": True},
        {"search": "memetic", "release": False},
        {"search": "nsga2", "seeded": True},
    ],
)
def test_a_trainable_takes_the_names_of_the_system(settings: dict[str, Any]) -> None:
    """The same settings in a cell's parameters and in Tune's search space are the same search."""
    problem, alpha = small_problem(8, slots=16), 0.25
    settings = {**settings, "population": 12, "iterations": 5, "alpha": alpha}
    parameters = ProvisioningParameters.model_validate({"offers": "poisson", "release": False, **settings})
    result = run_search(parameters, problem, np.random.default_rng(3))
    last = trained({"problem": problem, "seed": 3, "release": False, **settings})
    assert last["evaluations"] == result.evaluations == 60
    assert last["hypervolume"] == front_hypervolume(result.costs, plan_scale(problem)) > 0
    cost, makespan = result.costs[select_plan(result.costs, alpha)]
    assert (last["allocation_cost"], last["workflow_makespan"]) == (cost / 3600, makespan)


def test_settings_become_what_the_searches_call_them() -> None:
    assert search_arguments("moga", 20, {"mutation": 3, "seeded": True}) == {
        "mutation_rate": 0.15,
        "seeding": True,
    }
    assert search_arguments("moga", 2, {"mutation": 3}) == {"mutation_rate": 1.0}
    assert search_arguments("memetic", 20, {"population": 30}) == {"population": 30, "offspring": 30}
    assert search_arguments("memetic", 20, {"population": 30, "offspring": 5})["offspring"] == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "moga"}, "field algorithm: search=memetic has no setting algorithm"),
        ({"search": "annealing"}, "no algorithm is named 'annealing'"),
        ({"search": "moga", "mutations": 1}, "field mutations: search=moga has no setting mutations"),
        ({"search": "moga", "mutation": 1, "mutation_rate": 0.1}, "given as mutation_rate, too"),
        ({"search": "nsga2", "version": 3}, "search=nsga2 has no setting version"),
        ({"search": "memetic", "mutation": 1}, "search=memetic has no setting mutation"),
        ({"search": "moga", "mutation": -1}, "mutation_rate cannot be -0.1"),
        ({"iterations": 2, "evaluations": 50}, "field evaluations: given beside iterations"),
        ({"iterations": 0}, "iterations cannot be 0"),
        ({"alpha": 2}, "alpha cannot be 2"),
    ],
)
def test_a_trainable_refuses_what_it_does_not_know(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        PlanSearch({"problem": small_problem(1), "seed": 1, **settings})


def test_a_trainable_needs_a_problem_and_a_seed() -> None:
    with pytest.raises(SimulationError, match="field seed: a search for plans needs one"):
        PlanSearch({"problem": small_problem(1)})
