"""Reading workflows: Pegasus DAX and WfCommons' WfFormat; the file's suffix says which.

Some published files are invalid: generators that draw from normal distributions wrote negative times and
sizes. No reader edits them by itself; named rules do, and are counted.

**DAX**, XML in versions 2 and 3: `job` elements with their `runtime` (an attribute, or a `profile` of that
key), the files that each `uses`, and `child` elements with their `parent`s. A `profile` with the key `cores`
or `count` gives the processors of a task; otherwise it has one.

**WfFormat**, a workflow and usually one execution of it as JSON: schema versions 1.3 and 1.4
(`workflow.tasks`) and from 1.5 on (`workflow.specification` and `workflow.execution`). A task has as many
processors as it used cores; without that, one.

Sources: https://pegasus.isi.edu/documentation, "DAX XML schema"; R. Ferreira da Silva et al., eScience 2014;
T. Coleman et al., "WfCommons: a framework for enabling scientific workflow research and development", FGCS
128, 2022; https://github.com/wfcommons/WfFormat
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.parsers import expat

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.workload.fields import LARGEST_WIDTH
from gridtune.workload.formats.compression import DEFAULT_MAX_BYTES, LogStream, open_log, split_compression
from gridtune.workload.formats.json_lines import line_of_path
from gridtune.workload.workflows.workflow import Workflow

__all__ = [
    "WORKFLOW_RULES",
    "WORKFLOW_SUFFIXES",
    "Rules",
    "TaskRecord",
    "assemble",
    "describe_workflow",
    "holds_workflow",
    "read_dax",
    "read_wfformat",
    "read_workflow",
]


#: Cleaning rules of workflows, and what each does.
WORKFLOW_RULES: Mapping[str, str] = MappingProxyType(
    {
        "zero_negative_times": "a negative run time becomes 0 s",
        "zero_negative_sizes": "a file of negative size becomes empty",
    }
)


class Rules:
    """The cleaning rules that a file is read with, and how often each was applied.

    Raises
    ------
    WorkloadError
        If a rule is unknown.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.counts = dict.fromkeys((names,) if isinstance(names, str) else names, 0)
        for name in self.counts:
            if name not in WORKFLOW_RULES:
                hint = f"one of {', '.join(WORKFLOW_RULES)}"
                raise WorkloadError(f"no cleaning rule for workflows is named {name!r}", hint=hint)

    def apply(self, name: str) -> bool:
        """Return whether the rule applies, and count it if so."""
        if name not in self.counts:
            return False
        self.counts[name] += 1
        return True


@dataclass
class TaskRecord:
    """A task as it is in its file.

    Attributes
    ----------
    name, kind
        Its identity in the file, and the program it runs.
    line
        Returns its line in the file (1-based), which may take a while.
    run_time
        Seconds.
    processors
        The processors it holds.
    reads, writes
        Names of files, with their sizes in bytes.
    """

    name: str
    kind: str
    line: Callable[[], int]
    run_time: float | None = None
    processors: int = 1
    reads: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)


