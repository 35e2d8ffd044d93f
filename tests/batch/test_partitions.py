"""Partitions as machines of their own: each as if there were no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.partitions import partition_sizes, read_sizes
from gridtune.errors import SimulationError, SweepError
from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.run import space_cells
from tests.batch.logs import logs, reference_starts
from tests.conftest import examples

SIZES = {"1": 8, "2": 12}


def parted(log: gt.Workload, partition: np.ndarray, **changes: object) -> gt.Workload:
    return replace(log, columns={**log.columns, "partition": partition}, whole_log=None, **changes)


@examples(60)
@given(
    log=logs(),
    choice=st.integers(0, 2**24),
    policy=st.sampled_from(
        [("fcfs", "easy"), ("sjf", "none"), ("wfp3", "easy"), ("saf", "conservative"), ("f1", "easy")]
    ),
)
def test_equals_the_twin_of_each_partition(log, choice, policy):
    order, backfill = policy
    rng = np.random.default_rng(choice)
    log = parted(log, rng.integers(1, 3, len(log)))
    named = {name: size for name, size in SIZES.items() if int(name) in log.partition}
    schedule = gt.simulate(
        log, order=order, backfill=backfill, partitions="separate", partition_processors=named, kill=True
    )
    assert schedule.processors == sum(named.values())
    gt.validate_schedule(schedule)
    for name, size in named.items():
        rows = log.partition == int(name)
        alone = replace(log.take(rows), machine_processors=size)
        twin = reference_starts(alone, order=order, backfill=backfill)
        assert schedule.start_time[rows].tolist() == list(twin)


def test_sizes_are_given_or_imported_or_the_most_in_use():
    columns = {
        "submit_time": np.array([0, 1, 2, 3, 4, 5]),
        "wait_time": np.array([0, 0, 0, 0, 0, -1]),
        "run_time": np.array([10, 1, 10, 10, 10, -1]),
        "requested_processors": np.array([2, 3, 4, 1, 1, 1]),
        "partition": np.array([1, 1, 1, 2, 3, 3]),
    }
    names = {"partition": {1: "batch", 2: "gpu", 3: "debug"}}
    log = gt.Workload(columns, header={"PartitionProcs": ("2 16", "9 5")}, names=names)
    # The second job of the first partition has ended when the third starts.
    assert partition_sizes(log) == {1: 6, 2: 16, 3: 1}
    assert partition_sizes(log, {"batch": 9, "2": 3}) == {1: 9, 2: 3, 3: 1}
    with pytest.raises(SimulationError, match="no job is in a partition 'long'"):
        partition_sizes(log, {"long": 4})
    unrecorded = replace(log, columns={**columns, "wait_time": np.full(6, -1)})
    with pytest.raises(SimulationError, match="how large is partition 'batch'"):
        partition_sizes(unrecorded)
    lost = replace(log, columns={**columns, "partition": np.array([1, 1, -1, 2, 3, 3])})
    with pytest.raises(SimulationError, match=r"1 of 5 jobs .* in no partition"):
        partition_sizes(lost)


@pytest.mark.parametrize("text", ["batch", "batch=0", "batch=4,batch=5", "=4", "batch=many"])
def test_sizes_that_cannot_be_read(text):
    with pytest.raises(ValueError, match="NAME=PROCESSORS"):
        read_sizes(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitions": "apart"}, "'pooled' or 'separate'"),
        ({"partition_processors": {"1": 4}}, "no effect with partitions='pooled'"),
        ({"partitions": "separate", "processors": 4}, "processors has no effect"),
        ({"partitions": "separate", "order": "fair-user"}, "goes by user_usage"),
        ({"partitions": "separate", "partition_processors": {"1": 1, "2": 1}}, "wider than the machine's 1"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    columns = {"submit_time": np.arange(4), "run_time": np.full(4, 5), "requested_processors": np.full(4, 2)}
    columns |= {"wait_time": np.zeros(4, np.int64), "partition": np.arange(4) % 2 + 1}
    with pytest.raises(SimulationError, match=message):
        gt.simulate(gt.Workload(columns, machine_processors=8), **options)


def test_a_sweep_takes_sizes_from_the_whole_log(tmp_path):
    count = np.arange(60)
    columns = {
        "submit_time": count * 10,
        "wait_time": np.zeros(60, np.int64),
        "run_time": np.where(count < 30, 25, 5),
        "requested_processors": np.ones(60, np.int64),
        "partition": count % 2 + 1,
    }
    gt.write_workload(gt.Workload(columns, machine_processors=9), path := tmp_path / "log.swf")
    separate = {"trace": str(path), "partitions": "separate"}
    # Of the second half alone, one processor in each partition would do.
    cells = [run_cell("batch", {**separate, "window": window}) for window in ("1/2", "2/2")]
    assert [cell.outcome.notes["processors"] for cell in cells] == [4, 4]
    assert all("ignored" not in cell.outcome.notes for cell in cells)
    one_job = run_cell("batch", {**separate, "first": 1}).outcome.notes
    assert one_job["partitions"] == "1 machines of 2 processors in all"
    assert cells[0].cell.identity.count('"partition_processors":"1=2,2=2"') == 1
    space = {"name": "ids", "objective": "wait_mean", "dimensions": {"order": ["fcfs"]}}
    (given,) = space_cells(
        {**space, "fixed": {**separate, "partition_processors": "1=2,2=2", "window": "1/2"}}
    )
    assert given.cell_id == cells[0].cell.cell_id
    for faulty in ({"processors": 4}, {"partition": 1}):
        with pytest.raises(SweepError, match="no effect with partitions=separate"):
            run_cell("batch", {**separate, **faulty})
