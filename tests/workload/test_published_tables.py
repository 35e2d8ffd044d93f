# ruff: noqa: E501 - rows of tables as they are published
"""Published tables are known by their columns: rows in each one's schema, with invented values."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gridtune.errors import WorkloadError
from gridtune.workload import read_workload
from gridtune.workload.formats.records import kind_of, table_kinds
from gridtune.workload.formats.values import _duration_seconds


def written(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text)
    return path


def columns_of(log, *names):
    return [log.column(name).tolist() for name in names]


def states_of(log):
    return [log.names["state"][number] for number in log.column("state").tolist()]


SIZES = ("requested_processors", "requested_gpus", "requested_nodes")

SEREN = """job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
71,ua,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0
72,ub,2,16,256,SFT,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,2023-03-01 01:09:04+08:00,2693,13,1.0
73,ua,1,0,4,Eval,CANCELLED,2023-03-01 00:30:00+08:00,2023-03-01 00:30:00+08:00,2023-03-01 00:31:00+08:00,60,0,0.0
"""
KALOS = """job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,\
end_time,fail_time,stop_time,duration,queue,gpu_time
dlcx1,uf,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
dlcx2,uf,4,32,480,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,\
2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0
"""


def test_acme(tmp_path):
    log = read_workload(written(tmp_path, SEREN))
    assert columns_of(log, *SIZES) == [[128, 256, 4], [8, 16, 0], [1, 2, 1]]
    assert columns_of(log, "submit_time", "wait_time", "run_time") == [
        [0, 336, 698],
        [32, 13, 0],
        [117, 2693, 60],
    ]
    assert log.header["UnixStartTime"] == ("1677601102",)
    assert states_of(log) == ["FAILED", "COMPLETED", "CANCELLED"]
    assert log.names["user"] == {1: "ua", 2: "ub"}
    assert "queue" not in log.columns
    # Kalos counts durations from submission, though its page says otherwise.
    log = read_workload(written(tmp_path, KALOS))
    assert columns_of(log, *SIZES) == [[960, 480], [64, 32], [8, 4]]
    assert columns_of(log, "wait_time", "run_time") == [[10, 12], [8, 70]]


def test_durations_that_count_from_submission_in_any_table(tmp_path):
    text = "submit,start,end,runtime_seconds,cpus\n0,10,110,110,4\n5,25,55,50,8\n"
    log = read_workload(written(tmp_path, text))
    assert log.run_time.tolist() == [100, 30]
    assert (
        "2 jobs of which runtime_seconds is the time since submission: they ran end - start"
        in log.header["Import"]
    )


HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1411,uX,vcJ,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
1412,uV,vcb,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:37,2020-06-09 18:45:46,249,10
1413,uX,vcJ,0,48,2,TIMEOUT,2020-06-09 18:41:28,2020-06-09 18:43:28,2020-06-09 18:44:28,60,120
"""


def test_helios(tmp_path):
    log = read_workload(written(tmp_path, HELIOS, "cluster_log.csv"))
    assert columns_of(log, *SIZES) == [[1, 16, 48], [1, 4, 0], [1, 1, 2]]
    assert columns_of(log, "wait_time", "run_time", "job_id") == [
        [0, 10, 120],
        [36848, 249, 60],
        [1411, 1412, 1413],
    ]
    assert log.names["partition"] == {1: "vcJ", 2: "vcb"}
    assert "queue" not in log.columns


def moments(*texts):
    return pa.array(np.array(texts, "datetime64[us]"), pa.timestamp("us", "UTC"))


PM100 = {
    "cores_alloc_layout": ["{'5': [0, 1]}", "{'6': [0], '7': [0]}", "{'8': [2]}"],
    "cores_allocated": ["{'5': 128}", "{'6': 128, '7': 128}", "{'8': 4}"],
    "cores_per_task": [128, 32, 4],
    "eligible_time": moments("2020-05-05T10:00:00", "2020-05-05T10:10:00", "2020-05-05T10:20:00"),
    "end_time": moments("2020-05-05T11:00:30", "2020-05-05T10:40:00", "2020-05-06T10:20:00"),
    "group_id": [21, 21, 22],
    "job_id": [901, 902, 903],
    "job_state": ["COMPLETED", "FAILED", "TIMEOUT"],
    "nodes": ["[5]", "[6, 7]", "[8]"],
    "num_cores_req": [128, 256, 4],
    "num_cores_alloc": [128, 256, 4],
    "num_gpus_req": [4, 8, 0],
    "num_gpus_alloc": [4, 8, 0],
    "num_nodes_req": [1, 2, 1],
    "num_nodes_alloc": [1, 2, 1],
    "mem_req": [237568, 475136, 8000],
    "partition": ["1", "1", "2"],
    "priority": [100, 90, 80],
    "qos": ["0", "0", "1"],
    "run_time": [3600, 1700, 86400],
    "start_time": moments("2020-05-05T10:00:30", "2020-05-05T10:11:40", "2020-05-05T10:20:00"),
    "submit_time": moments("2020-05-05T10:00:00", "2020-05-05T10:10:00", "2020-05-05T10:20:00"),
    "time_limit": [1440, 60, 1440],
    "user_id": [7, 8, 7],
    "node_power_consumption": [[100.0] * 50, [], None],
}


