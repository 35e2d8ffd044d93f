"""The schedules of other simulators, reproduced to the second by the variant that names each."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import gridtune as gt
from gridtune.batch.policies import QueueOrder

LOGS = ("kth_1k", "syn_5k")


def golden_starts(path: Path) -> np.ndarray:
    with path.open(newline="") as lines:
        return np.array([int(float(row["start"])) for row in csv.DictReader(lines)])


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(
    ("file", "backfill"),
    [
        ("fcfs_{}.csv", "none"),
        ("pyss_{}_easy.csv", "easy-per-event"),
        ("rlsched_{}_easy.csv", "easy-rlscheduler"),
        ("batsched-fast_{}_easy.csv", "easy-batsched"),
    ],
)
def test_schedule_equals_the_golden(golden_dir, log, file, backfill):
    path = golden_dir / "batch" / file.format(log)
    if not path.exists():
        pytest.skip(f"no golden of {backfill} on {log}")
    workload = gt.read_workload(golden_dir / "batch" / f"{log}.swf.gz")
    schedule = gt.simulate(workload, order="fcfs", backfill=backfill)
    gt.validate_schedule(schedule)
    np.testing.assert_array_equal(schedule.start_time, golden_starts(path))


@pytest.mark.parametrize("log", ["sdsc-sp2", "sdsc-blue"])
def test_schedules_that_pyss_published(golden_dir, log):
    path = golden_dir / "batch" / f"pyss_{log}_easy.swf.gz"
    if not path.exists():
        pytest.skip(f"no golden of pyss on {log}")
    workload = gt.read_workload(path)
    workload = workload.take(np.lexsort((workload.job_id, workload.submit_time)))
    start = gt.simulate(workload, backfill="easy-per-event").start_time
    np.testing.assert_array_equal(start, workload.submit_time + workload.column("wait_time"))


@pytest.mark.parametrize(("log", "share"), [("kth_1k", 0.996), ("syn_5k", 0.992)])
def test_our_easy_differs_from_a_pass_per_event_by_the_known_share(golden_dir, log, share):
    workload = gt.read_workload(golden_dir / "batch" / f"{log}.swf.gz")
    ours = gt.simulate(workload, order="fcfs", backfill="easy").start_time
    theirs = golden_starts(golden_dir / "batch" / f"pyss_{log}_easy.csv")
    assert (ours == theirs).mean() == pytest.approx(share)


@pytest.mark.parametrize("log", LOGS)
def test_scored_kernel_agrees_on_the_goldens(golden_dir, log):
    # The same order, once provably static and once not: two kernels, one schedule.
    workload = gt.read_workload(golden_dir / "batch" / f"{log}.swf.gz")
    order = QueueOrder("arrival", lambda job: job.submit_time + 0 * job.wait, "", static=False)
    for backfill in ("none", "easy", "easy-per-event", "easy-rlscheduler", "easy-batsched"):
        one = gt.simulate(workload, order="fcfs", backfill=backfill)
        other = gt.simulate(workload, order=order, backfill=backfill)
        np.testing.assert_array_equal(one.start_time, other.start_time)
