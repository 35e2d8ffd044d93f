"""Measures of a site worked out by hand, and what there is none of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridtune.systems.responsive.metrics import RESPONSIVE_METRICS, counted_jobs, measure_site
from gridtune.systems.responsive.simulator.replay import SiteReplay
from gridtune.systems.responsive.simulator.site import SiteJobs


def small_site(**changes):
    """Four jobs, started out of order."""
    jobs = SiteJobs([0, 0, 10, 3600], [100, 300, 90, 1000], [0, 0, 1, 1], [1, 0, 1, 0], np.array([0.6, 0.4]))
    outcome = SiteReplay(
        start=np.array([0, 150, 20, 3600]),
        decision=np.array([0, 2, 1, 3]),
        time=np.array([0, 20, 150, 3600]),
        pool=np.array([2, 4, 4, 2]),
        fairness=np.array([1.0, 0.5, 0.7, 0.9]),
        utilisation=np.array([0.0, 0.1, 0.2, 0.3]),
        cores=2,
        core_seconds=20 * 2 + 3580 * 4,
        boots=3,
        track=np.zeros((0, 5), np.int64),
    )
    return jobs, outcome._replace(**changes)


def test_by_hand():
    jobs, outcome = small_site()
    metrics = measure_site(jobs, outcome, weight=0.25, left_out=0)
    responsive = np.array([1.0, 300 / 450, 0.9, 1.0])
    assert metrics["interactive_responsiveness_mean"] == pytest.approx(0.95)
    assert metrics["interactive_responsiveness_std"] == pytest.approx(0.05)
    assert metrics["interactive_responsiveness_above_09"] == 0.5
    assert metrics["batch_responsiveness_mean"] == pytest.approx((2 / 3 + 1) / 2)
    assert metrics["responsiveness_mean"] == pytest.approx(responsive.mean())
    assert metrics["responsiveness_std"] == pytest.approx(responsive.std())
    assert (metrics["interactive_wait_mean"], metrics["batch_wait_mean"]) == (5, 75)
    assert (metrics["interactive_wait_std"], metrics["batch_wait_std"]) == (5, 75)
    # Interactive waits are 0 and 10, batch waits 0 and 150.
    assert metrics["interactive_wait_p95"] == pytest.approx(9.5)
    assert metrics["interactive_wait_p99"] == pytest.approx(9.9)
    assert (metrics["interactive_wait_max"], metrics["batch_wait_max"]) == (10, 150)
    assert (metrics["interactive_wait_below_120"], metrics["batch_wait_below_120"]) == (1, 0.5)
    # F and U belong to decisions, W to jobs: the second job was the third decision.
    fair, used = np.array([1.0, 0.7, 0.5, 0.9]), np.array([0.0, 0.2, 0.1, 0.3])
    assert metrics["fairness_mean"] == pytest.approx(fair.mean())
    assert metrics["fairness_min"] == 0.5
    assert metrics["utilisation_mean"] == pytest.approx(used.mean())
    assert metrics["utilisation_last"] == 0.3
    assert metrics["rigid_reward_mean"] == pytest.approx((0.25 * responsive + 0.75 * fair).mean())
    assert metrics["elastic_reward_mean"] == pytest.approx((0.25 * responsive + 0.75 * used).mean())
    assert metrics["core_hours"] == pytest.approx((20 * 2 + 3580 * 4) / 3600)
    assert metrics["pool_mean"] == pytest.approx((20 * 2 + 3580 * 4) / 3600)
    # After the last submission, only the last job's 1,000 s are paid for.
    assert metrics["cost"] == pytest.approx((20 * 2 + 3580 * 4 + 1000) / 3600)
    assert metrics["boots"] == 3
    assert (metrics["jobs"], metrics["interactive_jobs"], metrics["batch_jobs"]) == (4, 2, 2)
    assert set(metrics) == set(RESPONSIVE_METRICS) - {"responsiveness_mean_bound"}


def test_both_ends_are_left_out():
    jobs, outcome = small_site()
    metrics = measure_site(jobs, outcome, weight=1.0, left_out=1)
    assert metrics["jobs"] == 2
    assert metrics["responsiveness_mean"] == pytest.approx((2 / 3 + 0.9) / 2)
    assert metrics["utilisation_last"] == 0.2
    # The pool is what it was, whoever counts.
    assert metrics["core_hours"] == measure_site(jobs, outcome, weight=1.0, left_out=0)["core_hours"]


@pytest.mark.parametrize(
    ("jobs", "left_out", "counted"),
    [(9500, None, (500, 9000)), (400, None, (50, 350)), (5, None, (0, 5)), (10, 4, (4, 6)), (10, 6, (6, 6))],
)
def test_who_counts(jobs, left_out, counted):
    counted_slice = counted_jobs(jobs, left_out)
    assert (counted_slice.start, counted_slice.stop) == counted


def test_a_site_of_one_job_has_core_hours_and_no_mean_pool():
    _, outcome = small_site()
    one = SiteJobs([5], [100], [0], [1], np.array([1.0]))
    alone = {"start": [9], "decision": [0], "time": [5], "pool": [2], "fairness": [1.0], "utilisation": [0.5]}
    arrays = {name: np.array(values) for name, values in alone.items()}
    metrics = measure_site(one, outcome._replace(core_seconds=720, **arrays), weight=0.5)
    assert (metrics["core_hours"], metrics["boots"]) == (0.2, 3)
    assert math.isnan(metrics["pool_mean"])
    # All of its 100 s are after the last submission.
    assert metrics["cost"] == pytest.approx((720 + 100) / 3600)


def test_nothing_has_no_measures():
    jobs, outcome = small_site()
    metrics = measure_site(jobs, outcome, weight=0.5, left_out=2)
    counts = {"jobs", "interactive_jobs", "batch_jobs"}
    pool = {"core_hours", "pool_mean", "cost", "boots"}
    assert all(metrics[name] == 0 for name in counts)
    assert all(math.isnan(value) for name, value in metrics.items() if name not in counts | pool)
    # One class is missing.
    metrics = measure_site(jobs, outcome, weight=0.5, left_out=1)
    assert metrics["interactive_jobs"] == metrics["batch_jobs"] == 1
