"""`Site`: a cluster that replays a log under conservative backfilling and offers its free slots.

Source: G. Singh, C. Kesselman, E. Deelman, "A provisioning model and its comparison with best-effort for
performance-cost optimization in grids", HPDC 2007, sections 4 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gridtune.batch.simulator.profile import Profile, new_profile
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.simulator.reservations import (
    Arrivals,
    Tasks,
    earliest_fit,
    feed,
    free_windows,
    hold,
    last_reserved,
    reserved_profile,
    run_best_effort,
    with_room,
)
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.types import IntArray
from gridtune.workload.workflows import Workflow
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from gridtune.systems.provisioning.planning.problem import Plan

__all__ = ["DAY", "Execution", "Site", "SiteState"]


#: The slot horizon is a whole number of days from now.
DAY = 86_400


@dataclass(frozen=True, eq=False)
class Execution:
    """How a workflow was executed.

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


class Site:
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
        self._jobs = Arrivals(*(np.array(column, np.int64) for column in columns))
        self.start = np.zeros(len(workload), np.int64)
        latest = int(submit[-1]) if len(submit) else 0
        feed(new_profile(len(workload), processors, 0), self._jobs, 0, latest, self.start)
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
        profile = reserved_profile(self.processors, now, *reserved)
        return SiteState(self.processors, self._jobs, now, submitted, profile)


class SiteState:
    """A site at an instant: the slots it offers, and the execution of a workflow submitted now.

    The state changes: `advance` submits the log's next jobs, and what is submitted or reserved stays. To try
    an alternative, take another state from `Site.at`.

    Attributes
    ----------
    now
        The instant, seconds.
    """

    def __init__(self, processors: int, jobs: Arrivals, now: int, submitted: int, profile: Profile) -> None:
        self.processors, self.now = processors, now
        self._jobs, self._submitted, self._profile = jobs, submitted, profile

    @property
    def horizon(self) -> int:
        """The end of the first whole number of days from now that is later than every reservation."""
        last = last_reserved(self._profile, self.processors, self.now)
        return int(self.now + DAY * ((last - self.now) // DAY + 1))

    def advance(self, now: int) -> IntArray:
        """Advance the clock, submit the log's jobs until then, and return their starts."""
        if now < self.now:
            raise SimulationError(f"time cannot go back from {self.now} to {now}", field="now")
        start = np.zeros(len(self._jobs.submit), np.int64)
        before = self._submitted
        self._profile = with_room(self._profile, len(start) - before)
        self._submitted = feed(self._profile, self._jobs, before, now, start)
        self.now = now
        return start[before : self._submitted]

    def earliest_start(self, processors: int, length: int) -> int:
        """Return when the queue would start a job that is submitted now; `length` is in seconds."""
        return int(earliest_fit(self._profile, self.now, processors, max(length, 1)))

    def slots(self, *, site: int = 0, price: float = 1.0, fixed: float = 0.0) -> Slots:
        """Return the free slots from now to the horizon, by start and end.

        A slot that ends at a reservation is indivisible; one that ends at the horizon can be divided and
        extended.
        """
        horizon = self.horizon
        begin, end, processors = free_windows(self._profile, self.now, horizon)
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
        length = _whole_seconds(workflow)
        counts = np.diff(workflow.parents.offsets)
        tasks = Tasks(
            length,
            np.array(workflow.processors),
            counts,
            np.array(workflow.children.offsets),
            np.array(workflow.children.task),
        )
        self._profile = with_room(self._profile, len(self._jobs.submit) - self._submitted + len(length))
        submit, start = run_best_effort(self._profile, self.now, self._jobs, self._submitted, tasks)
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
        self._profile = with_room(self._profile, len(order))
        refused = hold(self._profile, self.now, *columns)
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


def _whole_seconds(workflow: Workflow) -> IntArray:
    if workflow.run_time.ndim != 1:
        raise SimulationError("run times that differ by site make no sense on one site", field="run_time")
    return np.ceil(workflow.run_time).astype(np.int64)


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
