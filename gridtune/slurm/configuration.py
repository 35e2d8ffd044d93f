"""A cluster, read from its `slurm.conf` and the files beside it.

Read are nodes, partitions, switches, priorities, the clocks of the scheduler, QOS and accounts. Settings that
decide about schedules but are not simulated are listed in `SlurmCluster.not_modelled`, line by line.

Sources: https://slurm.schedmd.com/slurm.conf.html, https://slurm.schedmd.com/topology.conf.html,
https://slurm.schedmd.com/sacctmgr.html
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import (
    MODES,
    Admission,
    Clocks,
    Node,
    Partition,
    PreemptClass,
    Preemption,
    Priorities,
    SlurmCluster,
)
from gridtune.slurm.limits import Limit, limits_of_row
from gridtune.slurm.outages import PlacedReader, parents_of, read_accounts, read_outages, read_qos, read_table
from gridtune.slurm.settings import GENERAL, LINES, PARAMETERS, changed_lines, matters, remark_on
from gridtune.slurm.versions import MERGED_NODES, SHARED_NODES, SUBACCOUNTS, VERIFIED, release_of
from gridtune.workload.slurm import OUT_OF_SERVICE, ConfLine, conf_lines, host_list, machine_of

#: The clocks of both passes, by their names among the scheduler's parameters.
_CLOCKS = frozenset(clock.name for clock in fields(Clocks))


def read_cluster(folder: Path, changes: Iterable[str] = (), version: str = VERIFIED[0]) -> SlurmCluster:
    """Read `slurm.conf`, and `topology.conf` and sacctmgr's lists that lie beside it.

    Parameters
    ----------
    folder
        The folder of the files, or the `slurm.conf`.
    changes
        Settings to put in place of those read: "bf_interval=120", "PriorityWeightAge=0",
        "PartitionName=debug PriorityTier=2", "NodeName=n[11-20] CPUs=32".
    version
        The release whose rules hold, from 22.05 to 26.05.

    Raises
    ------
    WorkloadError
        Naming file and line: an unreadable file, an invalid number, an unknown node.
    """
    path = _conf_file(folder)
    return _ClusterReader(path, version).read(changed_lines(conf_lines(path), changes))


def configuration_difference(before: Path, after: Path, changes: Iterable[str] = ()) -> list[str]:
    """Return the lines of `slurm.conf` in which two configurations differ, "-" or "+" before each.

    Parameters
    ----------
    before, after
        Folders, or the files.
    changes
        Settings put in place of those after, as `read_cluster` takes them.
    """
    both = conf_lines(_conf_file(before)), changed_lines(conf_lines(_conf_file(after)), changes)
    first, second = (list(filter(None, map(_deciding, lines))) for lines in both)
    lines = difflib.unified_diff(first, second, n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def _conf_file(folder: Path) -> Path:
    return folder / "slurm.conf" if folder.is_dir() else folder


def _deciding(line: ConfLine) -> str:
    """Return the settings of a line that may decide about schedules."""
    given = line.settings
    kind = next((kind for kind in LINES if kind in given), GENERAL)
    shown = ((name, value) for name, value in line.items if kind == "partitionname" or matters(kind, name))
    return " ".join(f"{name}={value}" for name, value in shown)


class _ClusterReader(PlacedReader):
    def __init__(self, path: Path, version: str) -> None:
        super().__init__(path)
        self.version, self.release = version, release_of(version)
        self.settings: dict[str, str] = {}
        self.places: dict[str, tuple[Path | str, int]] = {}
        self.ignored: list[str] = []
        self.limits: list[Limit] = []
        self.records: dict[str, int] = {}

    def read(self, lines: Sequence[ConfLine]) -> SlurmCluster:
        for line in lines:
            given = line.settings
            kind = next((kind for kind in LINES if kind in given), GENERAL)
            self.place = line.place if kind == GENERAL else (line.path, line.number)
            for name, value in given.items():
                self._remark(kind, name, f"{name}={value}", value)
                if kind == GENERAL:
                    self.settings[name], self.places[name] = value, self.place
        self._read_beside("gres.conf")
        if "maxnodecount" in self.settings and not any("nodename" in line.settings for line in lines):
            self.place = self.places["maxnodecount"]
            hint = "write a line NodeName=... for each node of `scontrol show node`"
            raise self.fault("all nodes are dynamic, so the file does not name them", "MaxNodeCount", hint)
        self.machine = machine_of(self.path, lines).with_counted_gpus(self.path.parent / "gres.conf")
        self._select()
        nodes = tuple(self._node(name) for name in sorted(self.machine.processors_of_node, key=_natural))
        number_of = {node.name: number for number, node in enumerate(nodes)}
        if self._items("AccountingStorageEnforce").keys() & {"limits", "safe", "all"}:
            for name in ("sacctmgr_qos.txt", "sacctmgr_assoc.txt"):
                self._read_limits(self.path.parent / name)
        tree = "topology/tree" in self._items("TopologyPlugin")
        topology = self.path.parent / "topology.conf"
        if tree and not topology.is_file():
            self.place = self.places["topologyplugin"]
            hint = "put topology.conf beside slurm.conf, or take the line out"
            raise self.fault("the switches are in topology.conf, which is not there", "TopologyPlugin", hint)
        if tree:
            self._read_beside("topology.conf")
        leaves = self._leaves(topology, number_of) if tree else ()
        self._check_changed_nodes({number for leaf in leaves for number in leaf} if tree else None, number_of)
        self.parameters = self._items(PARAMETERS)
        clocks = self._clocks()
        self.accounts, remarks = read_accounts(self.path.parent)
        self.ignored += remarks
        self.qos = read_qos(self.path.parent)
        partitions = {name: self._partition(name, number_of) for name in self.machine.partitions}
        outages, remarks = read_outages(self.path.parent, number_of)
        self.ignored += remarks
        if self.version[:5] not in VERIFIED:
            self.ignored.append(f"Slurm {self.version}: rules of its source, not confirmed by recorded runs")
        if partitions and not any(partition.nodes for partition in partitions.values()):
            hint = "compare State= of nodes and partitions with `sinfo`"
            raise WorkloadError("has no node in service in a partition that is UP", path=self.path, hint=hint)
        return SlurmCluster(
            nodes=nodes,
            partitions=partitions,
            leaves=leaves,
            backfill=self.settings.get("schedulertype", "sched/backfill") == "sched/backfill",
            clocks=clocks,
            priorities=self._priorities(),
            qos=self.qos,
            accounts=self.accounts,
            kill_wait=self._number("killwait", 30),
            overtime=60 * self._number("overtimelimit", 0),
            requeue=bool(self._number("jobrequeue", 1)),
            preemption=self._preemption(partitions),
            limits=tuple(self.limits),
            outages=outages,
            version=self.version,
            memory_counts=self.memory_counts,
            socket_by_socket=self.socket_by_socket,
            licences=self._licences(),
            least_loaded=self.least_loaded,
            not_modelled=tuple(self.ignored),
        )

    def _check_changed_nodes(self, on_switches: set[int] | None, number_of: Mapping[str, int]) -> None:
        """Refuse changed nodes that no partition has, or no switch where switches count."""
        for name, entry in self.machine.nodes_by_name.items():
            if not isinstance(entry.path, str) or entry.settings.get("state", "").upper() in OUT_OF_SERVICE:
                continue
            if name not in self.machine.nodes:
                hint = f"add a change of a partition, such as 'PartitionName=NAME Nodes=…,{name}'"
                raise WorkloadError(f"no partition has the node {name!r}", field="change", hint=hint)
            if on_switches is not None and number_of[name] not in on_switches:
                hint = "change copies of slurm.conf and topology.conf, and give them by --to"
                raise WorkloadError(f"no switch has the node {name!r}", field="change", hint=hint)

    def _licences(self) -> dict[str, int]:
        """Read how many licences there are of each name."""
        self.place = self.places.get("licenses", self.place)
        words = filter(None, self.settings.get("licenses", "").split(","))
        pairs = (re.split(r"[:*=]", word, maxsplit=1) for word in words)
        return {pair[0]: self.whole(pair[-1] if len(pair) > 1 else "1", "Licenses") for pair in pairs}

    def _remark(self, kind: str, name: str, text: str, value: str = "set") -> None:
        remark = remark_on(kind, name, value)
        if remark is not None:
            self._ignore(text + remark)

    def _ignore(self, text: str, partly: bool = False) -> None:
        """Note a setting that is not modelled, once for each line; refuse it as a change, if not `partly`."""
        path, line = self.place
        name = text.partition("=")[0].lower()
        if isinstance(path, str) and f" {name}=" in path.lower() and not partly:
            raise WorkloadError(f"{text} is not modelled, so nothing would change", field="change")
        note = f"{path if isinstance(path, str) else path.name}:{line}: {text}"
        if note not in self.ignored:
            self.ignored.append(note)

    def _items(self, key: str, default: str = "") -> dict[str, str]:
        """Return the values of a list by their names in small letters, and note those not modelled."""
        self.place = self.places.get(key.lower(), self.place)
        items: dict[str, str] = {}
        for item in filter(None, self.settings.get(key.lower(), default).split(",")):
            name, _, value = item.partition("=")
            self._remark(key, name, f"{key}={item}")
            items[name.lower()] = value
        return items

    def _read_beside(self, name: str) -> None:
        """Note settings that are not modelled in a file beside slurm.conf."""
        path = self.path.parent / name
        for line in conf_lines(path) if path.is_file() else []:
            self.place = line.place
            for key, value in line.items:
                self._remark(name, key, f"{key}={value}", value)

    def _select(self) -> None:
        """Read which resources of a node jobs share: none, processors, or memory too."""
        default = "select/cons_tres" if self.release >= SHARED_NODES else "select/linear"
        self.linear = "select/linear" in self._items("SelectType", default)
        words = self._items("SelectTypeParameters", "CR_Core_Memory").keys()
        alone = words & {"cr_cpu", "cr_core", "cr_socket", "cr_board"}
        self.least_loaded = not self.linear and "cr_lln" in words
        self.memory_counts = not alone and not (self.linear and "cr_memory" not in words)
        self.by_core = not self.linear and not any(word.startswith("cr_cpu") for word in words)
        self.one_task = self.by_core and "cr_one_task_per_core" in words
        self.socket_by_socket = not self.by_core or "cr_core_default_dist_block" in words

    def _read_limits(self, path: Path) -> None:
        """Read the limits in a table of sacctmgr, and note what is not modelled there."""
        if not path.is_file():
            kind = "qos" if "qos" in path.name else "assoc tree"
            run = f"run `sacctmgr show {kind} -P > {path.name}` in the folder of slurm.conf"
            self.ignored.append(f"limits that AccountingStorageEnforce sets: no {path.name}; {run}")
        for number, row in read_table(path) if path.is_file() else []:
            self.place = (path, number)
            try:
                limits, others = limits_of_row(row)
            except ValueError as error:
                name_ = row.get("Name") or row.get("Account", "")
                raise self.fault(str(error), name_, "mend it, or write it again with sacctmgr") from None
            self.limits += limits
            for text in others:
                self._ignore(text)

    def _number(self, name: str, default: int) -> int:
        text = self.settings.get(name)
        if text is None:
            return default
        self.place = self.places[name]
        return self.whole(text, name)

    def _duration(self, name: str, default: str) -> int:
        return self.seconds(self.settings.get(name.lower(), default), name)

    def _node(self, name: str) -> Node:
        path, line, settings = self.machine.nodes_by_name[name]
        self.place = (path, line)
        features = settings.get("feature", settings.get("features", ""))
        cpus = self.machine.processors_of_node[name]
        sockets, threads = self._cores(settings, cpus)
        node = Node(
            name,
            cpus,
            self.whole(settings.get("realmemory", "1"), "RealMemory"),
            {kind: count or 1 for kind, count in self.machine.gpus_of_node.get(name, {}).items()},
            frozenset(filter(None, features.split(","))),
            self.whole(settings.get("weight", "1"), "Weight"),
            sockets,
            threads,
            self.one_task,
        )
        facts = vars(node) | {"name": "", "gpus": sorted(node.gpus.items())}
        key = repr(facts | {"features": sorted(node.features)})
        if self.release < MERGED_NODES:
            key = f"{path}:{line}"
        return replace(node, record=self.records.setdefault(key, len(self.records)))

    def _cores(self, settings: Mapping[str, str], cpus: int) -> tuple[int, int]:
        """Return a node's sockets and the threads of each core; 1 where jobs get processors."""
        per_board = settings.get("socketsperboard", "1")
        words = (
            settings.get("sockets", per_board),
            settings.get("boards", "1"),
            settings.get("corespersocket", "1"),
        )
        sockets, boards, cores = (self.whole(word, "Sockets") for word in words)
        threads = max(1, self.whole(settings.get("threadspercore", "1"), "ThreadsPerCore"))
        if "sockets" not in settings:
            per = max(1, cores * threads)
            sockets = sockets * boards if "socketsperboard" in settings else max(1, cpus // per)
        # A node of as many CPUs as cores has no threads for Slurm.
        return max(1, sockets), threads if self.by_core and cpus > sockets * max(1, cores) else 1

    def _partition(self, name: str, number_of: Mapping[str, int]) -> Partition:
        path, line, settings = self.machine.partitions[name]
        self.place = (path, line)
        nodes = tuple(sorted(number_of[host] for host in self.machine.nodes_of_partition[name]))
        priority = settings.get("priority", "1")
        shared = settings.get("oversubscribe", settings.get("shared", "NO")).upper()
        # One job at a time shares nothing but with jobs of other partitions, as where jobs are suspended.
        alone = shared.endswith(":1") and (
            "suspend" in self.settings.get("preemptmode", "").lower()
            or not any(
                set(hosts) & set(self.machine.nodes_of_partition[name])
                for other, hosts in self.machine.nodes_of_partition.items()
                if other != name
            )
        )
        if shared.startswith(("FORCE", "YES")) and not alone:
            self._ignore(f"OverSubscribe={shared}")
        longest = self.seconds(settings.get("maxtime", "UNLIMITED"), "MaxTime")
        if settings.get("nodes", "") in {"", "(null)"}:
            message = f"the partition {name!r} has no nodes, so that no job could run in it"
            raise self.fault(message, "Nodes", "name its nodes, or take the line out")
        state = settings.get("state", "UP").upper()
        if state == "DRAIN":
            self._ignore(f"State={state}")
        return Partition(
            name,
            # Its jobs do not start, and keep no others from starting.
            () if state in {"DOWN", "INACTIVE"} else nodes,
            self.whole(settings.get("prioritytier", priority), "PriorityTier"),
            self.whole(settings.get("priorityjobfactor", priority), "PriorityJobFactor"),
            longest,
            self.seconds(settings["defaulttime"], "DefaultTime") if "defaulttime" in settings else longest,
            self.whole(settings.get("defmempercpu", self.settings.get("defmempercpu", "0")), "DefMemPerCPU"),
            shared == "EXCLUSIVE" or self.linear,
            settings.get("preemptmode", ""),
            self.whole(settings.get("gracetime", "0"), "GraceTime"),
            self._count(settings.get("minnodes", "0"), "MinNodes"),
            self._count(settings.get("maxnodes", "0"), "MaxNodes"),
            self._admission(settings, "accounts"),
            self._admission(settings, "qos"),
            self._billing(settings.get("tresbillingweights", "")),
            self._own_qos(settings.get("qos", "")),
        )

    def _own_qos(self, name: str) -> str:
        """Return a partition's QOS, and note one of no known limits."""
        enforced = self._items("AccountingStorageEnforce").keys() & {"limits", "safe", "all"}
        if name and enforced and name not in self.qos:
            self._ignore(f"QOS={name} (its limits are unknown: write sacctmgr_qos.txt again)", partly=True)
        return name

    def _billing(self, text: str) -> dict[str, float]:
        """Read weights of resources in usage; those of memory are per MB, or per unit named."""
        weights = {}
        for word in filter(None, text.split(",")):
            name, _, value = word.lower().partition("=")
            match = re.fullmatch(r"([0-9.]+)([kmgt]?)", value)
            if match is None:
                raise self.fault(f"{word!r} is no weight", "TRESBillingWeights", "such as Mem=0.25G")
            if name not in {"cpu", "mem", "node", "gres/gpu"}:
                self._ignore(f"TRESBillingWeights: {word}", partly=True)
            weights[name] = float(match[1]) / 1024 ** ("kmgt".find(match[2]) - 1 if match[2] else 0)
        return weights

    def _count(self, text: str, field: str) -> int:
        """Return a number of nodes, 0 for no limit."""
        return 0 if text.upper() in {"UNLIMITED", "INFINITE"} else self.whole(text, field)

    def _admission(self, settings: Mapping[str, str], of: str) -> Admission:
        """Read which accounts or QOS a partition takes."""
        allowed, denied = settings.get(f"allow{of}", "ALL"), settings.get(f"deny{of}", "")
        names = {*(denied if allowed.upper() == "ALL" else allowed).lower().split(",")} - {""}
        if of == "accounts" and self.release >= SUBACCOUNTS:
            parents = self.accounts.parent_of
            names |= {name for name in parents if names & {*parents_of(parents, name)}}
        return Admission(frozenset(names), allowed.upper() != "ALL")

    def _preemption(self, partitions: Mapping[str, Partition]) -> Preemption:
        """Read who may take the place of whom."""
        words, parameters = self._items("PreemptParameters"), self.parameters
        kind = self.settings.get("preempttype", "preempt/none").lower()
        by = {"preempt/qos": "qos", "preempt/partition_prio": "partition"}.get(kind, "")
        count = words.get("reorder_count", parameters.get("preempt_reorder_count", "1"))
        if not by:
            return Preemption()
        mode = self._preempt_mode(self.settings.get("preemptmode", "off"), "off", "preemptmode")
        exempt = self._time_or_none(self.settings.get("preemptexempttime", "-1"), "PreemptExemptTime")
        if by == "partition":
            modes = {p.name: self._preempt_mode(p.preempt_mode, mode, p.name) for p in partitions.values()}
            if self.linear and "suspend" in modes.values():
                self._ignore("PreemptMode=SUSPEND under select/linear", partly=True)
            classes = {
                p.name: PreemptClass(
                    p.tier,
                    modes[p.name],
                    p.grace,
                    exempt,
                    frozenset(
                        o.name
                        for o in partitions.values()
                        if o.tier < p.tier
                        and modes[o.name] != "off"
                        and set(o.nodes) & set(p.nodes)
                        # A node of an exclusive partition's job has no other one, even beside one suspended.
                        and not (modes[o.name] == "suspend" and (o.exclusive or p.exclusive))
                    ),
                )
                for p in partitions.values()
            }
        else:
            classes = {}
            path = self.path.parent / "sacctmgr_qos.txt"
            rows = read_table(path, "Name") if path.is_file() else []
            names = {row["Name"] for _, row in rows}
            for number, row in rows:
                self.place = (path, number)
                unknown = sorted(set(filter(None, row.get("Preempt", "").split(","))) - names)
                if unknown:
                    hint = f"there are {', '.join(sorted(names))}"
                    raise self.fault(f"no QOS {unknown[0]!r} to preempt", "Preempt", hint)
                own = self._time_or_none(row.get("PreemptExemptTime", "") or "-1", "PreemptExemptTime")
                classes[row["Name"]] = PreemptClass(
                    self.whole(row.get("Priority") or "0", "Priority"),
                    self._preempt_mode(row.get("PreemptMode", ""), mode, "PreemptMode"),
                    self.seconds(row.get("GraceTime", "") or "0", "GraceTime"),
                    own or exempt,
                    frozenset(filter(None, row.get("Preempt", "").split(","))),
                )
            if any(one.mode == "suspend" for one in classes.values()):
                self.place = self.places.get("preemptmode", self.place)
                self._ignore("PreemptMode=SUSPEND within a partition, where Slurm slices time", partly=True)
        return Preemption(
            by,
            classes,
            "youngest_first" in words or "preempt_youngest_first" in parameters,
            "strict_order" in words or "preempt_strict_order" in parameters,
            self.whole(count, "reorder_count"),
            self._number("killwait", 30) + self._number("messagetimeout", 10),
        )

    def _preempt_mode(self, text: str, cluster: str, name: str) -> str:
        """Return one of the modes of preemption; those that are not simulated are noted and taken as off.

        Jobs are suspended across tiers alone: within a partition Slurm would slice their time.
        """
        modes = {word for word in text.lower().split(",") if word not in {"", "gang", "within", "priority"}}
        if not modes or modes == {"cluster"}:
            return cluster
        mode = modes.pop()
        if name in self.machine.partitions:
            path, line, _ = self.machine.partitions[name]
            self.place = (path, line)
        self.place = self.places.get(name, self.place)
        if mode not in MODES:
            self._ignore(f"PreemptMode={text}")
            return "off"
        if mode == "suspend" and "gang" not in self.settings.get("preemptmode", "").lower().split(","):
            hint = "the cluster's own PreemptMode must name GANG too, as in PreemptMode=SUSPEND,GANG"
            raise self.fault("SUSPEND needs GANG, without which Slurm does not start", "PreemptMode", hint)
        return mode

    def _time_or_none(self, text: str, name: str) -> int:
        return 0 if text == "-1" else self.seconds(text, name)

    def _clocks(self) -> Clocks:
        known = {name: name for name in _CLOCKS} | {"max_job_bf": "bf_max_job_test"}
        self.place = self.places.get(PARAMETERS.lower(), self.place)
        read: dict[str, int] = {}
        for name, value in self.parameters.items():
            if name in known:
                read[known[name]] = self.whole(value, name)
                if name in {"bf_interval", "bf_resolution", "sched_interval"} and not read[name]:
                    raise self.fault("0 is no interval", name)
        return Clocks(**read)

    def _priorities(self) -> Priorities:
        if self.settings.get("prioritytype", "priority/basic") != "priority/multifactor":
            return Priorities()
        flags = self._items("PriorityFlags")
        return Priorities(
            True,
            age=self._number("priorityweightage", 0),
            fair_share=self._number("priorityweightfairshare", 0),
            size=self._number("priorityweightjobsize", 0),
            partition=self._number("priorityweightpartition", 0),
            qos=self._number("priorityweightqos", 0),
            tres=self._tres(),
            max_age=self.seconds(self.settings.get("prioritymaxage", "7-0"), "PriorityMaxAge"),
            half_life=self.seconds(
                self.settings.get("prioritydecayhalflife", "7-0"), "PriorityDecayHalfLife"
            ),
            period=self.seconds(self.settings.get("prioritycalcperiod", "5"), "PriorityCalcPeriod"),
            favor_small=self.settings.get("priorityfavorsmall", "NO").upper() in {"YES", "1"},
            fair_tree="no_fair_tree" not in flags,
            dampening=self._number("fairsharedampeningfactor", 1),
            normal_tres="no_normal_tres" not in flags,
        )

    def _tres(self) -> dict[str, float]:
        weights: dict[str, float] = {}
        for item in filter(None, self.settings.get("priorityweighttres", "").split(",")):
            name, _, value = item.partition("=")
            if name.lower() not in {"cpu", "mem", "node", "gres/gpu"} or not re.fullmatch(
                r"\d*\.?\d+", value
            ):
                self.place = self.places["priorityweighttres"]
                self._ignore(f"PriorityWeightTRES={item}")
            else:
                weights[name.lower()] = float(value)
        return weights

    def _leaves(self, path: Path, number_of: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
        """Return the nodes of each leaf switch; nodes that slurm.conf lacks are left out, as Slurm does."""
        leaves = []
        for line in conf_lines(path):
            given = line.settings
            if "switchname" in given and "nodes" in given:
                named = host_list(given["nodes"], line.path, line.number, "Nodes")
                leaves.append(tuple(sorted(number_of[name] for name in named if name in number_of)))
        return tuple(leaves)


def _natural(name: str) -> list[Any]:
    """Return the key of Slurm's order of nodes: n2 stands before n10."""
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.findall(r"\d+|\D+", name)]
