"""The files of a Slurm cluster: its nodes, partitions and GPUs, its accounts and their shares.

Sources: https://slurm.schedmd.com/slurm.conf.html; https://slurm.schedmd.com/gres.conf.html;
https://slurm.schedmd.com/sacctmgr.html, "FLAT FILE DUMP"
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from gridtune.errors import WorkloadError
from gridtune.workload.formats.compression import open_log

#: What sizes are counted in.
Unit = Literal["processors", "nodes", "GPUs"]

#: Nodes that a line may name: as many as no cluster has.
_MOST_NODES = 1_000_000
_RANGES = re.compile(r"([^\[\],]*)\[([^\]]*)\]([^,]*)|([^,]+)")
_NUMBER = re.compile(r"[0-9]{1,18}")
#: States of nodes that Slurm does not know yet, and of those that it starts no job on.
_ABSENT, OUT_OF_SERVICE = {"FUTURE", "DYNAMIC_FUTURE"}, {"DOWN", "DRAIN", "FAIL", "FAILING"}
_SETTING = re.compile(r"(?<![^\s])(\w+)\s*=\s*(\"[^\"]*\"|\S+)")
#: A name whose value is left empty at the end of a line.
_EMPTY = re.compile(r"\s*\w+\s*=\s*")


class ConfLine(NamedTuple):
    """A line of a configuration, continued lines joined, without its comment; and the change made to it."""

    path: Path | str
    number: int
    text: str
    change: str = ""

    @property
    def place(self) -> tuple[Path | str, int]:
        """The place that a fault names."""
        return (self.change, 1) if self.change else (self.path, self.number)

    @property
    def items(self) -> list[tuple[str, str]]:
        """The names and values of its settings."""
        return [(name, value.strip('"')) for name, value in _SETTING.findall(self.text)]

    @property
    def settings(self) -> dict[str, str]:
        """The values of its settings, by their names in small letters."""
        return {name.lower(): value for name, value in self.items}


class _ConfEntry(NamedTuple):
    """A node or a partition: the place of its line, and its settings with the defaults before it."""

    path: Path | str
    line: int
    settings: Mapping[str, str]

    def state(self) -> str:
        return self.settings.get("state", "UNKNOWN").upper()

    def processors(self) -> int:
        """Return the processors of a node: CPUs or, without it, boards × sockets × cores × threads."""

        def number(name: str, default: int) -> int:
            text = self.settings.get(name)
            if text is None:
                return default
            if not _NUMBER.fullmatch(text) or int(text) < 1:
                message = f"{text[:40]!r} is not a number above 0"
                raise WorkloadError(message, path=self.path, line=self.line, field=name)
            return int(text)

        boards = number("boards", 1)
        sockets = number("sockets", boards * number("socketsperboard", 1))
        made = sockets * number("corespersocket", 1) * number("threadspercore", 1)
        return number("cpus", number("procs", made))

    def features(self) -> list[str]:
        return self.settings.get("feature", self.settings.get("features", "")).split(",")

    def nodes_of(
        self, nodes: Mapping[str, _ConfEntry], sets: Mapping[str, Iterable[str]] | None = None
    ) -> frozenset[str]:
        """Return the names of a partition's or set's nodes: those named, of sets named, with its feature."""
        text = self.settings.get("nodes", "")
        feature = self.settings.get("feature")
        featured = {
            name for name, node in nodes.items() if feature is not None and feature in node.features()
        }
        if text.upper() == "ALL":
            return frozenset(nodes)
        named = [] if text in ("", "(null)") else host_list(text, self.path, self.line)
        kind, sets = ("set", {}) if sets is None else ("partition", sets)
        unknown = next((name for name in named if name not in nodes and name not in sets), None)
        if unknown is not None:
            raise WorkloadError(
                f"the {kind} has a node {unknown!r}, which no line describes",
                path=self.path,
                line=self.line,
                field="Nodes",
                hint="add a line NodeName=… or NodeSet=…, or take it out of the list",
            )
        return frozenset(featured).union(*(sets.get(name, [name]) for name in named))


@dataclass(frozen=True)
class _SlurmMachine:
    """Nodes and partitions.

    Nodes that are FUTURE, or CLOUD without a `ResumeProgram`, are left out: nothing starts them.

    Attributes
    ----------
    nodes_by_name, partitions
        The entries of nodes and partitions, by their names.
    processors_of_node
        Processors of each node, by its name.
    nodes_of_partition
        Names of the nodes of each partition that are in service, by its name.
    gpus_of_node
        GPUs of each node that has some, by their type; 0 where the node does not say their number.
    """

    nodes_by_name: Mapping[str, _ConfEntry]
    partitions: Mapping[str, _ConfEntry]
    processors_of_node: Mapping[str, int]
    nodes_of_partition: Mapping[str, frozenset[str]]
    gpus_of_node: Mapping[str, Mapping[str, int]]

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes that are in a partition; all nodes where there are no partitions."""
        return frozenset().union(*self.nodes_of_partition.values()) or frozenset(self.processors_of_node)

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs of all `nodes` by their type, "" where none is said."""
        total: Counter[str] = Counter()
        for node in self.nodes:
            total.update(self.gpus_of_node.get(node, {}))
        return dict(total)

    def size(self, nodes: Iterable[str], unit: Unit) -> int:
        """Return the number of processors, GPUs or nodes of some nodes."""
        if unit == "nodes":
            return len(frozenset(nodes))
        if unit == "GPUs":
            return sum(sum(self.gpus_of_node.get(node, {}).values()) for node in nodes)
        return sum(self.processors_of_node[node] for node in nodes)

    def with_counted_gpus(self, gres: Path, needed: bool = False) -> _SlurmMachine:
        """Return a machine with the GPUs whose number its nodes do not say, of a `gres.conf` if any."""
        counted = _gpus_of_gres(gres, self.gpus_of_node) if needed or gres.is_file() else {}
        gpus = {
            # Where a node says no number, gres.conf does, and else there is one.
            node: own if all(own.values()) else counted.get(node) or {kind: n or 1 for kind, n in own.items()}
            for node, own in self.gpus_of_node.items()
        }
        return replace(self, gpus_of_node=gpus)


def read_slurm_conf(path: Path, gres_conf: Path | None = None) -> _SlurmMachine:
    """Read nodes, their GPUs, and partitions; files that it includes are read beside it.

    Parameters
    ----------
    path
        The `slurm.conf`.
    gres_conf
        The `gres.conf`, for GPUs whose number the nodes do not say; by default that beside it, if any.

    Raises
    ------
    WorkloadError
        Naming file and line: an unreadable file, a node without a name, a partition of unknown nodes.
    """
    return machine_of(path, conf_lines(path)).with_counted_gpus(
        gres_conf or path.parent / "gres.conf", needed=gres_conf is not None
    )


def machine_of(path: Path, lines: Iterable[ConfLine]) -> _SlurmMachine:
    """Return the nodes and partitions in the lines of a `slurm.conf`.

    Raises
    ------
    WorkloadError
        As of `read_slurm_conf`.
    """
    lines = list(lines)
    defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}, "nodeset": {}}
    entries: dict[str, dict[str, _ConfEntry]] = {kind: {} for kind in defaults}
    processors: dict[str, int] = {}
    gpus: dict[str, dict[str, int]] = {}
    idled: set[str] = set()
    for line in lines:
        given = line.settings
        kind = next((kind for kind in defaults if kind in given), None)
        file, number = line.place
        if "downnodes" in given and given.get("state", "DOWN").upper() in OUT_OF_SERVICE:
            idled |= {*host_list(given["downnodes"], file, number, "DownNodes")}
        if kind is None:
            continue
        name = given.pop(kind)
        entry = _ConfEntry(file, number, {**defaults[kind], **given})
        if name.upper() == "DEFAULT":
            defaults[kind] |= given
        elif kind != "nodename":
            entries[kind][name] = entry
        else:
            named = host_list(name, file, number)
            try:
                own = gpus_in(entry.settings.get("gres", ""))
            except ValueError as error:
                raise WorkloadError(str(error), path=file, line=number, field="Gres") from None
            entries[kind] |= dict.fromkeys(named, entry)
            processors |= dict.fromkeys(named, entry.processors())
            gpus |= dict.fromkeys(named, own)
    every, partitions = entries["nodename"], entries["partitionname"]
    resumes = any("resumeprogram" in line.settings for line in lines)
    absent = _ABSENT if resumes else _ABSENT | {"CLOUD"}
    nodes = {name: entry for name, entry in every.items() if entry.state() not in absent}
    if not nodes:
        message = "has no node in service: all are FUTURE or CLOUD" if every else "names no nodes"
        hint = "ResumeProgram= starts CLOUD nodes" if every else "a line such as NodeName=n[1-4] CPUs=32"
        raise WorkloadError(message, path=path, hint=hint)
    idled |= {name for name, entry in nodes.items() if entry.state() in OUT_OF_SERVICE}
    sets = {name: entry.nodes_of(every) for name, entry in entries["nodeset"].items()}
    inside = {name: entry.nodes_of(every, sets) for name, entry in partitions.items()}
    return _SlurmMachine(
        nodes,
        partitions,
        {name: processors[name] for name in nodes},
        {name: (some & nodes.keys()) - idled for name, some in inside.items()},
        {name: gpus[name] for name in nodes if gpus[name]},
    )


def _gpus_of_gres(path: Path, gpus: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the GPUs of each node by a `gres.conf`; its lines are about all nodes with GPUs by default."""
    everywhere = list(gpus)
    counted: dict[str, dict[str, int]] = {}
    for line in conf_lines(path):
        file, number, settings = line.path, line.number, line.settings
        named = settings.get("nodename")
        nodes = everywhere if named is None else host_list(named, file, number)
        if settings.get("name", "").lower() != "gpu":
            continue
        count = settings.get("count")
        if count is not None and not count.isdecimal():
            raise WorkloadError(f"{count!r} is no number of GPUs", path=file, line=number, field="Count")
        devices = settings.get("file", settings.get("multiplefiles"))
        many = (
            int(count)
            if count is not None
            else 1
            if devices is None
            else len(host_list(devices, file, number, "File"))
        )
        for node in nodes:
            own = counted.setdefault(node, {})
            kind = settings.get("type", "")
            own[kind] = own.get(kind, 0) + many
    return counted


