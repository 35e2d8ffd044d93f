"""Jobs as they were submitted to a cluster of nodes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import UNLIMITED, Node, Partition, SlurmCluster
from gridtune.slurm.limits import limits_on
from gridtune.slurm.outages import PlacedReader
from gridtune.slurm.versions import FIRST_NODE, NEEDED_NODES, OTHER_SPREAD, SHOWN_CPUS, release_of
from gridtune.types import IntArray
from gridtune.workload.slurm import host_list
from gridtune.workload.workload import Workload

#: A job can wait for another one to do this: end, end well, fail.
DEPENDENCIES = ("afterany", "afterok", "afternotok")

#: Fields of a log that requests are made of: names, and numbers.
_NAMES = ("user", "account", "partition", "qos", "features", "gpu_type", "state", "options")
_COLUMNS = (
    "job_id",
    "submit_time",
    "run_time",
    "requested_time",
    "requested_memory",
    "allocated_processors",
    "requested_processors",
    "allocated_nodes",
    "requested_nodes",
    "allocated_gpus",
    "requested_gpus",
    *_NAMES,
)


#: Fields in which jobs of one case differ.
_OWN = (
    *("number", "submit", "run_time", "user", "array", "task", "array_most", "after", "after_any", "name"),
    *("singleton", "failed", "requeue", "begin"),
)


@dataclass(frozen=True)
class Request:
    """One job as it was submitted.

    Attributes
    ----------
    number
        Its id; ties of priority go to the lower one.
    submit, run_time, time_limit
        Seconds; a job runs for one at least. A run time above the limit is cut when Slurm looks, every 30 s.
    partitions
        Names, in the order given.
    tasks, tasks_per_node, cpus_per_task
        `-n`, `--ntasks-per-node` (0: not given) and `-c`. Each node has one task at least.
    nodes, most_nodes, fewest
        `-N`: at least 1, and 0 where no most is given. It gets as many as there are, or with
        `--use-min-nodes` as few as do.
    memory, memory_per_cpu
        MB per node, or `--mem-per-cpu`; 0 and 0 for what the partition gives per processor. A memory of -1 is
        all that a node has, of which nobody may have some (`--mem=0`).
    features
        Each a name, or names with `&` and `|` between them, in brackets perhaps.
    node_list, exclude
        Names of nodes that it must have, all of them, and of those that it must not have.
    contiguous
        True if its nodes must be neighbours in Slurm's table.
    spread
        True if it gets a node for each task where there are so many (`--spread-job`).
    switches, switch_wait
        The most leaf switches that its nodes may have (0: any), and for how many seconds it waits for them
        from its submission on, at most `max_switch_wait`.
    licences
        "NAME" or "NAME:COUNT" of each.
    begin, deadline
        Seconds: it may not start earlier, and is cancelled once it could not end in time (0: no deadline).
    time_min
        Seconds: backfill may shorten the time limit to so much (0: not at all).
    threads
        Threads of a core that it uses: 1 with `--hint=nomultithread`, 0 for all.
    gpus, gpu_type
        GPUs per node, of a type or, "", of any.
    array, task, array_most
        The array that it is a task of (0: none), its index, and how many tasks may run at a time (0: all).
    after, after_any
        Conditions, all or any of them: one of `DEPENDENCIES`, and the number of a job or an array.
    component_of
        The number of the heterogeneous job that it is a component of (0: none): all of them start together.
    name, singleton
        Its name, and True if all jobs of the user with this name that were submitted before must have ended:
        one more condition.
    failed
        True if it ends with an error.
    requeue
        True if it starts again where it had to make room for another; None for what the cluster says.
    """

    number: int
    submit: int
    run_time: int
    time_limit: int
    user: str = ""
    account: str = ""
    partitions: tuple[str, ...] = ()
    qos: str = ""
    tasks: int = 1
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    nodes: int = 1
    most_nodes: int = 0
    memory: int = 0
    gpus: int = 0
    gpu_type: str = ""
    features: tuple[str, ...] = ()
    exclusive: bool = False
    nice: int = 0
    array: int = 0
    task: int = 0
    array_most: int = 0
    after: tuple[tuple[str, int], ...] = ()
    after_any: bool = False
    name: str = ""
    singleton: bool = False
    failed: bool = False
    requeue: bool | None = None
    node_list: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    begin: int = 0
    memory_per_cpu: int = 0
    fewest: bool = False
    threads: int = 0
    contiguous: bool = False
    spread: bool = False
    switches: int = 0
    switch_wait: int = UNLIMITED
    time_min: int = 0
    deadline: int = 0
    component_of: int = 0

    def __post_init__(self) -> None:
        if self.nodes < len(self.node_list):
            object.__setattr__(self, "nodes", len(self.node_list))
        if self.tasks < self.nodes:
            object.__setattr__(self, "tasks", self.nodes)

    @property
    def rank(self) -> tuple[int, int, int]:
        """The order of jobs of equal priority; the tasks of an array stand together."""
        return self.submit, self.array or self.number, self.task

    @property
    def case(self) -> tuple[object, ...]:
        """All that decides where it may start: jobs of one case differ in the times, the user, the array."""
        return _CASE(self)

    @property
    def shape(self) -> tuple[object, ...]:
        """All that decides which nodes suit it and have its GPUs."""
        asked = self.features, self.memory, self.memory_per_cpu, self.cpus_per_node, self.gpus, self.gpu_type
        return *asked, self.exclude, self.threads, self.cpus_per_task

    @property
    def cpus(self) -> int:
        """Processors asked for."""
        return self.tasks * self.cpus_per_task

    @property
    def cpus_per_node(self) -> int:
        """Processors that every node must give: those of its tasks, or of one task where none are said."""
        return min(self.tasks_per_node or 1, self.tasks) * self.cpus_per_task

    @property
    def least_nodes(self) -> int:
        """Nodes needed at least: those asked for, and enough for the tasks."""
        return max(self.nodes, -(-self.tasks // self.tasks_per_node) if self.tasks_per_node else 1)

    @property
    def wanted_nodes(self) -> int:
        """Nodes that it gets where there are so many."""
        most = self.most_nodes or (self.tasks if self.spread else 0)
        more = 0 if self.fewest else min(most, self.tasks)
        return max(self.least_nodes, more)

    @property
    def licence_counts(self) -> dict[str, int]:
        """The number that it needs of each licence."""
        pairs = (text.partition(":") for text in self.licences)
        return {name: int(count or 1) for name, _, count in pairs}

    def limit_in(self, partition: Partition) -> int:
        """Return the time limit in a partition."""
        own = self.time_limit if 0 < self.time_limit < UNLIMITED else partition.default_time
        return min(own, partition.max_time)

    @property
    def least_time(self) -> int:
        """Seconds that it must have before its deadline; 0 where it has no time limit of its own."""
        return self.time_min or (self.time_limit if 0 < self.time_limit < UNLIMITED else 0)

    def planned_limit_in(self, partition: Partition) -> int:
        """Return the time limit by which backfill looks for a start."""
        limit = self.limit_in(partition)
        return min(limit, self.time_min) if self.time_min and not self.deadline else limit

    def is_too_long_for(self, cluster: SlurmCluster) -> bool:
        """Tell whether its own time limit is above that of each of its partitions."""
        there = [cluster.partitions[name].max_time for name in self.partitions if name in cluster.partitions]
        return bool(there) and self.time_limit > max(there)

    def may_run_in(self, partition: Partition) -> bool:
        """Tell whether a partition admits its account and QOS, and so many nodes."""
        most = self.most_nodes or max(self.least_nodes, partition.min_nodes)
        fits = self.least_nodes <= (partition.max_nodes or self.least_nodes) and most >= partition.min_nodes
        return fits and partition.accounts.admits(self.account) and partition.qos.admits(self.qos)

    def is_whole_in(self, partition: Partition) -> bool:
        """Tell whether it has its nodes to itself in a partition."""
        return self.exclusive or partition.exclusive

    def memory_per_cpu_in(self, partition: Partition) -> int:
        """Return the MB of each processor in a partition, 0 where it asks for MB per node."""
        return 0 if self.memory else self.memory_per_cpu or partition.memory_per_cpu

    def suits(self, node: Node, partition: Partition) -> bool:
        """Tell whether a node has the processors, memory and features; GPUs are another matter to Slurm."""
        return (
            self.room_on(node) >= self.cpus_per_node
            and node.name not in self.exclude
            and node.memory >= max(self.memory, self.charged_on(node) * self.memory_per_cpu_in(partition))
            and all(_has_feature(feature, node.features) for feature in self.features)
        )

    def threads_on(self, node: Node) -> int:
        """Return how many threads of each core of a node it can use."""
        most = min(node.threads, self.cpus_per_task) if node.one_task else node.threads
        return min(most, self.threads or most)

    def cores_on(self, node: Node, cpus: int) -> int:
        """Return how many cores it needs for so many processors, without those shared by tasks."""
        threads, each = self.threads_on(node), self.cpus_per_task
        if node.one_task and each > threads:
            return cpus // each * -(-each // threads)
        return -(-cpus // threads)

    def room_on(self, node: Node) -> int:
        """Return how many processors of an empty node its tasks can use."""
        cores, threads, each = node.cpus // node.threads, self.threads_on(node), self.cpus_per_task
        if node.one_task and each > threads:
            return cores // -(-each // threads) * each
        return cores * threads

    def usable_on(self, node: Node, per_cpu: int, release: int) -> int:
        """Return how many of them whole tasks can use, where memory is per processor or by later releases."""
        room, each = self.room_on(node), self.cpus_per_task
        return room - room % each if per_cpu or (release >= SHOWN_CPUS and not self.gpus) else room

    def asked_nodes(self, release: int) -> int:
        """Return how many nodes sbatch asks for: by later releases those that the tasks need."""
        return self.least_nodes if release >= NEEDED_NODES else self.nodes

    def most_parts(self, nodes: int, release: int) -> int:
        """Return on how many of a cluster's nodes it can be at most."""
        # sbatch asks for no more nodes than tasks.
        tasks = max(self.tasks, self.least_nodes)
        most = min(nodes, self.wanted_nodes if self.tasks_per_node else self.most_nodes or tasks, tasks)
        # Turns may take a node of each weight, whatever the most.
        turns = self.spread and release >= OTHER_SPREAD and (most > 1 or release < FIRST_NODE)
        return nodes if turns else most

    def charged_on(self, node: Node) -> int:
        """Return for how many processors a node must have memory: those of its cores, or those used."""
        cpus = self.cpus_per_node
        return cpus if self.threads else self.cores_on(node, cpus) * node.threads

    def has_gpus(self, node: Node) -> bool:
        """Tell whether a node has the GPUs, of the type asked for."""
        gpus = node.gpus.get(self.gpu_type, 0) if self.gpu_type else sum(node.gpus.values())
        return gpus >= self.gpus


