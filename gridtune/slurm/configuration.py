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
from dataclasses import fields
from pathlib import Path
from typing import Any

from gridtune.errors import WorkloadError
from gridtune.registry import nearest_name
from gridtune.slurm.cluster import (
    MODES,
    UNLIMITED,
    Clocks,
    Node,
    Partition,
    PreemptClass,
    Preemption,
    Priorities,
    Qos,
    SlurmCluster,
)
from gridtune.slurm.limits import Limit, limits_of_row
from gridtune.slurm.versions import VERIFIED, is_verified, release_of
from gridtune.workload.slurm import (
    ConfLine,
    SlurmAccounts,
    conf_lines,
    host_list,
    machine_of,
    read_slurm_accounts,
    text_of,
)

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


#: Settings in which the scheduler's parameters stand, and their names.
_PARAMETERS, _CLOCKS = "schedulerparameters", frozenset(clock.name for clock in fields(Clocks))


def _matters(name: str) -> bool:
    """Tell whether a setting of slurm.conf, in small letters, may decide which job starts when."""
    return not _NO_MATTER.match(name) and name not in {"port", "nodeaddr", "nodehostname"}


def read_cluster(folder: Path, changes: Iterable[str] = (), version: str = VERIFIED[0]) -> SlurmCluster:
    """Read `slurm.conf`, and `topology.conf` and sacctmgr's lists that lie beside it.

    Parameters
    ----------
    folder
        The folder of the files, or the `slurm.conf`.
    changes
        Settings to put in place of those read: "bf_interval=120", "PriorityWeightAge=0",
        "PartitionName=debug PriorityTier=2".
    version
        The release whose rules hold, from 22.05 to 26.05.

    Raises
    ------
    WorkloadError
        Naming file and line: an unreadable file, an invalid number, an unknown node.
    """
    release_of(version)
    path = _conf_file(folder)
    return _ClusterReader(path, version).read(_changed(conf_lines(path), changes))


