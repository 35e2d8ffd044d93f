"""Valid inputs of every reader, small enough that a mutation hits something."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.systems.responsive.learners.networks import ReservoirArrays
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.systems.responsive.learners.training import QPolicy
from gridtune.workload import write_workload
from tests.cli.folders import finished_sweep
from tests.workload.accounting.test_sacct import NAMES, job
from tests.workload.accounting.test_tables import PBS
from tests.workload.sample_logs import make_workload
from tests.workload.workflows.test_reading import DAX, PEGASUS, new_wfformat, old_wfformat

__all__ = [
    "ACCOUNTS",
    "COMMANDS",
    "CSV",
    "EXPRESSIONS",
    "GRES_CONF",
    "PBS",
    "PLATFORM",
    "SACCT",
    "SETTINGS",
    "SLURM_CONF",
    "SPACES",
    "WORKFLOWS",
    "archive",
    "arrays",
    "journal_records",
    "logs",
    "packed_table",
    "swept_folder",
    "table",
]

SACCT = "\n".join(
    [
        NAMES,
        job(17),
        job("17.batch"),
        job("18_[1-3%2]", State="PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00"),
        job(19, State="CANCELLED by 17", ReqMem="4Gc", Timelimit="UNLIMITED", NodeList="None assigned"),
        job(20, State="TIMEOUT", ReqTRES="billing=8,cpu=8,gres/gpu=2,mem=16000M,node=1", JobName="a|b"),
    ]
)
CSV = (
    "submit_time,run_time,requested_processors,user\n0,10,1,3\n5,10.0,2,-1\n",
    "Submitted;Cores;Wall;Owner\n2024-05-01 10:00:00;4;00:10:00;ann\n2024-05-01 10:05:00;8;2-01:00:00;bob\n",
    'submit,duration,user,cpus\n2024-05-01T10:00:00Z,5,"a\nb",4\n1714557600,5.5,c,2\n',
    "JobID|submit|start|end|cpus\n1|1714557600|1714557601|1714557602|3\n2|1714557605|1714557605|1714557606|1\n",
)
SLURM_CONF = """# a comment
ClusterName=c
NodeName=DEFAULT Sockets=2 CoresPerSocket=16 \\
  ThreadsPerCore=1
NodeName=n[001-010,12],login State=UNKNOWN
NodeName=g[1-2] CPUs=64 Gres=gpu:4
PartitionName=cpu Nodes=n[001-010],n12 MaxTime=1-0 Default=YES
PartitionName=all Nodes=ALL
"""
GRES_CONF = """AutoDetect=off
NodeName=g[1-2] Name=gpu Type=v100 File=/dev/nvidia[0-3]
Name=gpu Count=2
"""
ACCOUNTS = (
    """Cluster - 'tux':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'physics':Description='it is':Fairshare=40
Parent - 'physics'
User - 'ann':DefaultAccount='physics':Fairshare=7
""",
    "sacctmgr -i add account name=physics Fairshare=40\nadd user ann DefaultAccount=physics\n",
)
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="AS0" routing="Full">
<host id="master_host" speed="100.0Mf"/>
<host id="node1" speed="1.0Mf, 1.0Mf, 0.1Mf, 0.1Mf" core="12">
 <prop id="watt_per_state" value="95.0:190.0, 9.0:9.0, 100.0:101.0, 120.0:125.0"/>
 <prop id="sleep_pstates" value="1:2:3"/></host>
<cluster id="c" prefix="n" suffix="" radical="0-3,7" speed="1.0Mf, 1.0Mf, 0.1Mf, 0.1Mf" core="12">
 <prop id="watt_per_state" value="95.0:190.0, 9.0:9.0, 100.0:101.0, 120.0:125.0"/>
 <prop id="sleep_pstates" value="1:2:3"/></cluster>
</zone></platform>
"""

