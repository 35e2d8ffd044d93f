"""The formula of a queue order's function, and what is none."""

from __future__ import annotations

import math
from math import sqrt

import pytest

from gridtune.batch.policies import JobView, QueueOrder, get_queue_order, queue_order_names

VIEWS = [
    JobView(100, 50, 4, 1, 2, 3, 4, 25, 125, 10.0, 20.0, 0.25, 30.0),
    JobView(7, 3600, 1, 0, 0, 1, 1, 90_000, 90_007, 1e6, 2e6, 0.5, 1800.0),
]
CHANGING = ["wfp3", "wfp3(exponent=2.5)", "unicef", "xfactor", "fair-user", "fair-group"]


@pytest.mark.parametrize("name", CHANGING)
def test_it_computes_what_the_function_does(name):
    order = get_queue_order(name)
    formula = order.formula()
    assert formula is not None
    for view in VIEWS:
        assert formula(view) == pytest.approx(order(view), rel=1e-12)


def test_every_shipped_order_but_random_has_one():
    orders = (get_queue_order(name) for name in queue_order_names())
    shipped = [order for order in orders if order.score.__module__ == "gridtune.batch.policies.orders"]
    assert [order.name for order in shipped if order.formula() is None] == ["random"]


WEIGHT = 3.0


def with_a_parameter_named_like_a_field(task, wait=2.0):
    """A parameter, not the field."""
    return wait * task.wait


def with_steps(job):
    hours = job.wait / 3600
    return -hours


def with_a_global(job):
    return WEIGHT * job.wait


def with_a_branch(job):
    return job.wait if job.processors > 1 else 0.0


def with_an_imported_function(job):
    return sqrt(job.wait)


def with_floor(job):
    return math.floor(job.wait / 60)


def with_max_of_its_own(job):
    return max(job.wait, job.walltime)


def order_of(function, **parameters):
    return QueueOrder(function.__name__, function, "", parameters)


def test_a_parameter_may_have_the_name_of_a_field():
    order = order_of(with_a_parameter_named_like_a_field, wait=5.0)
    assert order.formula()(VIEWS[0]) == order(VIEWS[0]) == 125


@pytest.mark.parametrize(
    "function",
    [with_steps, with_a_global, with_a_branch, with_an_imported_function, with_floor, lambda job: job.wait],
)
def test_other_functions_have_none(function):
    assert order_of(function).formula() is None


def test_a_function_that_is_only_called_max_is_none(monkeypatch):
    assert order_of(with_max_of_its_own).formula() is not None
    monkeypatch.setitem(with_max_of_its_own.__globals__, "max", lambda one, other: other)
    assert order_of(with_max_of_its_own).formula() is None
