"""Bounds against all schedules of a few jobs, and against a linear program of the relaxation."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import gridtune as gt
from gridtune.batch.metrics.compiled import least_backlog
from gridtune.workload.workload import Workload
from tests.conftest import examples

Jobs = list[tuple[int, int, int]]

#: Submission, run time, processors.
JOBS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 6), st.integers(1, 3)), min_size=1, max_size=5
).map(sorted)


def schedule_of(jobs: Jobs, order: str = "fcfs") -> gt.Schedule:
    submit, run, processors = np.array(jobs, np.int64).T
    columns = {"submit_time": submit, "run_time": run, "requested_time": run}
    return gt.simulate(Workload({**columns, "requested_processors": processors}), processors=3, order=order)


def least_response(jobs: Jobs) -> float:
    """Return the least area-weighted response of all schedules on three processors.

    For a regular measure, starting jobs one by one as early as possible gives an optimum in some order.
    """
    best = np.inf
    for order in permutations(jobs):
        used = np.zeros(60, np.int64)
        total = 0
        for submit, run, width in order:
            start = next(t for t in range(submit, 60) if (used[t : t + run] + width <= 3).all())
            used[start : start + run] += width
            total += run * width * (start + run - submit)
        best = min(best, total)
    return best / sum(run * width for _, run, width in jobs)


def relaxed_backlog(jobs: Jobs, slots: int) -> float:
    """Return the least integral of the work left, where work is spread evenly over 1/slots of a second."""
    horizon = (max(job[0] for job in jobs) + sum(job[1] for job in jobs)) * slots
    count = len(jobs)
    middle = (np.arange(horizon) + 0.5) / slots
    rooms: npt.NDArray[np.float64] = np.zeros((count, horizon))
    for row, (submit, _, width) in enumerate(jobs):
        rooms[row, submit * slots :] = width / slots
    work = np.kron(np.eye(count), np.ones(horizon))
    found = linprog(
        np.concatenate([middle - job[0] for job in jobs]),
        A_ub=np.tile(np.eye(horizon), count),
        b_ub=np.full(horizon, 3 / slots),
        A_eq=work,
        b_eq=[run * width for _, run, width in jobs],
        bounds=np.stack([np.zeros(rooms.size), rooms.ravel()], axis=1),
    )
    return float(found.fun)


def backlog(jobs: Jobs) -> float:
    return float(least_backlog(*np.array(jobs, np.int64).T.copy(), 3))


@given(JOBS)
@examples(60)
def test_no_schedule_is_below_the_bound(jobs: Jobs) -> None:
    bound = gt.evaluate(schedule_of(jobs))["area_weighted_response_bound"]
    assert bound <= least_response(jobs) * (1 + 1e-12)


@given(JOBS)
@examples(25)
def test_the_backlog_is_the_optimum_of_the_relaxation(jobs: Jobs) -> None:
    least = backlog(jobs)
    assert least <= relaxed_backlog(jobs, 4) + 1e-6
    # In time slots a little more is left to do, and ever less the shorter they are.
    assert relaxed_backlog(jobs, 4) <= least * 1.02 + 0.2


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        # By itself, a job is done when it has run.
        ([(0, 10, 2)], 10.0 * 20 / 2),
        # Six processor-seconds on three: done after two seconds, by 3 and 3 and then by 1, 1, 1.
        ([(0, 1, 3), (0, 1, 3)], 6.0 * 2 / 2),
        # The long task keeps its processor; the others share two for three seconds; it runs one more.
        ([(0, 4, 1), (0, 2, 3)], (10 + 1) / 2 * 3 + 1 / 2),
    ],
)
def test_the_backlog_by_hand(jobs: Jobs, expected: float) -> None:
    assert backlog(jobs) == pytest.approx(expected)


def test_a_serial_machine_that_never_waits_meets_its_bound() -> None:
    values = gt.evaluate(schedule_of([(0, 5, 1), (1, 7, 2), (9, 3, 3)]))
    assert values["area_weighted_response_bound"] == pytest.approx(values["area_weighted_response"])


def test_jobs_left_out_do_not_count() -> None:
    schedule = schedule_of([(0, 5, 3), (0, 5, 3), (6, 2, 1)])
    assert gt.evaluate(schedule, warmup=2)["area_weighted_response_bound"] == pytest.approx(2.0)
