"""`ReservationSite`: a cluster that replays a log under conservative backfilling and offers its free slots.

Where every job ends at its requested end, reservations never move, neither later nor earlier. A site's whole
state is then its profile, the processors free from now on, updated job by job, and its free *windows* are
known at any instant. The profile is the list of slots of `gridtune.batch.simulator.profile`. At an
instant all ends come first, then the log's submissions in their order, then those of a workflow in the order
of its tasks, then advance reservations.

*Windows.* Processors are identical, so jobs are assigned to them such that free windows are as long as
possible: of the free processors, the one that became free last is taken first. Windows are then nested, and
as many as possible reach the horizon. Windows of equal start and end are merged.

*Zero length.* A job of 0 s is planned as one second, as in `gridtune.batch.simulator.conservative`, and ends
at its start.

Source: G. Singh, C. Kesselman, E. Deelman, "A provisioning model and its comparison with best-effort for
performance-cost optimization in grids", HPDC 2007, sections 4 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gridtune.batch.simulator.profile import (
    Profile,
    change,
    cut,
    earliest_slot,
    last_slot,
    move_to,
    new_profile,
)
from gridtune.core.compiled import bare, kernel
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.types import IntArray
from gridtune.workload.workflows import Workflow
from gridtune.workload.workload import Workload

#: A time after all others.
NEVER = int(np.iinfo(np.int64).max)


class _Arrivals(NamedTuple):
    """Jobs submitted to a site, in columns of shape (n,), int64.

    Attributes
    ----------
    submit
        Seconds, ascending.
    length
        Seconds, ≥ 0: requested time and run time.
    processors
        From 1 to those of the site.
    """

    submit: IntArray
    length: IntArray
    processors: IntArray


class _Tasks(NamedTuple):
    """A workflow for a site's queue, in int64 columns.

    Attributes
    ----------
    length, processors
        Shape (n,): whole seconds, ≥ 0, and processors.
    parents
        Shape (n,): the number of parents of each task.
    offsets, children
        Shapes (n + 1,) and (m,): task i's children are `children[offsets[i] : offsets[i + 1]]`.
    """

    length: IntArray
    processors: IntArray
    parents: IntArray
    offsets: IntArray
    children: IntArray


def _with_room(profile: Profile, reservations: int) -> Profile:
    """Return a profile with room for so many more reservations; the one given is not to be used any more."""
    used, before = int(profile.state["slots"]), list[Any](profile[:-1])
    columns = [np.empty(used + 2 * reservations + 4, column.dtype) for column in before]
    for column, old in zip(columns, before, strict=True):
        column[:used] = old[:used]
    return Profile._make([*columns, profile.state])


def _reserved_profile(machine: int, now: int, begin: IntArray, end: IntArray, width: IntArray) -> Profile:
    """Return the profile of a site with these reservations, as far as they are not past."""
    profile = new_profile(len(begin), machine, now)
    _reserve_all(profile, now, begin, end, width)
    return profile


@kernel()
def _reserve_all(profile, now, begin, end, width):
    slots = bare(profile)
    for i in range(len(begin)):
        if end[i] > max(begin[i], now):
            t = max(begin[i], now)
            _reserve(slots, cut(slots, last_slot(slots, t), t), end[i], width[i])


@kernel()
def _reserve(slots, begin, end, width):
    """Take processors from the slot `begin` to the second `end`."""
    last = cut(slots, begin, end)
    slots.uses[begin] += 1
    slots.uses[last] += 1
    change(slots, begin, last, -width)


@kernel()
def _place(slots, now, length, width):
    """Reserve for a job as early as possible; return its start."""
    move_to(slots, now)
    begin = earliest_slot(slots, slots.state.head, width, max(length, 1), -1)
    start = slots.time[begin]
    _reserve(slots, begin, start + max(length, 1), width)
    return start


@kernel()
def _earliest_fit(profile, now, width, length):
    """Return the earliest time at which `width` processors are free for `length` seconds."""
    slots = bare(profile)
    move_to(slots, now)
    begin = earliest_slot(slots, slots.state.head, width, length, -1)
    return slots.time[begin] if begin >= 0 else NEVER


@kernel()
def _feed(profile, jobs, first, until, start):
    """Submit the jobs from `first` on that come no later than `until`; fill in their `start`.

    Returns the first job that comes later.
    """
    slots, job = bare(profile), first
    while job < len(jobs.submit) and jobs.submit[job] <= until:
        start[job] = _place(slots, jobs.submit[job], jobs.length[job], jobs.processors[job])
        job += 1
    return job


@kernel()
def _hold(profile, now, begin, end, width):
    """Make advance reservations, one after the other, until one does not fit.

    Returns the first that does not fit or begins before now; -1 if there is none. Those before it are made.
    """
    slots = bare(profile)
    move_to(slots, now)
    for i in range(len(begin)):
        if begin[i] >= end[i]:
            continue
        if begin[i] < now:
            return i
        first = last_slot(slots, begin[i])
        slot = np.int64(first)
        while slot >= 0 and slots.time[slot] < end[i]:
            if slots.free[slot] < width[i]:
                return i
            slot = np.int64(slots.after[slot])
        _reserve(slots, cut(slots, first, begin[i]), end[i], width[i])
    return -1


@kernel()
def _last_reserved(profile, machine, now):
    """Return when the last reservation ends; `now` if there is none."""
    last, before = now, machine
    slots = bare(profile)
    slot = slots.state.head
    while slot >= 0:
        if before != machine:
            last = max(last, slots.time[slot])
        before = slots.free[slot]
        slot = np.int64(slots.after[slot])
    return last


@kernel()
def _free_windows(profile, now, horizon):
    """Return the free windows from now to the horizon, as defined above.

    Returns
    -------
    begin, end, processors
        Shape (windows,), int64 each; by begin, then end; no two have both in common.
    """
    slots = bare(profile)
    move_to(slots, now)
    most = 2 + 2 * slots.state.slots
    begin, end, count = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    opened, many = np.empty(most, np.int64), np.empty(most, np.int64)  # a stack: the last opened on top
    windows = depth = free = 0
    slot = slots.state.head
    while slot >= 0 and slots.time[slot] < horizon:
        t, after = slots.time[slot], slots.free[slot]
        slot = np.int64(slots.after[slot])
        grown = after - free
        free = after
        if grown > 0:
            opened[depth], many[depth] = t, grown
            depth += 1
        while grown < 0:
            closed = min(-grown, many[depth - 1])
            begin[windows], end[windows], count[windows] = opened[depth - 1], t, closed
            windows += 1
            many[depth - 1] -= closed
            depth -= many[depth - 1] == 0
            grown += closed
    for d in range(depth):
        begin[windows], end[windows], count[windows] = opened[d], horizon, many[d]
        windows += 1
    order = np.argsort(end[:windows], kind="mergesort")
    order = order[np.argsort(begin[:windows][order], kind="mergesort")]
    return begin[:windows][order], end[:windows][order], count[:windows][order]


@kernel()
def _run_best_effort(profile, now, jobs, first, tasks):
    """Run a workflow through the queue: each task is submitted once all its parents have ended.

    Parameters
    ----------
    profile
        The site when the workflow is submitted, after what the log submits at that instant, with room for
        the tasks and the jobs to come. It is changed.
    now
        That instant.
    jobs, first
        The log; the jobs from `first` on are still to come.
    tasks
        The workflow, without cycles.

    Returns
    -------
    submit, start
        Shape (n,), int64 seconds.
    """
    slots, n = bare(profile), len(tasks.length)
    submit, start = np.full(n, NEVER), np.full(n, NEVER)
    left, ready = tasks.parents.copy(), np.empty(n, np.int64)
    ending, job = [(NEVER, -1)], first
    waiting = 0
    for task in range(n):
        if left[task] == 0:
            ready[waiting] = task
            waiting += 1
    while True:
        while job < len(jobs.submit) and jobs.submit[job] <= now:
            _place(slots, jobs.submit[job], jobs.length[job], jobs.processors[job])
            job += 1
        ready[:waiting].sort()
        for task in ready[:waiting]:
            submit[task] = now
            start[task] = _place(slots, now, tasks.length[task], tasks.processors[task])
            heappush(ending, (start[task] + tasks.length[task], task))
        waiting = 0
        if ending[0][1] < 0:
            return submit, start
        now = ending[0][0]
        while ending[0][0] == now and ending[0][1] >= 0:
            task = heappop(ending)[1]
            for e in range(tasks.offsets[task], tasks.offsets[task + 1]):
                child = tasks.children[e]
                left[child] -= 1
                if left[child] == 0:
                    ready[waiting] = child
                    waiting += 1


if TYPE_CHECKING:
    from gridtune.systems.provisioning.planning.problem import Plan


#: The slot horizon is a whole number of days from now.
DAY = 86_400


@dataclass(frozen=True, eq=False)
class Execution:
    """The execution of a workflow.

    Attributes
    ----------
    submit, start, finish
        Shape (n,), int64 seconds of the site's clock, of each task.
    makespan
        Seconds from the workflow's submission to the end of its last task.
    allocation_cost
        What is paid: at a price of 1, processor-seconds.
    """

    submit: IntArray
    start: IntArray
    finish: IntArray
    makespan: float
    allocation_cost: float


class ReservationSite:
    """A log replayed on a cluster where every job holds a reservation from its submission on.

    Jobs request their recorded run time, or more by a factor. They hold it to its end, and nothing is moved
    up. So the start of a job is known at its submission, and the site's state at any instant follows from the
    reservations of the jobs submitted by then.

    Parameters
    ----------
    workload
        The log, in submit order, with run times. The clock starts at its first submission.
    processors
        The cluster's size.
    inflation
        How much longer than their run time jobs request, as a part of it; 0.1 is 10 %.

    Attributes
    ----------
    start
        Shape (jobs,), int64 seconds: when each job starts if no workflow is submitted.

    Raises
    ------
    SimulationError
        If a job cannot run on the site.
    """

    def __init__(self, workload: Workload, processors: int, *, inflation: float = 0.0) -> None:
        if not (math.isfinite(inflation) and inflation >= 0):
            raise SimulationError(f"`inflation >= 0` must hold, but got {inflation}", field="inflation")
        _check_jobs(workload, processors)
        self.processors = processors
        submit = workload.submit_time - workload.submit_time[:1].sum()
        # Run times are far below 2^53: the product is exact enough to round up.
        requested = np.ceil(np.round(workload.run_time * (1.0 + inflation), 6)).astype(np.int64)
        columns = (submit, requested, workload.processors)
        self._jobs = _Arrivals(*(np.array(column, np.int64) for column in columns))
        self.start = np.zeros(len(workload), np.int64)
        latest = int(submit[-1]) if len(submit) else 0
        _feed(new_profile(len(workload), processors, 0), self._jobs, 0, latest, self.start)
        self.start.flags.writeable = False
        self._end = self.start + np.maximum(requested, 1)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.start)

    @property
    def span(self) -> int:
        """Seconds from the first submission to the last."""
        return int(self._jobs.submit[-1]) if len(self) else 0

    @property
    def offered_load(self) -> float:
        """Requested processor-seconds over those of the site from the first submission to the last."""
        area = float((self._jobs.length * self._jobs.processors).sum())
        return area / (self.processors * self.span) if self.span else math.nan

    def utilisation(self, begin: int, end: int) -> float:
        """Return the share of the site that jobs hold over [begin, end); NaN if it is empty."""
        if end <= begin:
            return math.nan
        seconds = np.clip(np.minimum(self._end, end) - np.maximum(self.start, begin), 0, None)
        return float((seconds * self._jobs.processors).sum()) / (self.processors * (end - begin))

    def at(self, now: int) -> SiteState:
        """Return the site's state at an instant, after the submissions of that instant."""
        if now < 0:
            raise SimulationError(f"the site's clock starts at 0, not at {now}", field="now")
        submitted = int(np.searchsorted(self._jobs.submit, now, side="right"))
        running = np.flatnonzero(self._end[:submitted] > now)
        reserved = (self.start[running], self._end[running], self._jobs.processors[running])
        profile = _reserved_profile(self.processors, now, *reserved)
        return SiteState(self.processors, self._jobs, now, submitted, profile)


