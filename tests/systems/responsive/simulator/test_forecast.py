"""Quantile regression, and what a forecast learns from a log."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.systems.responsive.simulator.site import SiteJobs
from gridtune.systems.responsive.simulator.stepping import FORECAST_INPUTS, _quantile_weights, learn_forecast


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_a_constant_is_the_quantile_of_the_values(quantile):
    values = np.random.default_rng(1).exponential(size=4000)
    weights = _quantile_weights(np.ones((4000, 1)), values, quantile)
    assert weights[0] == pytest.approx(np.quantile(values, quantile), abs=0.02)


def test_the_share_below_the_line_is_the_quantile():
    rng = np.random.default_rng(2)
    inputs = np.column_stack([np.ones(4000), rng.random(4000)])
    values = inputs @ [1.0, 2.0] + (1 + inputs[:, 1]) * rng.normal(size=4000)
    weights = _quantile_weights(inputs, values, 0.8)
    assert (values <= inputs @ weights).mean() == pytest.approx(0.8, abs=0.01)
    # The noise grows with the input: its quantile has a slope of its own, 0.84.
    assert weights == pytest.approx([1.84, 2.84], abs=0.15)


def test_a_steady_load_grows_by_nothing():
    submit = np.arange(0, 200_000, 100)
    jobs = SiteJobs(submit, 0 * submit + 1000, 0 * submit, 0 * submit, np.ones(1))
    weights = np.array(learn_forecast(jobs.submit, jobs.run, 10, boot=600, timer=60, quantile=0.5))
    steady = np.array([1.0, 1.0, 1.0, 0.6, 3.6, 0.6, 3.6, 0.0, 0.0])
    assert len(weights) == FORECAST_INPUTS
    assert weights @ steady == pytest.approx(0.0, abs=0.05)
    assert learn_forecast(jobs.submit[:0], jobs.run[:0], 10, boot=1, timer=1, quantile=0.5) == (0.0,) * 9
