"""The feed-forward comparator: torch and the kernels say the same, and fitting fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gridtune.systems.responsive.learners.ffnn import FeedForwardLearner, fit
from gridtune.systems.responsive.learners.networks import draw_network
from gridtune.systems.responsive.learners.runs import shared_inputs
from gridtune.systems.responsive.learners.settings import PAPER
from gridtune.systems.responsive.learners.training import Trainer
from tests.systems.responsive.learners import twin
from tests.systems.responsive.learners.jobs import RIGID, some_jobs

SETTINGS = replace(
    PAPER, regressor="ffnn", neurons=8, epochs=5, iterations=2, pretraining_sweeps=1, sweeps=2, relearn=30
)


def test_a_fit_lowers_the_error_and_is_the_same_again() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    target = np.tanh(rows[:, 0] - rows[:, 1])
    arrays = draw_network(SETTINGS, [True, False, False, False], 1)
    fitted, loss = fit(arrays, rows, target, replace(SETTINGS, epochs=40), (1, 2))
    assert loss < 0.02 < target.var()
    values = [twin.value(fitted, np.zeros((1, 8)), row) for row in rows]
    assert np.mean((values - target) ** 2) < 0.02
    again, _ = fit(arrays, rows, target, replace(SETTINGS, epochs=40), (1, 2))
    assert_array_equal(again.readout, fitted.readout)


def test_torch_sees_what_the_twin_sees() -> None:
    arrays = draw_network(SETTINGS, shared_inputs(3, False), 2)
    learner = FeedForwardLearner(arrays, SETTINGS, 0)
    rows = np.random.default_rng(0).normal(size=(4, arrays.columns.size))
    for row, phi in zip(rows, learner._phi(rows), strict=True):
        state = twin.next_state(arrays, np.zeros(arrays.bias.shape), row)
        assert_allclose(phi, twin.phi_of(arrays, state))


@pytest.mark.slow
def test_both_methods_train_and_go_on_where_they_stood() -> None:
    for method in ("sarsa", "fitted_q"):
        settings = replace(SETTINGS, method=method)
        whole, begun = (Trainer(some_jobs(), RIGID, settings, 0.5, 4) for _ in range(2))
        while not whole.over:
            whole.step()
        begun.step()
        resumed = Trainer(some_jobs(), RIGID, settings, 0.5, 4)
        resumed.sweep = begun.sweep
        resumed.learner.arrays, resumed.learner.fits = begun.learner.arrays, begun.learner.fits
        while not resumed.over:
            resumed.step()
        assert np.abs(whole.policy.arrays.readout).max() > 0
        for one, other in zip(whole.policy.arrays, resumed.policy.arrays, strict=True):
            assert_array_equal(one, other)
