"""Workloads from the records of resource managers: the quantities of jobs in their columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import AnyArray, BoolArray, IntArray
from gridtune.workload.contents import FACTS_KEY
from gridtune.workload.fields import LARGEST_TIME, NAMED_FIELDS, UNKNOWN
from gridtune.workload.formats.log import RawLog
from gridtune.workload.formats.records import ATTEMPTS, RUNNING, Records, Texts, quantities_of

__all__ = ["ALLOCATED_TO_REQUESTED", "LOOKED_AT", "log_of_records"]

_T = TypeVar("_T")


#: The header's key for how many times as many processors jobs got as they asked for, where these differ.
ALLOCATED_TO_REQUESTED = "AllocatedToRequested"

#: Quantities of which one tells a job's processors.
_COUNTING_PROCESSORS = frozenset(
    {"processors", "milliprocessors", "allocated", "resources", "allocated_resources"}
)

#: States of Slurm to SWF's status: 1 completed, 0 failed, 5 cancelled, 2 an attempt that another follows.
_STATUS = {
    "COMPLETED": 1,
    **dict.fromkeys(("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"), 0),
    **dict.fromkeys(("DEADLINE", "LAUNCH_FAILED"), 0),
    **dict.fromkeys(("CANCELLED", "REVOKED"), 5),
    **dict.fromkeys(ATTEMPTS, 2),
}


#: Facts of `LogContents` that no field of a job holds: the name of a column, in small letters, that may hold
#: each, and the form of the values that do.
_BESIDE = (
    ("reservations", "reservation", r"\S"),
    ("licences", "licenses", r"\S"),
    ("licences", "alloctres", r"license/"),
    ("licences", "reqtres", r"license/"),
    ("preemption", "state", r"(?i)^(PREEMPTED|REQUEUED)"),
    ("dependencies", "submitline", r" (--dependency|-d)[ =]"),
    ("node_wishes", "submitline", r" (--(exclusive|switches|nodelist|exclude|contiguous)|-w|-x)\b"),
    ("nice", "submitline", r" --nice"),
    ("deadlines", "submitline", r" --(begin|deadline)[ =]"),
)
_NOTHING = r"(?i)^\s*(unknown|none|n/a|\(null\))\s*$"
#: Columns that are looked at beside those of quantities, in small letters.
LOOKED_AT = frozenset({"jobid", "cluster", "priority"}.union(name for _, name, _ in _BESIDE))

_COMPONENT = re.compile(r"(\d+)\+\d+")
#: How the components of a heterogeneous job make up one.
_SUMMED = ("processors", "nodes", "gpus")
_LONGEST = ("run_time", "requested_time")


def log_of_records(
    records: Records, *, columns: str | None = None, timezone: str | None = None, requested: bool = False
) -> RawLog:
    """Return the jobs of a table.

    Parameters
    ----------
    records
        The rows.
    columns
        The column of each quantity, as `submit=Submitted,…`; the others are found by their names.
    timezone
        The zone of times without an offset, such as `Europe/Berlin`; UTC by default.
    requested
        Take the processors that jobs asked for; by default, those they got, where that is known.

    Raises
    ------
    WorkloadError
        Naming file, line and column of the first value that cannot be read.
    """
    chosen = quantities_of(list(records.columns), columns or "")
    if "submit" not in chosen:
        there = ", ".join([*records.columns, *records.unread][:20])
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
    return _AccountedJobs(records.once(chosen), chosen, zone).log(requested)


# The values that resource managers write. Each function takes a text without blanks around it that is not
# empty; a text that it cannot read is a `ValueError` that names what is accepted.

#: What stands where there is no value.
_UNKNOWN_TEXTS = frozenset(
    {"", "unknown", "none", "n/a", "na", "nan", "nat", "null", "(null)", "-", "invalid"}
)

#: Limits that are none.
_UNLIMITED = frozenset({"unlimited", "infinite", "partition_limit"})

#: Digits of a count that is believed.
_DIGITS = 9

_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.(\d+))?")
_SPELT_DAYS = re.compile(r" days? \+?(?=\d+:\d+:\d+)")
#: Seconds since 1970 up to the last day but one of the year 9999.
_LAST_MOMENT = 253_402_214_400
#: From here on, a time is in milliseconds since 1970.
_MILLISECONDS = 10**11
_DOTTED = re.compile(r"(\d\d)\.(\d\d)\.(\d{4})((?:[T ].*)?)")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_MEMORY = re.compile(r"(\d+(?:\.\d*)?)\s*([KMGTP]?)i?B?([cn]?)", re.IGNORECASE)
#: How a trackable resource of a kind of _GPU begins.
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
        or an offset; `01.05.2024 13:00:00`; or a number of seconds or, from 10^11 on, of milliseconds.
    zone
        The zone of times without an offset. Where clocks are set back, an hour that comes twice is taken the
        first time.
    """
    if _NUMBER.fullmatch(text):
        seconds = float(text) if abs(float(text)) < _MILLISECONDS else float(text) / 1000
        if abs(seconds) > _LAST_MOMENT:
            raise ValueError("is no time: it is beyond the year 9999")
        return int(seconds // 1)
    dotted = _DOTTED.fullmatch(text)
    try:
        moment = datetime.fromisoformat(f"{dotted[3]}-{dotted[2]}-{dotted[1]}{dotted[4]}" if dotted else text)
    except ValueError:
        raise ValueError("is no time: 2024-05-01T13:00:00, or seconds since 1970") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return int(moment.timestamp() // 1)


def _clock_seconds(values: Any, zone: tzinfo) -> IntArray:
    """Return the instants of texts that are all of the form `2024-05-01T13:00:00`, as `_moment_seconds` does.

    Raises
    ------
    pyarrow.ArrowInvalid
        If one of them is no time.
    """
    import pyarrow as pa  # noqa: PLC0415 - tables of numbers do without

    seconds: IntArray = values.cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
    if zone is UTC:
        return seconds
    # Clocks are set at full quarters of an hour.
    quarters, of = np.unique(seconds // 900, return_inverse=True)
    beside = [
        datetime.fromtimestamp(900 * quarter, UTC).replace(tzinfo=zone).utcoffset()
        for quarter in quarters.tolist()
    ]
    offsets = np.array(
        [0 if offset is None else offset // timedelta(seconds=1) for offset in beside], np.int64
    )
    return seconds - offsets[of]


def _kilobytes(text: str) -> tuple[int, str]:
    """Return memory in _kilobytes, and what it is of: "c" a processor, "n" a node, "" the whole job.

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


def _leading_number(text: str) -> int | None:
    """Return the number that a text begins with, of fifteen digits at most; None without one."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits) if digits and len(digits) <= 15 else None


class _AccountedJobs:
    def __init__(self, records: Records, chosen: Mapping[str, str], zone: tzinfo) -> None:
        self.records, self.chosen, self.zone = records, chosen, zone
        self.notes: Counter[str] = Counter(records.notes)
        self.by_name = {name.lower(): name for name in reversed(list(records.columns))}
        # `CANCELLED by 1001` is CANCELLED, `RUNNING+` RUNNING.
        texts = self._texts("state")
        words = [text.split()[:1] for text in texts.values.to_pylist()]
        self.states = Texts.of([word[0].rstrip("+").upper() if word else "" for word in words])
        self.states = Texts(self.states.codes[texts.codes], self.states.values)

    def log(self, requested: bool) -> RawLog:
        """Return the columns, names and header."""
        columns, origin = self._times()
        columns["job_id"] = self._job_numbers()
        columns |= self._sizes(requested)
        statuses = [_STATUS.get(state, UNKNOWN) for state in self.states.values.to_pylist()]
        columns["status"] = np.array(statuses, np.int64)[self.states.codes]
        names: dict[str, dict[int, str]] = {}
        for field in NAMED_FIELDS:
            texts = self._named(field)
            if any(texts.values.to_pylist()):
                columns[field], names[field] = texts.numbered()
        header = self._header(origin, columns, requested)
        used = self._used(columns)
        columns, rows = self._with_components_joined(columns)
        if notes := tuple(f"{count} {what}" for what, count in self.notes.items() if count):
            header["Import"] = (*notes, *header.get("Import", ()))
        kept = {name: column for name, column in columns.items() if (column != UNKNOWN).any()}
        kept.setdefault("submit_time", columns["submit_time"])
        kept.setdefault("run_time", columns["run_time"])
        lines = self.records.lines
        return RawLog(
            columns=kept,
            line_of=lambda row, _: None if lines is None else lines[int(rows[row])],
            header={**header},
            names=names,
            cleaning=used,
            path_of=lambda row: self.records.path_of(int(rows[row])),
        )

    def _named(self, field: str) -> Texts:
        if field == "state":
            return self.states
        texts = self._texts("name" if field == "executable" else field)
        if field == "gpu_type" and not any(texts.values.to_pylist()):
            types = (
                {name.partition(":")[2] for name in asked if name.startswith(_GPU)}
                for asked in self.asked.values
            )
            return Texts(self.asked.codes, _strings("+".join(sorted(names)) for names in types))
        return texts

    def _texts(self, quantity: str) -> Texts:
        """Return the texts of a column without blanks around them, empty where nothing is known."""
        import pyarrow as pa  # noqa: PLC0415 - tables of numbers do without
        from pyarrow import compute  # noqa: PLC0415

        column = self.chosen.get(quantity)
        if column is None:
            return Texts(np.zeros(len(self.records), np.int64), _strings([""]))
        codes, values = self.records.columns[column]
        values = compute.utf8_trim_whitespace(values)
        unknown = compute.is_in(compute.utf8_lower(values), value_set=pa.array(sorted(_UNKNOWN_TEXTS)))
        return Texts(codes, compute.if_else(unknown, "", values))

    def _read(self, quantity: str, read: Callable[[str], _T], texts: Texts | None = None) -> list[_T | None]:
        """Return the value of each distinct text of a column, or of other texts; None for unknown."""
        codes, distinct = self._texts(quantity) if texts is None else texts
        values: list[_T | None] = []
        for code, text in enumerate(distinct.to_pylist()):
            try:
                values.append(read(text) if text else None)
            except ValueError as error:
                column = self.chosen.get(quantity, quantity)
                row = int(np.argmax(codes == code))
                raise self.records.fault(row, column, f"{text[:40]!r} {error}") from None
        return values

    def _numbers(
        self,
        quantity: str,
        read: Callable[[str], int | None] = _whole_number,
        shape: str = r"^\d{1,10}$",
        many: Callable[[Any], IntArray] | None = None,
    ) -> IntArray:
        """Return a column of whole numbers; `UNKNOWN` where there is none.

        Texts of a shape are read all at once by `many`, as numbers unless it is given, the others one by one.
        """
        import pyarrow as pa  # noqa: PLC0415 - tables of numbers do without
        from pyarrow import compute  # noqa: PLC0415

        def number(text: str) -> int | None:
            value = read(text)
            if value is not None and not -LARGEST_TIME <= value <= LARGEST_TIME:
                raise ValueError("is beyond 2**53")
            return value

        codes, distinct = self._texts(quantity)
        plain = compute.match_substring_regex(distinct, shape)
        mask = plain.to_numpy(zero_copy_only=False)
        numbers = np.full(len(distinct), UNKNOWN)
        try:
            shaped = distinct.filter(plain)
            numbers[mask] = shaped.cast(pa.int64()).to_numpy() if many is None else many(shaped)
        except pa.ArrowInvalid:
            mask = np.zeros(len(distinct), np.bool_)
        if not mask.all():
            rest = compute.if_else(pa.array(mask), "", distinct)
            values = self._read(quantity, number, Texts(codes, rest))
            others = [UNKNOWN if value is None else value for value in values]
            numbers = np.where(mask, numbers, np.array(others, np.int64))
        return numbers[codes]

    def _moments(self, quantity: str) -> IntArray:
        return self._numbers(
            quantity,
            lambda text: _moment_seconds(text, self.zone),
            r"^(19|20)\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d$",
            lambda values: _clock_seconds(values, self.zone),
        )

    def _times(self) -> tuple[dict[str, IntArray], int]:
        """Return times on a clock that begins with the first submission, and that instant."""
        moments = {name: self._moments(name) for name in ("submit", "eligible", "start", "end")}
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
        # No text is so shaped: minutes are read one by one.
        minutes = self._numbers("limit_minutes", lambda text: _duration_seconds(text, 60), shape="^$")
        limit = np.where(limit == UNKNOWN, minutes, limit)
        columns = {
            "submit_time": submit - origin,
            "wait_time": np.maximum(wait, UNKNOWN),
            "run_time": np.where(never | running, UNKNOWN, run),
            "requested_time": limit,
            "eligible_time": _on_clock(moments["eligible"], origin),
            "end_time": _on_clock(np.where(never, UNKNOWN, end), origin),
        }
        return columns, origin

    def _in_state(self, *states: str) -> BoolArray:
        codes, values = self.states
        return np.isin(values.to_pylist() or [""], states)[codes]

    def _unfinished(self, end: IntArray) -> BoolArray:
        """Return which jobs had not ended when the log was written."""
        # Tables without an end, such as durations alone, say nothing of it.
        return self._in_state(*RUNNING) & (end == UNKNOWN) & ("end" in self.chosen)

    def _never_started(self, start: IntArray, run: IntArray) -> BoolArray:
        """Return which jobs ended, or waited, without having started."""
        codes, values = self._texts("node_list")
        nowhere = np.array([text.lower() == "none assigned" for text in values.to_pylist()], np.bool_)[codes]
        unknown = (start == UNKNOWN) & ("start" in self.chosen)
        return (nowhere & (run <= 0)) | self._in_state("PENDING") | unknown

    def _job_numbers(self) -> IntArray:
        """Return the number that each id begins with, or ends with as in job_17; else that of the row."""
        numbers = self._numbers("job", _leading_number, r"^\d{1,15}$")
        nameless = numbers == UNKNOWN
        if nameless.any():
            codes, values = self._texts("job")
            ends = [re.search(r"(?<!\d)\d{1,15}$", text) for text in values.to_pylist()]
            last = np.array([int(end[0]) if end else UNKNOWN for end in ends], np.int64)[codes]
            own = nameless & (last != UNKNOWN)
            if len(np.unique(last[own])) < own.sum():
                own[:] = False
            numbers = np.where(own, last, np.where(nameless, np.arange(1, len(numbers) + 1), numbers))
        return numbers

    def _sizes(self, requested: bool) -> dict[str, IntArray]:
        """Return processors, nodes, memory and GPUs, asked for and given."""
        asked, given = self.asked, self._resources("allocated_resources")
        wanted = _first_known(self._numbers("processors"), asked.amount("cpu"))
        wanted = _first_known(wanted, -(-self._numbers("milliprocessors") // 1000))
        allocated = _first_known(self._numbers("allocated"), given.amount("cpu"))
        nodes = _first_known(self._numbers("nodes"), asked.amount("node"))
        allocated_nodes = self._numbers("allocated_nodes")
        gpus = self._numbers("gpus")
        gpus = np.where(gpus == UNKNOWN, asked.gpus, gpus)
        if not _COUNTING_PROCESSORS & self.chosen.keys():
            wanted = self._stand_in(_first_known(nodes, allocated_nodes), gpus)
        self.wanted = np.where(wanted > 0, wanted, UNKNOWN)
        size = self.wanted if requested else np.where(allocated > 0, allocated, self.wanted)
        return {
            "requested_processors": size,
            "allocated_processors": np.where(allocated > 0, allocated, UNKNOWN),
            "requested_nodes": nodes,
            "allocated_nodes": _first_known(allocated_nodes, given.amount("node")),
            "requested_gpus": gpus,
            "allocated_gpus": given.gpus,
            "gpu_share": self._numbers("gpu_share"),
            "requested_memory": self._memory(size, nodes),
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
    def asked(self) -> _Resources:
        """The trackable resources that each job asked for."""
        return self._resources("resources")

    def _resources(self, quantity: str) -> _Resources:
        texts = self._texts(quantity)
        return _Resources(texts.codes, [found or {} for found in self._read(quantity, _resources_in, texts)])

    def _memory(self, processors: IntArray, nodes: IntArray) -> IntArray:
        """Return the memory asked for, kilobytes for each processor."""
        listed = Texts(self.asked.codes, _strings(found.get("mem", "") for found in self.asked.values))
        kilobytes, of = self._amounts(listed)
        other, other_of = self._amounts(self._texts("memory"))
        of, kilobytes = np.where(kilobytes < 0, other_of, of), np.where(kilobytes < 0, other, kilobytes)
        width = np.maximum(processors, 1)
        share = np.where(of == "c", 1.0, np.where(of == "n", np.maximum(nodes, 1) / width, 1 / width))
        return np.where(kilobytes < 0, UNKNOWN, np.rint(kilobytes * share)).astype(np.int64)

    def _amounts(self, texts: Texts) -> tuple[AnyArray, AnyArray]:
        amounts = [amount or (UNKNOWN, "") for amount in self._read("memory", _kilobytes, texts)]
        sizes, of = zip(*amounts, strict=True) if amounts else ((), ())
        return np.array(sizes, np.int64)[texts.codes], np.array(of, "U1")[texts.codes]

    def _used(self, columns: Mapping[str, IntArray]) -> dict[str, int]:
        """Return how many jobs have other processors than they asked for, as the cleaning rule counts it."""
        size = columns["requested_processors"]
        other = int(((size > 0) & (size != self.wanted) & (self.wanted > 0)).sum())
        return {"use_allocated_processors": other} if other else {}

    def _header(
        self, origin: int, columns: Mapping[str, IntArray], requested: bool
    ) -> dict[str, tuple[str, ...]]:
        """Return the oddities of the log, the facts that no field holds, and its first instant."""
        self.notes["attempts that were requeued or preempted"] += int(self._in_state(*ATTEMPTS).sum())
        if ids := self._raw("jobid"):
            arrays = ids.matching(r"\[")
            self.notes["records of arrays not yet split into tasks"] += int(arrays.sum())
        got, wanted = columns["allocated_processors"], self.wanted
        known = (wanted > 0) & (got > 0)
        header: dict[str, tuple[str, ...]] = {}
        if differ := int((known & (got != wanted)).sum()):
            factor = got[known].sum() / wanted[known].sum()
            header[ALLOCATED_TO_REQUESTED] = (f"{factor:.4g}",)
            taken = "asked for" if requested else "got"
            self.notes[
                f"jobs got other processors than they asked for, in all {factor:.4g} times as many; "
                f"jobs have those they {taken}"
            ] = differ
        if self.records.unread:
            header["Import"] = (f"columns that are not read: {', '.join(self.records.unread)}",)
        if facts := self._facts():
            header[FACTS_KEY] = tuple(f"{name} {count}" for name, count in facts.items())
        if origin > 10**8:
            moment = datetime.fromtimestamp(origin, self.zone)
            header |= {"UnixStartTime": (str(origin),), "StartTime": (moment.isoformat(),)}
        return header

    def _raw(self, name: str) -> Texts | None:
        """Return the column of a name in small letters as it stands in the table, if there is one."""
        return self.records.columns[self.by_name[name]] if name in self.by_name else None

    def _facts(self) -> dict[str, int]:
        """Return in how many jobs the table says what no field holds, by the name of the fact."""
        masks: dict[str, BoolArray] = {}
        for fact, name, pattern in _BESIDE:
            if texts := self._raw(name):
                said = texts.matching(pattern) & ~texts.matching(_NOTHING)
                masks[fact] = masks.get(fact, False) | said
        if (priorities := self._raw("priority")) and len(priorities.values) > 1:
            masks["priorities"] = priorities.matching(r"\S")
        return {fact: int(mask.sum()) for fact, mask in masks.items() if mask.any()}

    def _with_components_joined(self, columns: dict[str, IntArray]) -> tuple[dict[str, IntArray], IntArray]:
        """Return the columns with the components of a heterogeneous job as one job, and the rows kept."""
        rows = np.arange(len(self.records))
        ids = self._raw("jobid")
        if ids is None:
            return columns, rows
        part = ids.matching(r"^\s*\d+\+\d+\s*$")
        groups: dict[tuple[str, int], list[int]] = {}
        for row in np.flatnonzero(part).tolist():
            match = _COMPONENT.fullmatch(ids.values[ids.codes[row]].as_py().strip())
            assert match is not None
            groups.setdefault((match[1], int(columns["submit_time"][row])), []).append(row)
        several = [members for members in groups.values() if len(members) > 1]
        if not several:
            return columns, rows
        columns = {name: column.copy() for name, column in columns.items()}
        gone = []
        for members in several:
            width = np.maximum(columns["requested_processors"][members], 0)
            for name, column in columns.items():
                own = column[members]
                if name == "requested_memory" and width.sum():
                    column[members[0]] = int(np.rint((np.maximum(own, 0) * width).sum() / width.sum()))
                elif name.endswith(_SUMMED):
                    column[members[0]] = np.maximum(own, 0).sum() if (own > 0).any() else own[0]
                elif name in _LONGEST:
                    column[members[0]] = own.max()
            gone += members[1:]
        self.notes["components of heterogeneous jobs, joined to one job each"] += sum(map(len, several))
        kept = np.delete(rows, gone)
        return {name: column[kept] for name, column in columns.items()}, kept


def _strings(texts: Iterable[str]) -> Any:
    """Return an array of texts as `Texts` holds it."""
    import pyarrow as pa  # noqa: PLC0415 - tables of numbers do without

    return pa.array(list(texts), pa.string())


class _Resources(NamedTuple):
    """Trackable resources by name: those of each row are `values[codes[row]]`."""

    codes: IntArray
    values: list[dict[str, str]]

    def amount(self, name: str) -> IntArray:
        """Return how many of a resource each row has."""
        return np.array([_count_in(resources, name) for resources in self.values], np.int64)[self.codes]

    @property
    def gpus(self) -> IntArray:
        """The GPUs of each row."""
        return np.array([_gpus_in(resources) for resources in self.values], np.int64)[self.codes]


def _on_clock(moments: IntArray, origin: int) -> IntArray:
    return np.where(moments == UNKNOWN, UNKNOWN, moments - origin)


def _first_known(first: IntArray, second: IntArray) -> IntArray:
    return np.where(first > 0, first, second)
