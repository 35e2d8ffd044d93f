"""`Workload`: the jobs of one log, in columns."""

from __future__ import annotations

import datetime
import hashlib
import zoneinfo
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.arguments import is_number, require, require_number
from gridtune.errors import WorkloadError
from gridtune.registry import nearest_name
from gridtune.types import FloatArray, IntArray
from gridtune.workload.contents import LogContents, LogLoad
from gridtune.workload.fields import FIELDS, FLOAT_FIELDS, LARGEST_TIME, UNKNOWN, find_fault

#: The key of the header of several logs one after the other.
JOINED = "JoinedLogs"
_GENERATOR_HINT = "numpy.random.default_rng(seed) makes one"


@dataclass(frozen=True, eq=False)
class Workload:
    """The jobs of one log, in columns, in the order of the log.

    A workload is immutable: its arrays are read-only and every selection makes a new one. Its jobs keep the
    rules of `gridtune.workload.fields`. They are normally sorted by submit time; a log that is not stays as
    it is (see `is_sorted` and the cleaning rule `sort_submits`).

    Attributes
    ----------
    columns
        One array of length `len(workload)` for each of `FIELDS` that the source gives; times in
        seconds, int64 (`average_cpu_time` float64). A field the source lacks reads as `UNKNOWN`.
    name
        Its name in tables and plots.
    source
        The file it came from, or None.
    machine_processors
        The machine's size where the source says it.
    header
        The source's header, key to values in order (SWF repeats keys such as `Note`).
    names
        For fields whose numbers stand for names (users, accounts, partitions, …): name by number.
    cleaning
        Cleaning rules applied since the source was read, with the number of jobs each touched.
    whole_log
        Facts of the log that the jobs are from (see `contents`); by default, these are all its jobs.
    """

    columns: Mapping[str, npt.NDArray[Any]]
    name: str = "workload"
    source: Path | None = None
    machine_processors: int | None = None
    header: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    cleaning: Mapping[str, int] = field(default_factory=dict)
    whole_log: LogContents | None = None

    def __post_init__(self) -> None:
        unknown = set(self.columns) - set(FIELDS)
        if unknown:
            raise WorkloadError(f"unknown columns {sorted(unknown)}", path=self.source)
        missing = {"submit_time", "run_time"} - set(self.columns)
        if missing:
            raise WorkloadError(f"a workload needs the columns {sorted(missing)}", path=self.source)
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise WorkloadError(f"columns differ in length: {lengths}", path=self.source)
        there = (name for name in FIELDS if name in self.columns)
        columns = {name: _own_column(name, self.columns[name], self.source) for name in there}
        object.__setattr__(self, "columns", MappingProxyType(columns))
        size = self.machine_processors
        if size is not None and size < 1:
            raise WorkloadError(f"a machine of {size} processors", path=self.source)
        fault = find_fault(self.columns, size)
        if fault is not None:
            message = f"job {fault.row + 1} of {len(self)}: {fault.message}"
            raise WorkloadError(message, path=self.source, field=fault.field, hint=fault.hint)
        if self.whole_log is None:
            object.__setattr__(self, "whole_log", LogContents.of(self.columns, self.header))

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy does not pickle; workloads travel through Ray's object store.
        others = (getattr(self, attribute.name) for attribute in fields(self)[1:])
        return (Workload, (dict(self.columns), *others))

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
        """Return the column of one field; `UNKNOWN` throughout where the source lacks it."""
        if name not in FIELDS:
            raise WorkloadError(f"no such field: {name!r}", hint=f"one of {', '.join(FIELDS)}")
        if name in self.columns:
            return self.columns[name]
        dtype = np.float64 if name in FLOAT_FIELDS else np.int64
        return np.broadcast_to(np.asarray(UNKNOWN, dtype=dtype), len(self))

    @property
    def contents(self) -> LogContents:
        """Facts of the whole log that these jobs are from, also where they are a selection of it."""
        assert self.whole_log is not None
        return self.whole_log

    @property
    def partition_names(self) -> Mapping[int, str]:
        """Names of the partitions (sites) by their number, where the source gives them."""
        return self.names.get("partition", {})

    @cached_property
    def is_sorted(self) -> bool:
        """True if jobs are sorted by submit time."""
        return bool((np.diff(self.submit_time) >= 0).all())

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
        """Processors of each job: requested, else allocated, else 1 (no job can do with less).

        Simulations count the jobs for which neither is known; `drop_unknown_processors` removes them.
        """
        requested, allocated = self.column("requested_processors"), self.column("allocated_processors")
        processors = np.maximum(np.where(requested > 0, requested, allocated), 1)
        processors.flags.writeable = False
        return processors

    @cached_property
    def unknown_processors(self) -> int:
        """For how many jobs the processors are neither requested nor allocated."""
        stated = np.maximum(self.column("requested_processors"), self.column("allocated_processors"))
        return int(np.count_nonzero(stated <= 0))

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the content (every known column and the machine's size), whatever the format."""
        digest = hashlib.sha256(f"gridtune-workload-1 {len(self)} {self.machine_processors}".encode())
        for name in FIELDS:
            column = self.column(name)
            if (column != UNKNOWN).any():
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(column).astype(column.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def instant(self, second: int = 0) -> datetime.datetime | None:
        """Return a second of the log's time in its own time zone; None where the header gives no date."""
        text = self._header_text("UnixStartTime")
        try:
            start = int(text) if text else 0
        except ValueError:
            return None
        return datetime.datetime.fromtimestamp(start + second, self._zone()) if start > 0 else None

    def _zone(self) -> datetime.tzinfo:
        name, offset = self._header_text("TimeZoneString"), self._header_text("TimeZone")
        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
        try:
            return datetime.timezone(datetime.timedelta(seconds=int(offset)))
        except ValueError:
            return datetime.UTC

    def _header_text(self, key: str) -> str:
        return (self.header.get(key) or ("",))[0].strip()

    @property
    def area(self) -> int:
        """The processor-seconds that the jobs used; nothing for an unknown run time."""
        return int((self.processors * np.maximum(self.run_time, 0)).sum())

    @property
    def is_joined(self) -> bool:
        """True if the workload holds several logs one after the other."""
        return JOINED in self.header

    def joined_parts(self) -> tuple[tuple[str, ...], IntArray]:
        """Return the names of a joined workload's logs, and the first job of each: shape (logs + 1,)."""
        changes = np.flatnonzero(np.diff(self.partition)) + 1
        first = np.concatenate([[0], changes, [len(self)]]).astype(np.int64)
        numbers = self.partition[first[:-1]].tolist()
        return tuple(self.partition_names[number] for number in numbers), first

    def take(self, index: npt.NDArray[Any] | slice, *, name: str | None = None) -> Workload:
        """Return the jobs an index array, boolean mask or slice selects, in that order."""
        columns = {key: column[index] for key, column in self.columns.items()}
        return replace(self, columns=columns, name=name or self.name)

    def first(self, jobs: int) -> Workload:
        """Return the first `jobs` jobs; all of them where the log has fewer, which `cleaning` counts."""
        require_number(jobs, "the number of jobs", whole=True, least=1, error=WorkloadError)
        if jobs > len(self):
            return replace(self, cleaning={**self.cleaning, "first beyond the log's end": jobs - len(self)})
        return self.take(slice(0, jobs))

    def window(self, start: float, end: float) -> Workload:
        """Return the jobs submitted in [start, end), in seconds of the log's own clock, which they keep."""
        if not start < end:
            raise WorkloadError(f"a window must end after it starts, but got start={start}, end={end}")
        return self.take((self.submit_time >= start) & (self.submit_time < end))

    def windows(self, count: int) -> list[Workload]:
        """Return `count` consecutive pieces with nearly equal numbers of jobs, on the log's own clock."""
        if not self.is_sorted:
            raise WorkloadError(
                "jobs are not sorted by submit time, so consecutive windows make no sense",
                path=self.source,
                hint="apply the cleaning rule 'sort_submits' first",
            )
        require_number(count, "the number of windows", whole=True, error=WorkloadError)
        if not 1 <= count <= len(self):
            raise WorkloadError(f"{len(self)} jobs cannot be cut into {count} windows", field="window")
        cuts = [len(self) * i // count for i in range(count + 1)]
        return [
            self.take(slice(start, end), name=f"{self.name}/window-{i}-of-{count}")
            for i, (start, end) in enumerate(pairwise(cuts), start=1)
        ]

    def part(self, which: str) -> Workload:
        """Return one of the windows that `windows` cuts, such as `2/5`."""
        number, count = map(int, which.split("/"))
        return self.windows(count)[number - 1]

    def for_user(self, user: int) -> Workload:
        """Return the jobs of one user."""
        return self._having("user", user)

    def for_group(self, group: int) -> Workload:
        """Return the jobs of one group (a virtual organisation in grid logs)."""
        return self._having("group", group)

    def for_partition(self, partition: int | str) -> Workload:
        """Return the jobs of one partition (a site in grid logs), by number or name.

        The machine's size is that of all partitions together. The result has the partition's own where the
        header gives it (`PartitionProcs`), else none unless every job of the log is in this partition.
        """
        number = self._partition_number(partition) if isinstance(partition, str) else partition
        jobs = self._having("partition", number)
        facts = {name: count for name, count in self.contents.facts.items() if name != "partitions"}
        load = LogLoad.of(jobs.columns)
        jobs = replace(jobs, whole_log=replace(self.contents, facts=facts, partitions=1, load=load))
        sizes = dict(size.split() for size in self.header.get("PartitionProcs", ()))
        if str(number) in sizes:
            return replace(jobs, machine_processors=int(sizes[str(number)]))
        return jobs if len(jobs) == len(self) else replace(jobs, machine_processors=None)

    def _partition_number(self, name: str) -> int:
        numbers = [number for number, value in self.partition_names.items() if value == name]
        if len(numbers) == 1:
            return numbers[0]
        if numbers:
            raise WorkloadError(f"several partitions are named {name!r}: numbers {numbers}", path=self.source)
        near = nearest_name(name, self.partition_names.values())
        hint = f"did you mean {near!r}?" if near else None
        if not self.partition_names:
            numbered = (self.partition != UNKNOWN).any()
            hint = "this log does not name its partitions; give the number"
            hint = hint if numbered else "this log has no partitions"
        raise WorkloadError(f"no partition is named {name!r}", path=self.source, hint=hint)

    def _having(self, name: str, value: int) -> Workload:
        mask = self.column(name) == value
        if not mask.any():
            numbers = np.unique(self.column(name))
            numbers = numbers[numbers != UNKNOWN]
            shown = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
            hint = f"there are {shown}" if len(numbers) else f"this log has no {name}s"
            raise WorkloadError(f"no job has {name} {value}", path=self.source, hint=hint)
        return self.take(mask)

    def _with(self, **columns: npt.NDArray[Any]) -> Workload:
        return replace(self, columns={**self.columns, **columns})

    def submitted(self, submit_time: IntArray) -> Workload:
        """Return the jobs with other submissions, in the order they are in."""
        return self._with(submit_time=submit_time)

    def _sorted(self) -> Workload:
        if self.is_sorted:
            return self
        return self.take(np.argsort(self.submit_time, kind="stable"))

    def scale_load(self, factor: float) -> Workload:
        """Return the log with inter-arrival times divided by `factor`: 2.0 doubles the load.

        The distance of each submission from the first is divided and rounded to whole seconds (half to even),
        not each gap by itself, so rounding never adds up: the log is `factor` times denser to within half a
        second.
        """
        _check_factor(factor)
        if len(self) == 0:
            return self
        first = self.submit_time.min()
        with np.errstate(over="ignore"):
            distance = np.rint((self.submit_time - first) / factor)
        submit = _whole_seconds(first + distance, f"dividing inter-arrival times by {factor}")
        return self._with(submit_time=submit)

    def scale_run_time(self, factor: float) -> Workload:
        """Return the log with run and requested times multiplied by `factor`.

        Rounded half to even. Positive times stay at least 1 s; zero and unknown ones stay as they are.
        """
        _check_factor(factor)
        columns = {}
        for name in {"run_time", "requested_time"} & self.columns.keys():
            seconds = self.columns[name]
            with np.errstate(over="ignore"):
                scaled = np.where(seconds > 0, np.maximum(np.rint(seconds * factor), 1.0), seconds)
            columns[name] = _whole_seconds(scaled, f"multiplying run times by {factor}")
        return self._with(**columns)

    def add_shifted_copy(self, probability: float, shift: int, rng: np.random.Generator) -> Workload:
        """Return the log with each job, by chance, submitted a second time `shift` seconds later.

        Parameters
        ----------
        probability
            The probability of each job to be copied: the expected load grows by this share where the copies
            overlap the log.
        shift
            Seconds between a job and its copy; whole, may be negative as long as no copy comes before 0.
        rng
            Source of the random numbers: one for each job, whatever the probability. With the same stream,
            the copies made at a low probability are among those made at a higher one.

        Returns
        -------
        Workload
            Ordered by submit time, originals before copies. Copies get new job numbers, above the largest.
        """
        require(rng, np.random.Generator, "rng", error=WorkloadError, hint=_GENERATOR_HINT)
        if not 0 <= probability <= 1:
            raise WorkloadError(f"a probability lies in [0, 1], but got {probability}")
        if int(shift) != shift:
            raise WorkloadError(f"a shift is a whole number of seconds, but got {shift}")
        copied = np.flatnonzero(rng.random(len(self)) < probability)
        submit = self.submit_time[copied] + int(shift)
        if len(submit) and (submit.min() < 0 or submit.max() > LARGEST_TIME):
            raise WorkloadError(f"a shift of {shift} s moves submissions out of the log's clock")
        copies = {name: column[copied] for name, column in self.columns.items()}
        copies["submit_time"] = submit
        if "job_id" in copies and len(self):
            copies["job_id"] = int(self.job_id.max()) + 1 + np.arange(len(copied), dtype=np.int64)
        joined = {name: np.concatenate([self.columns[name], copies[name]]) for name in self.columns}
        return replace(self, columns=joined)._sorted()

    def shake(self, amount: int, rng: np.random.Generator) -> Workload:
        """Return a replicate of the log: every submission moved by up to `amount` seconds either way.

        Moves are whole seconds, independent and uniform on [-amount, amount]; none goes before the log's
        first submission. Jobs are then put in order of submission again, ties as they stood.

        References
        ----------
        Tsafrir, Ouaknine, Feitelson, "Reducing performance evaluation sensitivity and variability by input
        shaking", MASCOTS 2007.
        """
        require(rng, np.random.Generator, "rng", error=WorkloadError, hint=_GENERATOR_HINT)
        if not is_number(amount) or int(amount) != amount or amount < 0:
            raise WorkloadError(f"the amount to shake by is a whole number of seconds >= 0, but got {amount}")
        if len(self) == 0:
            return self
        moves = rng.integers(-int(amount), int(amount), size=len(self), endpoint=True)
        submit = np.maximum(self.submit_time + moves, self.submit_time.min())
        return self._with(submit_time=submit)._sorted()


def _check_factor(factor: float) -> None:
    if not (is_number(factor) and factor > 0):
        raise WorkloadError(f"a scaling factor must be a finite number above 0, but got {factor}")


def _whole_seconds(seconds: FloatArray, action: str) -> IntArray:
    if len(seconds) and not seconds.max() <= LARGEST_TIME:
        raise WorkloadError(f"{action} gives times beyond the largest, 2**53 seconds")
    return seconds.astype(np.int64)


def _own_column(name: str, values: npt.ArrayLike, source: Path | None) -> npt.NDArray[Any]:
    """Return a read-only, contiguous column of the field's type; refuse values that it cannot hold."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise WorkloadError(f"a column has one dimension, not {array.ndim}", path=source, field=name)
    if name in FLOAT_FIELDS:
        # Adding zero makes -0.0 into 0.0, so that equal content has equal bytes.
        column: npt.NDArray[Any] = np.ascontiguousarray(array, dtype=np.float64) + 0.0
        column.flags.writeable = False
        return column
    if array.size and array.dtype.kind not in "iub":
        whole = array.dtype.kind == "f" and bool((np.isfinite(array) & (array == np.rint(array))).all())
        if not whole or np.abs(array).max() > 2**53:
            raise WorkloadError("holds values that are not whole numbers", path=source, field=name)
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise WorkloadError("holds values beyond int64", path=source, field=name)
    # An array that the caller can still write to is copied, or content and checksum might drift apart.
    column = np.array(array, dtype=np.int64, order="C", copy=array.flags.writeable or None).view()
    column.flags.writeable = False
    return column
