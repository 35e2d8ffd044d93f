"""Predictions of a replay: a predictor is told what happens, and kernels read what it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from ctypes import CFUNCTYPE, c_int64, c_void_p, cast
from heapq import heappop, heappush
from traceback import walk_tb
from typing import Any

import numba.experimental.function_type  # noqa: F401  (numba types `Told` by it)
import numpy as np
from numba import types
from numba.core.types import WrapperAddressProtocol

from gridtune.batch.predictors.predictor import PredictedJob, Prediction, Predictor
from gridtune.errors import PolicyError
from gridtune.types import IntArray

#: What kernels tell: a job is submitted, starts, has ended.
SUBMITTED, STARTED, ENDED = range(3)
_HINT = "a prediction is Prediction(mean, quantiles, early_end): seconds, and a probability"
#: A running job that has outlived its prediction is not predicted again within so many seconds.
_LEAST_INTERVAL = 60


class JobError(PolicyError):
    """A policy fails for a job: `job` is its row, `reason` says why, and when."""

    def __init__(self, job: int, reason: str, hint: str) -> None:
        super().__init__(f"{reason}, for the job in row {job}", hint=hint)
        self.job, self.reason = job, reason

    @classmethod
    def of(cls, fault: BaseException, who: str, job: int, now: int, hint: str) -> JobError:
        """Return the error of a user's code that has raised an exception; the message has its line."""
        lines = [f"{frame.f_code.co_filename}, line {line}" for frame, line in walk_tb(fault.__traceback__)]
        reason = f"{who} fails: {fault or type(fault).__name__} ({lines[-1]}) at second {now:,}"
        return cls(job, reason, hint)


#: The machine-level type of what kernels call: it takes the handles of the inputs of scores, what has
#: happened, a job, its run time, and the time.
TELL = types.void(types.CPointer(types.int64), types.int64, types.int64, types.int64, types.int64)


class Told(WrapperAddressProtocol):
    """A Python function as kernels call it, with addresses in place of pointers."""

    def __init__(self, function: Callable[..., None], signature: Any = TELL) -> None:
        self._signature = signature
        kinds = (c_void_p if isinstance(one, types.CPointer) else c_int64 for one in signature.args)
        self._callback = CFUNCTYPE(None, *kinds)(function)

    def __wrapper_address__(self) -> int:
        """Return the address of the function."""
        return int(cast(self._callback, c_void_p).value or 0)

    def signature(self) -> Any:
        """Return its type as numba has it."""
        return self._signature


_SILENT = Told(lambda *_: None)


class PredictedReplay:
    """The predictions of the jobs of one replay, kept up to date while a kernel plays it.

    Attributes
    ----------
    mean, early_end
        Shape (n,), float64: the latest predictions of jobs that have been submitted; the mean is at most the
        walltime.
    watch
        Shape (1,), int64: 1 if there is a predictor to be told.
    tell
        What kernels call, a function of type `TELL`.
    memory
        Arrays whose handles it is given behind the others.
    """

    def __init__(self, jobs: int) -> None:
        self.mean, self.early_end = np.zeros(jobs), np.zeros(jobs)
        self.watch = np.zeros(1, np.int64)
        self.tell: Any = _SILENT
        self.memory: tuple[IntArray, ...] = ()

    def check(self) -> None:
        """Raise the error by which a predictor has failed; nothing without one."""


class WatchedReplay(PredictedReplay):
    """The predictions of a predictor, of a replay that has not begun.

    Parameters
    ----------
    kind
        Makes the predictor.
    columns
        The columns of `PredictedJob`, shape (n,) each: submissions from the first one on, owners.
    planned
        Shape (n,): where given, a job's mean is entered when it is submitted, in whole seconds.
    """

    def __init__(
        self, kind: Callable[[], Predictor], columns: Mapping[str, IntArray], planned: IntArray | None
    ) -> None:
        super().__init__(len(columns["submit_time"]))
        self._predictor, self._label = kind(), getattr(kind, "name", "") or getattr(kind, "__name__", "")
        rows = zip(*(columns[name].tolist() for name in PredictedJob._fields[1:-1]), strict=True)
        self._jobs = [PredictedJob(number, *row) for number, row in enumerate(rows)]
        self._planned = planned
        #: Jobs of each user that have not ended, in order of submission.
        self._active: dict[int, dict[int, None]] = {}
        #: When jobs that run have started.
        self._began: dict[int, int] = {}
        #: Times of renewals, with jobs; and the one that holds for each job.
        self._renewals: list[tuple[int, int]] = []
        self._due: dict[int, int] = {}
        self._predicted = 0
        self._failure: tuple[BaseException, int, int] | None = None
        self.watch[0] = 1
        self.tell = Told(self._told)

    def _told(self, _: int, what: int, job: int, run: int, now: int) -> None:
        if self._failure is not None:
            return
        try:
            if what != STARTED:
                self._renew(now)
            self._predicted = job
            if what == SUBMITTED:
                self._submit(job, now)
            elif what == STARTED:
                self._start(job, now)
            else:
                self._end(job, run, now)
        except BaseException as fault:  # it cannot pass through the kernel: `check` raises it
            self._failure = (fault, self._predicted, now)
            self.watch[0] = 0

    def _submit(self, job: int, now: int) -> None:
        view = self._jobs[job]
        self._active.setdefault(view.user, {})[job] = None
        self._predictor.submitted(view, now)
        self._predict(job, now)
        if self._planned is not None:
            self._planned[job] = max(1, math.ceil(self.mean[job]))

    def _start(self, job: int, now: int) -> None:
        self._began[job] = now
        self._renew_at(job, min(self._due[job], self._outlived(job, now)))

    def _end(self, job: int, run: int, now: int) -> None:
        view = self._jobs[job]
        others = self._active[view.user]
        del others[job], self._due[job]
        self._predictor.ended(view._replace(elapsed=run), run, now)
        for other in others:
            if other not in self._began:
                self._predict(other, now)
        self._began.pop(job, None)

    def _predict(self, job: int, now: int) -> None:
        self._predicted = job
        view, following = self._jobs[job], now + max(1, self._predictor.interval)
        if job in self._began:
            view = view._replace(elapsed=now - self._began[job])
        prediction = Prediction(*self._predictor.predict(view, now))
        prediction.check()
        self.mean[job], self.early_end[job] = min(prediction.mean, view.walltime), prediction.early_end
        if job in self._began:
            following = min(following, self._outlived(job, now))
        self._renew_at(job, following)

    def _outlived(self, job: int, now: int) -> int:
        """Return when a running job will have run for longer than predicted, in a while at the earliest."""
        return max(self._began[job] + math.ceil(self.mean[job]), now + _LEAST_INTERVAL)

    def _renew_at(self, job: int, time: int) -> None:
        self._due[job] = time
        heappush(self._renewals, (time, job))

    def _renew(self, now: int) -> None:
        while self._renewals and self._renewals[0][0] <= now:
            time, job = heappop(self._renewals)
            if self._due.get(job) == time:  # else it has ended, or has been predicted since
                self._predict(job, now)

    def check(self) -> None:
        """Raise the error by which the predictor has failed; nothing without one."""
        if self._failure is None:
            return
        fault, job, now = self._failure
        if not isinstance(fault, Exception):
            raise fault
        raise JobError.of(fault, f"predictor {self._label!r}", job, now, _HINT) from fault
