"""A cluster, read from its `slurm.conf` and the files beside it.

Read are nodes, partitions, switches, priorities, the clocks of the scheduler, QOS and accounts. Settings that
decide about schedules but are not simulated are listed in `SlurmCluster.not_modelled`, line by line.

Sources: https://slurm.schedmd.com/slurm.conf.html, https://slurm.schedmd.com/topology.conf.html,
https://slurm.schedmd.com/sacctmgr.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from gridtune.errors import WorkloadError
from gridtune.registry import nearest_name
from gridtune.slurm.cluster import UNLIMITED, VERSIONS, Clocks, Node, Partition, Priorities, Qos, SlurmCluster
from gridtune.slurm.limits import Limit, limits_of_row
from gridtune.slurm.preemption import MODES, PreemptClass, Preemption
from gridtune.slurm.reading.tables import accounts_of, qos_priorities, read_table
from gridtune.workload.slurm import (
    conf_lines,
    gpus_in,
    host_list,
    processors_of_line,
)

__all__ = ["matters", "read_cluster"]

#: Settings that are read here.
_READ = frozenset(
    """
    schedulertype schedulerparameters prioritytype prioritydecayhalflife priorityfavorsmall priorityweightage
    priorityweightfairshare priorityweightjobsize priorityweightpartition priorityweightqos priorityweighttres
    prioritymaxage prioritycalcperiod priorityflags fairsharedampeningfactor topologyplugin selecttype
    selecttypeparameters defmempercpu killwait overtimelimit accountingstorageenforce preempttype preemptmode
    preemptparameters preemptexempttime jobrequeue messagetimeout
    """.split()  # noqa: SIM905
)
#: Settings without a part in which job starts when: names, ports, logs, timeouts of daemons, accounting.
_NO_MATTER = re.compile(
    r"(accounting|acct|auth|batchstart|clustername|communication|control|core?spec|cred|debug|epilog|first|"
    r"frontend|gpufreq|grestypes|group|hash|health|inactive|jobacct|jobcomp|jobcontainer|jobcred|jobfile|"
    r"jobrequeue|killon|launch|logtime|mail|max(array|dbd|jobcount|jobid|step|tasks)|mcs|messagetimeout|"
    r"minjobage|mpi|plugindir|plugstack|private|proctrack|prolog|propagate|reboot|resume|returnto|route|sbcast|"
    r"schedulertimeslice|slurm|srun|statesave|switch|task|tcp|tmpfs|track|tree|unkillable|usepam|vsize|wait|"
    r"x11|enforcepart|requeueexit)\w*",
)
_NODE_KEYS = frozenset(
    """
    nodename nodehostname nodeaddr port cpus boards sockets socketsperboard corespersocket threadspercore
    realmemory gres feature features weight state tmpdisk procs reason
    """.split()  # noqa: SIM905
)
_PARTITION_KEYS = frozenset(
    """
    partitionname nodes default defmempercpu maxtime defaulttime state prioritytier priorityjobfactor priority
    oversubscribe shared allowqos allowaccounts allowgroups hidden rootonly preemptmode gracetime
    """.split()  # noqa: SIM905
)
#: Parameters of the scheduler that change nothing here, since a pass takes no time.
_FREE_PARAMETERS = frozenset(
    {"bf_continue", "bf_max_time", "bf_yield_interval", "bf_yield_sleep", "max_script_size"}
)
_KEYS = {"nodename": _NODE_KEYS, "partitionname": _PARTITION_KEYS}


def matters(name: str) -> bool:
    """Tell whether a setting of slurm.conf, in small letters, may decide which job starts when."""
    return not _NO_MATTER.match(name) and name not in {"port", "nodeaddr", "nodehostname"}


def read_cluster(folder: Path, changes: Iterable[str] = (), version: str = VERSIONS[0]) -> SlurmCluster:
    """Read `slurm.conf`, and `topology.conf`, `gres.conf` and sacctmgr's lists that lie beside it.

    Parameters
    ----------
    folder
        The folder of the files, or the `slurm.conf`.
    changes
        Settings to put in place of those read: "bf_interval=120", "PriorityWeightAge=0",
        "PartitionName=debug PriorityTier=2".
    version
        The release whose rules hold, one of `VERSIONS`.

    Raises
    ------
    WorkloadError
        Naming file and line: what cannot be read, a number that is none, an unknown node.
    """
    if version not in VERSIONS:
        raise WorkloadError(f"no rules for Slurm {version!r}", hint=f"one of {', '.join(VERSIONS)}")
    path = folder / "slurm.conf" if folder.is_dir() else folder
    return _Reader(path, version).read(changes)


class _Reader:
    def __init__(self, path: Path, version: str) -> None:
        self.path, self.version = path, version
        self.place: tuple[Path | str, int] = (path, 1)
        self.settings: dict[str, str] = {}
        self.places: dict[str, tuple[Path | str, int]] = {}
        self.nodes: dict[str, Node] = {}
        self.partitions: dict[str, tuple[dict[str, str], tuple[Path | str, int]]] = {}
        self.ignored: list[str] = []
        self.limits: list[Limit] = []

    def read(self, changes: Iterable[str]) -> SlurmCluster:
        defaults: dict[str, dict[str, str]] = {kind: {} for kind in _KEYS}
        for file, number, given in conf_lines(self.path, ()):
            self.place = (file, number)
            self._line(dict(given), defaults)
        for change in changes:
            self.place = (f"--change {change}", 1)
            self._change(change)
        if not self.nodes:
            raise WorkloadError(
                "names no nodes", path=self.path, hint="a line such as NodeName=n[1-4] CPUs=32"
            )
        nodes = tuple(sorted(self.nodes.values(), key=lambda node: _natural(node.name)))
        number_of = {node.name: number for number, node in enumerate(nodes)}
        if set(self.settings.get("accountingstorageenforce", "").lower().split(",")) & {
            "limits",
            "safe",
            "all",
        }:
            for name in ("sacctmgr_qos.txt", "sacctmgr_assoc.txt"):
                self._read_limits(self.path.parent / name)
        tree = "tree" in self.settings.get("topologyplugin", "")
        topology = self.path.parent / "topology.conf"
        if tree and not topology.is_file():
            self.place = self.places["topologyplugin"]
            hint = "put topology.conf beside slurm.conf, or take the line out"
            raise self._fault("the switches are in topology.conf, which is not there", "TopologyPlugin", hint)
        partitions = {name: self._partition(name, number_of) for name in self.partitions}
        return SlurmCluster(
            nodes,
            partitions,
            _leaves(topology, number_of) if tree else (),
            self.settings.get("schedulertype", "sched/backfill") == "sched/backfill",
            self._clocks(),
            self._priorities(),
            {name: Qos(name, priority) for name, priority in qos_priorities(self.path.parent).items()},
            accounts_of(self.path.parent),
            self._number("killwait", 30),
            60 * self._number("overtimelimit", 0),
            bool(self._number("jobrequeue", 1)),
            self._preemption(partitions),
            (),
            tuple(self.limits),
            self.version,
            tuple(self.ignored),
        )

    def _line(self, given: dict[str, str], defaults: dict[str, dict[str, str]]) -> None:
        kind = next((kind for kind in _KEYS if kind in given), None)
        if kind is None:
            for name, value in given.items():
                self._setting(name, value)
            return
        for name in given.keys() - _KEYS[kind]:
            self._ignore(f"{name}={given[name]}")
        name = given.pop(kind)
        if name.upper() == "DEFAULT":
            defaults[kind] |= given
        elif kind == "nodename":
            self._add_nodes(name, {**defaults[kind], **given})
        else:
            self.partitions[name] = ({**defaults[kind], **given}, self.place)

    def _setting(self, name: str, value: str) -> None:
        if name in _READ:
            self.settings[name], self.places[name] = value, self.place
        elif matters(name) and value.lower() not in {"none", "no", "0", "(null)", "off"}:
            self._ignore(f"{name}={value}")

    def _ignore(self, text: str) -> None:
        path, line = self.place
        self.ignored.append(f"{path if isinstance(path, str) else path.name}:{line}: {text}")

    def _read_limits(self, path: Path) -> None:
        """Read the limits in a table of sacctmgr, and note what is not modelled there."""
        for number, row in read_table(path) if path.is_file() else []:
            self.place = (path, number)
            try:
                limits, others = limits_of_row(row)
            except ValueError as error:
                name_ = row.get("Name") or row.get("Account", "")
                raise self._fault(
                    str(error), name_, "mend the list, or write it again with sacctmgr"
                ) from None
            self.limits += limits
            for text in others:
                self._ignore(text)

    def _change(self, change: str) -> None:
        given = {
            name.lower(): value
            for name, sign, value in (word.partition("=") for word in change.split())
            if sign
        }
        partition = given.pop("partitionname", None)
        if partition is not None:
            if partition not in self.partitions:
                raise WorkloadError(
                    f"no partition {partition!r}", field="--change", hint=", ".join(self.partitions)
                )
            settings, _ = self.partitions[partition]
            self.partitions[partition] = ({**settings, **given}, self.place)
            return
        clocks = {clock.name for clock in fields(Clocks)}
        for name, value in given.items():
            if name in clocks:
                parameters = self.settings.get("schedulerparameters", "")
                kept = [
                    item for item in parameters.split(",") if item and item.partition("=")[0].lower() != name
                ]
                self._setting("schedulerparameters", ",".join([*kept, f"{name}={value}"]))
            elif name in _READ:
                self._setting(name, value)
            else:
                hint = f"did you mean {nearest_name(name, [*clocks, *_READ])!r}?"
                raise WorkloadError(f"{name!r} is not simulated", field="--change", hint=hint)
        if not given:
            raise WorkloadError(f"{change!r} is no setting", field="--change", hint="such as bf_interval=120")

    def _fault(self, message: str, field: str, hint: str | None = None) -> WorkloadError:
        path, line = self.place
        return WorkloadError(message, path=path, line=line, field=field, hint=hint)

    def _number(self, name: str, default: int) -> int:
        text = self.settings.get(name)
        if text is None:
            return default
        self.place = self.places[name]
        return self._whole(text, name)

    def _whole(self, text: str, name: str) -> int:
        if not text.isdecimal() or len(text) > 15:
            raise self._fault(f"{text[:40]!r} is no whole number", name)
        return int(text)

    def _add_nodes(self, name: str, settings: dict[str, str]) -> None:
        path, line = self.place
        file = Path(path)
        try:
            gpus = gpus_in(settings.get("gres", ""))
        except ValueError as error:
            raise self._fault(str(error), "Gres") from None
        features = settings.get("feature", settings.get("features", ""))
        for host in host_list(name, file, line):
            self.nodes[host] = Node(
                host,
                processors_of_line(settings, file, line),
                self._whole(settings.get("realmemory", "1"), "RealMemory"),
                {kind: count or 1 for kind, count in gpus.items()},
                frozenset(filter(None, features.split(","))),
                self._whole(settings.get("weight", "1"), "Weight"),
            )

    def _partition(self, name: str, number_of: Mapping[str, int]) -> Partition:
        settings, self.place = self.partitions[name]
        path, line = self.place
        text = settings.get("nodes", "").strip('"')
        everything = text.upper() == "ALL"
        named = list(number_of) if everything else host_list(text, Path(path), line) if text else []
        unknown = next((host for host in named if host not in number_of), None)
        if unknown is not None:
            message = f"the partition has a node {unknown!r}, which no line describes"
            raise self._fault(message, "Nodes", "add a line NodeName=…, or take it out of the list")
        priority = settings.get("priority", "1")
        shared = settings.get("oversubscribe", settings.get("shared", "NO")).upper()
        # One job at a time shares nothing, but for jobs that are suspended.
        if shared.startswith(("FORCE", "YES")) and not shared.endswith(":1"):
            self._ignore(f"OverSubscribe={shared}")
        longest = self._time(settings.get("maxtime", "UNLIMITED"), "MaxTime")
        if not named:
            message = f"the partition {name!r} has no nodes, so that no job could run in it"
            raise self._fault(message, "Nodes", "name its nodes, or take the line out")
        return Partition(
            name,
            tuple(sorted(number_of[host] for host in named)),
            self._whole(settings.get("prioritytier", priority), "PriorityTier"),
            self._whole(settings.get("priorityjobfactor", priority), "PriorityJobFactor"),
            longest,
            self._time(settings["defaulttime"], "DefaultTime") if "defaulttime" in settings else longest,
            self._whole(settings.get("defmempercpu", self.settings.get("defmempercpu", "0")), "DefMemPerCPU"),
            shared == "EXCLUSIVE",
            settings.get("preemptmode", ""),
            self._whole(settings.get("gracetime", "0"), "GraceTime"),
        )

    def _preemption(self, partitions: Mapping[str, Partition]) -> Preemption:
        """Read who may take the place of whom."""
        kind = self.settings.get("preempttype", "preempt/none").lower()
        by = {"preempt/qos": "qos", "preempt/partition_prio": "partition"}.get(kind, "")
        words = set(self.settings.get("preemptparameters", "").lower().split(","))
        parameters = self.settings.get("schedulerparameters", "").lower()
        count = re.search(r"reorder_count=(\d+)", ",".join(words) + parameters)
        if not by:
            return Preemption()
        mode = self._preempt_mode(self.settings.get("preemptmode", "off"), "off", "preemptmode")
        exempt = self._time_or_none(self.settings.get("preemptexempttime", "-1"), "PreemptExemptTime")
        if by == "partition":
            modes = {p.name: self._preempt_mode(p.preempt_mode, mode, p.name) for p in partitions.values()}
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
                    raise self._fault(f"no QOS {unknown[0]!r} to preempt", "Preempt", hint)
                own = self._time_or_none(row.get("PreemptExemptTime", "") or "-1", "PreemptExemptTime")
                classes[row["Name"]] = PreemptClass(
                    self._whole(row.get("Priority") or "0", "Priority"),
                    self._preempt_mode(row.get("PreemptMode", ""), mode, "PreemptMode"),
                    self._time(row.get("GraceTime", "") or "0", "GraceTime"),
                    own or exempt,
                    frozenset(filter(None, row.get("Preempt", "").split(","))),
                )
            if any(one.mode == "suspend" for one in classes.values()):
                self.place = self.places.get("preemptmode", self.place)
                self._ignore("PreemptMode=SUSPEND within a partition, where Slurm slices time")
        return Preemption(
            by,
            classes,
            "youngest_first" in words or "preempt_youngest_first" in parameters,
            "strict_order" in words or "preempt_strict_order" in parameters,
            int(count[1]) if count else 1,
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
        _, place = self.partitions.get(name, ({}, self.place))
        self.place = self.places.get(name, place)
        if mode not in MODES:
            self._ignore(f"PreemptMode={text}")
            return "off"
        if mode == "suspend" and "gang" not in self.settings.get("preemptmode", "").lower().split(","):
            hint = "the cluster's own PreemptMode must name GANG too, as in PreemptMode=SUSPEND,GANG"
            raise self._fault("SUSPEND needs GANG, without which Slurm does not start", "PreemptMode", hint)
        return mode

    def _time_or_none(self, text: str, name: str) -> int:
        return 0 if text == "-1" else self._time(text, name)

    def _clocks(self) -> Clocks:
        self.place = self.places.get("schedulerparameters", self.place)
        known = {clock.name: clock.name for clock in fields(Clocks)} | {"max_job_bf": "bf_max_job_test"}
        read: dict[str, int] = {}
        for item in filter(None, self.settings.get("schedulerparameters", "").split(",")):
            name, _, value = item.partition("=")
            name = name.lower()
            if name in known:
                read[known[name]] = self._whole(value, name)
                if name in {"bf_interval", "bf_resolution", "sched_interval"} and not read[name]:
                    raise self._fault("0 is no interval", name)
            elif name not in _FREE_PARAMETERS:
                self._ignore(f"SchedulerParameters={item}")
        return Clocks(**read)

    def _priorities(self) -> Priorities:
        if self.settings.get("prioritytype", "priority/basic") != "priority/multifactor":
            return Priorities()
        flags = {flag for flag in self.settings.get("priorityflags", "").upper().split(",") if flag}
        modelled = {"NO_FAIR_TREE", "NO_NORMAL_TRES", "FAIR_TREE"}
        self.place = self.places.get("priorityflags", self.place)
        for flag in sorted(flags - modelled):
            self._ignore(f"PriorityFlags={flag}")
        weights = {
            name: self._number("priorityweight" + key, 0)
            for name, key in {
                "age": "age",
                "fair_share": "fairshare",
                "size": "jobsize",
                "partition": "partition",
                "qos": "qos",
            }.items()
        }
        return Priorities(
            True,
            **weights,
            tres=self._tres(),
            max_age=self._time(self.settings.get("prioritymaxage", "7-0"), "PriorityMaxAge"),
            half_life=self._time(self.settings.get("prioritydecayhalflife", "7-0"), "PriorityDecayHalfLife"),
            period=self._time(self.settings.get("prioritycalcperiod", "5"), "PriorityCalcPeriod"),
            favor_small=self.settings.get("priorityfavorsmall", "NO").upper() in {"YES", "1"},
            fair_tree="NO_FAIR_TREE" not in flags,
            dampening=self._number("fairsharedampeningfactor", 1),
            normal_tres="NO_NORMAL_TRES" not in flags,
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

    def _time(self, text: str, name: str) -> int:
        """Return seconds of `minutes`, `hours:minutes:seconds` or `days-hours[:minutes[:seconds]]`."""
        if text.upper() in {"INFINITE", "UNLIMITED"}:
            return UNLIMITED
        match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
        if match is None:
            raise self._fault(f"{text[:40]!r} is no time", name)
        days, *rest = match.groups()
        numbers = [int(number) for number in rest if number is not None]
        units = [3600, 60, 1] if days is not None or len(numbers) == 3 else [60, 1]
        return int(days or 0) * 86400 + sum(
            number * unit for number, unit in zip(numbers, units, strict=False)
        )


def _natural(name: str) -> list[Any]:
    """Return the key of Slurm's order of nodes: n2 stands before n10."""
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.findall(r"\d+|\D+", name)]


def _leaves(path: Path, number_of: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """Return the nodes of each leaf switch; nodes that slurm.conf lacks are left out, as Slurm does."""
    leaves = []
    for file, line, given in conf_lines(path, ()):
        if "switchname" in given and "nodes" in given:
            named = host_list(given["nodes"], file, line, "Nodes")
            leaves.append(tuple(sorted(number_of[name] for name in named if name in number_of)))
    return tuple(leaves)
