"""The responsive site in plain Python: slow and clear; the compiled one must equal it.

It keeps lists of jobs, scans all of them at every instant, adds up service from scratch each time, and shares
no code with the kernels. `docs/responsive.md` describes the rules.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["ReferenceJob", "ReferenceSite", "reference_choice"]


@dataclass
class ReferenceJob:
    """One job; seconds. `start` is None until it starts."""

    number: int
    submit: int
    run: int
    vo: int
    interactive: bool
    user: int = 0
    start: int | None = None

    @property
    def end(self) -> int:
        """When it ends; only of a job that has started."""
        assert self.start is not None
        return self.start + self.run


@dataclass
class ReferenceDecision:
    """A decision: the job, the instant, F and U before it, the pool after it, and the work done before it."""

    job: int
    time: int
    fairness: float
    utilisation: float
    pool: int
    finished: int = 0


@dataclass
class ReferenceSite:
    """A site that advances from decision to decision.

    Parameters
    ----------
    jobs
        In order of submission.
    shares
        Target share of each VO.
    cores, elastic, floor, largest, sizes, period
        The pool: initial size; whether it may change; smallest and largest size; sizes to choose from;
        seconds between changes.
    oracle, median_of, prior
        Whether run times are known; otherwise the number of completed jobs whose median is the estimate,
        and the estimate before there are any, by class (True: interactive).
    """

    jobs: Sequence[ReferenceJob]
    shares: Sequence[float]
    cores: int
    elastic: bool = False
    floor: int = 30
    largest: int = 200
    sizes: Sequence[int] = ()
    period: int = 900
    oracle: bool = True
    median_of: int = 1000
    prior: dict[bool, float] = field(default_factory=lambda: {True: 450.0, False: 3600.0})
    charged_after: bool = False
    resized_at_ends: bool = False
    latency: int = 0
    cap: int = 16

    def __post_init__(self) -> None:
        self.coming = list(self.jobs)
        self.waiting: list[ReferenceJob] = []
        self.running: list[ReferenceJob] = []
        self.done: list[ReferenceJob] = []
        self.decisions: list[ReferenceDecision] = []
        self.pool = self.cores
        self.now = self.begin = self.jobs[0].submit if self.jobs else 0
        self.changes: list[tuple[int, int]] = []
        self.tick_due = False

    def until_decision(self) -> bool:
        """Advance until a decision is due; return False once every job is completed."""
        while not (self.tick_due or (self.waiting and len(self.running) < self.pool)):
            if not self.next_instant():
                return False
        return True

    def next_instant(self) -> bool:
        """Go through the next instant with an event; return False if there is none."""
        instants = [job.end for job in self.running] + [job.submit for job in self.coming]
        if not instants:
            return False
        self.now = min(instants)
        ended = sorted((job for job in self.running if job.end == self.now), key=lambda job: job.number)
        self.running = [job for job in self.running if job.end > self.now]
        self.done += ended
        self.waiting += [job for job in self.coming if job.submit == self.now]
        self.coming = [job for job in self.coming if job.submit > self.now]
        nothing_else = bool(ended) and not self.waiting
        self.tick_due = self.resized_at_ends and nothing_else and self.may_change()
        return True

    def begin_job(self, place: int, size: int) -> None:
        """Start the waiting job at that place, and request a pool size."""
        job = self.waiting.pop(place)
        accounts = self.fairness(), self.utilisation()
        if self.charged_after and self.decisions:
            before, area = self.decisions[-1], self.area()
            before.utilisation = before.finished / area if area else 0.0
        job.start = self.now + self.latency
        self.running.append(job)
        self.resize(size)
        done = sum(other.run for other in self.done)
        self.decisions.append(ReferenceDecision(job.number, self.now, *accounts, self.pool, done))

    def resize(self, size: int) -> None:
        """Request a pool size."""
        self.tick_due = False
        if self.may_change():
            granted = max(min(size, self.largest), self.floor, len(self.running))
            if granted != self.pool:
                self.pool = granted
                self.changes.append((self.now, granted))

    def may_change(self) -> bool:
        """Tell whether the pool may change now."""
        return self.elastic and (not self.changes or self.now - self.changes[-1][0] >= self.period)

    def options(self) -> list[int]:
        """Return the pool sizes among which a decision may choose, the present one first."""
        sizes = {self.pool}
        if self.may_change():
            sizes |= {max(size, self.floor, len(self.running) + 1) for size in self.sizes}
        return [self.pool, *sorted(sizes - {self.pool})]

    def service(self, vo: int) -> int:
        """Return the core-seconds a VO has received so far."""
        return sum(
            job.run if job.end <= self.now else self.now - job.start + self.latency
            for job in self.jobs
            if job.vo == vo and job.start is not None
        )

    def fairness(self) -> float:
        """Return F of a job that is elected now."""
        received = [self.service(vo) for vo in range(len(self.shares))]
        total = sum(received)
        if total == 0:
            return 1.0
        deficits = [share - mine / total for share, mine in zip(self.shares, received, strict=True)]
        return 1.0 - max(0.0, *deficits) / max(self.shares)

    def utilisation(self) -> float:
        """Return U at this instant."""
        area = self.area()
        return sum(job.run for job in self.done) / area if area else 0.0

    def area(self) -> int:
        """Return the core-seconds of the pool so far."""
        area, size, since = 0, self.cores, self.begin
        for when, following in [*self.changes, (self.now, 0)]:
            area += size * (when - since)
            size, since = following, when
        return area

    def expected(self, job: ReferenceJob) -> float:
        """Return the expected run time of a job."""
        if self.oracle:
            return float(job.run)
        runs = [other.run for other in self.done if other.interactive == job.interactive]
        return float(statistics.median(runs[-self.median_of :])) if runs else self.prior[job.interactive]

    def expected_of_vo(self, job: ReferenceJob) -> float:
        """Return the run time to expect of a job from those of its VO and class."""
        if self.oracle:
            return float(job.run)
        total = weights = 0.0
        mine = (job.vo, job.interactive)
        for run in [other.run for other in self.done if (other.vo, other.interactive) == mine]:
            total, weights = 0.98 * total + math.log(run), 0.98 * weights + 1.0
        return math.exp((3.0 * math.log(self.expected(job)) + total) / (3.0 + weights))

    def rows(self) -> list[list[float]]:
        """Return the features of every candidate."""
        return [self.row(job, size) for job in self.waiting for size in self.options()]

    def row(self, job: ReferenceJob, size: int) -> list[float]:
        """Return the features of a job with a pool size."""
        left = [max(0.0, self.expected(other) - (self.now - (other.start or 0))) for other in self.running]
        vos = range(len(self.shares))
        row = [
            math.log1p(sum(left)) / 16,
            math.log1p(min(left, default=0.0)) / 12,
            math.log1p(sum(map(self.expected, self.waiting))) / 16,
            (self.pool - len(self.running)) / self.cores,
        ]
        row += [sum(other.vo == vo for other in self.waiting) / len(self.waiting) for vo in vos]
        row += [float(job.interactive), *(float(job.vo == vo) for vo in list(vos)[:-1])]
        row.append(math.log1p(self.expected(job)) / 12)
        if self.elastic:
            row.append(size / self.cores)
        return row

    def deficit(self, vo: int) -> float:
        """Return the deficit of a VO: its target share minus its share of the service."""
        total = sum(map(self.service, range(len(self.shares))))
        return self.shares[vo] - (self.service(vo) / total if total else self.shares[vo])


def reference_choice(site: ReferenceSite, rule: str) -> int:
    """Return the place of the waiting job that a rule starts, -1 for none; ties go to the first."""

    def first_vo(job: ReferenceJob) -> float:
        anything = any(site.service(vo) for vo in range(len(site.shares)))
        lacking = {
            other.vo: site.deficit(other.vo) if anything else site.shares[other.vo] for other in site.waiting
        }
        neediest = min(lacking, key=lambda vo: (-lacking[vo], vo))
        return float(job.vo != neediest)

    def running_of(job: ReferenceJob) -> int:
        return sum(other.user == job.user for other in site.running)

    scores: dict[str, Callable[[ReferenceJob], Any]] = {
        "fcfs": lambda job: 0.0,
        "sjf": site.expected,
        "interactive_first": lambda job: float(not job.interactive),
        "edf": lambda job: job.submit + 2.0 * site.expected(job),
        "longest_ratio": lambda job: -(site.now - job.submit) / site.expected(job),
        "fair_share": first_vo,
        "lifo": lambda job: -float(job.submit),
        "youngest_interactive": lambda job: (not job.interactive, -job.submit),
        "fair_index": lambda job: site.expected_of_vo(job) + site.now - job.submit,
        "capped_fcfs": lambda job: float(running_of(job) >= site.cap),
    }
    values = [scores[rule](job) for job in site.waiting]
    if rule == "fair_index":
        values = [float(np.floor(value * 1e9 + 0.5)) for value in values]
    if rule == "capped_fcfs" and min(values) > 0:
        return -1
    return values.index(min(values))
