"""Dumps of `sacct --json`: the same jobs as `sacct -P` writes, by the names of its columns.

Source: https://slurm.schedmd.com/rest_api.html, "dbv0.0.40_job". Releases differ in what is a number and what
says whether it is set; both are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridtune.errors import WorkloadError
from gridtune.workload.formats.accounting.records import Records, Texts

__all__ = ["records_of_json"]

#: The path to the value of each column.
_PATHS = {
    "JobIDRaw": "job_id",
    "JobName": "name",
    "User": "association.user",
    "Account": "association.account",
    "Cluster": "association.cluster",
    "Group": "group",
    "Partition": "partition",
    "QOS": "qos",
    "State": "state.current",
    "Submit": "time.submission",
    "Eligible": "time.eligible",
    "Start": "time.start",
    "End": "time.end",
    "Elapsed": "time.elapsed",
    "TimelimitRaw": "time.limit",
    "ReqCPUS": "required.CPUs",
    "AllocNodes": "allocation_nodes",
    "ReqTRES": "tres.requested",
    "AllocTRES": "tres.allocated",
    "NodeList": "nodes",
    "Constraints": "constraints",
    "Priority": "priority",
    "Reservation": "reservation.name",
    "Licenses": "licenses",
    "SubmitLine": "submit_line",
}
#: Columns of which 0 means that nothing is known.
_MOMENTS = frozenset({"Submit", "Eligible", "Start", "End"})


def records_of_json(text: str, path: Path) -> Records:
    """Return the jobs of a dump.

    Raises
    ------
    WorkloadError
        If it is cut off or no dump; the message names the line, or the job.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise WorkloadError(f"is no JSON, or it is cut off ({error})", path=path, line=line) from None
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise WorkloadError("has no list of jobs", path=path, hint="`sacct --allusers --json` writes one")
    columns = {
        name: Texts.of([_text(name, _value(job, way)) for job in jobs]) for name, way in _PATHS.items()
    }
    columns["JobID"] = Texts.of([_job_id(job) for job in jobs])
    known = {way.partition(".")[0] for way in _PATHS.values()} | {"array", "het", "steps"}
    unread = tuple(dict.fromkeys(name for job in jobs for name in job if name not in known))
    notes = {"steps of jobs left out": sum(len(job.get("steps") or ()) for job in jobs)}
    return Records(path, columns, None, notes, ("job", "submit"), unread)


def _value(job: Mapping[str, Any], way: str) -> Any:
    value: Any = job
    for name in way.split("."):
        value = value.get(name) if isinstance(value, dict) else None if name != "current" else value
    return value


def _text(column: str, value: Any) -> str:
    """Return a value as `sacct -P` would write it."""
    if isinstance(value, dict) and "number" in value:
        value = "UNLIMITED" if value.get("infinite") else value["number"] if value.get("set", True) else None
    if isinstance(value, list) and column.endswith("TRES"):
        # Counts of memory are in MB.
        parts = [one for one in value if isinstance(one, dict) and one.get("type")]
        return ",".join(
            f"{one['type']}{'/' if one.get('name') else ''}{one.get('name') or ''}={one.get('count', 0)}"
            + ("M" if one["type"] == "mem" else "")
            for one in parts
        )
    if isinstance(value, list):
        value = value[0] if value else None
    if value is None or (column in _MOMENTS and value == 0):
        return ""
    return str(value)


def _job_id(job: Mapping[str, Any]) -> str:
    """Return the id with the task of an array, or the component of a heterogeneous job."""
    lead, task = _text("", _value(job, "array.job_id")), _text("", _value(job, "array.task_id"))
    whole, part = _text("", _value(job, "het.job_id")), _text("", _value(job, "het.job_offset"))
    if whole not in {"", "0"}:
        return f"{whole}+{part or 0}"
    return f"{lead}_{task}" if lead not in {"", "0"} and task else _text("", job.get("job_id"))
