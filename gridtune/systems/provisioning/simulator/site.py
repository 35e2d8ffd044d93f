"""`Site`: a cluster under conservative backfilling that lives through a log and offers what is free.

Source: G. Singh, C. Kesselman, E. Deelman, "A provisioning model and its comparison with best-effort for
performance-cost optimization in grids", HPDC 2007, sections 4 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.profile import Profile, new_profile
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.simulator.reservations import (
    Arrivals,
    Tasks,
    claimed_profile,
    feed,
    free_windows,
    hold,
    last_reserved,
    run_best_effort,
)
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.workload.workflows import Workflow
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from gridtune.systems.provisioning.planning.plan import Plan

__all__ = ["DAY", "Execution", "Site", "SiteState"]

Ints = npt.NDArray[np.int64]

#: The slot horizon is a whole number of days away.
DAY = 86_400


@dataclass(frozen=True, eq=False)
class Execution:
    """How a workflow went.

    Attributes
    ----------
    submit, start, finish
        Shape (n,), int64 seconds of the site's clock: of each task.
    makespan
        Seconds from the workflow's submission to the end of its last task.
    allocation_cost
        Processor-seconds that were paid for.
    """

    submit: Ints
    start: Ints
    finish: Ints
    makespan: float
    allocation_cost: float


class Site:
    """A log lived through on a cluster whose every job holds a reservation from its submission on.

    Jobs ask for the time they are recorded to have run, or more by a factor; they hold what they asked for
    to its end, and nothing is moved up. So when a job starts is settled as it comes, and the site's state at
    any instant follows from the reservations of the jobs that have come by then.

    Parameters
    ----------
    workload
        The log, in submit order, with run times. The clock starts at its first submission.
    processors
        The cluster's size.
    inflation
        How much too long jobs ask for, in parts of their run time; 0.1 is 10 %.

    Attributes
    ----------
    start
        Shape (jobs,), int64 seconds: when each job starts if no workflow comes.

    Raises
    ------
    SimulationError
        If a job cannot run on the site.
    """

    def __init__(self, workload: Workload, processors: int, *, inflation: float = 0.0) -> None:
        if not (math.isfinite(inflation) and inflation >= 0):
            raise SimulationError(f"jobs ask for too long by a part from 0 on, not {inflation}")
        _check_jobs(workload, processors)
        self.processors = processors
        submit = workload.submit_time - workload.submit_time[:1].sum()
        # Run times are far below 2^53: the product is exact enough to round up.
        asked = np.ceil(np.round(workload.run_time * (1.0 + inflation), 6)).astype(np.int64)
        columns = (submit, asked, workload.processors)
        self._jobs = Arrivals(*(np.array(column, np.int64) for column in columns))
        self.start = np.zeros(len(workload), np.int64)
        latest = int(submit[-1]) if len(submit) else 0
        feed(new_profile(processors, 0), self._jobs, 0, latest, self.start)
        self.start.flags.writeable = False
        self._end = self.start + np.maximum(asked, 1)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.start)

    @property
    def span(self) -> int:
        """Seconds from the first submission to the last."""
        return int(self._jobs.submit[-1]) if len(self) else 0

    @property
    def offered_load(self) -> float:
        """Processor-seconds asked for, over those that the site has from the first submission to the last."""
        area = float((self._jobs.length * self._jobs.processors).sum())
        return area / (self.processors * self.span) if self.span else math.nan

    def utilisation(self, begin: int, end: int) -> float:
        """Return the share of the site that jobs hold over [begin, end); NaN of nothing."""
        if end <= begin:
            return math.nan
        held = np.clip(np.minimum(self._end, end) - np.maximum(self.start, begin), 0, None)
        return float((held * self._jobs.processors).sum()) / (self.processors * (end - begin))

    def at(self, now: int) -> SiteState:
        """Return the site's state at an instant, after the submissions of that instant."""
        if now < 0:
            raise SimulationError(f"the site's clock starts at 0, not at {now}", field="now")
        come = int(np.searchsorted(self._jobs.submit, now, side="right"))
        alive = np.flatnonzero(self._end[:come] > now)
        claims = (self.start[alive], self._end[alive], self._jobs.processors[alive])
        profile = claimed_profile(self.processors, now, *claims)
        return SiteState(self.processors, self._jobs, now, come, profile)


