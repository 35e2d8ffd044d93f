"""Metrics and tables of hand-made results."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridtune.core.usage import NodePower
from gridtune.systems.shutdown.metrics import (
    SHUTDOWN_METRICS,
    combine_days,
    day_tables,
    measure_days,
)
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import DayResults
from gridtune.systems.shutdown.simulator.state import TOTALS
from tests.systems.shutdown.simulator.twins import make_days

PLATFORM = Platform(2, 2, NodePower(idle=10, computing=30, off=1, switching_off=20, switching_on=40))
#: (submit, cores, walltime, run, user): on the first day one job finishes, one is killed at its walltime, one
#: never starts, one is too wide; on the second a late job runs past the end of the day.
DAYS = make_days(
    [
        [(0, 1, 10, 8, 0), (2, 2, 20, 50, 0), (5, 1, 8, 4, 1), (6, 5, 8, 4, 1)],
        [(10, 1, 40, 30, 0), (20, 2, 10, 20, 0)],
    ],
    50,
)
RESULTS = DayResults(
    # Idle, on, asleep, off, computing, idle as reported, core-minutes, switched on, switched off.
    totals=np.array([(5, 2, 60, 3, 30, 4, 48, 3, 2), (7, 1, 70, 6, 16, 7, 30, 1, 2)], TOTALS),
    score=np.array([-1.5, -2.5]),
    minutes=np.array([50, 50]),
    start=np.array([1, 12, -1, -1, 16, 45]),
)


@pytest.fixture(scope="module")
def metrics() -> dict[str, float]:
    return combine_days(measure_days(DAYS, RESULTS, PLATFORM, tau=0.5))


def test_energy(metrics):
    first, second = 50 + 80 + 60, 70 + 40 + 120
    assert metrics["energy_waste_total"] == first + second
    assert metrics["energy_waste_per_day"] == (first + second) / 2
    assert metrics["energy_waste_reported"] == first + second - 10
    computing = (10 * 30 + 20 * 24) + (10 * 16 + 20 * 15)
    assert metrics["energy_computing"] == computing
    assert metrics["energy_sleeping"] == 130
    assert metrics["energy_total"] == first + second + computing + 130
    assert metrics["energy_total_reported"] == first + second - 10 + 130 + 30 * (24 + 15)
    assert (metrics["energy_idle"], metrics["energy_switching_on"]) == (120, 120)
    assert metrics["energy_switching_off"] == 180
    assert metrics["utilisation"] == pytest.approx((48 / 200 + 30 / 200) / 2)


def test_switches(metrics):
    assert (metrics["switches_total"], metrics["switches_per_day"]) == (8, 4)
    assert (metrics["switches_on_total"], metrics["switches_off_total"]) == (4, 4)


def test_waits(metrics):
    # Finished: waits of 1 and 10 on the first day, of 6 on the second.
    assert metrics["wait_mean"] == 60 * (5.5 + 6) / 2
    assert metrics["stretch_mean"] == pytest.approx(((0.1 + 0.5) / 2 + 0.15) / 2)
    assert metrics["stretch_max"] == 0.5
    assert metrics["slowdown_mean"] == pytest.approx(((9 / 8 + 30 / 20) / 2 + 36 / 30) / 2)
    # Late: a wait of 10 at a walltime of 20, one of 25 at 10; and one of 45 at 8 that never started.
    assert metrics["qos_violations"] == 2
    assert metrics["qos_delay_mean"] == 60 * (0 + 20) / 2
    assert metrics["qos_violations_all"] == 3
    assert metrics["qos_delay_all_mean"] == 60 * ((0 + 41) / 2 + 20) / 2
    assert metrics["stretch_beyond_tau"] == pytest.approx(((45 / 8 - 0.5) / 3 + 2 / 2) / 2)


def test_a_job_that_starts_at_minute_0_has_waited_for_none():
    days = make_days([[(0, 1, 10, 8, 0)]], 50)
    results = DayResults(RESULTS.totals[:1], RESULTS.score[:1], RESULTS.minutes[:1], start=np.array([0]))
    measured = combine_days(measure_days(days, results, PLATFORM))
    assert (measured["wait_mean"], measured["stretch_max"]) == (0, 0)


def test_counts(metrics):
    assert (metrics["jobs"], metrics["jobs_started"], metrics["jobs_finished"]) == (6, 4, 3)
    assert (metrics["jobs_rejected"], metrics["days"]) == (1, 2)
    assert (metrics["score"], metrics["score_per_day"]) == (-4, -2)


def test_a_job_submitted_with_the_end_of_the_day_counts_as_submitted_only():
    days = make_days([[(50, 1, 10, 5, 0), (51, 1, 10, 5, 0)]], 50)
    results = DayResults(*(column[:1] for column in RESULTS[:-1]), start=np.array([-1, -1]))
    metrics = combine_days(measure_days(days, results, PLATFORM, tau=0.0))
    assert (metrics["jobs"], metrics["qos_violations_all"]) == (1, 0)
    assert math.isnan(metrics["wait_mean"])
    assert math.isnan(metrics["stretch_max"])
    assert metrics["qos_delay_all_mean"] == 0


def test_metrics_name_their_source():
    assert all(metric.source for metric in SHUTDOWN_METRICS.values())


def test_the_table_of_jobs_by_hand():
    days = make_days([[(0, 1, 10, 8, 0), (3, 1, 10, 8, 0)]], 5)
    results = DayResults(*RESULTS[:-1], start=np.array([1, -1]))
    tables = day_tables(days, {"score": np.array([0.0])}, results)
    assert tables["jobs"]["gap"].to_pylist() == [None, 3]
    assert tables["jobs"]["start"].to_pylist() == [1, None]
    # Eight minutes of run time after one of waiting.
    assert tables["jobs"]["slowdown"].to_pylist() == [pytest.approx(9 / 8), None]
