"""Metrics of waiting jobs that are compiled. Imported where they are used: metrics import no compiler."""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, IntArray

__all__ = ["most_waiting", "overtaken", "sums_by_user"]


@kernel()
def _first_not_before(submit: IntArray, job: int, instant: int) -> int:
    """Return the number of submissions before an instant, looked for from a job's own on."""
    if submit[job] >= instant:
        while job > 0 and submit[job - 1] >= instant:
            job -= 1
        return job
    step = 1
    while job + step < submit.size and submit[job + step] < instant:
        job += step
        step *= 2
    beyond = min(job + step, submit.size)
    while beyond - job > 1:
        middle = (job + beyond) >> 1
        if submit[middle] < instant:
            job = middle
        else:
            beyond = middle
    return beyond


@kernel()
def most_waiting(submit: IntArray, start: IntArray, area: IntArray, first: int, last: int) -> tuple[int, int]:
    """Return the most jobs and the most work that wait after a submission.

    Parameters
    ----------
    submit, start, area
        Shape (n,), int64: seconds, in order of submission, and processor-seconds.
    first, last
        The submissions looked at are those from `first` up to, not including, `last`.

    Returns
    -------
    length, work
        Jobs, and the processor-seconds they will use.
    """
    jobs = submit.size
    left, left_work = np.zeros(jobs + 1, np.int32), np.zeros(jobs + 1, np.int64)
    for job in range(jobs):
        place = _first_not_before(submit, job, start[job])
        left[place] += 1
        left_work[place] += area[job]
    waiting = waiting_work = most = most_work = 0
    for job in range(last):
        waiting += 1 - left[job]
        waiting_work += area[job] - left_work[job]
        # Those submitted together have all come before anything is counted.
        if job >= first and (job + 1 == jobs or submit[job + 1] > submit[job]):
            most, most_work = max(most, waiting), max(most_work, waiting_work)
    return most, most_work


@kernel()
def overtaken(submit: IntArray, start: IntArray, first: int, last: int) -> IntArray:
    """Return for how many seconds jobs still waited after a later job had been started.

    Parameters
    ----------
    submit, start
        Shape (n,), int64 s, of all jobs in order of submission.
    first, last
        The jobs asked for are those from `first` up to, not including, `last`.
    """
    jobs = submit.size
    times = np.empty(last - first, np.int64)
    # The earliest start of all jobs submitted later than this one, and of all from this one on.
    later = earliest = np.int64(2**63 - 1)
    for job in range(jobs - 1, first - 1, -1):
        if job + 1 < jobs and submit[job + 1] > submit[job]:
            later = earliest
        earliest = min(earliest, start[job])
        if job < last:
            times[job - first] = start[job] - min(start[job], later)
    return times


@kernel()
def sums_by_user(
    user: IntArray, submit: IntArray, start: IntArray, end: IntArray, users: int, shortest: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return each user's number of jobs, seconds waited, and sum of bounded slowdowns; shape (users,) each.

    Parameters
    ----------
    user, submit, start, end
        Shape (n,), int64; users are less than `users`, those below 0 are left out.
    users
        The number of users.
    shortest
        Run times count as this many seconds at least.
    """
    count, waits, slowdowns = np.zeros(users, np.int64), np.zeros(users), np.zeros(users)
    for job in range(user.size):
        number = user[job]
        if number >= 0:
            count[number] += 1
            waits[number] += start[job] - submit[job]
            ratio = (end[job] - submit[job]) / max(end[job] - start[job], shortest)
            slowdowns[number] += max(ratio, 1.0)
    return count, waits, slowdowns
