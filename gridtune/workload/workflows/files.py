"""Reading workflows: Pegasus' DAX and YAML, and WfCommons' WfFormat; the content decides which.

Some published files are invalid: generators that draw from normal distributions wrote negative times and
sizes. No reader edits them by itself; named rules do, and are counted. Files of plans, in which no task has a
run time, are refused as templates.

**DAX**, XML in versions 2 and 3: `job` elements with their `runtime` (an attribute, or a `profile` or
`metadata` of that key), the files that each `uses`, and `child` elements with their `parent`s. A `profile`
with one of the keys `cores`, `count`, `request_cpus`, or `nodes` and `ppn`, gives the processors of a task;
otherwise it has one.

**Pegasus 5**, YAML or JSON with the same content: `jobs`, and `jobDependencies` with `children`.

**WfFormat**, a workflow and usually one execution of it as JSON: schema versions up to 1.4 (`workflow.tasks`,
`workflow.jobs` before 1.3), whose tasks refer to each other by name, and from 1.5 on
(`workflow.specification` and `workflow.execution`), by id. A task has as many processors as it used cores;
without that, one.

Sources: https://github.com/pegasus-isi/pegasus, schemas dax-2.1 to dax-3.6 and wf-5.0; R. Ferreira da Silva
et al., eScience 2014; T. Coleman et al., "WfCommons: a framework for enabling scientific workflow research
and development", FGCS 128, 2022; https://github.com/wfcommons/WfFormat
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
from typing import Any, TypeVar
from xml.parsers import expat

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.workload.fields import LARGEST_WIDTH
from gridtune.workload.formats.compression import (
    DEFAULT_MAX_BYTES,
    JsonText,
    LogStream,
    open_log,
    split_compression,
)
from gridtune.workload.formats.recognition import WORKFLOW, recognise
from gridtune.workload.workflows.workflow import Workflow

_T = TypeVar("_T")

#: Cleaning rules of workflows, and the effect of each.
WORKFLOW_RULES: Mapping[str, str] = MappingProxyType(
    {
        "zero_negative_times": "a negative run time becomes 0 s",
        "zero_negative_sizes": "a file of negative size becomes empty",
    }
)

#: Usual suffixes of files that hold a workflow; each may be followed by `.gz` or `.xz`.
_SUFFIXES = (".dax.xml", ".dax", ".xml", ".json", ".yaml", ".yml")

#: The keys of profiles that give a task's processors, the best first; `ppn` multiplies `nodes`.
_WIDTHS = ("cores", "count", "request_cpus", "nodes")
_DEEPEST_YAML = 100
#: The keys of WfFormat for tasks that a task refers to.
_RELATIVES = {"parents": "parent", "children": "child"}
_LARGEST = sys.float_info.max
_EXECUTION = "planning needs run times: take the record of an execution (WfCommons has some), not a plan"


def read_workflow(
    path: str | os.PathLike[str], *, clean: Iterable[str] = (), max_bytes: int = DEFAULT_MAX_BYTES
) -> Workflow:
    """Read a workflow: Pegasus DAX (XML), Pegasus 5 (YAML) or WfCommons' WfFormat (JSON).

    Parameters
    ----------
    path
        A file of any suffix; `.gz` and `.xz` are decompressed as they are read.
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
    suffix = next((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), "")
    with open_log(file, max_bytes) as stream:
        reader = _reader_of(stream, clean)
        reader.read()
        return reader.workflow(name[: len(name) - len(suffix)])


def _reader_of(stream: LogStream, rules: Iterable[str]) -> _WorkflowReader:
    start = stream.peek()
    if not start.strip():
        # Blanks without end are refused for their size.
        stream.read()
        raise WorkloadError("is empty", path=stream.path)
    found = recognise(start)
    if found is not None and found.name != WORKFLOW:
        hint = found.hint or "it is a log: gridtune traces describe FILE, read_workload"
        if "Nextflow" in found.why:
            hint = (
                "it lists tasks without their dependencies: convert it to WfFormat with the Nextflow parser "
            )
            hint += "of WfCommons, or read it as a log of jobs: gridtune traces import FILE NEW.swf"
        raise WorkloadError(f"is no workflow: {found.why}", path=stream.path, hint=hint)
    first = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first == b"<":
        return _DaxReader(stream, rules)
    # A workflow of Pegasus can be JSON, too, which is YAML.
    if first in (b"{", b"[") and (found is None or "Pegasus" not in found.why):
        return _WfFormatReader(stream, rules)
    if found is None:
        hint = "a workflow is a DAX (XML), a workflow of Pegasus 5 (YAML) or of WfFormat (JSON)"
        raise WorkloadError("its content is of no known workflow format", path=stream.path, hint=hint)
    return _PegasusReader(stream, rules)


