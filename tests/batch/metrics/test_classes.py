"""Classes of jobs: conditions, the default ones, and metrics by class."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.batch.metrics import METRICS, evaluate
from gridtune.batch.metrics.classes import check_class, class_members, default_classes
from gridtune.core.schedules.schedule import Schedule
from gridtune.errors import MetricError
from gridtune.workload.workload import Workload

#: Five jobs: processors, run time, user, and the wait of each.
_PROCESSORS, _RUN, _USER, _WAIT = (
    [1, 32, 64, 2, 32],
    [60, 60, 7200, 7200, 600],
    [1, 1, 2, 2, 3],
    [0, 10, 40, 3, 5],
)


@pytest.fixture
def schedule() -> Schedule:
    columns = {
        "submit_time": np.arange(5, dtype=np.int64) * 100,
        "run_time": np.array(_RUN, dtype=np.int64),
        "requested_time": np.array(_RUN, dtype=np.int64) * 2,
        "requested_processors": np.array(_PROCESSORS, dtype=np.int64),
        "user": np.array(_USER, dtype=np.int64),
        "partition": np.array([0, 1, 1, 0, 1], dtype=np.int64),
    }
    jobs = Workload(columns)
    start = jobs.submit_time + np.array(_WAIT, dtype=np.int64)
    return Schedule(jobs, 128, start, start + jobs.run_time, jobs.requested_time, np.zeros(5, dtype=np.int8))


@pytest.mark.parametrize(
    ("condition", "members"),
    [
        ("processors >= 32", [1, 2, 4]),
        ("32 <= processors < 64", [1, 4]),
        ("run_time > 600 and user == 2", [2, 3]),
        ("not user in (1, 2)", [4]),
        ("user not in [1, 2] or processors == 1", [0, 4]),
        ("walltime >= 14400", [2, 3]),
        ("partition == 1", [1, 2, 4]),
        ("partition == gpu", []),
        ("queue == 5", []),
    ],
)
def test_a_condition_selects_these_jobs(schedule: Schedule, condition: str, members: list[int]) -> None:
    assert np.flatnonzero(class_members(condition, schedule.workload)).tolist() == members


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("procesors >= 32", "no field 'procesors'"),
        ("processors", "compares nothing"),
        ("processors >= many", "no field 'many'"),
        ("processors >= 1 +", "cannot be read"),
        ("len(processors) > 2", "a job has no field"),
        ("processors + 1 > 2", "a job has no field"),
        ("processors in 3", "no comparison"),
        ("__import__('os')", "compares nothing"),
    ],
)
def test_what_is_no_condition_is_refused(condition: str, says: str) -> None:
    with pytest.raises(MetricError, match=says):
        check_class("wide", condition)
    with pytest.raises(MetricError, match="cannot be named"):
        check_class("Wide jobs", "processors > 1")


def test_metrics_by_class_are_those_of_its_jobs(schedule: Schedule) -> None:
    only = ["wait_mean[wide]", "wait_max[wide]", "jobs[wide]", "wait_mean", "user_wait_max[wide]"]
    values = evaluate(schedule, only=only, classes={"wide": "processors >= 32"}, by_class=())
    assert list(values.values()) == pytest.approx([(10 + 40 + 5) / 3, 40, 3, 58 / 5, 40])
    weights = np.array(_PROCESSORS) * np.array(_RUN)
    response = np.array(_WAIT) + np.array(_RUN)
    wide = np.array(_PROCESSORS) >= 32
    weighted = evaluate(
        schedule, only=["area_weighted_response[wide]"], classes={"wide": "processors >= 32"}, by_class=()
    )
    expected = float((weights * response)[wide].sum() / weights[wide].sum())
    assert weighted["area_weighted_response[wide]"] == pytest.approx(expected)


def test_trimming_leaves_out_jobs_of_a_class_too(schedule: Schedule) -> None:
    values = evaluate(
        schedule, warmup=2, only=["jobs[wide]"], classes={"wide": "processors >= 32"}, by_class=()
    )
    assert values == {"jobs[wide]": 2}


def test_a_class_that_the_log_does_not_have_is_empty_and_measures_nothing(schedule: Schedule) -> None:
    values = evaluate(schedule, classes={"huge": "processors > 1000"})
    assert values["jobs[huge]"] == 0
    assert np.isnan(values["wait_mean[huge]"])


def test_metrics_of_the_machine_are_not_given_for_classes() -> None:
    assert "wait_p99[wide]" in METRICS
    assert METRICS["wait_p99[wide]"].unit == "s"
    assert "utilisation[wide]" not in METRICS
    with pytest.raises(MetricError, match="no metric is named"):
        METRICS.find("utilisation[wide]")


def test_default_classes_are_by_the_width_and_length_of_the_logs_jobs() -> None:
    rng = np.random.default_rng(5)
    n = 2000
    columns = {
        "submit_time": np.arange(n, dtype=np.int64),
        "run_time": rng.choice([30, 900, 20_000], n, p=[0.6, 0.2, 0.2]).astype(np.int64),
        "requested_processors": rng.choice([1, 4, 40], n, p=[0.6, 0.3, 0.1]).astype(np.int64),
    }
    assert default_classes(Workload(columns)) == {
        "narrow": "processors <= 1",
        "wide": "processors >= 32",
        "short": "run_time <= 10",
        "long": "run_time >= 14400",
    }
    columns["requested_processors"] = np.ones(n, dtype=np.int64)
    assert set(default_classes(Workload(columns))) == {"short", "long"}
