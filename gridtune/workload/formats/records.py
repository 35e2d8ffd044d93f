"""Job tables of any origin: their rows as text, and the quantity that each column holds."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from gridtune.errors import WorkloadError, printable
from gridtune.registry import name_hint, nearest_name
from gridtune.types import BoolArray, IntArray
from gridtune.workload.fields import UNKNOWN

#: What writes a dump that has all that is read.
SACCT_COMMAND = (
    "sacct --allusers --parsable2 --format=JobID,User,Account,Partition,Submit,Start,End,Elapsed,Timelimit,"
    "State,ReqCPUS,AllocCPUS (or ALL)"
)
#: States of jobs that had not ended.
RUNNING = ("RUNNING", "PENDING", "SUSPENDED")

#: States of attempts at a job that another followed.
ATTEMPTS = ("REQUEUED", "PREEMPTED")


#: The id of a step: that of its job, and a number or a word of Slurm after a point.
_STEP = re.compile(r"\d+(?:_\d+|_\[[^\]]*\]|\+\d+)?\.(?:\S+)")
#: The note on rows that are steps.
STEPS = "steps of jobs left out"


class Texts(NamedTuple):
    """A column of texts, each distinct one once.

    Attributes
    ----------
    codes : shape (rows,)
        The position of each row's text in `values`.
    values
        The distinct texts in the order in which they first appear: a `pyarrow.StringArray`.
    """

    codes: IntArray
    values: Any

    @classmethod
    def of(cls, texts: Any) -> Texts:
        """Return the column of a sequence of texts, or of a `pyarrow` array of them."""
        import pyarrow as pa  # noqa: PLC0415 - tables of numbers do without

        array = texts if isinstance(texts, (pa.Array, pa.ChunkedArray)) else pa.array(texts, pa.string())
        coded = (array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array).dictionary_encode()
        return cls(coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary)

    def take(self, rows: IntArray) -> Texts:
        """Return the texts of some rows."""
        return Texts.of(self.values.take(self.codes[rows]))

    def matching(self, pattern: str) -> BoolArray:
        """Return the rows whose texts contain a match of a regular expression."""
        from pyarrow import compute  # noqa: PLC0415 - tables of numbers do without

        mask: BoolArray = compute.match_substring_regex(self.values, pattern).to_numpy(zero_copy_only=False)
        return mask[self.codes]

    def numbered(self) -> tuple[IntArray, dict[int, str]]:
        """Return numbers for names, in order of their first appearance, and the names; -1 for none.

        Where every name is a number already, it stays what it is.
        """
        values = self.values.to_pylist()
        distinct = list(dict.fromkeys(text for text in values if text))
        if all(text.isdecimal() and len(text) <= 18 for text in distinct):
            return np.array([int(text) if text else UNKNOWN for text in values], np.int64)[self.codes], {}
        number = {text: position for position, text in enumerate(distinct, start=1)}
        numbers = np.array([number.get(text, UNKNOWN) for text in values], np.int64)[self.codes]
        return numbers, {position: printable(text) for text, position in number.items()}


class TableKind(NamedTuple):
    """The records of one program or published log: the meaning of its columns.

    Attributes
    ----------
    name, title
        Its name, and words for people.
    has
        Columns that all such tables have, spelt as `spelt` does.
    several
        Columns of which such tables have some, in small letters.
    columns
        The column of each quantity that its name does not say; "" for one that the table does not have.
    units
        The unit of plain numbers, by quantity.
    times
        The column that multiplies a quantity, such as the number of workers.
    parts
        How many units of the table make one of a quantity: 100 for per cent of a processor.
    resources
        Names of the trackable resources that the table numbers.
    states
        Names of the states that the table numbers.
    key
        Quantities of which no two jobs have all the same.
    steps
        True if some rows are steps of the job before the point in their id.
    note
        A sentence on the table for its users.
    source
        Its page.
    """

    name: str = "table"
    title: str = "a table with a job a row"
    has: frozenset[str] = frozenset()
    several: frozenset[str] = frozenset()
    columns: Mapping[str, str] = {}
    units: Mapping[str, str] = {}
    times: Mapping[str, str] = {}
    parts: Mapping[str, int] = {}
    resources: Mapping[str, str] = {}
    states: Mapping[str, str] = {}
    key: tuple[str, ...] = ()
    steps: bool = False
    note: str = ""
    source: str = ""

    def units_of(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """Return the units that the kind, or the names of its columns, say of quantities."""
        ends = dict(_without_units({spelt(column): column for column in chosen.values()}).values())
        named = {quantity: ends[column] for quantity, column in chosen.items() if column in ends}
        return {**{quantity: unit for quantity, unit in named.items() if quantity in _TIMES}, **self.units}

    @property
    def opening(self) -> str:
        """The words that open a refusal of such a table; "" for one that is not known."""
        return f"is {self.title}: " if self.source else ""


_PLAIN = TableKind()
_AGAIN = "records of jobs that are there already"


@dataclass(frozen=True)
class Records:
    """The rows of a table.

    Attributes
    ----------
    path
        The file.
    columns
        Name to the texts of all rows.
    lines
        The line on which each row begins, from 1; None where the format has no lines.
    notes
        Kinds of entries left out in reading, with their number.
    kind
        The meaning of its columns, and what makes two rows one job.
    unread
        Columns of the file that are not among these.
    header
        Facts of the file for the log's header.
    begins
        Where rows come from several files: the first row and the path of each.
    """

    path: Path
    columns: Mapping[str, Texts]
    lines: Sequence[int] | None
    notes: dict[str, int] = field(default_factory=dict)
    kind: TableKind = _PLAIN
    unread: tuple[str, ...] = ()
    header: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    begins: tuple[tuple[int, Path], ...] = ()

    @staticmethod
    def looks_like_size(column: str) -> bool:
        """Return whether a column's name suggests that it counts what a job occupies."""
        name = spelt(column)
        return bool(_SIZE.search(name)) and not _NO_SIZE.search(name)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).codes) if self.columns else 0

    def take(self, rows: IntArray) -> Records:
        """Return some rows, which must be in order."""
        columns = {name: texts.take(rows) for name, texts in self.columns.items()}
        lines = None if self.lines is None else [self.lines[row] for row in rows]
        begins = tuple((int(np.searchsorted(rows, first)), path) for first, path in self.begins)
        return replace(self, columns=columns, lines=lines, begins=begins)

    def only(self, rows: BoolArray, note: str) -> Records:
        """Return the rows of a mask; the note counts the others."""
        return replace(self.take(np.flatnonzero(rows)), notes={**self.notes, note: int((~rows).sum())})

    def without_steps(self) -> Records:
        """Return the rows without steps of jobs and headers within, which dumps put into one file have."""
        job = next((name for name in self.columns if spelt(name) in ("jobid", "jobidraw")), None)
        if job is None:
            self._check_steps()
        if not self.kind.steps or job is None:
            return self
        texts = self.columns[job]
        ids = [text.strip() for text in texts.values.to_pylist()]
        step = np.array([_STEP.fullmatch(text) is not None for text in ids], np.bool_)[texts.codes]
        again = np.array([text == job for text in ids], np.bool_)[texts.codes]
        notes = {
            **self.notes,
            STEPS: self.notes.get(STEPS, 0) + int(step.sum()),
            "repeated headers left out": int(again.sum()),
        }
        left = np.flatnonzero(~step & ~again)
        kept = self if len(left) == len(self) else self.take(left)
        return replace(kept, notes=notes)

    def _check_steps(self) -> None:
        """Refuse rows of sacct without ids of which some, not all, lack what steps lack."""
        quantities = quantities_of([*self.columns])
        if not {name.lower() for name in quantities.values()} <= table_kinds()["sacct"].several | _SACCT_MORE:
            return
        found = [quantities[name] for name in ("user", "partition", "qos", "limit") if name in quantities]
        empty = [self.columns[name].matching(r"^\s*$") for name in found]
        steps = int(np.all(empty, axis=0).sum()) if len(empty) > 1 else 0
        if 0 < steps < len(self):
            message = f"{steps:,} rows look like steps of jobs: they have no {', no '.join(found)}"
            hint = "add the column JobID (any numbers if all rows are jobs), or write jobs alone (sacct -X)"
            raise WorkloadError(message, path=self.path, hint=hint)

    def once(self, chosen: Mapping[str, str]) -> Records:
        """Return the rows without jobs that are recorded twice, as in dumps that overlap: the last counts.

        A row of a job that had not ended yet gives way to one that has. A table of no known kind may have a
        row for each task of a job: there a row counts once if it equals one of another file in every column.
        """
        key = self.kind.key
        if len(self) == 0 or not (key or "job" in chosen):
            return self
        own = [chosen[quantity] for quantity in key or ("job", "submit") if quantity in chosen]
        own += [name for name in self.columns if not key or name.lower() == "cluster"]
        job = np.zeros(len(self), np.int64)
        for name in own:
            texts = self.columns[name]
            # Numbers stay small: those of the pairs that there are.
            _, job = np.unique(job * len(texts.values) + texts.codes, return_inverse=True)
            if job.max() + 1 == len(self):
                return self
        if not key:
            starts = [first for first, _ in self.begins[1:]]
            file = np.searchsorted(starts, np.arange(len(self)), side="right")
            earliest = np.full(len(self), len(self))
            np.minimum.at(earliest, job, file)
            kept = file == earliest[job]
            equal = "rows are equal to another one in every column: each counts as a job"
            notes = {**self.notes, equal: int(kept.sum() - job.max() - 1)}
            return replace(self, notes=notes).only(kept, _AGAIN)
        ended = np.zeros(len(self), np.bool_)
        if "state" in chosen:
            texts = self.columns[chosen["state"]]
            states = [self.kind.states.get(text, text) for text in texts.values.to_pylist()]
            # An attempt is no older record of the one that followed.
            attempt = np.array([state.startswith(ATTEMPTS) for state in states], np.bool_)[texts.codes]
            _, job = np.unique(2 * job + attempt, return_inverse=True)
            ended = ~np.array([state.startswith(RUNNING) for state in states], np.bool_)[texts.codes]
        order = np.lexsort((np.arange(len(self)), ended, job))
        last = np.append(np.diff(job[order]) != 0, True)
        rows = np.sort(order[last])
        return replace(self.take(rows), notes={**self.notes, _AGAIN: len(self) - len(rows)})

    def fault(self, row: int, column: str, message: str, hint: str | None = None) -> WorkloadError:
        """Return the error that names file, line and column."""
        line = None if self.lines is None else self.lines[row]
        where = "" if line is not None else f"row {row + 1}: "
        return WorkloadError(where + message, path=self.path_of(row), line=line, field=column, hint=hint)

    def path_of(self, row: int) -> Path:
        """Return the file of a row."""
        return next((path for first, path in reversed(self.begins) if first <= row), self.path)

    def _named_as(self, column_of: dict[str, str]) -> Records:
        """Return the rows with each quantity in the column that it has in the files before."""
        renamed = {
            own: column_of.setdefault(quantity, own)
            for quantity, own in quantities_of([*self.columns]).items()
        }
        columns = {name: texts for name, texts in self.columns.items() if renamed.get(name, name) == name}
        columns |= {new: self.columns[own] for own, new in renamed.items() if new != own}
        return replace(self, columns=columns)

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Records:
        """Return the rows of several files, one after the other; columns that a file lacks are empty."""
        import pyarrow as pa  # noqa: PLC0415 - tables of numbers do without

        if len(parts) == 1:
            return parts[0]
        column_of: dict[str, str] = {}
        parts = [part._named_as(column_of) for part in parts]
        tables = [
            pa.table({name: texts.values.take(texts.codes) for name, texts in part.columns.items()})
            for part in parts
        ]
        table = pa.concat_tables(tables, promote_options="default")
        columns = {name: Texts.of(table.column(name).fill_null("")) for name in table.column_names}
        notes: Counter[str] = Counter()
        for part in parts:
            notes.update(part.notes)
        first = np.cumsum([0, *(len(part) for part in parts)]).tolist()
        lines = (
            None
            if any(part.lines is None for part in parts)
            else [n for part in parts for n in part.lines or ()]
        )
        unread = dict.fromkeys(name for part in parts for name in part.unread)
        places = tuple(zip(first, (part.path for part in parts), strict=False))
        header = {key: values for part in parts for key, values in part.header.items()}
        return cls(parts[0].path, columns, lines, dict(notes), parts[0].kind, tuple(unread), header, places)

    def check_quantities(self, chosen: Mapping[str, str]) -> None:
        """Refuse a table that does not say when its jobs were submitted, or how long they ran."""
        missing = None
        if "submit" not in chosen:
            missing = "no column says when jobs were submitted", "submit"
        elif "elapsed" not in chosen and not ("end" in chosen and {"start", "wait"} & chosen.keys()):
            missing = "no column says how long jobs ran (Elapsed, or Start and End)", "elapsed"
        if missing is None:
            return
        there = ", ".join([*self.columns, *self.unread][:20])
        hint = f"name it: LOG?columns={missing[1]}=NAME (gridtune traces: --columns {missing[1]}=NAME)"
        if self.kind.steps:
            hint = f"write the dump again: {SACCT_COMMAND}"
        line = 1 if self.lines is not None else None
        message = f"{self.kind.opening}{missing[0]}; there are {there}"
        raise WorkloadError(message, path=self.path, line=line, hint=hint)

    def of_one_cluster(self, cluster: str | None) -> Records:
        """Return the rows of one cluster; several in one table are refused unless one is chosen."""
        name = next((name for name in self.columns if spelt(name) == "cluster"), None)
        if name is None or not (self.kind.steps or cluster):
            if cluster is not None:
                raise WorkloadError("no column names a cluster", path=self.path, field="cluster")
            return self
        texts = self.columns[name]
        names = sorted({text.strip() for text in texts.values.to_pylist()} - {""})
        hint = f"choose one: LOG?cluster=NAME (gridtune traces: --cluster), of {', '.join(names[:10])}"
        if cluster is None and len(names) > 1:
            message = f"has the jobs of {len(names)} clusters"
            raise WorkloadError(message, path=self.path, field=name, hint=hint)
        if cluster is None or names == [cluster]:
            return self
        if cluster not in names:
            raise WorkloadError(f"has no job of cluster {cluster!r}", path=self.path, field=name, hint=hint)
        own = np.array([text.strip() == cluster for text in texts.values.to_pylist()], np.bool_)[texts.codes]
        return self.only(own, "records of other clusters left out")


