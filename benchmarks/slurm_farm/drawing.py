"""Clusters and workloads drawn from a seed, over the settings that the simulator claims to follow.

A base of ten nodes, two accounts and a queue of some hours is drawn first. Each feature then changes the
files, and the jobs so that the setting matters.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS = (
    *("job_id", "dt", "user", "account", "partition", "qos", "n_tasks", "ntasks_per_node", "mem", "gres"),
    *("constraint", "wall_limit", "wall_time", "name", "array", "dependency", "extra", "code"),
)
#: The accounts of users as they are without nested accounts.
ACCOUNTS = {f"user{number}": "physics" if number <= 3 else "biology" for number in range(1, 7)}
#: Seconds in which jobs arrive, and their work as a share of the processors in that time.
SPAN, LOAD = 6_000, 1.35

Job = dict[str, str]


@dataclass
class Draft:
    """A cluster and its jobs, as far as they are drawn.

    Attributes
    ----------
    nodes, partitions, settings, scheduler
        Options of each node and partition by its name, lines of slurm.conf, and SchedulerParameters.
    select
        SelectTypeParameters.
    gres, topology, accounts, control
        Lines of gres.conf and topology.conf, sacctmgr's commands, and scontrol's by their second.
    """

    stream: random.Random
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    partitions: dict[str, dict[str, str]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    scheduler: dict[str, str] = field(default_factory=dict)
    select: list[str] = field(default_factory=list)
    gres: list[str] = field(default_factory=list)
    topology: list[str] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    control: list[tuple[int, str]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)

    def some(self, share: float) -> list[Job]:
        """Return about so many of the jobs."""
        return [job for job in self.jobs if self.stream.random() < share]

    def save(self, site: Path) -> None:
        """Write the folder of a site."""
        site.mkdir(parents=True, exist_ok=True)
        scheduler = ",".join(f"{name}={value}" if value else name for name, value in self.scheduler.items())
        settings = {**self.settings, "SchedulerParameters": scheduler}
        if self.select:
            settings["SelectTypeParameters"] = ",".join(self.select)
        lines = [f"{name}={value}" for name, value in settings.items()]
        for key, items in (("NodeName", self.nodes), ("PartitionName", self.partitions)):
            for name, options in items.items():
                lines.append(" ".join([f"{key}={name}", *(f"{of}={value}" for of, value in options.items())]))
        for file, text in {
            "slurm.conf": lines,
            "gres.conf": self.gres,
            "topology.conf": self.topology,
            "sacctmgr.txt": self.accounts,
        }.items():
            if text:
                (site / file).write_text("\n".join(text) + "\n")
        for file, columns, rows in (
            ("workload.csv", COLUMNS, self.jobs),
            ("control.csv", ["dt", "command"], [{"dt": dt, "command": text} for dt, text in self.control]),
        ):
            if rows:
                with (site / file).open("w") as out:
                    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows)


def draw(seed: int, features: list[str]) -> Draft:
    """Draw a cluster and its jobs, with these features or, where none is named, with some."""
    stream = random.Random(seed)
    draft = Draft(stream)
    _draw_base(draft)
    if not features:
        groups = [stream.choice(SELECTION), stream.choice(PREEMPTION), stream.choice(PRIORITIES)]
        others = [name for name in FEATURES if name not in {*SELECTION, *PREEMPTION, *PRIORITIES}]
        features = [*filter(None, groups), *stream.sample(others, 4)]
    unknown = [name for name in features if name not in FEATURES]
    if unknown:
        raise SystemExit(f"no feature {', '.join(unknown)}; there are {', '.join(FEATURES)}")
    # In the order of the table: later ones change what earlier ones have drawn.
    for name, change in FEATURES.items():
        if name in features:
            change(draft)
    draft.settings = {"# Features": " ".join(features), **draft.settings}
    return draft


def _draw_base(draft: Draft) -> None:
    stream = draft.stream
    cpus = stream.choice((8, 12, 16))
    for kind, count in (("alpha", 4), ("beta", 4), ("big", 1), ("gpu", 1)):
        for number in range(1, count + 1):
            draft.nodes[f"{kind[0] if kind != 'big' else 'c'}{number}"] = {
                "CPUs": str(cpus),
                "Sockets": "2",
                "CoresPerSocket": str(cpus // 2),
                "ThreadsPerCore": "1",
                "RealMemory": str((16_000 if kind == "big" else 4_000) * cpus),
                "Feature": f"{kind},{'new' if kind != 'alpha' else 'old'}",
            }
    draft.nodes["g1"]["Gres"] = "gpu:2"
    draft.gres = ["AutoDetect=off", "NodeName=g1 Name=gpu File=gpu[0-1]"]
    draft.partitions["normal"] = {
        "Nodes": ",".join(draft.nodes),
        "Default": "YES",
        "DefMemPerCPU": "2500",
        "MaxTime": "INFINITE",
        "State": "UP",
    }
    draft.settings = {
        "SchedulerType": "sched/backfill",
        "SelectType": "select/cons_tres",
        "GresTypes": "gpu",
        "AccountingStorageTRES": "gres/gpu",
        "AccountingStorageEnforce": "associations,limits,qos",
        "EnforcePartLimits": "YES",
        "JobRequeue": "0",
        "KillWait": "30",
        "MinJobAge": "300",
        "PriorityType": "priority/multifactor",
        "PriorityDecayHalfLife": f"0-{stream.choice((1, 4, 12))}",
        "PriorityCalcPeriod": "5",
        "PriorityMaxAge": f"0-{stream.choice((2, 5))}",
        "PriorityWeightAge": str(stream.choice((20_000, 100_000))),
        "PriorityWeightFairshare": str(stream.choice((50_000, 300_000))),
        "PriorityWeightJobSize": str(stream.choice((0, 30_000, 200_000))),
        "PriorityWeightQOS": "20000",
        "PriorityWeightPartition": "50000",
    }
    draft.scheduler = {"bf_continue": "", "bf_max_time": "30"}
    draft.select = ["CR_Core_Memory", "CR_CORE_DEFAULT_DIST_BLOCK"]
    draft.accounts = [
        "modify QOS set where name=normal set Priority=0",
        "add QOS Name=urgent Priority=100",
        "modify cluster where name=@CLUSTER@ set QOS=normal,urgent DefaultQOS=normal",
        "add account name=physics Fairshare=100",
        f"add account name=biology Fairshare={stream.choice((50, 100, 300))}",
        *(f"add user name={user} DefaultAccount={account}" for user, account in ACCOUNTS.items()),
    ]
    _draw_jobs(draft, cpus)


def _draw_jobs(draft: Draft, cpus: int, count: int = 130) -> None:
    """Draw jobs whose work is `LOAD` of the processors in `SPAN`."""
    stream = draft.stream
    for number, dt in enumerate(sorted(stream.randrange(SPAN) for _ in range(count))):
        user = stream.choice(list(ACCOUNTS))
        tasks = stream.choice((1, 1, 1, 2, 2, 4, 6, cpus, cpus, 2 * cpus, 4 * cpus))
        job = dict.fromkeys(COLUMNS, "") | {"job_id": str(1001 + number), "dt": str(dt), "user": user}
        job |= {
            "account": ACCOUNTS[user],
            "partition": "normal",
            "n_tasks": str(tasks),
            "name": f"job{number}",
        }
        job["qos"] = "urgent" if stream.random() < 0.15 else "normal"
        if tasks >= cpus or (tasks > 1 and stream.random() < 0.5):
            job["ntasks_per_node"] = str(min(tasks, cpus))
        if tasks <= 2 and stream.random() < 0.12:
            job |= {"gres": f"gpu:{stream.randint(1, 2)}", "ntasks_per_node": str(tasks)}
        elif tasks <= cpus and stream.random() < 0.15:
            job["mem"] = str(stream.choice((3_000, 20_000, 30_000, 60_000)))
            job["ntasks_per_node"] = str(tasks)
        if not job["gres"] and not job["mem"] and tasks <= 2 * cpus and stream.random() < 0.15:
            job["constraint"] = stream.choice(("alpha", "beta"))
        job["wall_time"] = str(max(20, min(3_600, round(stream.lognormvariate(6.2, 1)))))
        draft.jobs.append(job)
    work = sum(int(job["n_tasks"]) * int(job["wall_time"]) for job in draft.jobs)
    scale = LOAD * SPAN * cpus * len(draft.nodes) / work
    for job in draft.jobs:
        seconds = max(15, min(5_400, round(scale * int(job["wall_time"]))))
        job["wall_time"] = str(seconds if stream.random() > 0.08 else -1)
        job["wall_limit"] = str(max(2, int(seconds * stream.uniform(1.05, 3) / 60) + 1))


def _nested(draft: Draft) -> None:
    """Nest accounts two and three deep, with uneven shares and a user in two of them."""
    draft.accounts = [line for line in draft.accounts if not line.startswith(("add account", "add user"))]
    draft.accounts += [
        "add account name=science Fairshare=60",
        "add account name=industry Fairshare=40",
        "add account name=physics parent=science Fairshare=20",
        "add account name=biology parent=science Fairshare=70",
        "add account name=optics parent=physics Fairshare=3",
        "add account name=steel parent=industry Fairshare=10",
        "add user name=user1 DefaultAccount=physics Fairshare=5",
        "add user name=user2 DefaultAccount=optics Fairshare=1",
        "add user name=user2 Account=biology Fairshare=2",
        "add user name=user3 DefaultAccount=optics Fairshare=4",
        "add user name=user4,user5 DefaultAccount=biology Fairshare=3",
        "add user name=user6 DefaultAccount=steel Fairshare=7",
    ]
    homes = {"user1": "physics", "user2": "optics", "user3": "optics", "user6": "steel"}
    for job in draft.jobs:
        job["account"] = homes.get(job["user"], "biology")
        if job["user"] == "user2" and draft.stream.random() < 0.4:
            job["account"] = "biology"
    draft.settings["PriorityWeightFairshare"] = "500000"


def _classic(draft: Draft) -> None:
    draft.settings |= {
        "PriorityFlags": "NO_FAIR_TREE",
        "FairShareDampeningFactor": str(draft.stream.choice((1, 3))),
    }


def _basic(draft: Draft) -> None:
    draft.settings["PriorityType"] = "priority/basic"


def _tres(draft: Draft) -> None:
    draft.settings["PriorityWeightTRES"] = "cpu=40000,mem=60000,gres/gpu=90000"
    if draft.stream.random() < 0.4:
        draft.settings["PriorityFlags"] = "NO_NORMAL_TRES"
        draft.settings["PriorityWeightTRES"] = "cpu=700,mem=1,gres/gpu=9000"
    draft.settings["PriorityFavorSmall"] = draft.stream.choice(("YES", "NO"))


def _linear(draft: Draft) -> None:
    draft.settings["SelectType"] = "select/linear"
    draft.select = ["CR_Memory"] if draft.stream.random() < 0.5 else []
    for job in draft.jobs:
        # Whole nodes: fewer and shorter jobs.
        if int(job["wall_time"]) > 0 and not job["ntasks_per_node"]:
            job["wall_time"] = str(max(15, int(job["wall_time"]) // 3))


def _cpu(draft: Draft) -> None:
    draft.select = [draft.stream.choice(("CR_CPU", "CR_CPU_Memory"))]


def _core(draft: Draft) -> None:
    draft.select = ["CR_Core"]


def _least_loaded(draft: Draft) -> None:
    draft.select = ["CR_Core_Memory", "CR_LLN"]


def _packed(draft: Draft) -> None:
    draft.select = ["CR_Core_Memory", "CR_Pack_Nodes"]
    for job in draft.some(0.4):
        if not job["ntasks_per_node"] and 1 < int(job["n_tasks"]) <= 8:
            job["extra"] = f"-N {draft.stream.choice((1, 2))}-3"


def _threads(draft: Draft) -> None:
    """Give each core two threads; jobs take whole cores."""
    for node in draft.nodes.values():
        node |= {"ThreadsPerCore": "2", "CoresPerSocket": str(int(node["CPUs"]) // 4)}
    for job in draft.some(0.3):
        if not job["extra"] and not job["mem"] and not job["gres"] and int(job["n_tasks"]) <= 2:
            job["extra"] = draft.stream.choice(("--hint=nomultithread", "-c 3", "-c 2"))


def _one_task(draft: Draft) -> None:
    _threads(draft)
    draft.select.append("CR_ONE_TASK_PER_CORE")
    for job in draft.jobs:
        if job["ntasks_per_node"] and int(job["ntasks_per_node"]) > 4:
            job["ntasks_per_node"] = str(int(job["ntasks_per_node"]) // 2)
            job["n_tasks"] = str(max(1, int(job["n_tasks"]) // 2))


def _memory(draft: Draft) -> None:
    """Add requests for memory, by node and by processor, that decide where jobs fit."""
    for job in draft.some(0.5):
        if job["extra"] or job["mem"]:
            continue
        if job["ntasks_per_node"]:
            job["mem"] = str(draft.stream.choice((9_000, 20_000, 30_000)))
        else:
            job["extra"] = f"--mem-per-cpu={draft.stream.choice((500, 3_500, 6_000))}"


def _gpus(draft: Draft) -> None:
    """Have GPUs of two types, and jobs that ask for either or any."""
    draft.nodes["g1"]["Gres"] = "gpu:fast:2"
    draft.nodes["c1"]["Gres"] = "gpu:slow:2"
    draft.gres = ["AutoDetect=off", "NodeName=g1 Name=gpu Type=fast File=gpu[0-1]"]
    draft.gres.append("NodeName=c1 Name=gpu Type=slow File=gpu[2-3]")
    for job in draft.jobs:
        if job["gres"]:
            job["gres"] = draft.stream.choice(
                ("gpu:fast:1", "gpu:slow:1", "gpu:1", "gpu:fast:2", "gpu:slow:2")
            )
    for job in draft.some(0.15):
        if not (job["gres"] or job["mem"] or job["constraint"]) and int(job["n_tasks"]) <= 4:
            job |= {
                "gres": draft.stream.choice(("gpu:fast:1", "gpu:slow:1")),
                "ntasks_per_node": job["n_tasks"],
            }


def _licences(draft: Draft) -> None:
    draft.settings["Licenses"] = "matlab:3,ansys:2"
    for job in draft.some(0.3):
        if not job["extra"]:
            job["extra"] = (
                f"-L {draft.stream.choice(('matlab:1', 'matlab:2', 'ansys:1', 'matlab:1,ansys:1'))}"
            )


def _partitions(draft: Draft) -> None:
    """Add overlapping partitions: of a higher tier, with whole nodes, for some QOS and sizes."""
    common = {"DefMemPerCPU": "2500", "State": "UP"}
    draft.partitions["normal"] |= {"PriorityTier": "1", "PriorityJobFactor": "1"}
    draft.partitions["short"] = common | {"Nodes": "a1,a2", "MaxTime": "20", "PriorityJobFactor": "4"}
    draft.partitions["short"]["PriorityTier"] = draft.stream.choice(("1", "2"))
    draft.partitions["whole"] = common | {
        "Nodes": "b[1-4]",
        "MaxTime": "INFINITE",
        "OverSubscribe": "EXCLUSIVE",
    }
    draft.partitions["some"] = common | {"Nodes": "a[1-4],b[1-2]", "MaxTime": "120", "MaxNodes": "2"}
    draft.partitions["some"] |= {"PriorityJobFactor": "2", "DenyQos": "urgent"}
    for job in draft.jobs:
        plain = not (job["constraint"] or job["gres"] or job["mem"])
        tasks = int(job["n_tasks"])
        drawn = draft.stream.random()
        if not plain or tasks > 8:
            continue
        if drawn < 0.25 and int(job["wall_limit"]) <= 20:
            job["partition"] = draft.stream.choice(("short", "short,normal", "normal,short"))
        elif drawn < 0.45:
            job["partition"] = draft.stream.choice(("whole", "normal,whole"))
        elif drawn < 0.7 and job["qos"] == "normal" and int(job["wall_limit"]) <= 120:
            job["partition"] = draft.stream.choice(("some", "some,normal"))


def _topology(draft: Draft) -> None:
    draft.settings["TopologyPlugin"] = "topology/tree"
    draft.topology = [
        "SwitchName=left Nodes=a[1-4]",
        "SwitchName=right Nodes=b[1-4]",
        "SwitchName=rest Nodes=c1,g1",
    ]
    draft.topology.append("SwitchName=top Switches=left,right,rest")


def _weights(draft: Draft) -> None:
    for name, node in draft.nodes.items():
        node["Weight"] = "50" if name in {"c1", "g1"} else draft.stream.choice(("1", "10"))


def _wishes(draft: Draft) -> None:
    """Add wishes for features with `&`, `|` and brackets."""
    for job in draft.some(0.4):
        if not (job["gres"] or job["mem"]) and int(job["n_tasks"]) <= 16:
            job["constraint"] = draft.stream.choice(("alpha|beta", "[alpha|beta]", "beta&new", "old", "new"))


def _suspend(draft: Draft) -> None:
    """Suspend jobs of lower tiers; memory is small enough for both."""
    draft.settings |= {"PreemptType": "preempt/partition_prio", "PreemptMode": "SUSPEND,GANG"}
    draft.settings["SchedulerTimeSlice"] = "30"
    common = {"DefMemPerCPU": "1000", "OverSubscribe": "FORCE:1", "MaxTime": "INFINITE", "State": "UP"}
    draft.partitions["normal"] |= common | {"PriorityTier": "1"}
    draft.partitions["middle"] = common | {"Nodes": "a[1-4],b[1-2]", "PriorityTier": "2"}
    draft.partitions["first"] = common | {"Nodes": "a[1-4],b[1-4]", "PriorityTier": "3"}
    for job in draft.jobs:
        drawn = draft.stream.random()
        if job["mem"]:
            job["mem"] = str(min(int(job["mem"]), 8_000))
        if job["gres"] or drawn > 0.35 or int(job["n_tasks"]) > 36:
            continue
        job["partition"] = "middle" if drawn < 0.15 else "first"
        if drawn >= 0.15 and (int(job["wall_time"]) < 0 or int(job["wall_time"]) > 1500):
            job |= {"wall_time": "700", "wall_limit": "20"}


def _requeue(draft: Draft) -> None:
    """Add a QOS whose jobs requeue those of another."""
    draft.settings |= {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE", "JobRequeue": "1"}
    draft.settings["PriorityWeightQOS"] = "1000000"
    draft.accounts += ["add QOS Name=low Priority=1", "modify QOS where name=urgent set Preempt=low"]
    draft.accounts.append("modify cluster where name=@CLUSTER@ set QOS=normal,urgent,low")
    for job in draft.some(0.4):
        if job["qos"] == "normal":
            job["qos"] = "low"
            if not job["extra"] and draft.stream.random() < 0.25:
                job["extra"] = "--no-requeue"


def _cancel(draft: Draft) -> None:
    """Add a partition of a higher tier whose jobs cancel those of a lower one, after a grace time."""
    draft.settings |= {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    draft.settings["PreemptExemptTime"] = draft.stream.choice(("0", "00:05:00"))
    draft.partitions["normal"] |= {"PriorityTier": "1", "GraceTime": draft.stream.choice(("0", "60"))}
    draft.partitions["first"] = {
        "Nodes": "a[1-4]",
        "DefMemPerCPU": "2500",
        "PriorityTier": "5",
        "State": "UP",
    }
    for job in draft.some(0.12):
        if not job["gres"] and int(job["n_tasks"]) <= 24 and job["constraint"] != "beta":
            job |= {"partition": "first", "mem": "", "wall_limit": "20", "wall_time": "500"}


def _limits(draft: Draft) -> None:
    """Limit accounts, users and QOS on what they run at a time."""
    cpus = int(draft.nodes["a1"]["CPUs"])
    draft.accounts += [
        f"modify QOS where name=urgent set MaxTRESPU=cpu={2 * cpus} GrpJobs=6",
        "add QOS Name=capped Priority=0 MaxJobsPU=2",
        "modify cluster where name=@CLUSTER@ set QOS=normal,urgent,capped",
        f"modify account where name=physics set GrpTRES=cpu={4 * cpus + 2}",
        f"modify account where name=biology set GrpTRES=node=6 GrpTRESRunMins=cpu={cpus * 200}",
        "modify user where name=user5 account=biology set MaxJobs=3",
    ]
    for job in draft.some(0.2):
        if job["qos"] == "normal":
            job["qos"] = "capped"
    for job in draft.jobs:
        # A job above a limit would wait for ever.
        job["n_tasks"] = str(min(int(job["n_tasks"]), 2 * cpus))
        job["wall_limit"] = str(min(int(job["wall_limit"]), 90))


def _arrays(draft: Draft) -> None:
    for job in draft.some(0.1):
        if not job["extra"] and int(job["n_tasks"]) <= 4 and int(job["wall_time"]) > 0:
            job["array"] = draft.stream.choice(("0-7", "1-9:2", "0-11%3", "0-5%2"))
            job["wall_time"] = str(max(20, int(job["wall_time"]) // 3))


def _dependencies(draft: Draft) -> None:
    kinds = (
        "afterok:w{}",
        "afterany:w{}",
        "afternotok:w{}",
        "afterany:w{},afterok:w{}",
        "afterok:w{}?afterany:w{}",
    )
    for number, job in enumerate(draft.jobs):
        if number > 8 and not job["array"] and draft.stream.random() < 0.15:
            kind = draft.stream.choice(kinds)
            before = [draft.stream.choice(draft.jobs[number - 8 : number])["job_id"] for _ in range(2)]
            job["dependency"] = kind.format(*before)
        if draft.stream.random() < 0.2:
            job["code"] = "1"
    draft.settings["DependencyParameters"] = "kill_invalid_depend"


def _reservation(draft: Draft) -> None:
    # Made a minute before the first job, and known from then on.
    for name, start, minutes, nodes in (("repair", 3_000, 40, "a1,a2"), ("update", 7_000, 20, "c1,b1")):
        draft.control.append(
            (
                -60,
                f"scontrol create reservation ReservationName={name} StartTime=T0+{start} Duration={minutes}"
                f" Nodes={nodes} Flags=MAINT Users=root",
            )
        )


def _outage(draft: Draft) -> None:
    """Drain a node for an hour, and let another die, with its jobs."""
    draft.control += [
        (1_500, "scontrol update nodename=b3 state=drain reason=test"),
        (5_000, "scontrol update nodename=b3 state=resume"),
        (2_500, "scontrol update nodename=a4 state=down reason=dead"),
        (4_200, "scontrol update nodename=a4 state=resume"),
    ]


def _scheduler(draft: Draft) -> None:
    """Draw each of the SchedulerParameters that are modelled."""
    choices = {
        "bf_interval": (30, 45, 90),
        "sched_interval": (60, 90, 30),
        "batch_sched_delay": (3, 6, 10),
        "default_queue_depth": (100, 20, 5),
        "bf_window": (1_440, 300, 90),
        "bf_resolution": (60, 120, 300),
        "bf_max_job_test": (500, 40, 15),
        "bf_max_job_start": (0, 2),
        "bf_max_job_user": (0, 8, 4),
        "bf_min_age_reserve": (0, 300, 900),
        "bf_min_prio_reserve": (0, 100_000),
        "bf_window_linear": (0, 120),
        "bf_max_job_array_resv": (20, 3),
        "bf_node_space_size": (0, 30),
    }
    for name, values in choices.items():
        if draft.stream.random() < 0.5:
            value = draft.stream.choice(values[1:])
            draft.scheduler[name] = str(value)


def _nodes(draft: Draft) -> None:
    """Add requests for numbers of nodes, whole nodes, single ones, and several processors a task."""
    wishes = ("-N 2", "-N 2-4", "--exclusive", "--nodelist=b2", "--exclude=c1,a1", "-c 2", "--mem=0", "-N 1")
    for job in draft.some(0.4):
        plain = not (job["gres"] or job["mem"] or job["constraint"] or job["extra"] or job["array"])
        if plain and int(job["n_tasks"]) <= 8:
            job["extra"] = draft.stream.choice(wishes)
            if job["extra"].startswith("-N"):
                job |= {"ntasks_per_node": "", "n_tasks": str(max(2, int(job["n_tasks"])))}
            elif job["extra"] in {"--nodelist=b2", "-c 2", "--mem=0"}:
                job |= {"n_tasks": "2", "ntasks_per_node": "2"}


def _holds(draft: Draft) -> None:
    """Add begin times, holds with releases, and nice values."""
    for job in draft.some(0.3):
        if job["extra"]:
            continue
        drawn = draft.stream.random()
        if drawn < 0.3:
            job["extra"] = "--hold"
            draft.control.append(
                (int(job["dt"]) + draft.stream.randrange(60, 2_000), f"scontrol release w{job['job_id']}")
            )
        else:
            job["extra"] = (
                f"--begin=now+{draft.stream.randrange(60, 1800)}" if drawn < 0.6 else "--nice=20000"
            )


def _switches(draft: Draft) -> None:
    """Add a wish for one switch or two to jobs of several nodes, to some with a time to wait."""
    _topology(draft)
    draft.scheduler["max_switch_wait"] = "1800"
    cpus = int(draft.nodes["a1"]["CPUs"])
    for job in draft.some(0.7):
        if not job["extra"] and int(job["n_tasks"]) >= cpus // 2:
            job["extra"] = draft.stream.choice(
                ("--switches=1", "--switches=1@10", "--switches=1@90", "--switches=2@20")
            )


def _spread(draft: Draft) -> None:
    for job in draft.some(0.4):
        if not job["extra"] and not job["gres"] and int(job["n_tasks"]) > 1:
            job["extra"] = "--spread-job"


def _times(draft: Draft) -> None:
    """Add limits that backfill may shorten, and deadlines that some jobs miss."""
    for job in draft.some(0.5):
        limit, drawn = int(job["wall_limit"]), draft.stream.random()
        if job["extra"] or limit < 3:
            continue
        if drawn < 0.6:
            least = max(1, round(limit * draft.stream.uniform(0.2, 0.9)))
            job["extra"] = f"--time-min={least}"
        if drawn > 0.4:
            job["extra"] += f" --deadline=now+{60 * limit + draft.stream.randrange(60, 5_000)}"


def _heterogeneous(draft: Draft) -> None:
    """Give some jobs a second component, or a third."""
    cpus = int(draft.nodes["a1"]["CPUs"])
    for job in draft.some(0.25):
        plain = not (job["gres"] or job["mem"] or job["constraint"] or job["extra"] or job["array"])
        if plain and int(job["n_tasks"]) <= cpus:
            others = (": -n 1", ": -n 4 --ntasks-per-node=2", f": -n {cpus}", ": -n 2 : -n 4")
            job["extra"] = draft.stream.choice(others)


def _builtin(draft: Draft) -> None:
    draft.settings["SchedulerType"] = "sched/builtin"


SELECTION = ["linear", "cpu", "core", "lln", "pack", "threads", "one_task", ""]
PREEMPTION = ["suspend", "requeue", "cancel", "", "", ""]
PRIORITIES = ["nested", "classic", "basic", "nested", ""]
#: Features by name, in the order in which they change a draft.
FEATURES: dict[str, Callable[[Draft], None]] = {
    "nested": _nested,
    "classic": _classic,
    "basic": _basic,
    "tres": _tres,
    "linear": _linear,
    "cpu": _cpu,
    "core": _core,
    "lln": _least_loaded,
    "pack": _packed,
    "threads": _threads,
    "one_task": _one_task,
    "gpus": _gpus,
    "wishes": _wishes,
    "partitions": _partitions,
    "suspend": _suspend,
    "requeue": _requeue,
    "cancel": _cancel,
    "limits": _limits,
    "arrays": _arrays,
    "dependencies": _dependencies,
    "memory": _memory,
    "nodes": _nodes,
    "licences": _licences,
    "holds": _holds,
    "topology": _topology,
    "switches": _switches,
    "spread": _spread,
    "times": _times,
    "heterogeneous": _heterogeneous,
    "weights": _weights,
    "reservation": _reservation,
    "outage": _outage,
    "scheduler": _scheduler,
    "builtin": _builtin,
}
