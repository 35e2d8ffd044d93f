"""How the rows of a job table become the columns of a `Workload`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import BoolArray, IntArray
from gridtune.workload.fields import NAMED_FIELDS, UNKNOWN
from gridtune.workload.formats.accounting import values
from gridtune.workload.formats.accounting.columns import chosen_columns, quantities_of
from gridtune.workload.formats.accounting.records import Records
from gridtune.workload.formats.log import RawLog
from gridtune.workload.validity import LARGEST_TIME

__all__ = ["log_of_records"]


#: Named field to the quantity it is read from.
_NAMED = {
    "user": "user",
    "group": "group",
    "account": "account",
    "executable": "name",
    "queue": "queue",
    "partition": "partition",
    "qos": "qos",
    "features": "features",
    "gpu_type": "gpu_type",
}


def log_of_records(
    records: Records, *, columns: str | Mapping[str, str] | None = None, timezone: str | None = None
) -> RawLog:
    """Return the jobs of a table.

    Parameters
    ----------
    records
        The rows.
    columns
        The column of each quantity, as `submit=Submitted,…` or a mapping; the others are found by their
        names.
    timezone
        The zone of times without an offset, such as `Europe/Berlin`; UTC by default.

    Raises
    ------
    WorkloadError
        Naming file, line and column of the first value that cannot be read.
    """
    chosen = quantities_of(records.columns)
    if columns:
        chosen |= chosen_columns(columns, records.columns)
    for quantity in ("submit",):
        if quantity not in chosen:
            there = ", ".join(list(records.columns)[:20])
            raise WorkloadError(
                f"no column says when jobs were submitted; there are {there}",
                path=records.path,
                line=1 if records.lines is not None else None,
                hint="name it: columns=submit=NAME (--columns submit=NAME)",
            )
    return _Jobs(records, chosen, _zone(timezone)).log()


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = "a name of the time zone database, such as Europe/Berlin"
        raise WorkloadError(f"there is no time zone {name!r}", field="timezone", hint=hint) from None


class _Jobs:
    def __init__(self, records: Records, chosen: Mapping[str, str], zone: tzinfo) -> None:
        self.records, self.chosen, self.zone = records, chosen, zone
        self.notes: Counter[str] = Counter(records.notes)
        self.states = [values.first_word(text) for text in self._texts("state")]

    def log(self) -> RawLog:
        """Return the columns, names and header."""
        columns, origin = self._times()
        columns["job_id"] = self._job_numbers()
        columns |= self._sizes()
        columns["status"] = np.array([values.swf_status(state) for state in self.states], np.int64)
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
        texts = self._texts(_NAMED[field])
        if field == "gpu_type" and not any(texts):
            return [values.gpus_in(asked)[1] or "" for asked in self._resources("resources")]
        return texts

    def _texts(self, quantity: str) -> list[str]:
        column = self.chosen.get(quantity)
        if column is None:
            return [""] * len(self.records)
        return [
            "" if text.strip().lower() in values.UNKNOWN_TEXTS else text.strip()
            for text in self.records.columns[column]
        ]

    def _numbers(self, quantity: str, read: Callable[[str], int | None]) -> IntArray:
        """Return a column of whole numbers; `UNKNOWN` where there is none."""
        column = self.chosen.get(quantity)
        if column is None:
            return np.full(len(self.records), UNKNOWN)
        read_before: dict[str, int] = {}
        numbers = np.empty(len(self.records), np.int64)
        for row, text in enumerate(self.records.columns[column]):
            number = read_before.get(text)
            if number is None:
                try:
                    value = read(text)
                except ValueError as error:
                    raise self.records.fault(row, column, f"{text[:40]!r} {error}") from None
                if value is not None and not -LARGEST_TIME <= value <= LARGEST_TIME:
                    raise self.records.fault(row, column, f"{text[:40]!r} is beyond 2**53")
                number = read_before[text] = UNKNOWN if value is None else value
            numbers[row] = number
        return numbers

    def _times(self) -> tuple[dict[str, IntArray], int]:
        """Return times on a clock that begins with the first submission, and that instant."""
        moments = {
            name: self._numbers(name, lambda text: values.moment_seconds(text, self.zone))
            for name in ("submit", "eligible", "start", "end")
        }
        submit = moments["submit"]
        if (submit == UNKNOWN).any():
            row = int(np.argmax(submit == UNKNOWN))
            raise self.records.fault(row, self.chosen["submit"], "the job has no time of submission")
        origin = int(submit.min()) if len(submit) else 0
        start, end = moments["start"], moments["end"]
        run = self._numbers("elapsed", values.duration_seconds)
        between = np.where((start != UNKNOWN) & (end != UNKNOWN), end - start, UNKNOWN)
        run = np.where(run == UNKNOWN, between, run)
        never, running = self._never_started(start, run), self._unfinished(end)
        wait = np.where(start != UNKNOWN, start - submit, self._numbers("wait", values.duration_seconds))
        wait = np.where(never & (end != UNKNOWN), end - submit, wait)
        self.notes["jobs that never started"] += int(never.sum())
        self.notes["jobs that had not ended"] += int((running & ~never).sum())
        limit = self._numbers("limit", values.duration_seconds)
        if "limit" not in self.chosen:
            limit = self._numbers("limit_minutes", lambda text: values.duration_seconds(text, 60))
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
        states = np.array([state in ("RUNNING", "PENDING", "SUSPENDED") for state in self.states], np.bool_)
        # Tables without an end, such as durations alone, say nothing of it.
        return states & (end == UNKNOWN) if "end" in self.chosen else np.zeros(len(end), np.bool_)

    def _never_started(self, start: IntArray, run: IntArray) -> BoolArray:
        """Return which jobs ended, or waited, without having started."""
        placed = [text.strip().lower() != "none assigned" for text in self._texts("placement")]
        ended_at_once = ~np.array(placed, np.bool_) & (run <= 0)
        pending = np.array([state == "PENDING" for state in self.states], np.bool_)
        unknown = (start == UNKNOWN) if "start" in self.chosen else np.zeros(len(run), np.bool_)
        return ended_at_once | pending | unknown

    def _job_numbers(self) -> IntArray:
        numbers = np.arange(1, len(self.records) + 1)
        for row, text in enumerate(self._texts("job")):
            digits = text[: len(text) - len(text.lstrip("0123456789"))]
            if digits and len(digits) <= 18:
                numbers[row] = int(digits)
        return numbers

    def _sizes(self) -> dict[str, IntArray]:
        """Return processors, nodes, memory and GPUs, asked for and given."""
        asked, given = self._resources("resources"), self._resources("allocated_resources")
        requested = _first_known(self._numbers("processors", values.whole_number), _counted(asked, "cpu"))
        requested = _first_known(requested, self._thousandths())
        allocated = _first_known(self._numbers("allocated", values.whole_number), _counted(given, "cpu"))
        nodes = _first_known(self._numbers("nodes", values.whole_number), _counted(asked, "node"))
        allocated_nodes = self._numbers("allocated_nodes", values.whole_number)
        gpus = self._numbers("gpus", values.whole_number)
        gpus = np.where(gpus == UNKNOWN, _gpus(asked), gpus)
        if not {"processors", "milliprocessors", "allocated", "resources", "allocated_resources"} & set(
            self.chosen
        ):
            requested = self._stand_in(_first_known(nodes, allocated_nodes), gpus)
        return {
            "requested_processors": np.where(requested > 0, requested, UNKNOWN),
            "allocated_processors": np.where(allocated > 0, allocated, UNKNOWN),
            "requested_nodes": nodes,
            "allocated_nodes": _first_known(allocated_nodes, _counted(given, "node")),
            "requested_gpus": gpus,
            "allocated_gpus": _gpus(given),
            "gpu_share": self._numbers("gpu_share", values.whole_number),
            "requested_memory": self._memory(asked, requested, nodes),
        }

    def _thousandths(self) -> IntArray:
        return self._numbers(
            "milliprocessors",
            lambda text: None if (n := values.whole_number(text)) is None else -(-n // 1000),
        )

    def _stand_in(self, nodes: IntArray, gpus: IntArray) -> IntArray:
        """Return what a table without processors counts instead: nodes, else GPUs, one at least."""
        for name, column in (("nodes", nodes), ("GPUs", gpus)):
            if (column > 0).any():
                self.notes[f"jobs of at least one processor each: the log counts {name}"] = len(column)
                return np.maximum(column, 1)
        there = ", ".join(list(self.records.columns)[:20])
        self.notes[f"jobs of unknown size, by none of {there}: --columns processors=NAME"] = len(nodes)
        return nodes

    def _resources(self, quantity: str) -> list[dict[str, str]]:
        column = self.chosen.get(quantity)
        if column is None:
            return [{}] * len(self.records)
        read: dict[str, dict[str, str]] = {}
        for row, text in enumerate(self.records.columns[column]):
            if text not in read:
                try:
                    read[text] = values.resources_in(text)
                except ValueError as error:
                    raise self.records.fault(row, column, f"{text[:40]!r} {error}") from None
        return [read[text] for text in self.records.columns[column]]

    def _memory(self, asked: list[dict[str, str]], processors: IntArray, nodes: IntArray) -> IntArray:
        """Return the memory asked for, kilobytes for each processor."""
        column = self.chosen.get("memory")
        memory = np.full(len(self.records), UNKNOWN)
        texts = self.records.columns[column] if column is not None else [""] * len(memory)
        for row, (text, tres) in enumerate(zip(texts, asked, strict=True)):
            try:
                amount = values.kilobytes(tres["mem"]) if tres.get("mem") else values.kilobytes(text)
            except ValueError as error:
                raise self.records.fault(row, column or "memory", f"{text[:40]!r} {error}") from None
            if amount is None:
                continue
            share = {"c": 1.0, "n": max(nodes[row], 1) / max(processors[row], 1)}
            memory[row] = round(amount[0] * share.get(amount[1], 1 / max(processors[row], 1)))
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
    counts = [values.count_in(tres, name) for tres in resources]
    return np.array([UNKNOWN if count is None else count for count in counts], np.int64)


def _gpus(resources: list[dict[str, str]]) -> IntArray:
    return np.array([values.gpus_in(tres)[0] if tres else UNKNOWN for tres in resources], np.int64)


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
