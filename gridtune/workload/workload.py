"""`Workload`: the jobs of one log, in columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError

__all__ = ["FLOAT_FIELDS", "SWF_FIELDS", "UNKNOWN", "Workload"]

#: The value a field has where the log does not say (the Standard Workload Format's own convention).
UNKNOWN = -1

#: The eighteen fields of the Standard Workload Format, in the order of its columns.
SWF_FIELDS = (
    "job_id",
    "submit_time",
    "wait_time",
    "run_time",
    "allocated_processors",
    "average_cpu_time",
    "used_memory",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)

#: Fields that real logs give with a fraction; every other one is int64.
FLOAT_FIELDS = frozenset({"average_cpu_time"})

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Workload:
    """The jobs of one log, in columns, ordered by submit time.

    A workload is immutable: its arrays are read-only and every selection makes a new one.

    Attributes
    ----------
    columns
        One array of length `len(workload)` for each of `SWF_FIELDS` that the source gives; times in
        seconds, int64 (`average_cpu_time` float64). A field the source lacks reads as `UNKNOWN`.
    name
        What tables and plots call it.
    source
        The file it came from, or None.
    machine_processors
        The machine's size where the source says it.
    header
        The source's header, key to values in order (SWF repeats keys such as `Note`).
    partition_names
        Names of the partitions (sites) by their number, where the source gives them.
    """

    columns: Mapping[str, npt.NDArray[Any]]
    name: str = "workload"
    source: Path | None = None
    machine_processors: int | None = None
    header: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    partition_names: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = set(self.columns) - set(SWF_FIELDS)
        if unknown:
            raise WorkloadError(f"unknown columns {sorted(unknown)}", path=self.source)
        missing = {"submit_time", "run_time"} - set(self.columns)
        if missing:
            raise WorkloadError(f"a workload needs the columns {sorted(missing)}", path=self.source)
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise WorkloadError(f"columns differ in length: {lengths}", path=self.source)
        held = {}
        for name in SWF_FIELDS:
            if name not in self.columns:
                continue
            dtype = np.float64 if name in FLOAT_FIELDS else np.int64
            column = np.ascontiguousarray(self.columns[name], dtype=dtype).view()
            column.flags.writeable = False
            held[name] = column
        object.__setattr__(self, "columns", MappingProxyType(held))

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy does not pickle; workloads travel through Ray's object store.
        arguments = (
            dict(self.columns),
            self.name,
            self.source,
            self.machine_processors,
            dict(self.header),
            dict(self.partition_names),
        )
        return (Workload, arguments)

    def __len__(self) -> int:
        return len(self.columns["submit_time"])

    def __repr__(self) -> str:
        size = "" if self.machine_processors is None else f", {self.machine_processors} processors"
        return f"Workload({self.name!r}, {len(self):,} jobs{size})"

    def __iter__(self) -> Iterator[dict[str, int | float]]:
        """Yield jobs as dictionaries: for reading a few, not for speed."""
        names = list(self.columns)
        for values in zip(*(self.columns[name].tolist() for name in names), strict=True):
            yield dict(zip(names, values, strict=True))

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the column of one SWF field; `UNKNOWN` throughout where the source lacks it."""
        if name not in SWF_FIELDS:
            raise WorkloadError(f"no such field: {name!r}", hint=f"one of {', '.join(SWF_FIELDS)}")
        if name in self.columns:
            return self.columns[name]
        dtype = np.float64 if name in FLOAT_FIELDS else np.int64
        return np.broadcast_to(np.asarray(UNKNOWN, dtype=dtype), len(self))

    @property
    def job_id(self) -> IntArray:
        """The log's own job numbers."""
        return self.column("job_id")

    @property
    def submit_time(self) -> IntArray:
        """Seconds since the log's own origin."""
        return self.column("submit_time")

    @property
    def wait_time(self) -> IntArray:
        """Seconds waited on the real machine, as recorded."""
        return self.column("wait_time")

    @property
    def run_time(self) -> IntArray:
        """Seconds between start and end, as recorded."""
        return self.column("run_time")

    @property
    def requested_time(self) -> IntArray:
        """The walltime asked for, seconds."""
        return self.column("requested_time")

    @property
    def user(self) -> IntArray:
        """User numbers."""
        return self.column("user")

    @property
    def group(self) -> IntArray:
        """Group numbers (virtual organisations in grid logs)."""
        return self.column("group")

    @property
    def queue(self) -> IntArray:
        """Queue numbers."""
        return self.column("queue")

    @property
    def partition(self) -> IntArray:
        """Partition numbers (sites in grid logs); see `partition_names`."""
        return self.column("partition")

    @cached_property
    def processors(self) -> IntArray:
        """Processors of each job: those it asked for or, where the log does not say, those it got."""
        requested, allocated = self.column("requested_processors"), self.column("allocated_processors")
        chosen = np.where(requested > 0, requested, allocated)
        chosen.flags.writeable = False
        return chosen

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the content (every known column and the machine's size), whatever the format."""
        digest = hashlib.sha256(f"gridtune-workload-1 {len(self)} {self.machine_processors}".encode())
        for name in SWF_FIELDS:
            column = self.column(name)
            if (column != UNKNOWN).any():
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(column).astype(column.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def take(self, index: npt.NDArray[Any] | slice, *, name: str | None = None) -> Workload:
        """Return the jobs an index array, boolean mask or slice selects, in that order."""
        columns = {key: column[index] for key, column in self.columns.items()}
        return replace(self, columns=columns, name=name or self.name)