def configuration_difference(before: Path, after: Path, changes: Iterable[str] = ()) -> list[str]:
    """Return the lines of `slurm.conf` in which two configurations differ, "-" or "+" before each.

    Parameters
    ----------
    before, after
        Folders, or the files.
    changes
        Settings put in place of those after, as `read_cluster` takes them.
    """
    both = conf_lines(_conf_file(before)), _changed(conf_lines(_conf_file(after)), changes)
    first, second = (list(filter(None, map(_deciding, lines))) for lines in both)
    lines = difflib.unified_diff(first, second, n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def _conf_file(folder: Path) -> Path:
    return folder / "slurm.conf" if folder.is_dir() else folder


def _deciding(line: ConfLine) -> str:
    """Return the settings of a line that may decide about schedules."""
    return " ".join(f"{name}={value}" for name, value in line.items if _matters(name.lower()))


def _changed(lines: Iterable[ConfLine], changes: Iterable[str]) -> list[ConfLine]:
    """Return the lines with settings changed: in place of the last such setting, else after all lines."""
    lines = list(lines)
    for change in changes:
        place = f"--change {change}"
        words = {word.partition("=")[0].lower(): word for word in change.split() if "=" in word}
        if not words:
            raise WorkloadError(f"{change!r} is no setting", field="--change", hint="such as bf_interval=120")
        partition = words.pop("partitionname", "=").partition("=")[2]
        if partition:
            names = [line.settings.get("partitionname", "DEFAULT") for line in lines]
            rows = {name: row for row, name in enumerate(names) if name.upper() != "DEFAULT"}
            if partition not in rows:
                raise WorkloadError(f"no partition {partition!r}", field="--change", hint=", ".join(rows))
            line = lines[rows[partition]]
            for word in words.values():
                line = line._replace(text=_with_setting(line.text, word), change=place)
            lines[rows[partition]] = line
            continue
        for name, word in words.items():
            if name not in _CLOCKS | _READ:
                hint = f"did you mean {nearest_name(name, [*_CLOCKS, *_READ])!r}?"
                raise WorkloadError(f"{name!r} is not simulated", field="--change", hint=hint)
            key = _PARAMETERS if name in _CLOCKS else name
            general = [row for row, line in enumerate(lines) if not line.settings.keys() & _KEYS.keys()]
            row = max((row for row in general if key in lines[row].settings), default=len(lines))
            line = lines[row] if row < len(lines) else ConfLine(place, 1, "")
            setting = word
            if name in _CLOCKS:
                unset = "SchedulerParameters", ""
                head, items = next((item for item in line.items if item[0].lower() == key), unset)
                setting = f"{head}={_with_setting(items, word, ',')}"
            lines[row:] = [
                line._replace(text=_with_setting(line.text, setting), change=place),
                *lines[row + 1 :],
            ]
    return lines


def _with_setting(text: str, word: str, between: str | None = None) -> str:
    """Return a text of settings, with spaces or another sign between them, with one of them set."""
    name = word.partition("=")[0].lower()
    items = [item for item in text.split(between) if item]
    places = [k for k, item in enumerate(items) if item.partition("=")[0].lower() == name]
    if places:
        items[places[-1]] = word
    return (between or " ").join(items if places else [*items, word])


class PlacedReader:
    """Reads values at a place in a file, which faults name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place: tuple[Path | str, int] = (path, 1)

    def fault(self, message: str, field: str, hint: str | None = None) -> WorkloadError:
        """Return the error of a value at the place."""
        path, line = self.place
        return WorkloadError(message, path=path, line=line, field=field, hint=hint)

    def whole(self, text: str, field: str) -> int:
        """Return a whole number from 0 on."""
        if not text.isdecimal() or len(text) > 15:
            raise self.fault(f"{text[:40]!r} is no whole number", field)
        return int(text)

    def seconds(self, text: str, field: str) -> int:
        """Return seconds of `minutes[:seconds]`, `hours:minutes:seconds` or `days-hours[:minutes…]`."""
        if text.upper() in {"INFINITE", "UNLIMITED"}:
            return UNLIMITED
        match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
        if match is None:
            raise self.fault(f"{text[:40]!r} is no time", field, "such as 1-02:00:00")
        days, *rest = match.groups()
        numbers = [int(number) for number in rest if number is not None]
        units = [3600, 60, 1] if days is not None or len(numbers) == 3 else [60, 1]
        pairs = zip(numbers, units, strict=False)
        return int(days or 0) * 86400 + sum(number * unit for number, unit in pairs)


class _ClusterReader(PlacedReader):
    def __init__(self, path: Path, version: str) -> None:
        super().__init__(path)
        self.version = version
        self.settings: dict[str, str] = {}
        self.places: dict[str, tuple[Path | str, int]] = {}
        self.ignored: list[str] = []
        self.limits: list[Limit] = []

    def read(self, lines: Sequence[ConfLine]) -> SlurmCluster:
        for line in lines:
            given = line.settings
            kind = next((kind for kind in _KEYS if kind in given), None)
            self.place = line.place if kind is None else (line.path, line.number)
            for name, value in given.items():
                if kind is None:
                    self._setting(name, value)
                elif name not in _KEYS[kind]:
                    self._ignore(f"{name}={value}")
        self.machine = machine_of(self.path, lines)
        nodes = tuple(self._node(name) for name in sorted(self.machine.processors_of_node, key=_natural))
        number_of = {node.name: number for number, node in enumerate(nodes)}
        enforced = set(self.settings.get("accountingstorageenforce", "").lower().split(","))
        if enforced & {"limits", "safe", "all"}:
            for name in ("sacctmgr_qos.txt", "sacctmgr_assoc.txt"):
                self._read_limits(self.path.parent / name)
        tree = "tree" in self.settings.get("topologyplugin", "")
        topology = self.path.parent / "topology.conf"
        if tree and not topology.is_file():
            self.place = self.places["topologyplugin"]
            hint = "put topology.conf beside slurm.conf, or take the line out"
            raise self.fault("the switches are in topology.conf, which is not there", "TopologyPlugin", hint)
        partitions = {name: self._partition(name, number_of) for name in self.machine.partitions}
        if not is_verified(self.version):
            self.ignored.append(f"Slurm {self.version}: rules of its source, not confirmed by recorded runs")
        return SlurmCluster(
            nodes=nodes,
            partitions=partitions,
            leaves=_leaves(topology, number_of) if tree else (),
            backfill=self.settings.get("schedulertype", "sched/backfill") == "sched/backfill",
            clocks=self._clocks(),
            priorities=self._priorities(),
            qos={name: Qos(name, priority) for name, priority in _qos_priorities(self.path.parent).items()},
            accounts=_accounts_of(self.path.parent),
            kill_wait=self._number("killwait", 30),
            overtime=60 * self._number("overtimelimit", 0),
            requeue=bool(self._number("jobrequeue", 1)),
            preemption=self._preemption(partitions),
            limits=tuple(self.limits),
            version=self.version,
            not_modelled=tuple(self.ignored),
        )

    def _setting(self, name: str, value: str) -> None:
        if name in _READ:
            self.settings[name], self.places[name] = value, self.place
        elif _matters(name) and value.lower() not in {"none", "no", "0", "(null)", "off"}:
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
                raise self.fault(
                    str(error), name_, "mend the list, or write it again with sacctmgr"
                ) from None
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
        return Node(
            name,
            self.machine.processors_of_node[name],
            self.whole(settings.get("realmemory", "1"), "RealMemory"),
            {kind: count or 1 for kind, count in self.machine.gpus_of_node.get(name, {}).items()},
            frozenset(filter(None, features.split(","))),
            self.whole(settings.get("weight", "1"), "Weight"),
        )

    def _partition(self, name: str, number_of: Mapping[str, int]) -> Partition:
        path, line, settings = self.machine.partitions[name]
        self.place = (path, line)
        nodes = tuple(sorted(number_of[host] for host in self.machine.nodes_of_partition[name]))
        priority = settings.get("priority", "1")
        shared = settings.get("oversubscribe", settings.get("shared", "NO")).upper()
        # One job at a time shares nothing, but for jobs that are suspended.
        if shared.startswith(("FORCE", "YES")) and not shared.endswith(":1"):
            self._ignore(f"OverSubscribe={shared}")
        longest = self.seconds(settings.get("maxtime", "UNLIMITED"), "MaxTime")
        if not nodes:
            message = f"the partition {name!r} has no nodes, so that no job could run in it"
            raise self.fault(message, "Nodes", "name its nodes, or take the line out")
        return Partition(
            name,
            nodes,
            self.whole(settings.get("prioritytier", priority), "PriorityTier"),
            self.whole(settings.get("priorityjobfactor", priority), "PriorityJobFactor"),
            longest,
            self.seconds(settings["defaulttime"], "DefaultTime") if "defaulttime" in settings else longest,
            self.whole(settings.get("defmempercpu", self.settings.get("defmempercpu", "0")), "DefMemPerCPU"),
            shared == "EXCLUSIVE",
            settings.get("preemptmode", ""),
            self.whole(settings.get("gracetime", "0"), "GraceTime"),
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
        self.place = self.places.get("schedulerparameters", self.place)
        known = {name: name for name in _CLOCKS} | {"max_job_bf": "bf_max_job_test"}
        read: dict[str, int] = {}
        for item in filter(None, self.settings.get("schedulerparameters", "").split(",")):
            name, _, value = item.partition("=")
            name = name.lower()
            if name in known:
                read[known[name]] = self.whole(value, name)
                if name in {"bf_interval", "bf_resolution", "sched_interval"} and not read[name]:
                    raise self.fault("0 is no interval", name)
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
            max_age=self.seconds(self.settings.get("prioritymaxage", "7-0"), "PriorityMaxAge"),
            half_life=self.seconds(
                self.settings.get("prioritydecayhalflife", "7-0"), "PriorityDecayHalfLife"
            ),
            period=self.seconds(self.settings.get("prioritycalcperiod", "5"), "PriorityCalcPeriod"),
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


def _natural(name: str) -> list[Any]:
    """Return the key of Slurm's order of nodes: n2 stands before n10."""
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.findall(r"\d+|\D+", name)]


