"""Tables with a job a row, whatever their columns are called; PBS's accounting; slurm.conf."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gridtune.errors import WorkloadError
from gridtune.workload import read_workload
from gridtune.workload.files import read_dumps
from gridtune.workload.slurm import read_slurm_accounts, read_slurm_conf


def written(tmp_path, name, text):
    path = Path(tmp_path, name)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_line_above_the_names_of_columns_is_named(tmp_path):
    path = written(tmp_path, "jobs.csv", "Our jobs\nsubmit,start,end,cpus\n1,2,3,4\n")
    with pytest.raises(WorkloadError, match=r":2: expected 1 values, but found 4") as refused:
        read_workload(path)
    assert refused.value.hint == "line 1, 'Our jobs', must name the columns, without lines above it"


def test_columns_of_ones_own(tmp_path):
    table = "Submitted;Cores;Wall;Owner\n2024-05-01 10:00:00;4;00:10:00;ann\n"
    table += "2024-05-01 10:05:00;8;2-01:00:00;bob\n"
    path = written(tmp_path, "jobs.csv", table)
    log = read_workload(path, columns="submit=Submitted,processors=Cores,elapsed=Wall,user=Owner")
    np.testing.assert_array_equal(log.submit_time, [0, 300])
    np.testing.assert_array_equal(log.run_time, [600, 2 * 86_400 + 3600])
    np.testing.assert_array_equal(log.processors, [4, 8])
    assert log.names["user"] == {1: "ann", 2: "bob"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("submit=Submited", "no column 'Submited'"),
        ("sent=Submitted", "'sent' is nothing a job table holds"),
        ("Submitted", "'Submitted' does not name a column"),
    ],
)
def test_a_wrong_choice_of_columns_is_named(tmp_path, columns, message):
    path = written(tmp_path, "jobs.csv", "Submitted,Cores\n2024-05-01 10:00:00,4\n")
    with pytest.raises(WorkloadError, match=message):
        read_workload(path, columns=columns)


def test_a_row_of_another_length_is_named(tmp_path):
    path = written(tmp_path, "jobs.csv", 'submit,duration,user\n2024-05-01 10:00:00,5,"a\nb"\n2024-05-01,5\n')
    with pytest.raises(WorkloadError, match=r"jobs\.csv:4: expected 3 values, but found 2"):
        read_workload(path)


def test_a_misspelt_size_is_no_column_to_pass_over(tmp_path):
    path = written(tmp_path, "no_run_time.csv", "submit,cpus\n1,2\n")
    with pytest.raises(WorkloadError, match=r"LOG\?columns=elapsed=NAME"):
        read_workload(path)
    path = written(tmp_path, "own.csv", "submit_time,run_time,requestd_procesors\n1,2,3\n")
    with pytest.raises(WorkloadError, match="requestd_procesors may"):
        read_workload(path)
    assert read_workload(path, processors_per_job=1).processors.tolist() == [1]


def test_a_job_and_a_limit_may_have_these_names_and_a_unit(tmp_path):
    for name, limit in (("limit", 7200), ("limit (h)", 2), ("limit_minutes", 120), ("limit_min", 120)):
        path = written(tmp_path, "jobs.csv", f"job,submit,duration,cpus,{name}\n7,1,2,3,{limit}\n")
        log = read_workload(path)
        assert (log.job_id.tolist(), log.requested_time.tolist()) == ([7], [7200]), name


def test_columns_that_are_not_read_are_listed(tmp_path):
    path = written(tmp_path, "jobs.csv", "submit,duration,elapsed,cpus,priority,colour\n1,2,9,3,4,red\n")
    header = read_workload(path).header
    assert "2 columns are not read (traces import --unread lists them)" in header["Import"]
    assert header["Unread columns"] == ("duration", "colour")


def test_a_row_of_two_tables_is_one_job(tmp_path):
    head = "job_id,submit,duration,cpus\n"
    may = written(tmp_path, "may.csv", f"{head}1,10,5,2\n2,10,5,2\n2,10,5,2\n")
    june = written(tmp_path, "june.csv", f"{head}2,10,5,2\n2,20,5,2\n3,30,5,2\n")
    log = read_dumps([may, june])
    assert log.job_id.tolist() == [1, 2, 2, 2, 3]
    # Tasks of an array may share their id and all else, so rows of one file are jobs.
    assert log.header["Import"] == (
        "1 rows are equal to another one in every column: each counts as a job",
        "1 records of jobs that are there already",
    )


def test_a_wait_beside_other_times_is_named(tmp_path):
    path = written(tmp_path, "jobs.csv", "submit,start,duration,wait,cpus\n10,20,5,10,2\n10,99,5,9999,2\n")
    log = read_workload(path)
    assert log.wait_time.tolist() == [10, 89]
    assert log.header["Import"] == (
        "1 jobs waited another time than start - submit: they have start - submit",
    )


def test_parquet_with_dates(tmp_path):
    seconds = pa.array([1_700_000_000, 1_700_000_060])
    table = pa.table(
        {
            "submit": seconds.cast(pa.timestamp("s")).cast(pa.timestamp("ns")),
            "nodes": pa.array([3, 5]),
            "runtime": pa.array([7_000_000, 9_000_000]).cast(pa.duration("us")),
        }
    )
    pq.write_table(table, tmp_path / "jobs.parquet")
    log = read_workload(tmp_path / "jobs.parquet")
    np.testing.assert_array_equal(log.submit_time, [0, 60])
    np.testing.assert_array_equal(log.run_time, [7, 9])
    np.testing.assert_array_equal(log.processors, [3, 5])
    assert log.header["Import"] == ("2 jobs of at least one processor each: the log counts nodes",)


def test_thousandths_of_processors_and_gpu_shares(tmp_path):
    text = "name,cpu_milli,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"
    text += "a,1500,1,460,V100,0,90,30\nb,250,0,0,,10,,\n"
    log = read_workload(written(tmp_path, "pods.csv", text))
    np.testing.assert_array_equal(log.processors, [2, 1])
    np.testing.assert_array_equal(log.run_time, [60, -1])
    np.testing.assert_array_equal(log.column("gpu_share"), [460, 0])
    assert log.names["gpu_type"] == {1: "V100"}


PBS = """04/01/2024 10:00:00;Q;17.head;queue=batch
04/01/2024 10:01:00;S;17.head;user=ann
04/01/2024 11:01:00;E;17.head;user=ann group=phys account="Big Project" jobname=a=b queue=batch \
ctime=1711965600 qtime=1711965601 etime=1711965600 start=1711965660 exec_host=n1/0*8+n2/0-7 \
Resource_List.nodes=2:ppn=8 Resource_List.walltime=02:00:00 Resource_List.mem=32gb session=9 end=1711969260 \
Exit_status=0 resources_used.walltime=01:00:00
04/01/2024 11:02:00;D;18.head;requestor=bob@head
04/01/2024 11:03:00;S;19.head;user=bob
04/01/2024 12:00:00;E;20.head;user=bob queue=long ctime=1711970000 start=1711970001 end=1711970011 \
Resource_List.ncpus=3 Exit_status=271 exec_host=n3/0*3
"""


def test_names_of_qacct_have_slots_and_cpu_seconds(tmp_path):
    path = tmp_path / "qacct.csv"
    path.write_text(
        "job_number,owner,qsub_time,start_time,end_time,ru_wallclock,slots,cpu,mem\n"
        "7,ann,1700000000,1700000100,1700000160,60,4,239.5,1.5\n"
        "8,bob,1700000050,1700000100,1700000200,100,2,199.1,1.5\n"
    )
    log = read_workload(path)
    np.testing.assert_array_equal(log.processors, [4, 2])
    np.testing.assert_array_equal(log.run_time, [60, 100])
    np.testing.assert_array_equal(log.wait_time, [100, 50])


def test_fractions_of_processors_are_counted(tmp_path):
    path = tmp_path / "shares.csv"
    path.write_text("submit,start,end,cpus\n0,0,9,1.5\n1,2,9,2.0\n2,3,9,0.25\n3,4,9,1.5K\n")
    log = read_workload(path)
    np.testing.assert_array_equal(log.processors, [2, 2, 1, 1500])
    assert "2 jobs with fractions in processors, rounded up" in log.contents.notes


def test_accounting_of_pbs(tmp_path):
    log = read_workload(written(tmp_path, "20240401", PBS))
    np.testing.assert_array_equal(log.job_id, [17, 20])
    np.testing.assert_array_equal(log.wait_time, [60, 1])
    np.testing.assert_array_equal(log.run_time, [3600, 10])
    np.testing.assert_array_equal(log.requested_time, [7200, -1])
    np.testing.assert_array_equal(log.processors, [16, 3])
    np.testing.assert_array_equal(log.column("requested_memory"), [2 * 2**20, -1])
    np.testing.assert_array_equal(log.column("status"), [1, 0])
    assert log.names["account"] == {1: "Big Project"}
    assert log.header["Import"] == ("1 jobs deleted before they started", "1 jobs that had not ended")


def test_a_line_that_is_no_record_of_pbs(tmp_path):
    with pytest.raises(WorkloadError, match=r"a\.pbs:2: is no record of PBS: 'nonsense'"):
        read_workload(written(tmp_path, "a.pbs", PBS.split("\n", 1)[0] + "\nnonsense\n"))


def test_a_long_word_takes_no_longer_than_as_many_letters(tmp_path):
    # By the square of its length, a million letters would take an hour.
    word = "A" * 1_000_000
    log = read_workload(written(tmp_path, "a.pbs", PBS.replace("jobname=a=b", f"jobname=a=b {word}")))
    np.testing.assert_array_equal(log.job_id, [17, 20])
    machine = read_slurm_conf(written(tmp_path, "slurm.conf", f"NodeName=n[1-2] CPUs=4 Feature={word}\n"))
    assert machine.size(machine.nodes, "processors") == 8
    with pytest.raises(WorkloadError, match=r"slurm.conf:1: 'A{40}' is no setting"):
        read_slurm_conf(written(tmp_path, "slurm.conf", f"NodeName=n[1-2] CPUs=4 {word}\n"))


def test_swf_with_more_fields(tmp_path):
    line = "{} 0 -1 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1 99 98 97\n"
    log = read_workload(written(tmp_path, "wide.swf", "; MaxProcs: 64\n" + line.format(1) + line.format(2)))
    np.testing.assert_array_equal(log.processors, [4, 4])
    assert "fields 19 to 21" in log.header["Import"][0]


def test_a_machine_of_slurm(tmp_path):
    text = """# a comment
