"""Bad files are errors that name file, line and field; nothing half-read comes out."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gridtune.errors import WorkloadError
from gridtune.workload import SWF_FIELDS, read_workload, read_workloads, write_workload

from .sample_logs import GOOD, job_line, make_workload

HEADER = "; MaxProcs: 64\n"

BAD_LINES = [
    # changed field, its text, what the message says, the field named
    ("run_time", "6o", "'6o' is not a number", "run_time"),
    ("submit_time", "-5", "negative submit time -5", "submit_time"),
    ("submit_time", "-1", "negative submit time -1", "submit_time"),
    ("run_time", "-2", "negative time -2", "run_time"),
    ("requested_time", "-60", "negative time -60", "requested_time"),
    ("requested_processors", "65", "wider than the machine: 65 processors, the machine has 64", None),
    ("run_time", "9223372036854775808", "beyond int64", "run_time"),
    ("user", "99999999999999999999999", "beyond int64", "user"),
    ("run_time", "9007199254740993", "beyond the largest time", "run_time"),
    ("run_time", "1.5", "1.5 is not a whole number", "run_time"),
    ("run_time", "nan", "'nan' is not a number", "run_time"),
    ("average_cpu_time", "inf", "'inf' is not a number", "average_cpu_time"),
    ("average_cpu_time", "1e999", "beyond float64", "average_cpu_time"),
    ("run_time", "1e3", "'1e3' is not a number", "run_time"),
    ("average_cpu_time", "1e3x", "is not a number", "average_cpu_time"),
    ("job_id", "0x1f", "is not a number", "job_id"),
    ("job_id", "1_000", "is not a number", "job_id"),
    ("wait_time", "--1", "is not a number", "wait_time"),
    ("queue", "１２", "is not a number", "queue"),
    ("status", "1 1", "expected 18 fields, but found 19", None),
    ("status", "", "expected 18 fields, but found 17", None),
    ("requested_processors", "-3", "-3 processors", "requested_processors"),
]


@pytest.mark.parametrize(("field", "text", "message", "named"), BAD_LINES)
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_swf_names_file_line_and_field(write_file, field, text, message, named, suffix):
    bad = job_line(**{field: text})
    path = write_file(f"log.swf{suffix}", f"{HEADER}{GOOD}\n\n{GOOD}\n{bad}\n{GOOD}\n")
    with pytest.raises(WorkloadError, match=message) as caught:
        read_workload(path)
    assert (caught.value.path, caught.value.line) == (path, 5)
    assert caught.value.field == (named or caught.value.field)
    assert f"{path}:5" in str(caught.value)


@pytest.mark.parametrize(
    ("requested", "allocated", "field"),
    [(0, 0, "requested_processors"), (0, -1, "requested_processors"), (-1, 0, "allocated_processors")],
)
def test_zero_processors(write_file, requested, allocated, field):
    bad = job_line(requested_processors=requested, allocated_processors=allocated)
    path = write_file("log.swf", f"{GOOD}\n{bad}\n")
    with pytest.raises(WorkloadError, match="zero processors") as caught:
        read_workload(path)
    assert (caught.value.line, caught.value.field) == (2, field)


def test_one_positive_number_of_processors_is_enough_and_unknown_is_legal(write_file):
    lines = [
        job_line(requested_processors=0, allocated_processors=3),
        job_line(requested_processors=5, allocated_processors=0),
        job_line(requested_processors=-1, allocated_processors=-1),
    ]
    assert read_workload(write_file("log.swf", "\n".join(lines))).processors.tolist() == [3, 5, 1]


def test_the_first_of_several_faults_is_named(write_file):
    lines = [GOOD, job_line(requested_processors=99), job_line(submit_time=-4), job_line(run_time=-9)]
    path = write_file("log.swf", HEADER + "\n".join(lines))
    with pytest.raises(WorkloadError) as caught:
        read_workload(path)
    assert (caught.value.line, caught.value.field) == (3, "requested_processors")


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("content", ["", "\n\n", "; Version: 2.2\n; MaxProcs: 8\n"])
def test_a_log_without_jobs(write_file, suffix, content):
    with pytest.raises(WorkloadError, match=r"holds no jobs|is empty"):
        read_workload(write_file(f"log.swf{suffix}", content))


@pytest.mark.parametrize("name", ["log.json", "log.parquet", "log.csv", "log.gwf"])
def test_empty_files_of_other_formats(write_file, name):
    with pytest.raises(WorkloadError, match=r"is empty|holds no jobs"):
        read_workload(write_file(name, b""))


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.999])
def test_truncated_compression(write_file, suffix, share):
    rng = np.random.default_rng(5)
    lines = [job_line(submit_time=i, run_time=rng.integers(10**6)) for i in range(3000)]
    path = write_file(f"log.swf{suffix}", "\n".join(lines) + "\n")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(WorkloadError, match=r"cut off|damaged") as caught:
        read_workload(path)
    assert caught.value.path == path


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_flipped_bit_in_compressed_data(write_file, suffix):
    path = write_file(f"log.swf{suffix}", f"{GOOD}\n" * 500)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(bytes(data))
    with pytest.raises(WorkloadError):
        read_workload(path)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_not_an_archive(tmp_path, suffix):
    path = tmp_path / f"log.swf{suffix}"
    path.write_text(GOOD)
    with pytest.raises(WorkloadError, match=r"not (a gzip|an xz) file"):
        read_workload(path)


@pytest.mark.parametrize(("pack", "suffix"), [(gzip.compress, ".gz"), (lzma.compress, ".xz")])
def test_compressed_data_under_a_plain_name(tmp_path, pack, suffix):
    path = tmp_path / "log.swf"
    path.write_bytes(pack(GOOD.encode()))
    with pytest.raises(WorkloadError, match="its name does not say so") as caught:
        read_workload(path)
    assert suffix in (caught.value.hint or "")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@pytest.mark.parametrize("filler", [b"1 " * 8, b"\n", f"{GOOD}\n".encode()])
def test_a_bomb_is_refused_before_it_is_kept(tmp_path, suffix, filler):
    path = tmp_path / f"bomb.swf{suffix}"
    piece = filler * ((1 << 20) // len(filler))
    opener = gzip.open if suffix == ".gz" else lzma.open
    with opener(path, "wb") as file:
        for _ in range(24):
            file.write(piece)
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(WorkloadError, match="more than"):
            read_workload(path, max_bytes=8 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 << 20


@pytest.mark.parametrize("name", ["bomb.json.gz", "bomb.parquet.xz", "bomb.csv.gz", "bomb.gwf.xz"])
def test_bombs_of_other_formats(write_file, name):
    path = write_file(name, b" " * (4 << 20))
    with pytest.raises(WorkloadError):
        read_workload(path, max_bytes=1 << 20)


def test_a_parquet_bomb_by_its_run_lengths(tmp_path):
    path = tmp_path / "bomb.parquet"
    zeros = np.zeros(2_000_000, dtype=np.int64)
    write_workload(make_workload(submit_time=zeros, run_time=zeros), path)
    assert path.stat().st_size < 1 << 17
    with pytest.raises(WorkloadError, match="once decompressed"):
        read_workload(path, max_bytes=1 << 20)


def test_the_size_limit_is_exact(write_file):
    path = write_file("log.swf.gz", f"{GOOD}\n")
    size = len(GOOD) + 1
    assert len(read_workload(path, max_bytes=size)) == 1
    with pytest.raises(WorkloadError, match=f"more than {size - 1} bytes"):
        read_workload(path, max_bytes=size - 1)


@pytest.mark.parametrize("name", ["log.swf", "log.gwf", "log.csv", "log.json", "log.parquet"])
def test_binary_rubbish(write_file, name):
    rubbish = np.random.default_rng(3).bytes(5000)
    path = write_file(name, rubbish)
    with pytest.raises(WorkloadError) as caught:
        read_workload(path)
    assert caught.value.path == path


def test_places_that_are_no_logs(tmp_path, write_file):
    with pytest.raises(WorkloadError, match="no such file"):
        read_workload(tmp_path / "missing.swf")
    folder = tmp_path / "folder.swf"
    folder.mkdir()
    with pytest.raises(WorkloadError, match="is a folder"):
        read_workload(folder)
    with pytest.raises(WorkloadError, match="neither its content nor its suffix"):
        read_workload(write_file("log.txt", "a word\n"))
    with pytest.raises(WorkloadError, match="no format is named 'swv'"):
        read_workload(write_file("log.swf", GOOD), format="swv")
    with pytest.raises(WorkloadError, match="has no option 'speed'"):
        read_workload(write_file("log.swf", GOOD), speed=1)
    with pytest.raises(WorkloadError, match="max_bytes must be at least 1"):
        read_workload(write_file("log.swf", GOOD), max_bytes=0)
    with pytest.raises(WorkloadError, match="cannot be written"):
        write_workload(make_workload(run_time=[1]), tmp_path / "no folder" / "log.swf")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_one_may_not_read(write_file):
    path = write_file("log.swf", GOOD)
    path.chmod(0)
    with pytest.raises(WorkloadError, match="cannot be opened"):
        read_workload(path)


SIZED = "requested_processors,submit_time"


@pytest.mark.parametrize(
    ("header", "row", "message", "line"),
    [
        ("submit_time,run_time,colour", "1,2,3", "no column says how many processors", None),
        ("submit_time,run_tme", "1,2", "no column says how long jobs ran", 1),
        ("submit_time,submit_time,run_time", "1,2,3", "names it twice", 1),
        ("submit_time,user", "1,2", "no column says how long jobs ran", 1),
        ("", "1,2", "line 1 should name the columns", 1),
        (f"{SIZED},run_time", "4,1,2,3", "expected 3 fields, but found 4", 3),
        (f"{SIZED},run_time", "4,1", "expected 3 fields, but found 2", 3),
        (f"{SIZED},run_time", "4,1,", "there is no value here", 3),
        (f"{SIZED},run_time", "4,1,x", "'x' is not a number", 3),
        (f"{SIZED},run_time", "4,-1,3", "negative submit time", 3),
    ],
)
def test_csv(write_file, header, row, message, line):
    path = write_file("log.csv", f"{header}\n{'1' + ',1' * header.count(',')}\n{row}\n")
    with pytest.raises(WorkloadError, match=message) as caught:
        read_workload(path)
    assert caught.value.line == line


def batsim(jobs: object, profiles: object) -> str:
    return json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}, indent=1)


JOB = {"id": "1", "subtime": 0, "res": 1, "profile": "a"}
DELAY = {"a": {"type": "delay", "delay": 5}}


@pytest.mark.parametrize(
    ("jobs", "profiles", "message", "field", "options"),
    [
        ([JOB, {**JOB, "res": 0}], DELAY, "zero processors", "requested_processors", {}),
        ([{**JOB, "subtime": -3}], DELAY, "negative submit", "submit_time", {}),
        ([{**JOB, "subtime": "0"}], DELAY, '"0" is not a number', "jobs[0].subtime", {}),
        ([{**JOB, "subtime": True}], DELAY, "true is not a number", "jobs[0].subtime", {}),
        ([{**JOB, "subtime": 0.5}], DELAY, "0.5 is not a whole", "submit_time", {}),
        ([{**JOB, "subtime": 2**62}], DELAY, "largest time", "jobs[0].subtime", {"time_unit": 60}),
        ([{**JOB, "profile": "b"}], DELAY, 'no profile "b"', "jobs[0].profile", {}),
        ([{**JOB, "profile": ["a"]}], DELAY, "no profile", "jobs[0].profile", {}),
        ([{**JOB, "id": ["job"]}], DELAY, "is no id", "jobs[0].id", {}),
        ([{"id": 1}], DELAY, "the job has no 'subtime'", "jobs[0]", {}),
        ([[1]], DELAY, "a job is an object", "jobs[0]", {}),
        ([JOB], {"a": 3}, "type None", "profiles.a", {}),
        ([JOB], {"a": {"type": "sequence"}}, "a list of profiles", "profiles.a.seq", {}),
        ([JOB], {"a": {"type": "sequence", "seq": ["a"]}}, "holds itself", "profiles.a.seq", {}),
        ([JOB], {"a": {"type": "composed", "seq": ["b"]}}, 'no profile "b"', "profiles.a.seq[0]", {}),
        (
            [JOB],
            {"a": {"type": "composed", "seq": ["b"], "repeat": 0}, "b": DELAY["a"]},
            "0 is not a number of repetitions",
            "profiles.a.repeat",
            {},
        ),
        (
            [JOB],
            {f"{'a' * i}": {"type": "sequence", "seq": ["a" * (i + 1)]} for i in range(1, 900)},
            "nests too deeply",
            f"profiles.{'a' * 51}.seq",
            {},
        ),
        ([JOB], {"a": {"type": ["delay"]}}, "no run time of its own", "profiles.a", {}),
        ([JOB], {"a": {"type": "delay"}}, "null is not a number", "profiles.a.delay", {}),
        ([JOB], {"a": {"type": "delay", "delay": -4}}, "negative time -4", "run_time", {}),
        ([JOB], {"a": {"type": "parallel_homogeneous", "cpu": 9, "com": 0}}, "given speed", "profiles.a", {}),
        (
            [JOB],
            {"a": {"type": "parallel_homogeneous", "cpu": 9, "com": 8}},
            "communicates",
            "profiles.a.com",
            {"speed": 1},
        ),
    ],
)
def test_batsim(write_file, jobs, profiles, message, field, options):
    path = write_file("log.json", batsim(jobs, profiles))
    with pytest.raises(WorkloadError, match=message) as caught:
        read_workload(path, **options)
    assert caught.value.field == field
    assert caught.value.line is not None
    assert caught.value.line > 1


def test_batsim_names_the_line_of_the_value(write_file):
    text = '{"jobs": [\n{"id": "1", "subtime": 0, "res": 1, "profile": "]\\"["},\n'
    text += '{"id": "2",\n "subtime": 1,\n "res": 0,\n "profile": "]\\"["}],\n'
    text += '"profiles": {"]\\"[": {"type": "delay", "delay": 1}}}'
    with pytest.raises(WorkloadError, match="zero processors") as caught:
        read_workload(write_file("log.json", text))
    assert caught.value.line == 5


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ('{"jobs": [\n{"id": 1,}]}', "is not JSON", 2),
        ('{"jobs": [NaN], "profiles": {}}', "NaN is not a number", None),
        ('{"jobs": [' + "1" * 5000 + "]}", "is not JSON that can be read", None),
        ("[" * 100_000, "is not JSON", None),
        ("[1, 2]", "is not a Batsim workload", None),
        ('{"jobs": {}, "profiles": {}}', "is not a Batsim workload", None),
        ('{"jobs": [], "profiles": {}}', "holds no jobs", None),
    ],
)
def test_json_that_is_no_workload(write_file, text, message, line):
    with pytest.raises(WorkloadError, match=message) as caught:
        read_workload(write_file("log.json", text))
    assert caught.value.line == line


def test_truncated_json(write_file):
    whole = batsim([JOB, JOB], DELAY)
    for cut in range(1, len(whole) - 1, 7):
        with pytest.raises(WorkloadError):
            read_workload(write_file("log.json", whole[:cut]))


def test_gwf_counts_its_fields(write_file):
    line = " ".join(["1"] * 29)
    path = write_file("log.gwf", f"# a comment\n{line}\n{line} 1\n")
    with pytest.raises(WorkloadError, match="expected 29 fields, but found 30") as caught:
        read_workload(path)
    assert caught.value.line == 3


def test_a_machine_size_with_letters(write_file):
    path = write_file("log.swf", f"; Version: 2\n; MaxProcs: 1O0\n{GOOD}\n")
    with pytest.raises(WorkloadError, match="'1O0' is not a number") as caught:
        read_workload(path)
    assert (caught.value.line, caught.value.field) == (2, "MaxProcs")


def test_parquet_of_another_kind(tmp_path):
    def fault(columns: dict[str, object]) -> str:
        path = tmp_path / "log.parquet"
        pq.write_table(pa.table(columns), path)
        with pytest.raises(WorkloadError) as caught:
            read_workload(path)
        return str(caught.value)

    assert "no column says how many processors" in fault({"submit_time": [0, 1], "run_time": [1, 2]})
    assert "no column says how long jobs ran" in fault({"submit_time": [0, 1]})
    good = {"submit_time": [0, 1], "run_time": [1, 2], "requested_processors": [4, 8]}
    assert "field user: job 2 has no value" in fault({**good, "user": [1, None]})
    assert "job 2 of 2: 2.5 is not a whole number" in fault({**good, "run_time": [1.0, 2.5]})
    assert "job 1 of 2: negative submit time -9" in fault({**good, "submit_time": [-9, 0]})
    path = tmp_path / "whole.parquet"
    pq.write_table(pa.table({**good, "run_time": [1.0, 2.0]}), path)
    assert read_workload(path).run_time.dtype == np.int64
    pq.write_table(pa.table({**good, "user": ["a", "b"], "colour": [1, 2]}), path)
    assert read_workload(path).names["user"] == {1: "a", 2: "b"}


def test_truncated_parquet(tmp_path):
    path = tmp_path / "log.parquet"
    write_workload(make_workload(run_time=range(1000)), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(WorkloadError, match="not a Parquet file, or it is cut off"):
        read_workload(path)


def test_sets_with_a_bad_member_name_it(tmp_path, write_file):
    write_file("days/day-1.swf", GOOD)
    write_file("days/day-2.swf", f"{GOOD}\n{job_line(run_time='x')}")
    with pytest.raises(WorkloadError, match="'x' is not a number") as caught:
        read_workloads(tmp_path / "days")
    assert (caught.value.path, caught.value.line) == (tmp_path / "days" / "day-2.swf", 2)


def test_the_fields_are_eighteen():
    assert len(SWF_FIELDS) == len(set(SWF_FIELDS)) == len(GOOD.split()) == 18