class SiteState:
    """A site at an instant: what it offers, and what comes of a workflow that is submitted now.

    It goes on from there by itself: `advance` lets the log's next jobs come, and what is submitted or held
    stays. To ask what else could have been, take another state.

    Attributes
    ----------
    now
        The instant, seconds.
    """

    def __init__(self, processors: int, jobs: Arrivals, now: int, come: int, profile: Profile) -> None:
        self.processors, self.now = processors, now
        self._jobs, self._come, self._profile = jobs, come, profile

    @property
    def horizon(self) -> int:
        """The first whole number of days from now that lies behind every reservation."""
        last = last_reserved(self._profile, self.processors, self.now)
        return int(self.now + DAY * ((last - self.now) // DAY + 1))

    def advance(self, now: int) -> Ints:
        """Let time pass, and the jobs come that the log submits until then; return their starts."""
        if now < self.now:
            raise SimulationError(f"time does not go back, from {self.now} to {now}", field="now")
        start = np.zeros(len(self._jobs.submit), np.int64)
        before = self._come
        self._profile, self._come = feed(self._profile, self._jobs, before, now, start)
        self.now = now
        return start[before : self._come]

    def slots(self, *, site: int = 0, price: float = 1.0, fixed: float = 0.0) -> Slots:
        """Return what is free from now to the horizon, by start and end.

        A slot that ends at a reservation can only be had as a whole; one that ends at the horizon can be
        divided and extended.
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

    def best_effort(self, workflow: Workflow) -> Execution:
        """Let a workflow run by the queue: each task is submitted once its parents have ended.

        The state is then that of a site to which all this has happened, up to the last task's end.
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
        submit, start = run_best_effort(self._profile, self.now, self._jobs, self._come, tasks)
        finish = start + length
        makespan = float(finish.max() - self.now)
        return Execution(submit, start, finish, makespan, float((length * tasks.processors).sum()))

    def provision(self, plan: Plan) -> Execution:
        """Hold what a plan reserves, and let its tasks run as planned.

        Raises
        ------
        SimulationError
            Naming the slot whose reservation finds no room: the plan was made for another instant.
        """
        held = plan.reservations()
        begin = np.floor(held.start).astype(np.int64)
        end = np.ceil(held.end).astype(np.int64)
        order = np.argsort(begin, kind="stable")
        columns = (begin[order], end[order], np.array(held.processors)[order])
        self._profile, refused = hold(self._profile, self.now, *columns)
        if refused >= 0:
            slot = int(held.slot[order[refused]])
            raise SimulationError(
                f"slot {slot + 1} of {len(plan.slots)} is not free at second {self.now}",
                hint="a plan holds only for the instant whose slots it was made of",
            )
        start, finish = np.floor(plan.start).astype(np.int64), np.ceil(plan.finish).astype(np.int64)
        submit = np.full(len(start), self.now)
        makespan = float(finish.max() - self.now)
        return Execution(submit, start, finish, makespan, plan.allocation_cost)


def _whole_seconds(workflow: Workflow) -> Ints:
    if workflow.run_time.ndim != 1:
        raise SimulationError("run times that differ by site have no meaning on one site", field="run_time")
    return np.ceil(workflow.run_time).astype(np.int64)


def _check_jobs(workload: Workload, processors: int) -> None:
    """Refuse what the kernels cannot run, naming the first such job."""
    if processors < 1:
        raise SimulationError(f"a site of {processors} processors", field="processors")
    faults = (
        (np.diff(workload.submit_time, prepend=workload.submit_time[:1]) < 0, "is not in submit order", None),
        (workload.run_time < 0, "has no run time", None),
        (workload.processors > processors, f"is wider than the site's {processors} processors", "processors"),
    )
    for bad, what, field in faults:
        if bad.any():
            row = int(np.argmax(bad))
            told = f"job {int(workload.job_id[row])} (row {row}) {what}"
            raise SimulationError(told, path=workload.source, field=field)
