"""Workloads from job tables: the values that resource managers write become columns.

Each reader of a value takes a text without blanks around it that says something. A text that it cannot read
is a `ValueError`, whose message says what would be accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import TypeVar
from zoneinfo import ZoneInfo

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import BoolArray, IntArray
from gridtune.workload.fields import LARGEST_TIME, NAMED_FIELDS, UNKNOWN
from gridtune.workload.formats.log import RawLog
from gridtune.workload.formats.records import Records, quantities_of

__all__ = ["log_of_records"]

_T = TypeVar("_T")


#: What stands where there is no value.
UNKNOWN_TEXTS = frozenset(
    {"", "unknown", "none", "n/a", "na", "nan", "nat", "null", "(null)", "-", "invalid"}
)

#: Limits that are none.
_UNLIMITED = frozenset({"unlimited", "infinite", "partition_limit"})

#: States of jobs that had not ended.
_RUNNING = ("RUNNING", "PENDING", "SUSPENDED")

#: Quantities of which one tells a job's processors.
_COUNTING_PROCESSORS = frozenset(
    {"processors", "milliprocessors", "allocated", "resources", "allocated_resources"}
)

#: Digits of a count that is believed.
_DIGITS = 9

_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.(\d+))?")
_SPELT_DAYS = re.compile(r" days? \+?(?=\d+:\d+:\d+)")
#: Seconds since 1970 up to the last day but one of the year 9999.
_LAST_MOMENT = 253_402_214_400
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_MEMORY = re.compile(r"(\d+(?:\.\d*)?)\s*([KMGTP]?)i?B?([cn]?)", re.IGNORECASE)
_GPU = "gres/gpu:"
_KILO = {"": 0, "K": 0, "M": 1, "G": 2, "T": 3, "P": 4}


def _whole_number(text: str) -> int:
    """Return a whole number; a fraction, such as a share of a processor, is rounded up."""
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    # sacct abbreviates counts: 1.5K, 2M.
    suffixed = re.fullmatch(r"(\d+(?:\.\d*)?)([KMG])", text, re.IGNORECASE)
    if suffixed:
        return round(float(suffixed[1]) * 1000 ** "KMG".index(suffixed[2].upper()) * 1000)
    if not _NUMBER.fullmatch(text) or abs(float(text)) > 2**53:
        raise ValueError("is not a number")
    return -int(-float(text) // 1)


def _duration_seconds(text: str, unit: int = 1) -> int | None:
    """Return a duration in seconds, rounded to whole ones; None for no limit.

    Parameters
    ----------
    text
        `D-HH:MM:SS`, `HH:MM:SS` or `MM:SS`, each with or without a fraction; `D-HH`, `D-HH:MM`; `2 days
        01:00:00`; or a plain number of units.
    unit
        Seconds in the unit of a plain number: 60 for minutes.
    """
    if text.lower() in _UNLIMITED:
        return None
    if _NUMBER.fullmatch(text):
        if abs(float(text)) > 2**53:
            raise ValueError("is beyond the largest time, 2**53 seconds")
        return round(float(text) * unit)
    match = _DURATION.fullmatch(_SPELT_DAYS.sub("-", text))
    if match is None:
        raise ValueError("is no duration: D-HH:MM:SS, HH:MM:SS, MM:SS or a number")
    days, first, second, third, fraction = match.groups()
    parts = [int(part) for part in (first, second, third) if part is not None]
    if days is None:
        # Without days the last part is seconds: MM:SS; with days the first is hours: D-HH:MM.
        parts = [0] * (3 - len(parts)) + parts
    else:
        parts += [0] * (3 - len(parts))
    hours, minutes, seconds = parts
    whole = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole + round(float(f"0.{fraction or 0}"))


def _moment_seconds(text: str, zone: tzinfo) -> int:
    """Return an instant in seconds since 1970, rounded down.

    Parameters
    ----------
    text
        ISO 8601 with a date and a time, such as `2024-05-01T13:00:00`, with a blank for the `T`, a fraction
        or an offset; or a number of seconds.
    zone
        The zone of times without an offset. Where clocks are set back, an hour that comes twice is taken the
        first time.
    """
    if _NUMBER.fullmatch(text):
        if abs(float(text)) > _LAST_MOMENT:
            raise ValueError("is no time: it is beyond the year 9999")
        return int(float(text) // 1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is no time: 2024-05-01T13:00:00, or seconds since 1970") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return int(moment.timestamp() // 1)


def _kilobytes(text: str) -> tuple[int, str]:
    """Return memory in kilobytes, and what it is of: "c" a processor, "n" a node, "" the whole job.

    Without a suffix a number counts megabytes, as Slurm's and most tables' do.
    """
    match = _MEMORY.fullmatch(text)
    power = _KILO[match[2].upper()] if match and match[2] else 1
    if match is None or float(match[1]) * 1024**power > 2**53:
        raise ValueError("is no amount of memory: 4000M, 2800Mc (a processor), 4Gn (a node)")
    return round(float(match[1]) * 1024**power), match[3].lower()


def _resources_in(text: str) -> dict[str, str]:
    """Return trackable resources by name, from `cpu=12,mem=33600M,node=1,gres/gpu:v100=2`."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("is no list of resources: cpu=12,mem=33600M,node=1")
    return {name.lower(): value for name, _, value in pairs}


