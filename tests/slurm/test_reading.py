"""Sites as administrators have them: each file's reading by hand, and the schedule that follows from it."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import pytest

from gridtune.errors import WorkloadError
from gridtune.slurm import settings
from gridtune.slurm.cluster import Clocks
from gridtune.slurm.configuration import configuration_difference, read_cluster
from gridtune.slurm.kernel.arrays import Phases
from gridtune.slurm.replay import replay
from gridtune.slurm.requests import Request, requests_of
from gridtune.slurm.settings import _settings_of
from gridtune.workload.files import WorkloadReference
from tests.slurm.reference import reference_replay

NODES = "NodeName=n[1-2] CPUs=16 RealMemory=64000\n"
HEAD = "ClusterName=x\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
PARTITION = "PartitionName=normal Nodes=ALL Default=YES MaxTime=2:00:00\n"


def site(folder, text, **files):
    """Write a slurm.conf and files beside it."""
    (folder / "slurm.conf").write_text(text)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


@pytest.mark.parametrize(("name", "shares"), [("sacctmgr_assoc__txt", "Share"), ("sshare__txt", "RawShares")])
def test_blanks_before_accounts_are_their_tree(tmp_path, name, shares):
    rows = [
        "root|||1",
        " root|root||1",
        " divx|||60",
        "  labx|||20",
        "   labx|u1||1",
        "  laby|||5",
        " divy|||40",
    ]
    table = f"Account|User|Partition|{shares}\n" + "\n".join(rows) + "\n"
    accounts = read_cluster(site(tmp_path, HEAD + NODES + PARTITION, **{name: table})).accounts
    assert accounts.parent_of == {"divx": "root", "labx": "divx", "laby": "divx", "divy": "root"}
    assert accounts.shares_of == {"divx": 60, "labx": 20, "laby": 5, "divy": 40}
    assert accounts.users == {("root", "root"): 1, ("labx", "u1"): 1}


def test_a_column_of_parents_is_their_tree(tmp_path):
    table = "Account|User|Share|ParentName\nroot||1|\nlabx||20|divx\ndivx||60|root\nlabx|u1|1|\n"
    accounts = read_cluster(site(tmp_path, HEAD + NODES + PARTITION, sacctmgr_assoc__txt=table)).accounts
    assert accounts.parent_of == {"labx": "divx", "divx": "root"}


def test_sets_of_nodes_are_taken_apart(tmp_path):
    text = HEAD + NODES + "NodeName=b1 CPUs=8 Feature=big,fast\nNodeSet=small Nodes=n[1-2]\n"
    text += "NodeSet=large Feature=big\nPartitionName=a Nodes=small\nPartitionName=b Nodes=n1,large\n"
    partitions = read_cluster(site(tmp_path, text)).partitions
    assert (partitions["a"].nodes, partitions["b"].nodes) == ((1, 2), (0, 1))
    with pytest.raises(WorkloadError, match=r"slurm.conf:6.*the set has a node 'n3'"):
        read_cluster(site(tmp_path, text.replace("n[1-2]\nNodeSet", "n[1-9]\nNodeSet")))


def test_files_that_are_included_by_their_old_place_are_looked_for_beside(tmp_path):
    text = HEAD + 'Include /nowhere/slurm/nodes.conf\ninclude "parts.conf"\n'
    site(tmp_path, text, nodes__conf=NODES, parts__conf=PARTITION)
    assert read_cluster(tmp_path).partitions["normal"].nodes == (0, 1)
    (tmp_path / "nodes.conf").unlink()
    with pytest.raises(
        WorkloadError, match=r"slurm.conf:4.*includes /nowhere/slurm/nodes.conf, which is not"
    ):
        read_cluster(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("NodeName={{ name }} CPUs=4", r"slurm.conf:4: 'name }}' is no setting(.|\n)*template"),
        ("{% for node in nodes %}", r"slurm.conf:4: .*is no setting"),
        ("SlurmctldParameters=enable_configless, cloud_dns", r"slurm.conf:4: 'cloud_dns' is no setting"),
    ],
)
def test_a_line_that_is_no_setting_is_refused(tmp_path, line, message):
    with pytest.raises(WorkloadError, match=message):
        read_cluster(site(tmp_path, f"{HEAD}{line}\n{NODES}{PARTITION}"))


def test_blanks_around_signs_and_quotes_are_read(tmp_path):
    text = HEAD + 'KillWait = 7\nEpilog=\nNodeName=n[1-2] CPUs = 16 Reason="bad disk, a=b" RealMemory=64000\n'
    cluster = read_cluster(site(tmp_path, text + PARTITION))
    assert (cluster.kill_wait, cluster.cpus, cluster.nodes[0].memory) == (7, 32, 64000)


@pytest.mark.parametrize("state", ["FUTURE", "CLOUD", "DOWN", "drain"])
def test_nodes_out_of_service_have_no_jobs(tmp_path, state):
    text = HEAD + NODES + f"NodeName=f[1-7] CPUs=16 RealMemory=64000 State={state}\n" + PARTITION
    cluster = read_cluster(site(tmp_path, text))
    assert {cluster.nodes[number].name for number in cluster.partitions["normal"].nodes} == {"n1", "n2"}
    # Slurm counts nodes that are down, and not those that it does not know yet.
    assert cluster.cpus == 32 + (0 if state in {"FUTURE", "CLOUD"} else 7 * 16)
    with pytest.raises(WorkloadError, match=r"no node in service|no nodes"):
        read_cluster(site(tmp_path, text.replace(NODES, "")))


def test_nodes_of_a_cloud_are_in_service_where_something_starts_them(tmp_path):
    text = HEAD + "ResumeProgram=/bin/start\n" + NODES.replace("\n", " State=CLOUD\n") + PARTITION
    assert read_cluster(site(tmp_path, text)).partitions["normal"].nodes == (0, 1)


def test_nodes_that_a_line_declares_down_have_no_jobs(tmp_path):
    text = HEAD + NODES + "DownNodes=n2 State=DOWN Reason=broken\n" + PARTITION
    assert read_cluster(site(tmp_path, text)).partitions["normal"].nodes == (0,)


def same_as_twin(folder, jobs):
    """Return the starts of jobs, which the rules in plain Python give as well."""
    cluster = read_cluster(folder)
    starts = replay(cluster, jobs).start.tolist()
    twin = reference_replay(cluster, jobs, Phases())
    assert starts == [twin[k][0] for k in range(len(jobs))]
    return starts


SELECTION = {
    ("select/cons_tres", "CR_Core_Memory"): 2,
    ("select/cons_tres", "CR_Core"): 4,
    ("select/cons_res", "CR_CPU,CR_CORE_DEFAULT_DIST_BLOCK"): 4,
    ("select/cons_tres", "CR_CPU_Memory"): 2,
    ("select/linear", "CR_Memory"): 2,
    ("select/linear", "CR_ONE_TASK_PER_CORE"): 2,
}


@pytest.mark.parametrize(("select", "at_once"), SELECTION.items())
def test_jobs_share_what_the_selection_of_nodes_counts(tmp_path, select, at_once):
    text = f"SelectType={select[0]}\nSelectTypeParameters={select[1]}\n{NODES}{PARTITION}"
    jobs = [Request(k, 0, 600, 1200, partitions=("normal",), memory=40000) for k in range(4)]
    starts = same_as_twin(site(tmp_path, text), jobs)
    assert starts.count(min(starts)) == at_once
    # Of two small jobs on a node only whole nodes make one wait.
    small = [Request(k, 0, 600, 1200, partitions=("normal",), memory=10) for k in range(4)]
    starts = same_as_twin(tmp_path, small)
    assert starts.count(min(starts)) == (2 if "linear" in select[0] else 4)


def test_whole_nodes_are_the_default_until_23_11(tmp_path):
    site(tmp_path, NODES + PARTITION)
    assert read_cluster(tmp_path, version="22.05").partitions["normal"].exclusive
    assert not read_cluster(tmp_path, version="25.11").partitions["normal"].exclusive


def test_selections_that_are_not_modelled_are_named(tmp_path):
    text = HEAD.replace("CR_Core_Memory", "CR_Socket_Memory,CR_LLN,CR_Pack_Nodes,cr_other_linear,CR_LNL")
    cluster = read_cluster(site(tmp_path, text + NODES + PARTITION))
    assert cluster.memory_counts
    assert [line.partition("SelectTypeParameters=")[2] for line in cluster.not_modelled] == [
        *("CR_Socket_Memory", "cr_other_linear"),
        "CR_LNL (unknown; CR_LLN was meant?)",
    ]


#: Jobs of one task each that start at once on two nodes of 16 processors, by threads and selection.
THREADS = {("1", "CR_Core", 0): 32, ("2", "CR_Core", 0): 16, ("4", "CR_Core", 0): 8, ("2", "CR_CPU", 0): 32}
#: The same of jobs of two tasks: on one core, on two, and with `--hint=nomultithread`.
PAIRS = {("2", "CR_Core", 0): 16, ("2", "CR_Core,CR_ONE_TASK_PER_CORE", 0): 8, ("2", "CR_Core", 1): 8}


@pytest.mark.parametrize(
    ("tasks", "case", "at_once"),
    [
        *((1, case, count) for case, count in THREADS.items()),
        *((2, case, count) for case, count in PAIRS.items()),
    ],
)
def test_jobs_get_whole_cores(tmp_path, tasks, case, at_once):
    threads, select, used = case
    cores = f"Sockets=2 CoresPerSocket={8 // int(threads)} ThreadsPerCore={threads}"
    text = HEAD.replace("CR_Core_Memory", select) + NODES.replace("CPUs=16", f"CPUs=16 {cores}") + PARTITION
    jobs = [Request(k, 0, 600, 1200, partitions=("normal",), tasks=tasks, threads=used) for k in range(33)]
    starts = same_as_twin(site(tmp_path, text), jobs)
    assert starts.count(min(starts)) == at_once


def test_a_node_of_as_many_processors_as_cores_has_no_threads(tmp_path):
    cores = "CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"
    cluster = read_cluster(site(tmp_path, HEAD + NODES.replace("CPUs=16", cores) + PARTITION))
    assert [node.threads for node in cluster.nodes] == [1, 1]


LIMITED = "AccountingStorageEnforce=limits\n" + HEAD + NODES


@pytest.mark.parametrize(
    ("setting", "at_once"),
    [("", 3), ("QOS=part", 2), ("QOS=big", 4), ("QOS=part TRESBillingWeights=CPU=0.5", 2)],
)
def test_the_qos_of_a_partition_limits_its_jobs_before_their_own(tmp_path, setting, at_once):
    qos = (
        "Name|Priority|GrpTRES|Flags\nown|0|cpu=12|\npart|0|cpu=8|\nbig|0|cpu=18|\nover|0|cpu=4|OverPartQOS\n"
    )
    site(tmp_path, LIMITED + PARTITION.strip() + f" {setting}\n", sacctmgr_qos__txt=qos)
    jobs = [Request(k, 0, 600, 1200, partitions=("normal",), qos="own", tasks=4) for k in range(5)]
    starts = same_as_twin(tmp_path, jobs)
    assert starts.count(min(starts)) == at_once
    over = [replace(job, qos="over") for job in jobs]
    assert same_as_twin(tmp_path, over).count(min(starts)) == 1


def test_a_partition_of_an_unknown_qos_is_named(tmp_path):
    cluster = read_cluster(site(tmp_path, LIMITED + PARTITION.strip() + " QOS=gone\n"))
    assert any("QOS=gone" in line for line in cluster.not_modelled)


@pytest.mark.parametrize(("weights", "at_once"), [("", 3), ("CPU=2.0", 1), ("CPU=0.5,Mem=1G", 5)])
def test_limits_on_billing_count_by_the_weights_of_the_partition(tmp_path, weights, at_once):
    line = PARTITION.strip() + (f" TRESBillingWeights={weights}" if weights else "") + "\n"
    site(tmp_path, LIMITED + line, sacctmgr_qos__txt="Name|Priority|GrpTRES\nq|0|billing=12\n")
    jobs = [Request(k, 0, 600, 1200, partitions=("normal",), qos="q", tasks=4, memory=64) for k in range(5)]
    starts = same_as_twin(tmp_path, jobs)
    assert starts.count(min(starts)) == at_once


@pytest.mark.parametrize(("version", "lines"), [("24.11.5", 1), ("22.05", 2), ("24.11.5", 2)])
def test_nodes_that_a_limit_counts_already_are_taken_first(tmp_path, version, lines):
    # Of one record of Slurm's nodes those of the account are lighter; by 22.05 each line is a record.
    named = NODES if lines == 1 else "".join(NODES.replace("[1-2]", str(k)) for k in (1, 2))
    site(
        tmp_path,
        LIMITED.replace(NODES, named) + PARTITION,
        sacctmgr_qos__txt="Name|Priority|GrpTRES\nq|0|node=2\n",
    )
    cluster = read_cluster(tmp_path, version=version)
    first = Request(1, 0, 900, 1200, partitions=("normal",), qos="q", node_list=("n2",))
    other = replace(first, number=2, qos="", node_list=("n1",), tasks=8)
    jobs = [first, other, replace(first, number=3, submit=5, node_list=())]
    result = replay(cluster, jobs)
    # Else the fuller node is the tighter one.
    found = 0 if (version, lines) == ("22.05", 2) else 1
    assert [nodes.tolist() for nodes in result.nodes] == [[1], [0], [found]]
    assert reference_replay(cluster, jobs, Phases())[2][2] == (found,)


def test_a_table_of_accounts_that_may_be_nested_is_named(tmp_path):
    table = "Account|User|Share\nroot||1\ndivx||60\nlabx||20\nlabx|u1|1\n"
    (line,) = read_cluster(site(tmp_path, HEAD + NODES + PARTITION, sacctmgr_assoc__txt=table)).not_modelled
    assert line.startswith("sacctmgr_assoc.txt: accounts are taken as all below root: ")
    assert "sacctmgr show assoc tree -P" in line
    tree = table.replace("divx|", " divx|").replace("labx|", " labx|")
    assert not read_cluster(site(tmp_path, HEAD + NODES + PARTITION, sacctmgr_assoc__txt=tree)).not_modelled


@pytest.mark.parametrize(
    ("setting", "job", "admitted"),
    [
        ("State=DOWN", {}, False),
        ("State=INACTIVE", {}, False),
        ("State=UP", {}, True),
        ("MaxNodes=1", {}, True),
        ("MaxNodes=1", {"nodes": 2}, False),
        ("MaxNodes=UNLIMITED", {"nodes": 2}, True),
        ("MinNodes=2", {"most_nodes": 1}, False),
        ("MinNodes=2", {"nodes": 2}, True),
        ("AllowAccounts=A,b", {}, True),
        ("AllowAccounts=b", {}, False),
        ("AllowAccounts=ALL", {}, True),
        ("DenyAccounts=a", {}, False),
        ("DenyAccounts=b", {}, True),
        ("AllowAccounts=a DenyAccounts=a", {}, True),
        ("AllowQos=q,r", {}, True),
        ("AllowQos=r", {}, False),
        ("DenyQos=q", {}, False),
    ],
)
def test_partitions_take_the_jobs_that_they_admit(tmp_path, setting, job, admitted):
    text = HEAD + NODES + PARTITION.replace("\n", f" {setting}\n") + "PartitionName=other Nodes=n1\n"
    cluster = read_cluster(site(tmp_path, text))
    one = Request(1, 0, 60, 600, account="a", qos="q", partitions=("normal",), **job)
    if admitted:
        assert replay(cluster, [one]).start.tolist() == [0]
        return
    with pytest.raises(WorkloadError, match=r"job 1: no partition of normal.*(AllowQos|are down)"):
        replay(cluster, [one])
    both = replace(one, nodes=1, most_nodes=1, partitions=("normal", "other"))
    if one.most_nodes or one.nodes == 1:
        assert replay(cluster, [both]).partition == ("other",)
        same_as_twin(tmp_path, [both, replace(both, number=2)])


def test_accounts_below_an_allowed_one_are_allowed_since_23_02(tmp_path):
    text = HEAD + NODES + PARTITION.replace("\n", " AllowAccounts=divx\n")
    table = "Account|User|Share\nroot||1\n divx||60\n  labx||20\n   labx|u|1\n divy||5\n"
    site(tmp_path, text, sacctmgr_assoc__txt=table)
    for version, admitted in (("22.05", {"divx"}), ("25.11", {"divx", "labx"})):
        accounts = read_cluster(tmp_path, version=version).partitions["normal"].accounts
        assert {name for name in ("divx", "labx", "divy") if accounts.admits(name)} == admitted


def test_groups_and_drained_partitions_are_named(tmp_path):
    text = HEAD + NODES + PARTITION.replace("\n", " AllowGroups=staff State=DRAIN PriorityTeir=2\n")
    assert set(read_cluster(site(tmp_path, text)).not_modelled) == {
        "slurm.conf:5: allowgroups=staff",
        "slurm.conf:5: State=DRAIN",
        "slurm.conf:5: priorityteir=2 (unknown; PriorityTier was meant?)",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("PartitionName=normal PriorityTeir=2", r"'priorityteir' is no setting(.|\n)*mean 'PriorityTier'"),
        ("PriorityWieghtAge=2", r"is no setting(.|\n)*did you mean 'PriorityWeightAge'"),
        ("PartitionName=normal LLN=YES", r"LLN is not modelled, so nothing would change"),
        ("PartitionName=normal Hidden=YES", r"Hidden has no effect on starts: a log has the partition"),
        ("SelectTypeParameters=CR_Board", r"SelectTypeParameters=CR_Board is not modelled"),
        ("PriorityFlags=MAX_TRES", r"PriorityFlags=MAX_TRES is not modelled"),
        ("PartitionName=normal State=DRAIN", r"State=DRAIN is not modelled"),
        ("bf_busy_nodes", r"bf_busy_nodes is not modelled"),
        ("bf_max_time=9", r"bf_max_time has no effect on starts: a pass takes no time"),
        ("SlurmctldPort=9", r"SlurmctldPort has no effect on starts: names, addresses"),
        ("NodeSet=x Nodes=n1", r"lines of nodeset cannot be changed(.|\n)*--to"),
        ("NodeName=n9 Weight=2", r"no line has the node 'n9'(.|\n)*CPUs=32"),
        ("NodeName=n1 Weigth=2", r"'weigth' is no setting(.|\n)*mean 'Weight'"),
        ("MaxTime=10", r"'MaxTime' is no setting of the cluster(.|\n)*PartitionName=… MaxTime=…"),
        ("RealMemory=10", r"'RealMemory' is no setting of the cluster(.|\n)*NodeName=… RealMemory=…"),
    ],
)
def test_a_change_of_nothing_is_refused(tmp_path, change, message):
    text = HEAD + "PriorityType=priority/multifactor\n"
    with pytest.raises(WorkloadError, match=message):
        read_cluster(site(tmp_path, text + NODES + PARTITION), [change])


def test_changes_of_what_is_modelled_change_the_cluster(tmp_path):
    site(tmp_path, HEAD + NODES + PARTITION)
    down = read_cluster(tmp_path, ["PartitionName=normal MaxNodes=2", "SelectType=select/linear"])
    assert (down.partitions["normal"].max_nodes, down.partitions["normal"].exclusive) == (2, True)
    with pytest.raises(WorkloadError, match="no node in service"):
        read_cluster(tmp_path, ["PartitionName=normal State=DOWN"])


def test_nodes_are_added_changed_and_put_out_of_service(tmp_path):
    text = HEAD + "NodeName=n[01-06] CPUs=8 RealMemory=900\nPartitionName=all Nodes=n[01-06]\n"
    changes = [
        "NodeName=n[05-08] CPUs=16",
        "NodeName=n[02,04] State=DOWN",
        "NodeName=x,y[9-11] CPUs=4",
        "PartitionName=all Nodes=n[01-08],x,y[9-11] MaxTime=60",
    ]
    site(tmp_path, text)
    with pytest.raises(WorkloadError, match=r"no partition has the node 'n07'(.|\n)*Nodes=…,n07"):
        read_cluster(tmp_path, changes[:1])
    cluster = read_cluster(tmp_path, changes)
    cpus = {node.name: node.cpus for node in cluster.nodes}
    able = [cluster.nodes[number].name for number in cluster.partitions["all"].nodes]
    assert cpus == (
        {f"n0{k}": 8 if k < 5 else 16 for k in range(1, 9)} | dict.fromkeys(("x", "y9", "y10", "y11"), 4)
    )
    assert able == ["n01", "n03", "n05", "n06", "n07", "n08", "x", "y9", "y10", "y11"]
    assert cluster.partitions["all"].max_time == 3600
    assert {node.memory for node in cluster.nodes if node.name in {"n05", "n07"}} == {900, 1}
    assert configuration_difference(tmp_path, tmp_path, changes) == [
        "-NodeName=n[01-06] CPUs=8 RealMemory=900",
        "-PartitionName=all Nodes=n[01-06]",
        "+NodeName=n01,n03 CPUs=8 RealMemory=900",
        "+NodeName=n02,n04 CPUs=8 RealMemory=900 State=DOWN",
        "+NodeName=n05,n06 CPUs=16 RealMemory=900",
        "+NodeName=n07,n08 CPUs=16",
        "+NodeName=x,y9,y10,y11 CPUs=4",
        "+PartitionName=all Nodes=n[01-08],x,y[9-11] MaxTime=60",
    ]


def test_new_nodes_need_a_switch_where_switches_count(tmp_path):
    text = HEAD + "TopologyPlugin=topology/tree\n" + NODES + PARTITION
    site(tmp_path, text, topology__conf="SwitchName=s Nodes=n[1-2]\n")
    changes = ["NodeName=n9 CPUs=8", "PartitionName=normal Nodes=ALL"]
    with pytest.raises(WorkloadError, match=r"no switch has the node 'n9'(.|\n)*--to"):
        read_cluster(tmp_path, changes)


def test_the_table_has_every_clock_and_each_setting_once():
    names = {name for name, one in _settings_of("SchedulerParameters").items() if one.part == "modelled"}
    preempt = {"preempt_reorder_count", "preempt_strict_order", "preempt_youngest_first"}
    assert names - preempt - {"max_job_bf"} == {one.name for one in fields(Clocks)}
    text = (Path(settings.__file__).parent / "settings.toml").read_text()
    for kind, content in tomllib.loads(text).items():
        parts = [part if isinstance(part, str) else " ".join(part.values()) for part in content.values()]
        twice = [name for name, count in Counter(" ".join(parts).lower().split()).items() if count > 1]
        assert not twice, kind


SACCT = (
    "JobIDRaw|JobID|User|Account|Partition|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|AllocCPUS|ReqCPUS|"
)
SACCT += "ReqMem|ReqTRES|AllocTRES|State|Constraints\n"
GPUS = (
    HEAD
    + NODES.replace("\n", " Feature=knl,new\n")
    + (
        "NodeName=g1 CPUs=16 RealMemory=64000 Gres=gpu:a100:2 Feature=haswell\n"
        "NodeName=g2 CPUs=16 RealMemory=256000 Gres=gpu:t4:4 Feature=knl\n"
    )
)


def requested(folder, asked, got, memory="1000M", constraints="", nodes=1):
    """Return the request of a job of a dump, and what is said of it."""
    times = "2026-01-05T00:00:00|2026-01-05T00:00:01|2026-01-05T00:30:01|1800|60"
    row = f"1|1|u|a|normal|{times}|{nodes}|4|4|{memory}|{asked}|{got}|COMPLETED|{constraints}\n"
    (folder / "sacct.txt").write_text(SACCT + row)
    workload = WorkloadReference.parse(str(folder / "sacct.txt")).read()
    requests, _, *counts = requests_of(workload, read_cluster(site(folder, GPUS + PARTITION)))
    return (requests[0] if requests else None), *counts, " ".join(workload.header.get("Import", ()))


def test_a_job_that_got_gpus_unasked_has_its_nodes_to_itself(tmp_path):
    one, *_ = requested(tmp_path, "cpu=4,mem=8000M,node=1", "cpu=4,gres/gpu=2,mem=8000M,node=1")
    assert (one.exclusive, one.gpus) == (True, 0)
    one, *_ = requested(tmp_path, "cpu=4,gres/gpu=2,node=1", "cpu=4,gres/gpu=2,node=1")
    assert (one.exclusive, one.gpus) == (False, 2)
    # Where no column says what was asked for, it is what was given.
    one, *_ = requested(tmp_path, "", "cpu=4,gres/gpu=2,node=1")
    assert (one.exclusive, one.gpus) == (False, 2)


def test_all_memory_of_a_node_is_that_of_the_node_given(tmp_path):
    asked, got = "cpu=4,mem=256000M,node=1", "cpu=4,mem=64000M,node=1"
    one, *_, notes = requested(tmp_path, asked, got, "256000M")
    assert one.memory == 64000
    assert "1 jobs got less memory than they asked for (all of a node, --mem=0)" in notes


LINES = {
    "sbatch -w n[1-2] -N 2 run.sh": {"node_list": ("n1", "n2"), "memory": 1000},
    "sbatch --nodelist n2 --exclude=n1,gone run.sh": {"node_list": ("n2",), "exclude": ("n1",)},
    "srun -xn1 -L m:2 --mem=0 a.out": {"exclude": ("n1",), "licences": ("m:2",), "memory": -1},
    "sbatch --exclusive --contiguous --mem 4G run.sh": {
        "exclusive": True,
        "contiguous": True,
        "memory": 2000,
    },
    "sbatch --switches=2@1:30 --spread-job run.sh": {"switches": 2, "switch_wait": 90, "spread": True},
    "sbatch -t 2:00:00 --time-min=30 --deadline=now+3hours run.sh": {
        "time_limit": 7200,
        "time_min": 1800,
        "deadline": 3 * 3600,
    },
    "sbatch --time=90 --deadline=2024-01-02T00:00 run.sh": {"time_limit": 3600, "deadline": 0},
    "sbatch --exclusive=user --nodelist=n9 -L k run.sh": {"node_list": (), "licences": ()},
    "sbatch --nodelist=n[1- run.sh": {"node_list": ()},
}


@pytest.mark.parametrize(("line", "fields"), LINES.items())
def test_options_of_the_command_line_are_asked_for(tmp_path, line, fields):
    one, _, counts = logged(tmp_path, HEAD + "Licenses=m:3\n" + NODES, 2 if "-N 2" in line else 1, line)
    default = {"exclusive": False, "contiguous": False, "node_list": (), "exclude": (), "licences": ()}
    wanted = default | {"memory": 2000} | fields
    assert {name: getattr(one, name) for name in wanted} == wanted
    assert bool(counts) == any(text in line for text in ("n9", "gone", "[1- ", "2024-"))


def test_all_threads_of_a_core_that_runs_one_task_are_allocated(tmp_path):
    text = HEAD.replace("CR_Core_Memory", "CR_Core,CR_ONE_TASK_PER_CORE")
    cores = NODES.replace("CPUs=16", "CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2")
    one, cluster, _ = logged(tmp_path, text + cores, 1, "")
    assert (one.tasks, one.cpus_per_task) == (2, 2)
    assert replay(cluster, [one]).cpus[0].tolist() == [4]


def logged(folder, text, nodes, line):
    """Return the request of a job of four processors, with its command line, its cluster, and counts."""
    head = (
        "JobID|User|Submit|Start|End|Elapsed|Timelimit|Partition|AllocCPUS|AllocNodes|ReqMem|State|SubmitLine"
    )
    times = "2024-01-01T00:00:00|2024-01-01T00:00:05|2024-01-01T00:10:05|00:10:00|01:00:00"
    log = folder / "sacct.txt"
    log.write_text(f"{head}\n7|u|{times}|normal|4|{nodes}|2000M|COMPLETED|{line}\n")
    cluster = read_cluster(site(folder, text + PARTITION))
    (one,), _, _, counts = requests_of(WorkloadReference.parse(str(log)).read(), cluster)
    return one, cluster, counts


def test_types_of_gpus_are_asked_for(tmp_path):
    tres = "cpu=4,gres/gpu=1,gres/gpu:{}=1,mem=4000M,node=1"
    one, _, counts, _ = requested(tmp_path, tres.format("t4"), tres.format("t4"))
    assert (one.gpu_type, one.gpus, counts) == ("t4", 1, {})
    one, _, counts, _ = requested(tmp_path, tres.format("h100"), tres.format("h100"))
    assert (one.gpu_type, counts) == ("", {"with GPUs of a type that no node has, taken as any: h100": 1})


@pytest.mark.parametrize(
    ("wish", "nodes", "there"),
    [
        ("knl", 1, "n1 n2 g2"),
        ("haswell|new", 1, "n1 n2 g1"),
        ("knl&new", 1, "n1 n2"),
        ("[haswell|new]", 1, "n1 n2 g1"),
        ("(haswell|knl)&gone", 1, ""),
        ("knl&new|haswell", 1, "n1 n2 g1"),
        ("gone|knl&new", 1, "n1 n2"),
        ("knl&(haswell|new)", 1, "n1 n2"),
        ("[haswell|new]", 2, "n1 n2 g1"),
        ("new*1&haswell*1", 2, "n1 n2 g1"),
    ],
)
def test_wishes_for_features_are_understood(tmp_path, wish, nodes, there):
    tres = f"cpu=4,mem=1000M,node={nodes}"
    one, left_out, changed, _ = requested(tmp_path, tres, tres, constraints=wish, nodes=nodes)
    cluster = read_cluster(tmp_path)
    if not there:
        assert left_out == {"more than the cluster could ever hold": 1}
        return
    suiting = [node.name for node in cluster.nodes if one.suits(node, cluster.partitions["normal"])]
    assert sorted(suiting) == sorted(there.split())
    # A multi-node wish for nodes alike, or for so many of a kind, is not all that it says.
    assert any("taken node by node" in reason for reason in changed) == (nodes > 1)
