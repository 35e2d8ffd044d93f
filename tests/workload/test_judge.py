"""Times, units and sizes are judged: what is certain is converted and said, what is doubtful refused."""

import re

import numpy as np
import pytest

import gridtune as gt
from gridtune.errors import WorkloadError
from gridtune.workload import read_workload
from gridtune.workload.files import WorkloadReference, reference_text

START = 1_714_521_600
RUNS = [3600, 5400, 61, 17_123, 88, 45_001, 300, 7777, 12_345, 600, 901, 33]


def table(tmp_path, names, rows, name="jobs.csv"):
    path = tmp_path / name
    lines = [names, *(",".join(str(value) for value in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def rows_of(elapsed, start_after=30):
    """Return rows of id, submit, start, end, elapsed, size."""
    return [
        (
            f"j{i}",
            START + 60 * i,
            START + 60 * i + start_after,
            START + 60 * i + start_after + run,
            elapsed(run),
            8,
        )
        for i, run in enumerate(RUNS)
    ]


NAMES = "job,submit,start,end,duration,cpus"


@pytest.mark.parametrize(
    ("factor", "word"),
    [(1000, "milliseconds"), (10**6, "microseconds"), (1 / 60, "minutes"), (1 / 3600, "hours")],
)
def test_run_times_in_another_unit_are_converted_and_said(tmp_path, factor, word):
    log = read_workload(table(tmp_path, NAMES, rows_of(lambda run: round(run * factor, 6))))
    np.testing.assert_allclose(log.run_time, RUNS, atol=1)
    assert f"{len(RUNS)} run times are in {word}" in log.header["Import"][0]


def test_whole_minutes_give_way_to_start_and_end(tmp_path):
    log = read_workload(table(tmp_path, NAMES, rows_of(lambda run: run // 60)))
    np.testing.assert_array_equal(log.run_time, RUNS)
    (note,) = log.header["Import"]
    assert "run times are in minutes" in note


def test_run_times_that_no_unit_explains_are_refused_with_the_option(tmp_path):
    path = table(tmp_path, NAMES, rows_of(lambda run: run * 1000 if run > 100 else run * 77))
    with pytest.raises(WorkloadError, match="times end - start") as refused:
        read_workload(path)
    assert "--unit elapsed=s" in refused.value.hint
    np.testing.assert_array_equal(read_workload(path, unit="elapsed=ms").run_time[0], 3600)
    np.testing.assert_array_equal(read_workload(path, unit="duration=ms").run_time[0], 3600)


def test_suspended_jobs_keep_the_recorded_run_time(tmp_path):
    log = read_workload(table(tmp_path, NAMES, rows_of(lambda run: run - 20 if run > 10_000 else run)))
    assert log.run_time[3] == 17_103
    assert "3 jobs ran another time than end - start: they have the recorded one" in log.header["Import"]


@pytest.mark.parametrize("scale", [1000, 10**6])
def test_durations_alone_that_cannot_be_seconds_are_refused(tmp_path, scale):
    rows = [(60 * i, run * scale, 4) for i, run in enumerate(RUNS)]
    with pytest.raises(WorkloadError, match=r"may be (milliseconds|no seconds)|run times may be no seconds"):
        read_workload(table(tmp_path, "submit,duration,cores", rows))
    unit = "ms" if scale == 1000 else "us"
    log = read_workload(table(tmp_path, f"submit,duration_{unit},cores", rows))
    np.testing.assert_array_equal(log.run_time, RUNS)


@pytest.mark.parametrize("none", ["0", "1970-01-01 00:00:00", "1970-01-01T01:00:00"])
def test_instants_of_1970_stand_for_none(tmp_path, none):
    rows = [(*row[:2], none, row[3], "CANCELLED", 8) if i == 4 else (*row[:4], "COMPLETED", 8)
            for i, row in enumerate(rows_of(lambda run: run))]  # fmt: skip
    log = read_workload(table(tmp_path, "job,submit,start,end,state,cpus", rows))
    assert (log.run_time[4], log.wait_time[4]) == (-1, 30 + RUNS[4])
    assert log.run_time[3] == RUNS[3]
    assert "1 times of start in 1970, which stand for none" in log.header["Import"]


def test_what_databases_store_for_none(tmp_path):
    rows = [
        (1, START, "0000-00-00 00:00:00", START + 90, 4294967295, 8),
        (2, START, START + 9, START + 69, 10, 8),
    ]
    log = read_workload(table(tmp_path, "id_job,time_submit,time_start,time_end,timelimit,cpus_req", rows))
    assert log.run_time.tolist() == [-1, 60]
    assert log.requested_time.tolist() == [-1, 600]


def test_instants_long_before_the_others_are_refused(tmp_path):
    rows = [(*row[:2], "1999-11-30 00:00:00", row[3], 8) if i == 2 else (*row[:4], 8)
            for i, row in enumerate(rows_of(lambda run: run))]  # fmt: skip
    with pytest.raises(WorkloadError, match="before 2000") as refused:
        read_workload(table(tmp_path, "job,submit,start,end,cpus", rows))
    assert (refused.value.line, refused.value.field) == (4, "start")


def test_logs_of_the_nineties_are_read(tmp_path):
    rows = [(100 * i + 7e8, 100 * i + 7e8 + 30, 100 * i + 7e8 + 90, 8) for i in range(12)]
    assert read_workload(table(tmp_path, "submit,start,end,cpus", rows)).run_time.tolist() == [60] * 12


@pytest.mark.parametrize(
    ("submit", "start", "end", "elapsed", "expected"),
    [
        # Clocks go back from 3:00 to 2:00 on the last Sunday of October.
        ("02:50:00", "02:10:00", "04:00:00", "", (20 * 60, 110 * 60)),
        ("01:30:00", "02:30:00", "02:15:00", "", (3600, 45 * 60)),
        ("01:30:00", "02:30:00", "03:10:00", "2400", (7200, 2400)),
        ("01:30:00", "02:30:00", "03:10:00", "6000", (3600, 6000)),
    ],
)
def test_the_hour_that_comes_twice_is_settled(tmp_path, submit, start, end, elapsed, expected):
    day = "2024-10-27 "
    rows = [(day + submit, day + start, day + end, elapsed, 4)]
    log = read_workload(table(tmp_path, "submit,start,end,elapsed,cpus", rows), timezone="Europe/Berlin")
    assert (log.wait_time[0], log.run_time[0]) == expected


def test_local_times_read_as_utc_are_remarked(tmp_path):
    day = "2024-10-27 "
    rows = [(day + "01:30:00", day + "02:30:00", day + "03:10:00", "6000", 4)] * 2
    notes = read_workload(table(tmp_path, "submit,start,end,elapsed,cpus", rows)).header["Import"]
    assert any("--timezone" in note for note in notes)


def test_a_run_time_of_0_beside_start_and_end(tmp_path):
    path = tmp_path / "log.pbs"
    path.write_text(
        "12/07/2020 01:00:38;E;3.pbs;user=ann queue=q ctime=1453756297 start=1453766281 end=1453766437 "
        "Resource_List.ncpus=4 Exit_status=0 exec_host=c1/0*4 resources_used.walltime=00:00:00\n"
    )
    log = read_workload(path)
    assert log.run_time[0] == 156
    assert "1 jobs with a run time of 0 beside end - start" in log.header["Import"][0]


def test_a_column_called_queue_that_is_the_wait(tmp_path):
    rows = [(60 * i, 60 * i + 10 * i, 60 * i + 10 * i + 100, 10 * i, 4) for i in range(5)]
    log = read_workload(table(tmp_path, "submit,start,end,queue,cpus", rows))
    assert "queue" not in log.columns
    rows = [(60 * i, 60 * i + 10 * i, 60 * i + 10 * i + 100, i % 2, 4) for i in range(5)]
    assert read_workload(table(tmp_path, "submit,start,end,queue,cpus", rows)).queue.tolist() == [
        0,
        1,
        0,
        1,
        0,
    ]


@pytest.mark.parametrize(
    "size",
    [
        "cpu_num",
        "num_cores_alloc",
        "cpu_request",
        "cpu_count",
        "requested_cores",
        "Slots",
        "vCPUs",
        "num gpus",
        "nnodes",
    ],
)
def test_sizes_by_many_names(tmp_path, size):
    rows = [(60 * i, 100, 4 + i) for i in range(3)]
    log = read_workload(table(tmp_path, f"submit,duration,{size}", rows))
    np.testing.assert_array_equal(log.processors, [4, 5, 6])


def test_a_log_without_sizes_is_refused_and_columns_that_may_be_sizes_are_named(tmp_path):
    path = table(tmp_path, "submit,duration,width_of_job,memo", [(0, 100, 4, 1), (5, 100, 2, 1)])
    with pytest.raises(WorkloadError, match="width_of_job may") as refused:
        read_workload(path)
    assert "LOG?processors_per_job=1" in refused.value.hint
    log = read_workload(path, processors_per_job=2)
    np.testing.assert_array_equal(log.processors, [2, 2])
    assert "2 jobs of 2 processors each, as no column has sizes" in log.header["Import"]
    np.testing.assert_array_equal(read_workload(path, columns="processors=width_of_job").processors, [4, 2])


def test_two_clusters_in_one_dump_are_refused_unless_one_is_chosen(tmp_path):
    text = "JobID|Cluster|Submit|Start|End|State|NCPUS\n"
    for job, cluster in ((1, "a"), (2, "b"), (3, "a")):
        text += f"{job}|{cluster}|2024-01-01T08:00:00|2024-01-01T08:00:10|2024-01-01T09:00:10|COMPLETED|8\n"
    path = tmp_path / "dump.txt"
    path.write_text(text)
    with pytest.raises(WorkloadError, match="the jobs of 2 clusters") as refused:
        read_workload(path)
    assert "LOG?cluster=NAME (gridtune traces: --cluster)" in refused.value.hint
    log = read_workload(path, cluster="a")
    assert log.job_id.tolist() == [1, 3]
    assert "1 records of other clusters left out" in log.header["Import"]
    with pytest.raises(WorkloadError, match="no job of cluster 'c'"):
        read_workload(path, cluster="c")


def test_limits_in_hours_are_named_and_converted_on_request(tmp_path):
    hours = [max(2, -(-run // 3600) * 2) for run in RUNS]
    rows = [
        (60 * i, 60 * i + 5, 60 * i + 5 + run, limit, 4)
        for i, (run, limit) in enumerate(zip(RUNS, hours, strict=True))
    ]
    path = table(tmp_path, "submit,start,end,walltime,cpus", rows)
    assert "walltimes look like hours" in gt.simulate(read_workload(path), processors=64).notes["units"]
    log = read_workload(path, unit="limit=h")
    np.testing.assert_array_equal(log.requested_time, np.array(hours) * 3600)
    assert "units" not in gt.simulate(log, processors=64).notes


@pytest.mark.parametrize("unit", ["elapsed", "elapsed=weeks", "colour=ms"])
def test_a_unit_that_is_none_is_refused(tmp_path, unit):
    path = table(tmp_path, NAMES, rows_of(lambda run: run))
    with pytest.raises(WorkloadError, match="is no unit of a quantity"):
        read_workload(path, unit=unit)


def test_options_travel_in_references_and_notes_with_results(tmp_path):
    path = table(tmp_path, "submit,duration,cores", [(60 * i, run * 1000, 4) for i, run in enumerate(RUNS)])
    text = f"{path}?unit=elapsed=ms?clean=sort_submits"
    reference = WorkloadReference.parse(text)
    assert (reference.name, reference.options, str(reference)) == (str(path), {"unit": "elapsed=ms"}, text)
    np.testing.assert_array_equal(reference.read().run_time, RUNS)
    named = reference_text({"file": str(path), "unit": {"elapsed": "ms"}})
    assert WorkloadReference(named).read().checksum == reference.read().checksum
    with pytest.raises(WorkloadError, match="'units' is no key of a log"):
        reference_text({"file": str(path), "units": "ms"})
    with pytest.raises(WorkloadError, match="no whole number"):
        WorkloadReference.parse(f"{path}?processors_per_job=two")
    log = read_workload(table(tmp_path, NAMES, rows_of(lambda run: run * 1000)))
    assert re.match(r"12 run times are in milliseconds", gt.simulate(log, processors=64).notes["reading"])