@dataclass
class _Task:
    """A task as it is in its file.

    Attributes
    ----------
    name
        Its identity in the file.
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
    line: Callable[[], int]
    run_time: float | None = None
    processors: int = 1
    reads: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)


class _WorkflowReader:
    """The tasks and edges of a file, and the cleaning rules that it is read with."""

    def __init__(self, stream: LogStream, rules: Iterable[str]) -> None:
        self.stream, self.path = stream, stream.path
        self.tasks: dict[str, _Task] = {}
        # (parent, child), of tasks that the file has.
        self.edges: list[tuple[str, str]] = []
        self._applied = dict.fromkeys((rules,) if isinstance(rules, str) else rules, 0)
        for name in self._applied:
            if name not in WORKFLOW_RULES:
                hint = f"one of {', '.join(WORKFLOW_RULES)}"
                raise WorkloadError(f"no cleaning rule for workflows is named {name!r}", hint=hint)

    def read(self) -> None:
        """Set tasks and edges."""
        raise NotImplementedError

    def cleaned(self, value: float, rule: str, fault: Callable[..., WorkloadError]) -> float:
        """Return a value, 0 for a negative one if the rule applies; without the rule it is a fault."""
        if value >= 0:
            return value
        if rule not in self._applied:
            raise fault(hint=f"clean with the rule {rule}")
        self._applied[rule] += 1
        return 0.0

    def workflow(self, name: str) -> Workflow:
        """Return the workflow; an edge carries the files that one task writes and the other reads."""
        if all(task.run_time is None for task in self.tasks.values()):
            message = f"is a template: none of its {len(self.tasks)} tasks has a run time"
            raise WorkloadError(message, path=self.path, hint=_EXECUTION)
        run_times = [self._run_time(task) for task in self.tasks.values()]
        number = {task: i for i, task in enumerate(self.tasks)}
        ends = [(self.tasks[one], self.tasks[other]) for one, other in dict.fromkeys(self.edges)]
        sent = [
            float(sum(size for file, size in one.writes.items() if file in other.reads))
            for one, other in ends
        ]
        try:
            return Workflow(
                tuple(self.tasks),
                np.array(run_times, np.float64),
                np.array([task.processors for task in self.tasks.values()], np.int64),
                np.array([number[one.name] for one, _ in ends], np.int64),
                np.array([number[other.name] for _, other in ends], np.int64),
                np.array(sent, np.float64),
                name=name,
                cleaning=self._applied,
            )
        except WorkloadError as fault:
            raise WorkloadError(fault.message, path=self.path, field=fault.field, hint=fault.hint) from None

    def _run_time(self, task: _Task) -> float:
        def fault(hint: str) -> WorkloadError:
            said = "has no run time" if task.run_time is None else f"runs for {task.run_time:g} s"
            return WorkloadError(f"task {task.name!r} {said}", path=self.path, line=task.line(), hint=hint)

        if task.run_time is None:
            raise fault(_EXECUTION)
        return self.cleaned(task.run_time, "zero_negative_times", fault)


@dataclass
class _Element:
    """An element of XML, with its line."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    within: list[_Element] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> list[_Element]:
        return [element for element in self.within if element.tag in tags]


