"""A log is recognised by its content, whatever it is called; kinds that are not read are refused by name."""

import gzip
import io
import json
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from gridtune.cli.traces import traces
from gridtune.errors import WorkloadError
from gridtune.workload import read_workload
from gridtune.workload.formats.recognition import recognise

from .sample_logs import GOOD

SACCT = """JobID|User|Partition|Submit|Start|End|Elapsed|State|NCPUS|ReqCPUS|Timelimit
1001|ann|p|2024-01-01T08:00:00|2024-01-01T08:00:10|2024-01-01T09:00:10|01:00:00|COMPLETED|8|8|02:00:00
1001.batch|||2024-01-01T08:00:10|2024-01-01T08:00:10|2024-01-01T09:00:10|01:00:00|COMPLETED|8|8|
1002|bob|p|2024-01-01T08:05:00|2024-01-01T08:06:00|2024-01-01T08:36:00|00:30:00|COMPLETED|16|16|01:00:00
1002.extern|||2024-01-01T08:06:00|2024-01-01T08:06:00|2024-01-01T08:36:00|00:30:00|COMPLETED|16|16|
1002|bob|p|2024-01-01T08:05:00|2024-01-01T08:06:00|2024-01-01T08:36:00|00:30:00|COMPLETED|16|16|01:00:00
"""


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def as_parquet(text, delimiter="|"):
    table = pa_csv.read_csv(
        pa.BufferReader(text.encode()), parse_options=pa_csv.ParseOptions(delimiter=delimiter)
    )
    buffer = io.BytesIO()
    pq.write_table(table.cast(pa.schema([(name, pa.string()) for name in table.column_names])), buffer)
    return buffer.getvalue()


def as_lines_of_json(text):
    names, *rows = [line.split("|") for line in text.splitlines()]
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dump.txt", SACCT),
        ("dump.csv", SACCT),
        ("dump", SACCT),
        ("dump.swf", SACCT),
        ("commas.csv", SACCT.replace("|", ",")),
        ("semicolons.csv", SACCT.replace("|", ";")),
        ("tabs.txt", SACCT.replace("|", "\t")),
        ("quoted.csv", '"' + SACCT.rstrip().replace("|", '","').replace("\n", '"\n"') + '"\n'),
        ("some_quoted.csv", SACCT.replace("|p|", "|p,q|").replace("|", ",").replace("p,q", '"p,q"')),
        ("dump.parquet", as_parquet(SACCT)),
        ("dump.json", as_lines_of_json(SACCT)),
        ("dump.csv.gz", gzip.compress(SACCT.encode())),
        ("mark.csv", b"\xef\xbb\xbf" + SACCT.encode()),
        ("windows.csv", SACCT.replace("\n", "\r\n")),
    ],
)
def test_a_dump_of_sacct_is_one_whatever_it_is_called_and_kept_in(tmp_path, name, content):
    log = read_workload(written(tmp_path, name, content))
    np.testing.assert_array_equal(log.run_time, [3600, 1800])
    np.testing.assert_array_equal(log.processors, [8, 16])
    np.testing.assert_array_equal(log.wait_time, [10, 60])
    notes = " ".join(log.header["Import"])
    assert "2 steps of jobs left out" in notes
    assert "1 records of jobs that are there already" in notes


def test_one_job_in_a_line_of_json(tmp_path):
    first = "\n".join(SACCT.splitlines()[:2])
    log = read_workload(written(tmp_path, "dump.jsonl", as_lines_of_json(first)))
    np.testing.assert_array_equal(log.run_time, [3600])


def test_a_log_of_another_suffix_is_read_as_what_it_is(tmp_path):
    assert (
        read_workload(written(tmp_path, "log.txt", GOOD)).checksum
        == read_workload(written(tmp_path, "log.csv", GOOD)).checksum
    )