def spelt(name: str) -> str:
    """Return the small letters and digits of a column's name: `Submit Time` and `submit_time` are one."""
    return _BETWEEN.sub("", name.lower())


_BETWEEN = re.compile(r"[^a-z0-9]+")
_HERE = Path(__file__).parent
#: The names of columns that hold each quantity.
_NAMES: dict[str, list[str]] = {
    quantity: [spelt(name) for name in names]
    for quantity, names in tomllib.loads((_HERE / "columns.toml").read_text(encoding="utf-8")).items()
}
#: Units of plain numbers, in seconds.
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
#: Quantities that are times, whose columns may be named after their unit, and the ends of such names.
_TIMES = ("submit", "eligible", "start", "end", "elapsed", "wait", "limit")
_UNIT_ENDS = {
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "usec", "micros", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nanoseconds"), "ns"),
    **dict.fromkeys(("s", "sec", "secs", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hours"), "h"),
    **dict.fromkeys(("d", "days"), "d"),
}
_SIZE = re.compile(r"cpu|core|proc|gpu|node|slot|task|worker|width|size|npe|resource|thread")
_NO_SIZE = re.compile(
    r"time|hour|sec|power|energy|util|mem|layout|list|name|id$|type|model|spec|milli|usage|percent|rate|price|flag|used|capacity|version"
)


@cache
def table_kinds() -> dict[str, TableKind]:
    """Return the kinds of tables that are known by their columns, by name, those with most columns first."""
    entries = tomllib.loads((_HERE / "kinds.toml").read_text(encoding="utf-8"))
    kinds = []
    for name, own in entries.items():
        entry = {**entries.get(own.pop("like", ""), {}), **own, "name": name}
        sets = {"has": frozenset(map(spelt, entry["has"])), "several": frozenset(entry.get("several", ()))}
        kinds.append(TableKind(**{**entry, **sets, "key": tuple(entry.get("key", ()))}))
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: -len(kind.has))}


