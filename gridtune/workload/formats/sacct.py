"""sacct: the job accounting of Slurm, as `sacct --parsable2` writes it, with any set of columns.

Steps of jobs are left out. A job that never started has no run time, one that had not ended neither. Entries
that were left out or are odd are counted in the header, under `Import`.

Source: https://slurm.schedmd.com/sacct.html

Slurm escapes nothing. Where a record has more values than the header names, some of its bars belong to free
text; where it has fewer, a free text goes on in the next line. Both are settled by the columns between: a
reading counts only if every time, number and state is one, and if all readings that count agree on what is
used. A record that is cut off or damaged is left out with a warning that names its line.

Dumps of `sacct --json` have the same jobs, by the names of the columns of `sacct -P`. Releases differ in
which values are numbers and which field marks a number as set; both are read.
Source: https://slurm.schedmd.com/rest_api.html, "dbv0.0.40_job".
"""

from __future__ import annotations

import codecs
import json
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridtune.errors import GridtuneWarning, WorkloadError, printable
from gridtune.types import BoolArray, IntArray
from gridtune.workload.formats.accounting import LOOKED_AT
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format
from gridtune.workload.formats.recognition import recognise
from gridtune.workload.formats.records import STEPS, Records, Texts, check_names, quantities_of, table_kinds
from gridtune.workload.formats.table import BYTE_ORDER_MARK, decoded
from gridtune.workload.formats.tables import delimiter_of

_NAMES = tomllib.loads(Path(__file__).with_name("sacct.toml").read_text(encoding="utf-8"))
#: Lines that one record may take, bars that its texts may hold, and readings that are compared.
_MOST_LINES, _MOST_BARS, _READINGS = 200, 60, 32

#: What values of a column look like, by its name in small letters.
_SHAPES = {column: re.compile(shape["form"]) for shape in _NAMES["shapes"] for column in shape["columns"]}


#: The most bytes of text that are split into columns at once.
_BLOCK = 1 << 24
#: Lines that are put into a block together.
_ROWS = 50_000

#: The fewest columns that hold a free text, and the readings of a record that have so many.
_Likeliest = tuple[int, list[list[str]]]


class _Lines:
    """The lines of a text in UTF-8, decoded when asked for.

    Attributes
    ----------
    first : shape (lines + 1,)
        The position of each line's first byte, and beyond the last of them.
    bars : shape (lines,)
        The bars in each line, or other marks between values; -1 in one with a return other than at its end.
    """

    def __init__(self, content: bytes, mark: str) -> None:
        self.content, self.mark = content, mark
        first, bars = [np.zeros(1, np.int64)], []
        begin = 0
        while begin < len(content):
            # Whole lines, some megabytes at a time.
            beyond = content.rfind(b"\n", begin, begin + _BLOCK) + 1 or content.find(b"\n", begin) + 1
            block = np.frombuffer(content, np.uint8)[begin : beyond or len(content)]
            ends = np.flatnonzero(block == ord("\n")) if beyond else np.array([len(block)])
            bars.append(np.diff(np.searchsorted(np.flatnonzero(block == ord(mark)), ends), prepend=0))
            first.append(ends + (begin + 1))
            begin += len(block)
        if content.endswith(b"\n") or not content:
            # What a text ends with is a line, too.
            bars.append(np.zeros(1, np.int64))
            first.append(np.array([len(content) + 1]))
        self.first, self.bars = np.concatenate(first), np.concatenate(bars)
        if b"\r" in content:
            returns = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\r"))
            within = returns[~np.isin(returns + 2, self.first)]
            self.bars[np.searchsorted(self.first, within, side="right") - 1] = -1

    def __len__(self) -> int:
        return len(self.bars)

    def __getitem__(self, line: int) -> str:
        return self.content[self.first[line] : self.first[line + 1] - 1].decode("utf-8", "replace")