LSF = (
    '"JOB_FINISH" "10.1" 1700001000 501 1001 33554435 4 1700000000 0 0 1700000100 "ann" "normal" "" "" "" '
    '"h" "/home" "" "" "" "f" 0 1 "n1" 64 1.0 "name" "sleep 900" 1.0\n'
)
GRID_ENGINE = (
    ":".join(["q", "h", "g", "ann", "job", "17", "sge", "0", *["1310761621"] * 3, *["0"] * 34]) + "\n"
)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (GOOD, "swf"),
        (SACCT, "sacct"),
        (LSF, "lsf"),
        ("04/01/2024 10:00:00;Q;17.head;queue=batch\n", "pbs"),
        ('{"nb_res": 4, "jobs": [{"id": "a", "subtime": 0}], "profiles": {}}', "batsim"),
        ('{"meta": {}, "jobs": [{"association": {}, "job_id": 4}]}', "sacct"),
        ("submit_time,run_time,requested_processors\n1,2,3\n", "csv"),
        ("Submit Time;Start Time;End Time;Cores\n1;2;3;4\n", "csv"),
        ("PAR1" + "\0" * 30, "parquet"),
    ],
)
def test_formats_by_their_beginning(content, name):
    assert recognise(content.encode()).name == name


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("JobID    JobName  State\n-------- -------- -----\n1001     train    COMPLETED\n",
         "sacct --allusers"),
        ("       JobID    Elapsed  NCPUS\n------------ ---------- ------\n17     00:01:00   4\n",
         "--parsable2"),
        ("1001|1001|c|cpu|a|ann|2024-03-01T08:00:00|2024-03-01T08:01:00|8\n", "header"),
        ("1|ann|ann|COMPLETED|slurm|16\n", "--noheader"),
        ("JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode\n1|a|p|x|4|COMPLETED|0:0\n",
         "Submit,Start,End"),
        ("             JOBID PARTITION     NAME     USER ST\n 17 cpu a ann R\n", "squeue"),
        ('{"jobs": [{"job_state": "PENDING", "job_id": 3}]}', "squeue --json"),
        ("1001   train  cpu  acc1 40 COMPLETED  0:0\n1001.ba+ batch acc1 40 COMPLETED 0:0\n", "--parsable2"),
        ("Job ID    Name     User  Time Use S\n------- ---- ----\n17.head a ann 0 R q\n", "server_priv"),
        ("JOBID   USER    STAT  QUEUE\n501 ann RUN normal\n", "lsb.acct"),
        (" ID     OWNER     SUBMITTED   RUN_TIME ST\n 17.0 ann 1/2 10:00 0+00:01:00 C\n", "HTCondor"),
        (" \n\n", "is empty"),
        (GRID_ENGINE, "Grid Engine"),
        ("==============================================================\nqname        all.q\nhostname n1\n",
         "qacct"),
        ('MyType = "Job"\nClusterId = 377260\nQDate = 1290671437\n', "HTCondor"),
        ("000 (123.000.000) 2024-01-01 10:00:00 Job submitted from host: <1>\n...\n", "HTCondor"),
        ('{"jobs": [{"type": "rigid", "submit_time": 0, "application_model": "a.json"}]}', "ElastiSim"),
        ('{"17": {"assigned_resources": [1, 2], "launching_directory": "/"}}', "OAR"),
        ("task_id\thash\tnative_id\tname\tstatus\tsubmit\trealtime\n"
         "1\ta\t9\tx\tCOMPLETED\t2020-05-09 12:34:02\t2s\n",
         "Nextflow"),
        ("nb_computing_machines,makespan,nb_jobs\n4,100,3\n", "out_jobs.csv"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n", "git lfs pull"),
        ("<!DOCTYPE html>\n<html><body>log in</body></html>\n", "web page"),
        ("PK\x03\x04rest", "unzip"),
        ('{"workflow": {"tasks": []}, "schemaVersion": "1.4"}', "workflow"),
        ("", "is empty"),
        ("Elapsed|ReqCPUS|State\n00:01:00|4|COMPLETED\n", "submitted"),
        ("ReqCPUS|Submit|Timelimit|State\n1|2024-06-24T12:33:26|7-04:00:00|TIMEOUT\n", "how long jobs ran"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["log.txt", "log.csv"])
def test_kinds_that_are_not_read_are_refused_by_name_with_a_way_on(tmp_path, name, content, words):
    with pytest.raises(WorkloadError) as refused:
        read_workload(written(tmp_path, name, content))
    assert words in str(refused.value)


def test_comments_before_the_root_element_take_no_time():
    text = b"<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM 's.dtd'>\n" + b"<!-- a -> b -->\n" * 500
    started = time.process_time()
    assert recognise(text + b"<platform version='4'>").name == "a platform of SimGrid"
    assert recognise(text + b"<other>") is None
    assert time.process_time() - started < 1


def test_a_table_without_a_header_is_read_by_positions(tmp_path):
    path = written(tmp_path, "jobs.csv", "7,2024-01-01 10:00:00,60,4\n8,2024-01-01 10:01:00,30,2\n")
    with pytest.raises(WorkloadError, match="without a header"):
        read_workload(path)
    log = read_workload(path, columns="job=1,submit=2,elapsed=3,processors=4")
    np.testing.assert_array_equal(log.job_id, [7, 8])
    np.testing.assert_array_equal(log.processors, [4, 2])


def test_a_row_without_a_header_is_cut_at_its_bars(tmp_path):
    nodes = "n[1,3,5,7,9,11,13]"
    path = written(
        tmp_path, "jobs.txt", f"7|2024-01-01T10:00:00|60|4|{nodes}\n8|2024-01-01T10:01:00|30|2|n1\n"
    )
    log = read_workload(path, format="csv", columns="job=1,submit=2,elapsed=3,processors=4")
    np.testing.assert_array_equal(log.processors, [4, 2])


def test_describe_says_which_format_and_why(tmp_path):
    path = written(tmp_path, "dump.csv", SACCT)
    result = CliRunner().invoke(traces, ["describe", str(path)], catch_exceptions=False)
    assert "dump.csv is sacct (90%): its first line has the names of sacct" in result.output
    assert "note: 2 steps of jobs left out" in result.output
    described = json.loads(CliRunner().invoke(traces, ["describe", str(path), "--json"]).output)
    assert described["recognised"]["name"] == "sacct"


def test_a_table_in_memory(tmp_path):
    columns = {"submit": [100, 160], "runtime": [60, 30], "cores": [4, 2], "user": ["ann", "bob"]}
    log = read_workload(pa.table(columns))
    np.testing.assert_array_equal(log.submit_time, [100, 160])
    np.testing.assert_array_equal(log.processors, [4, 2])
    pandas = pytest.importorskip("pandas")
    assert read_workload(pandas.DataFrame(columns)).checksum == log.checksum
    longer = read_workload(pa.table(columns), unit="elapsed=min")
    np.testing.assert_array_equal(longer.run_time, [3600, 1800])


def test_names_with_characters_that_a_terminal_obeys_are_escaped(tmp_path):
    log = read_workload(written(tmp_path, "sacct.txt", SACCT.replace("ann", "\x1b]0;pwned\x07")))
    assert set(log.names["user"].values()) == {r"\x1b]0;pwned\x07", "bob"}
