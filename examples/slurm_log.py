"""Make the files an operator has, of a cluster made up here: slurm.conf, sacct, squeue, associations.

    python examples/slurm_log.py FOLDER [--set SchedulerType=sched/backfill] [--jobs 3600]

Jobs come from a seeded generator and are scheduled by gridtune's own replay of Slurm's passes. One node in
ten is out of service, which no file says. `--set` writes what would have been recorded under another setting.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

import numpy as np

from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.replay import Phases, replay
from gridtune.slurm.requests import Request
from gridtune.slurm.study import Effective

CONF = """\
ClusterName=example
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=5000
PriorityWeightJobSize=2000
PriorityWeightPartition=1000
PriorityMaxAge=1-0
SchedulerParameters=bf_interval=30,bf_max_job_test=200
NodeName=n[01-20] CPUs=16 RealMemory=64000
PartitionName=normal Nodes=n[01-20] Default=YES MaxTime=12:00:00
PartitionName=debug Nodes=n[01-20] MaxTime=00:30:00 PriorityJobFactor=4
"""
RELEASE = "22.05.8"
BEGIN = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)
USERS = {"ada": "physics", "ben": "physics", "cem": "biology", "dora": "biology", "eli": "chemistry"}
#: Seconds between two submissions, on average.
BETWEEN = 560
#: The instant at which squeue is run: hours from the beginning.
SQUEUE_AT = 256


def requests(count: int) -> list[Request]:
    """Return jobs of five users with habits: sizes, limits, and the share of a limit that they use."""
    rng = np.random.default_rng(7)
    submit = np.sort(rng.integers(0, BETWEEN * count, count)).tolist()
    habits = {user: (rng.uniform(0.1, 0.6), rng.uniform(0.4, 1.6)) for user in USERS}
    jobs = []
    for number, instant in enumerate(submit, start=1001):
        user = str(rng.choice(list(USERS)))
        share, size = habits[user]
        cpus = int(rng.choice([1, 4, 16, 16, 32, 64, 128], p=[0.2, 0.2, 0.2, 0.15, 0.12, 0.1, 0.03]))
        debug = cpus <= 16 and rng.random() < 0.2
        hours = 0.5 if debug else float(rng.choice([1, 2, 4, 8, 12]))
        used = min(1.0, share * rng.lognormal(0, 0.6))
        nodes = -(-cpus // 16)
        jobs.append(
            Request(
                number,
                instant,
                max(10, int(3600 * hours * used * min(1.0, size))),
                int(3600 * hours),
                user,
                USERS[user],
                ("debug" if debug else "normal",),
                "normal",
                cpus,
                cpus // nodes,
                nodes=nodes,
                most_nodes=nodes,
            )
        )
    return jobs


def moment(seconds: int) -> str:
    """Write an instant as Slurm does."""
    return f"{BEGIN + datetime.timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"


def elapsed(seconds: int) -> str:
    """Write a duration as Slurm does."""
    return f"{seconds // 86_400}-{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def associations() -> str:
    """Write accounts and users, of one share each, as `sacctmgr show assoc tree -P` does."""
    lines = ["Cluster|Account|User|Partition|Share", "example|root|||1"]
    for account in dict.fromkeys(USERS.values()):
        lines.append(f"example| {account}|||1")
        lines += [f"example|  {account}|{user}||1" for user, own in USERS.items() if own == account]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="changes", help="another setting")
    parser.add_argument("--jobs", type=int, default=3600)
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "slurm.conf").write_text(CONF)
    (folder / "scontrol_show_config.txt").write_text(f"SLURM_VERSION = {RELEASE}\n")
    (folder / "sacctmgr_assoc.txt").write_text(associations())
    jobs = requests(arguments.jobs)
    cluster, jobs_there = Effective(nodes_in_service=0.9).applied(
        read_cluster(folder, arguments.changes, RELEASE), jobs
    )
    result = replay(cluster, jobs_there, Phases.draw(cluster, np.random.default_rng(11)))
    names = [node.name for node in cluster.nodes]
    sacct = ["JobID|User|Account|Partition|QOS|Submit|Start|End|State|AllocCPUS|ReqCPUS|AllocNodes|Timelimit"]
    squeue = [
        "JOBID|PARTITION|USER|ACCOUNT|QOS|STATE|SUBMIT_TIME|START_TIME|TIME|TIME_LIMIT|CPUS|NODES"
        "|MIN_MEMORY|TRES_PER_NODE|FEATURES|NODELIST|REASON"
    ]
    now = 3600 * SQUEUE_AT
    for job, start, end, nodes in zip(
        jobs, result.start.tolist(), result.end.tolist(), result.nodes, strict=True
    ):
        (partition,) = job.partitions
        limit = elapsed(job.time_limit)
        sacct.append(
            f"{job.number}|{job.user}|{job.account}|{partition}|normal|{moment(job.submit)}|{moment(start)}"
            f"|{moment(end)}|COMPLETED|{job.cpus}|{job.cpus}|{job.nodes}|{limit}"
        )
        if job.submit <= now < end:
            runs = start <= now
            hosts = ",".join(names[number] for number in nodes) if runs else ""
            began, spent = (moment(start), elapsed(now - start)) if runs else ("N/A", "0:00")
            squeue.append(
                f"{job.number}|{partition}|{job.user}|{job.account}|normal|{'RUNNING' if runs else 'PENDING'}"
                f"|{moment(job.submit)}|{began}|{spent}"
                f"|{limit}|{job.cpus}|{job.nodes}|0|N/A|(null)|{hosts}|{'None' if runs else 'Priority'}"
            )
    (folder / "sacct.txt").write_text("\n".join(sacct) + "\n")
    (folder / "squeue.txt").write_text("\n".join(squeue) + "\n")
    waits = result.start - np.array([job.submit for job in jobs])
    print(f"{folder}: {len(jobs):,} jobs that waited {waits.mean():,.0f} s on average")


if __name__ == "__main__":
    main()