NodeName=DEFAULT Sockets=2 CoresPerSocket=16 \\
  ThreadsPerCore=1
NodeName=n[001-010,12],login State=UNKNOWN
NodeName=g[1-2] CPUs=64 Gres=gpu:4
Include parts.conf
"""
    path = written(tmp_path, "slurm.conf", text)
    written(
        tmp_path,
        "parts.conf",
        "PartitionName=cpu Nodes=n[001-010],n12 MaxTime=1-0\nPartitionName=all Nodes=ALL\n",
    )
    machine = read_slurm_conf(path)
    sizes = {name: machine.size(nodes, "processors") for name, nodes in machine.nodes_of_partition.items()}
    assert sizes == {"cpu": 11 * 32, "all": 12 * 32 + 128}
    assert machine.size(machine.nodes, "processors") == 12 * 32 + 128
    written(tmp_path, "parts.conf", "PartitionName=cpu Nodes=x1\n")
    with pytest.raises(WorkloadError, match=r"parts\.conf:1, field Nodes: the partition has a node 'x1'"):
        read_slurm_conf(path)


def test_gpus_are_counted_by_the_node_or_by_gres_conf(tmp_path):
    text = """NodeName=n[1-2] CPUs=8
NodeName=a[1-2] CPUs=64 Gres=gpu:a100:4(S:0-1),license:7
NodeName=b[1-3] CPUs=32 Gres=gpu
PartitionName=cpu Nodes=n[1-2]
PartitionName=gpu Nodes=a[1-2],b[1-3]
"""
    path = written(tmp_path, "slurm.conf", text)
    assert read_slurm_conf(path).gpus == {"a100": 8, "": 3}
    gres = """AutoDetect=off
