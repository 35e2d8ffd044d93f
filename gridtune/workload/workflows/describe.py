"""A description of a workflow: sizes, times, levels, and the needs of each kind of task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.workload.formats.compression import open_log, split_compression
from gridtune.workload.workflows.workflow import Workflow

__all__ = ["describe_workflow", "holds_workflow"]

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
