"""Accounting logs of PBS and LSF, a record a line.

**PBS**: the logs of PBS, OpenPBS and Torque, an event a line. A job is read from the record of its end. Jobs
that were deleted before they started, or had not ended, are counted in the header, under `Import`.

**LSF**: `lsb.acct` of IBM Spectrum LSF. The records of finished jobs are read; others are passed over. LSF
records the slots of a job, host by host, the element of an array and, in recent versions, the limit on the
run time.

Sources: the PBS Professional Administrator's Guide, "Accounting"; Torque's "Job logging"; IBM Spectrum LSF
10.1, "lsb.acct", record JOB_FINISH
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gridtune.errors import WorkloadError
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format
from gridtune.workload.formats.records import Records, TableKind, Texts
from gridtune.workload.formats.table import decoded

_PBS_KIND = TableKind("pbs", "accounting of PBS", key=("job", "submit", "start"))
_LSF_KIND = TableKind("lsf", "accounting of LSF", key=("job", "submit", "end"))

_LINE = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;(\w+);([^;]*);(.*)", re.DOTALL)
# A key begins where a word does: otherwise a long word without a sign takes time by the square of its length.
_PAIR = re.compile(r'(?<![\w.-])([\w.-]+)=("[^"]*"|\S*)')

_FIELDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _events(text: str, path: Path) -> Iterator[tuple[int, str, str, dict[str, str]]]:
    """Yield line, kind, job and attributes of each event."""
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip("\r\n \ufeff")
        if not stripped:
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            message = f"is no record of PBS: {stripped[:40]!r}…"
            hint = "date time;kind;job;attributes, such as 04/01/2024 10:00:00;E;17.host;user=ann …"
            raise WorkloadError(message, path=path, line=number, hint=hint)
        kind, job, message = match.groups()
        yield number, kind, job, {key: value.strip('"') for key, value in _PAIR.findall(message)}


def _pbs_row(job: str, attributes: dict[str, str], line: int, path: Path) -> dict[str, str]:
    row = {column: attributes[name] for name, column in _FIELDS["pbs"].items() if name in attributes}
    if "ctime" in attributes:
        # The time at which the job was made; qtime is when it came into its last queue.
        row["submit"] = attributes["ctime"]
    if not row.get("submit"):
        raise WorkloadError("the job has no time of submission", path=path, line=line, field="ctime")
    row["jobid"] = job
    row["state"] = "COMPLETED" if attributes.get("Exit_status", "0") == "0" else "FAILED"
    if "reqmem" in row and row["reqmem"].lower().endswith("b") and row["reqmem"][:-1].isdecimal():
        # A plain number of bytes.
        row["reqmem"] = f"{int(row['reqmem'][:-1]) // 1024}K"
    nodes, processors, allocated = _size(attributes)
    sizes = {"reqnodes": nodes, "reqcpus": processors, "alloccpus": allocated}
    return row | {name: str(size or "") for name, size in sizes.items()}


def _size(attributes: dict[str, str]) -> tuple[int | None, int | None, int | None]:
    """Return nodes and processors as asked for, and the processors that the job ran on."""
    spec = attributes.get("Resource_List.nodes", "")
    chunks = [_chunk(part) for part in spec.split("+")] if spec else []
    nodes = sum(count for count, _ in chunks) or None
    processors = sum(count * each for count, each in chunks) or None
    counted = attributes.get("Resource_List.ncpus", "")
    if counted.isdecimal() and int(counted):
        processors = int(counted)
    listed = attributes.get("Resource_List.nodect", "")
    if listed.isdecimal():
        nodes = int(listed)
    # PBS Professional names the processors of each chunk, others the places on each host.
    allocated = sum(map(int, re.findall(r":ncpus=(\d{1,9})\b", attributes.get("exec_vnode", "")))) or None
    if allocated is None and attributes.get("exec_host"):
        allocated = sum(_places(place) for place in attributes["exec_host"].split("+"))
    return nodes, processors, allocated


def _chunk(part: str) -> tuple[int, int]:
    """Return nodes and processors of each in a part such as `2:ppn=8:gpus=1` or a host's name."""
    first, *properties = part.split(":")
    each = next((p.partition("=")[2] for p in properties if p.startswith("ppn=")), "1")
    return (int(first) if first.isdecimal() else 1), (int(each) if each.isdecimal() else 1)


def _places(place: str) -> int:
    """Return the processors of a place such as `n1/0`, `n1/0*8` or `n1/0-7,9`."""
    slots = place.partition("/")[2]
    if "*" in slots:
        times = slots.partition("*")[2]
        return int(times) if times.isdecimal() else 1
    total = 0
    for piece in slots.split(","):
        low, dash, high = piece.partition("-")
        total += int(high) - int(low) + 1 if dash and low.isdecimal() and high.isdecimal() else 1
    return total