def text_of(path: Path) -> str:
    """Return the text of a file, unpacked as its suffix says."""
    with open_log(path) as stream:
        return stream.read().decode("utf-8", "replace").replace("\r\n", "\n")


def conf_lines(path: Path, including: tuple[Path, ...] = ()) -> Iterator[ConfLine]:
    """Yield the lines of a file and of those that it includes."""
    joined, begins = "", 1
    for number, raw in enumerate(text_of(path).split("\n"), start=1):
        begins = number if not joined else begins
        joined += re.split(r"(?<!\\)#", raw, maxsplit=1)[0].rstrip()
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        included = re.fullmatch(r"\s*include\s+(\S+)", joined, re.IGNORECASE)
        if included:
            named = Path(included[1].strip('"'))
            target = path.parent / named
            if named.is_absolute() and not target.is_file() and named.name != path.name:
                # A copy of /etc/slurm has the files that its lines name by their old place.
                target = path.parent / named.name
            if target.resolve() in {file.resolve() for file in (*including, path)}:
                raise WorkloadError(
                    f"includes {included[1]}, which includes it",
                    path=path,
                    line=begins,
                    hint="take one of the two Include lines out",
                )
            if not target.is_file():
                hint = "put the file there, or take the line out"
                raise WorkloadError(
                    f"includes {included[1]}, which is not there", path=path, line=begins, hint=hint
                )
            yield from conf_lines(target, (*including, path))
        elif joined.strip():
            rest = _SETTING.sub("", joined)
            if rest.strip() and not _EMPTY.fullmatch(rest):
                message = f"{rest.strip()[:40]!r} is no setting"
                hint = "settings are NAME=VALUE; fill in a template first"
                raise WorkloadError(message, path=path, line=begins, hint=hint)
            yield ConfLine(path, begins, joined)
        joined = ""


