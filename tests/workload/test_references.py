"""References to workloads: what is written reads back, and names the workload that is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import TraceError, WorkloadError
from gridtune.workload import DEFAULT_RULES, clean, cleaning_rules, read_workload
from gridtune.workload.files import USUAL_UNITS, WorkloadReference

from .sample_logs import GOOD, job_line

TEXTS = {
    "kth-sp2": WorkloadReference("kth-sp2"),
    "logs/mine.swf.gz?clean=drop_wider,start_at_zero": WorkloadReference(
        "logs/mine.swf.gz", ("drop_wider", "start_at_zero")
    ),
    "mine.swf?clean=": WorkloadReference("mine.swf", ()),
    "days.tar.xz?days": WorkloadReference("days.tar.xz", days=True),
    "days?clean=drop_wider?days": WorkloadReference("days", ("drop_wider",), days=True),
    "days?days=1.0,1000000.0": WorkloadReference("days", days=True, units=(1.0, 1e6)),
    "days?clean=?days=60.0,2.5e+18": WorkloadReference("days", (), days=True, units=(60.0, 2.5e18)),
}


@pytest.mark.parametrize(("text", "reference"), TEXTS.items())
def test_texts(text: str, reference: WorkloadReference) -> None:
    assert str(reference) == text
    assert WorkloadReference.parse(text) == reference


def test_usual_units_may_be_written() -> None:
    """Journals hold references of both kinds."""
    written = WorkloadReference.parse("days?days=60.0,1000000.0")
    assert written == WorkloadReference("days", days=True, units=USUAL_UNITS)
    assert str(written) == "days?days"


POSITIVE = st.floats(min_value=1e-300, allow_nan=False, allow_infinity=False)
RULES = st.lists(st.sampled_from(sorted(cleaning_rules())), max_size=3).map(tuple)


@given(
    st.sampled_from(["kth-sp2", "a/b c.swf", "ü.json.xz"]), st.none() | RULES, st.tuples(POSITIVE, POSITIVE)
)
def test_round_trip(name: str, rules: tuple[str, ...] | None, units: tuple[float, float]) -> None:
    for reference in (WorkloadReference(name, rules), WorkloadReference(name, rules, True, units)):
        assert WorkloadReference.parse(str(reference)) == reference


def test_a_log_is_read_by_its_rules(write_file: Callable[[str, str], Path]) -> None:
    late, early = job_line(submit_time=9, requested_time=-1), job_line(submit_time=3)
    path = write_file("log.swf", f"{late}\n{early}\n")
    assert WorkloadReference(str(path)).read().checksum == read_workload(path).checksum
    cleaned = WorkloadReference.parse(f"{path}?clean=sort_submits,missing_walltime").read()
    assert cleaned.checksum == clean(read_workload(path), ["sort_submits", "missing_walltime"])[0].checksum
    assert cleaned.cleaning == {"sort_submits": 1, "missing_walltime": 1}


def test_a_lenient_rule_takes_care_of_a_faulty_line(write_file: Callable[[str, str], Path]) -> None:
    path = write_file("log.swf", f"{GOOD}\n{job_line(submit_time=-5)}\n")
    with pytest.raises(WorkloadError, match="negative submit"):
        WorkloadReference(str(path)).read()
    assert len(WorkloadReference(str(path), ("drop_negative_submit",)).read()) == 1


def test_relative_paths(write_file: Callable[[str, str], Path], tmp_path: Path) -> None:
    write_file("spaces/logs/log.swf", GOOD)
    reference = WorkloadReference("logs/log.swf")
    assert len(reference.read(tmp_path / "spaces")) == 1
    with pytest.raises(TraceError, match=r"no trace 'logs/log\.swf'"):
        reference.read(tmp_path)


def test_days_are_joined_and_cleaned(write_file: Callable[[str, str], Path], tmp_path: Path) -> None:
    write_file("days/day-2.swf", f"{job_line(submit_time=9)}\n{job_line(submit_time=3, requested_time=0)}\n")
    write_file("days/day-10.swf", GOOD)
    days = WorkloadReference(str(tmp_path / "days"), days=True).read()
    assert days.is_joined
    names, first = days.joined_parts()
    assert (names, first.tolist()) == (("day-2", "day-10"), [0, 2, 3])
    assert set(days.cleaning) == set(DEFAULT_RULES)
    assert days.submit_time.tolist() == [3, 9, 10]
    uncleaned = WorkloadReference(str(tmp_path / "days"), (), days=True).read()
    assert uncleaned.submit_time.tolist() == [9, 3, 10]


@pytest.mark.parametrize(
    ("text", "submit", "run"),
    [("?days", 120, 240), ("?days=1.0,1000000.0", 2, 4), ("?days=60.0,500000.0", 120, 480)],
)
def test_units_of_batsim_days(
    write_file: Callable[[str, str], Path], text: str, submit: int, run: int
) -> None:
    job = {"id": 1, "subtime": 2, "res": 1, "walltime": 9, "profile": "a"}
    profiles = {"a": {"type": "parallel_homogeneous", "cpu": 4e6, "com": 0}}
    for name in ("day.json", "day.txt"):
        path = write_file(name, json.dumps({"jobs": [job], "profiles": profiles}))
        day = WorkloadReference.parse(f"{path}{text}").read()
        assert (day.submit_time.tolist(), day.run_time.tolist()) == ([submit], [run])
        assert day.joined_parts()[0] == ("day",)


def test_one_log_to_be_cut_into_days_is_not_joined(write_file: Callable[[str, str], Path]) -> None:
    path = write_file("log.swf", GOOD)
    assert not WorkloadReference(str(path), days=True).read().is_joined
