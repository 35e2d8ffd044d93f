"""Measures of a site worked out by hand, and what there is none of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridtune.systems.responsive.metrics import RESPONSIVE_METRICS, counted_jobs, measure_site
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.outcome import SiteOutcome


def life(**changes):
    """Four jobs, started out of order."""
    jobs = SiteJobs([0, 0, 10, 3600], [100, 300, 90, 1000], [0, 0, 1, 1], [1, 0, 1, 0], np.array([0.6, 0.4]))
    outcome = SiteOutcome(
        start=np.array([0, 150, 20, 3600]),
        decision=np.array([0, 2, 1, 3]),
        time=np.array([0, 20, 150, 3600]),
        pool=np.array([2, 4, 4, 2]),
        fairness=np.array([1.0, 0.5, 0.7, 0.9]),
        utilisation=np.array([0.0, 0.1, 0.2, 0.3]),
        cores=2,
    )
    return jobs, outcome._replace(**changes)


def test_by_hand():
    jobs, outcome = life()
    found = measure_site(jobs, outcome, weight=0.25, left_out=0)
    responsive = np.array([1.0, 300 / 450, 0.9, 1.0])
    assert found["interactive_responsiveness"] == pytest.approx(0.95)
    assert found["interactive_responsiveness_std"] == pytest.approx(0.05)
    assert found["interactive_above_09"] == 0.5
    assert found["batch_responsiveness"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["responsiveness"] == pytest.approx(responsive.mean())
    assert (found["interactive_delay"], found["batch_delay"]) == (5, 75)
    assert (found["interactive_delay_std"], found["batch_delay_std"]) == (5, 75)
    assert (found["interactive_prompt"], found["batch_prompt"]) == (1, 0.5)
    # F and U belong to decisions, W to jobs: the second job was the third decision.
    fair, used = np.array([1.0, 0.7, 0.5, 0.9]), np.array([0.0, 0.2, 0.1, 0.3])
    assert found["fairness"] == pytest.approx(fair.mean())
    assert found["fairness_least"] == 0.5
    assert found["utilisation"] == pytest.approx(used.mean())
    assert found["utilisation_last"] == 0.3
    assert found["rigid_reward"] == pytest.approx((0.25 * responsive + 0.75 * fair).mean())
    assert found["elastic_reward"] == pytest.approx((0.25 * responsive + 0.75 * used).mean())
    assert found["core_hours"] == pytest.approx((20 * 2 + 3580 * 4) / 3600)
    assert found["mean_pool"] == pytest.approx((20 * 2 + 3580 * 4) / 3600)
    assert (found["jobs"], found["jobs_interactive"], found["jobs_batch"]) == (4, 2, 2)
    assert set(found) == set(RESPONSIVE_METRICS)


def test_both_ends_are_left_out():
    jobs, outcome = life()
    found = measure_site(jobs, outcome, weight=1.0, left_out=1)
    assert found["jobs"] == 2
    assert found["responsiveness"] == pytest.approx((2 / 3 + 0.9) / 2)
    assert found["utilisation_last"] == 0.2
    # The pool is what it was, whoever counts.
    assert found["core_hours"] == measure_site(jobs, outcome, weight=1.0, left_out=0)["core_hours"]


@pytest.mark.parametrize(
    ("jobs", "left_out", "counted"),
    [(9500, None, (500, 9000)), (400, None, (50, 350)), (5, None, (0, 5)), (10, 4, (4, 6)), (10, 6, (6, 6))],
)
def test_who_counts(jobs, left_out, counted):
    chosen = counted_jobs(jobs, left_out)
    assert (chosen.start, chosen.stop) == counted


def test_nothing_has_no_measures():
    jobs, outcome = life()
    found = measure_site(jobs, outcome, weight=0.5, left_out=2)
    counts = {"jobs", "jobs_interactive", "jobs_batch"}
    pool = {"core_hours", "mean_pool"}
    assert all(found[name] == 0 for name in counts)
    assert all(math.isnan(value) for name, value in found.items() if name not in counts | pool)
    # One class is missing.
    found = measure_site(jobs, outcome, weight=0.5, left_out=1)
    assert found["jobs_interactive"] == found["jobs_batch"] == 1
