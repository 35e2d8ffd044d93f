"""What a whole log says: requests that were outlived, and facts that a replay may ignore."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gridtune as gt
from gridtune.workload.contents import LogContents


def log_of(jobs: int = 100, **columns: object) -> gt.Workload:
    count = np.arange(jobs, dtype=np.int64)
    plain = {
        "submit_time": count * 60,
        "run_time": np.full(jobs, 1000),
        "requested_processors": count % 3 + 1,
    }
    return gt.Workload({**plain, **columns}, machine_processors=8)


def requests(jobs: int, outlived: int, by: int) -> np.ndarray:
    """Return requested times of which the first are outlived by so many seconds of 1,000."""
    return np.where(np.arange(jobs) < outlived, 1000 - by, 2000)


@pytest.mark.parametrize(
    ("jobs", "outlived", "by", "kills"),
    [
        (1000, 10, 301, True),  # one in a hundred may be a fault of the log
        (1000, 11, 301, False),
        (1000, 500, 300, True),  # within five minutes
        (20, 4, 900, True),  # too few to say anything
        (20, 5, 900, False),
    ],
)
def test_a_machine_did_not_kill_where_many_outlived_their_request(jobs, outlived, by, kills):
    log = log_of(jobs, requested_time=requests(jobs, outlived, by))
    assert log.contents.kills == kills
    assert log.contents.requests == jobs


def test_jobs_without_a_request_or_a_start_do_not_count():
    run = np.array([1000] * 6 + [-1] * 4)
    requested = np.array([100] * 5 + [-1] + [100] * 4)
    contents = log_of(10, run_time=run, requested_time=requested).contents
    assert (contents.jobs, contents.requests, contents.outlived, contents.without_request) == (6, 5, 5, 1)


def test_every_selection_goes_by_the_whole_log(tmp_path: Path):
    log = log_of(1000, requested_time=requests(1000, 50, 900))
    later = log.windows(10)[9]
    assert (later.run_time <= later.requested_time).all()
    cleaned, _ = gt.clean(log, ["clip_run_time_to_walltime"])
    for selection in (later, log.first(3), cleaned, log.scale_load(2), pickle.loads(pickle.dumps(later))):
        assert not selection.contents.kills
    gt.write_workload(later, tmp_path / "later.swf")
    assert gt.read_workload(tmp_path / "later.swf").contents.kills


def test_facts_are_counted_by_job():
    jobs = np.arange(10)
    log = log_of(
        10,
        preceding_job=np.where(jobs >= 7, 1, -1),
        think_time=np.where(jobs == 9, 30, -1),
        requested_memory=np.where(jobs < 4, 1024, -1),
        partition=jobs % 2,
        requested_nodes=np.where(jobs < 2, jobs % 3 + 1, 1),
        requested_gpus=np.where(jobs == 3, 2, 0),
        features=np.where(jobs == 5, 1, -1),
        eligible_time=jobs * 60 + (jobs == 8),
    )
    facts = {"dependencies": 3, "think_times": 1, "partitions": 10, "memory": 4, "features": 1, "holds": 1}
    # Of jobs that count their nodes or GPUs as processors, these are not ignored.
    assert log.contents.facts == {**facts, "nodes": 5, "gpus": 1}
    assert log.contents.partitions == 2
    only = log.for_partition(1).contents
    assert "partitions" not in only.facts
    assert only.facts["memory"] == 4


def test_a_plain_log_has_no_facts():
    assert not log_of(partition=np.full(100, 3), requested_time=np.full(100, 60)).contents.facts
    assert log_of(requested_time=np.full(100, 60)).contents.equal_requests
    assert not log_of(requested_time=np.arange(1, 101)).contents.equal_requests
    assert log_of().contents.equal_requests


def test_downtime_is_when_nothing_ran_though_jobs_waited():
    jobs = 1200
    wait = np.zeros(jobs, dtype=np.int64)
    submit = np.arange(jobs, dtype=np.int64) * 60
    # Nothing starts for two hours and a half from the 600th job on; the machine has run dry after 1,000 s.
    late = (submit >= 36_000) & (submit < 45_000)
    wait[late] = 45_000 - submit[late]
    columns = {"submit_time": submit, "wait_time": wait, "run_time": np.full(jobs, 1000)}
    assert LogContents.of(columns).downtime == 45_000 - (submit[599] + 1000)
    idle = {
        **columns,
        "wait_time": np.zeros(jobs, np.int64),
        "submit_time": submit + 9000 * (submit >= 36_000),
    }
    assert LogContents.of(idle).downtime == 0


def test_replacing_columns_keeps_what_the_log_said():
    log = log_of(1000, requested_time=requests(1000, 50, 900))
    assert replace(log, name="other").contents is log.contents
