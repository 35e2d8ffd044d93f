"""The predictor `last-two`, compiled, for orders that read predictions of jobs that wait.

It says what `gridtune.batch.predictors.histories.LastTwo` does, and is told the same. Searches of formulas
replay a log thousands of times, and in Python predictions take longer than all the rest.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gridtune.batch.predictors.predictor import EARLY
from gridtune.batch.predictors.replayed import ENDED, STARTED, SUBMITTED, TELL, PredictedReplay
from gridtune.core.compiled import array_at, callback, kernel
from gridtune.types import IntArray

#: Places of walltimes, predictions and `memory` among the handles of the inputs of scores.
_WALLTIME, _MEAN, _EARLY, _MEMORY = 1, 16, 17, 19


class LastTwoReplay(PredictedReplay):
    """The predictions by the user's last two jobs that have ended, without those of running jobs."""

    def __init__(self, user: IntArray) -> None:
        super().__init__(len(user))
        numbers, account = np.unique(user, return_inverse=True)
        runs, first = np.full(2 * len(numbers), -1), np.full(len(numbers), -1)
        # Each user's run times, the latest first; and its waiting jobs, chained.
        self.memory = (account.astype(np.int64), runs, first, *(np.full(len(user), -1) for _ in range(2)))
        self.watch[0] = 1
        self.tell = _compiled()


@kernel()
def _predict(handles, job):
    walltime = array_at(handles, _WALLTIME, np.int64)[job]
    mean, early = array_at(handles, _MEAN, np.float64), array_at(handles, _EARLY, np.float64)
    place = 2 * array_at(handles, _MEMORY, np.int64)[job]
    runs = array_at(handles, _MEMORY + 1, np.int64)
    mean[job], early[job] = walltime, 0.0
    number, total, count = 0, 0.0, 0
    for run in (runs[place], runs[place + 1]):
        if run >= 0:
            number += 1
            total += run
            count += 1 if min(run, walltime) < EARLY * walltime else 0
    if number > 0:
        mean[job], early[job] = min(float(walltime), total / number), count / number


@kernel()
def _follow(handles, what, job, run):
    owner = array_at(handles, _MEMORY, np.int64)[job]
    first, after, before = (
        array_at(handles, _MEMORY + 2, np.int64), array_at(handles, _MEMORY + 3, np.int64),
        array_at(handles, _MEMORY + 4, np.int64),
    )  # fmt: skip
    if what == SUBMITTED:
        after[job], before[job] = first[owner], -1
        if first[owner] >= 0:
            before[first[owner]] = job
        first[owner] = job
        _predict(handles, job)
    elif what == STARTED:
        if before[job] >= 0:
            after[before[job]] = after[job]
        else:
            first[owner] = after[job]
        if after[job] >= 0:
            before[after[job]] = before[job]
    elif what == ENDED:
        runs = array_at(handles, _MEMORY + 1, np.int64)
        runs[2 * owner + 1] = runs[2 * owner]
        runs[2 * owner] = run
        other = first[owner]
        while other >= 0:
            _predict(handles, other)
            other = after[other]


@cache
def _compiled() -> Any:
    def tell(handles, what, job, run, now):
        _follow(handles, what, job, run)

    return callback(TELL, tell)
