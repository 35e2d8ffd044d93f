"""Recognition of a file by its first kilobytes; its name only settles what its content leaves open.

Kinds of files that are known and not read are recognised, too: the refusal then names the command or the
conversion that helps.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from gridtune.errors import GridtuneError, printable
from gridtune.workload.formats.log import FORMATS, OWN, find_format, format_names
from gridtune.workload.formats.records import SACCT_COMMAND, SACCT_IDS, kind_of, quantities_of
from gridtune.workload.formats.table import decoded
from gridtune.workload.formats.tables import delimiter_of, names_in

#: The names of a workflow, which is no log, and of a table whose first line has values.
WORKFLOW, HEADLESS = "a workflow", "a table without a header"


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.+Z-][\d:.]*)?")


class Recognition(NamedTuple):
    """The kind of a file, and the reason.

    Attributes
    ----------
    name
        The name of a format, or of a kind of file that is not read.
    confidence
        From 0 to 1.
    why
        What in the content, or in the name, says so.
    hint
        The remedy, for a kind of file that is not read as a log; "" for a format.
    skipped
        Lines above the header that are no records, such as a greeting of the machine.
    """

    name: str
    confidence: float
    why: str
    hint: str = ""
    skipped: int = 0


@dataclass(frozen=True)
class _Head:
    """The beginning of a file."""

    start: bytes

    @cached_property
    def text(self) -> str:
        return decoded(self.start).lstrip("\ufeff")

    @cached_property
    def lines(self) -> list[str]:
        """Its first lines that are not empty, without the last one if that may be cut off."""
        lines = [line.rstrip("\r") for line in self.text.split("\n")[:400]]
        return [line for line in (lines[:-1] if len(lines) > 1 else lines) if line.strip()]

    @property
    def first(self) -> str:
        return self.lines[0] if self.lines else ""

    @cached_property
    def row(self) -> list[str]:
        """The values of the first line."""
        return names_in(self.first)

    @cached_property
    def json(self) -> str:
        """The text if it is JSON, else ""."""
        text = self.text.lstrip()
        return text if re.match(r'\{\s*("|\}|$)|\[\s*(\{|\]|$)', text) else ""

    def as_json(self) -> Recognition | None:
        """Recognise JSON that may have an object a job."""
        # Objects a line, or one alone that holds neither objects nor lists.
        alone = len(self.lines) == 1 and not set("[{") & set(self.json[1:])
        lines = alone or (len(self.lines) > 1 and self.lines[1].lstrip().startswith("{"))
        objects = lines or self.json.startswith("[")
        if objects and re.search(r"[{,]\s*\"\w*submi\w*\"\s*:", self.json, re.IGNORECASE):
            return Recognition("csv", 0.8, "it is JSON with an object a job")
        return None

    def as_numbers(self) -> Recognition | None:
        """Recognise logs of the archives by the number of fields in the first job."""
        job = next((line for line in self.lines if line.lstrip()[:1] not in (";", "#")), "")
        fields = job.partition(";")[0].split()
        numeric = sum(re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", value) is not None for value in fields)
        comments = (
            ";" if self.first.lstrip().startswith(";") else "#" if self.first.lstrip().startswith("#") else ""
        )
        if len(fields) == 29 and numeric >= 11 and comments != ";":
            return Recognition("gwf", 0.85, "its first job has the 29 fields of the Grid Workloads Archive")
        if len(fields) >= 18 and numeric >= 18:
            return Recognition(
                "swf", 0.9 if comments == ";" else 0.8, "its first job has the 18 fields of SWF"
            )
        if comments == ";" and re.match(
            r"\s*;\s*(Version|Computer|Max|Unix|Acknowledge|Conversion)", self.first
        ):
            return Recognition("swf", 0.8, "its first line is a header of SWF")
        return None

    def as_table(self) -> Recognition | None:
        """Recognise tables by the names in their first line."""
        row = self.row
        if self.json:
            return None
        kind, known = kind_of(row), quantities_of(row)
        if kind.steps or ({name.lower() for name in row} & SACCT_IDS and "|" in self.first):
            # sacct quotes nothing: quoted values are those of a table, and some tables quote only what they
            # must.
            between = delimiter_of(self.first)
            within = between != "|" and any(f'{between}"' in line for line in self.lines)
            quoted = within or self.first.lstrip().startswith('"')
            return Recognition("csv" if quoted else "sacct", 0.9, "its first line has the names of sacct")
        if kind.has or len(known) > 1:
            why = f"has the columns of {kind.title}" if kind.has else f"names {', '.join(list(known)[:4])}"
            return Recognition("csv", 0.9 if kind.has else 0.7, f"its first line {why}")
        if above := self._above_header():
            return Recognition("sacct", 0.9, f"its line {above + 1} has the names of sacct", skipped=above)
        times = len(_MOMENT.findall(self.first))
        if re.match(r"\d", row[0]) and ("|" in self.first or any(map(_MOMENT.fullmatch, row)) or times > 1):
            return Recognition(
                HEADLESS,
                0.85,
                "its first line has values and no names",
                "write it again with its header (sacct without --noheader), or say in the log's name which "
                "column is which: LOG?columns=job=1,submit=7,… (gridtune traces: --columns)",
            )
        return None

    def _above_header(self) -> int:
        """Return the number of lines above the first header of sacct; 0 if one may be a record."""
        lines = self.text.split("\n")
        likely = (n for n, line in enumerate(lines) if "jobid" in line.lower())
        above = next((n for n in likely if kind_of(names_in(lines[n])).steps), 0)
        mark = delimiter_of(lines[above])
        most = max((line.count(mark) for line in lines[:above]), default=0)
        return above if 2 * most < lines[above].count(mark) else 0

    def found(self) -> Iterator[Recognition]:
        for kind in _kinds():
            if (one := kind.recognise(self)) is not None:
                yield one
                return
        for rules in (self.as_json, self.as_numbers, self.as_table):
            if (one := rules()) is not None:
                yield one


class _Kind(NamedTuple):
    """A kind of file in `beginnings.toml`: the form of its beginning, or the keys of its JSON."""

    name: str
    why: str = ""
    begins: re.Pattern[bytes] | None = None
    keys: Sequence[Sequence[str]] = ()
    hint: str = ""

    def recognise(self, head: _Head) -> Recognition | None:
        """Return this kind if the file begins like it."""
        if self.begins is not None:
            match = self.begins.match(head.start)
            said = printable(decoded((match.groupdict().get("said") if match else None) or b"")).strip()
            return match and Recognition(self.name, 0.95, self.why.replace("{said}", said), self.hint)
        there = (keys for keys in self.keys if head.json and all(f'"{key}"' in head.json for key in keys))
        keys = next(there, None)
        why = f"it is JSON with the keys {', '.join(keys or ())}"
        return None if keys is None else Recognition(self.name, 0.95, why, self.hint)


@cache
def _kinds() -> list[_Kind]:
    """Return the kinds of files that are known by their beginning, in the order in which they are tried."""
    text = Path(__file__).with_name("beginnings.toml").read_text(encoding="utf-8")
    kinds = []
    for entry in tomllib.loads(text)["kind"]:
        hint = entry.get("hint", "").replace("{sacct}", SACCT_COMMAND).replace("{workflow}", _IS_WORKFLOW)
        form = entry.get("begins")
        begins = None if form is None else re.compile(form.encode(), re.DOTALL | re.IGNORECASE)
        kinds.append(_Kind(entry["name"], entry.get("why", ""), begins, entry.get("keys", ()), hint))
    return kinds


_IS_WORKFLOW = "it is a workflow: gridtune traces describe, read_workflow and the system provisioning read it"


def recognise(start: bytes, name: str = "") -> Recognition | None:
    """Return the kind of a file.

    Parameters
    ----------
    start
        Its first bytes, decompressed: some kilobytes are enough.
    name
        Its name, which settles what its content leaves open; "" for none.

    Returns
    -------
    Recognition or None
        The likeliest; None where neither content nor name tells.
    """
    head = _Head(start)
    found = list(head.found())
    match = find_format(name) if name else None
    if match is not None:
        # Another package has announced its format for this suffix alone.
        confidence = 0.5 if match[0].name in OWN else 0.99
        found.append(Recognition(match[0].name, confidence, f"its name ends in {match[0].suffix}"))
    elif not found:
        found += _announced(start)
    return max(found, key=lambda other: other.confidence, default=None)


def _announced(start: bytes) -> Iterator[Recognition]:
    """Ask the formats of other packages, which are imported only where nothing else knows a file."""
    for name in format_names():
        try:
            knows = FORMATS.find(name).recognises(start)
        except GridtuneError:
            continue
        if knows:
            yield Recognition(name, 0.9, f"the format {name} recognises it")
