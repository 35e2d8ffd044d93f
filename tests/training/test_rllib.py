"""Through RLlib: the same weights as the loop written out, and checkpoints that go on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.callbacks.callbacks import RLlibCallback

from benchmarks.comparators.torch_loop import TorchLoop
from gridtune.errors import PolicyError
from gridtune.training.networks import make_network
from gridtune.training.ppo import PPOSettings
from gridtune.training.rllib import network_of, ppo_config
from tests.training.tasks import RecallTask

pytestmark = pytest.mark.integration

SETTINGS = PPOSettings(steps=24, minibatches=4, gamma=0.9, learning_rate=3e-3, updates=6, seed=4)


class CountingSteps(RLlibCallback):
    def on_episode_step(self, **_):
        raise AssertionError


def make_task(count):
    return RecallTask(count, lengths=(5, 11), cut=True)


def config_of(runners=0):
    return ppo_config(make_task, "recurrent", SETTINGS, environments=4, runners=runners, sequence=12)


def trained_by_hand(updates, settings=SETTINGS):
    network = make_network("recurrent", 3, 2, sequence=12, seed=settings.seed)
    loop = TorchLoop(make_task(4), network, settings)
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


def test_rllib_evaluates_and_trains_on_as_without(cluster) -> None:
    algorithm = config_of().build_algo()
    algorithm.train()
    evaluated = algorithm.evaluate()["env_runners"]
    assert evaluated["num_episodes"] >= algorithm.config.evaluation_duration
    assert evaluated["episode_return_mean"] == pytest.approx(
        algorithm.evaluate()["env_runners"]["episode_return_mean"]
    )
    algorithm.train()
    expect_equal(network_of(algorithm), trained_by_hand(2)[0])
    runner = algorithm.env_runner
    assert sum(one.steps for one in runner.sample(num_timesteps=200)) >= 200
    with pytest.raises(PolicyError, match="samples actions from its policy"):
        runner.sample(random_actions=True)
    algorithm.stop()


def test_fields_of_rllib_are_the_settings(cluster) -> None:
    config = config_of()
    assert (config.lr, config.lambda_, config.clip_param, config.num_epochs) == (3e-3, 0.95, 0.2, 4)
    config.training(lr=0.01, lambda_=0.5, gamma=0.8, clip_param=0.1, num_epochs=2, grad_clip=0.5)
    config.training(vf_loss_coeff=0.3, entropy_coeff=0.02)
    config.learners(learner_config_dict={**config.learner_config_dict, "minibatches": 3})
    algorithm = config.build_algo()
    algorithm.train()
    changed = replace(SETTINGS, learning_rate=0.01, lam=0.5, gamma=0.8, clip=0.1, epochs=2, gradient_norm=0.5)
    changed = replace(changed, value_weight=0.3, entropy_weight=0.02, minibatches=3)
    expect_equal(network_of(algorithm), trained_by_hand(1, changed)[0])
    algorithm.stop()


@pytest.mark.parametrize(
    ("method", "options", "field"),
    [
        ("environment", {"env": "CartPole-v1"}, "env"),
        ("learners", {"num_learners": 2}, "num_learners"),
        ("debugging", {"seed": 1}, "seed"),
        ("training", {"train_batch_size_per_learner": 64}, "train_batch_size_per_learner"),
        ("training", {"use_kl_loss": True}, "use_kl_loss"),
        ("training", {"lr": [[0, 0.1], [1000, 0.01]]}, "lr"),
        ("training", {"gamma": 1.5}, "gamma"),
        ("env_runners", {"explore": False}, "explore"),
        ("evaluation", {"evaluation_interval": 1}, "evaluation_interval"),
        ("learners", {"learner_config_dict": {"decays": 1}}, "learner_config_dict"),
        ("env_runners", {"env_to_module_connector": lambda env, *_: None}, "env_to_module_connector"),
        ("callbacks", {"on_episode_end": lambda **_: None}, "on_episode_end"),
        ("callbacks", {"callbacks_class": CountingSteps}, "on_episode_step"),
    ],
)
def test_a_field_that_would_be_ignored_is_refused(cluster, method, options, field) -> None:
    config = config_of()
    getattr(config, method)(**options)
    with pytest.raises(PolicyError, match=f"field {field}"):
        config.build_algo()


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
