"""`JobView`: a waiting job as policies see it, without its run time."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CHANGING_FIELDS", "JobView"]


class JobView(NamedTuple):
    """A waiting job as a queue order sees it. It does not have the run time, which no scheduler knows."""

    #: Seconds from the workload's first submission to this one.
    submit_time: int
    #: The run-time estimate that the scheduler got, seconds.
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
    #: Seconds it may be expected to run: the mean run time of its user's last two jobs that have ended, at
    #: most its walltime; its walltime before one has ended (Tsafrir, Etsion and Feitelson 2007).
    prediction: float = 0.0


#: Fields that change while a job waits. An order that reads none of them is static: each job is scored once,
#: and the waiting jobs are kept in an index.
CHANGING_FIELDS = frozenset({"wait", "now", "user_usage", "group_usage", "prediction"})
