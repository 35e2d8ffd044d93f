"""Policies on days: what is played is what was trained on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from benchmarks.comparators.torch_loop import TorchLoop
from gridtune.errors import PolicyError
from gridtune.systems.shutdown.environment import ShutdownVectorEnv
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.systems.shutdown.simulator.state import FEATURES
from gridtune.systems.shutdown.training import _hold_out, play_days
from gridtune.training.acting import Actor
from gridtune.training.networks import make_network
from gridtune.training.ppo import PPOSettings, collect
from tests.systems.shutdown.simulator.twins import make_days

MINUTES, CLUSTER = 48, Platform(4, 2)


@pytest.fixture(scope="module")
def days():
    rng = np.random.default_rng(3)

    def day():
        submits = np.sort(rng.integers(0, MINUTES, 20))
        return [(int(at), int(rng.integers(1, 9)), 12, int(rng.integers(1, 12)), 0) for at in submits]

    return make_days([day() for _ in range(12)], MINUTES)


@pytest.mark.parametrize("kind", ["mlp", "recurrent", "paper"])
def test_playing_decides_as_training_does(days, kind) -> None:
    network = make_network(kind, FEATURES, 5, seed=1)
    torch.nn.init.normal_(next(network.policy.parameters()), generator=torch.Generator().manual_seed(2))
    env = ShutdownVectorEnv(6, days, CLUSTER, copy=False)
    rollout = collect(env, Actor(network, 6), MINUTES, seed=5)
    lived = env.clusters.day

    class Given:
        """Gives the numbers that the rollout drew with, minute by minute."""

        chance = torch.rand(MINUTES, 6, generator=torch.Generator().manual_seed(5)).numpy()

        def __init__(self) -> None:
            self.minute = -1

        def random(self, size, dtype):
            self.minute += 1
            return self.chance[self.minute]

    actions = play_days(network, days.take(lived), CLUSTER, rng=Given())
    np.testing.assert_array_equal(actions, rollout.actions.T.numpy())
    assert len(np.unique(actions)) == 5
    results, record = replay(days.take(lived), CLUSTER, rule=actions, record=True)
    np.testing.assert_allclose(record.rewards, rollout.rewards.T.numpy(), rtol=1e-6)
    assert rollout.mean_return == pytest.approx(results.score.mean())


def test_a_greedy_policy_takes_the_likeliest(days) -> None:
    network = make_network("mlp", FEATURES, 5, seed=1)
    with torch.no_grad():
        network.policy[-1].bias[3] = 50.0
    actions = play_days(network, days, CLUSTER)
    assert (actions == 3).all()


def test_a_policy_of_another_cluster_is_refused(days) -> None:
    with pytest.raises(PolicyError, match="weights for 15 actions, not 5"):
        play_days(make_network("mlp", FEATURES, 15), days, CLUSTER)


def test_held_out_days_are_not_learnt_from(days) -> None:
    learnt, judged = _hold_out(days, 4)
    assert judged.names == ("day-3", "day-7", "day-11")
    assert not set(learnt.names) & set(judged.names)
    with pytest.raises(PolicyError, match="too few"):
        _hold_out(days.take(np.arange(3)))


@pytest.mark.parametrize("kind", ["mlp", "recurrent"])
def test_an_agent_learns_the_best_of_all_policies(kind) -> None:
    """Ten minutes of two nodes: of all 59,049 sequences of reservations PPO finds a best one."""
    cluster, minutes = Platform(2, 1), 10
    jobs = [(1, 1, 6, 3, 0), (3, 1, 9, 2, 1), (6, 1, 4, 1, 0)]
    everything = np.array([*itertools.product(range(3), repeat=minutes)], np.int64)
    results, _ = replay(make_days([jobs] * len(everything), minutes), cluster, rule=everything)
    best, day = results.score.max(), make_days([jobs], minutes)
    for rule in ("timeout", "oracle", "adaptive"):
        assert replay(day, cluster, rule=rule, timeout=0)[0].score[0] < best
    network = make_network(kind, FEATURES, 3, seed=0, sequence=minutes if kind == "recurrent" else None)
    settings = PPOSettings(steps=minutes, gamma=1.0, minibatches=4, learning_rate=1e-2, updates=20, seed=0)
    loop = TorchLoop(ShutdownVectorEnv(32, day, cluster, copy=False), network, settings)
    for _ in range(12):
        loop.update()
    learnt, _ = replay(day, cluster, rule=play_days(network, day, cluster))
    assert learnt.score[0] == pytest.approx(best)
