"""Dumps as operators have them: allocated processors, overlaps, several files, other encodings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from gridtune.cli.main import cli
from gridtune.core.remarks import log_remarks
from gridtune.errors import WorkloadError
from gridtune.workload import read_workload, write_workload
from gridtune.workload.files import read_dumps
from gridtune.workload.formats import sacct
from gridtune.workload.formats.sacct import _DumpReader, _Lines
from tests.workload.accounting.test_sacct import NAMES, job, read


def test_jobs_have_the_processors_they_got_unless_the_others_are_asked_for(tmp_path):
    records = [job(1, ReqCPUS="1", AllocCPUS="48", ReqTRES="cpu=1"), job(2)]
    log = read(tmp_path, *records)
    np.testing.assert_array_equal(log.processors, [48, 8])
    assert log.header["AllocatedToRequested"] == ("6.222",)
    assert log.cleaning == {"use_allocated_processors": 1}
    assert any("6.222 times as many; jobs have those they got" in note for note in log.header["Import"])
    # Memory is that of the job, whatever its processors.
    assert log.column("requested_memory")[0] == 16 * 2**20 // 48
    asked = read(tmp_path, *records, requested=True)
    np.testing.assert_array_equal(asked.processors, [1, 8])
    assert asked.cleaning == {}
    assert any("those they asked for" in note for note in asked.header["Import"])


def test_pbs_jobs_have_the_processors_of_their_chunks(tmp_path):
    attributes = "ctime=100 start=200 end=300 Resource_List.ncpus=2"
    (tmp_path / "day").write_text(
        f"04/01/2024 10:00:00;E;17.host;{attributes} exec_vnode=(n1:ncpus=24:mem=4gb)+(n2:ncpus=24)\n"
        f"04/01/2024 10:00:00;E;18.host;{attributes} exec_host=n1/0*4\n"
        f"04/01/2024 10:00:00;E;18.host;{attributes} exec_host=n1/0*4\n"
    )
    log = read_workload(tmp_path / "day")
    np.testing.assert_array_equal(log.processors, [48, 4])
    np.testing.assert_array_equal(read_workload(tmp_path / "day", requested=True).processors, [2, 2])


def test_a_job_of_two_dumps_counts_once_as_it_ended(tmp_path):
    running = job(7, State="RUNNING", End="Unknown", Elapsed="00:10:00")
    (tmp_path / "may").write_text("\n".join([NAMES, job(6), job(7), job(8)]))
    (tmp_path / "june").write_text("\n".join([NAMES, running, job(9), job(8, Submit="2024-03-02T00:00:00")]))
    log = read_dumps([tmp_path / "may", tmp_path / "june"])
    # Numbers come again after years: another submission is another job.
    assert sorted(log.job_id.tolist()) == [6, 7, 8, 8, 9]
    assert (log.run_time == 3600).all()
    assert "1 records of jobs that are there already" in log.header["Import"]


def test_the_components_of_a_heterogeneous_job_are_one_job(tmp_path):
    first = job("30+0", JobIDRaw="30", ReqMem="8G", ReqTRES="cpu=8,mem=8G,node=1")
    second = job("30+1", JobIDRaw="31", ReqCPUS="4", AllocCPUS="4", ReqNodes="2", Timelimit="3-00:00:00")
    log = read(tmp_path, first, job(29), second)
    np.testing.assert_array_equal(log.job_id, [30, 29])
    np.testing.assert_array_equal(log.processors, [12, 8])
    np.testing.assert_array_equal(log.column("requested_nodes"), [3, 1])
    assert log.requested_time[0] == 3 * 86400
    assert "2 components of heterogeneous jobs, joined to one job each" in log.header["Import"]


def test_every_column_that_is_there_is_modelled_or_named(tmp_path):
    names = NAMES + "|Priority|Reservation|Licenses|SubmitLine|AveCPU"
    more = ["100|maint|lic:2|sbatch --nice=5 -d afterok:3 x.sh|0", "90||||0"]
    log = read(
        tmp_path,
        f"{job(1, QOS='high', State='PREEMPTED')}|{more[0]}",
        f"{job(2, Account='chemistry')}|{more[1]}",
        names=names,
    )
    assert "1 columns are not read (traces import --unread lists them)" in log.header["Import"]
    assert log.header["Unread columns"] == ("AveCPU",)
    ignored = log_remarks(log.contents, ())["ignored"]
    for words in (
        "qualities of service, in 2 jobs",
        "accounts, in 2 jobs",
        "recorded priorities, in 2 jobs",
        "dependencies, in 1 jobs",
        "nice values, in 1 jobs",
        "preempted and requeued attempts, in 1 jobs",
        "reservations, in 1 jobs",
        "licences, in 1 jobs",
    ):
        assert words in ignored
    # They stay with the log.
    write_workload(log, tmp_path / "log.parquet")
    assert read_workload(tmp_path / "log.parquet").contents == log.contents


def test_an_order_by_groups_is_refused_where_the_log_has_none(tmp_path):
    read(tmp_path, job(1), job(2))
    result = CliRunner().invoke(
        cli, ["simulate", str(tmp_path / "dump.txt"), "--order", "fair-group", "-p", "64"]
    )
    assert result.exit_code != 0
    assert "goes by the group of jobs" in str(result.exception)


def test_files_of_other_columns_make_one_log(tmp_path):
    (tmp_path / "a1.txt").write_text("\n".join([NAMES, job(1), NAMES, job(2)]))
    (tmp_path / "a2.txt").write_text("JobID|Submit|Start|End|NCPUS\n3|1709280000|1709280060|1709280100|2\n")
    files = [str(tmp_path / name) for name in ("a1.txt", "a2.txt", "log.parquet")]
    result = CliRunner().invoke(cli, ["traces", "import", *files])
    assert result.exit_code == 0, result.output
    log = read_workload(tmp_path / "log.parquet")
    assert log.job_id.tolist() == [1, 2, 3]
    assert log.processors.tolist() == [8, 8, 2]
    assert "1 repeated headers left out" in result.output
    (tmp_path / "a2.txt").write_text("JobID|Submit|NCPUS\n3|1709280000|0\n4|soon|1\n")
    with pytest.raises(WorkloadError, match=r"a2\.txt:3, field Submit: 'soon' is no time"):
        read_dumps([tmp_path / "a1.txt", tmp_path / "a2.txt"])
    (tmp_path / "a3.swf").write_text("1 0 -1 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1\n")
    with pytest.raises(WorkloadError, match="only dumps of one resource manager"):
        read_dumps([tmp_path / "a1.txt", tmp_path / "a3.swf"])


def test_json_says_the_same_as_text(tmp_path):
    text = read(tmp_path, job("17", Account="a", NodeList="n01"))
    entry = {
        "job_id": 17,
        "name": "train",
        "association": {"account": "a", "user": "ann", "cluster": "c"},
        "partition": "cpu",
        "qos": "normal",
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": {
            "submission": 1709280000,
            "eligible": 1709280000,
            "start": 1709280060,
            "end": 1709283660,
            "elapsed": 3600,
            "limit": {"set": True, "infinite": False, "number": 2880},
        },
        "required": {"CPUs": 8},
        "tres": {
            "requested": [
                {"type": "cpu", "name": "", "count": 8},
                {"type": "mem", "name": "", "count": 16384},
                {"type": "node", "name": "", "count": 1},
            ],
            "allocated": [{"type": "cpu", "name": "", "count": 8}],
        },
        "nodes": "n01",
        "steps": [{}],
    }
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"jobs": [entry], "meta": {"slurm": {"release": "24.11.5"}}}))
    log = read_workload(path)
    assert log.header["SlurmVersion"] == ("24.11.5",)
    (only,), (same,) = log, text
    assert {name: only[name] for name in same} == same
    assert "1 steps of jobs left out" in log.header["Import"]
    path.write_text(path.read_text()[:-20])
    with pytest.raises(WorkloadError, match=r"dump\.json:1: is no JSON, or it is cut off"):
        read_workload(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_encodings(tmp_path, encoding):
    path = tmp_path / "dump"
    path.write_text("\n".join([NAMES, job(1, User="jürgen")]), encoding=encoding)
    assert read_workload(path).names["user"] == {1: "jürgen"}


@pytest.mark.parametrize(
    "text", ["1709280000000", "01.03.2024 08:00:00", "2024-03-01 08:00:00", "1709280000"]
)
def test_times_in_other_forms(tmp_path, text):
    log = read(tmp_path, job(1), job(2, Submit=text))
    assert log.submit_time.tolist() == [0, 0]


def test_ids_that_begin_with_a_name(tmp_path):
    (tmp_path / "jobs.csv").write_text("id,submit,run_time,cpus\njob_4,0,9,1\njob_0,1,9,1\n")
    assert read_workload(tmp_path / "jobs.csv").job_id.tolist() == [4, 0]


LSF = (
    '"JOB_FINISH" "10.1" 1709283660 77 500 33816578 2 1709280000 0 0 {start} "ann" "night" "select[""x""]" '
    '"" "" "login" "/home" "" "out" "" "x.77" 1 "n1" {hosts} 64 1.0 "train" "run it" 0.1 0.2\n'
)


def test_lsf(tmp_path):
    path = tmp_path / "lsb.acct"
    event = '"EVENT_ADRSV_FINISH" "10.1" 1709283660 1\n'
    path.write_text(
        LSF.format(start=1709280060, hosts='2 "4*n1" "n2"')
        + event
        + LSF.format(start=0, hosts="0").replace(" 77 ", " 78 ")
    )
    log = read_workload(path)
    assert log.processors.tolist() == [5, 2]
    assert log.run_time.tolist() == [3600, -1]
    assert log.wait_time.tolist() == [60, 3660]
    assert (log.names["user"], log.names["queue"]) == ({1: "ann"}, {1: "night"})
    assert log.column("allocated_nodes").tolist()[0] == 2
    path.write_text(path.read_text()[:-80])
    with pytest.raises(WorkloadError, match=r"lsb\.acct:3: is no whole record"):
        read_workload(path)


_TEXTS = st.text(alphabet="a|\n\r.ü ", max_size=6)
_LINES = st.one_of(
    st.builds(lambda name, k: job(k, JobName=name), _TEXTS, st.integers(1, 99)),
    st.builds(lambda name, k: job(f"{k}.batch", JobName=name), _TEXTS, st.integers(1, 99)),
    st.builds(lambda k: job(k)[:40], st.integers(1, 99)),
    st.sampled_from(["", "  ", "a|b|c", NAMES, job(5) + "\r"]),
)


@pytest.mark.parametrize("text", [b"", b"a|b", b"a|b\n|\r\n\nlonger|than|a block\n||", b"\r\na\r|b\n"])
def test_lines_are_the_same_in_blocks_of_any_size(text, monkeypatch):
    whole = _Lines(text, "|")
    monkeypatch.setattr(sacct, "_BLOCK", 5)
    pieces = _Lines(text, "|")
    assert [pieces[k] for k in range(len(pieces))] == text.decode().split("\n")
    assert (pieces.first.tolist(), pieces.bars.tolist()) == (whole.first.tolist(), whole.bars.tolist())


@settings(deadline=None)
@given(st.lists(_LINES, max_size=12), st.booleans())
def test_lines_split_all_at_once_are_those_split_one_by_one(records, trailing):
    end = "|" if trailing else ""
    text = "\n".join(line + end for line in [NAMES, *records])
    reader = _DumpReader(_Lines(text.encode(), "|"), 0, Path("dump"))
    rows, lines, faults, at = [], [], [], 1
    while at < len(reader.lines):
        used = 1
        if reader.lines[at].strip():
            try:
                values, used = reader._record(at)
            except WorkloadError as error:
                faults.append(error.line)
            else:
                rows.append(values)
                lines.append(at)
        at += used
    table, begins, damaged, steps = reader.table(reader.names)
    assert [error.line for error in damaged] == faults
    assert len(begins) + steps == len(lines)
    # Steps in lines with too many bars or too few are still there.
    split = sorted(zip(begins.tolist(), [[*row.values()] for row in table.to_pylist()], strict=True))
    single = list(zip(lines, rows, strict=True))
    assert all(record in single for record in split)
    assert [(at, row) for at, row in split if "." not in row[reader.job]] == [
        (at, row) for at, row in single if "." not in row[reader.job]
    ]