class _DumpReader:
    def __init__(self, lines: _Lines, start: int, path: Path) -> None:
        self.lines, self.start, self.path, self.mark = lines, start, path, lines.mark
        self.header = lines[start].rstrip("\r")
        names = [name.strip() for name in lines[start].rstrip("\r").split(self.mark)]
        # `sacct -p` ends every line with a bar.
        self.trailing = names[-1] == ""
        self.names = names[:-1] if self.trailing else names
        lower = [name.lower() for name in self.names]
        check_names(self.names, path, start + 1)
        if not {"jobid", "jobidraw"} & set(lower):
            hint = (
                "write it with sacct --parsable2 and, among others, the columns JobID, Submit, Start and End"
            )
            raise WorkloadError(
                "is no dump of sacct: no JobID in its header", path=path, line=start + 1, hint=hint
            )
        self.job = lower.index("jobid" if "jobid" in lower else "jobidraw")
        self.free = [name in _NAMES["free"] for name in lower]
        read = {self.names.index(name) for name in quantities_of(self.names).values()}
        self.decisive = [i for i in sorted(read) if not self.free[i]]
        self.shapes = [_SHAPES.get(name) for name in lower]

    def table(self, wanted: Sequence[str]) -> tuple[Any, IntArray, list[WorkloadError], int]:
        """Return some columns of all records, the line of each from 0, and what is wrong with the others.

        Lines with as many bars as the header are records by themselves, unless one before goes on in them.
        They are split all at once, without steps of jobs, of which the number comes last; the others, one by
        one, and come after them.
        """
        import pyarrow as pa  # noqa: PLC0415 - other formats do without

        plain = self.lines.bars == len(self.names) - 1 + self.trailing
        if self.trailing:
            view, end = np.frombuffer(self.lines.content, np.uint8), self.lines.first[1:] - 1
            end = end - (view[end - 1] == ord("\r"))
            plain &= view[end - 1] == ord(self.mark)
        plain[: self.start + 1] = False
        single: list[tuple[int, list[str]]] = []
        damaged: list[WorkloadError] = []
        at = self.start + 1
        for line in np.flatnonzero(~plain).tolist():
            if line < at or not self.lines[line].strip():
                continue
            try:
                values, used = self._record(line)
            except WorkloadError as error:
                damaged.append(error)
                continue
            single.append((line, values))
            plain[line : line + used] = False
            at = line + used
        split = [*self._split(np.flatnonzero(plain), wanted)]
        rows = np.concatenate([np.zeros(0, np.int64), *(kept for kept, _ in split)])
        tables = [pa.schema([(name, pa.string()) for name in wanted]).empty_table(), *(t for _, t in split)]
        if single:
            positions = [self.names.index(name) for name in wanted]
            texts = {
                name: pa.array([values[k] for _, values in single], pa.string())
                for name, k in zip(wanted, positions, strict=True)
            }
            tables.append(pa.table(texts))
        lines = np.concatenate([rows, np.array([line for line, _ in single], np.int64)])
        return pa.concat_tables(tables), lines, damaged, int(plain.sum()) - len(rows)

    def _split(self, rows: IntArray, wanted: Sequence[str]) -> Iterator[tuple[IntArray, Any]]:
        """Yield some columns of lines that are each a record, steps of jobs left out, and their rows."""
        import pyarrow as pa  # noqa: PLC0415 - other formats do without
        from pyarrow import csv  # noqa: PLC0415

        names = [*self.names, ""] if self.trailing else self.names
        begins, ends = self.lines.first[rows], self.lines.first[rows + 1]
        # Neighbouring lines are taken together.
        new = np.flatnonzero(np.append(True, begins[1:] != ends[:-1])) if len(rows) else np.zeros(0, np.int64)
        size, pieces, kept = 0, [], []
        for first, beyond in zip(new.tolist(), [*new[1:].tolist(), len(rows)], strict=False):
            for some in range(first, beyond, _ROWS):
                last = min(some + _ROWS, beyond)
                jobs = self._jobs(begins[some:last], ends[some:last])
                text = np.frombuffer(self.lines.content, np.uint8)[begins[some] : ends[last - 1]]
                lengths = np.minimum(ends[some:last], len(self.lines.content)) - begins[some:last]
                pieces.append(text[np.repeat(jobs, lengths)].tobytes())
                kept.append(rows[some:last][jobs])
                size += len(pieces[-1])
                if size and (size >= _BLOCK or (beyond == len(rows) and last == beyond)):
                    options = csv.ReadOptions(
                        use_threads=False, column_names=names, block_size=max(2 * size, 1024)
                    )
                    yield (
                        np.concatenate(kept),
                        csv.read_csv(
                            pa.BufferReader(b"".join(pieces)),
                            options,
                            csv.ParseOptions(delimiter=self.mark, quote_char=False, ignore_empty_lines=False),
                            csv.ConvertOptions(
                                column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted
                            ),
                        ),
                    )
                    size, pieces, kept = 0, [], []

    def _jobs(self, begins: IntArray, ends: IntArray) -> BoolArray:
        """Return which of some neighbouring lines, each a record, are jobs: a step's id has a point."""
        text = np.frombuffer(self.lines.content, np.uint8)[begins[0] : ends[-1]]
        bars = np.flatnonzero(text == ord(self.mark)).reshape(len(begins), -1)
        edges = np.column_stack([begins - begins[0], bars, ends - begins[0]])
        points = np.flatnonzero(text == ord("."))
        jobs: BoolArray = (
            np.diff(np.searchsorted(points, edges[:, self.job : self.job + 2]), axis=1)[:, 0] == 0
        )
        return jobs

    def _record(self, at: int) -> tuple[list[str], int]:
        """Return the values of the record that begins at a line, and how many lines it takes."""
        text = self.lines[at].rstrip("\r")
        for used in range(1, min(len(self.lines) - at, _MOST_LINES) + 1):
            values = self._values(text, at)
            if values is not None:
                return values, used
            following = self.lines[at + used].rstrip("\r") if at + used < len(self.lines) else None
            # A line that is a record by itself does not continue another.
            if following is None or self._splits_plainly(following):
                break
            text += "\n" + following
        count = self.lines[at].count(self.mark) + 1 - self.trailing
        raise WorkloadError(
            f"is no record: {count} values where the header names {len(self.names)}",
            path=self.path,
            line=at + 1,
            hint="write the dump with sacct --parsable2; without JobName, Comment and SubmitLine if need be",
        )

    def _splits_plainly(self, text: str) -> bool:
        tokens = self._tokens(text)
        return len(tokens) == len(self.names) and self._fits(tokens)

    def _tokens(self, text: str) -> list[str]:
        return (text.removesuffix(self.mark) if self.trailing else text).split(self.mark)

    def _fits(self, values: Sequence[str]) -> bool:
        return all(self._has_shape(column, value) for column, value in enumerate(values))

    def _has_shape(self, column: int, value: str) -> bool:
        shape = self.shapes[column]
        return shape is None or shape.fullmatch(value) is not None

    def _values(self, text: str, at: int) -> list[str] | None:
        tokens = self._tokens(text)
        surplus = len(tokens) - len(self.names)
        if surplus < 0:
            return None
        if surplus == 0:
            # A fault in a plain record is found, and named, by whoever reads that column.
            return tokens if "\n" not in text or self._fits(tokens) else None
        if surplus > _MOST_BARS:
            return None
        _, readings = self._readings(tokens, 0, surplus, {})
        if not readings:
            return None
        first = [readings[0][i] for i in self.decisive]
        if any([reading[i] for i in self.decisive] != first for reading in readings):
            message = f"can be read in {len(readings)} ways: {surplus} bars are part of a text"
            hint = "write the dump without JobName, Comment and SubmitLine"
            raise WorkloadError(message, path=self.path, line=at + 1, hint=hint)
        return readings[0]

    def _readings(
        self, tokens: Sequence[str], column: int, left: int, known: dict[tuple[int, int], _Likeliest]
    ) -> _Likeliest:
        """Return the likeliest ways to give the bars that are left to free texts, from a column on.

        Bars in one text are likelier than texts in several columns: the fewest columns that hold a free text
        come first, with all the readings (up to `_READINGS`) that have no more.
        """
        if column == len(self.names):
            return (0, [[]]) if left == 0 else (0, [])
        if (column, left) not in known:
            at = len(tokens) - (len(self.names) - column) - left
            fewest = len(self.names)
            found: list[list[str]] = []
            for taken in range((left if self.free[column] else 0) + 1):
                value = self.mark.join(tokens[at : at + taken + 1])
                if self.free[column] or self._has_shape(column, value):
                    texts, others = self._readings(tokens, column + 1, left - taken, known)
                    texts += self.free[column] and value != ""
                    if others and texts < fewest:
                        fewest, found = texts, []
                    if texts == fewest:
                        found += [[value, *other] for other in others[: _READINGS - len(found)]]
            known[column, left] = fewest, found
        return known[column, left]