def assemble(
    records: Mapping[str, TaskRecord],
    edges: Iterable[tuple[str, str]],
    name: str,
    path: Path,
    rules: Rules,
) -> Workflow:
    """Return the workflow of these tasks; an edge carries the files that one writes and the other reads.

    Parameters
    ----------
    records
        By name, in the file's order.
    edges
        (parent, child), of existing tasks; duplicates count once.
    name
        The workflow's name.
    path
        The file, for errors.
    rules
        The cleaning rules for invalid run times.
    """
    for record in records.values():
        if record.run_time is None:
            message = f"task {record.name!r} has no run time"
            hint = "planning needs one: take the file of an execution, not of a plan"
            raise WorkloadError(message, path=path, line=record.line(), hint=hint)
        if record.run_time < 0:
            if not rules.apply("zero_negative_times"):
                message = f"task {record.name!r} runs for {record.run_time:g} s"
                hint = "clean with the rule zero_negative_times"
                raise WorkloadError(message, path=path, line=record.line(), hint=hint)
            record.run_time = 0.0
    place = {task: i for i, task in enumerate(records)}
    distinct = dict.fromkeys(edges)
    parent = np.array([place[task] for task, _ in distinct], np.int64)
    child = np.array([place[task] for _, task in distinct], np.int64)
    volume = [_sent(records[one], records[other]) for one, other in distinct]
    try:
        return Workflow(
            tuple(records),
            np.array([record.run_time for record in records.values()], np.float64),
            np.array([record.processors for record in records.values()], np.int64),
            parent,
            child,
            np.array(volume, np.float64),
            tuple(record.kind for record in records.values()),
            name,
            rules.counts,
        )
    except WorkloadError as fault:
        raise WorkloadError(fault.message, path=path, field=fault.field, hint=fault.hint) from None


def _sent(parent: TaskRecord, child: TaskRecord) -> float:
    return float(sum(size for file, size in parent.writes.items() if file in child.reads))


_WIDTHS = ("cores", "count")


def read_dax(stream: LogStream, name: str, rules: Rules) -> Workflow:
    """Read a DAX file.

    Raises
    ------
    WorkloadError
        Naming file, line and task.
    """
    reader = _DaxReader(stream, rules)
    reader.read()
    return assemble(reader.records, reader.edges, name, stream.path, rules)


class _DaxReader:
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


_Place = tuple[str | int, ...]

_LARGEST = sys.float_info.max


def read_wfformat(stream: LogStream, name: str, rules: Rules) -> Workflow:
    """Read a WfFormat file.

    Raises
    ------
    WorkloadError
        Naming file, line, element and task.
    """
    content = stream.read()
    if not content.strip():
        raise WorkloadError("is empty", path=stream.path)
    try:
        text = content.decode("utf-8-sig")
        document = json.loads(text)
    except UnicodeDecodeError as error:
        raise WorkloadError(f"is not text in UTF-8 (byte {error.start})", path=stream.path) from error
    except json.JSONDecodeError as error:
        raise WorkloadError(f"is not JSON: {error.msg}", path=stream.path, line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"is not JSON that can be read: {error}", path=stream.path) from error
    reader = _WfFormatReader(text, document, stream, rules)
    reader.read()
    return assemble(reader.records, reader.edges, name, stream.path, rules)


