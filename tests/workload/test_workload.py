"""A workload is sound, immutable and the same wherever it goes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from gridtune.errors import WorkloadError
from gridtune.workload import Workload

from .sample_logs import make_workload

GOOD = {"submit_time": np.array([0, 5]), "run_time": np.array([3, -1])}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": [1, 2]}, r"unknown columns \['colour'\]"),
        ({"user": [1]}, "columns differ in length"),
        ({"user": [[1], [2]]}, "one dimension, not 2"),
        ({"user": [1.5, 2]}, "not whole numbers"),
        ({"user": [1.0, float("nan")]}, "not whole numbers"),
        ({"user": ["a", "b"]}, "not whole numbers"),
        ({"user": np.array([1, 2**63], dtype=np.uint64)}, "beyond int64"),
        ({"submit_time": [0, -5]}, r"field submit_time: job 2 of 2: negative submit time -5"),
        ({"run_time": [-2, 5]}, "job 1 of 2: negative time -2"),
        ({"requested_time": [3, -7]}, "negative time -7"),
        ({"requested_processors": [1, 0]}, "zero processors"),
        ({"allocated_processors": [1, -5]}, "-5 processors"),
        ({"requested_processors": [1, 9]}, "wider than the machine: 9 processors, the machine has 8"),
        ({"requested_processors": [1, 2**31]}, "wider than the machine"),
        ({"average_cpu_time": [1, float("nan")]}, "not a finite number"),
        ({"run_time": [1, 2**53 + 1]}, "beyond the largest time"),
    ],
)
def test_what_no_workload_holds(changes, message):
    columns = GOOD | {name: np.asarray(values) for name, values in changes.items()}
    with pytest.raises(WorkloadError, match=message):
        Workload(columns, machine_processors=8)


def test_what_every_workload_needs():
    with pytest.raises(WorkloadError, match=r"needs the columns \['run_time'\]"):
        Workload({"submit_time": np.array([0])})
    with pytest.raises(WorkloadError, match="a machine of 0 processors"):
        Workload(GOOD, machine_processors=0)


def test_columns_are_read_only_copies_of_their_own_type():
    given = np.array([3.0, 4.0])
    workload = Workload({**GOOD, "run_time": given, "average_cpu_time": np.array([1, 2])})
    assert workload.run_time.dtype == np.int64
    assert workload.column("average_cpu_time").dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        workload.run_time[0] = 9
    with pytest.raises(TypeError):
        workload.columns["user"] = given
    with pytest.raises(WorkloadError, match="no such field: 'colour'"):
        workload.column("colour")


def test_the_callers_arrays_are_not_shared():
    mine = np.array([0, 5])
    workload = Workload({**GOOD, "submit_time": mine})
    mine[0] = 1
    assert workload.submit_time.tolist() == [0, 5]


def test_pickling_keeps_everything():
    workload = replace(
        make_workload(run_time=[1, 2]),
        name="x",
        machine_processors=9,
        header={"Note": ("a", "b")},
        names={"partition": {1: "p"}},
        cleaning={"sort_submits": 1},
    )
    copy = pickle.loads(pickle.dumps(workload))
    for name in ("name", "source", "machine_processors", "header", "names", "cleaning", "checksum"):
        assert getattr(copy, name) == getattr(workload, name)
    assert not copy.submit_time.flags.writeable


def test_the_checksum_is_of_content():
    workload = make_workload(run_time=[1, 2], user=[3, 4])
    same = make_workload(run_time=[1, 2], user=[3, 4], group=[-1, -1])
    assert workload.checksum == replace(same, name="other", header={"Note": ("x",)}).checksum
    assert workload.checksum != replace(workload, machine_processors=8).checksum
    assert workload.checksum != make_workload(run_time=[1, 2], user=[4, 3]).checksum
    assert workload.checksum != make_workload(run_time=[1, 2], group=[3, 4]).checksum
    floats = make_workload(run_time=[1, 2], user=[3, 4], average_cpu_time=[-1.0, -1.0])
    assert floats.checksum == workload.checksum


def test_jobs_as_dictionaries():
    assert list(make_workload(submit_time=[4], run_time=[5])) == [
        {"submit_time": 4, "run_time": 5, "requested_processors": 1}
    ]


def test_the_largest_time_is_still_a_time():
    workload = make_workload(submit_time=[2**53], run_time=[2**53], requested_time=[2**53])
    assert workload.run_time.tolist() == [2**53]
    with pytest.raises(WorkloadError, match="beyond the largest time"):
        make_workload(run_time=[2**53 + 1])