def _read(stream: LogStream) -> Records:
    """Return the jobs of a dump.

    Steps are left out and counted, and so are damaged records, with a warning. If more records are damaged
    than not, the first of them is an error.
    """
    if decoded(stream.peek()).lstrip("\ufeff \r\n\t").startswith("{"):
        return _records_of_json(decoded(stream.read()), stream.path)
    found = recognise(stream.peek())
    above = decoded(stream.peek()).lstrip("\ufeff").split("\n")
    start = next((n for n in range(found.skipped if found else 0, len(above)) if above[n].strip()), None)
    said = [line for line in above[:start] if line.strip()]
    if start is None:
        raise WorkloadError("is empty", path=stream.path)
    lines = _Lines(_utf8(stream.read()), delimiter_of(above[start]))
    reader = _DumpReader(lines, start, stream.path)
    looked_at = {*quantities_of(reader.names).values(), *(n for n in reader.names if n.lower() in LOOKED_AT)}
    wanted = [name for name in reader.names if name in looked_at]
    table, begins, damaged, steps = reader.table(wanted)
    names = reader.names
    # Neither the text nor the table is needed while the other is made up.
    del lines, reader
    order = np.argsort(begins)
    begins, texts = begins[order], {}
    in_order = bool((np.diff(order) > 0).all())
    for name in wanted:
        column = table.column(name)
        texts[name] = Texts.of(column if in_order else column.take(order))
        table = table.drop_columns([name])
    if len(damaged) > len(begins) + steps:
        raise damaged[0]
    if damaged:
        others = f"; {len(damaged) - 1} more like it" if len(damaged) > 1 else ""
        message = f"left out: {damaged[0].path}:{damaged[0].line} {damaged[0].message}{others}"
        warnings.warn(message, GridtuneWarning, stacklevel=2)
    skipped = f"lines above the header left out, such as {printable(said[0].strip()[:80])!r}" if said else ""
    notes = {STEPS: steps, "damaged records left out": len(damaged), skipped: len(said)}
    unread = tuple(name for name in names if name not in looked_at)
    return Records(stream.path, texts, (begins + 1).tolist(), notes, table_kinds()["sacct"], unread)