class _WfFormatReader:
    def __init__(self, text: str, document: Any, stream: LogStream, rules: Rules) -> None:
        self.text, self.document, self.stream, self.rules = text, document, stream, rules
        self.records: dict[str, TaskRecord] = {}
        self.edges: list[tuple[str, str]] = []

    def read(self) -> None:
        workflow = self.document.get("workflow") if isinstance(self.document, dict) else None
        if not isinstance(workflow, dict):
            message = "is not a WfFormat file: it needs an object 'workflow'"
            raise WorkloadError(message, path=self.stream.path)
        within: _Place = ("workflow",)
        if "specification" in workflow:
            within = ("workflow", "specification")
            workflow = self._object(workflow["specification"], *within)
        key = "tasks" if "tasks" in workflow or "jobs" not in workflow else "jobs"
        tasks = self._list(workflow.get(key), *within, key)
        sizes = self._sizes(workflow.get("files", []), (*within, "files"))
        for position, task in enumerate(tasks):
            self._task(task, sizes, (*within, key, position))
        if not self.records:
            raise self._fault("has no task", *within, key)
        if within[-1] == "specification":
            self._execution(self.document["workflow"].get("execution"))
        for position, task in enumerate(tasks):
            self._edges(task, (*within, key, position))

    def _fault(self, message: str, *path: str | int, hint: str | None = None) -> WorkloadError:
        field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).strip(".")
        line = line_of_path(self.text, path)
        return WorkloadError(message, path=self.stream.path, line=line, field=field, hint=hint)

    def _object(self, value: Any, *path: str | int) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._fault(f"expected an object, but got {json.dumps(value)[:40]}", *path)
        return value

    def _list(self, value: Any, *path: str | int) -> list[Any]:
        if not isinstance(value, list):
            raise self._fault(f"expected a list, but got {json.dumps(value)[:40]}", *path)
        return value

    def _number(self, value: Any, *path: str | int) -> float:
        # An integer may be too large for a float, which `abs` and comparisons do not mind.
        number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
        if not number:
            raise self._fault(f"{json.dumps(value)[:40]} is not a number", *path)
        return float(value)

    def _sizes(self, files: Any, path: _Place) -> dict[str, float]:
        """Return the bytes of each file that the specification lists."""
        sizes = {}
        for position, file in enumerate(self._list(files, *path)):
            at = (*path, position)
            entry = self._object(file, *at)
            key = next((key for key in ("id", "name") if key in entry), "id")
            sizes[str(entry.get(key))] = self._size(entry, at)
        return sizes

    def _size(self, entry: Mapping[str, Any], at: _Place) -> float:
        key = "sizeInBytes" if "sizeInBytes" in entry else "size"
        size = self._number(entry.get(key, 0), *at, key)
        if size >= 0:
            return size
        if not self.rules.apply("zero_negative_sizes"):
            hint = "clean with the rule zero_negative_sizes"
            raise self._fault(f"a file of {size:.0f} bytes", *at, key, hint=hint)
        return 0.0

    def _task(self, value: Any, sizes: Mapping[str, float], at: _Place) -> None:
        task = self._object(value, *at)
        name = str(task["id"] if "id" in task else task.get("name", ""))
        if not name:
            raise self._fault("a task without 'id' or 'name'", *at)
        if name in self.records:
            raise self._fault(f"two tasks are called {name!r}", *at, "id" if "id" in task else "name")
        record = TaskRecord(name, _kind(task, name), partial(line_of_path, self.text, at))
        self.records[name] = record
        self._measured(record, task, at)
        for key, files in (("inputFiles", record.reads), ("outputFiles", record.writes)):
            for read in self._list(task.get(key, []), *at, key):
                files[str(read)] = sizes.get(str(read), 0.0)
        for position, used in enumerate(self._list(task.get("files", []), *at, "files")):
            place = (*at, "files", position)
            file = self._object(used, *place)
            files = record.reads if file.get("link") == "input" else record.writes
            files[str(file.get("name", file.get("id")))] = self._size(file, place)

    def _measured(self, record: TaskRecord, task: Mapping[str, Any], at: _Place) -> None:
        """Set a task's run time and processors."""
        for key in ("runtimeInSeconds", "runtime"):
            if key in task:
                record.run_time = self._number(task[key], *at, key)
                break
        for key in ("coreCount", "cores"):
            if key in task:
                cores = self._number(task[key], *at, key)
                if cores > LARGEST_WIDTH:
                    raise self._fault(f"{cores:.0f} processors are too many", *at, key)
                record.processors = max(1, math.ceil(cores))

    def _execution(self, value: Any) -> None:
        if value is None:
            return
        at: _Place = ("workflow", "execution")
        for position, one in enumerate(self._list(self._object(value, *at).get("tasks"), *at, "tasks")):
            place = (*at, "tasks", position)
            task = self._object(one, *place)
            record = self.records.get(str(task.get("id")))
            if record is None:
                message = f"an execution of {str(task.get('id'))!r}, which is not a task of the specification"
                raise self._fault(message, *place, "id")
            record.kind = _kind(task, record.kind)
            self._measured(record, task, place)

    def _edges(self, task: Mapping[str, Any], at: _Place) -> None:
        name = str(task["id"] if "id" in task else task["name"])
        for key in ("parents", "children"):
            for position, other in enumerate(self._list(task.get(key, []), *at, key)):
                if str(other) not in self.records:
                    what = "parent" if key == "parents" else "child"
                    message = f"task {name!r} has the {what} {str(other)!r}, which is not a task of the file"
                    raise self._fault(message, *at, key, position)
                self.edges.append((str(other), name) if key == "parents" else (name, str(other)))


