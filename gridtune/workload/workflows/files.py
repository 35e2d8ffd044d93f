"""Reading workflows: the format follows from the file's suffix."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gridtune.errors import WorkloadError
from gridtune.workload.formats.compression import DEFAULT_MAX_BYTES, open_log, split_compression
from gridtune.workload.workflows.dax import read_dax
from gridtune.workload.workflows.records import Rules
from gridtune.workload.workflows.wfformat import read_wfformat
from gridtune.workload.workflows.workflow import Workflow

__all__ = ["WORKFLOW_SUFFIXES", "read_workflow"]

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
