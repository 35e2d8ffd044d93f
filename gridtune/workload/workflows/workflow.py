"""`Workflow`: the tasks of one application and their dependencies, in columns; and generated workflows.

References
----------
G. Singh, C. Kesselman, E. Deelman, HPDC 2007, sections 3, 5 and 6 (table 1); H. Topcuoglu, S. Hariri,
M.-Y. Wu, IEEE TPDS 13(3), 2002, section 5.1 (uniform run times around a mean).
"""

from __future__ import annotations

import graphlib
import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError
from gridtune.types import FloatArray, IntArray
from gridtune.workload.fields import LARGEST_TIME, LARGEST_WIDTH
from gridtune.workload.generators.draws import check_range, stream

#: Bytes per second at which `communication` is converted to bytes.
_BANDWIDTH = 1e8


class Neighbours(NamedTuple):
    """The parents, or the children, of every task, as compressed rows.

    Attributes
    ----------
    offsets
        Shape (n + 1,), int64: those of task i are `offsets[i] : offsets[i + 1]` of the columns below.
    task
        Shape (m,), int64: the neighbour, ascending within a row.
    volume
        Shape (m,), float64 bytes, sent along the edge.
    """

    offsets: IntArray
    task: IntArray
    volume: FloatArray


@dataclass(frozen=True, eq=False)
class Workflow:
    """A directed acyclic graph of rigid tasks.

    A workflow is immutable and always valid: names are distinct, times and volumes finite and not negative,
    every task needs at least one processor, edges are distinct, and there is no cycle.

    Attributes
    ----------
    names
        n names, one for each task.
    run_time
        Shape (n,), float64 seconds, ≥ 0; or (n, sites) where run times differ from site to site.
    processors
        Shape (n,), int64, ≥ 1: the processors of each task.
    parent, child
        Shape (m,), int64: edge e leads from task `parent[e]` to task `child[e]`.
    volume
        Shape (m,), float64 bytes, ≥ 0, that the parent sends to the child; by default nothing.
    name
        Its name in tables and plots.
    cleaning
        Cleaning rules it was read with, and how often each was applied.

    Raises
    ------
    WorkloadError
        Naming the task at fault.
    """

    names: tuple[str, ...]
    run_time: FloatArray
    processors: IntArray
    parent: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    child: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    volume: FloatArray = field(default_factory=lambda: np.zeros(0))
    name: str = "workflow"
    cleaning: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "names", tuple(self.names))
        set_field(self, "cleaning", MappingProxyType(dict(self.cleaning)))
        volume = self.volume if len(self.volume) else np.zeros(len(self.parent))
        for name, values in (("run_time", self.run_time), ("volume", volume)):
            set_field(self, name, _frozen(np.array(values, dtype=np.float64)))
        for name in ("processors", "parent", "child"):
            set_field(self, name, _frozen(_whole(name, getattr(self, name))))
        self._check_shapes()
        self._check_tasks()
        self._check_edges()

    def __reduce__(self) -> tuple[Any, ...]:
        others = (getattr(self, attribute.name) for attribute in fields(self)[:-1])
        return (Workflow, (*others, dict(self.cleaning)))

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Workflow({self.name!r}, {len(self):,} tasks, {len(self.parent):,} edges)"

    def _check_shapes(self) -> None:
        count = len(self.names)
        if count == 0:
            raise WorkloadError("a workflow without tasks")
        if self.run_time.ndim not in (1, 2) or self.run_time.shape[-1] == 0:
            shape = self.run_time.shape
            raise WorkloadError(f"run times come as (n,) or (n, sites), not {shape}", field="run_time")
        for name, column in (("run_time", self.run_time), ("processors", self.processors)):
            if len(column) != count:
                raise WorkloadError(f"{count} tasks, but {len(column)} {name}", field=name)
        for name in ("child", "volume"):
            if getattr(self, name).shape != self.parent.shape:
                message = f"{len(self.parent)} edges, but {len(getattr(self, name))} {name}"
                raise WorkloadError(message, field=name)

    def _check_tasks(self) -> None:
        if len(set(self.names)) < len(self):
            duplicate = Counter(self.names).most_common(1)[0][0]
            raise WorkloadError(f"two tasks are named {duplicate!r}", field="names")
        times = self.run_time.reshape(len(self), -1)
        bad = ~((times >= 0) & (times <= LARGEST_TIME)).all(axis=1)
        for task in np.flatnonzero(bad)[:1]:
            value = times[task] if times.shape[1] > 1 else times[task, 0]
            raise WorkloadError(f"task {self.names[task]!r} runs for {value} s", field="run_time")
        for task in np.flatnonzero((self.processors < 1) | (self.processors > LARGEST_WIDTH))[:1]:
            message = f"task {self.names[task]!r} needs {self.processors[task]} processors"
            raise WorkloadError(message, field="processors")

    def _check_edges(self) -> None:
        count = len(self)
        for name in ("parent", "child"):
            ends = getattr(self, name)
            for edge in np.flatnonzero((ends < 0) | (ends >= count))[:1]:
                message = f"edge {edge + 1} names task {ends[edge]} of {count} (they count from 0)"
                raise WorkloadError(message, field=name)
        for edge in np.flatnonzero(~((self.volume >= 0) & (self.volume < math.inf)))[:1]:
            message = f"{self._edge(edge)} carries {self.volume[edge]} bytes"
            raise WorkloadError(message, field="volume")
        order = np.lexsort((self.child, self.parent))
        same = (np.diff(self.parent[order]) == 0) & (np.diff(self.child[order]) == 0)
        for edge in order[1:][same][:1]:
            raise WorkloadError(f"{self._edge(edge)} is listed twice", field="parent")
        _ = self.level

    def _edge(self, edge: int) -> str:
        return f"the edge from {self.names[self.parent[edge]]!r} to {self.names[self.child[edge]]!r}"

    @cached_property
    def children(self) -> Neighbours:
        """The children of every task."""
        return _rows(self.parent, self.child, self.volume, len(self))

    @cached_property
    def parents(self) -> Neighbours:
        """The parents of every task."""
        return _rows(self.child, self.parent, self.volume, len(self))

    @cached_property
    def level(self) -> IntArray:
        """Shape (n,), int64: 0 for a task without parents, else 1 + the greatest level of its parents."""
        graph = graphlib.TopologicalSorter[int](dict.fromkeys(range(len(self)), ()))
        for parent, child in zip(self.parent.tolist(), self.child.tolist(), strict=True):
            graph.add(child, parent)
        try:
            graph.prepare()
        except graphlib.CycleError as fault:
            cycle = fault.args[1][:-1]
            first = cycle.index(min(cycle))
            cycle = cycle[first:] + cycle[:first]
            path = " → ".join(repr(self.names[task]) for task in (*cycle[:6], *cycle[6:][-1:]))
            message = f"tasks wait for each other: {path} → {self.names[cycle[0]]!r}"
            raise WorkloadError(message, field="parent", hint="a workflow has no cycle") from None
        level, depth = np.zeros(len(self), np.int64), 0
        while graph.is_active():
            ready = graph.get_ready()
            level[list(ready)] = depth
            graph.done(*ready)
            depth += 1
        return _frozen(level)

    @cached_property
    def order(self) -> IntArray:
        """Shape (n,), int64: the tasks by level, then position, so that parents come before children."""
        return _frozen(np.argsort(self.level, kind="stable").astype(np.int64))

    @property
    def widest(self) -> int:
        """The number of processors of the widest task."""
        return int(self.processors.max())

    @cached_property
    def work(self) -> float:
        """Σ run time × processors, processor-seconds: the allocation cost of best effort (equation 9).

        Of run times that differ by site the least counts.
        """
        return float((self.run_time.reshape(len(self), -1).min(axis=1) * self.processors).sum())

    @cached_property
    def critical_path(self) -> float:
        """Seconds of the longest chain of run times, without transfers: no schedule is shorter."""
        offsets, parent, _ = self.parents
        least = self.run_time.reshape(len(self), -1).min(axis=1)
        end = np.zeros(len(self))
        for task in self.order.tolist():
            before = parent[offsets[task] : offsets[task + 1]]
            end[task] = least[task] + (end[before].max() if len(before) else 0.0)
        return float(end.max())

    @cached_property
    def checksum(self) -> str:
        """A digest of run times, processors and edges."""
        digest = hashlib.sha256(repr(self.run_time.shape).encode())
        for column in (self.run_time, self.processors, self.parent, self.child, self.volume):
            digest.update(column.tobytes())
        return digest.hexdigest()

    def in_whole_seconds(self) -> Workflow:
        """Return the workflow with run times rounded up to whole seconds, the unit of a site's queue."""
        return replace(self, run_time=np.ceil(self.run_time))

    def check_fits(self, processors: Sequence[int]) -> None:
        """Refuse a workflow with a task that is wider than every one of the sites.

        Raises
        ------
        WorkloadError
            Naming the widest task.
        """
        most = max(processors, default=0)
        if self.widest > most:
            task = int(np.argmax(self.processors))
            wide = f"task {self.names[task]!r} needs {self.widest} processors"
            message = f"{wide}, and the largest site has {most}"
            raise WorkloadError(message, field="processors", hint="a task runs within one site")

    def describe(self) -> dict[str, Any]:
        """Return the figures of a workflow, ready for JSON.

        Returns
        -------
        dict
            Counts and totals by name; `levels`, the tasks of each.
        """
        return {
            "name": self.name,
            "tasks": len(self),
            "edges": len(self.parent),
            "levels": np.bincount(self.level).tolist(),
            "work_processor_seconds": self.work,
            "critical_path_seconds": self.critical_path,
            "widest_task": self.widest,
            "bytes_sent": float(self.volume.sum()),
            "cleaning": dict(self.cleaning),
            "content": self.checksum,
        }