#: Jobs of Philly's log, with two attempts and with none.
PHILLY = [
    {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1_14",
        "attempts": [
            {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23", "detail": []},
            {
                "start_time": "2017-10-07 01:13:30",
                "end_time": "2017-10-09 06:53:12",
                "detail": [{"ip": "m412", "gpus": ["gpu0", "gpu1"]}],
            },
        ],
        "submitted_time": "2017-10-07 01:11:39",
        "user": "ce2f4c",
    },
    {"status": "Killed", "vc": "a", "jobid": "b_2", "attempts": [], "submitted_time": "2017-10-07 01:12:00"},
]

WORKFLOWS = {
    "dax": DAX,
    "json": json.dumps(new_wfformat(), indent=1),
    "old.json": json.dumps(old_wfformat(), indent=1),
    "yml": PEGASUS,
}
EXPRESSIONS = (
    "log(walltime) + 0.3 * processors - 2 * wait / walltime",
    "max(wait, 3) ** 2 < sqrt(abs(-processors))",
    "min(log2(wait + 1), exp(-processors)) / (1 > wait)",
)
SPACES: tuple[dict[str, Any], ...] = (
    {
        "name": "small",
        "fixed": {"trace": "tiny.swf", "processors": 8},
        "dimensions": {
            "order": ["fcfs", "sjf", "log(walltime) * processors"],
            "backfill": {"grid": ["none", "easy"]},
            "walltime": ["log", "noise"],
            "noise": {"uniform": [0.1, 0.5], "when": {"walltime": "noise"}},
        },
        "strategy": {"random": {"samples": 3, "seed": 1}},
        "replicates": {"seeds": 2},
        "objective": ["bounded_slowdown_mean", {"metric": "wait_mean", "direction": "min"}],
        "baseline": {"order": "fcfs"},
        "timeout": 30,
        "resources": {"workers": 2, "cpus": 1},
    },
    {
        "name": "windows",
        "workloads": [
            {"trace": "tiny.swf", "processors": 8, "label": "a"},
            {"trace": "tiny.swf", "load": 1.5, "label": "b"},
        ],
        "dimensions": {"order": {"choice": ["fcfs", "saf"]}, "first": {"integer": [1, 2]}},
        "strategy": {"optuna": {"trials": 4, "sampler": "tpe", "seed": 1, "parallel": 2}},
        "replicates": {"windows": 2},
        "objective": "wait_mean",
    },
    {
        "name": "trees",
        "system": "batch",
        "description": "x",
        "fixed": {"trace": "tiny.swf"},
        "dimensions": {
            "order": {"expression": {"terminals": ["wait", "walltime"], "operators": ["+", "*"], "depth": 2}}
        },
        "strategy": {"sobol": {"samples": 4}},
        "replicates": {"shakes": 2, "amount": 10},
        "objective": "wait_mean",
    },
    {
        "name": "rules",
        "system": "shutdown",
        "fixed": {"trace": "taurus_days", "first": 3},
        "dimensions": {"policy": ["timeout"], "timeout": [0, 5]},
        "objective": "wait_mean",
    },
)
SETTINGS = (
    "order=sjf",
    "order=[fcfs, sjf]",
    "replicates.seeds=3",
    "baseline.order=saf",
    "noise=0.2",
    "x: 1=2",
)
#: Arguments of commands that start nothing and write nothing but below the working directory.
COMMANDS = (
    "simulate tiny.swf --processors 8 --order sjf --backfill easy --json",
    "simulate tiny.swf -p 8 --order wait*2 --walltime noise --noise 0.2 --first 2 --load 1.2 --no-kill",
    "run batch trace=tiny.swf processors=8 order=sjf --seed 3 --json",
    "run batch trace=tiny.swf window=1/2",
    "sweep small.yaml --dry-run --set order=sjf --workers 2 --json",
    "sweep small.yaml --dry-run --objective wait_mean --retry failed",
    "traces describe tiny.swf --json",
    "traces import dump.sacct imported.parquet --force --timezone Europe/Berlin --slurm-conf slurm.conf",
    "traces convert tiny.swf other.csv.gz --force",
    "traces generate poisson made.swf jobs=5 load=0.5 seed=1 --force",
    "traces list --json",
    "init tiny.swf --name mine --processors 8 --force",
    "list orders",
    "list systems batch",
    "status swept --json",
    "results export swept --rank 1 --force",
    "help completion bash",
    "--version",
)


def logs(folder: Path, *names: str) -> tuple[bytes, ...]:
    """Return a small workload in the format of each name."""
    workload = make_workload(
        submit_time=[0, 5, 60, 60],
        run_time=[10, 0, 3600, 7],
        requested_time=[20, 60, 7200, -1],
        requested_processors=[1, 4, 8, 2],
        user=[1, 2, -1, 1],
    )
    workload = replace(workload, machine_processors=8)
    for name in names:
        write_workload(workload, folder / name)
    return tuple((folder / name).read_bytes() for name in names)


def archive(members: dict[str, bytes], *, mode: str = "w:gz") -> bytes:
    """Return a tar archive."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def table() -> pa.Table:
    """Return a table of jobs as others write them."""
    return pa.table(
        {
            "submit_time": pa.array([0, 1_000_000_000, 2_000_000_000], pa.timestamp("ms")),
            "run_time": [1, 2, 3],
            "cpus": [4, 5, 6],
            "user": ["a", "b", None],
        }
    )


def packed_table(content: pa.Table) -> bytes:
    """Return a table as a Parquet file."""
    file = io.BytesIO()
    pq.write_table(content, file)
    return file.getvalue()


def swept_folder(folder: Path) -> Path:
    """Return the folder of a small sweep that has been run; its files are beside the traces."""
    (folder / "tiny.swf").write_bytes(logs(folder, "tiny.swf")[0])
    space = {**SPACES[0], "strategy": {"grid": {}}, "dimensions": {"order": ["fcfs", "sjf"]}, "name": "swept"}
    space["fixed"] = {"trace": str(folder / "tiny.swf"), "processors": 8}
    return finished_sweep(folder / "swept", space)


def journal_records(folder: Path) -> list[Any]:
    """Return the lines of a journal as values, with proposals among them."""
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_bytes().splitlines()]
    for record in records:
        record.pop("check", None)
    return [*records[:1], {"proposal": {"number": 0, "point": {"x": 0.5}, "trial": [1, None]}}, *records[1:]]


def arrays(folder: Path) -> bytes:
    """Return a file of learned values."""
    count = len(ReservoirArrays._fields)
    policy = QPolicy(ReservoirArrays(*[np.zeros((1, 2))] * count), LearnerSettings(), 1, False, 0.5)
    policy.save(folder / "policy.npz")
    return (folder / "policy.npz").read_bytes()