_CASE = attrgetter(*(name for name in Request.__dataclass_fields__ if name not in _OWN))


@lru_cache(4096)
def _has_feature(wish: str, features: frozenset[str]) -> bool:
    """Tell whether features fulfil a wish: a name, or `&` and `|` from left to right, in brackets perhaps."""
    words = re.findall(r"[&|()\[\]]|[^&|()\[\]]+", wish)

    def value() -> bool:
        held, sign = True, "&"
        while words:
            word = words.pop(0)
            if word in "&|":
                sign = word
            elif word in ")]":
                break
            else:
                one = value() if word in "([" else word in features
                held = held and one if sign == "&" else held or one
        return held

    return value()


def features_of(text: str) -> tuple[str, ...]:
    """Return the wishes in a text such as `a&b|c`: one, or several with `&` alone between them."""
    # Of counts such as `a*2&b` each node has one or the other.
    if re.search(r"[|()\[\]*]", text):
        return (re.sub(r"\*\d+", "", text.replace("&", "|") if "*" in text else text),)
    return tuple(filter(None, text.split("&")))


class RequestCheck:
    """Refuses jobs that a cluster could never start; nodes of a kind are looked at once."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        self._kinds: dict[tuple[str, tuple[str, ...]], list[tuple[Node, int]]] = {}
        self._passed: set[tuple[object, ...]] = set()

    def check(self, request: Request) -> None:
        """Refuse a job.

        Raises
        ------
        WorkloadError
            Naming the job: a partition that is not there, more than its nodes could ever hold, more than
            a limit allows, an unknown dependency.
        """
        user = request.user if self.cluster.limits else ""
        looked = *request.case, user, request.after, request.array > 0
        if looked in self._passed:
            return
        for kind, _ in request.after:
            if kind not in DEPENDENCIES:
                raise WorkloadError(
                    f"job {request.number}: no dependency {kind!r}", hint=f"one of {', '.join(DEPENDENCIES)}"
                )
        spread = request.spread and release_of(self.cluster.version) >= OTHER_SPREAD
        weights = {
            self.cluster.nodes[number].weight
            for name in request.partitions
            if spread and name in self.cluster.partitions
            for number in self.cluster.partitions[name].nodes
        }
        if len(weights) > 1:
            raise WorkloadError(
                f"job {request.number}: --spread-job since 25.05 on nodes of several weights is not modelled",
                hint="leave such jobs out, or spread=False",
            )
        others = request.array or request.time_min or request.deadline or self.cluster.preemption.preempts
        if request.component_of and others:
            raise WorkloadError(
                f"job {request.number}: components of heterogeneous jobs are not modelled with arrays, "
                "--time-min, --deadline or preemption",
                hint="leave such jobs out, or component_of=0",
            )
        partitions = self.cluster.partitions
        for name in request.partitions:
            if name not in partitions:
                there = ", ".join(partitions)
                raise WorkloadError(f"job {request.number}: no partition {name!r}", hint=f"there are {there}")
        for name, count in request.licence_counts.items():
            there_are = self.cluster.licences.get(name, 0)
            if count > there_are:
                raise WorkloadError(
                    f"job {request.number}: asks for {count} of licence {name}, but there are {there_are}",
                    hint="compare it with Licenses= in slurm.conf, or leave such jobs out",
                )
        broken = [self._limit_broken(request, partitions[name]) for name in request.partitions]
        if broken and all(broken):
            hint = "compare it with sacctmgr's lists, or leave such jobs out"
            raise WorkloadError(f"job {request.number}: asks for {broken[0]}", hint=hint)
        if not any(self._can_hold(request, partitions[name]) for name in request.partitions):
            text = (
                f"{request.least_nodes} nodes, {request.cpus} processors, {max(request.memory, 0)} MB a node"
            )
            where = f"no partition of {', '.join(request.partitions)} can hold it ({text})"
            raise WorkloadError(
                f"job {request.number}: {where}: {self.reason_of(request)}",
                hint="compare it with slurm.conf, or leave such jobs out",
            )
        self._passed.add(looked)

    def can_run(self, request: Request) -> bool:
        """Tell whether a job is not refused."""
        try:
            self.check(request)
        except WorkloadError:
            return False
        return True

    def _limit_broken(self, request: Request, partition: Partition) -> str:
        """Return what is more than a limit allows to a job in a partition, "" for nothing."""
        amounts: dict[str, float] = {
            "jobs": 1,
            "cpu": request.cpus,
            "mem": max(request.memory, 0) * request.least_nodes,
            "node": request.least_nodes,
            "gres/gpu": request.gpus * request.least_nodes,
        }
        weights = partition.billing or {"cpu": 1.0}
        amounts["billing"] = int(sum(weights.get(of, 0.0) * amount for of, amount in amounts.items()))
        minutes = request.limit_in(partition) / 60
        asked = amounts | {f"{of} minutes": amount * minutes for of, amount in amounts.items()}
        qos = self.cluster.limiting_qos(request.qos, partition.name)
        whose = qos, request.account, request.user
        for _, of, most in limits_on(self.cluster.limits, self.cluster.accounts, *whose):
            if asked[of] > most:
                return f"{asked[of]:g} of {of}, but a limit allows {most}"
        return ""

    def reason_of(self, request: Request) -> str:
        """Return, for a job that is refused, the reason in short."""
        partitions = self.cluster.partitions
        there = [partitions[name] for name in request.partitions if name in partitions]
        if not any(partition.nodes for partition in there):
            return "in partitions that are down, or without nodes in service"
        if not any(request.may_run_in(partition) for partition in there):
            return "that their partitions do not admit: AllowAccounts, AllowQos, MinNodes or MaxNodes"
        return "more than the cluster could ever hold"

    def _can_hold(self, request: Request, partition: Partition) -> bool:
        if not request.may_run_in(partition):
            return False
        numbers = partition.nodes if request.node_list else ()
        inside = {self.cluster.nodes[number].name: self.cluster.nodes[number] for number in numbers}
        for name in request.node_list:
            node = inside.get(name)
            if node is None or not (request.suits(node, partition) and request.has_gpus(node)):
                return False
        key = partition.name, request.exclude
        if key not in self._kinds:
            kinds = ((node, len(nodes)) for node, nodes in kinds_in(self.cluster, partition, request.exclude))
            self._kinds[key] = sorted(kinds, key=lambda kind: kind[0].cpus, reverse=True)
        nodes, cpus, most = 0, 0, request.most_nodes or len(partition.nodes)
        for node, count in self._kinds[key]:
            if request.suits(node, partition) and request.has_gpus(node):
                # The largest nodes hold the most.
                per_cpu = request.memory_per_cpu_in(partition)
                usable = request.usable_on(node, per_cpu, release_of(self.cluster.version))
                cpus += usable * max(0, min(count, most - nodes))
                nodes += count
        return nodes >= request.least_nodes and cpus >= request.cpus


def kinds_in(
    cluster: SlurmCluster, partition: Partition, apart: tuple[str, ...] = ()
) -> list[tuple[Node, list[int]]]:
    """Return one node of each kind in a partition, and the numbers of all of that kind; some stand apart."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number in partition.nodes:
        node = cluster.nodes[number]
        key = (node.cpus, node.threads, node.memory, *node.gpus.items(), node.features, node.name in apart)
        kinds.setdefault(key, []).append(number)
    return [(cluster.nodes[numbers[0]], numbers) for numbers in kinds.values()]