NodeName=b[1-2] Name=gpu Type=v100 File=/dev/nvidia[0-1]
NodeName=b3 Name=gpu Count=6
NodeName=a1 Name=gpu Type=a100 Count=2
Name=shard Count=9
"""
    written(tmp_path, "gres.conf", gres)
    machine = read_slurm_conf(path)
    assert machine.gpus == {"a100": 8, "v100": 4, "": 6}
    gpu = machine.nodes_of_partition["gpu"]
    assert [machine.size(gpu, unit) for unit in ("processors", "nodes", "GPUs")] == [224, 5, 18]
    with pytest.raises(WorkloadError, match=r"gres\.conf:1, field Count: 'six' is no number"):
        read_slurm_conf(path, written(tmp_path, "gres.conf", "Name=gpu Count=six\n"))
    with pytest.raises(WorkloadError, match=r"other\.conf:1, field Gres: 'many' is no number"):
        read_slurm_conf(written(tmp_path, "other.conf", "NodeName=n1 Gres=gpu:a100:many\n"))


def test_accounts_as_dumped_and_as_added(tmp_path):
    dump = """# To edit this file
Cluster - 'tux':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='physics':Organization='physics':Fairshare=40
Parent - 'physics'
Account - 'theory':Description='it is theory':Fairshare=parent
User - 'ann':DefaultAccount='theory':Fairshare=7
"""
    tree = read_slurm_accounts(written(tmp_path, "dump.cfg", dump))
    assert tree.parent_of == {"physics": "root", "theory": "physics"}
    assert tree.shares_of == {"physics": 40, "theory": 1}
    assert tree.users == {("root", "root"): 1, ("physics", "ann"): 7}
    script = """sacctmgr -i add account name=physics Fairshare=40