def _frozen(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    column.flags.writeable = False
    return column


def _whole(name: str, values: npt.ArrayLike) -> IntArray:
    column = np.asarray(values)
    whole = column.astype(np.int64)
    if column.ndim != 1 or (column.dtype.kind not in "iu" and not np.array_equal(column, whole)):
        raise WorkloadError(f"{name} must be one row of whole numbers", field=name)
    return whole


def _rows(task: IntArray, other: IntArray, volume: FloatArray, count: int) -> Neighbours:
    order = np.lexsort((other, task))
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=count), out=offsets[1:])
    return Neighbours(_frozen(offsets), _frozen(other[order]), _frozen(volume[order]))


def generate_workflow(
    *,
    seed: int = 1,
    tasks: int = 100,
    depth: int = 10,
    run_time: float = 1000.0,
    processors: float = 22.0,
    max_processors: int = 430,
    fan_in: float = 2.0,
    communication: float = 0.0,
    bandwidth: float = _BANDWIDTH,
    rng: np.random.Generator | None = None,
) -> Workflow:
    """Return a random workflow.

    Its levels have tasks / depth tasks on average, at least one each. A task has a parent in the level before
    its own, and others there by chance. Run times are whole seconds; they and processors are uniform around
    their means.

    Parameters
    ----------
    seed
        Of the random numbers; ignored if `rng` is given.
    tasks, depth
        Number of tasks and of levels; width is tasks / depth on average.
    run_time
        Mean, seconds, ≥ 1: uniform on 1 … 2·mean − 1.
    processors
        Mean, ≥ 1: uniform on 1 … 2·mean − 1, at most `max_processors`.
    max_processors
        The most processors of a task.
    fan_in
        Mean number of parents of a task after the first level, as far as the level before has as many.
    communication
        Mean time of an edge's transfer at `bandwidth` bytes/s, in parts of the mean run time.
    rng
        The source of random numbers, instead of `seed`.

    Raises
    ------
    WorkloadError
        Naming the parameter that is out of range.
    """
    check_range("tasks", tasks, 1)
    check_range("depth", depth, 1, tasks)
    check_range("run_time", run_time, 1)
    check_range("processors", processors, 1, max_processors)
    check_range("fan_in", fan_in, 1)
    check_range("communication", communication, 0)
    check_range("bandwidth", bandwidth, above=0)
    draw = rng if rng is not None else stream(seed, "workflow")
    widths = 1 + draw.multinomial(tasks - depth, np.full(depth, 1 / depth))
    edges = _edges(widths, fan_in, draw)
    level = np.repeat(np.arange(depth), widths)
    position = np.arange(tasks) - np.repeat(np.cumsum(widths) - widths, widths)
    mean_volume = communication * run_time * bandwidth
    return Workflow(
        tuple(f"level{a}_task{b}" for a, b in zip(level.tolist(), position.tolist(), strict=True)),
        _around(run_time, tasks, draw).astype(np.float64),
        np.minimum(_around(processors, tasks, draw), max_processors),
        edges[:, 0],
        edges[:, 1],
        draw.uniform(0, 2 * mean_volume, len(edges)),
        f"random{tasks}x{depth}",
    )