def _count_in(resources: dict[str, str], name: str) -> int:
    """Return how many of a trackable resource there are; `UNKNOWN` where it is not said."""
    text = resources.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else UNKNOWN


def _gpus_in(resources: dict[str, str]) -> int:
    """Return the GPUs among trackable resources; `UNKNOWN` where there are none of any kind."""
    total = _count_in(resources, "gres/gpu")
    if total != UNKNOWN or not resources:
        return total
    return sum(max(_count_in(resources, name), 0) for name in resources if name.startswith(_GPU))


#: States of Slurm to SWF's status: 1 completed, 0 failed, 5 cancelled, 2 an attempt that another follows.
_STATUS = {
    "COMPLETED": 1,
    **dict.fromkeys(("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"), 0),
    **dict.fromkeys(("DEADLINE", "LAUNCH_FAILED"), 0),
    **dict.fromkeys(("CANCELLED", "REVOKED"), 5),
    **dict.fromkeys(("REQUEUED", "PREEMPTED"), 2),
}


def log_of_records(records: Records, *, columns: str | None = None, timezone: str | None = None) -> RawLog:
    """Return the jobs of a table.

    Parameters
    ----------
    records
        The rows.
    columns
        The column of each quantity, as `submit=Submitted,…`; the others are found by their names.
    timezone
        The zone of times without an offset, such as `Europe/Berlin`; UTC by default.

    Raises
    ------
    WorkloadError
        Naming file, line and column of the first value that cannot be read.
    """
    chosen = quantities_of(list(records.columns), columns or "")
    if "submit" not in chosen:
        there = ", ".join(list(records.columns)[:20])
        raise WorkloadError(
            f"no column says when jobs were submitted; there are {there}",
            path=records.path,
            line=1 if records.lines is not None else None,
            hint="name it: columns=submit=NAME (--columns submit=NAME)",
        )
    try:
        zone = UTC if timezone is None else ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        hint = "a name of the time zone database, such as Europe/Berlin"
        raise WorkloadError(f"there is no time zone {timezone!r}", field="timezone", hint=hint) from None
    return _Jobs(records, chosen, zone).log()