def test_pm100(tmp_path):
    pq.write_table(pa.table(PM100), tmp_path / "job_table.parquet")
    log = read_workload(tmp_path / "job_table.parquet")
    assert columns_of(log, *SIZES) == [[128, 256, 4], [4, 8, 0], [1, 2, 1]]
    assert columns_of(log, "wait_time", "run_time") == [[30, 100, 0], [3600, 1700, 86400]]
    assert columns_of(log, "requested_time", "user", "group") == [
        [86400, 3600, 86400],
        [7, 8, 7],
        [21, 21, 22],
    ]
    assert states_of(log) == ["COMPLETED", "FAILED", "TIMEOUT"]


FDATA = {
    "jid": ["job_11", "job_12", "job_13"],
    "usr": ["user_5", "user_5", "user_6"],
    "jnam": ["jobname_1", "jobname_1", "jobname_2"],
    "jobenv_req": ["jobenv_req_0"] * 3,
    "adt": ["2021-04-01 10:28:01+09", "2021-04-01 10:29:01+09", "2021-04-01 10:30:01+09"],
    "qdt": ["2021-04-01 10:28:02+09", "2021-04-01 10:29:02+09", "2021-04-01 10:30:02+09"],
    "sdt": ["2021-04-01 10:28:31+09", "2021-04-01 10:29:11+09", "2021-04-01 11:30:01+09"],
    "edt": ["2021-04-01 10:38:31+09", "2021-04-01 10:29:41+09", "2021-04-01 13:30:01+09"],
    "duration": [600, 30, 7200],
    "elpl": [3600, 1800, 7200],
    "cnumr": [48, 576, 18432],
    "cnumat": [48, 576, 18432],
    "cnumut": [48, 570, 18432],
    "nnumr": [1, 12, 384],
    "nnuma": [1, 12, 384],
    "nnumu": [1, 12, 384],
    "mszl": [30064771072, 9223372036854775807, 30064771072],
    "pri": [127, 127, 100],
    "exit state": ["completed", "failed", "completed"],
    "pclass": ["memory-bound", "compute-bound", None],
}


def test_fdata(tmp_path):
    pq.write_table(pa.table(FDATA), tmp_path / "21_04.parquet")
    log = read_workload(tmp_path / "21_04.parquet")
    assert columns_of(log, *SIZES) == [[48, 576, 18432], [-1] * 3, [1, 12, 384]]
    assert columns_of(log, "wait_time", "run_time", "requested_time") == [
        [30, 10, 3600],
        [600, 30, 7200],
        [3600, 1800, 7200],
    ]
    assert states_of(log) == ["COMPLETED", "FAILED", "COMPLETED"]
    assert log.names["user"] == {1: "user_5", 2: "user_6"}
    assert columns_of(log, "job_id", "status") == [[11, 12, 13], [1, 0, 1]]


SUPERCLOUD = """id_job,id_array_job,id_array_task,id_user,nodes_alloc,nodelist,cpus_req,gres_used,constraints,flags,\
mem_req,partition,priority,state,timelimit,time_submit,time_eligible,time_start,time_end,time_suspended,tres_alloc,\
tres_req,job_type
501,0,4294967294,81,1,"['n1']",40,gpu:volta:2,xeon-g6,8,1,normal,10,3,1440,1612300000,1612300001,1612300060,1612303660,0,\
"1=40,2=340000,4=1,5=40,1002=2","1=40,2=340000,4=1,5=40,1002=2",LLSUB:BATCH
502,0,4294967294,82,2,"['n2', 'n3']",4,,xeon-p8,8,1,normal,20,4,525600,1612300100,1612300100,1612300200,1612300300,0,\
"1=96,2=16000,4=2,5=96","1=4,2=16000,4=1,5=4",OTHER
503,0,4294967294,81,0,"[]",8,,xeon-p8,8,1,normal,30,4,4294967295,1612300200,1612300200,0,1612300500,0,,\
"1=8,2=32000,4=1,5=8",OTHER
"""


