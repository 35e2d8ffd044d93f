"""Job tables of any origin: their rows as text, and the quantity that each column holds."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.registry import name_hint, nearest_name
from gridtune.types import BoolArray, IntArray
from gridtune.workload.fields import FIELDS, UNKNOWN

__all__ = ["ATTEMPTS", "RUNNING", "Records", "Texts", "check_names", "quantities_of"]


#: States of jobs that had not ended.
RUNNING = ("RUNNING", "PENDING", "SUSPENDED")

#: States of attempts at a job that another followed.
ATTEMPTS = ("REQUEUED", "PREEMPTED")


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
        return numbers, {position: text for text, position in number.items()}


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
    key
        Quantities of which no two jobs have all the same: rows that do are one job, recorded twice.
    unread
        Columns of the file that are not among these.
    begins
        Where rows come from several files: the first row and the path of each.
    """

    path: Path
    columns: Mapping[str, Texts]
    lines: Sequence[int] | None
    notes: dict[str, int] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    begins: tuple[tuple[int, Path], ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).codes) if self.columns else 0

    def take(self, rows: IntArray) -> Records:
        """Return some rows, which must be in order."""
        columns = {name: texts.take(rows) for name, texts in self.columns.items()}
        lines = None if self.lines is None else [self.lines[row] for row in rows]
        begins = tuple((int(np.searchsorted(rows, first)), path) for first, path in self.begins)
        return replace(self, columns=columns, lines=lines, begins=begins)

    def once(self, chosen: Mapping[str, str]) -> Records:
        """Return the rows without jobs that are recorded twice, as in dumps that overlap: the last counts.

        A row of a job that had not ended yet gives way to one that has.
        """
        if not self.key or len(self) == 0:
            return self
        own = [chosen[quantity] for quantity in self.key if quantity in chosen]
        own += [name for name in self.columns if name.lower() == "cluster"]
        job = np.zeros(len(self), np.int64)
        for name in own:
            texts = self.columns[name]
            # Numbers stay small: those of the pairs that there are.
            _, job = np.unique(job * len(texts.values) + texts.codes, return_inverse=True)
        ended = np.zeros(len(self), np.bool_)
        if "state" in chosen:
            texts = self.columns[chosen["state"]]
            states = texts.values.to_pylist()
            # An attempt is no older record of the one that followed.
            attempt = np.array([state.startswith(ATTEMPTS) for state in states], np.bool_)[texts.codes]
            _, job = np.unique(2 * job + attempt, return_inverse=True)
            ended = ~np.array([state.startswith(RUNNING) for state in states], np.bool_)[texts.codes]
        if job.max() + 1 == len(self):
            return self
        order = np.lexsort((np.arange(len(self)), ended, job))
        last = np.append(np.diff(job[order]) != 0, True)
        kept = np.sort(order[last])
        notes = {**self.notes, "records of jobs that are there already": len(self) - len(kept)}
        return replace(self.take(kept), notes=notes)

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
        return cls(parts[0].path, columns, lines, dict(notes), parts[0].key, tuple(unread), places)


#: The names of columns that hold each quantity, in small letters.
_NAMES: dict[str, list[str]] = tomllib.loads(
    Path(__file__).with_name("columns.toml").read_text(encoding="utf-8")
)


def check_names(names: Sequence[str], path: Path, line: int | None, *, own: bool = False) -> None:
    """Refuse a table of which two columns have the same name, or one of gridtune's own with other fields."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise WorkloadError("the header names it twice", path=path, line=line, field=twice)
    for name in names if own else ():
        if name not in FIELDS:
            near = nearest_name(name, FIELDS)
            hint = f"did you mean {near!r}? " if near else ""
            hint += "columns of other names: gridtune traces import FILE NEW.swf --columns processors=NAME"
            raise WorkloadError(f"unknown field {name[:40]!r}", path=path, line=line, hint=hint)
    for name in ("submit_time", "run_time") if own else ():
        if name not in names:
            raise WorkloadError("the table does not name it", path=path, line=line, field=name)


def quantities_of(columns: Sequence[str], chosen: str = "") -> dict[str, str]:
    """Return the column of each quantity that a table holds.

    Parameters
    ----------
    columns
        The names of its columns.
    chosen
        The columns that a user chose, such as `submit=Submitted,processors=Cores`; the others are found by
        their names.

    Raises
    ------
    WorkloadError
        For a choice that is no pair, of a quantity that there is not, or of a column that the table has not.
    """
    by_name: dict[str, str] = {}
    for column in columns:
        by_name.setdefault(column.strip().lower(), column)
    found = {}
    for quantity, names in _NAMES.items():
        present = next((by_name[name] for name in names if name in by_name), None)
        if present is not None:
            found[quantity] = present
    # sacct calls the cluster that; in Philly's table it is the only grouping there is, a virtual cluster.
    if "partition" not in found and "cluster" in by_name and "user" not in found:
        found["partition"] = by_name["cluster"]
    return found | (_chosen(chosen, columns) if chosen else {})


def _chosen(text: str, columns: Sequence[str]) -> dict[str, str]:
    pairs = {}
    meant = {name: quantity for quantity, names in _NAMES.items() for name in (quantity, *names)}
    for part in text.split(","):
        quantity, equals, column = part.partition("=")
        if not equals or not column.strip():
            hint = "such as submit=Submitted,processors=Cores"
            raise WorkloadError(f"{part!r} does not name a column", field="columns", hint=hint)
        # A quantity may also have the name of a field, such as `submit_time`.
        name = quantity.strip()
        quantity = meant.get(name, name)
        if quantity not in _NAMES:
            near = meant.get(nearest_name(name, meant) or "")
            hint = f"did you mean {near!r}?" if near else name_hint(name, _NAMES)
            message = f"{name!r} is nothing a job table holds"
            raise WorkloadError(message, field="columns", hint=hint)
        pairs[quantity] = column.strip()
    for column in pairs.values():
        if column not in columns:
            message, hint = f"the table has no column {column!r}", name_hint(column, columns)
            raise WorkloadError(message, field="columns", hint=hint)
    return pairs
