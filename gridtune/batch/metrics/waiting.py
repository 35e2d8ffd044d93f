"""What waits when jobs are submitted, compiled. Imported where it is used: metrics import no compiler."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel

__all__ = ["most_waiting"]

Int64s = npt.NDArray[np.int64]


@kernel()
def _first_not_before(submit: Int64s, job: int, instant: int) -> int:
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
def most_waiting(submit: Int64s, start: Int64s, area: Int64s, first: int, last: int) -> tuple[int, int]:
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
