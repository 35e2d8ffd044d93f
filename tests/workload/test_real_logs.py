"""Real logs read whole, without a rule, and come back from every format the same."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from gridtune.workload import clean, read_workload, read_workloads, write_workload

pytestmark = pytest.mark.real_traces

# file, jobs, processors, (submit, run, requested, processors) of the first and last job, partitions
LOGS = [
    ("CTC-SP2-1996-reconstructed", 77_199, 338, (0, 937, 35_100, 306), (29_299_062, 2609, 10_800, 4), 0),
    ("KTH-SP2-1996-2.1-cln", 28_476, 100, (599_850, 3477, 53_940, 4), (29_363_618, 8, 30_000, 1), 0),
    ("LCG-2005-1", 188_041, 24_515, (0, 83, 1200, 1), (950_392, 11_499, 14_400, 1), 170),
    ("NASA-iPSC-1993-3.1-cln", 18_239, 128, (0, 1451, -1, 128), (7_948_936, 86, -1, 128), 0),
]


@pytest.mark.parametrize(("name", "jobs", "size", "first", "last", "partitions"), LOGS)
def test_logs(trace_dir, name, jobs, size, first, last, partitions):
    workload = read_workload(trace_dir / "swf" / f"{name}.swf.gz")
    columns = (workload.submit_time, workload.run_time, workload.requested_time, workload.processors)
    assert (len(workload), workload.machine_processors) == (jobs, size)
    assert tuple(int(column[0]) for column in columns) == first
    assert tuple(int(column[-1]) for column in columns) == last
    assert len(workload.partition_names) == partitions
    assert workload.is_sorted
    assert workload.cleaning == {}


@pytest.mark.parametrize(
    "name",
    [
        "KTH-SP2-1996-2.1-cln",
        "NASA-iPSC-1993-3.1-cln",
        pytest.param("CTC-SP2-1996-reconstructed", marks=pytest.mark.slow),
        pytest.param("LCG-2005-1", marks=pytest.mark.slow),
    ],
)
def test_the_checksum_is_the_same_in_every_format(trace_dir, tmp_path, name):
    workload = read_workload(trace_dir / "swf" / f"{name}.swf.gz")
    for suffix in (".swf.gz", ".parquet", ".gwf", ".json"):
        path = tmp_path / f"log{suffix}"
        write_workload(workload, path)
        copy = read_workload(path)
        assert copy.checksum == workload.checksum, suffix
        assert copy.partition_names == workload.partition_names, suffix
    write_workload(workload, tmp_path / "log.csv")
    bare = replace(workload, machine_processors=None)
    assert read_workload(tmp_path / "log.csv").checksum == bare.checksum


def test_headers(trace_dir):
    kth = read_workload(trace_dir / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    assert kth.header["Computer"] == ("IBM SP2",)
    assert kth.header["Note"][0] == "uses the EASY scheduler"
    assert list(kth.header)[:4] == ["Version", "Computer", "Installation", "Acknowledge"]
    assert kth.header["Information"][0].count("http://") == 2
    lcg = read_workload(trace_dir / "swf" / "LCG-2005-1.swf.gz")
    assert len(lcg.header["Partition"]) == 170
    assert lcg.partition_names[12] == "rl.ac.uk"
    assert lcg.partition_names[170] == "lcg-lrz-ce.lrz-muenchen.de"
    site = lcg.for_partition("rl.ac.uk")
    assert (len(site), site.machine_processors) == (9190, None)
    assert len(set(site.group.tolist())) == 8


def test_what_cleaning_finds(trace_dir):
    kth = read_workload(trace_dir / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    rules = ["drop_unknown_processors", "use_allocated_processors", "clip_run_time_to_walltime"]
    assert clean(kth, rules)[1].counts == dict(zip(rules, [1, 219, 475], strict=True))
    nasa = read_workload(trace_dir / "swf" / "NASA-iPSC-1993-3.1-cln.swf.gz")
    cleaned, report = clean(nasa)
    assert report.counts["missing_walltime"] == len(nasa)
    assert set(cleaned.requested_time.tolist()) == {int(nasa.run_time.max())}


def test_grid5000_days(trace_dir):
    days = read_workloads(trace_dir / "grid5000" / "taurus-days.tar.xz", time_unit=60, speed=1e6)
    assert (len(days), sum(map(len, days))) == (1511, 49_416)
    assert len({day.name for day in days}) == len(days)
    day = next(day for day in days if day.name == "group-1/test/1_test_149")
    assert day.submit_time.tolist() == [minute * 60 for minute in (16, 448, 704, 789, 819, 1102)]
    assert day.run_time.tolist() == [minute * 60 for minute in (8, 8, 16, 5, 16, 2)]
    assert day.requested_time.tolist() == [minute * 60 for minute in (20, 20, 60, 20, 120, 10)]
    assert day.processors.tolist() == [12, 12, 12, 24, 36, 24]
    assert day.user.tolist() == [0] * 6
    assert max(int(day.processors.max()) for day in days) <= 168


def test_auvergrid_weeks(trace_dir):
    weeks = read_workloads(trace_dir / "auvergrid" / "clrlcgce02-weeks.tar.xz", time_unit=60, speed=1e6)
    assert (len(weeks), sum(map(len, weeks))) == (37, 49_193)
    assert all((week.processors == 1).all() for week in weeks)
    # The smallest unit of these files is a minute.
    assert all((week.submit_time % 60 == 0).all() and (week.run_time % 60 == 0).all() for week in weeks)


@pytest.mark.slow
def test_reading_speed(trace_dir):
    path = trace_dir / "swf" / "LCG-2005-1.swf.gz"
    times = []
    for _ in range(3):
        start = time.process_time()
        read_workload(path)
        times.append(time.process_time() - start)
    # The README promises a second on one core; a warm run takes about a quarter of that.
    assert min(times) <= 1.0
