"""A trace format: JSON lines, a job each, such as `{"submit_time": 0, "run_time": 60, "user": 3}`.

A first line `{"machine_processors": 128}` says the machine's size.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import numpy as np
from gridtune.errors import WorkloadError
from gridtune.workload.fields import FLOAT_FIELDS, SWF_FIELDS, UNKNOWN
from gridtune.workload.formats import Format
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import RawLog
from gridtune.workload.workload import Workload

__all__ = ["JSONL"]

_MACHINE = "machine_processors"
_NEEDED = ("submit_time", "run_time")


def _read(stream: LogStream) -> RawLog:
    jobs: list[dict[str, Any]] = []
    lines: list[int] = []
    machine: int | None = None
    for line, text in enumerate(stream.read().split(b"\n"), start=1):
        if not text.strip():
            continue
        record = _record(text, stream, line)
        if line == 1 and set(record) == {_MACHINE}:
            machine = record[_MACHINE]
            continue
        _check(record, stream, line)
        jobs.append(record)
        lines.append(line)
    names = [name for name in SWF_FIELDS if name in _NEEDED or any(name in job for job in jobs)]
    columns = {
        name: np.array(
            [job.get(name, UNKNOWN) for job in jobs], np.float64 if name in FLOAT_FIELDS else np.int64
        )
        for name in names
    }
    return RawLog(columns, lambda row, field: lines[row], machine_processors=machine)


def _record(text: bytes, stream: LogStream, line: int) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except ValueError as fault:
        raise WorkloadError(f"is no JSON: {fault}", path=stream.path, line=line) from fault
    if not isinstance(record, dict):
        raise WorkloadError("holds no JSON object", path=stream.path, line=line)
    for name, value in record.items():
        kinds = (int, float) if name in FLOAT_FIELDS else int
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise WorkloadError(f"must be a number, got {value!r}", path=stream.path, line=line, field=name)
        if not isinstance(value, float) and not -(2**63) <= value < 2**63:
            raise WorkloadError("is beyond int64", path=stream.path, line=line, field=name)
    return record


def _check(record: dict[str, Any], stream: LogStream, line: int) -> None:
    for name in record:
        if name not in SWF_FIELDS:
            raise WorkloadError(f"unknown field {name!r}", path=stream.path, line=line)
    for name in _NEEDED:
        if name not in record:
            raise WorkloadError("the job does not have it", path=stream.path, line=line, field=name)


def _write(workload: Workload, file: BinaryIO) -> None:
    if workload.machine_processors is not None:
        file.write(f"{json.dumps({_MACHINE: workload.machine_processors})}\n".encode())
    for job in workload:
        file.write(f"{json.dumps(job)}\n".encode())


JSONL = Format("jsonl", ".jsonl", _read, _write, "every field and the machine's size")
