"""Reservoirs as drawn, kernels against the NumPy twin, and the regression against least squares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners import learning, networks, runs
from gridtune.systems.responsive.learners.learning import Learner, RunSamples
from gridtune.systems.responsive.learners.networks import draw_network
from gridtune.systems.responsive.learners.settings import PAPER, LearnerSettings
from tests.systems.responsive.learners import twin

SHARED = np.array([True, False, True, False, False, True, False])
AVERAGED = replace(PAPER, neurons=12, reservoirs=2, leak=0.3, readout_connectivity=0.4)


def network_of(settings, seed=0):
    arrays = draw_network(settings, SHARED, seed)
    readout = np.random.default_rng(seed + 1).normal(size=arrays.readout.shape)
    return arrays.with_readout(readout)


def rows_of(count, seed=2):
    rows = np.random.default_rng(seed).normal(size=(count, SHARED.size))
    rows[:, SHARED] = rows[0, SHARED]
    rows[::2, 1] = 0.0
    return rows


def test_a_reservoir_is_as_the_paper_draws_it() -> None:
    arrays = draw_network(PAPER, [True] * 11 + [False] * 8, seed=3)
    matrix = twin.dense(arrays, 0)
    assert (matrix != 0).sum() == 1000
    assert arrays.readout.shape == (1, 1 + 15)
    assert np.abs(np.linalg.eigvals(matrix)).max() == pytest.approx(PAPER.spectral_radius)
    assert arrays.inputs.min() >= 0
    assert arrays.inputs.max() <= 1
    assert matrix.min() >= 0
    scaled = draw_network(replace(PAPER, input_scale=0.25), [True] * 11 + [False] * 8, seed=3)
    assert_allclose(scaled.inputs, 0.25 * arrays.inputs)


def test_a_reservoir_without_cycles_stays_as_it_is() -> None:
    for seed in range(50):
        arrays = draw_network(replace(PAPER, neurons=4, connectivity=0.15), [True, False], seed)
        matrix = twin.dense(arrays, 0)
        radius = np.abs(np.linalg.eigvals(matrix)).max()
        assert np.isfinite(matrix).all()
        assert radius == pytest.approx(0.9) or (np.linalg.matrix_power(matrix, 4) == 0).all()


@pytest.mark.parametrize("settings", [replace(PAPER, neurons=20), AVERAGED])
def test_kernels_equal_the_twin(settings) -> None:
    arrays, rows = network_of(settings), rows_of(6)
    state = np.random.default_rng(5).uniform(0, 1, arrays.bias.shape)
    before, scratch, q = state.copy(), np.empty((2, settings.neurons)), np.empty(9)
    networks.score_candidates(arrays, state, rows, scratch, q)
    assert_array_equal(state, before)
    assert_allclose(q[:6], [twin.value(arrays, state, row) for row in rows], rtol=1e-12)

    out = np.stack([twin.phi_of(arrays, twin.next_state(arrays, state, row)) for row in rows])
    learning._values_of(arrays.readout, out, q[:6])
    assert_allclose(q[:6], [twin.value(arrays, before, row) for row in rows], rtol=1e-12)

    for row in rows:
        networks.advance(arrays, state, row, scratch)
        before = twin.next_state(arrays, before, row)
    assert_allclose(state, before, rtol=1e-12)
    chosen = np.empty(arrays.readout.shape)
    runs._describe_chosen(arrays, state, chosen)
    assert_allclose(chosen, twin.phi_of(arrays, before), rtol=1e-12)


def test_a_feed_forward_network_is_one_that_forgets() -> None:
    arrays = draw_network(replace(PAPER, regressor="ffnn", neurons=6), SHARED, seed=1)
    row = rows_of(1)[0]
    for state in (np.zeros((1, 6)), np.ones((1, 6))):
        expected = 1 / (1 + np.exp(-(row @ arrays.inputs[0] + arrays.bias[0])))
        assert_allclose(twin.next_state(arrays, state, row)[0], expected)


def test_normal_equations_equal_least_squares_however_samples_come() -> None:
    rng = np.random.default_rng(0)
    phi, target = rng.normal(size=(40, 2, 5)), rng.normal(size=40)
    prior = rng.normal(size=(2, 5))
    settings = replace(PAPER, neurons=4, readout_connectivity=1.0, reservoirs=2, ridge=0.7)
    learner = Learner(draw_network(settings, SHARED, seed=1), settings)
    learner._begin(prior)
    learner._fit()
    assert_allclose(learner.arrays.readout, prior)
    for part in np.split(np.arange(40), [1, 7, 30]):
        samples = RunSamples(
            np.zeros((len(part), 1)), phi[part], target[part], part, np.zeros((0, 1), np.float32)
        )
        learner._add(samples, target[part])
    learner._fit()
    for network, readout in enumerate(learner.arrays.readout):
        assert_allclose(readout, twin.ridge(phi[:, network], target, 0.7, prior[network]), rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "wrong"), [("epsilon", 1.5), ("neurons", 0), ("leak", 0.0), ("method", "q"), ("ridge", 0.0)]
)
def test_settings_out_of_range_are_refused(name, wrong) -> None:
    with pytest.raises(PolicyError, match=name):
        LearnerSettings(**{name: wrong})


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(PolicyError, match="nurons"):
        LearnerSettings.from_dict({"nurons": 3})
    assert LearnerSettings.from_dict(AVERAGED.to_dict()) == AVERAGED
