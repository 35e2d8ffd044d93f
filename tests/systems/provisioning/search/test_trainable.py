"""Searches run by Tune: the same results as in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ray import tune

from gridtune.systems.provisioning.search.algorithms import find_front
from gridtune.systems.provisioning.search.fronts import select_plan
from gridtune.systems.provisioning.search.trainable import PlanSearch
from tests.systems.provisioning.search.problems import small_problem

pytestmark = pytest.mark.integration


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
