"""LSF: `lsb.acct`, the accounting log of IBM Spectrum LSF, a record a line.

Read are the records of jobs that finished, up to the command; others are passed over. LSF records the slots
of a job, host by host, and no limit on its run time.

Source: IBM Spectrum LSF 10.1, "lsb.acct", record JOB_FINISH
"""

from __future__ import annotations

import re
from pathlib import Path

from gridtune.errors import WorkloadError
from gridtune.workload.formats.accounting.jobs import log_of_records
from gridtune.workload.formats.accounting.records import Records, Texts
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format, RawLog
from gridtune.workload.formats.table import decoded

__all__ = ["LSF"]

_WORD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_FIRST = re.compile(r'"JOB_FINISH" "[\d.]+" \d+ \d+ ')

#: The fields up to the lists of hosts, by the columns of `gridtune.workload.formats.accounting.records`;
#: "" is passed over.
_FIELDS = (
    "", "", "end", "jobid", "", "", "reqcpus", "submit", "", "", "start", "user", "queue", "", "", "", "", "",
    "", "", "", "",
)  # fmt: skip
_STATES = {"64": "COMPLETED", "32": "FAILED"}
_MOMENTS = ("submit", "start", "end")


def _row(words: list[str]) -> dict[str, str]:
    """Return the columns of a record."""
    row = {name: word for name, word in zip(_FIELDS, words, strict=False) if name}
    at = len(_FIELDS)
    # A list of hosts is preceded by its length: the hosts asked for, then those that ran the job.
    at += 1 + int(words[at])
    hosts = words[at + 1 : at + 1 + int(words[at])]
    at += 1 + len(hosts)
    row["state"], row["jobname"] = _STATES.get(words[at], ""), words[at + 2]
    # Of many slots on a host the log may say the number alone: 4*host.
    times = [re.fullmatch(r"(\d{1,9})\*(.+)", host) for host in hosts]
    row["alloccpus"] = str(sum(int(match[1]) if match else 1 for match in times))
    row["allocnodes"] = str(
        len({match[2] if match else host for match, host in zip(times, hosts, strict=True)})
    )
    if row["start"] == "0":
        row["nodelist"] = "None assigned"
    return row | {name: "" for name in _MOMENTS if row[name] == "0"}


def _records(stream: LogStream) -> Records:
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
            rows.append(_row(words))
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
    return Records(Path(stream.path), columns, lines, notes, key=("job", "submit", "end"))


def _read(stream: LogStream, requested: bool = False) -> RawLog:
    """Read a log; `requested` says that jobs have the slots they asked for, not those they got."""
    return log_of_records(_records(stream), requested=requested)


LSF = Format(
    "lsf",
    ".acct",
    _read,
    None,
    "accounting of LSF, lsb.acct: read only",
    recognises=lambda start: _FIRST.match(decoded(start).lstrip("\ufeff")) is not None,
    records=_records,
)
