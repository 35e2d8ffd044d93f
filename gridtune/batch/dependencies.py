"""Dependencies as a closed loop: a job is submitted after its predecessor has ended, as simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from gridtune.types import IntArray
from gridtune.workload.workload import Workload

__all__ = ["Dependencies", "closed_loop", "follow_ups"]

#: Whether jobs are submitted as the log has it, or after their predecessors.
Dependencies = Literal["ignore", "log"]


class _FollowUps(NamedTuple):
    """The jobs that depend on another job of the same workload.

    Attributes
    ----------
    row
        Shape (m,): their rows.
    before
        Shape (m,): the row of each one's predecessor, which is smaller.
    think
        Shape (m,): seconds from its end to the submission; -1 where the log only says that the job waits for
        that end.
    left_out
        Jobs whose predecessor is not among those before them.
    """

    row: IntArray
    before: IntArray
    think: IntArray
    left_out: int


def follow_ups(workload: Workload) -> _FollowUps:
    """Return the dependencies of a workload (SWF fields 17 and 18)."""
    named = np.flatnonzero(workload.column("preceding_job") > 0)
    place = {number: row for row, number in reversed(list(enumerate(workload.job_id.tolist())))}
    wanted = workload.column("preceding_job")[named].tolist()
    before = np.array([place.get(number, -1) for number in wanted], np.int64)
    earlier = (before >= 0) & (before < named)
    think = workload.column("think_time")[named]
    return _FollowUps(named[earlier], before[earlier], think[earlier], int((~earlier).sum()))


def closed_loop(
    workload: Workload, run: IntArray, starts: Callable[[Workload, IntArray], IntArray]
) -> tuple[Workload, IntArray, IntArray, int]:
    """Replay jobs of which some are submitted after others have ended.

    A job with a think time is submitted that long after its predecessor has ended; one without as in the log,
    or when the predecessor has ended if that is later; always after the predecessor has started.

    The log is replayed until submissions no longer change. No job's start depends on later submissions, so
    every replay is right up to the first submission that was not, and sets that one right: the result is the
    only schedule that agrees with itself, and is reached after at most a replay for each dependent job.

    Parameters
    ----------
    workload, run
        The jobs, and their run times as simulated.
    starts
        Returns the starts of jobs, given with their rows in the workload.

    Returns
    -------
    The jobs with their submissions, in order of these; their starts; their rows in the workload; and the
    number of jobs whose predecessor is not among those before them.
    """
    after = follow_ups(workload)
    submit = workload.submit_time
    while True:
        index = np.argsort(submit, kind="stable")
        jobs = workload.submitted(submit).take(index)
        ordered = starts(jobs, index)
        start = np.empty_like(ordered)
        start[index] = ordered
        begun, ended = start[after.before], (start + run)[after.before]
        asked = np.where(
            after.think >= 0, ended + after.think, np.maximum(workload.submit_time[after.row], ended)
        )
        following = workload.submit_time.copy()
        following[after.row] = np.maximum(asked, begun + 1)
        if (following == submit).all():
            return jobs, ordered, index, after.left_out
        submit = following