class SiteState:
    """A site at an instant: the slots it offers, and the execution of a workflow submitted now.

    The state changes: `advance` submits the log's next jobs, and what is submitted or reserved stays. To try
    an alternative, take another state from `ReservationSite.at`.

    Attributes
    ----------
    now
        The instant, seconds.
    """

    def __init__(self, processors: int, jobs: _Arrivals, now: int, submitted: int, profile: Profile) -> None:
        self.processors, self.now = processors, now
        self._jobs, self._submitted, self._profile = jobs, submitted, profile

    @property
    def horizon(self) -> int:
        """The end of the first whole number of days from now that is later than every reservation."""
        last = _last_reserved(self._profile, self.processors, self.now)
        return int(self.now + DAY * ((last - self.now) // DAY + 1))

    def advance(self, now: int) -> IntArray:
        """Advance the clock, submit the log's jobs until then, and return their starts."""
        if now < self.now:
            raise SimulationError(f"time cannot go back from {self.now} to {now}", field="now")
        start = np.zeros(len(self._jobs.submit), np.int64)
        before = self._submitted
        self._profile = _with_room(self._profile, len(start) - before)
        self._submitted = _feed(self._profile, self._jobs, before, now, start)
        self.now = now
        return start[before : self._submitted]

    def earliest_start(self, processors: int, length: int) -> int:
        """Return when the queue would start a job that is submitted now; `length` is in seconds."""
        return int(_earliest_fit(self._profile, self.now, processors, max(length, 1)))

    def slots(self, *, site: int = 0, price: float = 1.0, fixed: float = 0.0) -> Slots:
        """Return the free slots from now to the horizon, by start and end.

        A slot that ends at a reservation is indivisible; one that ends at the horizon can be divided and
        extended.
        """
        horizon = self.horizon
        begin, end, processors = _free_windows(self._profile, self.now, horizon)
        open_ended = end == horizon
        return Slots.of(
            begin,
            end - begin,
            processors,
            site=site,
            price=price,
            fixed=fixed,
            divisible=open_ended,
            extensible=open_ended,
        )

    def best_effort(self, workflow: Workflow, *, price: float = 1.0) -> Execution:
        """Run a workflow through the queue: each task is submitted once its parents have ended.

        The state advances to the end of the last task. A processor-second costs `price`.
        """
        workflow.check_fits([self.processors])
        if workflow.run_time.ndim != 1:
            raise SimulationError("run times that differ by site make no sense on one site", field="run_time")
        length = np.ceil(workflow.run_time).astype(np.int64)
        counts = np.diff(workflow.parents.offsets)
        tasks = _Tasks(
            length,
            np.array(workflow.processors),
            counts,
            np.array(workflow.children.offsets),
            np.array(workflow.children.task),
        )
        self._profile = _with_room(self._profile, len(self._jobs.submit) - self._submitted + len(length))
        submit, start = _run_best_effort(self._profile, self.now, self._jobs, self._submitted, tasks)
        finish = start + length
        makespan = float(finish.max() - self.now)
        return Execution(submit, start, finish, makespan, price * float((length * tasks.processors).sum()))

    def provision(self, plan: Plan) -> Execution:
        """Make a plan's reservations and run its tasks as planned.

        Raises
        ------
        SimulationError
            Naming the slot whose reservation does not fit: the plan was made for another instant.
        """
        reservations = plan.reservations()
        begin = np.floor(reservations.start).astype(np.int64)
        end = np.ceil(reservations.end).astype(np.int64)
        order = np.argsort(begin, kind="stable")
        columns = (begin[order], end[order], np.array(reservations.processors)[order])
        self._profile = _with_room(self._profile, len(order))
        refused = _hold(self._profile, self.now, *columns)
        if refused >= 0:
            slot = int(reservations.slot[order[refused]])
            raise SimulationError(
                f"slot {slot + 1} of {len(plan.slots)} is not free at second {self.now}",
                hint="a plan is valid only at the instant for which it was made",
            )
        start, finish = np.floor(plan.start).astype(np.int64), np.ceil(plan.finish).astype(np.int64)
        submit = np.full(len(start), self.now)
        makespan = float(finish.max() - self.now)
        return Execution(submit, start, finish, makespan, plan.allocation_cost)


def _check_jobs(workload: Workload, processors: int) -> None:
    """Refuse jobs that the kernels cannot run, naming the first."""
    if processors < 1:
        raise SimulationError(f"a site of {processors} processors", field="processors")
    faults = (
        (np.diff(workload.submit_time, prepend=workload.submit_time[:1]) < 0, "is not in submit order", None),
        (workload.run_time < 0, "has no run time", None),
        (workload.processors > processors, f"is wider than the site's {processors} processors", "processors"),
    )
    for bad, fault, field in faults:
        if bad.any():
            row = int(np.argmax(bad))
            message = f"job {int(workload.job_id[row])} (row {row}) {fault}"
            raise SimulationError(message, path=workload.source, field=field)