def kind_of(columns: Sequence[str]) -> TableKind:
    """Return the kind of table that has these columns."""
    there = {spelt(name) for name in columns}
    names = {name.strip().lower() for name in columns}
    kinds, sacct = table_kinds().values(), table_kinds()["sacct"]
    dumped = bool(names & SACCT_IDS) and len(names & sacct.several) >= _SACCT_LEAST
    return next((kind for kind in kinds if kind.has and kind.has <= there), sacct if dumped else _PLAIN)


#: The columns of sacct's ids, in small letters, and the least number of its others that tells a dump of it.
SACCT_IDS = frozenset({"jobid", "jobidraw"})
_SACCT_LEAST = 3
#: Others of its columns that hold a quantity, in small letters.
_SACCT_MORE = frozenset({"constraints", "gid", "group", "submitline", "uid"})


def check_names(names: Sequence[str], path: Path, line: int | None) -> None:
    """Refuse a table of which two columns have the same name."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice == "":
        hint = "values are separated by one character, such as | (sacct --parsable2)"
        raise WorkloadError(f"{names.count('')} columns have no name", path=path, line=line, hint=hint)
    if twice is not None:
        raise WorkloadError("the header names it twice", path=path, line=line, field=twice)


def quantities_of(columns: Sequence[str], chosen: str = "", kind: TableKind | None = None) -> dict[str, str]:
    """Return the column of each quantity that a table holds.

    Parameters
    ----------
    columns
        The names of its columns.
    chosen
        The columns that a user chose, such as `submit=Submitted,processors=Cores`; the others are found by
        their names.
    kind
        That of the table, by default the one that its columns tell.

    Raises
    ------
    WorkloadError
        For a choice that is no pair, of a quantity that there is not, or of a column that the table has not.
    """
    own = (kind_of(columns) if kind is None else kind).columns
    by_name: dict[str, str] = {}
    for column in columns:
        # Shares in per cent are no counts.
        if "%" not in column:
            by_name.setdefault(spelt(column), column)
    ends = _without_units(by_name)
    found = {}
    for quantity, names in _NAMES.items():
        given = [spelt(own[quantity])] if own.get(quantity) else [] if quantity in own else names
        present = next((by_name[name] for name in given if name in by_name), None)
        if present is None and quantity in _TIMES and quantity not in own:
            present = next((ends[name][0] for name in names if name in ends), None)
        if present is not None:
            found[quantity] = present
    # sacct calls the cluster that; in Philly's table it is the only grouping there is, a virtual cluster.
    if "partition" not in found and "cluster" in by_name and "user" not in found:
        found["partition"] = by_name["cluster"]
    return found | (_chosen(chosen, columns) if chosen else {})


def _quantity_named(name: str) -> str | None:
    """Return the quantity that a name of it, or of a column that holds it, means."""
    return next((q for q, names in _NAMES.items() if name == q or spelt(name) in names), None)


def _without_units(by_name: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return columns by the part of their name before a unit, with the unit: `run_time_ms`, `limit (h)`."""
    found: dict[str, tuple[str, str]] = {}
    known = {name for names in _NAMES.values() for name in names}
    for name, column in by_name.items():
        words = [word for word in re.split(r"[^a-z0-9]+", _CAMEL.sub("_", column).lower()) if word]
        if name not in known and len(words) > 1 and words[-1] in _UNIT_ENDS:
            found.setdefault("".join(words[:-1]), (column, _UNIT_ENDS[words[-1]]))
    return found


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _chosen(text: str, columns: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for part in text.split(","):
        name, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            hint = "such as submit=Submitted,processors=Cores"
            raise WorkloadError(f"{part!r} does not name a column", field="columns", hint=hint)
        # A quantity may also have the name of a field, such as `submit_time`.
        quantity = _quantity_named(name)
        if quantity is None:
            near = nearest_name(name, _NAMES) if len(name) > _SHORTEST else None
            hint = f"did you mean {near!r}?" if near else f"one of {', '.join(_NAMES)}"
            message = f"{name!r} is nothing a job table holds"
            raise WorkloadError(message, field="columns", hint=hint)
        pairs[quantity] = column
    for column in pairs.values():
        if column not in columns:
            message, hint = f"the table has no column {column!r}", name_hint(column, columns)
            raise WorkloadError(message, field="columns", hint=hint)
    return pairs


#: Letters of a word that is too short to guess what was meant.
_SHORTEST = 2


@dataclass(frozen=True)
class TableOptions:
    """The options of every table of records, by their names in Python, on the command line and in references.

    Attributes
    ----------
    columns
        The column of each quantity, as `submit=Submitted,…`; the others are found by their names.
    unit
        The unit of plain numbers, as `elapsed=ms,limit=h`: ns, us, ms, s, min, h, d.
    timezone
        The zone of times without an offset, such as `Europe/Berlin`; UTC by default.
    requested
        Take the processors that jobs asked for; by default, those they got, where that is known.
    processors_per_job
        The size of every job of a log that has no sizes.
    cluster
        The cluster to read, where records of several are in one table.
    """

    columns: str | None = None
    unit: str | None = None
    timezone: str | None = None
    requested: bool = False
    processors_per_job: int | None = None
    cluster: str | None = None

    @cached_property
    def zone(self) -> tzinfo:
        """The zone of times without an offset."""
        try:
            return UTC if self.timezone is None else ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError):
            hint = "a name of the time zone database, such as Europe/Berlin"
            message = f"there is no time zone {self.timezone!r}"
            raise WorkloadError(message, field="timezone", hint=hint) from None

    @cached_property
    def units(self) -> dict[str, str]:
        """The unit of each quantity that has one."""
        pairs = {}
        for part in (self.unit or "").split(",") if self.unit else ():
            name, _, unit = (piece.strip() for piece in part.partition("="))
            quantity = _quantity_named(name)
            if quantity not in _TIMES or unit not in UNITS:
                hint = f"such as elapsed=ms,limit=h; of {', '.join(_TIMES)}; units are {', '.join(UNITS)}"
                raise WorkloadError(f"{part!r} is no unit of a quantity", field="unit", hint=hint)
            pairs[quantity] = unit
        return pairs
