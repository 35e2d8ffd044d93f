"""Searched policies: the compiled network decides as the example in NumPy; the search finds minima."""

from __future__ import annotations

import runpy

import numpy as np
import pytest

import gridtune as gt
from benchmarks.batch_search import START, THETA, Player, Search, network_size
from gridtune.batch.policies.rollout import RECOMMENDED

DAY = 86_400


@pytest.fixture(scope="module")
def log():
    return gt.generate_workload("lublin", jobs=1200, seed=3, processors=64, load=1.1)


@pytest.mark.parametrize("guard", [DAY // 4, 400 * DAY])
def test_the_compiled_network_decides_as_the_examples(log, guard, repository):
    network = runpy.run_path(str(repository / "examples" / "network_policy.py"))["Network"]
    player = Player("network", log)
    found = gt.simulate(log, order=network(), guard=guard)
    assert len(network.weights) == network_size(player.width)
    np.testing.assert_array_equal(player.schedule(network.weights, guard).start_time, found.start_time)
    assert (found.start_time != gt.simulate(log, order="sjf", guard=guard).start_time).sum() > 100
    assert np.exp(player.cost(network.weights)) > 0


def test_the_rollout_to_learn_begins_as_the_recommended_one(log):
    plain = np.where(np.arange(THETA) == 3, -60.0, START)
    mine = Player("rollout", log).schedule(plain, 2 * DAY)
    np.testing.assert_array_equal(
        mine.start_time, gt.simulate(log, order=RECOMMENDED, guard=2 * DAY).start_time
    )


def test_the_search_finds_the_least_value():
    goal, scale = np.arange(6.0), np.geomspace(1, 30, 6)
    search = Search(np.zeros(6), 0.5, 12, seed=1)
    for _ in range(250):
        search.tell(np.array([((scale * (one - goal)) ** 2).sum() for one in search.ask()]))
    np.testing.assert_allclose(search.mean, goal, atol=1e-3)
