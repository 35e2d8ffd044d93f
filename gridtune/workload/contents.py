"""Facts of a whole log beside its plain jobs: requests that were outlived, facts that a replay may ignore.

Taken once, when a log is read, and carried by every selection of it: so all windows and partitions of a log
agree on whether its machine killed jobs, and each result can say what it leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.types import BoolArray
from gridtune.workload.fields import UNKNOWN

__all__ = ["FACTS", "GRACE", "LEAST_OUTLIVED", "OUTLIVED_SHARE", "LogContents"]

#: Seconds that a job may run past its requested time on a machine that kills: what notice, clean-up and a
#: slow scheduler take.
GRACE = 300
#: A log in which more than this share of the jobs with a requested time outlived it by more than the grace,
OUTLIVED_SHARE = 0.01
#: and at least this many, comes from a machine that did not kill.
LEAST_OUTLIVED = 5
#: Shortest time without a running job, while jobs wait, that counts as time the machine was down, seconds.
SHORTEST_DOWNTIME = 3600
#: Fewer jobs than this do not fill a machine: that none of them runs says nothing.
_FILLING_JOBS = 1000

#: What a log may say of a job that not every simulation models, with the words for it.
FACTS = {
    "dependencies": "dependencies",
    "think_times": "think times",
    "partitions": "partitions",
    "nodes": "nodes",
    "memory": "memory",
    "gpus": "GPUs",
    "features": "features and licences",
    "holds": "holds (jobs not eligible when submitted)",
}

Columns = Mapping[str, npt.NDArray[Any]]


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
    """

    jobs: int = 0
    facts: Mapping[str, int] = field(default_factory=dict)
    partitions: int = 0
    requests: int = 0
    outlived: int = 0
    equal_requests: bool = True
    downtime: int = 0

    @classmethod
    def of(cls, columns: Columns) -> LogContents:
        """Return what a log says; fields that it lacks are not in `columns`."""
        run = columns["run_time"]
        started = run >= 0
        requested = _column(columns, "requested_time", len(run))
        has_request = started & (requested > 0)
        requests = requested[has_request]
        partitions = _partitions(columns, started)
        masks = _masks(columns, len(run)) | ({} if partitions > 1 else {"partitions": None})
        counts = {name: int((started & mask).sum()) for name, mask in masks.items() if mask is not None}
        return cls(
            jobs=int(started.sum()),
            facts={name: count for name, count in counts.items() if count},
            partitions=partitions,
            requests=len(requests),
            outlived=int((run[has_request] - requests > GRACE).sum()),
            equal_requests=not len(requests) or bool(requests.min() == requests.max()),
            downtime=_downtime(columns),
        )

    @property
    def kills(self) -> bool:
        """True if the log's machine ended jobs at their requested time, as far as the log tells."""
        return self.outlived < LEAST_OUTLIVED or self.outlived <= OUTLIVED_SHARE * self.requests

    @property
    def without_request(self) -> int:
        """Jobs without a requested time."""
        return self.jobs - self.requests


def _column(columns: Columns, name: str, length: int) -> npt.NDArray[Any]:
    return columns[name] if name in columns else np.broadcast_to(np.int64(UNKNOWN), length)


def _masks(columns: Columns, length: int) -> dict[str, BoolArray | None]:
    """Return which jobs have each kind of fact; None where the log lacks the field."""

    def above_zero(name: str) -> BoolArray | None:
        return columns[name] > 0 if name in columns else None

    def beside(*names: str) -> BoolArray | None:
        """Return which jobs ask for or got some of these, other than what counts as their processors."""
        if not any(name in columns for name in names):
            return None
        count = np.maximum.reduce([_column(columns, name, length) for name in names])
        asked, given = (_column(columns, f"{kind}_processors", length) for kind in ("requested", "allocated"))
        return np.asarray((count > 0) & (count != np.where(asked > 0, asked, given)))

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
        "holds": None if eligible is None else eligible > columns["submit_time"],
    }


def _partitions(columns: Columns, started: BoolArray) -> int:
    if "partition" not in columns:
        return 0
    numbers = columns["partition"][started]
    if not len(numbers) or numbers.min() == numbers.max():
        return int(len(numbers) > 0 and numbers[0] != UNKNOWN)
    return len(np.unique(numbers[numbers != UNKNOWN]))


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
