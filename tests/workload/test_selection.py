"""Selections and scalings: which jobs, on which clock."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import WorkloadError
from tests.conftest import examples

from .sample_logs import make_workload

EXAMPLES = examples(60)
SUBMITS = st.lists(st.integers(0, 10**9), min_size=1, max_size=30).map(sorted)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_window_keeps_the_clock_and_excludes_its_end():
    workload = make_workload(submit_time=[10, 20, 30, 40])
    assert workload.window(20, 40).submit_time.tolist() == [20, 30]
    assert len(workload.window(41, 99)) == 0
    with pytest.raises(WorkloadError, match="must end after it starts"):
        workload.window(20, 20)


def test_first():
    workload = make_workload(submit_time=[1, 2, 3])
    assert workload.first(2).submit_time.tolist() == [1, 2]
    assert "first beyond the log's end" not in workload.first(3).cleaning
    assert (len(workload.first(99)), workload.first(99).cleaning["first beyond the log's end"]) == (3, 96)
    with pytest.raises(WorkloadError, match="at least 1, but got 0"):
        workload.first(0)


@EXAMPLES
@given(SUBMITS, st.data())
def test_windows_are_consecutive_and_nearly_equal(submits, data):
    workload = make_workload(submit_time=submits)
    count = data.draw(st.integers(1, len(submits)))
    windows = workload.windows(count)
    sizes = [len(window) for window in windows]
    assert len(windows) == count
    assert max(sizes) - min(sizes) <= 1
    assert np.concatenate([window.submit_time for window in windows]).tolist() == submits
    assert len({window.name for window in windows}) == count
    number = data.draw(st.integers(1, count))
    part = workload.part(f"{number}/{count}")
    assert part.name == windows[number - 1].name
    assert np.array_equal(part.submit_time, windows[number - 1].submit_time)


def test_windows_need_order_and_enough_jobs():
    with pytest.raises(WorkloadError, match="are not sorted by submit time"):
        make_workload(submit_time=[2, 1]).windows(2)
    for count in (0, 3):
        with pytest.raises(WorkloadError, match=f"2 jobs cannot be cut into {count} windows"):
            make_workload(submit_time=[1, 2]).windows(count)


def test_user_group_and_partition():
    workload = replace(
        make_workload(user=[1, 2, 1], group=[5, 5, 6], partition=[12, 8, 12]),
        machine_processors=100,
        names={"partition": {8: "in2p3.fr", 12: "rl.ac.uk", 13: "twice", 14: "twice"}},
    )
    assert workload.for_user(1).submit_time.tolist() == [0, 2]
    assert workload.for_group(6).submit_time.tolist() == [2]
    site = workload.for_partition("rl.ac.uk")
    assert site.submit_time.tolist() == workload.for_partition(12).submit_time.tolist() == [0, 2]
    # The size is that of all sites together; one site's is not known.
    assert (workload.for_user(1).machine_processors, site.machine_processors) == (100, None)
    assert site.for_partition(12).machine_processors is None
    whole = replace(site, machine_processors=7)
    assert whole.for_partition(12).machine_processors == 7
    with pytest.raises(WorkloadError, match=r"no partition is named 'rl.ac.u'(.|\n)*mean 'rl.ac.uk'"):
        workload.for_partition("rl.ac.u")
    with pytest.raises(WorkloadError, match="several partitions are named 'twice'"):
        workload.for_partition("twice")
    with pytest.raises(WorkloadError, match="no job has partition 3"):
        workload.for_partition(3)
    with pytest.raises(WorkloadError, match=r"no job has user 9(.|\n)*there are 1, 2"):
        workload.for_user(9)
    with pytest.raises(WorkloadError, match="does not name its partitions"):
        make_workload(partition=[3]).for_partition("x")
    for partition in ("x", 3):
        with pytest.raises(WorkloadError, match="this log has no partitions"):
            make_workload(run_time=[1]).for_partition(partition)
    with pytest.raises(WorkloadError, match=r"there are 2$"):
        make_workload(user=[-1, 2]).for_user(3)


def test_scale_load_by_hand():
    workload = make_workload(submit_time=[100, 101, 103, 110], run_time=[7, 8, 9, 10])
    # Distances 0, 1, 3, 10 over 2 are 0, 0.5, 1.5, 5: halves go to the even second.
    scaled = workload.scale_load(2)
    assert scaled.submit_time.tolist() == [100, 100, 102, 105]
    assert scaled.run_time.tolist() == [7, 8, 9, 10]
    assert workload.scale_load(0.5).submit_time.tolist() == [100, 102, 106, 120]
    assert workload.scale_load(1.0).checksum == workload.checksum


@EXAMPLES
@given(SUBMITS, st.floats(0.01, 100))
def test_scale_load_rounds_the_distance_and_keeps_order(submits, factor):
    scaled = make_workload(submit_time=submits).scale_load(factor)
    for old, new in zip(submits, scaled.submit_time.tolist(), strict=True):
        exact = Fraction(old - submits[0]) / Fraction(factor)
        assert abs(new - submits[0] - exact) <= Fraction(1, 2) + exact * Fraction(1, 2**52)
    assert scaled.is_sorted
    assert scaled.submit_time.dtype == np.int64


def test_scale_run_time():
    workload = make_workload(run_time=[0, -1, 1, 5, 100], requested_time=[-1, 3, 4, 0, 250])
    scaled = workload.scale_run_time(0.1)
    assert scaled.run_time.tolist() == [0, -1, 1, 1, 10]
    assert scaled.requested_time.tolist() == [-1, 1, 1, 0, 25]
    assert workload.scale_run_time(1).checksum == workload.checksum
    assert "requested_time" not in make_workload(run_time=[4]).scale_run_time(2).columns


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_factors_are_positive_numbers(factor):
    workload = make_workload(run_time=[1])
    for scale in (workload.scale_load, workload.scale_run_time):
        with pytest.raises(WorkloadError, match="a finite number above 0"):
            scale(factor)


def test_scaling_beyond_the_largest_time():
    workload = make_workload(submit_time=[0, 10**9], run_time=[1, 10**9])
    with pytest.raises(WorkloadError, match="beyond the largest"):
        workload.scale_load(1e-300)
    with pytest.raises(WorkloadError, match="beyond the largest"):
        workload.scale_run_time(1e300)


def test_shifted_copy():
    workload = make_workload(submit_time=[0, 10, 20], job_id=[1, 2, 7], run_time=[5, 6, 7])
    doubled = workload.add_shifted_copy(1.0, 10, rng())
    assert doubled.submit_time.tolist() == [0, 10, 10, 20, 20, 30]
    assert doubled.job_id.tolist() == [1, 2, 8, 7, 9, 10]
    assert doubled.run_time.tolist() == [5, 6, 5, 7, 6, 7]
    assert workload.add_shifted_copy(0.0, 10, rng()).checksum == workload.checksum


def test_shifted_copies_by_chance_are_reproducible_and_nested():
    workload = make_workload(submit_time=np.arange(4000) * 10, job_id=np.arange(4000))
    few, many = (workload.add_shifted_copy(p, 5, rng(3)) for p in (0.2, 0.5))
    assert workload.add_shifted_copy(0.2, 5, rng(3)).checksum == few.checksum
    assert abs(len(few) - 4800) < 150
    assert abs(len(many) - 6000) < 150
    assert set(few.submit_time.tolist()) < set(many.submit_time.tolist())
    assert many.is_sorted
    assert len(set(many.job_id.tolist())) == len(many)


def test_shifted_copy_arguments():
    workload = make_workload(submit_time=[5])
    with pytest.raises(WorkloadError, match=r"lies in \[0, 1\], but got 1.5"):
        workload.add_shifted_copy(1.5, 1, rng())
    with pytest.raises(WorkloadError, match="whole number of seconds"):
        workload.add_shifted_copy(0.5, 1.5, rng())
    with pytest.raises(WorkloadError, match="moves submissions out"):
        workload.add_shifted_copy(1.0, -6, rng())
    with pytest.raises(WorkloadError, match="moves submissions out"):
        make_workload(submit_time=[5, 90]).add_shifted_copy(1.0, -6, rng())
    with pytest.raises(WorkloadError, match="must be a Generator, but got 42"):
        workload.add_shifted_copy(0.5, 1, 42)


@EXAMPLES
@given(SUBMITS, st.integers(0, 1000), st.integers(0, 2**32))
def test_shake(submits, amount, seed):
    workload = make_workload(submit_time=submits, job_id=range(len(submits)))
    shaken = workload.shake(amount, rng(seed))
    assert shaken.is_sorted
    assert sorted(shaken.job_id.tolist()) == list(range(len(submits)))
    moved = shaken.submit_time - np.asarray(submits)[shaken.job_id]
    assert np.abs(moved).max() <= amount
    assert shaken.submit_time.min() >= submits[0]
    assert shaken.checksum == workload.shake(amount, rng(seed)).checksum


def test_shaking_moves_jobs_both_ways_and_each_seed_its_own():
    workload = make_workload(submit_time=np.arange(2000) * 1000, job_id=np.arange(2000))
    shaken = workload.shake(60, rng(1))
    moved = shaken.submit_time - workload.submit_time
    assert (moved.min(), moved.max()) == (-60, 60)
    assert abs(moved.mean()) < 4
    assert shaken.checksum != workload.shake(60, rng(2)).checksum
    for amount in (-1, 1.5):
        with pytest.raises(WorkloadError, match="the amount to shake by"):
            workload.shake(amount, rng())
