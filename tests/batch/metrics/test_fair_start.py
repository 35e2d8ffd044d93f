"""Fair start times, on schedules small enough to draw."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridtune.batch.metrics.fair_start import fair_start_times, start_time_unfairness
from gridtune.core.schedules.schedule import Schedule
from gridtune.errors import MetricError
from gridtune.workload.workload import Workload

#: On one processor, shortest first: the first runs 0 to 10, the third 10 to 13, the second 13 to 21.
SUBMIT, RUN = [0, 1, 2], [10, 8, 3]


def workload_of(submit: list[int], run: list[int]) -> Workload:
    ones = np.ones(len(submit), dtype=np.int64)
    return Workload({"submit_time": submit, "run_time": run, "requested_processors": ones})  # type: ignore[dict-item]


def one_server(workload: Workload, *, shortest_first: bool) -> Schedule:
    """Serve one job after the other."""
    submit, run = workload.submit_time, workload.run_time
    start = np.zeros(len(workload), dtype=np.int64)
    waiting, now = set(range(len(workload))), 0
    while waiting:
        here = [job for job in waiting if submit[job] <= now]
        if not here:
            now = int(min(submit[job] for job in waiting))
            continue
        job = min(here, key=lambda job: (run[job] if shortest_first else submit[job], job))
        start[job], now = now, now + int(run[job])
        waiting.remove(job)
    return Schedule(workload, 1, start, start + run, run, np.zeros(len(workload), dtype=np.int8))


def shortest_first(workload: Workload) -> Schedule:
    return one_server(workload, shortest_first=True)


def test_by_hand() -> None:
    workload = workload_of(SUBMIT, RUN)
    schedule = shortest_first(workload)
    assert schedule.start_time.tolist() == [0, 13, 10]
    fair = fair_start_times(workload, shortest_first)
    # Had the third never come, the second would have started at 10.
    assert fair.tolist() == [0, 10, 10]
    unfairness = start_time_unfairness(schedule, fair)
    assert unfairness.jobs == 3
    assert unfairness.unfair_fraction == pytest.approx(1 / 3)
    assert (unfairness.miss_mean, unfairness.miss_max) == (1.0, 3.0)


def test_first_come_first_served_is_fair() -> None:
    rng = np.random.default_rng(0)
    workload = workload_of(np.sort(rng.integers(0, 200, 40)).tolist(), rng.integers(1, 12, 40).tolist())

    def in_turn(jobs: Workload) -> Schedule:
        return one_server(jobs, shortest_first=False)

    fair = fair_start_times(workload, in_turn)
    assert start_time_unfairness(in_turn(workload), fair).miss_max == 0
    # A policy may also start a job earlier than another notion finds fair: that is no unfairness.
    assert start_time_unfairness(in_turn(workload), fair + 5).unfair_fraction == 0
    assert start_time_unfairness(shortest_first(workload), fair).miss_mean > 0


def test_jobs_of_the_same_second_are_not_later() -> None:
    workload = workload_of([0, 1, 1], [10, 8, 3])
    assert fair_start_times(workload, shortest_first).tolist() == [0, 13, 10]


def test_some_jobs_cost_some_simulations() -> None:
    workload = workload_of(SUBMIT, RUN)
    lengths = []

    def counted(jobs: Workload) -> Schedule:
        lengths.append(len(jobs))
        return shortest_first(jobs)

    fair = fair_start_times(workload, counted, jobs=[1])
    assert (fair.tolist(), lengths) == ([10], [2])
    unfairness = start_time_unfairness(shortest_first(workload), fair, jobs=[1])
    assert (unfairness.jobs, unfairness.unfair_fraction, unfairness.miss_mean) == (1, 1.0, 3.0)


def test_no_jobs() -> None:
    workload = workload_of([], [])
    unfairness = start_time_unfairness(shortest_first(workload), fair_start_times(workload, shortest_first))
    assert unfairness.jobs == 0
    assert math.isnan(unfairness.unfair_fraction)
    assert math.isnan(unfairness.miss_mean)


def test_what_is_refused() -> None:
    with pytest.raises(MetricError, match="order of submission"):
        fair_start_times(workload_of([5, 1], [1, 1]), shortest_first)
    with pytest.raises(MetricError, match="2 fair start times for 3 jobs"):
        start_time_unfairness(shortest_first(workload_of(SUBMIT, RUN)), [0, 1])
