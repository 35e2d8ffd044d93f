"""Days from workloads: minutes, cutting, groups, subsets."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.errors import SimulationError, WorkloadError
from gridtune.systems.shutdown.simulator.days import build_days
from gridtune.workload.files import join_workloads, read_days
from gridtune.workload.workload import Workload


def log(submit, *, run=60, walltime=120, cores=1, user=0, name="log") -> Workload:
    count = len(submit)
    fields = {
        "submit_time": submit,
        "run_time": np.broadcast_to(run, count),
        "requested_time": np.broadcast_to(walltime, count),
        "requested_processors": np.broadcast_to(cores, count),
        "user": np.broadcast_to(user, count),
    }
    return Workload({key: np.array(column, np.int64) for key, column in fields.items()}, name=name)


def test_seconds_become_minutes_begun():
    days = build_days(log([1, 60, 61], run=[0, 60, 61], walltime=[59, -1, 3600]))
    assert days.submit.tolist() == [1, 1, 2]
    assert days.run.tolist() == [1, 1, 2]
    # A walltime that is not known: the run time stands for it.
    assert days.walltime.tolist() == [1, 1, 60]


def test_a_long_log_is_cut_at_its_midnights():
    days = build_days(log([10, 86_399, 86_400, 4 * 86_400 + 60], user=[5, 9, 9, 5]))
    assert days.names == ("log/day-00000", "log/day-00001", "log/day-00004")
    assert days.first.tolist() == [0, 2, 3, 4]
    assert days.submit.tolist() == [1, 1440, 0, 1]
    assert days.user.tolist() == [0, 1, 0, 0]
    assert days.minutes.tolist() == [1440] * 3
    hours = build_days(log([10, 3600, 7300]), minutes=60)
    assert hours.submit.tolist() == [1, 0, 2]


def test_joined_logs_are_days_of_their_own():
    logs = [log([100, 90_000], name="b/x"), log([5], name="a/x")]
    joined = join_workloads(logs)
    assert joined.is_joined
    assert joined.joined_parts()[0] == ("b/x", "a/x")
    days = build_days(joined)
    assert days.names == ("b/x", "a/x")
    assert days.submit.tolist() == [2, 1500, 1]
    assert build_days(joined, cut="days").names == ("b/x/day-00000", "b/x/day-00001", "a/x/day-00000")
    whole = build_days(joined, cut="whole")
    assert len(whole) == 2
    assert whole.minutes[0] > 1500


def test_the_checksum_of_joined_logs_knows_their_names():
    one, other = log([1], name="train/a"), log([1], name="test/a")
    assert one.checksum == other.checksum
    assert join_workloads([one]).checksum != join_workloads([other]).checksum
    with pytest.raises(WorkloadError, match="two logs are named 'train/a'"):
        join_workloads([one, one])


def test_groups_by_share_of_sequential_submissions():
    minutes = [
        [1, 10, 20, 30, 40],  # none of four gaps
        [1, 2, 20, 30, 40],  # one
        [1, 2, 3, 30, 40],
        [1, 2, 3, 4, 9],  # the last gap is five minutes: not sequential
        [1, 2, 3, 4, 8],
        [7],
    ]
    logs = [log([60 * at for at in day], name=str(i)) for i, day in enumerate(minutes)]
    days = build_days(join_workloads(logs))
    assert days.sequential_share.tolist() == [0, 0.25, 0.5, 0.75, 1, 0]
    assert days.group.tolist() == [1, 2, 3, 4, 5, 1]
    taken = days.take(days.group > 3)
    assert taken.names == ("3", "4")
    assert taken.submit.tolist() == [1, 2, 3, 4, 9, 1, 2, 3, 4, 8]


def test_subsets():
    named = [log([60], name=f"{split}/{i}") for i, split in enumerate(("train", "test", "train"))]
    days = build_days(join_workloads(named))
    assert days.subset("train").tolist() == [True, False, True]
    assert days.subset("test").tolist() == [False, True, False]
    plain = build_days(log([86_400 * day for day in range(10)]))
    assert np.flatnonzero(plain.subset("test")).tolist() == [4, 9]
    assert np.flatnonzero(plain.subset("train")).tolist() == [0, 1, 2, 3, 5, 6, 7, 8]


def test_rank_is_by_area_then_submission():
    days = build_days(log([1, 2, 3, 86_401, 86_402], walltime=[120, 60, 60, 300, 60], cores=[1, 2, 1, 1, 9]))
    assert days.rank.tolist() == [1, 2, 0, 0, 1]


def test_what_cannot_be_simulated_is_told():
    with pytest.raises(SimulationError, match="are not sorted by submission"):
        build_days(log([5, 4]))
    with pytest.raises(SimulationError, match="jobs without run time"):
        build_days(log([5], run=-1))


def test_one_file_of_another_format_is_not_a_day(repository):
    assert not read_days(repository / "traces" / "taurus_days.swf.gz").is_joined
