"""Dumps of sacct, with everything that has been seen in them."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from gridtune.errors import GridtuneWarning, WorkloadError
from gridtune.workload import read_workload

NAMES = "JobID|JobIDRaw|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|Elapsed|Timelimit"
NAMES += "|ReqCPUS|AllocCPUS|ReqNodes|ReqMem|ReqTRES|NodeList"


def job(number, **changed):
    values = {
        "JobID": str(number),
        "JobIDRaw": str(number),
        "JobName": "train",
        "User": "ann",
        "Account": "physics",
        "Partition": "cpu",
        "QOS": "normal",
        "State": "COMPLETED",
        "Submit": "2024-03-01T08:00:00",
        "Eligible": "2024-03-01T08:00:00",
        "Start": "2024-03-01T08:01:00",
        "End": "2024-03-01T09:01:00",
        "Elapsed": "01:00:00",
        "Timelimit": "2-00:00:00",
        "ReqCPUS": "8",
        "AllocCPUS": "8",
        "ReqNodes": "1",
        "ReqMem": "16G",
        "ReqTRES": "billing=8,cpu=8,mem=16G,node=1",
        "NodeList": "n01",
        **changed,
    }
    return "|".join(values[name] for name in NAMES.split("|"))


def read(tmp_path, *records, names=NAMES, name="dump.txt", **options):
    path = Path(tmp_path, name)
    path.write_text("\n".join([names, *records]) + "\n", encoding="utf-8")
    return read_workload(path, **options)


def test_a_job(tmp_path):
    log = read(tmp_path, job(17))
    (only,) = log
    assert only["job_id"] == 17
    assert (only["submit_time"], only["wait_time"], only["run_time"]) == (0, 60, 3600)
    assert (only["requested_time"], only["requested_processors"]) == (2 * 86_400, 8)
    assert only["requested_memory"] == 2 * 1024 * 1024
    assert (only["status"], only["end_time"]) == (1, 3660)
    assert log.names["user"] == {1: "ann"}
    assert log.names["qos"] == {1: "normal"}
    assert log.names["state"] == {1: "COMPLETED"}
    assert log.header["UnixStartTime"] == ("1709280000",)


def test_a_dump_is_known_by_its_content_whatever_it_is_called(tmp_path):
    for name in ("jobs.log", "jobs", "jobs.sacct", "jobs.txt"):
        assert len(read(tmp_path, job(1), name=name, format=None)) == 1


@pytest.mark.parametrize("mark", ["|", ",", ";"])
def test_steps_without_ids_are_not_taken_for_jobs(tmp_path, mark):
    names = NAMES.replace("JobID|JobIDRaw|", "").replace("|", mark)
    jobs = [job(number).partition("|")[2].partition("|")[2] for number in (1, 2)]
    step = job(1, User="", Partition="", QOS="", Timelimit="").partition("|")[2].partition("|")[2]
    # The lists of ReqTRES have commas.
    dump = [
        line.replace("billing=8,cpu=8,mem=16G,node=1", "cpu=8").replace("|", mark) for line in (*jobs, step)
    ]
    with pytest.raises(WorkloadError, match="1 rows look like steps of jobs: they have no User") as refused:
        read(tmp_path, *dump, names=names)
    assert "JobID" in refused.value.hint
    assert len(read(tmp_path, *dump[:2], names=names)) == 2


def test_rows_of_other_tables_without_user_and_partition_are_jobs(tmp_path):
    rows = ["submit,start,end,cpus,user,partition", "0,10,70,4,ann,p", "5,20,90,8,,", "9,30,95,2,bob,p"]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(rows) + "\n")
    log = read_workload(path)
    np.testing.assert_array_equal(log.run_time, [60, 70, 65])
    # With the names of sacct alone, the rows may be steps.
    path.write_text(path.read_text().replace("cpus", "AllocCPUS"))
    with pytest.raises(WorkloadError, match="1 rows look like steps"):
        read_workload(path)


@pytest.mark.parametrize("mark", "^~!#%&*+/<>?@\\`'$\x01")
def test_any_mark_between_values(tmp_path, mark):
    dump = [job(1), job("1.batch", User="", Partition=""), job(2)]
    log = read(tmp_path, *[line.replace("|", mark) for line in dump], names=NAMES.replace("|", mark))
    assert log.checksum == read(tmp_path, *dump).checksum
    assert log.header["Import"] == ("1 steps of jobs left out",)


def test_marks_of_several_characters_and_blanks_are_refused_with_the_remedy(tmp_path):
    for mark, message in (
        ("||", "19 columns have no name"),
        (" ", "sacct between blanks"),
        (":", "no record"),
    ):
        with pytest.raises(WorkloadError, match=message) as refused:
            read(tmp_path, job(1).replace("|", mark), names=NAMES.replace("|", mark))
        assert "--parsable2" in refused.value.hint


@pytest.mark.parametrize("form", [None, "sacct"])
@pytest.mark.parametrize("mark", ["|", "^"])
def test_lines_above_the_header_are_left_out_and_named(tmp_path, form, mark):
    above = "\n***** Welcome *****\nUse | with care, users\nsacct: error: a plugin is missing\n"
    dump = [line.replace("|", mark) for line in (job(1), job(2))]
    names = NAMES.replace("|", mark)
    log = read(tmp_path, *dump, names=above + names, format=form)
    assert log.checksum == read(tmp_path, *dump, names=names).checksum
    assert log.header["Import"] == ("3 lines above the header left out, such as '***** Welcome *****'",)
    # Lines keep their numbers.
    with pytest.raises(WorkloadError, match="Start") as refused:
        read(tmp_path, dump[0].replace("T08:01:00", "T08:99:00"), names=above + names, format=form)
    assert refused.value.line == 6


def test_records_above_the_header_are_not_left_out(tmp_path):
    with pytest.raises(WorkloadError, match="a table without a header"):
        read(tmp_path, job(2), names=job(1) + "\n" + NAMES)


@pytest.mark.parametrize(
    "said",
    [
        "sacct: error: Problem talking to the database: Connection refused",
        'sacct: fatal: Bad field requested: "Foo"',
        "Slurm accounting storage is disabled",
        "-bash: sacct: command not found",
    ],
)
def test_a_message_of_sacct_is_named(tmp_path, said):
    for text in (said, f"Welcome\n{said}\n"):
        path = tmp_path / "dump.txt"
        path.write_text(text)
        with pytest.raises(WorkloadError, match="is a message of sacct, without jobs") as refused:
            read_workload(path)
        assert said in refused.value.message


def test_steps_are_left_out_and_counted(tmp_path):
    log = read(tmp_path, job(1), job("1.batch", JobIDRaw="1.batch"), job("1.0", JobIDRaw="1.0"))
    assert len(log) == 1
    assert log.header["Import"] == ("2 steps of jobs left out",)


def test_bars_in_names_are_part_of_them(tmp_path):
    log = read(tmp_path, job(1, JobName="a|b||c"), job(2, JobName="|"))
    assert list(log.names["executable"].values()) == ["a|b||c", "|"]
    np.testing.assert_array_equal(log.run_time, [3600, 3600])


def test_a_text_of_several_lines(tmp_path):
    names = NAMES.replace("JobName", "SubmitLine")
    first = job(1, JobName="bash -c if true\nthen echo a | sort\n\nfi")
    log = read(tmp_path, first, job(2), names=names)
    np.testing.assert_array_equal(log.job_id, [1, 2])


def test_a_line_of_parsable_with_a_bar_at_its_end(tmp_path):
    log = read(tmp_path, job(1) + "|", job(2, JobName="x|y") + "|", names=NAMES + "|")
    assert list(log.names["executable"].values()) == ["train", "x|y"]


def test_a_damaged_record_is_left_out_with_a_warning_that_names_its_line(tmp_path):
    with pytest.warns(GridtuneWarning, match=r"dump\.txt:3 is no record: 5 values"):
        log = read(tmp_path, job(1), "|".join(job(2).split("|")[-5:]), job(3))
    np.testing.assert_array_equal(log.job_id, [1, 3])
    assert log.header["Import"] == ("1 damaged records left out",)


def test_a_file_of_damaged_records_is_refused(tmp_path):
    with pytest.raises(WorkloadError, match=r"dump\.txt:2: is no record: 3 values"):
        read(tmp_path, "a|b|c", "d|e")


@pytest.mark.parametrize(
    ("changed", "run", "wait", "status"),
    [
        ({"State": "CANCELLED by 1001"}, 3600, 60, 5),
        ({"State": "TIMEOUT"}, 3600, 60, 0),
        ({"State": "NODE_FAIL"}, 3600, 60, 0),
        # A job that never started: how long it waited is until it was cancelled.
        ({"State": "CANCELLED by 7", "NodeList": "None assigned", "Elapsed": "00:00:00"}, -1, 3660, 5),
        ({"State": "PENDING", "Start": "Unknown", "End": "Unknown", "Elapsed": "00:00:00"}, -1, -1, -1),
        # One that still runs has no run time yet.
        ({"State": "RUNNING", "End": "Unknown"}, -1, 60, -1),
        # Suspended for a minute: it ran shorter than from start to end.
        ({"Elapsed": "00:59:00"}, 3540, 60, 1),
    ],
)
def test_states(tmp_path, changed, run, wait, status):
    log = read(tmp_path, job(1), job(2, **changed))
    assert (log.run_time[1], log.wait_time[1], log.column("status")[1]) == (run, wait, status)


def test_arrays_requeues_and_heterogeneous_jobs(tmp_path):
    log = read(
        tmp_path,
        job("12_3", JobIDRaw="15"),
        job("12_[4-9%2]", JobIDRaw="12", State="PENDING", Start="Unknown", End="Unknown"),
        job("20", State="REQUEUED"),
        job("20"),
        job("30+1", JobIDRaw="31"),
    )
    np.testing.assert_array_equal(log.job_id, [15, 12, 20, 20, 31])
    assert set(log.header["Import"]) == {
        "1 attempts that were requeued or preempted",
        "1 records of arrays not yet split into tasks",
        "1 jobs that never started",
    }


@pytest.mark.parametrize(
    ("requested", "resources", "kilobytes"),
    [
        ("2800Mc", "", 2800 * 1024),  # for each processor
        ("4Gn", "", 4 * 2**20 // 8),  # for each node
        ("16G", "", 2 * 2**20),  # for the job
        ("0n", "cpu=8,mem=8G", 2**20),  # what Slurm settled on counts
        ("Unknown", "", -1),
    ],
)
def test_memory_is_kilobytes_for_each_processor(tmp_path, requested, resources, kilobytes):
    log = read(tmp_path, job(1, ReqMem=requested, ReqTRES=resources))
    assert log.column("requested_memory")[0] == kilobytes


def test_gpus_and_their_type(tmp_path):
    tres = "billing=8,cpu=8,gres/gpu:v100=2,gres/gpu=2,mem=16G,node=1"
    log = read(tmp_path, job(1, ReqTRES=tres), job(2))
    np.testing.assert_array_equal(log.column("requested_gpus"), [2, 0])
    assert log.names["gpu_type"] == {1: "v100"}
    np.testing.assert_array_equal(log.column("gpu_type"), [1, -1])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10:00:00", 36_000),
        ("3-00:00:00", 259_200),
        ("05:30", 330),
        ("UNLIMITED", -1),
        ("Partition_Limit", -1),
        ("", -1),
    ],
)
def test_limits(tmp_path, text, seconds):
    assert read(tmp_path, job(1, Timelimit=text), job(2)).requested_time[0] == seconds


def test_times_are_of_the_zone_that_is_named(tmp_path):
    # In Berlin clocks are set forward on 31 March: two minutes by the clock, one hour less in truth.
    early, late = "2024-03-31T01:59:00", "2024-03-31T03:01:00"
    records = [
        job(1, Submit=early, Eligible=early, Start=early),
        job(2, Submit=late, Eligible=late, Start=late),
    ]
    assert read(tmp_path, *records).submit_time[1] == 3720
    assert read(tmp_path, *records, timezone="Europe/Berlin").submit_time[1] == 120
    with pytest.raises(WorkloadError, match="no time zone 'Berlin'"):
        read(tmp_path, *records, timezone="Berlin")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"Submit": "yesterday"}, r"dump\.txt:3, field Submit: 'yesterday' is no time"),
        ({"Submit": "Unknown"}, r"dump\.txt:3, field Submit: the job has no time of submission"),
        ({"Elapsed": "an hour"}, r"dump\.txt:3, field Elapsed: 'an hour' is no duration"),
        ({"ReqCPUS": "many"}, r"dump\.txt:3, field ReqCPUS: 'many' is not a number"),
        ({"ReqTRES": "eight"}, r"dump\.txt:3, field ReqTRES: 'eight' is no list of resources"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(tmp_path, changed, message):
    with pytest.raises(WorkloadError, match=message):
        read(tmp_path, job(1), job(2, **changed))


def test_any_set_of_columns_in_any_order(tmp_path):
    names = "Submit|JobID|ElapsedRaw|NCPUS|TimelimitRaw"
    log = read(tmp_path, "2024-03-01T08:00:00|4|90|2|30", "2024-03-01T08:00:10|5|80|4|60", names=names)
    np.testing.assert_array_equal(log.processors, [2, 4])
    np.testing.assert_array_equal(log.run_time, [90, 80])
    np.testing.assert_array_equal(log.requested_time, [1800, 3600])


def test_samples_of_real_dumps(trace_dir):
    folder = Path(trace_dir, "slurm", "sacct")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridtuneWarning)
        jobs = {path.name: len(read_workload(path)) for path in sorted(folder.glob("*simple.log"))}
        jobs |= {path.name: len(read_workload(path)) for path in sorted(folder.glob("*dump*.log"))}
        two = folder / "sacct_submitline_multiline.log"
        with pytest.raises(WorkloadError, match="2 clusters"):
            read_workload(two)
        for cluster in ("cluster001", "ub-hpc"):
            jobs[cluster] = len(read_workload(two, cluster=cluster))
    # Two of them repeat one job, with bars in other texts each time.
    assert jobs == {
        "sacct_dump2101.log": 12,
        "sacct_dump2110.log": 1,
        "sacct_simple.log": 4,
        "cluster001": 1,
        "ub-hpc": 1,
    }
