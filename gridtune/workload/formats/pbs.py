"""PBS: the accounting logs of PBS, OpenPBS and Torque, an event a line.

A job is read from the record of its end. Jobs that were deleted before they started, or had not ended, are
counted in the header, under `Import`.
"""

from __future__ import annotations

from gridtune.workload.formats.accounting.jobs import log_of_records
from gridtune.workload.formats.accounting.pbs import is_pbs, records_of_pbs
from gridtune.workload.formats.accounting.records import decoded
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import RawLog
from gridtune.workload.formats.registry import Format

__all__ = ["PBS"]


def _read(stream: LogStream) -> RawLog:
    return log_of_records(records_of_pbs(decoded(stream.read()), stream.path))


def _recognises(start: bytes) -> bool:
    return is_pbs(decoded(start))


PBS = Format("pbs", ".pbs", _read, None, "accounting of PBS and Torque: read only", recognises=_recognises)