class _DaxReader(_WorkflowReader):
    def __init__(self, stream: LogStream, rules: Iterable[str]) -> None:
        super().__init__(stream, rules)
        # Namespace and name of programs, to the profiles that their jobs inherit.
        self.programs: dict[tuple[str | None, str | None], list[_Element]] = {}

    def read(self) -> None:
        root = self._root()
        if root.tag != "adag":
            raise self._fault(root, f"is not a DAX: its root element is {root.tag!r}, not 'adag'")
        for program in root.all("executable"):
            key = (program.attributes.get("namespace"), program.attributes.get("name"))
            self.programs.setdefault(key, []).extend(program.all("profile"))
        # A workflow within the workflow is a node like a job.
        for job in root.all("job", "dag", "dax"):
            self._task(job)
        if not self.tasks:
            raise self._fault(root, "has no job", hint="catalogs of Pegasus have none: take the workflow")
        for child in root.all("child"):
            name = self._required(child, "ref")
            for reference in child.all("parent"):
                parent = self._required(reference, "ref")
                for task in (parent, name):
                    if task not in self.tasks:
                        other = f"its parent {task!r}" if task == parent else "itself"
                        message = f"task {name!r} refers to {other}, which is not a job of the file"
                        raise self._fault(reference, message, "ref")
                self.edges.append((parent, name))

    def _root(self) -> _Element:
        """Return the root element."""
        content = self.stream.read()
        if not content.strip():
            raise WorkloadError("is empty", path=self.path)
        parser = expat.ParserCreate()
        around = [_Element("", {}, 1)]

        def start(tag: str, attributes: dict[str, str]) -> None:
            element = _Element(tag.rpartition(":")[2], attributes, parser.CurrentLineNumber)
            around[-1].within.append(element)
            around.append(element)

        def add_text(text: str) -> None:
            around[-1].text += text

        def refuse_entity(name: str, *_: object) -> None:
            message = f"declares the entity {name!r}: entities are not supported"
            raise WorkloadError(message, path=self.path, line=parser.CurrentLineNumber)

        parser.StartElementHandler = start
        parser.EndElementHandler = lambda _: around.pop()
        parser.CharacterDataHandler = add_text
        # Entities can expand a small file without bound; workflows need none.
        parser.EntityDeclHandler = refuse_entity
        try:
            parser.Parse(content, True)
        except expat.ExpatError as error:
            message = f"is not XML: {expat.ErrorString(error.code)}"
            raise WorkloadError(message, path=self.path, line=error.lineno) from None
        return around[0].within[0]

    def _fault(
        self, element: _Element, message: str, field: str | None = None, hint: str | None = None
    ) -> WorkloadError:
        return WorkloadError(message, path=self.path, line=element.line, field=field, hint=hint)

    def _task(self, job: _Element) -> None:
        name = self._required(job, "id")
        if name in self.tasks:
            raise self._fault(job, f"two jobs are called {name!r}", "id")
        task = self.tasks[name] = _Task(name, lambda: job.line)
        inherited = self.programs.get((job.attributes.get("namespace"), job.attributes.get("name")), [])
        own = job.all("profile", "metadata")
        if "runtime" in job.attributes:
            own.insert(0, _Element("", {"key": "runtime"}, job.line, text=job.attributes["runtime"]))
        given = {each.attributes.get("key", ""): each for each in (*inherited, *own)}
        if "runtime" in given:
            task.run_time = self._number(given["runtime"], given["runtime"].text, "runtime", name)
        widths = [key for key in _WIDTHS if key in given][:1]
        if widths == ["nodes"] and "ppn" in given:
            widths.append("ppn")
        for key in widths:
            number = self._number(given[key], given[key].text, key, name, LARGEST_WIDTH)
            task.processors *= math.ceil(number)
        for used in job.all("uses"):
            file = used.attributes.get("file") or self._required(used, "name")
            recorded = [each.text for each in used.all("metadata") if each.attributes.get("key") == "size"]
            text = used.attributes.get("size") or [*recorded, "0"][0]
            size = self._number(used, text, "size", name)
            message = f"task {name!r} uses {file!r} of {size:.0f} bytes"
            size = self.cleaned(size, "zero_negative_sizes", partial(self._fault, used, message, "size"))
            link = used.attributes.get("link", "").lower()
            if link in ("input", "inout"):
                task.reads[file] = size
            if link in ("output", "inout"):
                task.writes[file] = size

    def _required(self, element: _Element, key: str) -> str:
        if not element.attributes.get(key):
            raise self._fault(element, f"an element {element.tag!r} without {key!r}", key)
        return element.attributes[key]

    def _number(self, element: _Element, text: str, key: str, task: str, most: float = math.inf) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._fault(element, f"task {task!r}: {text.strip()[:40]!r} is not a number", key)
        if number > most:
            raise self._fault(element, f"task {task!r}: {text.strip()[:40]} processors are too many", key)
        return number


@dataclass
class _Node:
    """A value of YAML, with its line: a text, the values of a list, or keys and values in turn."""

    content: Any
    line: int
    is_mapping: bool = False

    def __getitem__(self, key: str) -> _Node:
        """Return the value of a key; an empty one where there is none, or where this is no mapping."""
        return next((value for name, value in self.items() if name == key), _Node("", self.line))

    def items(self) -> list[tuple[str, _Node]]:
        content = self.content if self.is_mapping else ()
        return [(str(key), value) for key, value in zip(content[::2], content[1::2], strict=True)]

    def values(self) -> list[_Node]:
        return self.content if isinstance(self.content, list) and not self.is_mapping else []

    def __str__(self) -> str:
        return self.content if isinstance(self.content, str) else ""


