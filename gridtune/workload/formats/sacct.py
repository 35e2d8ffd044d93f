"""sacct: the job accounting of Slurm, as `sacct --parsable2` writes it, with any set of columns.

Steps of jobs are left out. A job that never started has no run time, one that had not ended neither. What was
left out or is odd is counted in the header, under `Import`.

Source: https://slurm.schedmd.com/sacct.html
"""

from __future__ import annotations

from gridtune.workload.formats.accounting.jobs import log_of_records
from gridtune.workload.formats.accounting.records import decoded
from gridtune.workload.formats.accounting.sacct import is_sacct, records_of_sacct
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import RawLog
from gridtune.workload.formats.registry import Format

__all__ = ["SACCT"]


def _read(stream: LogStream, timezone: str | None = None) -> RawLog:
    """Read a dump; `timezone` is that of its times, UTC by default."""
    records = records_of_sacct(decoded(stream.read()), stream.path)
    return log_of_records(records, timezone=timezone)


def _recognises(start: bytes) -> bool:
    return is_sacct(decoded(start))


SACCT = Format(
    "sacct", ".sacct", _read, None, "Slurm's accounting, sacct -P: read only", recognises=_recognises
)