class _Jobs:
    def __init__(self, records: Records, chosen: Mapping[str, str], zone: tzinfo) -> None:
        self.records, self.chosen, self.zone = records, chosen, zone
        self.notes: Counter[str] = Counter(records.notes)
        # `CANCELLED by 1001` is CANCELLED, `RUNNING+` RUNNING.
        words = [text.split()[:1] for text in self._texts("state")]
        self.states = [word[0].rstrip("+").upper() if word else "" for word in words]

    def log(self) -> RawLog:
        """Return the columns, names and header."""
        columns, origin = self._times()
        columns["job_id"] = self._job_numbers()
        columns |= self._sizes()
        columns["status"] = np.array([_STATUS.get(state, UNKNOWN) for state in self.states], np.int64)
        names: dict[str, dict[int, str]] = {}
        for field in NAMED_FIELDS:
            texts = self._named(field)
            if any(texts):
                columns[field], names[field] = _numbered(texts)
        self._count_oddities(columns)
        kept = {name: column for name, column in columns.items() if (column != UNKNOWN).any()}
        kept.setdefault("submit_time", columns["submit_time"])
        kept.setdefault("run_time", columns["run_time"])
        lines = self.records.lines
        return RawLog(
            columns=kept,
            line_of=lambda row, _: None if lines is None else lines[row],
            header=self._header(origin),
            names=names,
        )

    def _named(self, field: str) -> list[str]:
        if field == "state":
            return self.states
        texts = self._texts("name" if field == "executable" else field)
        if field == "gpu_type" and not any(texts):
            types = (
                {name.partition(":")[2] for name in asked if name.startswith(_GPU)} for asked in self.asked
            )
            return ["+".join(sorted(names)) for names in types]
        return texts

    def _texts(self, quantity: str) -> list[str]:
        """Return the texts of a column without blanks around them, empty where nothing is known."""
        column = self.chosen.get(quantity)
        if column is None:
            return [""] * len(self.records)
        texts = (text.strip() for text in self.records.columns[column])
        return ["" if text.lower() in UNKNOWN_TEXTS else text for text in texts]

    def _read(
        self, quantity: str, read: Callable[[str], _T], texts: list[str] | None = None
    ) -> list[_T | None]:
        """Return the values of a column or of other texts, each distinct one read once; None for unknown."""
        texts = self._texts(quantity) if texts is None else texts
        values: dict[str, _T | None] = {"": None}
        for row, text in enumerate(texts):
            if text not in values:
                try:
                    values[text] = read(text)
                except ValueError as error:
                    column = self.chosen.get(quantity, quantity)
                    raise self.records.fault(row, column, f"{text[:40]!r} {error}") from None
        return [values[text] for text in texts]

    def _numbers(self, quantity: str, read: Callable[[str], int | None] = _whole_number) -> IntArray:
        """Return a column of whole numbers; `UNKNOWN` where there is none."""

        def number(text: str) -> int | None:
            value = read(text)
            if value is not None and not -LARGEST_TIME <= value <= LARGEST_TIME:
                raise ValueError("is beyond 2**53")
            return value

        values = self._read(quantity, number)
        return np.array([UNKNOWN if value is None else value for value in values], np.int64)

    def _times(self) -> tuple[dict[str, IntArray], int]:
        """Return times on a clock that begins with the first submission, and that instant."""
        moments = {
            name: self._numbers(name, lambda text: _moment_seconds(text, self.zone))
            for name in ("submit", "eligible", "start", "end")
        }
        submit = moments["submit"]
        if (submit == UNKNOWN).any():
            row = int(np.argmax(submit == UNKNOWN))
            raise self.records.fault(row, self.chosen["submit"], "the job has no time of submission")
        origin = int(submit.min()) if len(submit) else 0
        start, end = moments["start"], moments["end"]
        run = self._numbers("elapsed", _duration_seconds)
        between = np.where((start != UNKNOWN) & (end != UNKNOWN), end - start, UNKNOWN)
        run = np.where(run == UNKNOWN, between, run)
        never, running = self._never_started(start, run), self._unfinished(end)
        wait = np.where(start != UNKNOWN, start - submit, self._numbers("wait", _duration_seconds))
        wait = np.where(never & (end != UNKNOWN), end - submit, wait)
        self.notes["jobs that never started"] += int(never.sum())
        self.notes["jobs that had not ended"] += int((running & ~never).sum())
        limit = self._numbers("limit", _duration_seconds)
        if "limit" not in self.chosen:
            limit = self._numbers("limit_minutes", lambda text: _duration_seconds(text, 60))
        columns = {
            "submit_time": submit - origin,
            "wait_time": np.maximum(wait, UNKNOWN),
            "run_time": np.where(never | running, UNKNOWN, run),
            "requested_time": limit,
            "eligible_time": _on_clock(moments["eligible"], origin),
            "end_time": _on_clock(np.where(never, UNKNOWN, end), origin),
        }
        return columns, origin

    def _unfinished(self, end: IntArray) -> BoolArray:
        """Return which jobs had not ended when the log was written."""
        # Tables without an end, such as durations alone, say nothing of it.
        return np.isin(self.states, _RUNNING) & (end == UNKNOWN) & ("end" in self.chosen)

    def _never_started(self, start: IntArray, run: IntArray) -> BoolArray:
        """Return which jobs ended, or waited, without having started."""
        placed = [text.lower() != "none assigned" for text in self._texts("placement")]
        unknown = (start == UNKNOWN) & ("start" in self.chosen)
        return (~np.array(placed, np.bool_) & (run <= 0)) | np.isin(self.states, "PENDING") | unknown

    def _job_numbers(self) -> IntArray:
        numbers = np.arange(1, len(self.records) + 1)
        for row, text in enumerate(self._texts("job")):
            digits = text[: len(text) - len(text.lstrip("0123456789"))]
            if digits and len(digits) <= 18:
                numbers[row] = int(digits)
        return numbers

    def _sizes(self) -> dict[str, IntArray]:
        """Return processors, nodes, memory and GPUs, asked for and given."""
        asked, given = self.asked, self._resources("allocated_resources")
        requested = _first_known(self._numbers("processors"), _counted(asked, "cpu"))
        requested = _first_known(requested, -(-self._numbers("milliprocessors") // 1000))
        allocated = _first_known(self._numbers("allocated"), _counted(given, "cpu"))
        nodes = _first_known(self._numbers("nodes"), _counted(asked, "node"))
        allocated_nodes = self._numbers("allocated_nodes")
        gpus = self._numbers("gpus")
        gpus = np.where(gpus == UNKNOWN, [_gpus_in(resources) for resources in asked], gpus)
        if not _COUNTING_PROCESSORS & self.chosen.keys():
            requested = self._stand_in(_first_known(nodes, allocated_nodes), gpus)
        return {
            "requested_processors": np.where(requested > 0, requested, UNKNOWN),
            "allocated_processors": np.where(allocated > 0, allocated, UNKNOWN),
            "requested_nodes": nodes,
            "allocated_nodes": _first_known(allocated_nodes, _counted(given, "node")),
            "requested_gpus": gpus,
            "allocated_gpus": np.array([_gpus_in(resources) for resources in given], np.int64),
            "gpu_share": self._numbers("gpu_share"),
            "requested_memory": self._memory(requested, nodes),
        }

    def _stand_in(self, nodes: IntArray, gpus: IntArray) -> IntArray:
        """Return what a table without processors counts instead: nodes, else GPUs, one at least."""
        for name, column in (("nodes", nodes), ("GPUs", gpus)):
            if (column > 0).any():
                self.notes[f"jobs of at least one processor each: the log counts {name}"] = len(column)
                return np.maximum(column, 1)
        there = ", ".join(list(self.records.columns)[:20])
        self.notes[f"jobs of unknown size, by none of {there}: --columns processors=NAME"] = len(nodes)
        return nodes

    @cached_property
    def asked(self) -> list[dict[str, str]]:
        """The trackable resources that each job asked for."""
        return self._resources("resources")

    def _resources(self, quantity: str) -> list[dict[str, str]]:
        return [resources or {} for resources in self._read(quantity, _resources_in)]

    def _memory(self, processors: IntArray, nodes: IntArray) -> IntArray:
        """Return the memory asked for, kilobytes for each processor."""
        memory = np.full(len(self.records), UNKNOWN)
        own = zip(self.asked, self._texts("memory"), strict=True)
        texts = [resources.get("mem") or text for resources, text in own]
        for row, amount in enumerate(self._read("memory", _kilobytes, texts)):
            if amount is not None:
                kilobytes, of = amount
                width = max(processors[row], 1)
                share = {"c": 1.0, "n": max(nodes[row], 1) / width}
                memory[row] = round(kilobytes * share.get(of, 1 / width))
        return memory

    def _count_oddities(self, columns: Mapping[str, IntArray]) -> None:
        requeued = sum(state in ("REQUEUED", "PREEMPTED") for state in self.states)
        self.notes["attempts that were requeued or preempted"] += requeued
        arrays = sum("[" in text for text in self.records.columns.get("JobID", ()))
        self.notes["records of arrays not yet split into tasks"] += arrays
        size, got = columns["requested_processors"], columns["allocated_processors"]
        more = (size > 0) & (got > 0) & (got != size)
        self.notes["jobs that got other than the processors they asked for"] += int(more.sum())

    def _header(self, origin: int) -> dict[str, tuple[str, ...]]:
        notes = tuple(f"{count} {what}" for what, count in self.notes.items() if count)
        header: dict[str, tuple[str, ...]] = {"Import": notes} if notes else {}
        if origin > 10**8:
            moment = datetime.fromtimestamp(origin, self.zone)
            header |= {"UnixStartTime": (str(origin),), "StartTime": (moment.isoformat(),)}
        return header


def _on_clock(moments: IntArray, origin: int) -> IntArray:
    return np.where(moments == UNKNOWN, UNKNOWN, moments - origin)


def _first_known(first: IntArray, second: IntArray) -> IntArray:
    return np.where(first > 0, first, second)


def _counted(resources: list[dict[str, str]], name: str) -> IntArray:
    return np.array([_count_in(tres, name) for tres in resources], np.int64)


def _numbered(texts: list[str]) -> tuple[IntArray, dict[int, str]]:
    """Return numbers for names, in order of their first appearance, and the names; -1 for none.

    Where every name is a number already, it stays what it is.
    """
    distinct = list(dict.fromkeys(text for text in texts if text))
    if all(text.isdecimal() and len(text) <= 18 for text in distinct):
        return np.array([int(text) if text else UNKNOWN for text in texts], np.int64), {}
    number = {text: position for position, text in enumerate(distinct, start=1)}
    numbers = np.array([number.get(text, UNKNOWN) for text in texts], np.int64)
    return numbers, {position: text for text, position in number.items()}