def _hosts(name: str, value: str, cluster: SlurmCluster, counts: Counter[str]) -> tuple[str, ...]:
    """Return the nodes in an option: if some are unknown, the others to exclude, and none to have."""
    there = {node.name for node in cluster.nodes}
    try:
        hosts = host_list(value, "SubmitLine", 1, f"--{name}")
    except WorkloadError:
        hosts = [value]
    if not there.issuperset(hosts):
        counts[f"with a --{name} of other nodes: taken without them"] += 1
        hosts = [host for host in hosts if host in there and name == "exclude"]
    return tuple(hosts)


def _asked(options: str, submit: int, cluster: SlurmCluster, counts: Counter[str]) -> dict[str, Any]:
    """Return the fields of a request that options of its command line set; count those that cannot be."""
    asked: dict[str, Any] = {}
    for word in options.split():
        name, _, value = word.partition("=")
        if name in {"nodelist", "exclude"}:
            asked["node_list" if name == "nodelist" else name] = _hosts(name, value, cluster, counts)
        elif name == "licenses":
            needed = tuple(re.split("[,;]", value))
            if any(one.partition(":")[0] not in cluster.licences for one in needed):
                counts["with licences that slurm.conf does not list: taken without"] += 1
                continue
            asked["licences"] = needed
        elif name in {"exclusive", "contiguous"}:
            asked[name] = True
        elif name == "spread-job":
            several = len({node.weight for node in cluster.nodes}) > 1
            asked["spread"] = not (several and release_of(cluster.version) >= OTHER_SPREAD)
            if not asked["spread"]:
                counts["with --spread-job on nodes of several weights, not modelled: taken without"] += 1
        elif found := re.fullmatch(r"deadline=now\+(\d+)(second|minute|hour|day|week|)s?", word):
            seconds = {"minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}.get(found[2], 1)
            asked["deadline"] = submit + int(found[1]) * seconds
        elif found := re.fullmatch(r"switches=(\d+)(?:@([\d:-]+))?", word):
            asked["switches"] = int(found[1])
            wait = PlacedReader(Path("SubmitLine")).seconds(found[2] or "UNLIMITED", "--switches")
            asked["switch_wait"] = wait
        elif name in {"time", "time-min"}:
            field = "time_limit" if name == "time" else "time_min"
            asked[field] = PlacedReader(Path("SubmitLine")).seconds(value, f"--{name}")
        elif name == "deadline":
            counts["with a --deadline that is no now+COUNT: taken without"] += 1
        elif name == "mem" and re.fullmatch(r"0+[KMGT]?", value):
            asked["memory"] = -1
    return asked


def requests_of(
    workload: Workload, cluster: SlurmCluster
) -> tuple[list[Request], IntArray, dict[str, int], dict[str, int]]:
    """Make requests of a log's jobs, with the processors and nodes allocated or, unknown, requested.

    Returns
    -------
    requests
        Those that the cluster could hold.
    rows : shape (requests,)
        Their rows in the log.
    left_out, changed
        Numbers of jobs that were left out, and of others that are taken as something else, by the reason.
    """
    columns = {name: workload.column(name).tolist() for name in _COLUMNS}
    names = {name: workload.names.get(name, {}) for name in _NAMES}
    default, check = next(iter(cluster.partitions), ""), RequestCheck(cluster)
    types = {"", *(kind for node in cluster.nodes for kind in node.gpus)}
    requests: list[Request] = []
    rows: list[int] = []
    left_out: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    # Of a core that runs one task all threads are allocated.
    threads = max((node.threads for node in cluster.nodes if node.one_task), default=1)
    for row in range(len(workload)):
        job = {name: column[row] for name, column in columns.items()}
        text = {
            name: found.get(job[name], str(job[name])) if job[name] >= 0 else ""
            for name, found in names.items()
        }
        cpus = job["allocated_processors"] if job["allocated_processors"] > 0 else job["requested_processors"]
        nodes = max(1, job["allocated_nodes"] if job["allocated_nodes"] > 0 else job["requested_nodes"])
        partitions = tuple(name for name in text["partition"].split(",") if name in cluster.partitions)
        if job["run_time"] < 0 or cpus < 1:
            left_out["never started, not ended, or without processors"] += 1
            continue
        gpus = job["requested_gpus"] if job["requested_gpus"] >= 0 else max(0, job["allocated_gpus"])
        each = threads if cpus % threads == 0 else 1
        tasks = cpus // each
        if not partitions:
            changed[f"without a partition of the cluster: taken as {default}"] += 1
        request = Request(
            max(0, job["job_id"]),
            job["submit_time"],
            # One that was ended at its limit runs until Slurm looks.
            UNLIMITED if text["state"] == "TIMEOUT" and job["requested_time"] > 0 else job["run_time"],
            job["requested_time"] if job["requested_time"] > 0 else -1,
            text["user"],
            text["account"],
            partitions or (default,),
            text["qos"],
            tasks,
            tasks // nodes if tasks % nodes == 0 else 0,
            each,
            # The size factor of a priority counts the nodes asked for: fewer than the tasks need, maybe.
            nodes=min(nodes, job["requested_nodes"]) if job["requested_nodes"] > 0 else nodes,
            most_nodes=nodes,
            fewest=True,
            memory=max(0, job["requested_memory"]) * cpus // nodes // 1024,
            gpus=gpus // nodes,
            gpu_type=text["gpu_type"] if text["gpu_type"] in types else "",
            features=features_of(text["features"]),
            # Nobody but a job that has its nodes to itself gets GPUs that it did not ask for.
            exclusive=job["requested_gpus"] == 0 < job["allocated_gpus"],
        )
        if text["options"]:
            request = replace(request, **_asked(text["options"], request.submit, cluster, changed))
        if nodes > 1 and re.search(r"[\[*]", text["features"]):
            changed["with features of all nodes alike, or counted ([a|b], a*2): taken node by node"] += 1
        if gpus and text["gpu_type"] not in types:
            changed[f"with GPUs of a type that no node has, taken as any: {text['gpu_type']}"] += 1
        if not check.can_run(request):
            left_out[check.reason_of(request)] += 1
            continue
        requests.append(request)
        rows.append(row)
    return requests, np.array(rows, dtype=np.int64), dict(left_out), dict(changed)
