"""What is read of a slurm.conf, and what is said of the rest."""

from __future__ import annotations

import pytest

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import UNLIMITED, Outage, PreemptClass, Qos
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.limits import Limit

CONF = """\
SchedulerType=sched/backfill
SelectType=select/cons_tres
SchedulerParameters=bf_interval=60,bf_busy_nodes,max_script_size=9
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityMaxAge=0-5
PriorityDecayHalfLife=7-0
PriorityCalcPeriod=5
TopologyPlugin=topology/tree
PreemptType=preempt/qos
AccountingStorageEnforce=limits,qos
SlurmctldPort=6817
NodeName=DEFAULT CPUs=8 RealMemory=1000
NodeName=n[1-10] Weight=2
NodeName=g1 Gres=gpu:a100:2 Feature=big,fast
PartitionName=all Nodes=ALL MaxTime=1-0:0:0 DefMemPerCPU=100 Default=YES
PartitionName=few Nodes=n[9-10] PriorityTier=3 PriorityJobFactor=7 OverSubscribe=EXCLUSIVE GraceTime=9
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "topology.conf").write_text("SwitchName=a Nodes=n[1-8],gone\nSwitchName=b Nodes=n[9-10],g1\n")
    qos = "Name|Priority|Preempt|MaxJobsPU|MaxWall|MaxTRES\nnormal|0||||\nhigh|7|normal|2|1-0|cpu=9\n"
    (tmp_path / "sacctmgr_qos.txt").write_text(qos)
    return tmp_path


def test_a_cluster_is_read(folder):
    cluster = read_cluster(folder)
    assert [node.name for node in cluster.nodes] == ["g1", *(f"n{k}" for k in range(1, 11))]
    assert cluster.cpus == 88
    assert cluster.nodes[0].gpus == {"a100": 2}
    assert cluster.nodes[0].features == {"big", "fast"}
    assert cluster.leaves == (tuple(range(1, 9)), (0, 9, 10))
    few = cluster.partitions["few"]
    assert (few.nodes, few.tier, few.factor, few.exclusive, few.max_time) == ((9, 10), 3, 7, True, UNLIMITED)
    assert cluster.partitions["all"].max_time == 86400
    assert cluster.clocks.bf_interval == 60
    assert (cluster.priorities.max_age, cluster.priorities.half_life, cluster.priorities.period) == (
        18000,
        604800,
        300,
    )
    assert cluster.qos["high"].priority == 7
    assert cluster.limits == (
        Limit("jobs", 2, qos="high", each="user"),
        Limit("cpu", 9, qos="high", each="job"),
    )


def test_what_is_not_simulated_is_listed_with_its_line(folder):
    assert read_cluster(folder).not_modelled == (
        "sacctmgr_qos.txt:3: MaxWall=1-0",
        "limits that AccountingStorageEnforce sets: no sacctmgr_assoc.txt; run `sacctmgr show assoc tree -P "
        "> sacctmgr_assoc.txt` in the folder of slurm.conf",
        "slurm.conf:3: SchedulerParameters=bf_busy_nodes",
    )


def test_who_makes_room_for_whom_is_read(folder):
    (folder / "slurm.conf").write_text(CONF + "PreemptMode=REQUEUE\nPreemptExemptTime=5\nJobRequeue=0\n")
    cluster = read_cluster(folder)
    assert not cluster.requeue
    assert cluster.preemption.by == "qos"
    assert cluster.preemption.pause == 40
    assert cluster.preemption.classes == {
        "normal": PreemptClass(0, "requeue", 0, 300),
        "high": PreemptClass(7, "requeue", 0, 300, frozenset({"normal"})),
    }
    by_partition = read_cluster(
        folder, ["PreemptType=preempt/partition_prio", "PreemptMode=CANCEL"]
    ).preemption
    assert by_partition.classes["few"] == PreemptClass(3, "cancel", 9, 300, frozenset({"all"}))


def test_jobs_are_suspended_by_partition(folder):
    changes = ["PreemptType=preempt/partition_prio", "PreemptMode=SUSPEND,GANG"]
    (folder / "slurm.conf").write_text(CONF + "SchedulerTimeSlice=60\n")
    cluster = read_cluster(folder, [*changes, "PartitionName=few OverSubscribe=FORCE:1"])
    assert cluster.preemption.classes["few"] == PreemptClass(3, "suspend", 9, 0, frozenset({"all"}))
    # One job at a time shares nothing; four do.
    assert cluster.not_modelled == read_cluster(folder).not_modelled
    (folder / "slurm.conf").write_text(CONF.replace("OverSubscribe=EXCLUSIVE", "OverSubscribe=FORCE:4"))
    assert "slurm.conf:17: OverSubscribe=FORCE:4" in read_cluster(folder, changes).not_modelled
    (folder / "slurm.conf").write_text(CONF)
    # A job of an exclusive partition has its nodes for itself.
    assert read_cluster(folder, changes).preemption.classes["few"].preempts == frozenset()


def test_partitions_that_share_processors_without_suspension_are_named(folder):
    (folder / "slurm.conf").write_text(CONF.replace("OverSubscribe=EXCLUSIVE", "OverSubscribe=FORCE:1"))
    change = ["PreemptMode=SUSPEND,GANG", "PreemptType=preempt/partition_prio"]
    note = "slurm.conf:17: OverSubscribe=FORCE:1"
    assert note not in read_cluster(folder, [*change, "PartitionName=few PriorityTier=1"]).not_modelled
    assert note in read_cluster(folder).not_modelled


def test_reservations_and_node_events_are_read(folder):
    (folder / "slurm.conf").write_text(CONF)
    names = [node.name for node in read_cluster(folder).nodes]
    (folder / "scontrol_show_res.txt").write_text(
        f"ReservationName=r1 StartTime=1970-01-02T00:00:00 EndTime=1970-01-02T00:01:00\n"
        f"   Nodes={names[0]} Users=x\n\n"
        "ReservationName=r2 StartTime=1970-01-03T00:00:00 EndTime=1970-01-03T00:01:00\n   Nodes=(null)\n"
    )
    (folder / "sacctmgr_show_event.txt").write_text(
        f"Cluster|NodeName|TimeStart|TimeEnd|State\nc||1970-01-01T00:00:00|Unknown|DOWN\n"
        f"c|{names[1]}|1970-01-02T00:00:05|1970-01-02T00:00:09|DRAIN\n"
    )
    cluster = read_cluster(folder)
    assert cluster.outages == (
        Outage(86400, 86460, (0,), planned=True),
        Outage(172800, 172860, (), planned=True),
        Outage(86405, 86409, (1,)),
    )
    assert any("scontrol_show_res.txt:1: reservation r1" in text for text in cluster.not_modelled)
    (folder / "sacctmgr_show_event.txt").write_text("NodeName|TimeStart|TimeEnd\nx|soon|Unknown\n")
    with pytest.raises(WorkloadError, match=r"event.txt.*2(.|\n)*'soon' is no time"):
        read_cluster(folder)


def test_billing_weights_and_usage_factors_are_read(folder):
    weights = 'TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=4"'
    (folder / "slurm.conf").write_text(CONF.replace("OverSubscribe=EXCLUSIVE", weights))
    (folder / "sacctmgr_qos.txt").write_text("Name|Priority|UsageFactor\nnormal|0|1.0\nhot|7|3.000000\n")
    cluster = read_cluster(folder)
    assert cluster.partitions["few"].billing == {"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 4.0}
    assert cluster.qos["hot"] == Qos("hot", 7, 3.0)


def test_shares_of_the_parent_are_named_and_dynamic_nodes_refused(folder):
    (folder / "slurm.conf").write_text(CONF)
    (folder / "sacctmgr_assoc.txt").write_text("Account|User|Share\nroot||1\n a||3\n a|u|parent\n")
    assert "sacctmgr_assoc.txt:4: Share=parent of u: taken as 1" in read_cluster(folder).not_modelled
    (folder / "slurm.conf").write_text("ClusterName=x\nMaxNodeCount=20\nPartitionName=p Nodes=ALL\n")
    with pytest.raises(WorkloadError, match=r"slurm.conf.*2(.|\n)*MaxNodeCount(.|\n)*all nodes are dynamic"):
        read_cluster(folder)


def test_licences_are_read(folder):
    (folder / "slurm.conf").write_text(CONF + "Licenses=m:3,n,k*2\n")
    assert read_cluster(folder).licences == {"m": 3, "n": 1, "k": 2}


def test_sockets_are_read(folder):
    def sockets(line, *changes):
        (folder / "slurm.conf").write_text(CONF + f"NodeName=s1 {line}\n")
        cluster = read_cluster(folder, changes)
        return cluster.nodes[-1].sockets, cluster.socket_by_socket

    assert sockets("Sockets=2 CoresPerSocket=6 ThreadsPerCore=2") == (2, False)
    assert sockets("Boards=2 SocketsPerBoard=2 CoresPerSocket=3") == (4, False)
    assert sockets("CPUs=12 CoresPerSocket=6", "SelectTypeParameters=CR_CPU_Memory") == (2, True)
    block = "SelectTypeParameters=CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK"
    assert sockets("CPUs=12 CoresPerSocket=3", block) == (4, True)


def test_jobs_are_suspended_by_qos_across_tiers_alone_and_that_is_said(folder):
    cluster = read_cluster(folder, ["PreemptMode=SUSPEND,GANG"])
    assert cluster.preemption.classes["normal"].mode == "suspend"
    assert any("PreemptMode=SUSPEND within a partition" in line for line in cluster.not_modelled)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        (["PreemptMode=SUSPEND"], "^change PreemptMode=SUSPEND"),
        (["PreemptMode=REQUEUE", "PartitionName=few PreemptMode=suspend"], "^change PartitionName=few"),
    ],
)
def test_suspension_without_gang_is_refused(folder, changes, place):
    with pytest.raises(
        WorkloadError, match=rf"{place}(.|\n)*SUSPEND needs GANG(.|\n)*PreemptMode=SUSPEND,GANG"
    ):
        read_cluster(folder, ["PreemptType=preempt/partition_prio", *changes])


def test_limits_on_minutes_and_sizes_are_listed_with_their_lines(folder):
    names = ("GrpTRESMins", "MaxWall", "MaxTRESPerNode", "MinTRES", "GrpWall")
    run = ("GrpTRESRunMins", "MaxTRESRunMinsPU", "MaxTRESMins")
    head = "|".join(("Name", "Priority", *names, *run))
    rows = [head, "normal|0|cpu=5|cpu=4|cpu=3|cpu=2|9|cpu=60,gres/tape=7|gres/gpu=9|node=8", "high|7||||||||"]
    (folder / "sacctmgr_qos.txt").write_text("\n".join(rows))
    cluster = read_cluster(folder, ["PreemptType=preempt/none"])
    lines = cluster.not_modelled
    assert [limit for limit in cluster.limits if limit.qos == "normal"] == [
        Limit("cpu minutes", 60, qos="normal"),
        Limit("gres/gpu minutes", 9, qos="normal", each="user"),
        Limit("node minutes", 8, qos="normal", each="job"),
    ]
    assert any(line.endswith("GrpTRESRunMins=gres/tape=7") for line in lines)
    values = ("cpu=5", "cpu=4", "cpu=3", "cpu=2", "9")
    assert {f"sacctmgr_qos.txt:2: {name}={v}" for name, v in zip(names, values, strict=True)} <= {*lines}


def test_changes_take_the_place_of_what_is_written(folder):
    cluster = read_cluster(
        folder, ["bf_interval=120", "PriorityWeightAge=5", "PartitionName=few PriorityTier=1"]
    )
    assert cluster.clocks.bf_interval == 120
    assert cluster.priorities.age == 5
    assert cluster.partitions["few"].tier == 1
    assert cluster.partitions["few"].factor == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("bf_intervall=3", "did you mean 'bf_interval'"),
        ("PartitionName=nix PriorityTier=1", "no partition 'nix'"),
        ("bf_interval=soon", "no whole number"),
        ("bf_interval", "is no setting"),
        ("bf_interval=0", "0 is no interval"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(folder, change, message):
    with pytest.raises(WorkloadError, match=message):
        read_cluster(folder, [change])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("PartitionName=x Nodes=n[1-11]", "slurm.conf:18.*'n11', which no line describes"),
        ("PartitionName=x", r"slurm.conf:18.*'x' has no nodes(.|\n)*name its nodes"),
        ("PriorityMaxAge=soon", "'soon' is no time"),
        ("KillWait=-1", "slurm.conf:18.*no whole number"),
        ("NodeName=z RealMemory=much", "RealMemory"),
        ("Include gone.conf", r"slurm.conf:18.*gone.conf, which is not there(.|\n)*take the line out"),
        ("Include slurm.conf", r"slurm.conf:18.*which includes it(.|\n)*Include lines out"),
        ("Include parts.conf", r"parts.conf:2.*which includes it"),
    ],
)
def test_a_fault_names_its_line(folder, line, message):
    (folder / "slurm.conf").write_text(CONF + line + "\n")
    (folder / "parts.conf").write_text(f"# parts\nInclude ../{folder.name}/slurm.conf\n")
    with pytest.raises(WorkloadError, match=message):
        read_cluster(folder)


def test_switches_that_no_file_describes_are_refused(folder):
    (folder / "topology.conf").unlink()
    with pytest.raises(
        WorkloadError, match=r"slurm.conf:9, field TopologyPlugin.*topology.conf(.|\n)*beside"
    ):
        read_cluster(folder)


def test_a_release_without_rules_is_refused(folder):
    with pytest.raises(WorkloadError, match="no rules for Slurm"):
        read_cluster(folder, version="1.0")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("low|0|none|2||", r"sacctmgr_qos.txt:4.*no QOS 'none' to preempt(.|\n)*there are high, low, normal"),
        ("low|much||||", r"sacctmgr_qos.txt:4.*Priority.*'much' is no whole number"),
        ("low|0|no", r"sacctmgr_qos.txt:4.*has 3 of 6 columns: the file is cut off(.|\n)*sacctmgr"),
        ("low|0||-2||", r"sacctmgr_qos.txt:4.*'-2' is no limit(.|\n)*sacctmgr"),
    ],
)
def test_a_fault_in_a_list_of_sacctmgr_names_its_line(folder, row, message):
    path = folder / "sacctmgr_qos.txt"
    path.write_text(path.read_text() + row + "\n")
    with pytest.raises(WorkloadError, match=message):
        read_cluster(folder)
