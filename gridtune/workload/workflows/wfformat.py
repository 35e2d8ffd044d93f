"""WfFormat: a workflow, and usually one execution of it, as JSON (WfCommons).

Read are schema versions 1.3 and 1.4 (`workflow.tasks`) and from 1.5 on (`workflow.specification` and
`workflow.execution`). A task has as many processors as it used cores; without that, one.

Source: T. Coleman et al., "WfCommons: a framework for enabling scientific workflow research and development",
FGCS 128, 2022; https://github.com/wfcommons/WfFormat
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from gridtune.errors import WorkloadError
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.json_lines import line_of_path
from gridtune.workload.validity import LARGEST_WIDTH
from gridtune.workload.workflows.records import Rules, TaskRecord, assemble
from gridtune.workload.workflows.workflow import Workflow

__all__ = ["read_wfformat"]

Path = tuple[str | int, ...]

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
    reader = _Reader(text, document, stream, rules)
    reader.read()
    return assemble(reader.records, reader.edges, name, stream.path, rules)


class _Reader:
    def __init__(self, text: str, document: Any, stream: LogStream, rules: Rules) -> None:
        self.text, self.document, self.stream, self.rules = text, document, stream, rules
        self.records: dict[str, TaskRecord] = {}
        self.edges: list[tuple[str, str]] = []

    def read(self) -> None:
        workflow = self.document.get("workflow") if isinstance(self.document, dict) else None
        if not isinstance(workflow, dict):
            message = "is not a WfFormat file: it needs an object 'workflow'"
            raise WorkloadError(message, path=self.stream.path)
        within: Path = ("workflow",)
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

    def _sizes(self, files: Any, path: Path) -> dict[str, float]:
        """Return the bytes of each file that the specification lists."""
        sizes = {}
        for position, file in enumerate(self._list(files, *path)):
            at = (*path, position)
            entry = self._object(file, *at)
            key = next((key for key in ("id", "name") if key in entry), "id")
            sizes[str(entry.get(key))] = self._size(entry, at)
        return sizes

    def _size(self, entry: Mapping[str, Any], at: Path) -> float:
        key = "sizeInBytes" if "sizeInBytes" in entry else "size"
        size = self._number(entry.get(key, 0), *at, key)
        if size >= 0:
            return size
        if not self.rules.apply("zero_negative_sizes"):
            hint = "clean with the rule zero_negative_sizes"
            raise self._fault(f"a file of {size:.0f} bytes", *at, key, hint=hint)
        return 0.0

    def _task(self, value: Any, sizes: Mapping[str, float], at: Path) -> None:
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

    def _measured(self, record: TaskRecord, task: Mapping[str, Any], at: Path) -> None:
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
        at: Path = ("workflow", "execution")
        for position, one in enumerate(self._list(self._object(value, *at).get("tasks"), *at, "tasks")):
            place = (*at, "tasks", position)
            task = self._object(one, *place)
            record = self.records.get(str(task.get("id")))
            if record is None:
                message = f"an execution of {str(task.get('id'))!r}, which is not a task of the specification"
                raise self._fault(message, *place, "id")
            record.kind = _kind(task, record.kind)
            self._measured(record, task, place)

    def _edges(self, task: Mapping[str, Any], at: Path) -> None:
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
