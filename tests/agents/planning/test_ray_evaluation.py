"""Plans evaluated by Ray actors: the same as here, in the same order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gridtune.agents.planning.algorithms import find_front
from gridtune.agents.planning.ray_evaluation import RayEvaluator
from gridtune.sweep.cluster import ray_session
from tests.agents.planning.problems import small_problem

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with ray_session(None, workers=2, cpus=1):
        yield


def test_actors_change_nothing(cluster: None) -> None:
    problem = small_problem(9, slots=19)
    population = np.random.default_rng(1).random((61, len(problem))) < 0.5
    with RayEvaluator(problem, 2, large=10) as spread:
        assert np.array_equal(spread.evaluate(population), problem.evaluate(population))
        released, here = spread.evaluate_released(population), problem.evaluate_released(population)
        assert np.array_equal(released.costs, here.costs)
        assert np.array_equal(released.used, here.used)
        for rows in (population[:3], population[:11]):  # too few to be worth it; more than the actors take
            assert np.array_equal(spread.evaluate(rows), problem.evaluate(rows))
        fronts = [
            find_front("moga", one, np.random.default_rng(2), evaluations=120, population=30)
            for one in (spread, problem)
        ]
    assert np.array_equal(fronts[0].costs, fronts[1].costs)
    assert np.array_equal(spread.evaluate(population), problem.evaluate(population))  # closed: here
