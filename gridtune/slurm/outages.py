"""Tables of Slurm's commands beside slurm.conf: their lines, and the outages that two of them list.

Reservations are read from `scontrol show res`, times of nodes that were down or drained from
`sacctmgr show event -P`.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Mapping
from pathlib import Path

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import UNLIMITED, Outage
from gridtune.workload.slurm import host_list, text_of


def read_table(
    path: Path, *needed: str, hint: str = "write it again with sacctmgr"
) -> list[tuple[int, dict[str, str]]]:
    """Read the lines of a table with bars between its columns, as `sacctmgr -P` and `squeue -o` write it.

    Raises
    ------
    WorkloadError
        If the table cannot be read or lacks a needed column, or a line is cut off.
    """
    lines = text_of(path).splitlines()
    head = lines[0].split("|") if lines else []
    missing = [name for name in needed if name not in head]
    if missing:
        raise WorkloadError(f"has no column {missing[0]}", path=path, line=1, hint=hint)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        values = line.split("|")
        if not line.strip():
            continue
        if len(values) != len(head):
            message = f"has {len(values)} of {len(head)} columns: the file is cut off or damaged"
            raise WorkloadError(message, path=path, line=number, hint=hint)
        rows.append((number, dict(zip(head, values, strict=True))))
    return rows


def read_outages(folder: Path, number_of: Mapping[str, int]) -> tuple[tuple[Outage, ...], list[str]]:
    """Read reservations and node events, in seconds of local time since 1970, and remarks on them."""
    found, remarks = [], []
    path = folder / "scontrol_show_res.txt"
    text = text_of(path) if path.is_file() else ""
    for match in re.finditer(r"^ReservationName=(\S+)(?:.|\n(?!ReservationName=))*", text, re.MULTILINE):
        words, line = dict(re.findall(r"(\w+)=(\S*)", match[0])), text.count("\n", 0, match.start()) + 1
        begin, end = (_instant(words.get(name, ""), path, line, name) for name in ("StartTime", "EndTime"))
        names = words.get("Nodes", "").replace("(null)", "")
        nodes = tuple(number_of[name] for name in host_list(names, path, line, "Nodes") if name in number_of)
        found.append(Outage(begin, end, nodes, planned=True))
        remarks.append(f"{path.name}:{line}: reservation {match[1]}: its own jobs wait for its end too")
    path = folder / "sacctmgr_show_event.txt"
    for line, row in read_table(path, "NodeName", "TimeStart", "TimeEnd") if path.is_file() else []:
        begin, end = (_instant(row[name], path, line, name) for name in ("TimeStart", "TimeEnd"))
        if row["NodeName"] in number_of:
            found.append(Outage(begin, end, (number_of[row["NodeName"]],)))
    return tuple(found), remarks


def _instant(text: str, path: Path, line: int, field: str) -> int:
    """Return the second of a local time; one that is unknown has not come."""
    if text == "Unknown":
        return 100 * UNLIMITED
    try:
        return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        raise WorkloadError(f"{text[:40]!r} is no time", path=path, line=line, field=field) from None