def _leaves(path: Path, number_of: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """Return the nodes of each leaf switch; nodes that slurm.conf lacks are left out, as Slurm does."""
    leaves = []
    for line in conf_lines(path):
        given = line.settings
        if "switchname" in given and "nodes" in given:
            named = host_list(given["nodes"], line.path, line.number, "Nodes")
            leaves.append(tuple(sorted(number_of[name] for name in named if name in number_of)))
    return tuple(leaves)


def _qos_priorities(folder: Path) -> dict[str, int]:
    """Read the priority of each QOS.

    It stands in sacctmgr_qos.txt (`sacctmgr show qos -P`) or sacctmgr.script (sacctmgr's commands).
    """
    path = folder / "sacctmgr_qos.txt"
    if path.is_file():
        reader, priorities = PlacedReader(path), {}
        for line, row in read_table(path, "Name", "Priority"):
            reader.place = (path, line)
            if row["Name"]:
                priorities[row["Name"]] = reader.whole(row["Priority"] or "0", "Priority")
        return priorities
    script = folder / "sacctmgr.script"
    text = text_of(script) if script.is_file() else ""
    found = re.findall(r"^\s*(?:add|create) qos\s+(?:name=)?(\S+)(.*)$", text, re.IGNORECASE | re.MULTILINE)
    matches = {name: re.search(r"priority=(\d+)", rest, re.IGNORECASE) for name, rest in found}
    return {name: int(match[1]) if match else 0 for name, match in matches.items()}


def _accounts_of(folder: Path) -> SlurmAccounts:
    """Read accounts from a table of sacctmgr or sshare, or from sacctmgr's commands; none without a file."""
    for name, shares in (("sacctmgr_assoc.txt", "Share"), ("sshare.txt", "RawShares")):
        if (folder / name).is_file():
            accounts = SlurmAccounts()
            #: Accounts from root down to the last one: sacctmgr's tree has one blank more at each level.
            above: list[tuple[int, str]] = []
            for _, row in read_table(folder / name, "Account", "User", shares):
                account, user = row["Account"].strip(), row["User"].strip()
                number = int(row[shares]) if row[shares].isdecimal() else 1
                if user:
                    accounts.users[account, user] = number
                    continue
                depth = len(row["Account"]) - len(row["Account"].lstrip())
                above = [one for one in above if one[0] < depth]
                if account != "root":
                    parent = above[-1][1] if above else "root"
                    accounts.parent_of[account] = row.get("ParentName", "") or parent
                    accounts.shares_of[account] = number
                above.append((depth, account))
            return accounts
    script = folder / "sacctmgr.script"
    return read_slurm_accounts(script) if script.is_file() else SlurmAccounts()


def read_table(
    path: Path, *needed: str, hint: str = "write it again with sacctmgr"
) -> list[tuple[int, dict[str, str]]]:
    """Read the lines of a table with bars between its columns, as `sacctmgr -P` and `squeue -o` write it.

    Raises
    ------
    WorkloadError
        If the table cannot be read or lacks a needed column, or a line is cut off.
    """
    lines = text_of(path).splitlines()
    head = lines[0].split("|") if lines else []
    missing = [name for name in needed if name not in head]
    if missing:
        raise WorkloadError(f"has no column {missing[0]}", path=path, line=1, hint=hint)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        values = line.split("|")
        if not line.strip():
            continue
        if len(values) != len(head):
            message = f"has {len(values)} of {len(head)} columns: the file is cut off or damaged"
            raise WorkloadError(message, path=path, line=number, hint=hint)
        rows.append((number, dict(zip(head, values, strict=True))))
    return rows
