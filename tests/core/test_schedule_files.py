"""Schedules in other programs' formats: read by what reads them, or field by field."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gridtune.core.schedules.files import allocate_processors
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


def test_jobs_get_the_lowest_free_processors_in_several_ranges_if_need_be() -> None:
    # At 5, jobs 0 and 2 end and leave 0-1 and 3-4; at 9 all have ended.
    jobs = pa.table(
        {
            "processors": [2, 1, 2, 3, 1, 5],
            "start_time": [0, 0, 0, 5, 5, 9],
            "end_time": [5, 9, 5, 9, 9, 10],
        }
    )
    expected = [[(0, 1)], [(2, 2)], [(3, 4)], [(0, 1), (3, 3)], [(4, 4)], [(0, 4)]]
    assert allocate_processors(jobs, 5) == expected
    with pytest.raises(ScheduleError, match="no 2 free processors for row 2 at second 0"):
        allocate_processors(jobs, 4)


def test_csv_has_the_same_rows(schedule: Schedule, tmp_path: Path) -> None:
    schedule.save(tmp_path / "four.csv")
    assert pd.read_csv(tmp_path / "four.csv").to_dict() == schedule.to_pandas().to_dict()


def test_equal_schedules_make_equal_files(schedule: Schedule, tmp_path: Path) -> None:
    for suffix in (".csv", ".parquet"):
        schedule.save(tmp_path / f"a{suffix}")
        schedule.save(tmp_path / f"b{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


@pytest.mark.parametrize("name", ["schedule.txt", "schedule", "schedule.json"])
def test_other_suffixes_are_refused(schedule: Schedule, tmp_path: Path, name: str) -> None:
    with pytest.raises(ScheduleError, match="not written as") as refusal:
        schedule.save(tmp_path / name)
    assert ".parquet, .csv" in str(refusal.value.hint)
