"""What a policy may know of a waiting job. The run time is not among it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CHANGING_FIELDS", "JobView"]


class JobView(NamedTuple):
    """One waiting job as a queue order sees it."""

    #: Seconds from the workload's first submission to this one.
    submit_time: int
    #: The run-time estimate the scheduler was given, seconds.
    walltime: int
    processors: int
    #: Numbers of the user, group, queue and partition, as in the log.
    user: int
    group: int
    queue: int
    partition: int
    #: Seconds waited so far.
    wait: int
    #: Seconds from the workload's first submission to this decision.
    now: int
    #: Processor-seconds the job's user and group have used so far, running jobs included.
    user_usage: float
    group_usage: float
    #: A number drawn for the job at submission, uniform in [0, 1), from the run's own stream.
    lot: float


#: Fields that change while a job waits. An order that reads none of them is static: it is evaluated once
#: for each job, and the waiting jobs are kept in an index.
CHANGING_FIELDS = frozenset({"wait", "now", "user_usage", "group_usage"})