class _PegasusReader(_DaxReader):
    """The YAML of Pegasus 5, as the elements of a DAX."""

    def _root(self) -> _Element:
        document = self._document()
        root = _Element("adag", {}, document.line)
        for program in document["transformationCatalog"]["transformations"].values():
            root.within.append(self._element("executable", program))
        for job in document["jobs"].values():
            element = self._element("job", job)
            element.within += self._settings("metadata", job["metadata"])
            for used in job["uses"].values():
                size = {"size": str(used["size"])} if str(used["size"]) else {}
                attributes = {"file": str(used["lfn"]), "link": str(used["type"]), **size}
                within = self._settings("metadata", used["metadata"])
                element.within.append(_Element("uses", attributes, used.line, within))
            root.within.append(element)
        for parent in document["jobDependencies"].values():
            for child in parent["children"].values():
                within = [_Element("parent", {"ref": str(parent["id"])}, parent.line)]
                root.within.append(_Element("child", {"ref": str(child)}, child.line, within))
        return root

    def _element(self, tag: str, node: _Node) -> _Element:
        """Return the element of a job or program, with its profiles."""
        attributes = {key: str(node[key]) for key in ("id", "namespace")}
        element = _Element(tag, {**attributes, "name": str(node["name"]) or str(node["file"])}, node.line)
        for _, profiles in node["profiles"].items():
            element.within += self._settings("profile", profiles)
        return element

    @staticmethod
    def _settings(tag: str, settings: _Node) -> list[_Element]:
        return [_Element(tag, {"key": key}, value.line, text=str(value)) for key, value in settings.items()]

    def _document(self) -> _Node:
        """Return the document, from the events of the parser: composing nests calls as the text nests."""
        import yaml  # noqa: PLC0415 - other formats do without

        around: list[list[_Node]] = [[]]
        try:
            for event in yaml.parse(self.stream.read(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                line = event.start_mark.line + 1 if event.start_mark else 1
                if isinstance(event, yaml.AliasEvent) or len(around) > _DEEPEST_YAML:
                    message = "has an alias" if isinstance(event, yaml.AliasEvent) else "nests too deeply"
                    raise WorkloadError(f"{message}, as no workflow does", path=self.path, line=line)
                if isinstance(event, yaml.ScalarEvent):
                    around[-1].append(_Node(event.value, line))
                elif isinstance(event, yaml.CollectionStartEvent):
                    node = _Node([], line, isinstance(event, yaml.MappingStartEvent))
                    around[-1].append(node)
                    around.append(node.content)
                elif isinstance(event, yaml.CollectionEndEvent):
                    around.pop()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = mark.line + 1 if mark else None
            raise WorkloadError(f"is not YAML: {error.problem}", path=self.path, line=place) from None
        except yaml.YAMLError as error:
            raise WorkloadError(f"is not YAML: {error}", path=self.path) from None
        if len(around[0]) != 1:
            raise WorkloadError(f"holds {len(around[0])} documents, not one", path=self.path)
        return around[0][0]


class _WfFormatReader(_WorkflowReader):
    def __init__(self, stream: LogStream, rules: Iterable[str]) -> None:
        super().__init__(stream, rules)
        self.json = JsonText(stream)

    def read(self) -> None:
        document = self.json.document
        workflow = document.get("workflow") if isinstance(document, dict) else None
        if not isinstance(workflow, dict):
            raise WorkloadError("is not a WfFormat file: it needs an object 'workflow'", path=self.path)
        within: tuple[str | int, ...] = ("workflow",)
        if "specification" in workflow:
            within = ("workflow", "specification")
            workflow = self._typed(dict, workflow["specification"], *within)
        key = "tasks" if "tasks" in workflow or "jobs" not in workflow else "jobs"
        tasks = self._typed(list, workflow.get(key), *within, key)
        sizes = self._sizes(workflow.get("files", []), (*within, "files"))
        for position, task in enumerate(tasks):
            self._task(task, sizes, (*within, key, position))
        if not self.tasks:
            raise self.json.fault("has no task", *within, key)
        if within[-1] == "specification":
            self._execution(document["workflow"].get("execution"))
        self._edges(tasks, (*within, key), by_id=within[-1] == "specification")

    def _edges(self, tasks: list[dict[str, Any]], within: tuple[str | int, ...], by_id: bool) -> None:
        """Add the edges; the schema says by id from version 1.5 on and by name before; some files differ."""
        found = [
            (position, key, place, str(end))
            for position, task in enumerate(tasks)
            for key in _RELATIVES
            for place, end in enumerate(self._typed(list, task.get(key, []), *within, position, key))
        ]
        read = [_named(tasks, key) for key in (("id", "name") if by_id else ("name", "id"))]
        meant = next((named for named in read if all(named.get(end) for *_, end in found)), read[0])
        for position, key, place, end in found:
            name, other = _identity(tasks[position]), meant.get(end)
            if other is None:
                fault, hint = "which is not a task of the file", None
                if end in meant:
                    fault = "which is the name of several tasks"
                    hint = "WfFormat 1.5 refers to tasks by id: WfCommons' WfInstances has many workflows so"
                message = f"task {name!r} has the {_RELATIVES[key]} {end!r}, {fault}"
                raise self.json.fault(message, *within, position, key, place, hint=hint)
            self.edges.append((other, name) if key == "parents" else (name, other))

    def _typed(self, kind: type[_T], value: Any, *path: str | int) -> _T:
        if not isinstance(value, kind):
            wanted = "a list" if kind is list else "an object"
            raise self.json.fault(f"expected {wanted}, but got {json.dumps(value)[:40]}", *path)
        return value

    def _number(self, value: Any, *path: str | int) -> float:
        # An integer may be too large for a float, which `abs` and comparisons do not mind.
        number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
        if not number:
            raise self.json.fault(f"{json.dumps(value)[:40]} is not a number", *path)
        return float(value)

    def _sizes(self, files: Any, path: tuple[str | int, ...]) -> dict[str, float]:
        """Return the bytes of each file that the specification lists."""
        sizes = {}
        for position, file in enumerate(self._typed(list, files, *path)):
            at = (*path, position)
            entry = self._typed(dict, file, *at)
            key = next((key for key in ("id", "name") if key in entry), "id")
            sizes[str(entry.get(key))] = self._size(entry, at)
        return sizes

    def _size(self, entry: Mapping[str, Any], at: tuple[str | int, ...]) -> float:
        key = "sizeInBytes" if "sizeInBytes" in entry else "size"
        size = self._number(entry.get(key, 0), *at, key)
        fault = partial(self.json.fault, f"a file of {size:.0f} bytes", *at, key)
        return self.cleaned(size, "zero_negative_sizes", fault)

    def _task(self, value: Any, sizes: Mapping[str, float], at: tuple[str | int, ...]) -> None:
        task = self._typed(dict, value, *at)
        name = _identity(task)
        if not name:
            raise self.json.fault("a task without 'id' or 'name'", *at)
        if name in self.tasks:
            raise self.json.fault(f"two tasks are called {name!r}", *at, "id" if "id" in task else "name")
        record = _Task(name, partial(self.json.line_of, *at))
        self.tasks[name] = record
        self._measured(record, task, at)
        for key, files in (("inputFiles", record.reads), ("outputFiles", record.writes)):
            for read in self._typed(list, task.get(key, []), *at, key):
                files[str(read)] = sizes.get(str(read), 0.0)
        for position, used in enumerate(self._typed(list, task.get("files", []), *at, "files")):
            place = (*at, "files", position)
            file = self._typed(dict, used, *place)
            files = record.reads if file.get("link") == "input" else record.writes
            files[str(file.get("name", file.get("id")))] = self._size(file, place)

    def _measured(self, record: _Task, task: Mapping[str, Any], at: tuple[str | int, ...]) -> None:
        """Set a task's run time and processors."""
        for key in ("runtimeInSeconds", "runtime"):
            if key in task:
                record.run_time = self._number(task[key], *at, key)
                break
        for key in ("coreCount", "cores"):
            if key in task:
                cores = self._number(task[key], *at, key)
                if cores > LARGEST_WIDTH:
                    raise self.json.fault(f"{cores:.0f} processors are too many", *at, key)
                record.processors = max(1, math.ceil(cores))

    def _execution(self, value: Any) -> None:
        if value is None:
            return
        at: tuple[str | int, ...] = ("workflow", "execution")
        for position, one in enumerate(
            self._typed(list, self._typed(dict, value, *at).get("tasks"), *at, "tasks")
        ):
            place = (*at, "tasks", position)
            task = self._typed(dict, one, *place)
            record = self.tasks.get(str(task.get("id")))
            if record is None:
                message = f"an execution of {str(task.get('id'))!r}, which is not a task of the specification"
                raise self.json.fault(message, *place, "id")
            self._measured(record, task, place)


def _identity(task: Mapping[str, Any]) -> str:
    return str(task["id"] if "id" in task else task.get("name", ""))


def _named(tasks: Iterable[Mapping[str, Any]], key: str) -> dict[str, str | None]:
    """Return the task that has each id or name, None where several have it."""
    named: dict[str, str | None] = {}
    for task in tasks:
        name = str(task[key]) if key in task else _identity(task)
        named[name] = None if name in named else _identity(task)
    return named