add qos name=fast Priority=3
add account theory parent=physics  # a comment
add user name=ann DefaultAccount=theory Fairshare=7
list associations
"""
    added = read_slurm_accounts(written(tmp_path, "script", script))
    assert (added.parent_of, added.shares_of) == (tree.parent_of, tree.shares_of)
    assert added.users == {("theory", "ann"): 7}
    with pytest.raises(WorkloadError, match=r"faulty:1, field Fairshare: 'much' is no number of shares"):
        read_slurm_accounts(written(tmp_path, "faulty", "add account x Fairshare=much\n"))
    with pytest.raises(WorkloadError, match="names no accounts"):
        read_slurm_accounts(written(tmp_path, "empty", "# nothing\n"))


def test_published_tables(trace_dir):
    folder = Path(trace_dir)
    assert len(read_workload(folder / "slurm" / "sacct" / "eagle-sample.csv")) == 1000
    assert len(read_workload(folder / "gpu" / "openb_pod_list_default.csv")) == 8152
    philly = read_workload(folder / "gpu" / "philly.csv.xz")
    assert philly.column("requested_gpus").max() == philly.processors.max()
    kestrel = read_workload(next((folder / "slurm").glob("kestrel*.parquet")))
    assert len(kestrel) == 81_290
    np.testing.assert_array_equal(kestrel.wait_time[:1], [4_413_886])
    machine = read_slurm_conf(folder / "slurm" / "ubccr-medium" / "slurm.conf")
    sizes = {name: machine.size(nodes, "processors") for name, nodes in machine.nodes_of_partition.items()}
    assert sizes == {"general-compute": 7904, "debug": 64}
    assert machine.gpus == {"tesla_v100-pcie-32gb": 16, "tesla_p100-pcie-16gb": 4}
    tree = read_slurm_accounts(folder / "slurm" / "ubccr-medium" / "sacctmgr.script")
    assert tree.shares_of["account001"] == 100
    assert len(tree.users) > 50
