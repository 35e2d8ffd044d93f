"""Batsim's JSON: jobs, and the profiles that say what they do.

Batsim counts in seconds. Its jobs may hold further fields: the other fields of a log go there, under their
SWF names, so that writing and reading loses nothing.

Supported are delays, computations without communication (flops of each processor, of all together, or a list,
of which the longest counts), and sequences of these, under their names in Batsim 5 (`DelayProfile`) and
before (`delay`). `nb_res` is not the machine's size: in files in use it is the width of the widest job. Ids
are any text; jobs are numbered in order where the ids are not distinct numbers.

Sources: https://batsim.readthedocs.io/en/latest/input-workload.html; `src/profiles.cpp` of
https://github.com/oar-team/batsim, versions 1 to 5.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.workload.fields import FIELDS, FLOAT_FIELDS, LARGEST_TIME, SWF_FIELDS, UNKNOWN
from gridtune.workload.formats.compression import JsonText, LogStream
from gridtune.workload.formats.log import Format, RawLog, metadata_from_json, metadata_to_json
from gridtune.workload.formats.table import number_column
from gridtune.workload.workload import Workload

_OWN = "gridtune"
_compact = partial(json.dumps, ensure_ascii=False)
_KEYS = {"submit_time": "subtime", "requested_processors": "res", "requested_time": "walltime"}
#: Types of profiles with a run time, and their names in other versions.
_TYPES = {
    "delay": "DelayProfile",
    "parallel": "ParallelTaskProfile ptask msg_par",
    "parallel_homogeneous": "ParallelTaskHomogeneousProfile ptask_homogeneous msg_par_hg",
    "parallel_homogeneous_total": "ParallelTaskHomogeneousTotalProfile msg_par_hg_tot",
    "sequence": "SequentialCompositionProfile composed",
}
_KINDS = {name: kind for kind, names in _TYPES.items() for name in (kind, *names.split())}
#: The strategy by which the flops of a homogeneous task are those of all processors together.
_SPREAD = ("DefinedAmountsSpreadUniformly", "defined_amount_spread_uniformly", "spread_uniformly")
_RUN_BATSIM = "read the jobs that Batsim ran instead, its out_jobs.csv"
#: Parts of the names of types, and the reason why those have no run time.
_ELSEWHERE = (
    ("storage", "it moves data from or to storage, which gridtune does not simulate"),
    ("staging", "it moves data between storages, which gridtune does not simulate"),
    ("pfs", "it moves data from or to a file system, which gridtune does not simulate"),
    ("smpi", "it replays traces of MPI on a network, which gridtune does not simulate"),
    ("trace", "it replays traces in other files, which gridtune does not read"),
    ("send", "it waits for messages of Batsim's scheduler"),
    ("recv", "it waits for messages of Batsim's scheduler"),
)
#: Sequences within sequences that are followed.
_DEEPEST = 50


def _read(stream: LogStream, time_unit: float = 1, speed: float | None = None) -> RawLog:
    """Read a Batsim workload.

    Parameters
    ----------
    stream
        The file.
    time_unit
        Seconds in the file's unit of time: 60 for files in minutes.
    speed
        Flops a processor does in one such unit; needed where a profile is a computation.
    """
    for name, value in (("time_unit", time_unit), ("speed", 1 if speed is None else speed)):
        if not (math.isfinite(value) and value > 0):
            raise WorkloadError(f"{name} must be a finite number above 0, but got {value}", path=stream.path)
    text = JsonText(stream, parse_constant=_refuse_constant)
    document = text.document
    lists = isinstance(document, dict) and isinstance(document.get("jobs"), list)
    if not lists or not isinstance(document.get("profiles"), dict):
        message = "is not a Batsim workload: it needs a list 'jobs' and an object 'profiles'"
        raise WorkloadError(message, path=stream.path)
    reader = _BatsimReader(text, Fraction(time_unit), None if speed is None else Fraction(speed))
    return reader.read()


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number")


class _BatsimReader:
    def __init__(self, text: JsonText, time_unit: Fraction, speed: Fraction | None) -> None:
        self.document: Mapping[str, Any] = text.document
        self.profiles: Mapping[str, Any] = text.document["profiles"]
        self.line_of, self.fault = text.line_of, text.fault
        self.time_unit, self.speed = time_unit, speed
        # In others' files a key such as "state" may mean anything.
        self.fields = FIELDS if _OWN in self.document else SWF_FIELDS
        # By profile and width: exact, and as columns hold it.
        self.durations: dict[tuple[str, int], Fraction] = {}
        self.run_times: dict[tuple[str, int], int | float] = {}

    def read(self) -> RawLog:
        jobs = self.document["jobs"]
        rows = [self._job(position, job) for position, job in enumerate(jobs)]
        metadata = self._metadata()
        numbers = [_job_number(job["id"]) for job in jobs]
        if None in numbers or (_OWN not in self.document and len(set(numbers)) < len(numbers)):
            note = f"{len(jobs)} jobs are numbered in order: their ids are not distinct numbers"
            metadata["header"] = {**metadata["header"], "Import": (note,)}
            numbers = list(range(1, len(jobs) + 1))
        rows = [{"job_id": number or 0, **row} for number, row in zip(numbers, rows, strict=True)]
        present = [name for name in self.fields if any(name in row for row in rows)]
        columns = {name: number_column(name, [row.get(name, UNKNOWN) for row in rows]) for name in present}
        columns.setdefault("submit_time", np.zeros(0, dtype=np.int64))
        return RawLog(
            columns=columns,
            line_of=lambda row, name: self.line_of("jobs", row, _KEYS.get(name, name)),
            **metadata,
        )

    def _number(self, value: Any, *path: str | int) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(f"{json.dumps(value)[:40]} is not a number", *path)
        if isinstance(value, float) and not math.isfinite(value):
            raise self.fault("is beyond float64", *path)
        if not -(2**63) <= value < 2**63 and path[-1] not in FLOAT_FIELDS:
            raise self.fault(f"{value} is beyond int64", *path)
        return int(value) if isinstance(value, float) and value.is_integer() else value

    def _seconds(self, value: Any, *path: str | int) -> int | float:
        number = self._number(value, *path)
        # A negative number means unknown or is a fault: it is not scaled.
        if number < 0 or (self.time_unit == 1 and isinstance(number, int) and number <= LARGEST_TIME):
            return number
        return self._whole(Fraction(number) * self.time_unit, *path)

    def _whole(self, seconds: Fraction, *path: str | int) -> int | float:
        """Return a whole number if it is one, else the nearest float, for the checks or a rule to find."""
        if seconds > LARGEST_TIME:
            raise self.fault("is beyond the largest time, 2**53 seconds", *path)
        return seconds.numerator if seconds.denominator == 1 else float(seconds)

    def _job(self, position: int, job: Any) -> dict[str, int | float]:
        at = ("jobs", position)
        if not isinstance(job, dict):
            raise self.fault("a job is an object", *at)
        for key in ("id", "subtime", "res", "profile"):
            if key not in job:
                raise self.fault(f"the job has no {key!r}", *at)
        if isinstance(job["id"], bool) or not isinstance(job["id"], str | int):
            raise self.fault(f"{json.dumps(job['id'])[:40]} is no id: it is text or a number", *at, "id")
        width = self._number(job["res"], *at, "res")
        row = {
            "submit_time": self._seconds(job["subtime"], *at, "subtime"),
            "run_time": self._run_time(job["profile"], width, position),
            "requested_processors": width,
            "requested_time": self._seconds(job.get("walltime", UNKNOWN), *at, "walltime"),
        }
        for name in self.fields:
            if name in job and name not in ("job_id", "submit_time", "run_time", "requested_time"):
                row[name] = self._number(job[name], *at, name)
        return row

    def _run_time(self, profile: Any, width: int | float, position: int) -> int | float:
        key = (self._profile(profile, "jobs", position, "profile"), int(width))
        if key not in self.run_times:
            self.run_times[key] = self._whole(self._duration(*key), "profiles", key[0])
        return self.run_times[key]

    def _profile(self, name: Any, *path: str | int) -> str:
        """Return the name of a profile that there is; Batsim may put the workload's before it."""
        short = name.rpartition("!")[2] if isinstance(name, str) else ""
        found = next((own for own in (name, short) if isinstance(own, str) and own in self.profiles), None)
        if found is None:
            raise self.fault(f"there is no profile {json.dumps(name)[:40]}", *path)
        return found

    def _duration(self, name: str, width: int, within: tuple[str, ...] = ()) -> Fraction:
        """Return the seconds of a profile; a negative number is unknown or a fault."""
        if (name, width) not in self.durations:
            profile, at = self.profiles[name], ("profiles", name)
            given = profile.get("type") if isinstance(profile, dict) else None
            kind = _KINDS.get(given) if isinstance(given, str) else None
            if kind == "delay":
                seconds = Fraction(self._seconds(profile.get("delay"), *at, "delay"))
            elif kind == "sequence":
                seconds = self._sequence(profile, width, (*within, name))
            elif kind is not None:
                seconds = self._computation(profile, kind, width, *at)
            else:
                reason = next((why for part, why in _ELSEWHERE if part in str(given).lower()), None)
                if reason and profile.get("trace_type") == "SMPI":
                    reason = dict(_ELSEWHERE)["smpi"]
                hint = f"{reason}; {_RUN_BATSIM}" if reason else f"supported types are {', '.join(_TYPES)}"
                raise self.fault(f"profile of type {given!r} has no run time of its own", *at, hint=hint)
            self.durations[name, width] = seconds
        return self.durations[name, width]

    def _sequence(self, profile: Mapping[str, Any], width: int, within: tuple[str, ...]) -> Fraction:
        """Return the sum of the run times of profiles, as often as they are repeated."""
        at = ("profiles", within[-1])
        parts, repeat = profile.get("seq"), profile.get("repeat", 1)
        if within[-1] in within[:-1] or len(within) > _DEEPEST:
            raise self.fault("the sequence holds itself, or nests too deeply", *at, "seq")
        if not isinstance(parts, list) or not parts:
            raise self.fault("a sequence is a list of profiles", *at, "seq")
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise self.fault(f"{json.dumps(repeat)[:40]} is not a number of repetitions", *at, "repeat")
        names = [self._profile(part, *at, "seq", place) for place, part in enumerate(parts)]
        each = [self._duration(name, width, within) for name in names]
        total = min(each) if min(each) < 0 else sum(each, Fraction()) * repeat
        self._whole(total, *at)
        return total

    def _computation(self, profile: Mapping[str, Any], kind: str, width: int, *at: str | int) -> Fraction:
        if any(self._flat(profile.get("com", 0), *at, "com")):
            hint = f"its run time depends on a network, which gridtune does not simulate; {_RUN_BATSIM}"
            raise self.fault("the profile communicates", *at, "com", hint=hint)
        if self.speed is None:
            hint = "pass speed= (flops a processor does in a unit of time)"
            raise self.fault("a computation has a run time only at a given speed", *at, hint=hint)
        flops = max(self._flat(profile.get("cpu"), *at, "cpu"), default=0)
        if flops < 0:
            raise self.fault("a computation cannot be negative", *at, "cpu")
        together = kind == "parallel_homogeneous_total" or profile.get("generation_strategy") in _SPREAD
        return Fraction(flops) / (max(width, 1) if together else 1) / self.speed * self.time_unit

    def _flat(self, value: Any, *path: str | int) -> list[int | float]:
        if isinstance(value, list):
            return [self._number(item, *path) for item in value]
        return [] if value is None and path[-1] == "com" else [self._number(value, *path)]

    def _metadata(self) -> dict[str, Any]:
        own = self.document.get(_OWN)
        if own is None:
            simple = {
                key: (str(value),)
                for key, value in self.document.items()
                if isinstance(value, str | int | float) and not isinstance(value, bool)
            }
            return {"header": simple}
        try:
            return metadata_from_json(own)
        except ValueError as error:
            raise self.fault("gridtune's own part is damaged", _OWN) from error


