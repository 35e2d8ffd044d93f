"""Measures of dispatched jobs, by hand and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.systems.dispatch.metrics import (
    DISPATCH_METRICS,
    dispatch_notes,
    measure_dispatch,
)
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import DispatchReplay

#: One job to learn from, two batches of two: deadlines at 20.
JOBS = DispatchJobs(
    np.array([0, 0, 0, 0, 0]),
    np.array([5, 5, 5, 5, 5]),
    np.array([5, 5, 5, 5, 5]),
    np.array([20, 20, 20, 20, 20]),
    np.array([-1, 0, 0, 1, 1]),
)
MACHINES = Machines(np.ones(2), np.ones(2, np.int64))


def outcome(finish: list[int], chance: list[float], overruled: list[bool]) -> DispatchReplay:
    zero = np.zeros(len(finish), np.int64)
    machine = np.array([0, 1, 1, 0, 1]) if len(finish) == 5 else zero
    return DispatchReplay(machine, zero, zero, np.array(finish), np.array(chance), np.array(overruled), 1, 2)


def test_five_jobs_by_hand():
    ours = outcome([99, 20, 30, 10, 20], [np.nan, 0.9, 0.2, 0.95, 0.8], [False, True, False, False, False])
    theirs = outcome([5, 25, 40, 10, 21], [np.nan] * 5, [False] * 5)
    values = measure_dispatch(JOBS, MACHINES, ours, theirs)
    assert set(values) == set(DISPATCH_METRICS)
    assert (values["jobs"], values["batches"], values["in_time"]) == (4, 2, 3)
    assert values["in_time_share"] == 0.75
    assert values["tardiness_mean"] == 10 / 4
    assert values["tardiness_max"] == 10
    assert values["tardiness_p95"] == pytest.approx(8.5)  # 0.85 of the way from the third to the last
    assert values["response_mean"] == (20 + 30 + 10 + 20) / 4
    # Two of the four jobs at once, then the other two.
    assert (values["response_mean_bound"], values["tardiness_mean_bound"]) == (7.5, 0)
    # First batch: none in time there, so no ratio; second: 2 against 1.
    assert values["relative_in_time_median"] == 2.0
    assert values["relative_tardiness"] == 10 / (5 + 20 + 0 + 1)
    assert values["overruled_share"] == 0.25
    assert values["aroc"] == 1.0
    assert values["brier"] == pytest.approx((0.1**2 + 0.2**2 + 0.05**2 + 0.2**2) / 4)
    # Tenths of the chance: 0.9 and 0.95 both in time, 0.2 late, 0.8 in time.
    assert values["calibration_error"] == pytest.approx((2 * 0.075 + 0.2 + 0.2) / 4)
    assert (values["moves"], values["restarts"]) == (2, 1)
    notes = dispatch_notes(JOBS, ours, theirs, 3)
    assert notes["jobs_by_batch"] == [2, 2]
    assert notes["in_time_by_batch"] == [1, 2]
    assert notes["reference_in_time_by_batch"] == [0, 1]
    assert notes["tardiness_by_batch"] == [5.0, 0.0]
    assert notes["reference_tardiness_by_batch"] == [12.5, 0.5]
    assert notes["assignments"] == [0.25, 0.75, 0.0]
    assert notes["reliability"]["in_time"] == [0.0, 1.0, 1.0]
    assert notes["reliability"]["jobs"] == [1, 1, 2]


def test_ratios_of_batches_are_summed_up_by_median_and_minimum():
    """Jobs in time of three batches of six: 1, 2 and 6 with the learner, 1 each without."""
    zero = np.zeros(18, np.int64)
    jobs = DispatchJobs(zero, zero + 5, zero + 5, zero + 20, np.repeat(np.arange(3), 6))

    def in_time(counts: list[int]) -> DispatchReplay:
        finish = [20 if place < count else 21 for count in counts for place in range(6)]
        return outcome(finish, [np.nan] * 18, [False] * 18)

    values = measure_dispatch(jobs, MACHINES, in_time([1, 2, 6]), in_time([1, 1, 1]))
    assert values["relative_in_time_median"] == 2.0
    assert values["relative_in_time_min"] == 1.0
    assert values["relative_tardiness"] == pytest.approx(9 / 15)


def test_without_chances_there_is_nothing_to_say_of_them():
    silent = outcome([9] * 5, [np.nan] * 5, [False] * 5)
    values = measure_dispatch(JOBS, MACHINES, silent, silent)
    assert np.isnan([values["aroc"], values["brier"], values["calibration_error"]]).all()
    assert values["relative_in_time_median"] == 1.0
    assert np.isnan(values["relative_tardiness"])
