"""The machine that a `slurm.conf` describes: its nodes and partitions, with their processors and GPUs.

Source: https://slurm.schedmd.com/slurm.conf.html
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gridtune.errors import WorkloadError
from gridtune.workload.slurm_gres import Gpus, gpus_in, gpus_of_lines

__all__ = ["SlurmMachine", "Unit", "read_slurm_conf"]

#: What sizes are counted in.
Unit = Literal["processors", "nodes", "GPUs"]

#: Nodes that a line may name: as many as no cluster has.
_MOST_NODES = 1_000_000
_RANGES = re.compile(r"([^\[\],]*)\[([^\]]*)\]([^,]*)|([^,]+)")
_NUMBER = re.compile(r"[0-9]{1,18}")
_SETTING = re.compile(r"(?<!\w)(\w+)=(\S+)")


@dataclass(frozen=True)
class SlurmMachine:
    """Nodes and partitions.

    Attributes
    ----------
    processors_of_node
        Processors of each node, by its name.
    nodes_of_partition
        Names of the nodes of each partition, by its name.
    gpus_of_node
        GPUs of each node that has some, by their type.
    """

    processors_of_node: Mapping[str, int]
    nodes_of_partition: Mapping[str, frozenset[str]]
    gpus_of_node: Mapping[str, Gpus] = field(default_factory=dict)

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes that are in a partition; all nodes where there are no partitions."""
        return frozenset().union(*self.nodes_of_partition.values()) or frozenset(self.processors_of_node)

    @property
    def processors(self) -> int:
        """Processors of all `nodes`."""
        return self.size(self.nodes, "processors")

    @property
    def processors_of_partition(self) -> dict[str, int]:
        """Processors of each partition; nodes may be in several."""
        return {name: self.size(nodes, "processors") for name, nodes in self.nodes_of_partition.items()}

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs of all `nodes` by their type, "" where none is said."""
        total: Counter[str] = Counter()
        for node in self.nodes:
            total.update(self.gpus_of_node.get(node, {}))
        return dict(total)

    def size(self, nodes: Iterable[str], unit: Unit) -> int:
        """Return how many processors, GPUs or nodes some nodes are."""
        if unit == "nodes":
            return len(frozenset(nodes))
        if unit == "GPUs":
            return sum(sum(self.gpus_of_node.get(node, {}).values()) for node in nodes)
        return sum(self.processors_of_node[node] for node in nodes)


def read_slurm_conf(path: Path, gres_conf: Path | None = None) -> SlurmMachine:
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
        Naming file and line: what cannot be read, a node without a name, a partition of unknown nodes.
    """
    defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
    nodes: dict[str, int] = {}
    gpus: dict[str, dict[str, int]] = {}
    partitions: dict[str, tuple[Path, int, str]] = {}
    for file, number, line in _lines(path, ()):
        settings = {name.lower(): value for name, value in _SETTING.findall(line)}
        kind = next((kind for kind in defaults if kind in settings), None)
        if kind is None:
            continue
        name = settings.pop(kind)
        if name.upper() == "DEFAULT":
            defaults[kind] |= settings
            continue
        settings = {**defaults[kind], **settings}
        if kind == "partitionname":
            partitions[name] = (file, number, settings.get("nodes", ""))
            continue
        processors = _processors(settings, file, number)
        named = list(_expanded(name, file, number))
        nodes |= dict.fromkeys(named, processors)
        try:
            node_gpus = gpus_in(settings.get("gres", ""))
        except ValueError as error:
            raise WorkloadError(str(error), path=file, line=number, field="Gres") from None
        gpus |= dict.fromkeys(named, node_gpus) if node_gpus else {}
    if not nodes:
        hint = "a line such as NodeName=n[1-4] CPUs=32"
        raise WorkloadError("names no nodes", path=path, hint=hint)
    beside = path.parent / "gres.conf"
    gres = gres_conf or (beside if beside.is_file() else None)
    counted = {} if gres is None else gpus_of_lines(_gres_lines(gres, gpus))
    gpus = {node: _counted(own, counted.get(node, {})) for node, own in gpus.items()}
    return SlurmMachine(nodes, {name: _nodes(*place, nodes) for name, place in partitions.items()}, gpus)


