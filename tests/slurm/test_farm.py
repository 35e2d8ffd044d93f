"""The farm of real Slurms, as far as it needs none: drawn sites, and the events in a log."""

from __future__ import annotations

import pytest

from benchmarks.slurm_farm.drawing import FEATURES, draw
from benchmarks.slurm_farm.records import events_in
from gridtune.slurm.configuration import read_cluster


@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature_gives_a_cluster_that_is_read(tmp_path, feature):
    draw(1, [feature]).save(tmp_path)
    cluster = read_cluster(tmp_path, version="24.11")
    assert len(cluster.nodes) == 10
    assert (tmp_path / "workload.csv").read_text().count("\n") == 131


def test_a_seed_gives_the_same_site_again(tmp_path):
    for name in ("one", "two"):
        draw(5, []).save(tmp_path / name)
    one, two = (
        {path.name: path.read_text() for path in (tmp_path / name).iterdir()} for name in ("one", "two")
    )
    assert one == two


def test_events_of_a_log():
    lines = [
        "[2026-01-05T00:05:01.250] _slurm_rpc_submit_batch_job: JobId=1001 SLUID=s1 InitPrio=320 usec=16325",
        "[2026-01-05T00:05:02.000] debug:  sched: Running job scheduler for full queue.",
        "[2026-01-05T00:05:03.500] sched/backfill: _dump_job_sched: BACKFILL: JobId=1004_*(1004) to start at"
        " 2026-01-05T00:06:00, end at 2026-01-05T00:07:00 on nodes a[1-2] in partition normal",
        "[2026-01-05T00:05:04.000] backfill: _start_job: HETJOB: Started JobId=1004_3(1007) in normal on b1",
        "no line of the log",
    ]
    events = list(events_in(lines, 1767571500))
    assert [(event["kind"], event["t"], event["job"]) for event in events] == [
        ("submit", 1.25, "1001"),
        ("main_pass", 2.0, ""),
        ("bf_plan", 3.5, "1004"),
        ("start_bf", 4.0, "1007"),
    ]
    assert (events[2]["plan_start"], events[2]["nodes"], events[3]["task"]) == (60, "a[1-2]", "1004_3")
