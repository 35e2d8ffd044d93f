"""Step functions against a count second by second; schedules that break a rule are refused by name."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.core.schedules.schedule import JobState, Schedule, validate_schedule
from gridtune.core.usage import step_function
from gridtune.errors import ScheduleError
from gridtune.workload import Workload

INTERVALS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10), st.integers(0, 5)), max_size=8)


@given(INTERVALS, st.integers(-3, 25), st.integers(-3, 25))
def test_step_functions(intervals: list[tuple[int, int, int]], start: int, end: int) -> None:
    up, length, weight = np.array(intervals, dtype=np.int64).reshape(-1, 3).T
    function = step_function(up, up + length, weight)
    assert (np.diff(function.times) > 0).all()
    assert (np.diff(function.values, prepend=0) != 0).all()
    seconds = range(-3, 36)
    values = [sum(w for u, n, w in intervals if u <= second < u + n) for second in seconds]
    assert function.at(seconds).tolist() == values
    total = sum(value for second, value in zip(seconds, values, strict=True) if start <= second < end)
    assert function.integral(start, end) == total
    if start < end:
        assert function.mean(start, end) == total / (end - start)
    else:
        assert math.isnan(function.mean(start, end))


def schedule() -> Schedule:
    """Return a sound schedule of four jobs, the last one killed, on four processors."""
    columns = {
        "job_id": [11, 12, 13, 14],
        "submit_time": [0, 5, 5, 6],
        "run_time": [10, 20, 5, 99],
        "requested_processors": [3, 4, 1, 2],
    }
    workload = Workload({name: np.array(values) for name, values in columns.items()})
    return Schedule(
        workload,
        4,
        np.array([0, 10, 5, 30]),
        np.array([10, 30, 10, 80]),
        np.array([10, 30, 10, 50]),
        np.array([0, 0, 0, JobState.KILLED], dtype=np.int8),
    )


def test_a_sound_schedule() -> None:
    sound = schedule()
    validate_schedule(sound)
    assert sound.wait_time.tolist() == [0, 5, 0, 24]
    assert sound.use.times.tolist() == [0, 5, 30, 80]
    assert sound.use.values.tolist() == [3, 4, 2, 0]
    assert sound.queue_length.at([4, 5, 6, 9, 10, 30]).tolist() == [0, 1, 2, 2, 1, 0]
    table = sound.to_table().to_pydict()
    assert table["state"] == ["completed"] * 3 + ["killed"]
    assert table["wait_time"] == [0, 5, 0, 24]
    assert table["job_id"] == [11, 12, 13, 14]


@pytest.mark.parametrize(
    ("field", "job", "value", "message"),
    [
        ("start_time", 1, 4, r"job 12 \(row 1\) starts before it is submitted: submit 5, start 4, end 30"),
        ("end_time", 2, 11, r"job 13 \(row 2\) does not run as long as it should"),
        ("end_time", 3, 81, r"job 14 \(row 3\) does not run as long as it should"),
        ("state", 2, JobState.KILLED, r"job 13 \(row 2\) does not run as long as it should"),
        ("walltime", 3, 99, r"job 14 \(row 3\) does not run as long as it should"),
    ],
)
def test_broken_rules(field: str, job: int, value: int, message: str) -> None:
    column = getattr(schedule(), field).copy()
    column[job] = value
    with pytest.raises(ScheduleError, match=message):
        validate_schedule(replace(schedule(), **{field: column}))


def test_a_job_killed_within_its_walltime() -> None:
    sound = schedule()
    workload = replace(
        sound.workload, columns={**sound.workload.columns, "run_time": np.array([10, 20, 5, 50])}
    )
    with pytest.raises(ScheduleError, match="is killed within its walltime"):
        validate_schedule(replace(sound, workload=workload))


def test_machines_that_are_too_small() -> None:
    with pytest.raises(
        ScheduleError, match=r"job 12 \(row 1\) is wider than the machine's 3: .*; 1 such jobs"
    ):
        validate_schedule(replace(schedule(), processors=3))
    crowded = replace(schedule(), start_time=np.array([0, 9, 5, 30]), end_time=np.array([10, 29, 10, 80]))
    with pytest.raises(ScheduleError, match="8 of 4 processors in use at second 9"):
        validate_schedule(crowded)


def test_a_schedule_of_other_length() -> None:
    with pytest.raises(ScheduleError, match="3 starts for 4 jobs"):
        validate_schedule(replace(schedule(), start_time=np.array([0, 10, 5])))


def test_a_schedule_opens_in_pandas_and_as_a_picture(tmp_path: Path) -> None:
    columns = {
        "job_id": [1, 2, 3],
        "submit_time": [0, 10, 20],
        "run_time": [100, 100, 100],
        "requested_processors": [2, 1, 4],
    }
    made = gt.simulate(gt.Workload(columns, name="<three>"), processors=4)
    frame = made.to_pandas()
    assert frame["start_time"].tolist() == made.start_time.tolist()
    assert set(frame["state"]) == {"completed"}
    for kind in ("load", "gantt"):
        picture = made.plot(kind)  # type: ignore[arg-type]
        assert picture._repr_png_().startswith(b"\x89PNG")
        assert picture.save(tmp_path / "new" / f"{kind}.png").read_bytes() == picture.png
        assert "save(PATH)" in repr(picture)
    assert made.plot("load").png != made.plot("gantt").png
    with pytest.raises(ScheduleError, match="no such kind of figure: 'pie'"):
        made.plot("pie")  # type: ignore[arg-type]
    html = made._repr_html_()
    assert "&lt;three&gt;" in html
    assert "<td>fcfs</td>" in html
