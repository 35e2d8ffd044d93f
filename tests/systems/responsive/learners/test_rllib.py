"""Through RLlib: the same weights as the loop, checkpoints, Tune."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from ray import tune
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core.columns import Columns

from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.rllib import _ESNQ, ESNQConfig, _ESNQModule, policy_of
from gridtune.systems.responsive.learners.settings import PAPER
from gridtune.systems.responsive.learners.training import Trainer
from tests.systems.responsive.learners import twin
from tests.systems.responsive.learners.jobs import RIGID, some_jobs

pytestmark = pytest.mark.integration

SETTINGS = replace(PAPER, neurons=10, readout_connectivity=0.3, relearn=40, sweeps=3, pretraining_sweeps=2)


def config_of():
    config = ESNQConfig().site(some_jobs(), RIGID).training(learner=SETTINGS, weight=0.5)
    return config.debugging(seed=7, log_level="ERROR")


def trained_by_hand(sweeps):
    trainer = Trainer(some_jobs(), RIGID, SETTINGS, 0.5, 7)
    for _ in range(sweeps):
        trainer.step()
    return trainer.policy.arrays


def expect_equal(algorithm, arrays):
    for one, other in zip(policy_of(algorithm).arrays, arrays, strict=True):
        assert_array_equal(one, other)


@pytest.mark.slow
def test_rllib_learns_the_same_weights_and_resumes_from_a_checkpoint(cluster, tmp_path) -> None:
    algorithm = config_of().build_algo()
    algorithm.train()
    result = algorithm.train()
    assert np.abs(trained_by_hand(2).readout).max() > 0
    expect_equal(algorithm, trained_by_hand(2))
    assert 0 < result["learners"]["default_policy"]["reward"] <= 1
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.stop()

    resumed = Algorithm.from_checkpoint(path)
    expect_equal(resumed, trained_by_hand(2))
    resumed.train()
    expect_equal(resumed, trained_by_hand(3))
    resumed.stop()


@pytest.mark.slow
def test_tune_chooses_among_settings(cluster, tmp_path) -> None:
    config = config_of().training(learner={"ridge": tune.grid_search([1e-3, 1e3])})
    tuner = tune.Tuner(
        _ESNQ,
        param_space=config,
        run_config=tune.RunConfig(stop={"training_iteration": 1}, storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert not results.errors
    assert {result.config["learner"]["ridge"] for result in results} == {1e-3, 1e3}


def test_the_module_values_candidates_as_the_twin_does() -> None:
    settings = replace(SETTINGS, reservoirs=2, leak=0.4)
    network = {"settings": settings.to_dict(), "shared": [True, False, False], "seed": 1}
    module = _ESNQModule(model_config={"network": network})
    readout = np.random.default_rng(0).normal(size=tuple(module.readout.shape))
    module.take(module.arrays.with_readout(readout))
    rows = np.random.default_rng(1).normal(size=(1, 4, 3))
    rows[:, :, 0] = rows[:, :1, 0]  # what all candidates of a decision share
    state = torch.rand(1, 2, 10, dtype=torch.float64)
    batch = {Columns.OBS: torch.as_tensor(rows), Columns.STATE_IN: {"reservoirs": state}}
    out = module.forward_inference(batch)
    arrays, before = module.arrays, state[0].numpy()
    values = [twin.value(arrays, before, row) for row in rows[0]]
    assert_allclose(out[Columns.ACTION_DIST_INPUTS][0], values)
    after = twin.next_state(arrays, before, rows[0, int(np.argmax(values))])
    assert_allclose(out[Columns.STATE_OUT]["reservoirs"][0], after)
    assert module.get_initial_state()["reservoirs"].shape == (2, 10)


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(PolicyError, match="no jobs"):
        ESNQConfig().validate()
    with pytest.raises(PolicyError, match="one process"):
        config_of().env_runners(num_env_runners=2).validate()
    with pytest.raises(PolicyError, match="epsilon"):
        config_of().training(learner={"epsilon": 2.0}).validate()