def _read_pbs(stream: LogStream) -> Records:
    """Read the jobs that ended; those deleted before they started, or still running, are counted."""
    rows, lines = [], []
    running: set[str] = set()
    notes: Counter[str] = Counter()
    for number, kind, job, attributes in _events(decoded(stream.read()), stream.path):
        if kind == "E":
            rows.append(_pbs_row(job, attributes, number, stream.path))
            lines.append(number)
            running.discard(job)
        elif kind == "S":
            running.add(job)
        elif kind == "D" and job not in running:
            notes["jobs deleted before they started"] += 1
        elif kind in ("R", "K", "k"):
            notes["attempts that were run again"] += 1
            running.discard(job)
    notes["jobs that had not ended"] = len(running)
    names = ("jobid", "state", "reqcpus", "alloccpus", "reqnodes", *_FIELDS["pbs"].values())
    columns = {name: Texts.of([row.get(name, "") for row in rows]) for name in names}
    return Records(stream.path, columns, lines, dict(notes), _PBS_KIND)


PBS = Format("pbs", ".pbs", _read_pbs, None, "accounting of PBS and Torque: read only")


_WORD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')

#: The position of the first list of hosts.
_HOSTS = 22
_STATES = {"64": "COMPLETED", "32": "FAILED"}
_MOMENTS = ("submit", "start", "end")


def _lsf_row(words: list[str]) -> dict[str, str]:
    """Return the columns of a record."""
    row = {name: words[place] for name, place in _FIELDS["lsf"].items()}
    at = _HOSTS
    # A list of hosts is preceded by its length: the hosts asked for, then those that ran the job.
    at += 1 + int(words[at])
    hosts = words[at + 1 : at + 1 + int(words[at])]
    at += 1 + len(hosts)
    row["state"], row["jobname"] = _STATES.get(words[at], ""), words[at + 2]
    row |= _later_fields(row["jobid"], words[at + 3 :])
    # Of many slots on a host the log may say the number alone: 4*host.
    times = [re.fullmatch(r"(\d{1,9})\*(.+)", host) for host in hosts]
    row["alloccpus"] = str(sum(int(match[1]) if match else 1 for match in times))
    row["allocnodes"] = str(
        len({match[2] if match else host for match, host in zip(times, hosts, strict=True)})
    )
    if row["start"] == "0":
        row["nodelist"] = "None assigned"
    return row | {name: "" for name in _MOMENTS if row[name] == "0"}


#: Positions after the command: the element of an array, and the number of pairs of a key and a value, which
#: the usage of hosts and the limit on the run time follow.
_ELEMENT, _PAIRS = 26, 50
#: The pairs' key for limits of the job, and the position of that on its run time.
_LIMITS, _RUN_LIMIT = "1086", 9
#: A host's name and the figures of its usage.
_HOST_FIGURES = 6
#: The numbers that end the row in which the limit stands.
_LIMIT_AND_MEMORY = 3


def _later_fields(job: str, words: list[str]) -> dict[str, str]:
    """Return the id of an array's element, and the limit on the run time, as far as the record goes."""
    found = {}
    if words[_ELEMENT : _ELEMENT + 1] not in ([], ["0"]) and words[_ELEMENT].isdecimal():
        found["jobid"] = f"{job}[{words[_ELEMENT]}]"
    if len(words) <= _PAIRS or not words[_PAIRS].isdecimal():
        return found
    beyond = _PAIRS + 1 + 2 * int(words[_PAIRS])
    pairs = dict(zip(words[_PAIRS + 1 : beyond : 2], words[_PAIRS + 2 : beyond : 2], strict=False))
    limits = pairs.get(_LIMITS, "").split()
    given, usage = limits[_RUN_LIMIT : _RUN_LIMIT + 1], words[beyond:]
    if usage and usage[0].isdecimal():
        # Some versions have a word of options before the limit and two figures of memory.
        numbers = list(itertools.takewhile(str.isdecimal, usage[1 + _HOST_FIGURES * int(usage[0]) :]))
        given = numbers[-_LIMIT_AND_MEMORY:][:1] + given
    limit = next((text for text in given if re.fullmatch(r"[1-9]\d{0,9}", text)), None)
    return found if limit is None else found | {"timelimit": limit}


def _read_lsf(stream: LogStream) -> Records:
    rows, lines, others = [], [], 0
    for number, line in enumerate(decoded(stream.read()).split("\n"), start=1):
        if not line.strip():
            continue
        if not line.startswith('"JOB_FINISH"'):
            others += 1
            continue
        words = [
            match[1].replace('""', '"') if match[2] is None else match[2] for match in _WORD.finditer(line)
        ]
        try:
            rows.append(_lsf_row(words))
        except (ValueError, IndexError):
            message = f"is no whole record of a finished job: {line[:40]!r}…"
            hint = "the file may be cut off; take the line out to read the rest"
            raise WorkloadError(message, path=stream.path, line=number, hint=hint) from None
        lines.append(number)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: Texts.of([row.get(name, "") for row in rows]) for name in names}
    if not rows:
        raise WorkloadError("holds no job that finished", path=stream.path)
    notes = {"records of other events": others}
    return Records(Path(stream.path), columns, lines, notes, _LSF_KIND)


LSF = Format("lsf", ".acct", _read_lsf, None, "accounting of LSF, lsb.acct: read only")