def host_list(text: str, path: Path | str, line: int, field: str = "NodeName") -> list[str]:
    """Return the names that a host list stands for: `n[001-003,7],login` has five."""
    names = list(itertools.islice(_each_name(text, path, line, field), _MOST_NODES + 1))
    if len(names) > _MOST_NODES:
        message = f"{text[:40]!r} is more than {_MOST_NODES:,} names"
        raise WorkloadError(message, path=path, line=line, field=field)
    return names


def _each_name(text: str, path: Path | str, line: int, field: str) -> Iterator[str]:
    for before, ranges, after, plain in _RANGES.findall(text):
        if plain:
            yield plain
            continue
        for piece in ranges.split(","):
            low, dash, high = piece.partition("-")
            ends = (low, high) if dash else (low, low)
            if not all(map(_NUMBER.fullmatch, ends)) or int(ends[0]) > int(ends[1]):
                message = f"{piece[:40]!r} is no range of numbers, such as 001-087"
                raise WorkloadError(message, path=path, line=line, field=field)
            for number in range(int(ends[0]), int(ends[1]) + 1):
                yield from _each_name(f"{before}{number:0{len(low)}d}{after}", path, line, field)


_FACTORS = {"": 1, "k": 1024, "m": 1024**2}


def gpus_in(text: str) -> dict[str, int]:
    """Return the GPUs in a list such as `gpu:a100:4(S:0-1),gpu:2,license:1`; 0 of a type without a count.

    Raises
    ------
    ValueError
        If a count is no number.
    """
    gpus: dict[str, int] = {}
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        name, *rest = item.strip().split(":")
        if name.lower() != "gpu":
            continue
        rest = [part for part in rest if part != "no_consume"]
        last = rest[-1] if rest else ""
        counted = bool(re.fullmatch(r"\d+[kKmM]?", last))
        if len(rest) > 1 and not counted:
            raise ValueError(f"{last!r} is no number of GPUs")
        kind = ":".join(rest[:-1] if counted else rest)
        count = int(last.rstrip("kKmM")) * _FACTORS[last.lstrip("0123456789").lower()] if counted else 0
        gpus[kind] = gpus.get(kind, 0) + count
    return gpus