def test_mit_supercloud(tmp_path):
    log = read_workload(written(tmp_path, SUPERCLOUD, "slurm-log.csv"))
    assert columns_of(log, "requested_processors", "allocated_processors") == [[40, 96, 8], [40, 96, -1]]
    assert columns_of(log, "requested_gpus", "allocated_gpus") == [[2, 0, 0], [2, 0, -1]]
    assert columns_of(log, "allocated_nodes", "user") == [[1, 2, -1], [81, 82, 81]]
    assert columns_of(log, "run_time", "wait_time") == [[3600, 100, -1], [60, 100, 300]]
    assert columns_of(log, "requested_time") == [[86400, 525600 * 60, -1]]
    assert states_of(log) == ["COMPLETED", "CANCELLED", "CANCELLED"]
    assert log.column("requested_memory").tolist()[0] == 340000 * 1024 / 40
    assert set(log.names["gpu_type"].values()) == {"volta"}
    assert read_workload(tmp_path / "slurm-log.csv", requested=True).processors.tolist() == [40, 4, 8]


def test_the_job_table_of_slurmdbd(tmp_path):
    # Resources from 1001 on have the numbers of the site: 1001 may count all GPUs and 1002 those of one kind.
    text = SUPERCLOUD.replace(",job_type", "").replace(",LLSUB:BATCH", "").replace(",OTHER", "")
    again = text.splitlines()[1].replace(",3,1440,", ",1,1440,").replace("1612303660", "0")
    log = read_workload(written(tmp_path, f"{text}{again}\n"))
    assert columns_of(log, "requested_processors", "run_time") == [[40, 96, 8], [3600, 100, -1]]
    assert log.column("requested_gpus").tolist() == [-1, 0, 0]
    assert any(
        "1 jobs have resources that only the site's database names" in note for note in log.header["Import"]
    )
    assert "1 records of jobs that are there already" in log.header["Import"]


SPOT = """job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
239255,13,A10,20.0,1.0,1,0,2764799,HP
437260,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot
437261,57,A100-SXM4-80GB,15,0.5,94,9589663,71718,Spot
"""


def test_alibaba_spot(tmp_path):
    log = read_workload(written(tmp_path, SPOT, "job_info_df.csv"))
    assert columns_of(log, *SIZES) == [[20, 240, 1410], [1, 16, 94], [-1] * 3]
    assert columns_of(log, "submit_time", "run_time", "job_id") == [
        [0, 9589663, 9589663],
        [2764799, 41060, 71718],
        [239255, 437260, 437261],
    ]
    assert log.names["qos"] == {1: "HP", 2: "Spot"}
    assert log.names["gpu_type"] == {1: "A10", 2: "A100-SXM4-80GB"}
    assert log.column("account").tolist() == [13, 57, 57]


PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0017,88000,327680,8,1000,,Burstable,Succeeded,9437497,10769854.0,9437497.0
openb-pod-0022,4500,15258,1,220,,BE,Running,9679175,9973826,9679275
openb-pod-0035,16000,32768,1,1000,V100M16|V100M32,LS,Failed,9967058,9968575,9967063
openb-pod-0036,16000,32768,1,1000,,LS,Pending,9967060,9968575,
"""


def test_alibaba_2023(tmp_path):
    log = read_workload(written(tmp_path, PODS))
    assert columns_of(log, "requested_processors", "requested_gpus", "gpu_share") == [
        [88, 5, 16, 16],
        [8, 1, 1, 1],
        [1000, 220, 1000, 1000],
    ]
    assert columns_of(log, "run_time", "wait_time") == [[1332357, 294551, 1512, -1], [0, 100, 5, 1515]]
    assert states_of(log) == ["COMPLETED", "RUNNING", "FAILED", "PENDING"]


PAI = """job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type
4f057009a5d481acec67b088,tensorflow,1.0,Terminated,1739162.0,1739200.0,600.0,29.296875,50.0,MISC
4f057009a5d481acec67b089,worker,20.0,Failed,1739172.0,1739272.0,650.0,29.296875,100.0,V100
4f057009a5d481acec67b08a,ps,2.0,Terminated,1739182.0,1739190.0,400.0,9.0,,
"""


def test_alibaba_2020(tmp_path):
    log = read_workload(written(tmp_path, PAI, "pai_task_table.csv"))
    assert columns_of(log, "requested_processors", "requested_gpus") == [[6, 140, 8], [1, 20, -1]]
    assert columns_of(log, "submit_time", "run_time", "wait_time") == [
        [1739162, 1739172, 1739182],
        [38, 100, 8],
        [0, 0, 0],
    ]
    assert states_of(log) == ["COMPLETED", "FAILED", "COMPLETED"]
    waiting = "4f057009a5d481acec67b08b,worker,1.0,Waiting,,,600.0,29.296875,100.0,T4\n"
    log = read_workload(written(tmp_path, PAI + waiting, "pai_task_table.csv"))
    assert log.processors.tolist() == [6, 140, 8]
    assert "1 rows without a start, which stands for the submission" in log.header["Import"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (PAI.splitlines()[1], "cat pai_task_table.header pai_task_table.csv"),
        (
            "4f057009a5d481acec67b088,af724763f4f5d0beef4458494f057009a5d481,d2d3b77d342e,Terminated,1.0,2.0",
            "pai_task_table",
        ),
        (
            "4f057009a5d481acec67b088,worker,0d39aa867a79c16eff67daa8f6248f09,54dbcd2db28784,e387,Failed,1.0,2.0,471d",
            "pai_task_table",
        ),
    ],
)
def test_tables_of_2020_without_their_header_are_refused_by_name(tmp_path, row, words):
    with pytest.raises(WorkloadError) as refused:
        read_workload(written(tmp_path, f"{row}\n{row}\n"))
    assert words in refused.value.hint


def test_opendc_and_wta(tmp_path):
    tasks = {
        "id": [1, 2, 3],
        "submission_time": [1704067200000, 1704067260000, 1704067320000],
        "duration": [3600000, 60500, 1000],
        "cpu_count": [1, 8, 16],
        "cpu_capacity": [2600.0, 2600.0, 2600.0],
        "mem_capacity": [100000, 200000, 300000],
        "parents": pa.array([[], [1], [1, 2]], pa.list_(pa.int32())),
        "children": pa.array([[2, 3], [3], []], pa.list_(pa.int32())),
    }
    pq.write_table(pa.table(tasks), tmp_path / "tasks.parquet")
    log = read_workload(tmp_path / "tasks.parquet")
    assert columns_of(log, "submit_time", "run_time", "requested_processors") == [
        [0, 60, 120],
        [3600, 60, 1],
        [1, 8, 16],
    ]
    assert log.contents.facts["dependencies"] == 2
    first = "id,start_time,stop_time,cpu_count,cpu_capacity,mem_capacity\n"
    log = read_workload(written(tmp_path, first + "vm7,1376314846000,1376318446000,4,2926.0,16000\n"))
    assert columns_of(log, "run_time", "requested_processors") == [[3600], [4]]
    second = "id,submissionTime,endTime,maxCores,requiredMemory\n"
    log = read_workload(written(tmp_path, second + "vm7,1376314846000,1376318446000,4,16000\n"))
    assert columns_of(log, "run_time", "requested_processors") == [[3600], [4]]
    wta = (
        "id,ts_submit,runtime,resource_amount_requested,parents,user_id,group_id,workflow_id,wait_time,type\n"
    )
    log = read_workload(
        written(tmp_path, wta + "1,1000,60000,2.0,,5,6,9,4000,map\n2,3000,90000,1.5,,5,6,9,2000,map\n")
    )
    assert columns_of(
        log, "submit_time", "run_time", "wait_time", "requested_processors", "user", "group"
    ) == [
        [1, 3],
        [60, 90],
        [4, 2],
        [2, 2],
        [5, 5],
        [6, 6],
    ]


def attempt(start, end, *gpus):
    return {
        "start_time": start,
        "end_time": end,
        "detail": [{"ip": f"m{i}", "gpus": [f"gpu{g}" for g in range(many)]} for i, many in enumerate(gpus)],
    }


PHILLY = [
    {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1506638472019_14199",
        "attempts": [
            attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8),
            attempt("2017-10-07 01:13:30", "2017-10-07 03:13:23", 8, 8),
        ],
        "submitted_time": "2017-10-07 01:11:39",
        "user": "ce2f4c",
    },
    {
        "status": "Killed",
        "vc": "ee9e8d",
        "jobid": "application_1506638472019_14200",
        "attempts": [],
        "submitted_time": "2017-10-07 01:12:39",
        "user": "ce2f4d",
    },
    {
        "status": "Failed",
        "vc": "ee9e8c",
        "jobid": "application_1506638472019_14201",
        "attempts": [attempt("2017-10-07 01:13:00", "2017-10-07 01:14:00", 1)],
        "submitted_time": "2017-10-07 01:12:40",
        "user": "ce2f4c",
    },
]


@pytest.mark.parametrize("name", ["cluster_job_log", "log.json"])
def test_philly(tmp_path, name):
    log = read_workload(written(tmp_path, json.dumps(PHILLY, indent=4), name))
    assert columns_of(log, "requested_processors", "requested_gpus") == [[16, 1, 1], [16, -1, 1]]
    assert columns_of(log, "submit_time", "wait_time", "run_time") == [
        [0, 60, 61],
        [30, -1, 20],
        [7274, -1, 60],
    ]
    assert columns_of(log, "job_id") == [[14199, 14200, 14201]]
    assert states_of(log) == ["COMPLETED", "CANCELLED", "FAILED"]
    assert log.names["partition"] == {1: "ee9e8c", 2: "ee9e8d"}
    notes = " ".join(log.header["Import"])
    assert "1 jobs of several attempts: they ran from the start of the first to the end of the last" in notes


def test_attempts_without_gpus_are_refused(tmp_path):
    faulty = [{**PHILLY[0], "attempts": [{"detail": [{"ip": "m1"}]}]}]
    with pytest.raises(WorkloadError, match="attempts without a list of GPUs"):
        read_workload(written(tmp_path, json.dumps(faulty), "log.json"))


def test_halves_of_characters_are_no_reason_to_stop(tmp_path):
    log = read_workload(written(tmp_path, json.dumps([{**PHILLY[0], "user": "\ud800x"}]), "log.json"))
    assert log.names["user"] == {1: "?x"}


def without(text, *columns):
    names, *rows = [line.split(",") for line in text.splitlines()]
    kept = [position for position, name in enumerate(names) if name not in columns]
    return "".join(",".join(row[position] for position in kept) + "\n" for row in (names, *rows))


@pytest.mark.parametrize(
    ("text", "columns", "processors"),
    [
        (SEREN, ("gpu_time", "type", "state"), [128, 256, 4]),
        (SEREN, ("queue", "user"), [128, 256, 4]),
        (SEREN, ("start_time", "end_time"), [128, 256, 4]),
        (HELIOS, ("start_time", "state"), [1, 16, 48]),
        (
            SPOT.replace("duration", "run_time").replace("submit_time", "arrival"),
            ("gpu_model",),
            [20, 240, 1410],
        ),
        (SEREN, ("cpu_num", "gpu_time"), [8, 16, 1]),
        (HELIOS, ("vc", "cpu_num", "gpu_num"), [1, 1, 2]),
        (SPOT, ("organization", "job_type"), [20, 240, 1410]),
        (PODS, ("name", "qos", "gpu_spec"), [88, 5, 16, 16]),
    ],
)
def test_tables_with_fewer_columns_have_their_sizes(tmp_path, text, columns, processors):
    log = read_workload(written(tmp_path, without(text, *columns)))
    if columns[0] == "cpu_num":
        processors = [max(each, 1) for each in log.column("requested_nodes").tolist()]
    assert log.processors.tolist() == processors
    # A column called queue that is the wait becomes no queue.
    assert "queue" not in log.columns


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (without(HELIOS, "cpu_num", "gpu_num", "node_num"), "how many processors"),
        (without(SPOT, "worker_num").replace("gpu_request", "gpus_of_a_worker").replace("cpu_request", "cores_asked"),
         "cores_asked"),
        (without(PAI, "inst_num"), "no column says when jobs were submitted"),
        (without(SPOT, "duration"), "how long jobs ran"),
    ],
)  # fmt: skip
def test_tables_without_sizes_or_times_are_refused(tmp_path, text, words):
    with pytest.raises(WorkloadError, match=words):
        read_workload(written(tmp_path, text))


def test_every_kind_is_found_by_its_own_columns():
    for kind in table_kinds().values():
        if kind.has:
            assert kind_of(sorted(kind.has)).name == kind.name


@pytest.mark.parametrize(
    ("text", "seconds"), [("1 h 30 min", 5400), ("2h", 7200), ("1d 5m", 86_700), ("1500 ms 1s", 2)]
)
def test_durations_may_be_spelt_with_units(text: str, seconds: int) -> None:
    assert _duration_seconds(text) == seconds
