"""Job tables of any origin: their rows as text, and the quantity that each column holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridtune.errors import WorkloadError
from gridtune.registry import name_hint, nearest_name
from gridtune.workload.fields import FIELDS

__all__ = ["Records", "check_names", "quantities_of"]


@dataclass(frozen=True)
class Records:
    """The rows of a table.

    Attributes
    ----------
    path
        The file.
    columns
        Name to the texts of all rows.
    lines
        The line on which each row begins, from 1; None where the format has no lines.
    notes
        Kinds of entries left out in reading, with their number.
    """

    path: Path
    columns: Mapping[str, Sequence[str]]
    lines: Sequence[int] | None
    notes: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def fault(self, row: int, column: str, message: str, hint: str | None = None) -> WorkloadError:
        """Return the error that names file, line and column."""
        line = None if self.lines is None else self.lines[row]
        where = "" if line is not None else f"row {row + 1}: "
        return WorkloadError(where + message, path=self.path, line=line, field=column, hint=hint)


#: What can be read from a table, and the names of columns that hold it, in small letters: sacct's, and those
#: of published tables. Times and durations in any form that `accounting` reads.
_NAMES = {
    # When it was submitted.
    "submit": ("submit", "submit_time", "submitted", "submission_time", "creation_time", "timestamp"),
    # The job's number or name.
    "job": ("jobidraw", "jobid", "job_id", "id"),
    # When its dependencies were done.
    "eligible": ("eligible", "eligible_time"),
    # When it started.
    "start": ("start", "start_time", "scheduled_time", "started"),
    # When it ended.
    "end": ("end", "end_time", "deletion_time", "ended"),
    # How long it ran: D-HH:MM:SS or seconds.
    "elapsed": ("elapsedraw", "elapsed", "run_time", "runtime", "duration"),
    # How long it waited: D-HH:MM:SS or seconds.
    "wait": ("wait_time", "queue_wait", "wait"),
    # Its walltime: D-HH:MM:SS or seconds.
    "limit": ("timelimit", "wallclock_req", "walltime", "requested_time", "time_limit"),
    # Its walltime: D-HH:MM:SS or minutes.
    "limit_minutes": ("timelimitraw", "wall_limit"),
    # Processors asked for.
    "processors": (
        "reqcpus",
        "processors_req",
        "requested_processors",
        "num_cpus",
        "ncpus_req",
        "cpus",
        "cores",
        "num_cores",
        "procs",
    ),
    # Thousandths of processors asked for.
    "milliprocessors": ("cpu_milli",),
    # Processors it got.
    "allocated": ("alloccpus", "ncpus", "processors_used", "allocated_processors"),
    # Nodes asked for.
    "nodes": ("reqnodes", "nodes_req", "requested_nodes", "nodes", "num_nodes"),
    # Nodes it got.
    "allocated_nodes": ("allocnodes", "nnodes", "nodes_used", "allocated_nodes"),
    # Memory asked for: 4000M, 2800Mc for a processor, 4Gn for a node.
    "memory": ("reqmem", "mem_req", "memory_mib", "requested_memory"),
    # Trackable resources asked for: cpu=12,mem=33600M,gres/gpu=2.
    "resources": ("reqtres",),
    # Trackable resources it got.
    "allocated_resources": ("alloctres",),
    # GPUs asked for.
    "gpus": ("gpus_req", "num_gpu", "num_gpus", "requested_gpus"),
    # Thousandths of each GPU.
    "gpu_share": ("gpu_milli",),
    # The type of GPU asked for.
    "gpu_type": ("gpu_spec", "gpu_type"),
    # Its user.
    "user": ("user", "username", "user_id", "uid"),
    # Its group.
    "group": ("group", "groupname", "gid"),
    # The account charged.
    "account": ("account",),
    # Its partition.
    "partition": ("partition", "cluster_partition", "virtual_cluster", "vc"),
    # Its queue.
    "queue": ("queue",),
    # Its quality of service.
    "qos": ("qos",),
    # What it is called.
    "name": ("jobname", "job_name", "name"),
    # Features or constraints asked for.
    "features": ("constraints", "constraint", "features"),
    # How it ended, such as COMPLETED.
    "state": ("state", "pod_phase", "status"),
    # The nodes it ran on.
    "placement": ("nodelist", "exec_host"),
}


def check_names(names: Sequence[str], path: Path, line: int | None, *, own: bool = False) -> None:
    """Refuse a table of which two columns have the same name, or one of gridtune's own with other fields."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise WorkloadError("the header names it twice", path=path, line=line, field=twice)
    for name in names if own else ():
        if name not in FIELDS:
            near = nearest_name(name, FIELDS)
            hint = f"did you mean {near!r}? " if near else ""
            hint += "columns of other names: gridtune traces import FILE NEW.swf --columns processors=NAME"
            raise WorkloadError(f"unknown field {name[:40]!r}", path=path, line=line, hint=hint)
    for name in ("submit_time", "run_time") if own else ():
        if name not in names:
            raise WorkloadError("the table does not name it", path=path, line=line, field=name)


def quantities_of(columns: Sequence[str], chosen: str = "") -> dict[str, str]:
    """Return the column of each quantity that a table holds.

    Parameters
    ----------
    columns
        The names of its columns.
    chosen
        The columns that a user chose, such as `submit=Submitted,processors=Cores`; the others are found by
        their names.

    Raises
    ------
    WorkloadError
        For a choice that is no pair, of a quantity that there is not, or of a column that the table has not.
    """
    by_name: dict[str, str] = {}
    for column in columns:
        by_name.setdefault(column.strip().lower(), column)
    found = {}
    for quantity, names in _NAMES.items():
        present = next((by_name[name] for name in names if name in by_name), None)
        if present is not None:
            found[quantity] = present
    # sacct calls the cluster that; in Philly's table it is the only grouping there is, a virtual cluster.
    if "partition" not in found and "cluster" in by_name and "user" not in found:
        found["partition"] = by_name["cluster"]
    return found | (_chosen(chosen, columns) if chosen else {})


def _chosen(text: str, columns: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for part in text.split(","):
        quantity, equals, column = part.partition("=")
        if not equals or not column.strip():
            hint = "such as submit=Submitted,processors=Cores"
            raise WorkloadError(f"{part!r} does not name a column", field="columns", hint=hint)
        pairs[quantity.strip()] = column.strip()
    for quantity, column in pairs.items():
        if quantity not in _NAMES:
            message, hint = f"{quantity!r} is nothing a job table holds", name_hint(quantity, _NAMES)
            raise WorkloadError(message, field="columns", hint=hint)
        if column not in columns:
            message, hint = f"the table has no column {column!r}", name_hint(column, columns)
            raise WorkloadError(message, field="columns", hint=hint)
    return pairs
