"""What each format's reader makes of its files."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pytest

from gridtune.errors import WorkloadError
from gridtune.workload import SWF_FIELDS, read_workload, read_workloads, write_workload
from gridtune.workload.formats import FORMATS, Format, find_format, register_format
from gridtune.workload.formats.records import quantities_of

from .sample_logs import GOOD, job_line, make_workload

LOG = f"""; Version: 2.2
; Computer: IBM SP2
; Information: http://example.org/a
;              http://example.org/b
;
; UnixStartTime: 843480031
; MaxNodes: 50
; MaxProcs: 100
; Note: first
; Note: the filter was
;         job<=14 (x: 3)
; a line of its own
; Partition:  1 grid.ici.ro
; Partition: 12 rl.ac.uk
{GOOD}
"""


def swf_line(job, submit, run, status):
    return f"{job} {submit} 0 {run} 4 -1 -1 4 900 -1 {status} 1 1 -1 -1 -1 -1 -1\n"


def test_segments_that_a_line_sums_up_are_no_jobs(write_file):
    text = swf_line(1, 0, 300, 1) + swf_line(1, 0, 100, 2) + swf_line(1, 150, 200, 3) + swf_line(2, 10, 60, 0)
    log = read_workload(write_file("log.swf", "; Preemption: Double\n" + text))
    np.testing.assert_array_equal(log.job_id, [1, 2])
    np.testing.assert_array_equal(log.run_time, [300, 60])
    assert log.header["Import"][0].startswith("2 segments of preempted jobs left out")


def test_segments_that_no_line_sums_up_are_jobs_with_a_note(write_file):
    log = read_workload(write_file("log.swf", swf_line(1, 0, 100, 2) + swf_line(1, 150, 200, 4)))
    np.testing.assert_array_equal(log.run_time, [100, 200])
    assert log.header["Import"] == (
        "2 segments of preempted jobs that no line sums up: each counts as a job",
    )


def test_a_header_without_a_blank_and_a_comment_behind_a_job(write_file):
    lines = ";MaxProcs:8\n;StartTime: Mon 08:00:00\n" + swf_line(1, 0, 60, 1).rstrip() + " ; the first\n"
    log = read_workload(write_file("log.swf", lines + swf_line(2, 5, 30, 1)))
    assert (log.machine_processors, log.run_time.tolist()) == (8, [60, 30])
    assert log.header["StartTime"] == ("Mon 08:00:00",)
    assert "Import" not in log.header


def test_swf_fields_and_header(write_file):
    values = range(1, 19)
    workload = read_workload(write_file("log.swf", LOG + " ".join(map(str, values))))
    assert [workload.column(name)[1] for name in SWF_FIELDS] == list(values)
    assert workload.header == {
        "Version": ("2.2",),
        "Computer": ("IBM SP2",),
        "Information": ("http://example.org/a\nhttp://example.org/b",),
        "UnixStartTime": ("843480031",),
        "MaxNodes": ("50",),
        "MaxProcs": ("100",),
        "Note": ("first", "the filter was\njob<=14 (x: 3)"),
        "Comment": ("a line of its own",),
        "Partition": ("1 grid.ici.ro", "12 rl.ac.uk"),
    }
    assert list(workload.header)[:3] == ["Version", "Computer", "Information"]
    assert workload.machine_processors == 100
    assert workload.partition_names == {1: "grid.ici.ro", 12: "rl.ac.uk"}
    assert workload.source is not None
    assert workload.columns["submit_time"].dtype == np.int64
    assert workload.columns["average_cpu_time"].dtype == np.float64


def test_the_header_survives_writing_in_its_order(write_file, tmp_path):
    first = read_workload(write_file("log.swf", LOG))
    write_workload(first, tmp_path / "copy.swf")
    copy = read_workload(tmp_path / "copy.swf")
    assert list(copy.header.items()) == list(first.header.items())
    assert (copy.checksum, copy.partition_names) == (first.checksum, first.partition_names)


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ("; MaxProcs: 64\n; MaxNodes: 8\n", 64),
        ("; MaxProcs: 1\n; MaxNodes: 8\n", 1),
        ("; MaxNodes: 128 (of 144)\n", 128),
        ("; MaxProcs: 1,152\n", 1152),
        ("; MaxProcs: -1\n; MaxNodes: 8\n", 8),
        ("; MaxProcs: 0\n", None),
        ("; MaxProcs: unknown\n", None),
        ("", None),
    ],
)
def test_the_machines_size(write_file, header, size):
    job = job_line(requested_processors=1, allocated_processors=1)
    assert read_workload(write_file("log.swf", header + job)).machine_processors == size


def test_the_written_size_is_the_workloads_own(tmp_path, write_file):
    site = read_workload(write_file("log.swf", LOG + job_line(partition=12))).for_partition(12)
    write_workload(site, tmp_path / "site.swf")
    assert read_workload(tmp_path / "site.swf").machine_processors is None


def test_a_header_may_be_longer_than_what_is_looked_at_for_more_fields(write_file):
    workload = read_workload(write_file("log.swf", "; Note: long\n" * 30_000 + GOOD))
    assert (len(workload), list(workload.header)) == (1, ["Note"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_tabs_blanks_and_comments_between(write_file, end, last):
    lines = ["; MaxProcs: 64", "", "  " + GOOD.replace(" ", "\t") + "  ", "   ", ";later", GOOD]
    text = end.join(lines) + (end if last else "")
    workload = read_workload(write_file("log.swf", text))
    assert len(workload) == 2
    assert workload.machine_processors == 64
    assert workload.header["Comment"] == ("later",)


def test_headers_in_old_encodings(write_file):
    text = "; Installation: Universität Köln\n".encode("latin-1") + "; Note: Zürich\n".encode()
    workload = read_workload(write_file("log.swf", text + GOOD.encode()))
    assert workload.header == {"Installation": ("Universität Köln",), "Note": ("Zürich",)}


def test_a_byte_order_mark_is_passed_over(write_file):
    mark = b"\xef\xbb\xbf"
    assert len(read_workload(write_file("log.swf", mark + GOOD.encode()))) == 1
    assert (
        len(
            read_workload(write_file("log.csv", mark + b"submit_time,run_time,requested_processors\n1,2,3\n"))
        )
        == 1
    )
    document = {"jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "a"}]}
    document["profiles"] = {"a": {"type": "delay", "delay": 5}}
    assert len(read_workload(write_file("log.json", mark + json.dumps(document).encode()))) == 1


@pytest.mark.parametrize("text", ["3477.0", "3477.", "+3477", "03477"])
def test_whole_numbers_however_written(write_file, text):
    workload = read_workload(write_file("log.swf", job_line(run_time=text)))
    assert workload.run_time.tolist() == [3477]


@pytest.mark.parametrize("text", ["12.25", "1.225e1", "+12.25", "12.250"])
def test_average_cpu_time_may_be_fractional(write_file, text):
    workload = read_workload(write_file("log.swf", f"{GOOD}\n{job_line(average_cpu_time=text)}\n{GOOD}"))
    assert workload.column("average_cpu_time").tolist() == [-1.0, 12.25, -1.0]


def test_unsorted_logs_are_kept_as_they_are(write_file):
    workload = read_workload(write_file("log.swf", f"{job_line(submit_time=9)}\n{job_line(submit_time=3)}"))
    assert workload.submit_time.tolist() == [9, 3]
    assert not workload.is_sorted


def test_lenient_rules_take_care_of_faulty_lines(write_file):
    lines = [
        GOOD,
        job_line(requested_processors=0, allocated_processors=0),
        job_line(requested_processors=99),
        job_line(run_time="60.5"),
        job_line(run_time="61.5"),
        job_line(submit_time=-3),
    ]
    path = write_file("log.swf", "; MaxProcs: 64\n" + "\n".join(lines))
    rules = ["drop_zero_processors", "drop_wider", "round_fractions", "drop_negative_submit"]
    workload = read_workload(path, clean=rules)
    assert workload.run_time.tolist() == [60, 60, 62]
    assert workload.cleaning == dict(zip(rules, [1, 1, 2, 1], strict=True))
    with pytest.raises(WorkloadError, match="negative submit") as caught:
        read_workload(path, clean=rules[:-1])
    assert caught.value.line == 7
    with pytest.raises(WorkloadError, match="no job is left: cleaning dropped all 1"):
        read_workload(write_file("one.swf", lines[1]), clean="drop_zero_processors")
    with pytest.raises(WorkloadError, match="needs the machine's size"):
        read_workload(write_file("one.swf", GOOD), clean=["drop_wider"])


def gwf_line(**changes: object) -> str:
    values = {
        "JobID": 7, "SubmitTime": 1136070024, "WaitTime": 21, "RunTime": 138, "NProcs": 2,
        "AverageCPUTimeUsed": 1.5, "UsedMemory": 98, "ReqNProcs": 4, "ReqTime": 259200, "ReqMemory": -1,
        "Status": 1, "UserID": "U12", "GroupID": "G1", "ExecutableID": 3, "QueueID": "long",
        "PartitionID": -1, "OrigSiteID": "home", "LastRunSiteID": "away", "JobStructure": "UNITARY",
        "JobStructureParams": -1, "UsedNetwork": -1, "UsedLocalDiskSpace": -1, "UsedResources": -1,
        "ReqPlatform": "i686,linux", "ReqNetwork": -1, "ReqLocalDiskSpace": -1, "ReqResources": -1,
        "VOID": "atlas", "ProjectID": 5,
    }  # fmt: skip
    return "\t".join(map(str, (values | changes).values()))


def test_gwf_maps_what_swf_has(write_file):
    text = f"# Version: 1.0\n# JobID SubmitTime ...\n{gwf_line()}\n{gwf_line(UserID='U3', GroupID=-1)}\n"
    workload = read_workload(write_file("log.gwf.gz", text))
    job = next(iter(workload))
    assert job == {
        "job_id": 7, "submit_time": 1136070024, "wait_time": 21, "run_time": 138,
        "allocated_processors": 2, "average_cpu_time": 1.5, "used_memory": 98, "requested_processors": 4,
        "requested_time": 259200, "requested_memory": -1, "status": 1, "user": 1, "group": 1,
        "executable": 3, "queue": 1, "partition": -1,
    }  # fmt: skip
    assert workload.user.tolist() == [1, 2]
    assert workload.group.tolist() == [1, -1]
    assert workload.header["User"] == ("1 U12", "2 U3")
    assert "Executable" not in workload.header


def test_gwf_sites_and_virtual_organisations(write_file):
    path = write_file("log.gwf", f"{gwf_line()}\n{gwf_line(LastRunSiteID='home', VOID='cms')}\n")
    workload = read_workload(path, partition_from="LastRunSiteID", group_from="VOID")
    assert workload.partition_names == {1: "away", 2: "home"}
    assert len(workload.for_partition("home")) == 1
    assert workload.header["Group"] == ("1 atlas", "2 cms")
    with pytest.raises(WorkloadError, match="partition_from must be one of"):
        read_workload(path, partition_from="Site")
    with pytest.raises(WorkloadError, match="group_from must be one of"):
        read_workload(path, group_from="Site")


def test_csv_columns_in_any_order_and_quoted(write_file):
    text = 'run_time, submit_time,"user",allocated_processors\r\n5,1,"7",1\r\n 6 , 2 ,8,1\r\n'
    workload = read_workload(write_file("log.csv", text))
    assert (workload.run_time.tolist(), workload.submit_time.tolist()) == ([5, 6], [1, 2])
    assert workload.user.tolist() == [7, 8]
    assert list(workload.columns) == ["submit_time", "run_time", "allocated_processors", "user"]


PROFILES = {
    "d": {"type": "delay", "delay": 20},
    "h": {"type": "parallel_homogeneous", "cpu": 8e6, "com": 0},
    "t": {"type": "parallel_homogeneous_total", "cpu": 8e6, "com": 0},
    "p": {"type": "parallel", "cpu": [4e6, 6e6], "com": [0, 0, 0, 0]},
    "n": {"type": "parallel", "cpu": [1e6], "com": None},
}


@pytest.mark.parametrize(
    ("profile", "options", "seconds"),
    [
        ("d", {}, 20),
        ("d", {"time_unit": 60}, 1200),
        ("h", {"speed": 1e6}, 8),
        ("h", {"speed": 1e6, "time_unit": 60}, 480),
        ("t", {"speed": 1e6}, 4),
        ("p", {"speed": 1e6}, 6),
        ("n", {"speed": 1e6}, 1),
    ],
)
def test_batsim_profiles(write_file, profile, options, seconds):
    job = {"id": "w0!17", "subtime": 2.0, "res": 2, "walltime": 30, "profile": profile, "user": 4}
    path = write_file("log.json", json.dumps({"nb_res": 2, "jobs": [job], "profiles": PROFILES}))
    workload = read_workload(path, **options)
    unit = options.get("time_unit", 1)
    assert next(iter(workload)) == {
        "job_id": 17,
        "submit_time": 2 * unit,
        "run_time": seconds,
        "requested_processors": 2,
        "requested_time": 30 * unit,
        "user": 4,
    }
    # nb_res is how wide the widest job is, not a machine.
    assert workload.machine_processors is None
    assert workload.header == {"nb_res": ("2",)}


@pytest.mark.parametrize(
    ("profile", "seconds"),
    [
        ({"type": "DelayProfile", "delay": 21}, 21),
        ({"type": "ParallelTaskHomogeneousProfile", "cpu": 8e6, "com": 0}, 8),
        (
            {"type": "ParallelTaskHomogeneousProfile", "cpu": 8e6, "com": 0}
            | {"generation_strategy": "DefinedAmountsSpreadUniformly"},
            4,
        ),
        ({"type": "ParallelTaskHomogeneousTotalProfile", "cpu": 8e6, "com": 0}, 4),
        ({"type": "ParallelTaskProfile", "cpu": [3e6, 5e6]}, 5),
        ({"type": "ptask_homogeneous", "cpu": 6e6, "com": 0}, 6),
        ({"type": "msg_par", "cpu": [3e6, 5e6], "com": [0, 0, 0, 0]}, 5),
        # 3 × (20 + 8 + 20), and twice that.
        ({"type": "SequentialCompositionProfile", "repeat": 3, "seq": ["d", "w0!h", "d"]}, 144),
        ({"type": "composed", "seq": ["s", "s"]}, 288),
    ],
)
def test_batsim_names_its_profiles_by_version(write_file, profile, seconds):
    profiles = PROFILES | {"x": profile, "s": {"type": "sequence", "repeat": 3, "seq": ["d", "h", "d"]}}
    job = {"id": "1", "subtime": 0, "res": 2, "profile": "x"}
    path = write_file("log.json", json.dumps({"nb_res": 2, "jobs": [job], "profiles": profiles}))
    assert read_workload(path, speed=1e6).run_time.tolist() == [seconds]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        ({"type": "TraceReplayProfile", "trace_type": "SMPI", "filename": "t.txt"}, "traces of MPI"),
        ({"type": "TraceReplayProfile", "trace_type": "FractionalComputation"}, "traces in other files"),
        ({"type": "smpi", "trace": "t.txt"}, "traces of MPI"),
        ({"type": "usage_trace", "trace": "t.txt"}, "traces in other files"),
        ({"type": "ParallelTaskOnStorageHomogeneousProfile", "bytes_to_read": 9}, "from or to storage"),
        ({"type": "ParallelTaskDataStagingBetweenStoragesProfile"}, "from or to storage"),
        ({"type": "data_staging", "nb_bytes": 9}, "between storages"),
        ({"type": "parallel_homogeneous_pfs", "bytes_to_read": 9}, "file system"),
        ({"type": "ParallelTaskProfile", "com": [0, 5, 0, 0]}, "depends on a network"),
        ({"type": "ForkJoinCompositionProfile"}, "supported types are delay"),
    ],
)
def test_batsim_profiles_without_a_run_time_are_refused_with_the_reason(write_file, profile, reason):
    profiles = {"x": profile, "s": {"type": "SequentialCompositionProfile", "seq": ["x"]}}
    for name in profiles:
        job = {"id": "1", "subtime": 0, "res": 2, "profile": name}
        path = write_file("log.json", json.dumps({"nb_res": 2, "jobs": [job], "profiles": profiles}))
        with pytest.raises(WorkloadError, match=r"no run time of its own|communicates") as caught:
            read_workload(path, speed=1e6)
        assert reason in caught.value.hint
        assert "profiles.x" in caught.value.field


@pytest.mark.parametrize(
    ("ids", "numbers", "noted"),
    [
        (["w0!5", "#7", " 9"], [5, 7, 9], False),
        (["first-ok", "second-ok", "3"], [1, 2, 3], True),
        (["w0!1", "w1!1", 4], [1, 2, 3], True),
        ([2**70, 1, 0], [1, 2, 3], True),
        ([-4, 1, 0], [-4, 1, 0], False),
    ],
)
def test_batsim_numbers_jobs_in_order_where_ids_are_no_numbers(write_file, ids, numbers, noted):
    jobs = [{"id": identity, "subtime": 0, "res": 2, "profile": "d"} for identity in ids]
    path = write_file("log.json", json.dumps({"jobs": jobs, "profiles": PROFILES}))
    workload = read_workload(path)
    assert workload.column("job_id").tolist() == numbers
    assert bool(workload.header.get("Import")) == noted


def test_batsim_sequences_nest_and_repeat_within_limits(write_file):
    """A sum of sums is computed once for each profile; a deep chain or a run time without end is refused."""
    chain = {f"p{i}": {"type": "sequence", "seq": [f"p{i + 1}"] * 2} for i in range(40)}
    job = {"id": 1, "subtime": 0, "res": 1, "profile": "p0"}
    path = write_file("log.json", json.dumps({"jobs": [job], "profiles": chain | {"p40": PROFILES["d"]}}))
    assert read_workload(path).run_time.tolist() == [20 * 2**40]
    longer = chain | {"p40": {"type": "sequence", "seq": ["d"], "repeat": 2**30}, "d": PROFILES["d"]}
    write_file("log.json", json.dumps({"jobs": [job], "profiles": longer}))
    with pytest.raises(WorkloadError, match="largest time"):
        read_workload(path)
    # A part without a known run time leaves the sum unknown.
    unknown = {"p0": {"type": "sequence", "seq": ["d", "u"]}, "d": PROFILES["d"]}
    unknown["u"] = {"type": "delay", "delay": -1}
    write_file("log.json", json.dumps({"jobs": [job], "profiles": unknown}))
    assert read_workload(path).run_time.tolist() == [-1]


@pytest.mark.parametrize(("width", "seconds"), [(1, 8), (2, 4), (8, 1)])
def test_batsim_shares_a_total_among_the_processors(write_file, width, seconds):
    job = {"id": 1, "subtime": 0, "res": width, "profile": "t"}
    path = write_file("log.json", json.dumps({"jobs": [job], "profiles": PROFILES}))
    assert read_workload(path, speed=1e6).run_time.tolist() == [seconds]


def test_batsim_without_walltime_and_with_fractions(write_file):
    job = {"id": 1, "subtime": 0.25, "res": 1, "profile": "h"}
    path = write_file("log.json", json.dumps({"jobs": [job], "profiles": PROFILES}))
    workload = read_workload(path, speed=3e6, clean=["round_fractions"])
    assert workload.requested_time.tolist() == [-1]
    assert (workload.submit_time.tolist(), workload.run_time.tolist()) == ([0], [3])
    assert workload.cleaning == {"round_fractions": 1}
    for options in ({"speed": 0}, {"time_unit": -1}, {"speed": float("nan")}):
        with pytest.raises(WorkloadError, match="finite number above 0"):
            read_workload(path, **options)


def test_suffixes():
    for name, expected in [
        ("a.swf", ("swf", "a")),
        ("a.b.SWF.GZ", ("swf", "a.b")),
        ("a.json.xz", ("batsim", "a")),
    ]:
        match = find_format(name)
        assert match is not None
        assert (match[0].name, match[1]) == expected
    assert find_format(".swf") is None
    assert find_format("a.xml") is None


def test_a_registered_format_is_never_overwritten():
    swf = FORMATS.find("swf")
    for name, suffix in [("swf", ".new"), ("new", ".swf"), ("new", "swf"), ("new", ".SWF")]:
        with pytest.raises(WorkloadError):
            register_format(Format(name, suffix, swf.read, swf.write, ""))
    assert FORMATS.find("swf") is swf


@pytest.fixture
def days(tmp_path):
    """Return a folder and tars of the same three days."""
    folder = tmp_path / "days"
    (folder / "deep" / "er").mkdir(parents=True)
    for name, run in [("deep/day-10.swf", 10), ("deep/day-9.swf.gz", 9), ("deep/er/day-1.csv", 1)]:
        write_workload(make_workload(run_time=[run]), folder / name)
    (folder / "README.txt").write_text("no log")
    (folder / "deep" / "platform.xml").write_text("<platform/>")
    return folder


@pytest.mark.parametrize("packed", [None, ".tar", ".tar.gz", ".tar.xz", ".tgz", ".txz"])
def test_sets_of_logs(days, tmp_path, packed):
    place = days
    if packed is not None:
        place = tmp_path / f"set{packed}"
        mode = "w:gz" if "gz" in packed else "w:xz" if "xz" in packed else "w"
        with tarfile.open(place, mode) as archive:
            archive.add(days, arcname="days")
    workloads = read_workloads(place)
    assert [workload.name for workload in workloads] == ["day-9", "day-10", "er/day-1"]
    assert [workload.run_time.tolist() for workload in workloads] == [[9], [10], [1]]
    assert len({workload.source for workload in workloads}) == 3
    if packed is not None:
        with pytest.raises(WorkloadError, match="is an archive of logs"):
            read_workload(place)


def test_one_log_is_a_set_of_one(write_file):
    assert len(read_workloads(write_file("log.swf", GOOD))) == 1


def test_sets_without_logs(tmp_path):
    with pytest.raises(WorkloadError, match="holds no logs"):
        read_workloads(tmp_path)
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    with pytest.raises(WorkloadError, match="holds no logs"):
        read_workloads(tmp_path / "empty.tar")


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.xz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_truncated_archives(tmp_path, name, share):
    path = tmp_path / name
    rng = np.random.default_rng(2)
    mode = {".gz": "w:gz", ".xz": "w:xz"}.get(path.suffix, "w")
    with tarfile.open(path, mode) as archive:
        for day in range(3):
            text = "\n".join(job_line(submit_time=i, run_time=rng.integers(10**6)) for i in range(500))
            member = tarfile.TarInfo(f"day-{day}.swf")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(WorkloadError) as caught:
        read_workloads(path)
    assert str(path) in str(caught.value.path)


def test_no_tar(tmp_path):
    path = tmp_path / "x.tar"
    path.write_text(GOOD * 100)
    with pytest.raises(WorkloadError, match="is not a tar archive"):
        read_workloads(path)


def test_a_bomb_in_an_archive(tmp_path):
    path = tmp_path / "bomb.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        member = tarfile.TarInfo("bomb.swf")
        member.size = 8 << 20
        archive.addfile(member, io.BytesIO(b"\n" * member.size))
    with pytest.raises(WorkloadError, match=r"more than 1,048,576 bytes"):
        read_workloads(path, max_bytes=1 << 20)


def test_archives_are_never_unpacked_outside(tmp_path):
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("../../evil.swf")
        member.size = len(GOOD)
        archive.addfile(member, io.BytesIO(GOOD.encode()))
        link = tarfile.TarInfo("link.swf")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    before = sorted(tmp_path.rglob("*"))
    assert len(read_workloads(path)) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_natural_order(tmp_path):
    for name in ["b-1", "a-10", "a-9", "a-9b", "a", "10", "9"]:
        write_workload(make_workload(submit_time=[0]), tmp_path / f"{name}.swf")
    read = [workload.name for workload in read_workloads(tmp_path)]
    assert read == ["9", "10", "a-9", "a-9b", "a-10", "a", "b-1"]


def test_a_table_of_numbers_may_be_separated_by_semicolons(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("submit_time;run_time;requested_processors\n0;10;1\n5;20;2\n")
    assert read_workload(path).run_time.tolist() == [10, 20]


def test_columns_are_chosen_by_the_names_of_fields_too():
    assert quantities_of(["A", "B"], "submit_time=A,run_time=B") == {"submit": "A", "elapsed": "B"}
    with pytest.raises(WorkloadError, match="did you mean 'elapsed'"):
        quantities_of(["A"], "elapse=A")
    assert quantities_of(["A"], "run=A") == {"elapsed": "A"}


def test_columns_of_plain_names_are_found(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("submit;run;processors\n0;10;2\n5;20;3\n")
    log = read_workload(path)
    assert (log.run_time.tolist(), log.columns["requested_processors"].tolist()) == ([10, 20], [2, 3])
