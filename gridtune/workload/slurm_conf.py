"""The machine that a `slurm.conf` describes: its nodes and partitions, with their processors.

Source: https://slurm.schedmd.com/slurm.conf.html
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gridtune.errors import WorkloadError

__all__ = ["SlurmMachine", "read_slurm_conf"]

#: Nodes that a line may name: as many as no cluster has.
_MOST_NODES = 1_000_000
_RANGES = re.compile(r"([^\[\],]*)\[([^\]]*)\]([^,]*)|([^,]+)")
_NUMBER = re.compile(r"[0-9]{1,18}")
_SETTING = re.compile(r"(\w+)=(\S+)")


@dataclass(frozen=True)
class SlurmMachine:
    """Nodes and partitions.

    Attributes
    ----------
    processors_of_node
        Processors of each node, by its name.
    nodes_of_partition
        Names of the nodes of each partition, by its name.
    """

    processors_of_node: Mapping[str, int]
    nodes_of_partition: Mapping[str, frozenset[str]]

    @property
    def processors(self) -> int:
        """Processors of all nodes that are in a partition; of all nodes where there are no partitions."""
        used = frozenset().union(*self.nodes_of_partition.values())
        return sum(count for node, count in self.processors_of_node.items() if not used or node in used)

    @property
    def processors_of_partition(self) -> dict[str, int]:
        """Processors of each partition; nodes may be in several."""
        return {
            name: sum(self.processors_of_node[node] for node in nodes)
            for name, nodes in self.nodes_of_partition.items()
        }


def read_slurm_conf(path: Path) -> SlurmMachine:
    """Read nodes and partitions; files that it includes are read beside it.

    Raises
    ------
    WorkloadError
        Naming file and line: what cannot be read, a node without a name, a partition of unknown nodes.
    """
    defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
    nodes: dict[str, int] = {}
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
        nodes |= dict.fromkeys(_expanded(name, file, number), processors)
    if not nodes:
        hint = "a line such as NodeName=n[1-4] CPUs=32"
        raise WorkloadError("names no nodes", path=path, hint=hint)
    return SlurmMachine(nodes, {name: _nodes(*place, nodes) for name, place in partitions.items()})


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
