"""Workloads from the records of resource managers: the quantities of jobs in their columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import AnyArray, BoolArray, IntArray
from gridtune.workload.contents import FACTS_BESIDE, FACTS_KEY
from gridtune.workload.fields import NAMED_FIELDS, UNKNOWN
from gridtune.workload.formats.judge import YEAR_2000, Instants
from gridtune.workload.formats.log import RawLog
from gridtune.workload.formats.records import ATTEMPTS, RUNNING, Records, TableOptions, Texts, quantities_of
from gridtune.workload.formats.values import GPU, Columns, count_in, gpus_in, kilobytes

#: The header's key for how many times as many processors jobs got as they asked for, where these differ.
ALLOCATED_TO_REQUESTED = "AllocatedToRequested"

#: Instants from here on are dates, seconds since 1970.
_DATED = 10**8
#: The header's key for columns that are not read.
UNREAD = "Unread columns"

#: States of Slurm to SWF's status: 1 completed, 0 failed, 5 cancelled, 2 an attempt that another follows.
_STATUS = {
    "COMPLETED": 1,
    **dict.fromkeys(("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"), 0),
    **dict.fromkeys(("DEADLINE", "LAUNCH_FAILED"), 0),
    **dict.fromkeys(("CANCELLED", "REVOKED"), 5),
    **dict.fromkeys(ATTEMPTS, 2),
}


_NOTHING = r"(?i)^\s*(unknown|none|n/a|\(null\))\s*$"
#: Columns that are looked at beside those of quantities, in small letters.
LOOKED_AT = frozenset({"jobid", "cluster", "priority"}.union(name for _, name, _ in FACTS_BESIDE))

#: Options of sbatch that say where or when a job may start: flags, options with values, and short forms.
_OPTION = re.compile(
    r"""(?<!\S)(?:--(exclusive|contiguous|spread-job)(?!\S)"""
    r"""|--(nodelist|exclude|licenses|mem|switches|time-min|deadline|time)[=\s]+["']?([^\s"']+)"""
    r"""|-([wxLt])\s*["']?([^\s"'-][^\s"']*))"""
)
_SHORT = {"w": "nodelist", "x": "exclude", "L": "licenses", "t": "time"}

_COMPONENT = re.compile(r"(\d+)\+\d+")
#: How the components of a heterogeneous job make up one.
_SUMMED = ("processors", "nodes", "gpus")
_LONGEST = ("run_time", "requested_time")


def log_of_records(records: Records, options: TableOptions | None = None) -> RawLog:
    """Return the jobs of a table.

    Raises
    ------
    WorkloadError
        Naming file, line and column of the first value that cannot be read, or what the table lacks.
    """
    options = options or TableOptions()
    records = records.without_steps().of_one_cluster(options.cluster)
    chosen = quantities_of(list(records.columns), options.columns or "", records.kind)
    records.check_quantities(chosen)
    records = records.once(chosen)
    if chosen["submit"] == chosen.get("start"):
        begun = records.columns[chosen["start"]].matching(r"\d")
        records = records.only(begun, "rows without a start, which stands for the submission")
    return _AccountedJobs(records, chosen, options).log()


class _AccountedJobs:
    def __init__(self, records: Records, chosen: dict[str, str], options: TableOptions) -> None:
        self.records, self.options = records, options
        workers = {f"workers of {name}": column for name, column in records.kind.times.items()}
        chosen = chosen | {name: column for name, column in workers.items() if column in records.columns}
        units = {**records.kind.units_of(chosen), **options.units}
        self.read = Columns(records, chosen, units, options.zone)
        self.notes: Counter[str] = Counter(records.notes)
        self.by_name = {name.lower(): name for name in reversed(list(records.columns))}
        # `CANCELLED by 1001` is CANCELLED, `RUNNING+` RUNNING.
        texts = self.read.texts("state")
        numbered = records.kind.states
        words = [numbered.get(text, text).split()[:1] for text in texts.values.to_pylist()]
        self.states = Texts.of([word[0].rstrip("+").upper() if word else "" for word in words])
        self.states = Texts(self.states.codes[texts.codes], self.states.values)

    def log(self) -> RawLog:
        """Return the columns, names and header."""
        columns, origin = self._times()
        columns["job_id"] = self._job_numbers()
        columns |= self._sizes()
        statuses = [_STATUS.get(state, UNKNOWN) for state in self.states.values.to_pylist()]
        columns["status"] = np.array(statuses, np.int64)[self.states.codes]
        names: dict[str, dict[int, str]] = {}
        for field in NAMED_FIELDS:
            texts = self._named(field)
            if any(texts.values.to_pylist()):
                columns[field], names[field] = texts.numbered()
        header = self._header(origin, columns)
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
        texts = self.read.texts("name" if field == "executable" else field)
        if field == "options":
            found = (_OPTION.findall(text or "") for text in texts.values.to_pylist())
            every = ([(a or b or _SHORT[d], c or e) for a, b, c, d, e in some] for some in found)
            # The column of time limits has them all but where backfill may have shortened one.
            pairs = ([(k, v) for k, v in some if k != "time" or "time-min" in dict(some)] for some in every)
            return Texts(texts.codes, _strings(" ".join(f"{k}={v}" for k, v in some) for some in pairs))
        if field == "gpu_type" and not any(texts.values.to_pylist()):
            types = (
                {name.partition(":")[2] for name in asked if name.startswith(GPU)}
                for asked in self.asked.values
            )
            return Texts(self.asked.codes, _strings("+".join(sorted(names)) for names in types))
        return texts

    def _elapsed(self, instants: Instants) -> IntArray:
        """Return the run times as recorded, in seconds; their unit is judged where nobody says it."""
        unit = self.read.units.get("elapsed")
        numbers = self.read.plain("elapsed")
        if unit is not None and "elapsed" not in self.options.units:
            self._check_kind(unit)
        if unit is not None or numbers is None:
            return self.read.durations("elapsed", unit or "s")
        if instants.are_turnarounds(numbers):
            column, count = self.read.chosen.pop("elapsed"), len(numbers)
            self.notes[f"jobs of which {column} is the time since submission: they ran end - start"] += count
            return np.full(count, UNKNOWN)
        unit = instants.judge_elapsed(numbers, self.read.fault)
        run = self.read.durations("elapsed", unit)
        # Instants are finer than minutes and hours, which may have been rounded.
        return np.where(instants.both & (unit in ("min", "h", "d")), UNKNOWN, run)

    def _times(self) -> tuple[dict[str, IntArray], int]:
        """Return times on a clock that begins with the first submission, and that instant."""
        submit, eligible, start, end = map(self.read.moments, ("submit", "eligible", "start", "end"))
        instants = Instants(submit, eligible, start, end)
        self._take_queue_for_wait(instants)
        if {"end", "wait"} <= self.read.chosen.keys() and "start" not in self.read.chosen:
            wait = self.read.durations("wait")
            instants.start = np.where(wait >= 0, instants.submit + wait, UNKNOWN)
        instants.drop_epochs(self.read.fault)
        elapsed = self._elapsed(instants)
        instants.settle_clocks(elapsed, self.options.zone)
        submit, start, end = instants.submit, instants.start, instants.end
        if (submit == UNKNOWN).any():
            row = int(np.argmax(submit == UNKNOWN))
            raise self.records.fault(row, self.read.chosen["submit"], "the job has no time of submission")
        first = int(submit.min()) if len(submit) else 0
        # Without dates the log's own clock stays.
        origin = 0 if 0 <= first < _DATED else first
        never, running = self._never_started(start, elapsed), self._unfinished(end)
        run = self._run_times(instants, elapsed, ~never & ~running)
        given = self.read.durations("wait")
        apart = (start != UNKNOWN) & (given >= 0) & (np.abs(start - submit - given) > 60)
        self.notes["jobs waited another time than start - submit: they have start - submit"] += int(
            apart.sum()
        )
        wait = np.where(start != UNKNOWN, start - submit, given)
        wait = np.where(never & (end != UNKNOWN), end - submit, wait)
        self.notes["jobs that never started"] += int(never.sum())
        self.notes["jobs that had not ended"] += int((running & ~never).sum())
        self.notes.update(instants.notes)
        columns = {
            "submit_time": submit - origin,
            "wait_time": np.maximum(wait, UNKNOWN),
            "run_time": np.where(never | running, UNKNOWN, run),
            "requested_time": self._limits(),
            "eligible_time": _on_clock(instants.eligible, origin),
            "end_time": _on_clock(np.where(never, UNKNOWN, end), origin),
        }
        return columns, origin

    def _run_times(self, instants: Instants, run: IntArray, ran: BoolArray) -> IntArray:
        """Return the recorded run times, else end - start; notes say where these differ."""
        between = instants.between
        both = ran & (run >= 0) & (between >= 0)
        # Both ends of a short job may have been rounded.
        empty = both & (run == 0) & (between > 1)
        self.notes["jobs with a run time of 0 beside end - start: they ran as long as that"] += int(
            empty.sum()
        )
        hour = int((both & ~empty & (np.abs(np.abs(run - between) - 3600) <= 1)).sum())
        if hour and self.options.zone is UTC:
            note = "jobs ran an hour more or less than end - start: the times look local (--timezone NAME)"
            self.notes[note] += hour
        other = int((both & ~empty & (np.abs(run - between) > 1)).sum()) - hour
        self.notes["jobs ran another time than end - start: they have the recorded one"] += other
        return np.where(empty | (run == UNKNOWN), between, run)

    def _check_kind(self, unit: str) -> None:
        """Refuse a table whose kind counts in milliseconds, but whose instants are seconds since 1970."""
        instants = self.read.plain("submit")
        if unit != "ms" or instants is None or not len(instants):
            return
        if YEAR_2000 < float(np.nanmedian(instants)) < YEAR_2000 * 10:
            message = (
                f"is {self.records.kind.title}, which counts in milliseconds, but its instants are seconds"
            )
            hint = "say which: --unit submit=s,elapsed=s (or elapsed=ms)"
            raise WorkloadError(message, path=self.records.path, field=self.read.chosen["submit"], hint=hint)

    def _take_queue_for_wait(self, instants: Instants) -> None:
        """Take a column called queue for the wait where it is start - submit in every row."""
        queue = self.read.chosen.get("queue")
        numbers = None if queue is None or "wait" in self.read.chosen else self.read.plain("queue")
        if queue is None or numbers is None:
            return
        wait = instants.waits
        compared = np.isfinite(numbers) & (wait >= 0)
        given, true = numbers[compared], wait[compared]
        if len(given) > 1 and (true > 0).any() and (np.abs(given - true) <= 1).all():
            self.read.chosen["wait"] = self.read.chosen.pop("queue")
            self.notes[f"jobs of which {queue} is the wait, start - submit, and no queue"] += len(given)

    def _limits(self) -> IntArray:
        limit = self.read.durations("limit")
        minutes = self.read.durations("limit_minutes", self.read.units.get("limit", "min"))
        return np.where(limit == UNKNOWN, minutes, limit)

    def _in_state(self, *states: str) -> BoolArray:
        codes, values = self.states
        return np.isin(values.to_pylist() or [""], states)[codes]

    def _unfinished(self, end: IntArray) -> BoolArray:
        """Return which jobs had not ended when the log was written."""
        # Tables without an end, such as durations alone, say nothing of it.
        return self._in_state(*RUNNING) & (end == UNKNOWN) & ("end" in self.read.chosen)

    def _never_started(self, start: IntArray, run: IntArray) -> BoolArray:
        """Return which jobs ended, or waited, without having started."""
        codes, values = self.read.texts("node_list")
        nowhere = np.array([text.lower() == "none assigned" for text in values.to_pylist()], np.bool_)[codes]
        unknown = (start == UNKNOWN) & ("start" in self.read.chosen)
        return (nowhere & (run <= 0)) | self._in_state("PENDING") | unknown

    def _job_numbers(self) -> IntArray:
        """Return the number that each id begins with, or ends with as in job_17; else that of the row."""
        numbers = self.read.numbers("job", self.read.leading_number, r"^\d{1,15}$")
        nameless = numbers == UNKNOWN
        if nameless.any():
            codes, values = self.read.texts("job")
            ends = [re.search(r"(?<!\d)\d{1,15}$", text) for text in values.to_pylist()]
            last = np.array([int(end[0]) if end else UNKNOWN for end in ends], np.int64)[codes]
            own = nameless & (last != UNKNOWN)
            if len(np.unique(last[own])) < own.sum():
                own[:] = False
            numbers = np.where(own, last, np.where(nameless, np.arange(1, len(numbers) + 1), numbers))
        return numbers

    def _sizes(self) -> dict[str, IntArray]:
        """Return processors, nodes, memory and GPUs, asked for and given."""
        asked, given = self.asked, self._resources("allocated_resources")
        wanted = _first_known(self._counted("processors"), asked.amount("cpu"))
        wanted = _first_known(wanted, -(-self.read.numbers("milliprocessors") // 1000))
        allocated = _first_known(self._counted("allocated"), given.amount("cpu"))
        nodes = _first_known(self._counted("nodes"), asked.amount("node"))
        allocated_nodes = self._counted("allocated_nodes")
        gpus, given_gpus = self._counted("gpus"), self._counted("allocated_gpus")
        gpus = np.where(gpus == UNKNOWN, asked.gpus, gpus)
        if not ((wanted > 0) | (allocated > 0)).any():
            wanted = self._stand_in(_first_known(nodes, allocated_nodes), _first_known(gpus, given_gpus))
        self._note_unread_sizes()
        self.wanted = np.where(wanted > 0, wanted, UNKNOWN)
        size = self.wanted if self.options.requested else np.where(allocated > 0, allocated, self.wanted)
        return {
            "requested_processors": size,
            "allocated_processors": np.where(allocated > 0, allocated, UNKNOWN),
            "requested_nodes": nodes,
            "allocated_nodes": _first_known(allocated_nodes, given.amount("node")),
            "requested_gpus": gpus,
            "allocated_gpus": _first_known(given_gpus, given.gpus),
            "gpu_share": self.read.numbers("gpu_share"),
            "requested_memory": self._memory(size, nodes),
        }

    def _counted(self, quantity: str) -> IntArray:
        """Return a count, times the number of workers that each have so many."""
        counts, many = self.read.numbers(quantity), self.read.numbers(f"workers of {quantity}")
        parts = self.read.texts(quantity).matching(r"^\d*\.\d*[1-9]\d*$")
        self.notes[f"jobs with fractions in {quantity}, rounded up"] += int(parts.sum())
        whole = -(-counts // self.records.kind.parts.get(quantity, 1))
        return np.where(counts > 0, whole * np.where(many > 0, many, 1), counts)

    def _stand_in(self, nodes: IntArray, gpus: IntArray) -> IntArray:
        """Return the sizes of a table without processors: what the user says, else nodes, else GPUs."""
        each = self.options.processors_per_job
        if each is not None:
            self.notes[f"jobs of {each} processors each, as no column has sizes"] = len(nodes)
            return np.full(len(nodes), each, np.int64)
        for name, column in (("nodes", nodes), ("GPUs", gpus)):
            if (column > 0).any():
                self.notes[f"jobs of at least one processor each: the log counts {name}"] = len(column)
                return np.maximum(column, 1)
        if len(nodes) == 0:
            return nodes
        alike = self._unread_sizes()
        shown = f"{', '.join(alike)} may" if alike else f"there are {', '.join([*self.records.columns][:20])}"
        message = f"{self.records.kind.opening}no column says how many processors jobs have; {shown}"
        hint = (
            "name it: LOG?columns=processors=NAME (gridtune traces: --columns); or LOG?processors_per_job=1"
        )
        raise WorkloadError(message, path=self.records.path, hint=hint)

    def _unread_sizes(self) -> list[str]:
        """Return columns that look like sizes, hold small whole numbers, and are not read."""
        from pyarrow import compute  # noqa: PLC0415 - tables of numbers do without

        def counts(name: str) -> bool:
            values = self.records.columns[name].values
            whole = compute.match_substring_regex(values, r"^\s*\d{0,7}(\.0*)?\s*$")
            return bool(whole.to_numpy(zero_copy_only=False).all())

        if self.records.kind.source:
            return []
        read = set(self.read.chosen.values())
        return [
            name
            for name in self.records.columns
            if name not in read and self.records.looks_like_size(name) and counts(name)
        ]

    def _note_unread_sizes(self) -> None:
        if alike := self._unread_sizes():
            self.notes[f"columns look like sizes and are not read: {', '.join(alike[:8])}"] = len(alike)

    @cached_property
    def asked(self) -> _Resources:
        """The trackable resources that each job asked for."""
        return self._resources("resources")

    def _resources(self, quantity: str) -> _Resources:
        texts, named = self.read.texts(quantity), self.records.kind.resources
        found = [resources or {} for resources in self.read.read(quantity, self.read.resources_in, texts)]
        values = [{named.get(key, key): many for key, many in own.items()} for own in found]
        nameless = np.array([any(key.isdecimal() for key in own) for own in values], np.bool_)[texts.codes]
        note = "jobs have resources that only the site's database names: their GPUs are not known"
        self.notes[note] = max(self.notes[note], int(nameless.sum()))
        return _Resources(texts.codes, values)

    def _memory(self, processors: IntArray, nodes: IntArray) -> IntArray:
        """Return the memory asked for, kilobytes for each processor."""
        listed = Texts(self.asked.codes, _strings(found.get("mem", "") for found in self.asked.values))
        kilobytes, of = self._amounts(listed)
        other, other_of = self._amounts(self.read.texts("memory"))
        of, kilobytes = np.where(kilobytes < 0, other_of, of), np.where(kilobytes < 0, other, kilobytes)
        width = np.maximum(processors, 1)
        share = np.where(of == "c", 1.0, np.where(of == "n", np.maximum(nodes, 1) / width, 1 / width))
        asked = np.where(kilobytes < 0, UNKNOWN, np.rint(kilobytes * share)).astype(np.int64)
        given = self._resources("allocated_resources")
        got, _ = self._amounts(Texts(given.codes, _strings(found.get("mem", "") for found in given.values)))
        got = np.where(got > 0, np.rint(got / width), UNKNOWN).astype(np.int64)
        less = (got > 0) & (got < asked - 1)
        self.notes["jobs got less memory than they asked for (all of a node, --mem=0): they have that"] = int(
            less.sum()
        )
        return np.where(less, got, asked)

    def _amounts(self, texts: Texts) -> tuple[AnyArray, AnyArray]:
        amounts = [amount or (UNKNOWN, "") for amount in self.read.read("memory", kilobytes, texts)]
        sizes, of = zip(*amounts, strict=True) if amounts else ((), ())
        return np.array(sizes, np.int64)[texts.codes], np.array(of, "U1")[texts.codes]

    def _used(self, columns: Mapping[str, IntArray]) -> dict[str, int]:
        """Return how many jobs have other processors than they asked for, as the cleaning rule counts it."""
        size = columns["requested_processors"]
        other = int(((size > 0) & (size != self.wanted) & (self.wanted > 0)).sum())
        return {"use_allocated_processors": other} if other else {}

    def _header(self, origin: int, columns: Mapping[str, IntArray]) -> dict[str, tuple[str, ...]]:
        """Return the oddities of the log, the facts that no field holds, and its first instant."""
        self.notes["attempts that were requeued or preempted"] += int(self._in_state(*ATTEMPTS).sum())
        if ids := self._raw("jobid"):
            arrays = ids.matching(r"_\[")
            self.notes["records of arrays not yet split into tasks"] += int(arrays.sum())
        got, wanted = columns["allocated_processors"], self.wanted
        known = (wanted > 0) & (got > 0)
        header = dict(self.records.header)
        if differ := int((known & (got != wanted)).sum()):
            factor = got[known].sum() / wanted[known].sum()
            header[ALLOCATED_TO_REQUESTED] = (f"{factor:.4g}",)
            taken = "asked for" if self.options.requested else "got"
            self.notes[
                f"jobs got other processors than they asked for, in all {factor:.4g} times as many; "
                f"jobs have those they {taken}"
            ] = differ
        looked_at = LOOKED_AT.union(name.lower() for name in self.read.chosen.values())
        beside = (name for name in self.records.columns if name.lower() not in looked_at)
        if unread := (*self.records.unread, *beside):
            header["Import"] = (f"{len(unread)} columns are not read (traces import --unread lists them)",)
            header[UNREAD] = unread
        if facts := self._facts():
            header[FACTS_KEY] = tuple(f"{name} {count}" for name, count in facts.items())
        if origin >= _DATED:
            moment = datetime.fromtimestamp(origin, self.options.zone)
            header |= {"UnixStartTime": (str(origin),), "StartTime": (moment.isoformat(),)}
        return header

    def _raw(self, name: str) -> Texts | None:
        """Return the column of a name in small letters as it stands in the table, if there is one."""
        return self.records.columns[self.by_name[name]] if name in self.by_name else None

    def _facts(self) -> dict[str, int]:
        """Return in how many jobs the table says what no field holds, by the name of the fact."""
        masks: dict[str, BoolArray] = {}
        for fact, name, pattern in FACTS_BESIDE:
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
        return np.array([count_in(resources, name) for resources in self.values], np.int64)[self.codes]

    @property
    def gpus(self) -> IntArray:
        """The GPUs of each row."""
        return np.array([gpus_in(resources) for resources in self.values], np.int64)[self.codes]


def _on_clock(moments: IntArray, origin: int) -> IntArray:
    return np.where(moments == UNKNOWN, UNKNOWN, moments - origin)


def _first_known(first: IntArray, second: IntArray) -> IntArray:
    return np.where(first > 0, first, second)
