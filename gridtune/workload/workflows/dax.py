"""Pegasus DAX: a workflow in XML.

Versions 2 and 3 are read: `job` elements with their `runtime` (an attribute, or a `profile` of that key), the
files that each `uses`, and `child` elements with their `parent`s. A `profile` with the key `cores` or `count`
gives the processors of a task; otherwise it has one.

Source: https://pegasus.isi.edu/documentation, "DAX XML schema"; R. Ferreira da Silva et al., eScience 2014
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from xml.parsers import expat

from gridtune.errors import WorkloadError
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.validity import LARGEST_WIDTH
from gridtune.workload.workflows.records import Rules, TaskRecord, assemble
from gridtune.workload.workflows.workflow import Workflow

__all__ = ["read_dax"]

_WIDTHS = ("cores", "count")


def read_dax(stream: LogStream, name: str, rules: Rules) -> Workflow:
    """Read a DAX file.

    Raises
    ------
    WorkloadError
        Naming file, line and task.
    """
    reader = _Reader(stream, rules)
    reader.read()
    return assemble(reader.records, reader.edges, name, stream.path, rules)


class _Reader:
    def __init__(self, stream: LogStream, rules: Rules) -> None:
        self.stream, self.rules = stream, rules
        self.records: dict[str, TaskRecord] = {}
        self.edges: list[tuple[str, str]] = []
        self._references: list[tuple[str, str, int]] = []  # (parent, child, line), before all jobs are read
        self._job: TaskRecord | None = None
        self._child: str | None = None
        self._profile: tuple[str, list[str]] | None = None
        self._root: str | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        # Entities can expand a small file without bound; workflows need none.
        self._parser.EntityDeclHandler = self._refuse_entity

    def read(self) -> None:
        content = self.stream.read()
        if not content.strip():
            raise WorkloadError("is empty", path=self.stream.path)
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            message = f"is not XML: {expat.ErrorString(error.code)}"
            raise WorkloadError(message, path=self.stream.path, line=error.lineno) from None
        if not self.records:
            raise self._fault("has no job")
        for parent, child, line in self._references:
            for task in (parent, child):
                if task not in self.records:
                    other = f"its parent {task!r}" if task == parent else "itself"
                    message = f"task {child!r} refers to {other}, which is not a job of the file"
                    raise WorkloadError(message, path=self.stream.path, line=line, field="ref")
            self.edges.append((parent, child))

    def _fault(self, message: str, field: str | None = None, hint: str | None = None) -> WorkloadError:
        line = self._parser.CurrentLineNumber
        return WorkloadError(message, path=self.stream.path, line=line, field=field, hint=hint)

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._fault(f"declares the entity {name!r}: entities are not supported")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        if self._root is None:
            self._root = tag
            if tag != "adag":
                raise self._fault(f"is not a DAX: its root element is {tag!r}, not 'adag'")
        elif tag == "job":
            self._open_job(attributes)
        elif tag == "uses" and self._job is not None:
            self._use(self._job, attributes)
        elif tag == "profile" and self._job is not None:
            self._profile = (attributes.get("key", ""), [])
        elif tag == "child":
            self._child = self._required(attributes, "ref", tag)
        elif tag == "parent" and self._child is not None:
            parent = self._required(attributes, "ref", tag)
            self._references.append((parent, self._child, self._parser.CurrentLineNumber))

    def _end(self, tag: str) -> None:
        tag = tag.rpartition(":")[2]
        if tag == "job":
            self._job = None
        elif tag == "child":
            self._child = None
        elif tag == "profile" and self._profile is not None and self._job is not None:
            key, text = self._profile
            self._profile = None
            if key == "runtime":
                self._job.run_time = self._number("".join(text), "runtime", self._job.name)
            elif key in _WIDTHS:
                self._job.processors = self._width("".join(text), key, self._job.name)

    def _text(self, text: str) -> None:
        if self._profile is not None:
            self._profile[1].append(text)

    def _open_job(self, attributes: Mapping[str, str]) -> None:
        name = self._required(attributes, "id", "job")
        if name in self.records:
            raise self._fault(f"two jobs are called {name!r}", "id")
        line = self._parser.CurrentLineNumber
        self._job = TaskRecord(name, attributes.get("name", name), lambda: line)
        if "runtime" in attributes:
            self._job.run_time = self._number(attributes["runtime"], "runtime", name)
        self.records[name] = self._job

    def _use(self, job: TaskRecord, attributes: Mapping[str, str]) -> None:
        file = attributes.get("file") or self._required(attributes, "name", "uses")
        size = self._number(attributes.get("size", "0"), "size", job.name)
        if size < 0:
            if not self.rules.apply("zero_negative_sizes"):
                hint = "clean with the rule zero_negative_sizes"
                raise self._fault(f"task {job.name!r} uses {file!r} of {size:.0f} bytes", "size", hint)
            size = 0.0
        link = attributes.get("link", "").lower()
        if link in ("input", "inout"):
            job.reads[file] = size
        if link in ("output", "inout"):
            job.writes[file] = size

    def _required(self, attributes: Mapping[str, str], key: str, tag: str) -> str:
        if not attributes.get(key):
            raise self._fault(f"an element {tag!r} without {key!r}", key)
        return attributes[key]

    def _width(self, text: str, key: str, task: str) -> int:
        width = self._number(text, key, task)
        if width > LARGEST_WIDTH:
            raise self._fault(f"task {task!r}: {text.strip()[:40]} processors are too many", key)
        return int(width)

    def _number(self, text: str, key: str, task: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._fault(f"task {task!r}: {text.strip()[:40]!r} is not a number", key)
        return number
