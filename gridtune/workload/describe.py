"""The figures of a workload, to look at before trusting a study that uses it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError
from gridtune.types import BoolArray
from gridtune.workload.fields import UNKNOWN
from gridtune.workload.workload import Workload

#: Fields whose absence changes what a study can say.
_FIELDS_TO_MISS = (
    "wait_time",
    "run_time",
    "requested_time",
    "requested_processors",
    "allocated_processors",
    "status",
    "user",
    "group",
    "queue",
    "partition",
)


@dataclass(frozen=True)
class Quantiles:
    """The spread of one quantity over the jobs that have it; NaN where none has.

    Attributes
    ----------
    count
        Jobs that have it.
    mean, minimum, p10, p25, median, p75, p90, p99, maximum
        In the quantity's unit.
    """

    count: int
    mean: float
    minimum: float
    p10: float
    p25: float
    median: float
    p75: float
    p90: float
    p99: float
    maximum: float

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Quantiles:
        """Return the quantiles of some values (linear between order statistics)."""
        if len(values) == 0:
            return cls(0, *[math.nan] * 9)
        points = np.quantile(values, [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0])
        return cls(len(values), float(values.mean()), *(float(point) for point in points))


@dataclass(frozen=True)
class WorkloadStatistics:
    """The figures of one workload.

    Attributes
    ----------
    name, checksum
        Of the workload.
    jobs, users, groups, queues, partitions
        Numbers of them; 0 where the source does not say.
    processors
        The machine's size; None where unknown.
    first_submit, last_submit
        ISO 8601 instants on the log's own clock, or None where the source gives no date.
    span_seconds
        Last − first submission.
    area_processor_seconds
        Σ processors · run time.
    offered_load
        Area / (machine size · span); NaN where the machine's size is unknown.
    recorded_utilisation
        Area / (machine size · (last recorded end − first recorded start)); NaN without recorded waits.
    run_time, size, inter_arrival, requested_time, wait_time
        Seconds, processors, seconds, seconds, seconds.
    estimate_accuracy
        Run time / requested time.
    serial_share, power_of_two_share
        Shares of jobs on one processor, and on 2, 4, 8, ….
    at_limit_share
        Share, among jobs with a requested time, of those that ran as long or longer.
    busiest_user_share
        Share of jobs of the user with most of them; NaN without users.
    zero_run_time, wider_than_machine, unsorted
        Numbers of jobs that need a cleaning rule.
    unknown
        The number of jobs that lack a field, by field; `processors` where a job has neither requested
        nor allocated ones (its work is reckoned with 1, as in simulations).
    """

    name: str
    checksum: str
    jobs: int
    users: int
    groups: int
    queues: int
    partitions: int
    processors: int | None
    first_submit: str | None
    last_submit: str | None
    span_seconds: int
    area_processor_seconds: int
    offered_load: float
    recorded_utilisation: float
    run_time: Quantiles
    size: Quantiles
    inter_arrival: Quantiles
    requested_time: Quantiles
    wait_time: Quantiles
    estimate_accuracy: Quantiles
    serial_share: float
    power_of_two_share: float
    at_limit_share: float
    busiest_user_share: float
    zero_run_time: int
    wider_than_machine: int
    unsorted: int
    unknown: Mapping[str, int]


def describe_workload(workload: Workload, *, processors: int | None = None) -> WorkloadStatistics:
    """Return the figures of a workload, as it stands: nothing is cleaned or filled in.

    Jobs that lack a quantity (`UNKNOWN`) are left out of its figures and counted in `unknown`.

    Parameters
    ----------
    workload
        One job or more.
    processors
        The machine's size, where the log does not say it or says another one.

    Raises
    ------
    WorkloadError
        If there are no jobs.
    """
    if len(workload) == 0:
        raise WorkloadError("there are no jobs to describe", path=workload.source)
    machine = processors if processors is not None else workload.machine_processors
    submit, size, run = workload.submit_time, workload.processors, workload.run_time
    sized, ran = size[_size_known(workload)], run[run >= 0]
    dates = [
        None if moment is None else moment.isoformat()
        for moment in map(workload.instant, (int(submit.min()), int(submit.max())))
    ]
    kinds: dict[str, Any] = {
        f"{name}s": len(np.unique(column[column != UNKNOWN]))
        for name in ("user", "group", "queue", "partition")
        for column in [workload.column(name)]
    }
    estimated = (workload.requested_time > 0) & (run >= 0)
    accuracy = np.asarray(run[estimated] / workload.requested_time[estimated])
    unknown = {field: int((workload.column(field) == UNKNOWN).sum()) for field in _FIELDS_TO_MISS}
    unknown["processors"] = int((~_size_known(workload)).sum())
    _, jobs_of_users = np.unique(workload.user[workload.user != UNKNOWN], return_counts=True)
    busiest = float(jobs_of_users.max() / jobs_of_users.sum()) if len(jobs_of_users) else math.nan
    return WorkloadStatistics(
        name=workload.name,
        checksum=workload.checksum,
        jobs=len(workload),
        **kinds,
        processors=machine,
        first_submit=dates[0],
        last_submit=dates[1],
        span_seconds=int(np.ptp(submit)),
        area_processor_seconds=workload.area,
        offered_load=offered_load(workload, processors=machine),
        recorded_utilisation=_recorded_utilisation(workload, machine),
        run_time=Quantiles.of(ran),
        size=Quantiles.of(sized),
        inter_arrival=Quantiles.of(np.diff(np.sort(submit))),
        requested_time=Quantiles.of(workload.requested_time[workload.requested_time > 0]),
        wait_time=Quantiles.of(workload.wait_time[workload.wait_time >= 0]),
        estimate_accuracy=Quantiles.of(accuracy),
        serial_share=_share(sized == 1),
        power_of_two_share=_share((sized > 1) & (sized & (sized - 1) == 0)),
        at_limit_share=_share(accuracy >= 1.0),
        busiest_user_share=busiest,
        zero_run_time=int((run == 0).sum()),
        wider_than_machine=0 if machine is None else int((size > machine).sum()),
        unsorted=int((np.diff(submit) < 0).sum()),
        unknown={field: count for field, count in unknown.items() if count},
    )


def offered_load(workload: Workload, *, processors: int | None = None) -> float:
    """Return Σ processors · run time / (machine size · (last − first submission)).

    NaN where the machine's size is unknown or all jobs come at once.
    """
    machine = processors if processors is not None else workload.machine_processors
    span = int(np.ptp(workload.submit_time)) if len(workload) else 0
    return workload.area / (machine * span) if machine and span else math.nan


def _recorded_utilisation(workload: Workload, machine: int | None) -> float:
    recorded = (workload.wait_time >= 0) & (workload.run_time > 0)
    if machine is None or not recorded.any():
        return math.nan
    jobs = workload.take(recorded)
    start = jobs.submit_time + jobs.wait_time
    return jobs.area / (machine * int((start + jobs.run_time).max() - start.min()))


def _size_known(workload: Workload) -> BoolArray:
    return (workload.column("requested_processors") > 0) | (workload.column("allocated_processors") > 0)


def _share(mask: BoolArray) -> float:
    return float(mask.mean()) if len(mask) else math.nan