def _job_number(identity: str | int) -> int | None:
    # Batsim puts the workload's name before the job's: "w0!17"; some files have "#17".
    text = str(identity).rpartition("!")[2].strip().removeprefix("#")
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None


def _write(workload: Workload, file: BinaryIO) -> None:
    run_times = workload.run_time
    if len(workload) and run_times.min() < 0:
        row = int(np.argmax(run_times < 0))
        message = f"Batsim has no job without run time, but job {row + 1} has none"
        hint = "clean with 'drop_never_started' first"
        raise WorkloadError(message, field="run_time", hint=hint)
    own = metadata_to_json(workload)
    widest = int(workload.processors.max(initial=0))
    file.write(f'{{\n"nb_res": {widest},\n"{_OWN}": {_compact(own)},\n"jobs": [\n'.encode())
    file.write(",\n".join(_compact(job) for job in _jobs(workload)).encode())
    profiles = {str(time): {"type": "delay", "delay": time} for time in np.unique(run_times).tolist()}
    lines = (f"{_compact(name)}: {_compact(profile)}" for name, profile in profiles.items())
    file.write(('\n],\n"profiles": {\n' + ",\n".join(lines) + "\n}\n}\n").encode())


def _jobs(workload: Workload) -> list[dict[str, Any]]:
    extra = [
        name
        for name in workload.columns
        if name not in ("job_id", "submit_time", "run_time", "requested_time", "requested_processors")
    ]
    requested = workload.column("requested_processors").tolist()
    jobs = []
    for row, width, wanted in zip(workload, workload.processors.tolist(), requested, strict=True):
        job = {
            "id": str(row.get("job_id", UNKNOWN)),
            "subtime": row["submit_time"],
            "res": width,
            "profile": str(row["run_time"]),
        }
        if row.get("requested_time", UNKNOWN) != UNKNOWN:
            job["walltime"] = row["requested_time"]
        if wanted != width:
            job["requested_processors"] = wanted
        job |= {name: row[name] for name in extra if row[name] != UNKNOWN}
        jobs.append(job)
    return jobs


BATSIM = Format("batsim", ".json", _read, _write, "everything, for jobs whose run time is known")
