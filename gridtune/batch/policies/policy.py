"""Policies that decide: plain Python that names the waiting jobs to start, from a snapshot of the machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.policies.expression import instead_of
from gridtune.errors import PolicyError
from gridtune.types import FloatArray, Int32Array, IntArray


class JobTable:
    """Jobs in columns, shape (n,) each, in order of submission or, of jobs that have ended, of their ends.

    A column is copied when it is first read. Times are in seconds from the workload's first submission.
    """

    #: Numbers of the jobs, which a job keeps: its row in the workload.
    job: Int32Array
    submit_time: IntArray
    #: The run-time estimate that the scheduler got, seconds.
    walltime: IntArray
    processors: IntArray
    #: Numbers of the user, group, queue and partition, as in the log.
    user: IntArray
    group: IntArray
    queue: IntArray
    partition: IntArray
    #: Processor-seconds the job's user and group have used so far, running jobs included.
    user_usage: FloatArray
    group_usage: FloatArray
    #: The predictor's run time, and its probability of an early end, as it gave them last.
    prediction: FloatArray
    early_end: FloatArray
    #: Jobs that wait: seconds waited so far.
    wait: IntArray
    #: Jobs that run or have ended.
    start_time: IntArray
    #: Jobs that run: the start and the walltime.
    requested_end: IntArray
    #: Jobs that have ended.
    run_time: IntArray

    def __init__(self, job: Int32Array, columns: Mapping[str, Callable[[Int32Array], IntArray]]) -> None:
        self.job, self._columns = job, columns

    def __len__(self) -> int:
        return len(self.job)

    def __getattr__(self, name: str) -> IntArray:
        if name.startswith("_") or name not in self._columns:
            raise AttributeError(f"these jobs have no column {name!r}{instead_of(name)}")
        column = self._columns[name](self.job)
        setattr(self, name, column)
        return column


@dataclass(frozen=True)
class State:
    """The machine and its jobs at a decision, as a scheduler sees them; it holds until `decide` returns.

    Attributes
    ----------
    now
        Seconds since the workload's first submission.
    total, free
        Processors of the machine, and those that no job uses.
    waiting
        The jobs that can be started. A *row* is a place in its columns.
    running
        The jobs that run, without their run times.
    ended
        The jobs that have ended, with their run times.
    guarded
        The first so many rows of `waiting` have waited for longer than the guard, and go before all others.
    """

    now: int
    total: int
    free: int
    waiting: JobTable
    running: JobTable
    ended: JobTable
    guarded: int = 0

    def fits(self, row: int) -> bool:
        """Tell whether the waiting job in a row needs no more than the free processors."""
        return bool(self.waiting.processors[row] <= self.free)

    def reservation(self, row: int, starting: Sequence[int] = ()) -> tuple[int, int]:
        """Return when a waiting job can start by requested ends, and the processors free beside it then.

        The jobs in the rows of `starting` start now. A job past its requested end is expected to end now.
        """
        more = np.asarray(starting, np.int64)
        width = np.concatenate([self.running.processors, self.waiting.processors[more]])
        ends = np.concatenate([self.running.requested_end, self.now + self.waiting.walltime[more]])
        ends = np.maximum(ends, self.now)
        free, needed = self.free - int(width[len(self.running) :].sum()), int(self.waiting.processors[row])
        time, order = self.now, np.argsort(ends)
        if free < needed:
            available = free + np.cumsum(width[order])
            time = int(ends[order[np.searchsorted(available, needed)]])
        return time, free + int(width[ends <= time].sum()) - needed

    def easy(self, order: npt.ArrayLike) -> list[int]:
        """Return the rows to start under EASY backfilling with a queue of these rows, the first first.

        Jobs start while they fit. The first that does not fit gets a reservation; the others are started if
        they fit and do not delay it. A row that is left out does not start, unless a guard puts it first.
        """
        wanted: list[int] = np.asarray(order, np.int64).tolist()
        rows = [*range(self.guarded), *(row for row in wanted if row >= self.guarded)]
        width, walltime = self.waiting.processors.tolist(), self.waiting.walltime.tolist()
        free, count = self.free, 0
        while count < len(rows) and width[rows[count]] <= free:
            free -= width[rows[count]]
            count += 1
        starting = rows[:count]
        if count == len(rows) or free == 0:
            return starting
        time, extra = self.reservation(rows[count], starting)
        for row in rows[count + 1 :]:
            if width[row] > free or (self.now + walltime[row] > time and width[row] > extra):
                continue
            starting.append(row)
            free -= width[row]
            if self.now + walltime[row] > time:
                extra -= width[row]
        return starting


class Decision(NamedTuple):
    """Jobs to start, and reservations of others: what `Policy.decide` may return.

    A reservation holds until its job starts; a later decision may move it. Its job starts at that time if it
    fits, and the policy is asked then. No decision may delay it: at any time, the running jobs until their
    requested ends, those that start and those with reservations must fit together.

    Attributes
    ----------
    start
        Rows of the waiting jobs to start now.
    reservations
        By row, the second at which that job starts, later than now.
    """

    start: npt.ArrayLike
    reservations: Mapping[int, int]


def named_rows(label: str, chosen: Any, count: int, now: int) -> IntArray:
    """Return the rows of `count` waiting jobs that a policy of this label names, each once.

    Raises
    ------
    PolicyError
        If it names others, or one twice.
    """
    rows, when = np.asarray(chosen), f"at second {now:,}"
    hint = "decide(state) returns rows of state.waiting: each at most once, of jobs that fit together"
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
        raise PolicyError(f"{label!r} decides {chosen!r} {when}", hint=hint)
    rows = rows.astype(np.int64)
    wrong = rows[(rows < 0) | (rows >= count)]
    if len(wrong):
        raise PolicyError(f"{label!r} names row {wrong[0]} of {count} waiting jobs {when}", hint=hint)
    twice = np.flatnonzero(np.bincount(rows) > 1)
    if len(twice):
        raise PolicyError(f"{label!r} names row {twice[0]} of {count} waiting jobs twice {when}", hint=hint)
    return rows


class Policy(ABC):
    """A policy that decides about all waiting jobs at once. Each replay has one of its own.

    Numeric parameters of its constructor with defaults are its parameters, as those of a queue order's
    function. It goes where a queue order goes: itself, an instance, or registered by `queue_order`.

    Examples
    --------
    >>> import gridtune as gt
    >>> class Widest(gt.Policy):
    ...     '''The widest job first, with EASY backfilling.'''
    ...     def decide(self, state):
    ...         return state.easy((-state.waiting.processors).argsort(kind="stable"))
    >>> log = gt.generate_workload("poisson", jobs=100, seed=1)
    >>> gt.simulate(log, order=Widest())
    Schedule('poisson', 100 jobs, 4 processors)
    """

    @abstractmethod
    def decide(self, state: State) -> npt.ArrayLike | Decision:
        """Return the rows of the waiting jobs to start now, each once; together they must fit.

        With reservations of other jobs, it returns a `Decision`. It is called at each instant, after all
        completions and submissions, at which a waiting job fits.
        """
