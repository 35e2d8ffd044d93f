"""The authors' own simulator, reproduced bit for bit on 25 real days: kernels and twin."""

from __future__ import annotations

import csv
import gzip
import io
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from gridtune.systems.shutdown.simulator.days import Days, build_days
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.workload import read_workloads
from gridtune.workload.files import join_workloads
from tests.systems.shutdown.simulator.reference import reference_day
from tests.systems.shutdown.simulator.twins import POLICIES, TAURUS, totals_of, twin_of

pytestmark = pytest.mark.real_traces

#: Where in a recorded minute the goldens' columns stand.
STEP_COLUMNS = (
    "action",
    "reservation_size",
    "nodes_idle",
    "nodes_switching_on",
    "nodes_sleeping",
    "nodes_switching_off",
    "nodes_computing",
    "queue_len",
    "head_promise",
)


class Golden(NamedTuple):
    """Rows of the golden files by (day, policy), the days in the order of `days`."""

    days: Days
    names: list[str]
    results: dict[tuple[str, str], dict[str, str]]
    true: dict[tuple[str, str], dict[str, str]]
    schedules: dict[tuple[str, str], list[dict[str, str]]]
    steps: dict[tuple[str, str], list[dict[str, str]]]


def rows(path: Path) -> list[tuple[tuple[str, str], dict[str, str]]]:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    table = csv.DictReader(io.StringIO(text))
    return [((f"{row['group']}_{row['split']}_{row['day']}", row["policy"]), row) for row in table]


def grouped(path: Path) -> dict[tuple[str, str], list[dict[str, str]]]:
    found = defaultdict(list)
    for key, row in rows(path):
        found[key].append(row)
    return found


@pytest.fixture(scope="module")
def golden(golden_dir, trace_dir) -> Golden:
    folder = golden_dir / "shutdown"
    archive = trace_dir / "grid5000" / "taurus-days.tar.xz"
    if not folder.is_dir() or not archive.exists():
        pytest.skip("no goldens of the shutdown system, or no Taurus days")
    results = dict(rows(folder / "golden_results.csv"))
    every = read_workloads(archive, time_unit=60, speed=1e6)
    wanted = {name for name, _ in results}
    chosen = [workload for workload in every if workload.name.rpartition("/")[2] in wanted]
    return Golden(
        build_days(join_workloads(chosen)),
        [workload.name.rpartition("/")[2] for workload in chosen],
        results,
        dict(rows(folder / "golden_true_waste.csv")),
        grouped(folder / "golden_schedules.csv.gz"),
        grouped(folder / "golden_steps.csv.gz"),
    )


def time_of(text: str) -> int:
    return int(text) if text else -1


@pytest.mark.parametrize("policy", POLICIES)
def test_kernel_equals_the_authors(golden, policy):
    results, record = replay(golden.days, TAURUS, record=True, **POLICIES[policy][0])
    totals = results.totals.view(np.int64).reshape(-1, 9)
    watts = np.array([95, 125, 0, 101, 0])
    assert len(golden.names) == 25
    for day, name in enumerate(golden.names):
        key = (name, policy)
        told = golden.results[key]
        jobs = slice(golden.days.first[day], golden.days.first[day + 1])
        switching = totals[day, :5] @ watts - 95 * totals[day, 0]
        assert results.score[day] == float(told["score"])
        assert totals[day, 7:].tolist() == [int(told["n_switch_on"]), int(told["n_switch_off"])]
        assert 95 * totals[day, 5] + switching == float(told["energy_waste"])
        assert totals[day, 5] == int(told["node_min_idle"])
        assert totals[day, 6] == float(told["core_min_computing"])
        assert totals[day, 0] + totals[day, 4] - totals[day, 5] == int(told["node_min_computing"])
        assert (results.start[jobs] >= 0).sum() == int(told["n_started"])
        if key in golden.true:
            assert totals[day, :5] @ watts == float(golden.true[key]["waste_true"])
            assert totals[day, 0] == int(golden.true[key]["idle_node_min_true"])
        if key in golden.schedules:
            expect_schedule(golden, day, results.start[jobs], golden.schedules[key])
            expect_minutes(record.minutes[day], record.rewards[day], golden.steps[key])


def expect_schedule(golden, day, start, schedule):
    days = golden.days
    jobs = slice(days.first[day], days.first[day + 1])
    told = {int(row["job_id"]): row for row in schedule}
    end = start + np.minimum(days.run, days.walltime)[jobs]
    ended = (start >= 0) & (end <= 1440)
    for job, job_id in enumerate(days.job_id[jobs].tolist()):
        row = told.pop(job_id)
        assert start[job] == time_of(row["start"])
        assert (end[job] if ended[job] else -1) == time_of(row["finish"])
    assert not told


def expect_minutes(minutes, rewards, steps):
    assert len(steps) == 1440
    assert rewards.tolist() == [float(row["reward"]) for row in steps]
    theirs = [[time_of(row[column]) for column in STEP_COLUMNS] for row in steps]
    # After the last minute their simulator has dropped its queue already.
    assert [list(minute) for minute in minutes[:-1].tolist()] == theirs[:-1]
    assert list(minutes[-1].item())[:7] == theirs[-1][:7]


@pytest.mark.parametrize("policy", ["T1", "OR"])
def test_twin_equals_the_authors(golden, policy):
    """On the days with few jobs, for the twin is slow; down to the cores of each job."""
    quiet = [day for day in range(len(golden.names)) if np.diff(golden.days.first)[day] < 60]
    assert len(quiet) > 10
    for day in quiet:
        key = (golden.names[day], policy)
        twin = twin_of(golden.days, day)
        reference_day(twin, POLICIES[policy][1]())
        told = golden.results[key]
        assert twin.score == float(told["score"])
        assert totals_of(twin)[5:7] == [int(told["node_min_idle"]), float(told["core_min_computing"])]
        job_ids = golden.days.job_id[golden.days.first[day] :].tolist()
        schedule = {int(row["job_id"]): row for row in golden.schedules[key]}
        for job, job_id in zip(twin.jobs, job_ids, strict=False):
            row = schedule[job_id]
            assert (-1 if job.start is None else job.start) == time_of(row["start"])
            assert sorted(job.held) == cores_in(row["alloc"])


def cores_in(text: str) -> list[int]:
    cores: list[int] = []
    for part in text.split():
        low, _, high = part.partition("-")
        cores += range(int(low), int(high or low) + 1)
    return cores
