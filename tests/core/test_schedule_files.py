"""Schedules in other programs' formats: read by what reads them, or field by field."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import gridtune as gt
from gridtune.core.schedules.schedule import JobState, Schedule
from gridtune.errors import ScheduleError
from gridtune.workload import Workload


@pytest.fixture
def schedule() -> Schedule:
    """Return four jobs on four processors; the third ends at once, and the last is killed."""
    columns = {
        "job_id": [11, 12, 13, 14],
        "submit_time": [0, 5, 5, 6],
        "run_time": [10, 20, 0, 99],
        "requested_processors": [3, 4, 1, 2],
    }
    workload = Workload({name: np.array(values) for name, values in columns.items()}, name="four")
    return Schedule(
        workload,
        4,
        np.array([0, 10, 5, 30]),
        np.array([10, 30, 5, 80]),
        np.array([10, 30, 10, 50]),
        np.array([0, 0, 0, JobState.KILLED], dtype=np.int8),
    )


def test_parquet_is_the_table(schedule: Schedule, tmp_path: Path) -> None:
    schedule.save(tmp_path / "deep" / "four.parquet")
    assert pq.read_table(tmp_path / "deep" / "four.parquet") == schedule.to_table()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["four.parquet"]


def test_batsim_rows(schedule: Schedule, tmp_path: Path) -> None:
    schedule.save(tmp_path / "four_jobs.csv")
    jobs = pd.read_csv(tmp_path / "four_jobs.csv", dtype={"allocated_resources": str})
    assert jobs["allocated_resources"].tolist() == ["0-2", "0-3", "3", "0-1"]
    assert jobs["starting_time"].tolist() == [0, 10, 5, 30]
    assert jobs["finish_time"].tolist() == [10, 30, 5, 80]
    assert jobs["waiting_time"].tolist() == [0, 5, 0, 24]
    assert jobs["turnaround_time"].tolist() == [10, 25, 0, 74]
    assert jobs["stretch"].fillna(-1).tolist() == [1, 1.25, -1, 74 / 50]
    assert jobs["success"].tolist() == [1, 1, 1, 0]
    assert jobs["final_state"].tolist() == 3 * ["COMPLETED_SUCCESSFULLY"] + ["COMPLETED_WALLTIME_REACHED"]
    assert set(jobs["workload_name"]) == {"four"}


def test_evalys_reads_it(schedule: Schedule, tmp_path: Path) -> None:
    jobset = pytest.importorskip("evalys.jobset")
    schedule.save(tmp_path / "four_jobs.csv")
    jobs = jobset.JobSet.from_csv(str(tmp_path / "four_jobs.csv"))
    assert jobs.MaxProcs == 4
    assert jobs.df["proc_alloc"].tolist() == [3, 4, 1, 2]


def bars(events: list[dict]) -> list[dict]:
    return [event for event in events if event["ph"] == "X"]


def test_a_trace_has_a_bar_for_each_job_and_processor(schedule: Schedule, tmp_path: Path) -> None:
    schedule.save(tmp_path / "four.json")
    events = json.loads((tmp_path / "four.json").read_text())["traceEvents"]
    processors = defaultdict(list)
    for bar in bars(events):
        processors[bar["name"]].append(bar["tid"])
    assert processors == {"job 11": [1, 2, 3], "job 12": [1, 2, 3, 4], "job 13": [4], "job 14": [1, 2]}
    last = bars(events)[-1]
    assert (last["ts"], last["dur"], last["cat"]) == (30_000_000, 50_000_000, "killed")
    waiting = [event for event in events if event["name"] == "jobs waiting"]
    assert [(event["ts"], event["args"]["value"]) for event in waiting] == [
        (5_000_000, 1),
        (6_000_000, 2),
        (10_000_000, 1),
        (30_000_000, 0),
    ]


def test_bars_of_a_processor_do_not_overlap(repository: Path, tmp_path: Path) -> None:
    log = gt.read_workload(repository / "traces" / "quickstart.swf.gz").first(300)
    gt.simulate(log, processors=256).save(tmp_path / "trace.json.gz")
    events = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]
    ends: dict[int, int] = {}
    assert len(bars(events)) == log.processors.sum()
    for bar in sorted(bars(events), key=lambda bar: (bar["ts"], bar["dur"])):
        assert ends.get(bar["tid"], 0) <= bar["ts"]
        ends[bar["tid"]] = bar["ts"] + bar["dur"]


def test_equal_schedules_make_equal_files(schedule: Schedule, tmp_path: Path) -> None:
    for suffix in (".csv", ".json", ".json.gz"):
        schedule.save(tmp_path / f"a{suffix}")
        schedule.save(tmp_path / f"b{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_too_many_bars_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    columns = {"submit_time": [0], "run_time": [9], "requested_processors": [500_001]}
    workload = Workload({name: np.array(values) for name, values in columns.items()}, name="wide")
    schedule = gt.simulate(workload, processors=500_001)
    with pytest.raises(ScheduleError, match="500,001 bars"):
        schedule.save(tmp_path / "wide.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["schedule.txt", "schedule", "schedule.gz"])
def test_other_suffixes_are_refused(schedule: Schedule, tmp_path: Path, name: str) -> None:
    with pytest.raises(ScheduleError, match="not written as") as refusal:
        schedule.save(tmp_path / name)
    assert ".parquet, .csv, .json" in str(refusal.value.hint)
