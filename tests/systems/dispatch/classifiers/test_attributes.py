"""Selection of attributes by correlation, beside what WEKA prints for the iris data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from gridtune.systems.dispatch.dispatchers.learners import (
    LEARNERS,
    MACHINE,
    Examples,
    _cut_points,
    _select_attributes,
    _symmetrical_uncertainty,
)


def test_intervals_of_the_iris_data_are_wekas():
    """`weka.filters.supervised.attribute.Discretize` with Fayyad and Irani's criterion."""
    iris = load_iris()
    published = ([5.55, 6.15], [2.95, 3.35], [2.45, 4.75], [0.8, 1.75])
    for column, cuts in enumerate(published):
        np.testing.assert_allclose(_cut_points(iris.data[:, column], iris.target), cuts)


def test_attributes_of_the_iris_data_are_wekas():
    """`CfsSubsetEval` selects petal length and petal width."""
    iris = load_iris()
    assert _select_attributes(iris.data, iris.target).tolist() == [False, False, True, True]


def test_uncertainty_is_one_of_a_copy_and_zero_of_noise():
    coin = np.array([0, 0, 1, 1])
    assert _symmetrical_uncertainty(coin, 7 - coin) == pytest.approx(1)
    assert _symmetrical_uncertainty(coin, np.array([0, 1, 0, 1])) == pytest.approx(0)
    # H(X) = 1, H(Y) = 2, H(X, Y) = 2 bits.
    assert _symmetrical_uncertainty(coin, np.arange(4)) == pytest.approx(2 / 3)
    assert _symmetrical_uncertainty(np.zeros(4, int), np.zeros(4, int)) == 0


def test_noise_and_copies_are_left_out():
    rng = np.random.default_rng(0)
    told, noise = rng.random(2000), rng.random(2000)
    labels = (told > 0.4).astype(np.int64)
    table = np.column_stack([noise, told, told, rng.integers(0, 5, 2000)])
    assert _select_attributes(table, labels, categorical=(3,)).tolist() == [False, True, False, False]
    # Where nothing tells anything there is nothing to select by.
    blind = rng.integers(0, 2, 2000)
    assert _select_attributes(noise[:, None], blind).tolist() == [True]


@pytest.mark.parametrize("name", ["j48", "naive_bayes", "lwl"])
def test_what_is_not_selected_decides_nothing(name):
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.random((600, 3)) * 100, rng.integers(0, 4, 600)])
    labels = (rows[:, 0] > 70).astype(np.int64)
    learner = LEARNERS[name](4, selects_attributes=True)
    learner.refresh(Examples(rows, labels), reselect=True, rng=rng)
    assert learner.kept.tolist() == [True, False, False, False]
    other = rows[:, 0][:, None] * [1.0, 0.0, 0.0, 0.0] + [0.0, 55.0, 99.0, 3.0]
    np.testing.assert_array_equal(learner.chances(rows), learner.chances(other))
    chances = learner.chances(np.array([[10.0, 0, 0, 0], [90.0, 0, 0, 0]]))
    assert chances[0] < 0.5 < chances[1]


@pytest.mark.parametrize("name", ["j48", "naive_bayes", "lwl"])
def test_the_machine_alone_may_be_selected(name):
    rng = np.random.default_rng(2)
    rows = np.column_stack([rng.random((600, 3)) * 100, rng.integers(0, 4, 600)])
    labels = (rows[:, MACHINE] == 2).astype(np.int64)
    learner = LEARNERS[name](4, selects_attributes=True)
    learner.refresh(Examples(rows, labels), reselect=True, rng=rng)
    assert learner.kept.tolist() == [False, False, False, True]
    chances = learner.chances(np.array([[0.0, 0, 0, machine] for machine in range(4)]))
    assert chances.argmax() == 2
    assert (chances > 0.5).sum() == 1