def _around(mean: float, count: int, draw: np.random.Generator) -> IntArray:
    """Return whole numbers from 1 on with the given mean, as nearly uniform as possible."""
    # Floor of a uniform on [1, 2·mean) has, summed over whole steps, a mean of (2·mean)/2.
    return np.floor(draw.uniform(1.0, 2.0 * mean, count)).astype(np.int64)


def _edges(widths: IntArray, fan_in: float, draw: np.random.Generator) -> IntArray:
    """Return (parent, child) rows, shape (m, 2)."""
    rows = []
    first = 0
    for before, width in zip(widths[:-1].tolist(), widths[1:].tolist(), strict=True):
        one = draw.integers(0, before, width)
        probability = min((fan_in - 1) / (before - 1), 1.0) if before > 1 else 0.0
        has_edge = draw.random((width, before)) < probability
        has_edge[np.arange(width), one] = True
        child, parent = np.nonzero(has_edge)
        rows.append(np.column_stack([first + parent, first + before + child]))
        first += before
    return np.concatenate(rows) if rows else np.zeros((0, 2), np.int64)


def cybershake_workflow(variations: int = 4017) -> Workflow:
    """Return the CyberShake workflow of table 1: 5 levels, with 4,017 variations 8,039 tasks.

    The figure of its structure does not show the edges of the upper levels. Here both checks wait for both
    tasks of the level above, and every synthesis for both checks.

    Parameters
    ----------
    variations
        Number of pairs of a synthesis and the peak values computed from it.
    """
    if variations < 1:
        raise WorkloadError(f"must be at least 1, got {variations}", field="variations")
    single = (
        ("fd_grid_xyz", 1, 1),
        ("preSGT", 300, 1),
        ("fd_grid_cvm", 2100, 288),
        ("pmvl_chk1", 86_400, 288),
        ("pmvl_chk2", 86_400, 288),
    )
    names = tuple(name for name, _, _ in single)
    seconds, widths = [second for _, second, _ in single], [width for _, _, width in single]
    numbers = np.arange(variations)
    synthesis, peak = 5 + numbers, 5 + variations + numbers
    above = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 4)]
    parent = [p for p, _ in above] + [3] * variations + [4] * variations + synthesis.tolist()
    child = [c for _, c in above] + synthesis.tolist() * 2 + peak.tolist()
    return Workflow(
        (*names, *(f"synthSGT_{i}" for i in numbers), *(f"peakValCal_{i}" for i in numbers)),
        np.concatenate([seconds, np.full(variations, 519), np.full(variations, 1)]).astype(np.float64),
        np.concatenate([widths, np.ones(2 * variations, np.int64)]).astype(np.int64),
        np.array(parent),
        np.array(child),
        name="cybershake",
    )
