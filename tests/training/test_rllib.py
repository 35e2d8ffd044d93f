"""Through RLlib: the same weights as the loop written out, and checkpoints that go on."""

from __future__ import annotations

import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm

from benchmarks.comparators.torch_loop import TorchLoop
from gridtune.training.networks import make_network
from gridtune.training.ppo import PPOSettings
from gridtune.training.rllib import network_of, ppo_config
from tests.training.tasks import RecallTask

pytestmark = pytest.mark.integration

SETTINGS = PPOSettings(steps=24, minibatches=4, gamma=0.9, learning_rate=3e-3, updates=6, seed=4)


def make_task(count):
    return RecallTask(count, lengths=(5, 11), cut=True)


def config_of(runners=0):
    return ppo_config(make_task, "recurrent", SETTINGS, environments=4, runners=runners, sequence=12)


def trained_by_hand(updates):
    network = make_network("recurrent", 3, 2, sequence=12, seed=SETTINGS.seed)
    loop = TorchLoop(make_task(4), network, SETTINGS)
    returns = [loop.update() for _ in range(updates)]
    return network, returns


def expect_equal(one, other):
    for left, right in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(left, right)


def test_rllib_trains_the_same_weights_and_goes_on_from_a_checkpoint(cluster, tmp_path) -> None:
    algorithm = config_of().build_algo()
    result = algorithm.train()
    algorithm.train()
    expected, returns = trained_by_hand(2)
    expect_equal(network_of(algorithm), expected)
    assert result["env_runners"]["episode_return_mean"] == pytest.approx(returns[0])
    assert result["learners"]["default_policy"]["loss_value"] > 0
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.stop()

    resumed = Algorithm.from_checkpoint(path)
    expect_equal(network_of(resumed), expected)
    resumed.train()
    expect_equal(network_of(resumed), trained_by_hand(3)[0])
    resumed.stop()


@pytest.mark.slow
def test_remote_runners_have_the_restored_weights(cluster, tmp_path) -> None:
    algorithm = config_of(runners=1).build_algo()
    algorithm.train()
    expected, _ = trained_by_hand(1)
    expect_equal(network_of(algorithm), expected)
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.stop()
    resumed = Algorithm.from_checkpoint(path)
    resumed.train()
    expect_equal(network_of(resumed), trained_by_hand(2)[0])
    resumed.stop()