_DUMPED = re.compile(r"\s*(Cluster|Parent|Account|User)\s*-\s*('[^']*'|[^:\s]+)(.*)", re.IGNORECASE)
_OPTION = re.compile(r":(\w+)\+?=('[^']*'|[^:]*)")


@dataclass
class SlurmAccounts:
    """The tree of accounts.

    Attributes
    ----------
    parent_of, shares_of
        The parent of each account ("root" at the top), and its shares (Fairshare), 1 where none are said.
    users
        (account, user) to the user's shares in it.
    """

    parent_of: dict[str, str] = field(default_factory=dict)
    shares_of: dict[str, int] = field(default_factory=dict)
    users: dict[tuple[str, str], int] = field(default_factory=dict)


def read_slurm_accounts(path: Path) -> SlurmAccounts:
    """Read accounts, users and shares; anything else in the file is passed over.

    Raises
    ------
    WorkloadError
        If it cannot be read, has no accounts, or a line has shares that are no number; the message names it.
    """
    accounts, parent = SlurmAccounts(), "root"
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        kind, name, options = _entry(line, path, number)
        if kind == "parent":
            parent = name
        elif kind in {"account", "user"}:
            fairshare = options.get("fairshare", "1")
            if fairshare.lower() != "parent" and not fairshare.isdecimal():
                message = f"{fairshare!r} is no number of shares"
                raise WorkloadError(message, path=path, line=number, field="Fairshare")
            shares = int(fairshare) if fairshare.isdecimal() else 1
            if kind == "account":
                accounts.parent_of[name] = options.get("parent", parent)
                accounts.shares_of[name] = shares
            else:
                of = options.get("account", options.get("defaultaccount", parent))
                accounts.users[of if parent == "root" else parent, name] = shares
    if not accounts.parent_of:
        hint = "`sacctmgr dump CLUSTER file=FILE` writes one"
        raise WorkloadError("names no accounts", path=path, hint=hint)
    return accounts


def _entry(line: str, path: Path, number: int) -> tuple[str, str, dict[str, str]]:
    """Return kind, name and options of a line of either form; an empty kind for any other line."""
    if dumped := _DUMPED.fullmatch(line):
        kind, name, rest = dumped.groups()
        options = {key.lower(): value.strip("'") for key, value in _OPTION.findall(rest)}
        return kind.lower(), name.strip("'"), options
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise WorkloadError(f"cannot be read: {error}", path=path, line=number) from None
    words = [word for word in words if word not in {"sacctmgr", "-i", "--immediate"}]
    if len(words) < 2 or words[0].lower() not in {"add", "create"}:
        return "", "", {}
    options = {key.lower(): value for key, sign, value in (word.partition("=") for word in words[2:]) if sign}
    bare = next((word for word in words[2:] if "=" not in word), "")
    return words[1].lower(), options.get("name", bare), options
