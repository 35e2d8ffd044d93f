"""sacct: the job accounting of Slurm, as `sacct --parsable2` writes it, with any set of columns.

Steps of jobs are left out. A job that never started has no run time, one that had not ended neither. What was
left out or is odd is counted in the header, under `Import`.

Source: https://slurm.schedmd.com/sacct.html

Slurm escapes nothing. Where a record has more values than the header names, some of its bars belong to free
text; where it has fewer, a free text goes on in the next line. Both are settled by the columns between: a
reading counts only if every time, number and state is one, and if all readings that count agree on what is
used. A record that is cut off or damaged is left out with a warning that names its line.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from gridtune.errors import GridtuneWarning, WorkloadError
from gridtune.workload.formats.accounting import log_of_records
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format, RawLog
from gridtune.workload.formats.records import Records, check_names, quantities_of
from gridtune.workload.formats.table import decoded

__all__ = ["SACCT"]


#: Columns that hold free text.
_FREE = frozenset(
    {"jobname", "submitline", "workdir", "comment", "admincomment", "systemcomment", "constraints"}
    | {"extra", "container", "wckey", "stdin", "stdout", "stderr", "failednode", "reservation", "reason"}
)

#: Lines that one record may take, bars that its texts may hold, and readings that are compared.
_MOST_LINES, _MOST_BARS, _READINGS = 200, 60, 32

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|\d+(\.\d+)?|Unknown|None|N/A|"
_SPAN = r"(\d+-)?(\d+:)?\d+:\d+(\.\d+)?|\d+|UNLIMITED|Partition_Limit|INVALID|Unknown|"
_COUNT = r"-?\d+(\.\d+)?[KMGT]?|Unknown|"
_TRES = r"([\w/:.-]+=[^|,]*)(,[\w/:.-]+=[^|,]*)*|"
#: What values of a column look like, by its name in small letters.
_SHAPES = {
    **dict.fromkeys(("submit", "eligible", "start", "end"), _TIME),
    **dict.fromkeys(("elapsed", "timelimit", "suspended", "reserved", "planned"), _SPAN),
    **dict.fromkeys(("cputime", "totalcpu", "usercpu", "systemcpu", "resvcpu"), _SPAN),
    **dict.fromkeys(("elapsedraw", "timelimitraw", "cputimeraw", "resvcpuraw", "dbindex", "associd"), _COUNT),
    **dict.fromkeys(("alloccpus", "reqcpus", "ncpus", "allocnodes", "reqnodes", "nnodes", "ntasks"), _COUNT),
    **dict.fromkeys(("uid", "gid", "jobidraw", "priority", "qosraw"), r"-?[\d.+a-z]*"),
    **dict.fromkeys(("exitcode", "derivedexitcode"), r"\d+:\d+|"),
    **dict.fromkeys(("reqtres", "alloctres"), _TRES),
    "state": r"[A-Z_]+\+?( by \S+)?|",
    "jobid": r"\d+\S*",
    "reqmem": r"\d+(\.\d+)?[KMGTP]?[cn]?|",
}


#: The fewest columns that hold a free text, and the readings of a record that have so many.
_Likeliest = tuple[int, list[list[str]]]


class _Reader:
    def __init__(self, lines: Sequence[str], start: int, path: Path) -> None:
        self.lines, self.start, self.path = lines, start, path
        names = [name.strip() for name in lines[start].rstrip("\r").split("|")]
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
        self.free = [name in _FREE for name in lower]
        read = {self.names.index(name) for name in quantities_of(self.names).values()}
        self.decisive = [i for i in sorted(read) if not self.free[i]]
        self.shapes = [re.compile(_SHAPES[name]) if name in _SHAPES else None for name in lower]

    def records(self) -> Iterator[tuple[int, list[str] | WorkloadError]]:
        """Yield the line, from 1, and the values of each record, or what is wrong with it."""
        at = self.start + 1
        while at < len(self.lines):
            if not self.lines[at].strip():
                at += 1
                continue
            try:
                values, used = self._record(at)
            except WorkloadError as error:
                yield at + 1, error
                at += 1
            else:
                yield at + 1, values
                at += used

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
        count = self.lines[at].count("|") + 1 - self.trailing
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
        return (text.removesuffix("|") if self.trailing else text).split("|")

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
                value = "|".join(tokens[at : at + taken + 1])
                if self.free[column] or self._has_shape(column, value):
                    texts, others = self._readings(tokens, column + 1, left - taken, known)
                    texts += self.free[column] and value != ""
                    if others and texts < fewest:
                        fewest, found = texts, []
                    if texts == fewest:
                        found += [[value, *other] for other in others[: _READINGS - len(found)]]
            known[column, left] = fewest, found
        return known[column, left]


def _read(stream: LogStream, timezone: str | None = None) -> RawLog:
    """Read a dump; `timezone` is that of its times, UTC by default.

    Steps are left out and counted, and so are damaged records, with a warning. If more records are damaged
    than not, the first of them is an error.
    """
    lines = decoded(stream.read()).split("\n")
    start = next((i for i, line in enumerate(lines) if line.strip()), None)
    if start is None:
        raise WorkloadError("is empty", path=stream.path)
    reader = _Reader(lines, start, stream.path)
    rows, begins, steps = [], [], 0
    damaged: list[WorkloadError] = []
    for line, values in reader.records():
        if isinstance(values, WorkloadError):
            damaged.append(values)
        elif "." in values[reader.job]:
            steps += 1
        else:
            rows.append(values)
            begins.append(line)
    if len(damaged) > len(rows) + steps:
        raise damaged[0]
    if damaged:
        others = f"; {len(damaged) - 1} more like it" if len(damaged) > 1 else ""
        message = f"left out: {damaged[0].path}:{damaged[0].line} {damaged[0].message}{others}"
        warnings.warn(message, GridtuneWarning, stacklevel=2)
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in reader.names]
    notes = {"steps of jobs left out": steps, "damaged records left out": len(damaged)}
    records = Records(stream.path, dict(zip(reader.names, columns, strict=True)), begins, notes)
    return log_of_records(records, timezone=timezone)


def _recognises(start: bytes) -> bool:
    """Return whether a file begins like a dump: a line of names between bars, a job's id among them."""
    header = decoded(start).lstrip("\ufeff\r\n").split("\n", 1)[0]
    names = {name.strip().lower() for name in header.split("|")}
    return "|" in header and bool({"jobid", "jobidraw"} & names)


SACCT = Format(
    "sacct", ".sacct", _read, None, "Slurm's accounting, sacct -P: read only", recognises=_recognises
)
