"""Sites as administrators have them: each file's reading by hand, and the schedule that follows from it."""

from __future__ import annotations

import pytest

from gridtune.errors import WorkloadError
from gridtune.slurm.configuration import read_cluster

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