def _kind(task: Mapping[str, Any], otherwise: str) -> str:
    command = task.get("command")
    program = command.get("program") if isinstance(command, dict) else None
    return str(program or task.get("category") or otherwise)


_READERS = {".dax.xml": read_dax, ".dax": read_dax, ".xml": read_dax, ".json": read_wfformat}
#: Suffixes of files that hold a workflow; each may be followed by `.gz` or `.xz`.
WORKFLOW_SUFFIXES = tuple(_READERS)


def read_workflow(
    path: str | os.PathLike[str], *, clean: Iterable[str] = (), max_bytes: int = DEFAULT_MAX_BYTES
) -> Workflow:
    """Read a workflow: Pegasus DAX (`.dax`, `.xml`) or WfCommons' WfFormat (`.json`).

    Parameters
    ----------
    path
        A file; `.gz` and `.xz` are decompressed as they are read.
    clean
        Cleaning rules (`WORKFLOW_RULES`) for invalid values. Without any, the first fault is an error; the
        workflow's `cleaning` counts how often each rule was applied.
    max_bytes
        The most the file may hold once decompressed.

    Raises
    ------
    WorkloadError
        Naming file, line and task: not a workflow, a task without run time, an unknown parent, a cycle, …
    """
    file = Path(path)
    name, _ = split_compression(file.name)
    suffix = next((suffix for suffix in _READERS if name.lower().endswith(suffix)), None)
    if suffix is None:
        hint = f"suffixes are {', '.join(WORKFLOW_SUFFIXES)}, with .gz or .xz if compressed"
        raise WorkloadError("its suffix is of no known workflow format", path=file, hint=hint)
    with open_log(file, max_bytes) as stream:
        return _READERS[suffix](stream, name[: -len(suffix)], Rules(clean))


#: Bytes at the start of a JSON file that are searched for the key of a workflow.
_SEARCHED = 1 << 20


def holds_workflow(path: Path) -> bool:
    """Return whether a file holds a workflow rather than a log, by its suffix and, for JSON, its keys."""
    name = split_compression(path.name)[0].lower()
    if name.endswith((".dax", ".xml")):
        return True
    if not name.endswith(".json") or not path.is_file():
        return False
    try:
        with open_log(path) as stream:
            return b'"workflow"' in stream.read(_SEARCHED)
    except WorkloadError:
        return False


def describe_workflow(workflow: Workflow) -> dict[str, Any]:
    """Return the figures of a workflow, ready for JSON.

    Returns
    -------
    dict
        Counts and totals by name; `levels`, the tasks of each; `kinds`, in order of appearance, each with its
        tasks, its run times (seconds) and its processors.
    """
    run, kinds = workflow.mean_run_time, np.array(workflow.kinds)
    by_kind = []
    for kind in dict.fromkeys(workflow.kinds):
        rows = kinds == kind
        times, width = run[rows], workflow.processors[rows]
        row = {"kind": kind, "tasks": int(rows.sum()), "processors": int(width.max())}
        spread = {"mean": float(times.mean()), "least": float(times.min()), "most": float(times.max())}
        by_kind.append({**row, "run_time": spread})
    return {
        "name": workflow.name,
        "tasks": len(workflow),
        "edges": len(workflow.parent),
        "levels": np.bincount(workflow.level).tolist(),
        "work_processor_seconds": workflow.work,
        "critical_path_seconds": workflow.critical_path,
        "widest_task": workflow.widest,
        "bytes_sent": float(workflow.volume.sum()),
        "cleaning": dict(workflow.cleaning),
        "content": workflow.checksum,
        "kinds": by_kind,
    }
