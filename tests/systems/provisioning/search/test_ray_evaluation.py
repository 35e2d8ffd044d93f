"""Plans evaluated by Ray actors and searches run by Tune: the same results as in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ray import tune

from gridtune.systems.provisioning.search.algorithms import find_front
from gridtune.systems.provisioning.search.ray_evaluation import RayEvaluator
from gridtune.systems.provisioning.search.selection import select_plan
from gridtune.systems.provisioning.search.trainable import PlanSearch
from tests.systems.provisioning.search.problems import small_problem

pytestmark = pytest.mark.integration


def test_actors_change_nothing(cluster: None) -> None:
    problem = small_problem(9, slots=19)
    population = np.random.default_rng(1).random((61, len(problem))) < 0.5
    with RayEvaluator(problem, 2, large=10) as spread:
        assert np.array_equal(spread.evaluate(population), problem.evaluate(population))
        released, here = spread.evaluate_released(population), problem.evaluate_released(population)
        assert np.array_equal(released.costs, here.costs)
        assert np.array_equal(released.used, here.used)
        for rows in (
            population[:3],
            population[:11],
        ):  # too few for the actors; not a multiple of their number
            assert np.array_equal(spread.evaluate(rows), problem.evaluate(rows))
        fronts = [
            find_front("moga", one, np.random.default_rng(2), evaluations=120, population=30)
            for one in (spread, problem)
        ]
    assert np.array_equal(fronts[0].costs, fronts[1].costs)
    assert np.array_equal(
        spread.evaluate(population), problem.evaluate(population)
    )  # closed: evaluated in this process


def test_tune_sweeps_a_searchs_parameters(cluster: None, tmp_path: Path) -> None:
    problem = small_problem(9, slots=19)
    space = {"problem": problem, "seed": 4, "search": "moga", "evaluations": 120, "alpha": 0.25}
    space["population"] = tune.grid_search([20, 40])
    checkpoints = tune.CheckpointConfig(checkpoint_frequency=1, checkpoint_at_end=True)
    run = tune.RunConfig(storage_path=str(tmp_path), checkpoint_config=checkpoints, verbose=0)
    one_actor = tune.TuneConfig(reuse_actors=True, max_concurrent_trials=1)
    results = tune.Tuner(PlanSearch, param_space=space, run_config=run, tune_config=one_actor).fit()
    assert len(results) == 2
    for result in results:
        assert result.error is None
        assert result.checkpoint is not None
        population = result.config["population"]
        rng = np.random.default_rng(4)
        front = find_front("moga", problem, rng, evaluations=120, population=population)
        cost, makespan = front.costs[select_plan(front.costs, 0.25)]
        assert result.metrics["evaluations"] == 120
        assert result.metrics["training_iteration"] == 120 // population
        assert result.metrics["allocation_cost"] == cost / 3600
        assert result.metrics["workflow_makespan"] == makespan
