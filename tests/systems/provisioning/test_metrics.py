"""Metrics of a submission, against figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from gridtune.systems.provisioning.metrics import PROVISIONING_METRICS, _change, compare


def test_a_submission_beside_best_effort() -> None:
    """7,200 s instead of 10,000 s, for 5.5 processor-hours instead of 5."""
    assert compare(7200.0, 19_800.0, 10_000.0, 18_000.0) == {
        "workflow_makespan": 7200,
        "allocation_cost": 5.5,
        "workflow_makespan_best_effort": 10_000,
        "allocation_cost_best_effort": 5,
        "workflow_makespan_change": pytest.approx(-0.28),
        "allocation_cost_change": pytest.approx(0.1),
        "workflow_makespan_no_worse": 1,
        "cost_within_tenth": 1,
        "both_no_worse": 0,
    }


@pytest.mark.parametrize(
    ("makespan", "cost", "no_worse", "within_tenth", "both"),
    [
        (100.0, 10.0, 1, 1, 1),  # equal
        (101.0, 10.0, 0, 1, 0),
        (100.0, 10.0 + 5e-9, 1, 1, 1),  # a difference in the last digits counts as none
        (100.0, 10.0 + 5e-8, 1, 1, 0),
        (100.0, 11.0, 1, 1, 0),
        (100.0, 11.1, 1, 0, 0),
        (99.0, 9.0, 1, 1, 1),
    ],
)
def test_what_is_no_worse(makespan: float, cost: float, no_worse: int, within_tenth: int, both: int) -> None:
    metrics = compare(makespan, cost, 100.0, 10.0)
    assert metrics["workflow_makespan_no_worse"] == no_worse
    assert metrics["cost_within_tenth"] == within_tenth
    assert metrics["both_no_worse"] == both


def test_without_a_plan_or_a_queue_comparisons_are_undefined() -> None:
    shares = ("workflow_makespan_no_worse", "cost_within_tenth", "both_no_worse")
    for metrics in (compare(math.nan, math.nan, 9.0, 9.0), compare(9.0, 9.0, math.nan, math.nan)):
        assert all(math.isnan(metrics[name]) for name in shares)
        assert math.isnan(metrics["workflow_makespan_change"])
    assert math.isnan(_change(1.0, 0.0))
    assert math.isnan(_change(math.inf, 2.0))


def test_metrics_name_their_source() -> None:
    assert all(metric.source for metric in PROVISIONING_METRICS.values())
