"""Facts of a whole log beside its plain jobs: requests that were outlived, facts that a replay may ignore.

Taken once, when a log is read, and carried by every selection of it: so all windows and partitions of a log
agree on whether its machine killed jobs, and each result can say what it leaves out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.types import BoolArray, IntArray
from gridtune.workload.fields import UNKNOWN

#: Seconds that a job may run past its requested time on a machine that kills: what notice, clean-up and a
#: slow scheduler take.
GRACE = 300
#: A log in which more than this share of the jobs with a requested time outlived it by more than the grace,
_OUTLIVED_SHARE = 0.01
#: and at least this many, comes from a machine that did not kill.
_LEAST_OUTLIVED = 5
#: Shortest time without a running job, while jobs wait, that counts as time the machine was down, seconds.
SHORTEST_DOWNTIME = 3600
#: Fewer jobs than this do not fill a machine: that none of them runs says nothing.
_FILLING_JOBS = 1000
#: Requested times are no seconds if more than this share of jobs ran longer than so many times theirs,
_MOST, FAR_OUTLIVED = 0.5, 5
#: but minutes or hours if at most this share outlived it as those.
_NEARLY_NONE = 0.1
#: They look like milliseconds if half are longer than so many seconds, and than so many times the run time.
_LONG, _FAR_TOO_LONG = 90 * 86_400, 200
#: Units that requested times may have instead of seconds, in seconds.
LIMIT_UNITS = {"minutes": 60.0, "hours": 3600.0, "milliseconds": 0.001}

_FACTS = tomllib.loads(Path(__file__).with_name("facts.toml").read_text(encoding="utf-8"))
#: What a log may say of a job that not every simulation models, with the words for it.
FACTS: Mapping[str, str] = {name: fact["words"] for name, fact in _FACTS.items()}
#: Facts that no field of a job holds: the name of a column, in small letters, that may hold each, and the
#: form of the values that do.
FACTS_BESIDE = tuple((name, *of) for name, fact in _FACTS.items() for of in fact.get("columns", {}).items())
#: The header's key for facts that no field holds: "NAME JOBS" each, of `FACTS`.
FACTS_KEY = "Facts"

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class LogLoad:
    """The demand of a log's started jobs on its machine.

    Attributes
    ----------
    work
        Their processor-seconds.
    span
        Seconds from the first submission to the last end.
    wait
        Mean of the recorded waits, seconds; 0 where none is recorded.
    widest
        Processors of the widest job.
    peak
        Processors in use at once, at most, if every job started when it was submitted.
    """

    work: float = 0.0
    span: float = 0.0
    wait: float = 0.0
    widest: int = 0
    peak: int = 0

    @classmethod
    def of(cls, columns: Columns) -> LogLoad:
        """Return the load of a log; fields that it lacks are not in `columns`."""
        rows = np.flatnonzero(columns["run_time"] >= 0)
        if not len(rows):
            return cls()
        run, submit = columns["run_time"][rows], columns["submit_time"][rows]
        length = len(columns["run_time"])
        asked, given, recorded = (
            _column(columns, name, length)[rows]
            for name in ("requested_processors", "allocated_processors", "wait_time")
        )
        width = np.maximum(np.where(asked > 0, asked, given), 1)
        wait = np.maximum(recorded, 0)
        end = (submit + run).astype(np.float64)
        up, down = np.argsort(submit, kind="stable"), np.argsort(end, kind="stable")
        ended = np.concatenate(([0.0], np.cumsum(width[down], dtype=np.float64)))
        # Jobs that end at an instant make room for those submitted then.
        ended = ended[np.searchsorted(end[down], submit[up], "right")]
        return cls(
            work=float(np.multiply(run, width, dtype=np.float64).sum()),
            span=float((end + wait).max() - submit.min()),
            wait=float(wait[recorded >= 0].mean()) if (recorded >= 0).any() else 0.0,
            widest=int(width.max()),
            peak=int((np.cumsum(width[up], dtype=np.float64) - ended).max()),
        )


@dataclass(frozen=True)
class LogContents:
    """Facts of a whole log, about the jobs that started.

    Attributes
    ----------
    jobs
        Their number.
    facts
        Jobs of which the log says more than most simulations model, by the kind of fact (see `FACTS`).
    partitions
        The number of partitions that they are in.
    requests
        Jobs with a requested time.
    outlived
        Jobs that ran longer than it by more than `GRACE`.
    equal_requests
        True if all requested times are the same, or there is none: they cannot order jobs.
    downtime
        Seconds in which no job ran while some waited, as recorded, in stretches of an hour and more; 0 for a
        log of fewer than 1,000 jobs.
    exceeded
        Jobs that ran longer than `FAR_OUTLIVED` times their requested time.
    limit_unit, exceeded_unit
        The unit that requested times look like instead of seconds (see `LIMIT_UNITS`), "" for none; and the
        jobs that ran longer than theirs in this unit.
    notes
        Notes of the reader, as in the header's `Import`.
    load
        What they ask of the machine; in a selection of one partition, those of this partition.
    """

    jobs: int = 0
    facts: Mapping[str, int] = field(default_factory=dict)
    partitions: int = 0
    requests: int = 0
    outlived: int = 0
    equal_requests: bool = True
    downtime: int = 0
    exceeded: int = 0
    limit_unit: str = ""
    exceeded_unit: int = 0
    notes: tuple[str, ...] = ()
    load: LogLoad = field(default_factory=LogLoad)

    @classmethod
    def of(cls, columns: Columns, header: Mapping[str, tuple[str, ...]] | None = None) -> LogContents:
        """Return what a log and its header say; fields that it lacks are not in `columns`."""
        run = columns["run_time"]
        started = run >= 0
        requested = _column(columns, "requested_time", len(run))
        has_request = started & (requested > 0)
        requests = requested[has_request]
        unit, outlived_unit = cls._limit_unit(run[has_request], requests)
        partitions = cls._partitions(columns, started)
        masks = cls._masks(columns, len(run)) | ({} if partitions > 1 else {"partitions": None})
        counts = {name: int((started & mask).sum()) for name, mask in masks.items() if mask is not None}
        for line in (header or {}).get(FACTS_KEY, ()):
            name, _, jobs = line.partition(" ")
            if name in FACTS and jobs.isdecimal():
                counts[name] = max(counts.get(name, 0), int(jobs))
        return cls(
            jobs=int(started.sum()),
            facts={name: count for name, count in counts.items() if count},
            partitions=partitions,
            requests=len(requests),
            outlived=int((run[has_request] - requests > GRACE).sum()),
            equal_requests=not len(requests) or bool(requests.min() == requests.max()),
            downtime=cls._downtime(columns),
            exceeded=int((run[has_request] / FAR_OUTLIVED > requests).sum()),
            limit_unit=unit,
            exceeded_unit=outlived_unit,
            notes=tuple((header or {}).get("Import", ())),
            load=LogLoad.of(columns),
        )

    @staticmethod
    def _limit_unit(run: IntArray, requests: IntArray) -> tuple[str, int]:
        """Return the unit that requested times look like if not seconds, and jobs that outlive them."""
        far = int((run / FAR_OUTLIVED > requests).sum())
        if far > _MOST * len(run) and far >= _LEAST_OUTLIVED:
            for unit in ("minutes", "hours"):
                outlived = int((run / LIMIT_UNITS[unit] > requests).sum())
                if outlived <= _NEARLY_NONE * len(run):
                    return unit, outlived
        if len(run) >= _LEAST_OUTLIVED and (requests % 1000 == 0).all():
            half = float(np.median(requests))
            if half > _LONG and half > _FAR_TOO_LONG * float(np.median(run)):
                return "milliseconds", int((run * 1000 > requests).sum())
        return "", 0

    @staticmethod
    def _partitions(columns: Columns, started: BoolArray) -> int:
        if "partition" not in columns:
            return 0
        numbers = columns["partition"][started]
        if not len(numbers) or numbers.min() == numbers.max():
            return int(len(numbers) > 0 and numbers[0] != UNKNOWN)
        return len(np.unique(numbers[numbers != UNKNOWN]))

    @staticmethod
    def _masks(columns: Columns, length: int) -> dict[str, BoolArray | None]:
        """Return which jobs have each kind of fact; None where the log lacks the field."""

        def above_zero(name: str) -> BoolArray | None:
            return columns[name] > 0 if name in columns else None

        def beside(*names: str) -> BoolArray | None:
            """Return which jobs ask for or got some of these, other than what counts as their processors."""
            if not any(name in columns for name in names):
                return None
            count = np.maximum.reduce([_column(columns, name, length) for name in names])
            asked, given = (
                _column(columns, f"{kind}_processors", length) for kind in ("requested", "allocated")
            )
            return np.asarray((count > 0) & (count != np.where(asked > 0, asked, given)))

        def several(name: str) -> BoolArray | None:
            """Return which jobs have a name of a field, where the log has more than one."""
            if name not in columns:
                return None
            named = columns[name] != UNKNOWN
            numbers = columns[name][named]
            return named if len(numbers) and numbers.min() != numbers.max() else None

        after, think = above_zero("preceding_job"), above_zero("think_time")
        eligible = columns.get("eligible_time")
        return {
            "dependencies": after,
            "think_times": None if after is None or think is None else after & think,
            "partitions": columns["partition"] != UNKNOWN if "partition" in columns else None,
            "nodes": beside("requested_nodes", "allocated_nodes"),
            "memory": above_zero("requested_memory"),
            "gpus": beside("requested_gpus", "allocated_gpus"),
            "features": columns["features"] != UNKNOWN if "features" in columns else None,
            "qos": several("qos"),
            "accounts": several("account"),
            "holds": None if eligible is None else eligible > columns["submit_time"],
        }

    @staticmethod
    def _downtime(columns: Columns) -> int:
        """Return the seconds in which no job ran while some waited, by the recorded waits and run times."""
        if "wait_time" not in columns:
            return 0
        recorded = (columns["wait_time"] >= 0) & (columns["run_time"] >= 0)
        submit, wait, run = (columns[name][recorded] for name in ("submit_time", "wait_time", "run_time"))
        if len(submit) < _FILLING_JOBS:
            return 0
        start = submit + wait
        order = np.argsort(start, kind="stable")
        start, submit, run = start[order], submit[order], run[order]
        idle_from = np.maximum.accumulate(start + run)[:-1]
        # The first of all jobs that start after a gap to be submitted has waited from then on.
        first_submit = np.minimum.accumulate(submit[::-1])[::-1][1:]
        down = start[1:] - np.maximum(idle_from, first_submit)
        return int(down[down >= SHORTEST_DOWNTIME].sum())

    @property
    def kills(self) -> bool:
        """True if the log's machine ended jobs at their requested time, as far as the log tells."""
        return self.outlived < _LEAST_OUTLIVED or self.outlived <= _OUTLIVED_SHARE * self.requests

    @property
    def without_request(self) -> int:
        """Jobs without a requested time."""
        return self.jobs - self.requests


def _column(columns: Columns, name: str, length: int) -> npt.NDArray[Any]:
    return columns[name] if name in columns else np.broadcast_to(np.int64(UNKNOWN), length)
