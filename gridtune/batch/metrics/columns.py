"""`JobColumns`: the columns that metrics are computed from.

A column that several metrics read is computed once; one that is summarised and then hardly used is not kept.

Warm-up and cool-down are applied here. The jobs are in the order of their submission (equal times in the
order of the workload); all but the first `warmup` and the last `cooldown` of them are *kept*. Metrics of jobs
are about the kept jobs. Metrics of the system are about the *window*: it opens with the first kept submission
and closes when the first job left out at the end is submitted or, where none is, when the last kept job ends.
In the window every job counts, kept or not. Without trimming this gives the textbook definitions; with
trimming, the time in which the machine fills and drains has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gridtune.batch.metrics.classes import class_members
from gridtune.core.schedules.schedule import JobState, Schedule
from gridtune.core.usage import NodeState, NodeStates
from gridtune.errors import MetricError
from gridtune.types import AnyArray, BoolArray, FloatArray, IntArray

#: Bounded slowdowns count shorter run times as this many seconds.
TAU = 10
#: The quantiles of every quantity, by the ending of the metric's name.
QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
#: Joules in a kilowatt hour.
KWH = 3.6e6


def share(part: float, whole: float) -> float:
    """Return a part of a whole; NaN where the whole is nothing."""
    return part / whole if whole > 0 else math.nan


@dataclass(frozen=True)
class Summary:
    """Mean, quantiles and maximum of one quantity over the kept jobs that have it."""

    mean: float
    median: float
    p90: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: AnyArray) -> Summary:
        """Summarise values, and sort them; NaN throughout when there are none.

        Quantiles are interpolated linearly between order statistics, at rank q (n − 1) counted from 0.
        """
        n = len(values)
        if n == 0:
            return cls(*[math.nan] * 6)
        mean, quantiles = float(values.mean()), {}
        values.sort()  # faster, in vector instructions, than a partition at seven ranks
        for name, level in QUANTILES.items():
            rank = level * (n - 1)
            first = int(rank)
            low, high = float(values[first]), float(values[min(first + 1, n - 1)])
            quantiles[name] = low + (rank - first) * (high - low)
        return cls(mean=mean, max=float(values[-1]), **quantiles)


@dataclass(frozen=True, eq=False)
class JobColumns:
    """The kept jobs of a schedule in columns, in order of submission, and the window they span.

    Attributes
    ----------
    schedule
        All jobs, also those that are left out.
    first, last
        The kept jobs are those from `first` up to, not including, `last` in order of submission.
    classes
        Classes of jobs, name to condition (`gridtune.batch.metrics.classes`).
    members
        Which of these jobs are kept, shape (last - first,); None for all of them.
    """

    schedule: Schedule
    first: int
    last: int
    classes: Mapping[str, str] = field(default_factory=dict)
    members: BoolArray | None = None

    @classmethod
    def trimmed(cls, schedule: Schedule, warmup: float = 0.0, cooldown: float = 0.0) -> JobColumns:
        """Leave out jobs at both ends.

        Parameters
        ----------
        schedule
            The schedule.
        warmup, cooldown
            How many jobs to leave out at the beginning and at the end, in order of submission: an `int`
            is a number of jobs, a `float` in [0, 1) a fraction of all jobs (rounded down).

        Raises
        ------
        MetricError
            For anything else, and for two fractions that leave out every job of every schedule.
        """
        n = len(schedule)
        first = _jobs_to_leave_out("warmup", warmup, n)
        last = max(first, n - _jobs_to_leave_out("cooldown", cooldown, n))
        if isinstance(warmup, float) and isinstance(cooldown, float) and warmup + cooldown >= 1:
            raise MetricError(
                f"warmup={warmup:g} and cooldown={cooldown:g} together leave out every job",
                hint="their sum must be below 1",
            )
        return cls(schedule, min(first, n), min(last, n))

    def __len__(self) -> int:
        if self.members is not None:
            return int(np.count_nonzero(self.members))
        return max(0, self.last - self.first)

    def of_class(self, name: str) -> JobColumns:
        """Return the kept jobs of a class; without any where the log has no such class."""
        key = "class", name
        if key not in self._cache:
            condition = self.classes.get(name)
            inside = np.zeros(len(self.schedule), dtype=np.bool_)
            if condition is not None:
                inside = class_members(condition, self.schedule.workload)
            self._cache[key] = replace(self, members=self.kept(inside))
        jobs: JobColumns = self._cache[key]
        return jobs

    @cached_property
    def order(self) -> IntArray | None:
        """All rows in order of submission; None if the schedule is in that order."""
        submit = self.schedule.workload.submit_time
        return None if (submit[1:] >= submit[:-1]).all() else np.argsort(submit, kind="stable")

    def ordered(self, column: AnyArray) -> AnyArray:
        """Return a column of the schedule for all jobs, in order of submission."""
        return column if self.order is None else column[self.order]

    def kept(self, column: AnyArray) -> AnyArray:
        """Return a column of the schedule for the kept jobs, in order of submission."""
        return self._selected(self.ordered(column))

    def _selected(self, column: AnyArray) -> AnyArray:
        """Return a column in order of submission for the kept jobs."""
        within = column[self.first : self.last]
        return within if self.members is None else within[self.members]

    @cached_property
    def all_submit(self) -> IntArray:
        """Submit times of all jobs, ascending, s."""
        return self.ordered(self.schedule.workload.submit_time)

    @cached_property
    def all_start(self) -> IntArray:
        """Start times of all jobs in order of submission, s."""
        return self.ordered(self.schedule.start_time)

    @cached_property
    def all_end(self) -> IntArray:
        """End times of all jobs in order of submission, s."""
        return self.ordered(self.schedule.end_time)

    @cached_property
    def all_processors(self) -> IntArray:
        """Processors of all jobs in order of submission."""
        return self.ordered(self.schedule.workload.processors)

    @cached_property
    def all_area(self) -> IntArray:
        """Processor-seconds used by each of all jobs, in order of submission."""
        return self.all_processors * self.ordered(self.schedule.run_time)

    @cached_property
    def submit(self) -> IntArray:
        """Submit times, s."""
        return self._selected(self.all_submit)

    @cached_property
    def start(self) -> IntArray:
        """Start times, s."""
        return self._selected(self.all_start)

    @cached_property
    def end(self) -> IntArray:
        """End times, s."""
        return self._selected(self.all_end)

    @cached_property
    def processors(self) -> IntArray:
        """Processors."""
        return self._selected(self.all_processors)

    @cached_property
    def area(self) -> IntArray:
        """Processor-seconds used: aᵢ = pᵢ rᵢ."""
        return self._selected(self.all_area)

    @property
    def wait(self) -> IntArray:
        """Seconds from submission to start: wᵢ."""
        return self.start - self.submit

    @cached_property
    def run(self) -> IntArray:
        """Seconds from start to end, less those suspended: rᵢ. A killed job ends when it is killed."""
        return self.kept(self.schedule.run_time)

    @cached_property
    def response(self) -> IntArray:
        """Seconds from submission to end: wᵢ + rᵢ, and those suspended."""
        return self.end - self.submit

    @cached_property
    def killed(self) -> BoolArray:
        """True if the job was killed at its walltime."""
        return self.kept(self.schedule.state) == JobState.KILLED

    @cached_property
    def requested(self) -> IntArray:
        """The walltime the user asked for, s; not positive where the log does not say."""
        return self.kept(self.schedule.workload.requested_time)

    @cached_property
    def user(self) -> IntArray:
        """User numbers; negative where unknown."""
        return self.kept(self.schedule.workload.user)

    @cached_property
    def ran(self) -> slice | BoolArray:
        """Selects the jobs with a run time above zero, which plain slowdowns need."""
        return slice(None) if len(self) and self.run.min() > 0 else self.run > 0

    @property
    def slowdown(self) -> FloatArray:
        """Response over run time, of the jobs in `ran`."""
        return self.response[self.ran] / self.run[self.ran]

    @property
    def processor_slowdown(self) -> FloatArray:
        """Slowdown over processors, of the jobs in `ran`."""
        return self.slowdown / self.processors[self.ran]

    @property
    def _bounded_ratio(self) -> FloatArray:
        return self.response / np.maximum(self.run, TAU)

    @property
    def bounded_slowdown(self) -> FloatArray:
        """Response over run time, counted as `TAU` at least; not below 1."""
        return np.maximum(self._bounded_ratio, 1.0)

    @property
    def processor_bounded_slowdown(self) -> FloatArray:
        """Response over processors and bounded run time, not below 1."""
        return np.maximum(self._bounded_ratio / self.processors, 1.0)

    @property
    def stretch(self) -> FloatArray:
        """Wait over requested walltime, of the jobs that have one."""
        stated = self.requested > 0
        if stated.all():
            return self.wait / self.requested
        return self.wait[stated] / self.requested[stated]

    @cached_property
    def _cache(self) -> dict[Hashable, Any]:
        return {}

    def summary(self, quantity: str) -> Summary:
        """Return the summary of one of the columns above, by its name."""
        if quantity not in self._cache:
            values = getattr(self, quantity)
            if values.base is not None or values is self.__dict__.get(quantity):
                values = values.copy()  # as the schedule or this object keeps it
            self._cache[quantity] = Summary.of(values)
        summary: Summary = self._cache[quantity]
        return summary

    @cached_property
    def window(self) -> tuple[int, int]:
        """Seconds at which the window opens and closes; (0, 0) without kept jobs."""
        if not len(self):
            return 0, 0
        closes = int(self.all_submit[self.last]) if self.last < len(self.schedule) else int(self.end.max())
        return int(self.submit[0]), closes

    def busy(self, window: tuple[int, int]) -> int:
        """Return the processor-seconds that are used in a window."""
        used = (self.all_processors * _within(window, self.all_start, self.all_end)).sum()
        if (pauses := self.schedule.pauses) is not None:
            width = self.schedule.workload.processors[pauses[:, 0]]
            used -= (width * _within(window, *pauses[:, 1:].T)).sum()
        return int(used)

    def waited_within(self, window: tuple[int, int]) -> IntArray:
        """Return the seconds for which each of all jobs waits in a window."""
        return _within(window, self.all_submit, self.all_start)

    def busy_share(self, window: tuple[int, int]) -> float:
        """Return the share of the machine's processor-seconds in a window that is used."""
        return share(self.busy(window), self.schedule.processors * (window[1] - window[0]))

    def weighted(self, weights: IntArray, values: IntArray | FloatArray) -> float:
        """Return the sum of weighted values over the processor-seconds used."""
        # In floating point, as the products of long runs on large machines leave int64; and not as a dot
        # product, whose last bits depend on how many threads the linear algebra library may use.
        return share(float(np.multiply(weights, values, dtype=np.float64).sum()), float(self.area.sum()))

    @cached_property
    def most_waiting(self) -> tuple[float, float]:
        """The most jobs and processor-seconds that wait at the instant of a submission in the window.

        A queue grows at no other instant, and a job that starts in the second of its submission never waits.
        NaN in an empty window.
        """
        opens, closes = self.window
        if closes <= opens:
            return math.nan, math.nan
        # Here, because importing metrics imports no compiler.
        from gridtune.batch.metrics.compiled import most_waiting  # noqa: PLC0415

        first, last = np.searchsorted(self.all_submit, self.window)
        columns = map(np.ascontiguousarray, (self.all_submit, self.all_start, self.all_area))
        length, work = most_waiting(*columns, first, last)
        return float(length), float(work)

    @cached_property
    def user_means(self) -> list[FloatArray]:
        """Means over each user's kept jobs, one value for each user: of the wait and bounded slowdown.

        The columns are empty where no job has a user number.
        """
        user, has_user = self.user, self.user >= 0
        # Counting by user number is faster than sorting, unless the numbers are large.
        if user.max(initial=-1) > 4 * len(user) + 1000:
            user = np.unique(user, return_inverse=True)[1]
        count = np.bincount(user[has_user])
        sums = (np.bincount(user[has_user], of[has_user]) for of in (self.wait, self.bounded_slowdown))
        return [total[count > 0] / count[count > 0] for total in sums]

    @cached_property
    def overtaken_time(self) -> IntArray:
        """Seconds for which each kept job still waited after a later job had been started.

        Start minus the earliest start of a job that was submitted later, also of one that is left out; 0 if
        no such job started earlier.
        """
        earliest = np.minimum.accumulate(np.append(self.all_start, np.iinfo(np.int64).max)[::-1])[::-1]
        later = np.searchsorted(self.all_submit, self.submit, side="right")
        return self.start - np.minimum(self.start, earliest[later])

    @property
    def nodes(self) -> NodeStates | None:
        """The states of the nodes; None without power states, or in an empty window."""
        return self.schedule.nodes if self.window[1] > self.window[0] else None

    @cached_property
    def node_seconds(self) -> dict[NodeState, int]:
        """The node-seconds in each state in the window; nothing without power states."""
        nodes = self.nodes
        return (
            {} if nodes is None else {state: nodes.node_seconds(state, *self.window) for state in NodeState}
        )

    @cached_property
    def _energies(self) -> dict[str, float]:
        """The kWh spent in each state in the window; nothing without power states."""
        nodes = self.nodes
        if nodes is None:
            return {}
        seconds = {state.name.lower(): spent for state, spent in self.node_seconds.items()}
        spent = nodes.power.energy(**seconds, busy=self.busy(self.window) / nodes.cores_per_node)
        return {state: joules / KWH for state, joules in spent.items()}

    def spent(self, *states: str) -> float:
        """Return the kWh spent in some states of the nodes in the window; NaN without power states."""
        energies = self._energies
        return math.fsum(energies[state] for state in states) if energies else math.nan


def _within(window: tuple[int, int], begin: IntArray, end: IntArray) -> IntArray:
    """Return the seconds that each interval [begin, end) spends in the window."""
    opens, closes = window
    if begin.min(initial=opens) == opens and end.max(initial=closes) == closes:
        return end - begin
    return np.clip(end, *window) - np.clip(begin, *window)


def _jobs_to_leave_out(name: str, share: float, n: int) -> int:
    """Return the number of jobs that a fraction or a number of jobs stands for."""
    if isinstance(share, int | np.integer) and not isinstance(share, bool) and share >= 0:
        return int(share)
    if isinstance(share, float | np.floating) and 0 <= share < 1:
        # In binary, 0.29 × 100 is a little below 29.
        return math.floor(share * n + 1e-9)
    raise MetricError(
        f"`{name}` must be a fraction in [0, 1) or a whole number of jobs, but got {share!r}",
        hint="0.1 leaves out a tenth of the jobs, 100 leaves out a hundred",
    )