_MOMENTS = frozenset({"Submit", "Eligible", "Start", "End"})


def _records_of_json(text: str, path: Path) -> Records:
    """Return the jobs of a dump.

    Raises
    ------
    WorkloadError
        If it is cut off or no dump; the message names the line, or the job.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise WorkloadError(f"is no JSON, or it is cut off ({error})", path=path, line=line) from None
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise WorkloadError("has no list of jobs", path=path, hint="`sacct --allusers --json` writes one")
    columns = {
        name: Texts.of([_json_text(name, _json_value(job, way)) for job in jobs])
        for name, way in _NAMES["paths"].items()
    }
    columns["JobID"] = Texts.of([_job_id(job) for job in jobs])
    known = {way.partition(".")[0] for way in _NAMES["paths"].values()} | {"array", "het", "steps"}
    unread = tuple(dict.fromkeys(name for job in jobs for name in job if name not in known))
    notes = {STEPS: sum(len(job.get("steps") or ()) for job in jobs)}
    # "Slurm" in releases before 23.11.
    release = _json_value(content, "meta.slurm.release") or _json_value(content, "meta.Slurm.release")
    header = {"SlurmVersion": (str(release),)} if release else {}
    return Records(path, columns, None, notes, table_kinds()["sacct"], unread, header)


def _json_value(job: Mapping[str, Any], way: str) -> Any:
    value: Any = job
    for name in way.split("."):
        value = value.get(name) if isinstance(value, dict) else None if name != "current" else value
    return value


def _json_text(column: str, value: Any) -> str:
    """Return a value as `sacct -P` would write it."""
    if isinstance(value, dict) and "number" in value:
        value = "UNLIMITED" if value.get("infinite") else value["number"] if value.get("set", True) else None
    if isinstance(value, list) and column.endswith("TRES"):
        # Counts of memory are in MB.
        parts = [one for one in value if isinstance(one, dict) and one.get("type")]
        return ",".join(
            f"{one['type']}{'/' if one.get('name') else ''}{one.get('name') or ''}={one.get('count', 0)}"
            + ("M" if one["type"] == "mem" else "")
            for one in parts
        )
    if isinstance(value, list):
        value = value[0] if value else None
    if value is None or (column in _MOMENTS and value == 0):
        return ""
    return str(value)


def _job_id(job: Mapping[str, Any]) -> str:
    """Return the id with the task of an array, or the component of a heterogeneous job."""
    ways = ("array.job_id", "array.task_id", "het.job_id", "het.job_offset")
    lead, task, whole, part = (_json_text("", _json_value(job, way)) for way in ways)
    if whole not in {"", "0"}:
        return f"{whole}+{part or 0}"
    return f"{lead}_{task}" if lead not in {"", "0"} and task else _json_text("", job.get("job_id"))


def _utf8(content: bytes) -> bytes:
    """Return a text in UTF-8, whatever it is in, without a byte order mark."""
    content = content.removeprefix(BYTE_ORDER_MARK)
    check = codecs.getincrementaldecoder("utf-8")()
    try:
        # Piece by piece: the whole as a text would take as much memory again.
        for begin in range(0, len(content), _BLOCK):
            check.decode(content[begin : begin + _BLOCK])
        check.decode(b"", final=True)
    except UnicodeDecodeError:
        return decoded(content).encode()
    return content


SACCT = Format("sacct", ".sacct", _read, None, "Slurm's accounting, sacct -P or sacct --json: read only")
