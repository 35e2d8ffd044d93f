"""What the readers share: tasks with the files they read and write, assembled into a `Workflow`.

Some published files are invalid: generators that draw from normal distributions wrote negative times and
sizes. No reader edits them by itself; named rules do, and are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.workload.workflows.workflow import Workflow

__all__ = ["WORKFLOW_RULES", "Rules", "TaskRecord", "assemble"]

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