def _gres_lines(path: Path, gpus: Iterable[str]) -> Iterator[tuple[Path, int, dict[str, str], list[str]]]:
    """Yield the lines of a `gres.conf` with the nodes that they are about: all those with GPUs by default."""
    everywhere = list(gpus)
    for file, number, line in _lines(path, ()):
        settings = {name.lower(): value for name, value in _SETTING.findall(line)}
        named = settings.get("nodename")
        yield file, number, settings, everywhere if named is None else list(_expanded(named, file, number))


def _counted(own: Gpus, counted: Gpus) -> dict[str, int]:
    """Return a node's GPUs; where it says no number, `gres.conf` does, and else there is one."""
    if all(own.values()) or not own:
        return dict(own)
    return dict(counted) if counted else {kind: count or 1 for kind, count in own.items()}


def _lines(path: Path, including: tuple[Path, ...]) -> Iterator[tuple[Path, int, str]]:
    """Yield file, number and text of each line without comments, continued lines joined."""
    if path in including:
        raise WorkloadError("includes itself", path=path)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror}", path=path) from error
    joined, begins = "", 1
    for number, raw in enumerate(text.split("\n"), start=1):
        begins = number if not joined else begins
        joined += re.split(r"(?<!\\)#", raw, maxsplit=1)[0].rstrip()
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        included = re.fullmatch(r"\s*include\s+(\S+)", joined, re.IGNORECASE)
        if included:
            yield from _lines(path.parent / included[1], (*including, path))
        elif joined.strip():
            yield path, begins, joined
        joined = ""


def _processors(settings: Mapping[str, str], path: Path, line: int) -> int:
    """Return the processors of a node: CPUs or, without it, boards × sockets × cores × threads."""

    def number(name: str, default: int) -> int:
        text = settings.get(name)
        if text is None:
            return default
        if not _NUMBER.fullmatch(text) or int(text) < 1:
            raise WorkloadError(f"{text[:40]!r} is not a number above 0", path=path, line=line, field=name)
        return int(text)

    boards = number("boards", 1)
    sockets = number("sockets", boards * number("socketsperboard", 1))
    made = sockets * number("corespersocket", 1) * number("threadspercore", 1)
    return number("cpus", number("procs", made))


def _nodes(path: Path, line: int, text: str, nodes: Mapping[str, int]) -> frozenset[str]:
    if text.upper() == "ALL":
        return frozenset(nodes)
    named = [] if text.strip('"') in ("", "(null)") else _expanded(text, path, line)
    unknown = next((name for name in named if name not in nodes), None)
    if unknown is not None:
        message = f"the partition has a node {unknown!r}, which no line describes"
        raise WorkloadError(message, path=path, line=line, field="Nodes")
    return frozenset(named)


def _expanded(text: str, path: Path, line: int) -> list[str]:
    """Return the names that a host list stands for: `n[001-003,7],login` has five."""
    names = list(itertools.islice(_each_name(text, path, line), _MOST_NODES + 1))
    if len(names) > _MOST_NODES:
        message = f"{text[:40]!r} is more than {_MOST_NODES:,} nodes"
        raise WorkloadError(message, path=path, line=line, field="NodeName")
    return names


def _each_name(text: str, path: Path, line: int) -> Iterator[str]:
    for before, ranges, after, plain in _RANGES.findall(text):
        if plain:
            yield plain
            continue
        for piece in ranges.split(","):
            low, dash, high = piece.partition("-")
            if not _NUMBER.fullmatch(low) or (
                dash and not (_NUMBER.fullmatch(high) and int(low) <= int(high))
            ):
                message = f"{piece[:40]!r} is no range of numbers, such as 001-087"
                raise WorkloadError(message, path=path, line=line, field="NodeName")
            for number in range(int(low), int(high or low) + 1):
                yield from _each_name(f"{before}{number:0{len(low)}d}{after}", path, line)
